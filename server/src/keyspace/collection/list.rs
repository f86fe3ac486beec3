//! Lists.

use super::{Edit, Encoding, HEAD_BYTES, Parts, empty, packed, set_len, splice};
use crate::keyspace::Kind;
use crate::value::ValueType;
use sexton_engine::{Entry, Meta};
use std::ops::Range;

/// The type of lists, for a look-up.
#[derive(Clone, Copy, Debug)]
pub struct Lists;

impl Kind for Lists {
    const TYPE: ValueType = ValueType::List;
    type View<'v> = ListView<'v>;

    fn view(entry: Entry<'_>) -> Option<ListView<'_>> {
        Parts::of_entry(entry, ValueType::List).map(ListView)
    }
}

/// The list that a key holds.
#[derive(Clone, Copy)]
pub struct ListView<'v>(Parts<'v>);

impl<'v> ListView<'v> {
    /// `None` for a value of another type.
    #[must_use]
    pub fn of(meta: Meta, value: &'v [u8]) -> Option<Self> {
        Parts::of(meta, value, ValueType::List).map(Self)
    }

    /// Elements.
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

    /// Elements from left to right.
    #[must_use]
    pub fn iter(&self) -> packed::Items<'v> {
        packed::Items::new(self.0.content())
    }

    /// A copy to change.
    #[must_use]
    pub fn edit(&self) -> ListEdit {
        ListEdit { bytes: self.0.value.to_vec(), len: self.0.len }
    }
}

/// A list that is being changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEdit {
    bytes: Vec<u8>,
    len: usize,
}

impl Default for ListEdit {
    fn default() -> Self {
        Self { bytes: empty(Encoding::Quicklist), len: 0 }
    }
}

impl Edit for ListEdit {
    const TYPE: ValueType = ValueType::List;

    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl ListEdit {
    /// A read-only view of the edited list.
    #[must_use]
    pub fn view(&self) -> ListView<'_> {
        ListView(Parts {
            meta: Self::expiring_at(0),
            value: &self.bytes,
            encoding: Encoding::Quicklist,
            len: self.len,
        })
    }

    /// Appends an element on the right.
    pub fn push_right(&mut self, element: &[u8]) {
        packed::push(&mut self.bytes, element);
        self.set_len(self.len + 1);
    }

    /// Inserts `elements`, in order, before the element at `index` (the length: at the end).
    pub fn insert<'e>(&mut self, index: usize, elements: impl Iterator<Item = &'e [u8]>) {
        let place = self.place_of(index).map_or(self.bytes.len(), |place| place.start);
        let (mut new, mut count) = (Vec::new(), 0);
        for element in elements {
            packed::push(&mut new, element);
            count += 1;
        }
        splice(&mut self.bytes, place..place, &new);
        self.set_len(self.len + count);
    }

    /// Replaces the element at `index`; false when there is none.
    pub fn set(&mut self, index: usize, element: &[u8]) -> bool {
        let Some(place) = self.place_of(index) else { return false };
        let mut new = Vec::new();
        packed::push(&mut new, element);
        splice(&mut self.bytes, place, &new);
        true
    }

    /// Removes the elements at `range`, which must be within the list.
    pub fn remove(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let Some(first) = self.place_of(range.start) else { return };
        let mut items = packed::Items::new(&self.bytes[first.start..]);
        let count = range.len().min(self.len - range.start);
        for _ in 0..count {
            items.next();
        }
        let end = self.bytes.len() - items.bytes_left();
        splice(&mut self.bytes, first.start..end, b"");
        self.set_len(self.len - count);
    }

    fn set_len(&mut self, len: usize) {
        self.len = len;
        set_len(&mut self.bytes, len);
    }

    /// The byte range of the element at `index` in the value.
    fn place_of(&self, index: usize) -> Option<Range<usize>> {
        let end = self.bytes.len();
        let mut items = packed::Items::new(&self.bytes[HEAD_BYTES..]);
        for _ in 0..index {
            items.next()?;
        }
        let start = end - items.bytes_left();
        items.next()?;
        Some(start..end - items.bytes_left())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(list: &ListEdit) -> Vec<&[u8]> {
        list.view().iter().collect()
    }

    #[test]
    fn elements_are_inserted_replaced_and_removed() {
        let mut list = ListEdit::default();
        list.push_right(b"b");
        list.push_right(b"d");
        list.insert(0, [b"a".as_slice()].into_iter());
        list.insert(2, [b"c".as_slice()].into_iter());
        list.insert(4, [b"e".as_slice(), b"f"].into_iter());
        assert_eq!(elements(&list), [b"a", b"b", b"c", b"d", b"e", b"f"]);
        assert!(list.set(1, b"second"));
        assert!(!list.set(6, b"none"));
        list.remove(2..5);
        assert_eq!(elements(&list), [b"a".as_slice(), b"second", b"f"]);
        assert_eq!(list.len(), 3);
        list.remove(0..3);
        assert!(list.is_empty());
    }
}
