//! Hashes.

use super::{
    ByName, Edit, Encoding, Field, HEAD_BYTES, HashFields, Names, Parts, Thresholds, empty, packed,
    set_encoding, set_len,
};
use crate::keyspace::Kind;
use crate::value::{EXPIRING_HASH, ValueType};
use sexton_engine::{Entry, Meta};
use std::ops::Range;

/// Most bytes of the length before a packed byte string.
const LENGTH_BYTES: usize = 5;

/// Up to this many fields are set or removed one by one. For more, the hash is rewritten in one pass.
const FEW_FIELDS: usize = 8;

/// The type of hashes, for a look-up.
#[derive(Clone, Copy, Debug)]
pub struct Hashes;

impl Kind for Hashes {
    const TYPE: ValueType = ValueType::Hash;
    type View<'v> = HashView<'v>;

    fn view(entry: Entry<'_>) -> Option<HashView<'_>> {
        HashView::of(entry.meta(), entry.value())
    }
}

/// Bytes before the fields where some expire.
const EXPIRING_HEAD_BYTES: usize = HEAD_BYTES + 8;

/// The hash that a key holds.
#[derive(Clone, Copy)]
pub struct HashView<'v> {
    parts: Parts<'v>,
    /// The fields with their values and times.
    content: &'v [u8],
    /// Each has a due time, which may be empty.
    has_times: bool,
}

impl<'v> HashView<'v> {
    /// `None` for a value of another type.
    #[must_use]
    pub fn of(meta: Meta, value: &'v [u8]) -> Option<Self> {
        let parts = Parts::of(meta, value, ValueType::Hash)?;
        let has_times = meta.has_due_elements();
        let head_bytes = if has_times { EXPIRING_HEAD_BYTES } else { HEAD_BYTES };
        Some(Self { parts, content: value.get(head_bytes..)?, has_times })
    }

    /// Fields.
    #[must_use]
    pub fn count(&self) -> usize {
        self.parts.len
    }

    /// When it expires, in milliseconds since the epoch; 0 for never.
    #[must_use]
    pub fn expire_at_ms(&self) -> u64 {
        self.parts.meta.expire_at_ms
    }

    /// What OBJECT ENCODING answers.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.parts.encoding
    }

    /// True when some of its fields expire.
    #[must_use]
    pub fn has_times(&self) -> bool {
        self.has_times
    }

    /// Fields and values in insertion order of the fields.
    pub fn iter(&self) -> impl Iterator<Item = (&'v [u8], &'v [u8])> + Clone + use<'v> {
        let (mut items, has_times) = (packed::Items::new(self.content), self.has_times);
        std::iter::from_fn(move || {
            let pair = (items.next()?, items.next()?);
            if has_times {
                items.next()?;
            }
            Some(pair)
        })
    }

    /// The fields with their due times.
    pub fn fields(&self) -> impl Iterator<Item = Field<'v>> + Clone + use<'v> {
        let (mut items, has_times) = (packed::Items::new(self.content), self.has_times);
        std::iter::from_fn(move || {
            let (name, value) = (items.next()?, items.next()?);
            let time = if has_times { items.next()? } else { b"" };
            let due_ms = time.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            Some(Field { name, value, due_ms })
        })
    }

    /// The names of the fields that have expired at `now_ms`, and the hash without them.
    #[must_use]
    pub fn without_due(&self, now_ms: u64) -> (Vec<&'v [u8]>, HashEdit) {
        let is_due = |field: &Field<'_>| field.due_ms != 0 && field.due_ms <= now_ms;
        let gone: Vec<_> = self.fields().filter(is_due).map(|field| field.name).collect();
        let left = self.fields().filter(|field| !is_due(field));
        (gone, HashEdit::of_fields(left, self.encoding()))
    }

    /// The value of `field`.
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<&'v [u8]> {
        self.iter().find(|(name, _)| *name == field).map(|(_, value)| value)
    }

    /// A copy to edit, with room for one additional pair of `more_bytes` bytes.
    #[must_use]
    pub fn edit(&self, more_bytes: usize) -> HashEdit {
        let Parts { value, len, encoding, .. } = self.parts;
        let mut bytes = Vec::with_capacity(value.len() + more_bytes + 2 * LENGTH_BYTES);
        bytes.extend_from_slice(value);
        HashEdit { bytes, len, encoding, has_times: self.has_times }
    }
}

/// A hash that is being changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashEdit {
    bytes: Vec<u8>,
    len: usize,
    encoding: Encoding,
    /// Some fields expire.
    has_times: bool,
}

/// The positions in the root record's value where a field and its value begin, both packed.
struct Place {
    start: usize,
    value: Range<usize>,
}

