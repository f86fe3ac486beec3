//! Values that stay as they are beyond the latch under which they were found.

use super::found::Entry;
use crate::dram::LargeValue;
use crate::shared_value::SharedValue;

/// A long value, which never changes: a write puts another one in its place. Holding it copies nothing and keeps its memory, whatever
/// becomes of the key.
#[derive(Debug)]
pub struct HeldValue(Held);

#[derive(Debug)]
enum Held {
    Shared(SharedValue),
    Large(LargeValue),
}

impl std::ops::Deref for HeldValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Shared(value) => value.bytes(),
            Held::Large(value) => value.bytes(),
        }
    }
}

impl Entry<'_> {
    /// The value, to be read without the latch; `None` where it has no block of its own, or one that may change (E1).
    #[must_use]
    pub fn held(&self) -> Option<HeldValue> {
        let entry = self.in_memory()?;
        let held = match entry.shared() {
            Some(value) => value.never_changes().then_some(Held::Shared(value)),
            None => entry.large_value().map(Held::Large),
        };
        held.map(HeldValue)
    }
}
