//! Hashes.

use super::{Edit, Encoding, HEAD_BYTES, Parts, Thresholds, empty, packed, set_encoding, set_len};
use crate::keyspace::Kind;
use crate::value::ValueType;
use sexton_engine::{Entry, Meta};
use std::ops::Range;

/// The type of hashes, for a look-up.
#[derive(Clone, Copy, Debug)]
pub struct Hashes;

impl Kind for Hashes {
    type View<'v> = HashView<'v>;

    fn view(entry: Entry<'_>) -> Option<HashView<'_>> {
        Parts::of_entry(entry, ValueType::Hash).map(HashView)
    }
}

/// The hash that a key holds.
#[derive(Clone, Copy)]
pub struct HashView<'v>(Parts<'v>);

impl<'v> HashView<'v> {
    /// `None` for a value of another type.
    #[must_use]
    pub fn of(meta: Meta, value: &'v [u8]) -> Option<Self> {
        Parts::of(meta, value, ValueType::Hash).map(Self)
    }

    /// Fields.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len
    }

    /// When it expires, in milliseconds since the epoch; 0 for never.
    #[must_use]
    pub fn expire_at_ms(&self) -> u64 {
        self.0.meta.expire_at_ms
    }

    /// What OBJECT ENCODING answers.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.0.encoding
    }

    /// Fields and values in the order in which the fields came.
    pub fn iter(&self) -> impl Iterator<Item = (&'v [u8], &'v [u8])> + Clone + use<'v> {
        let mut items = packed::Items::new(self.0.content());
        std::iter::from_fn(move || Some((items.next()?, items.next()?)))
    }

    /// The value of `field`.
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<&'v [u8]> {
        self.iter().find(|(name, _)| *name == field).map(|(_, value)| value)
    }

    /// A copy to change.
    #[must_use]
    pub fn edit(&self) -> HashEdit {
        HashEdit { bytes: self.0.value.to_vec(), len: self.0.len, encoding: self.0.encoding }
    }
}

/// A hash that is being changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashEdit {
    bytes: Vec<u8>,
    len: usize,
    encoding: Encoding,
}

impl Default for HashEdit {
    fn default() -> Self {
        Self { bytes: empty(Encoding::Listpack), len: 0, encoding: Encoding::Listpack }
    }
}

impl Edit for HashEdit {
    const TYPE: ValueType = ValueType::Hash;

    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl HashEdit {
    /// One of `pairs`, each of whose fields is there once; `None` when one is there twice.
    pub fn of_distinct<'p>(
        pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>,
        thresholds: &Thresholds,
    ) -> Option<Self> {
        let mut hash = Self::default();
        let mut seen = std::collections::HashSet::new();
        for (field, value) in pairs {
            if !seen.insert(field) {
                return None;
            }
            hash.append(field, value);
            hash.note_size(field, value, thresholds);
        }
        Some(hash)
    }

    /// The same, to read from.
    #[must_use]
    pub fn view(&self) -> HashView<'_> {
        HashView(Parts {
            meta: Self::expiring_at(0),
            value: &self.bytes,
            encoding: self.encoding,
            len: self.len,
        })
    }

    /// Sets `field`; true when it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], thresholds: &Thresholds) -> bool {
        let place = self.place_of(field);
        let is_new = place.is_none();
        match place {
            Some(place) => {
                let mut pair = Vec::with_capacity(field.len() + value.len() + 10);
                packed::push(&mut pair, field);
                packed::push(&mut pair, value);
                super::splice(&mut self.bytes, place, &pair);
            }
            None => self.append(field, value),
        }
        self.note_size(field, value, thresholds);
        is_new
    }

    fn append(&mut self, field: &[u8], value: &[u8]) {
        packed::push(&mut self.bytes, field);
        packed::push(&mut self.bytes, value);
        self.set_len(self.len + 1);
    }

    fn note_size(&mut self, field: &[u8], value: &[u8], thresholds: &Thresholds) {
        let longest = field.len().max(value.len()) as u64;
        if self.len as u64 > thresholds.hash_entries || longest > thresholds.hash_value_bytes {
            self.encoding = Encoding::Hashtable;
            set_encoding(&mut self.bytes, Encoding::Hashtable);
        }
    }

    /// Removes `field`; false when it is not there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let Some(place) = self.place_of(field) else { return false };
        super::splice(&mut self.bytes, place, b"");
        self.set_len(self.len - 1);
        true
    }

    fn set_len(&mut self, len: usize) {
        self.len = len;
        set_len(&mut self.bytes, len);
    }

    /// Where field and value lie in the value.
    fn place_of(&self, field: &[u8]) -> Option<Range<usize>> {
        let end = self.bytes.len();
        let mut items = packed::Items::new(&self.bytes[HEAD_BYTES..]);
        loop {
            let start = end - items.bytes_left();
            let name = items.next()?;
            items.next()?;
            if name == field {
                return Some(start..end - items.bytes_left());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::collection::tests_thresholds;

    #[test]
    fn fields_are_set_overwritten_and_removed() {
        let thresholds = tests_thresholds();
        let mut hash = HashEdit::default();
        assert!(hash.set(b"a", b"1", &thresholds));
        assert!(hash.set(b"b", b"2", &thresholds));
        assert!(!hash.set(b"a", b"longer", &thresholds));
        assert_eq!(hash.view().get(b"a"), Some(b"longer".as_slice()));
        assert!(hash.remove(b"a"));
        assert!(!hash.remove(b"a"));
        let pairs: Vec<_> = hash.view().iter().collect();
        assert_eq!(pairs, [(b"b".as_slice(), b"2".as_slice())]);
        assert_eq!(hash.view().encoding(), Encoding::Listpack);
        assert!(hash.remove(b"b"));
        assert!(hash.is_empty());
    }

    #[test]
    fn a_long_value_or_many_fields_make_it_a_hashtable_for_good() {
        let thresholds = tests_thresholds();
        let mut hash = HashEdit::default();
        hash.set(b"a", &[b'x'; 65], &thresholds);
        assert_eq!(hash.view().encoding(), Encoding::Hashtable);
        hash.set(b"a", b"", &thresholds);
        assert_eq!(hash.view().encoding(), Encoding::Hashtable);
        let mut many = HashEdit::default();
        for number in 0..=thresholds.hash_entries {
            assert_eq!(many.view().encoding(), Encoding::Listpack);
            many.set(number.to_string().as_bytes(), b"", &thresholds);
        }
        assert_eq!(many.view().encoding(), Encoding::Hashtable);
    }
}