impl Default for HashEdit {
    fn default() -> Self {
        Self::empty(Encoding::Listpack)
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

    fn meta(&self, expire_at_ms: u64) -> Meta {
        let flags = if self.has_times { EXPIRING_HASH } else { ValueType::Hash as u8 };
        Meta { flags, expire_at_ms }
    }
}

impl HashEdit {
    fn empty(encoding: Encoding) -> Self {
        Self { bytes: empty(encoding), len: 0, encoding, has_times: false }
    }

    /// A hash of these fields, whose names differ. As in Redis, a hash with due times is not compact, and stays so without them.
    pub fn of_fields<'p>(
        fields: impl Iterator<Item = Field<'p>> + Clone,
        encoding: Encoding,
    ) -> Self {
        let earliest_ms = fields.clone().map(|field| field.due_ms).filter(|&ms| ms != 0).min();
        let Some(earliest_ms) = earliest_ms else {
            let mut hash = Self::empty(encoding);
            fields.for_each(|field| hash.append(field.name, field.value));
            return hash;
        };
        let mut hash = Self::expiring(earliest_ms);
        fields.for_each(|field| hash.push_field(field));
        hash
    }

    /// An empty one for fields the first of which is due then; 0 for fields without due times.
    #[must_use]
    pub fn expiring(earliest_ms: u64) -> Self {
        let mut hash = Self { has_times: earliest_ms != 0, ..Self::empty(Encoding::Hashtable) };
        if hash.has_times {
            hash.bytes.extend_from_slice(&earliest_ms.to_le_bytes());
        }
        hash
    }

    /// Adds a field that is not there, to one without due times or to one that was made for them.
    pub fn push_field(&mut self, Field { name, value, due_ms }: Field<'_>) {
        self.append(name, value);
        if self.has_times {
            let time = due_ms.to_le_bytes();
            packed::push(&mut self.bytes, if due_ms == 0 { b"" } else { &time });
        }
    }

