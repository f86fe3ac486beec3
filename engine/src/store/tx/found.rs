//! What a transaction finds: values as commands look at them.

use crate::dram::EntryRef;
use crate::key::Meta;

/// A value as a command looks at it: an entry found in memory, valid while its latch is held, or what a
/// snapshot saw, or what its user makes of it.
#[derive(Clone, Copy)]
pub struct Entry<'a>(EntryOf<'a>);

#[derive(Clone, Copy)]
enum EntryOf<'a> {
    Table(EntryRef<'a>),
    Past { meta: Meta, value: &'a [u8], access: u32 },
}

impl<'a> Entry<'a> {
    pub(super) fn in_table(entry: EntryRef<'a>) -> Self {
        Self(EntryOf::Table(entry))
    }

    pub(in crate::store) fn past(meta: Meta, value: &'a [u8]) -> Self {
        Self(EntryOf::Past { meta, value, access: 0 })
    }

    /// This entry with another value: a paged collection, as its user presents it.
    #[must_use]
    pub fn with_value<'v>(&self, meta: Meta, value: &'v [u8]) -> Entry<'v> {
        Entry(EntryOf::Past { meta, value, access: self.access() })
    }

    /// Flags and expiry.
    #[must_use]
    pub fn meta(&self) -> Meta {
        match self.0 {
            EntryOf::Table(entry) => entry.meta(),
            EntryOf::Past { meta, .. } => meta,
        }
    }

    /// The value's bytes.
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        match self.0 {
            EntryOf::Table(entry) => entry.value(),
            EntryOf::Past { value, .. } => value,
        }
    }

    /// The entry in the table, where it is one.
    pub(super) fn in_memory(&self) -> Option<EntryRef<'a>> {
        match self.0 {
            EntryOf::Table(entry) => Some(entry),
            EntryOf::Past { .. } => None,
        }
    }

    /// True when its time has come at `now_ms`, or that of an element of it.
    #[must_use]
    #[inline]
    pub fn is_due(&self, now_ms: u64) -> bool {
        let meta = self.meta();
        if meta.has_due_elements() {
            meta.is_due(self.value(), now_ms)
        } else {
            meta.is_expired(now_ms)
        }
    }

    /// The 24-bit access field, whose meaning is the caller's (LRU seconds, LFU counter); 0 in the past.
    #[must_use]
    pub fn access(&self) -> u32 {
        match self.0 {
            EntryOf::Table(entry) => entry.access(),
            EntryOf::Past { access, .. } => access,
        }
    }

    /// Sets the access field where it is in memory: the past has none.
    pub fn set_access(&self, access: u32) {
        if let EntryOf::Table(entry) = self.0 {
            entry.set_access(access);
        }
    }
}

/// Answer of a look-up under the latch. Expiry is not looked at: an expired entry is `Live`.
#[derive(Clone, Copy)]
pub enum Found<'a> {
    /// The key has a value, and it is in memory.
    Live(Entry<'a>),
    /// The key has no value.
    Absent,
    /// The key may have a value on a device: [`crate::Engine::load`] it, then look again.
    Cold,
}
