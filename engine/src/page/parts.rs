//! The few parts of a collection, without memory of their own.

use super::descriptor::{PARTS_MAX, Part};
use super::store::PartKind;
use std::ops::{Deref, DerefMut};

const NO_PART: Part = Part { kind: PartKind::Hash, flags: 0, pages: 0, a: 0, b: 0 };

/// At most [`PARTS_MAX`] parts.
#[derive(Clone, Copy)]
pub struct Parts {
    len: usize,
    parts: [Part; PARTS_MAX],
}

impl Parts {
    /// One more.
    ///
    /// # Panics
    /// With [`PARTS_MAX`] there already.
    pub fn push(&mut self, part: Part) {
        self.parts[self.len] = part;
        self.len += 1;
    }

    /// Without those of a kind.
    pub(super) fn remove(&mut self, kind: PartKind) {
        *self = self.iter().filter(|part| part.kind != kind).copied().collect();
    }
}

impl Default for Parts {
    fn default() -> Self {
        Self { len: 0, parts: [NO_PART; PARTS_MAX] }
    }
}

impl Deref for Parts {
    type Target = [Part];

    #[inline]
    fn deref(&self) -> &[Part] {
        &self.parts[..self.len]
    }
}

impl DerefMut for Parts {
    fn deref_mut(&mut self) -> &mut [Part] {
        &mut self.parts[..self.len]
    }
}

impl FromIterator<Part> for Parts {
    fn from_iter<I: IntoIterator<Item = Part>>(parts: I) -> Self {
        let mut all = Self::default();
        parts.into_iter().for_each(|part| all.push(part));
        all
    }
}

impl From<Vec<Part>> for Parts {
    fn from(parts: Vec<Part>) -> Self {
        parts.into_iter().collect()
    }
}

impl<const N: usize> From<[Part; N]> for Parts {
    fn from(parts: [Part; N]) -> Self {
        parts.into_iter().collect()
    }
}

impl PartialEq for Parts {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Parts {}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