    /// The value of its root record.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A hash of `pairs` with distinct fields; `None` if a field is repeated.
    pub fn of_distinct<'p>(
        pairs: impl Iterator<Item = (&'p [u8], &'p [u8])>,
        thresholds: &Thresholds,
    ) -> Option<Self> {
        let mut hash = Self::default();
        let mut seen = Names::default();
        for (field, value) in pairs {
            if !seen.insert(field) {
                return None;
            }
            hash.append(field, value);
            hash.note_size(field, value, thresholds);
        }
        Some(hash)
    }

    /// True when some of its fields expire.
    #[must_use]
    pub fn has_times(&self) -> bool {
        self.has_times
    }

    /// A read-only view of the edited hash.
    #[must_use]
    pub fn view(&self) -> HashView<'_> {
        let (encoding, len, has_times) = (self.encoding, self.len, self.has_times);
        let parts = Parts { meta: self.meta(0), value: &self.bytes, encoding, len };
        let head_bytes = if has_times { EXPIRING_HEAD_BYTES } else { HEAD_BYTES };
        HashView { parts, content: &self.bytes[head_bytes..], has_times }
    }

    /// Sets `field`, which never expires from now on; true when it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], thresholds: &Thresholds) -> bool {
        if self.has_times {
            let old = std::mem::take(self);
            let mut fields = HashFields::of(&old.view(), 1);
            let is_new = fields.set(field, value, 0);
            *self = fields.into_edit(thresholds);
            return is_new;
        }
        self.set_plain(field, value, thresholds)
    }

    /// Sets the value of `field`, which expires when it did before.
    pub fn set_value(&mut self, field: &[u8], value: &[u8], thresholds: &Thresholds) {
        if self.has_times {
            let old = std::mem::take(self);
            let mut fields = HashFields::of(&old.view(), 1);
            let due_ms = fields.get(field).map_or(0, |field| field.due_ms);
            fields.set(field, value, due_ms);
            *self = fields.into_edit(thresholds);
            return;
        }
        self.set_plain(field, value, thresholds);
    }

    fn set_plain(&mut self, field: &[u8], value: &[u8], thresholds: &Thresholds) -> bool {
        let place = self.place_of(field);
        let is_new = place.is_none();
        match place {
            Some(Place { value: old, .. }) => {
                let mut packed = Vec::with_capacity(value.len() + LENGTH_BYTES);
                packed::push(&mut packed, value);
                super::splice(&mut self.bytes, old, &packed);
            }
            None => self.append(field, value),
        }
        self.note_size(field, value, thresholds);
        is_new
    }

    /// Sets several fields, one after the other; how many are new.
    pub fn set_all<'p>(
        &mut self,
        pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])> + Clone,
        thresholds: &Thresholds,
    ) -> usize {
        if self.has_times {
            let old = std::mem::take(self);
            let mut fields = HashFields::of(&old.view(), pairs.len());
            let added = pairs.filter(|(field, value)| fields.set(field, value, 0)).count();
            *self = fields.into_edit(thresholds);
            return added;
        }
        if pairs.len() <= FEW_FIELDS {
            return pairs.filter(|(field, value)| self.set(field, value, thresholds)).count();
        }
        let mut last: ByName<'_, &[u8]> = pairs.clone().collect();
        let old = std::mem::take(self);
        // A value above a threshold counts even if a later value of the field is shorter.
        self.bytes.reserve(
            old.bytes.len() + pairs.clone().map(|(f, v)| f.len() + v.len() + 2).sum::<usize>(),
        );
        self.encoding = old.encoding;
        set_encoding(&mut self.bytes, old.encoding);
        for (field, value) in old.view().iter() {
            self.append(field, last.remove(field).unwrap_or(value));
        }
        let before = self.len;
        for (field, value) in pairs {
            if let Some(value) = last.remove(field) {
                self.append(field, value);
            }
            self.note_size(field, value, thresholds);
        }
        self.len - before
    }

    fn append(&mut self, field: &[u8], value: &[u8]) {
        packed::push(&mut self.bytes, field);
        packed::push(&mut self.bytes, value);
        self.set_len(self.len + 1);
    }

    pub(super) fn note_size(&mut self, field: &[u8], value: &[u8], thresholds: &Thresholds) {
        let longest = field.len().max(value.len()) as u64;
        if self.len as u64 > thresholds.hash_entries || longest > thresholds.hash_value_bytes {
            self.encoding = Encoding::Hashtable;
            set_encoding(&mut self.bytes, Encoding::Hashtable);
        }
    }

    /// Removes `field`; false when it is not there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        if self.has_times {
            let before = self.len;
            self.remove_all(std::iter::once(field));
            return self.len < before;
        }
        let Some(Place { start, value }) = self.place_of(field) else { return false };
        super::splice(&mut self.bytes, start..value.end, b"");
        self.set_len(self.len - 1);
        true
    }

    /// Removes several fields.
    pub fn remove_all<'f>(&mut self, fields: impl ExactSizeIterator<Item = &'f [u8]>) {
        if self.has_times {
            let gone: Names<&[u8]> = fields.collect();
            let old = std::mem::take(self);
            let left = old.view();
            let left = left.fields().filter(|field| !gone.contains(field.name));
            *self = Self::of_fields(left, old.encoding);
            return;
        }
        if fields.len() <= FEW_FIELDS {
            return fields.for_each(|field| _ = self.remove(field));
        }
        let gone: Names<&[u8]> = fields.collect();
        let old = std::mem::take(self);
        self.bytes.reserve(old.bytes.len());
        self.encoding = old.encoding;
        set_encoding(&mut self.bytes, old.encoding);
        for (field, value) in old.view().iter().filter(|(field, _)| !gone.contains(field)) {
            self.append(field, value);
        }
    }

    fn set_len(&mut self, len: usize) {
        self.len = len;
        set_len(&mut self.bytes, len);
    }

    fn place_of(&self, field: &[u8]) -> Option<Place> {
        let end = self.bytes.len();
        let mut items = packed::Items::new(&self.bytes[HEAD_BYTES..]);
        loop {
            let start = end - items.bytes_left();
            let name = items.next()?;
            let value = end - items.bytes_left();
            items.next()?;
            if name == field {
                return Some(Place { start, value: value..end - items.bytes_left() });
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

    #[test]
    fn many_fields_at_once_are_what_one_after_the_other_is() {
        let thresholds = tests_thresholds();
        let long = "x".repeat(65);
        for (fields, value) in [(3, "v"), (40, "v"), (40, long.as_str())] {
            let words: Vec<(String, String)> = (0..fields)
                .map(|number| (format!("{}", number * 7 % 30), format!("{value}{number}")))
                .chain([("7".to_owned(), String::new())])
                .collect();
            let pairs = words.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes()));
            let (mut one_by_one, mut at_once) = (HashEdit::default(), HashEdit::default());
            for hash in [&mut one_by_one, &mut at_once] {
                hash.set(b"14", b"old", &thresholds);
                hash.set(b"other", b"old", &thresholds);
            }
            let added = pairs.clone().filter(|(f, v)| one_by_one.set(f, v, &thresholds)).count();
            assert_eq!(at_once.set_all(pairs.clone(), &thresholds), added);
            assert_eq!(at_once, one_by_one);
            let gone: Vec<&[u8]> =
                pairs.map(|(field, _)| field).chain([b"no".as_slice()]).collect();
            gone.iter().for_each(|field| _ = one_by_one.remove(field));
            at_once.remove_all(gone.into_iter());
            assert_eq!(at_once, one_by_one);
            assert_eq!(at_once.len(), 1);
        }
    }
}
