//! A page of a hash or set: its keys, by their hash, with or without values.
//!
//! | form | when | payload behind the head |
//! |---|---|---|
//! | integers | set, all keys are integers when the page is built | width u8, integers ascending |
//! | bare | at most [`BARE_MAX`] entries when they came | entries in the order in which they came |
//! | tagged | above | tags, offsets, entries in the order in which they came |
//!
//! An entry is `key length | value length (pairs only) | due time (where entries have some) | key | value`. A tag is the
//! highest byte of the key's hash. A key occurs once in a page. Long values have pages of their own: [`super::external`].
//! A page gets due times with the first key that has one, and keeps them until it is rebuilt without.

use super::bytes::{
    self, FLAG_BARE, FLAG_INTEGERS, FLAG_PAIRS, FLAG_TIMES, FLAG_WIDE, HEAD_BYTES, Offsets,
    PAGE_ELEMENTS_MAX, damage, len_at, short_len, u64_at,
};
use super::external::{Length, Reference, Stored};
use super::ints::{self, IntegerText};
use super::store::{Damage, PageEdit};
use super::times::{TIME_BYTES, earlier};
use std::ops::Range;

/// Most entries without tags and offsets.
pub const BARE_MAX: usize = 16;

/// A tagged page that shrinks to this many entries drops its tags.
const BARE_AGAIN: usize = 8;

/// A key, as a page holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKey<'p> {
    /// Its bytes.
    Bytes(&'p [u8]),
    /// The integer whose text it is.
    Integer(i64),
}

impl<'p> PageKey<'p> {
    /// Its bytes; `text` is room for those of an integer.
    pub fn bytes<'t>(&self, text: &'t mut IntegerText) -> &'t [u8]
    where
        'p: 't,
    {
        match *self {
            Self::Bytes(bytes) => bytes,
            Self::Integer(integer) => text.of(integer),
        }
    }

    fn integer(&self) -> Option<i64> {
        match *self {
            Self::Bytes(bytes) => ints::integer_of(bytes),
            Self::Integer(integer) => Some(integer),
        }
    }
}

/// A key, its value, which is none in a set, and when it is due; 0 for never.
pub type PageEntry<'p> = (PageKey<'p>, Stored<'p>, u64);

/// Most bytes by which a page grows that gets due times.
pub(super) const TIMES_MAX_BYTES: usize = TIME_BYTES * (PAGE_ELEMENTS_MAX + 1);

/// The value of a set's key.
pub const NO_VALUE: Stored<'static> = Stored::Here(&[]);

/// Position of a key in its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of entries before it.
    index: usize,
    entry: Range<usize>,
    /// The length of the value; nothing in a set.
    value_len: Range<usize>,
    /// Behind that length, if entries have due times, and behind them the key.
    time: Range<usize>,
    value: Range<usize>,
    external: Option<Reference>,
    due_ms: u64,
}

impl Place {
    /// When the key is due; 0 for never.
    #[must_use]
    pub fn due_ms(&self) -> u64 {
        self.due_ms
    }
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Bare,
    Tagged(Offsets),
    Integers { width: usize },
}

/// A page's payload, being read.
#[derive(Clone, Copy, Debug)]
pub struct HashPage<'p> {
    payload: &'p [u8],
    len: usize,
    pairs: bool,
    has_times: bool,
    form: Form,
}

impl<'p> HashPage<'p> {
    /// Parses the head. Whether entries are within the payload is checked when they are read.
    pub fn parse(payload: &'p [u8]) -> Result<Self, Damage> {
        let known = FLAG_BARE | FLAG_INTEGERS | FLAG_PAIRS | FLAG_TIMES | FLAG_WIDE;
        let (len, flags) = bytes::head(payload, known)?;
        let (pairs, wide) = (flags & FLAG_PAIRS != 0, flags & FLAG_WIDE != 0);
        let has_times = flags & FLAG_TIMES != 0;
        if has_times && !pairs {
            return damage(2, "due times of entries with values");
        }
        let form = match (flags & FLAG_BARE != 0, flags & FLAG_INTEGERS != 0) {
            (true, false) if !wide => Form::Bare,
            (false, true) if !wide && !pairs => {
                let width = match payload.get(HEAD_BYTES) {
                    Some(width @ (2 | 4 | 8)) => *width as usize,
                    _ => return damage(HEAD_BYTES, "width of integers"),
                };
                if payload.len() != HEAD_BYTES + 1 + len * width {
                    return damage(payload.len(), "integers");
                }
                Form::Integers { width }
            }
            (false, false) => {
                let offsets = Offsets { at: HEAD_BYTES + len, len, wide };
                if offsets.heap() > payload.len() {
                    return damage(payload.len(), "tags and offsets");
                }
                Form::Tagged(offsets)
            }
            _ => return damage(2, "flags of one form"),
        };
        Ok(Self { payload, len, pairs, has_times, form })
    }

    /// Entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the payload.
    pub(super) fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// True if entries have values.
    #[must_use]
    pub fn has_values(&self) -> bool {
        self.pairs
    }

    /// Position of the key. `hash` is its hash.
    pub fn find(&self, key: &[u8], hash: u64) -> Result<Option<Place>, Damage> {
        match self.form {
            Form::Integers { width } => {
                let Some(integer) = ints::integer_of(key) else { return Ok(None) };
                Ok(self.search(width, integer).ok().map(|index| self.integer_place(width, index)))
            }
            Form::Bare => {
                let mut at = HEAD_BYTES;
                for index in 0..self.len {
                    let (own, end) = self.key_and_end(at)?;
                    if own == key {
                        return self.place(index, at).map(Some);
                    }
                    at = end;
                }
                Ok(None)
            }
            Form::Tagged(offsets) => {
                let tag = tag_of(hash);
                let tags = &self.payload[HEAD_BYTES..offsets.at];
                for (index, _) in tags.iter().enumerate().filter(|(_, other)| **other == tag) {
                    let place = self.place(index, offsets.start(self.payload, index)?)?;
                    if self.key_at(&place) == key {
                        return Ok(Some(place));
                    }
                }
                Ok(None)
            }
        }
    }

    /// The value at a place that [`find`](Self::find) gave.
    #[must_use]
    pub fn value(&self, place: &Place) -> Stored<'p> {
        match place.external {
            Some(reference) => Stored::External(reference),
            None => Stored::Here(&self.payload[place.value.clone()]),
        }
    }

    /// Entry number `index`, which is below [`len`](Self::len).
    pub fn entry(&self, index: usize) -> Result<PageEntry<'p>, Damage> {
        match self.form {
            Form::Integers { width } => {
                Ok((PageKey::Integer(self.integer(width, index)), NO_VALUE, 0))
            }
            Form::Tagged(offsets) => {
                Ok(self.entry_at(&self.place(index, offsets.start(self.payload, index)?)?))
            }
            Form::Bare => match self.entries().nth(index) {
                Some(entry) => entry,
                None => damage(self.payload.len(), "entry of a page"),
            },
        }
    }

    /// All entries, up to the first damaged one.
    pub fn entries(&self) -> impl Iterator<Item = Result<PageEntry<'p>, Damage>> + use<'p> {
        let page = *self;
        let mut at = match page.form {
            Form::Tagged(offsets) => offsets.heap(),
            Form::Bare | Form::Integers { .. } => HEAD_BYTES,
        };
        let mut left = 0..page.len;
        std::iter::from_fn(move || {
            let index = left.next()?;
            if let Form::Integers { width } = page.form {
                return Some(Ok((PageKey::Integer(page.integer(width, index)), NO_VALUE, 0)));
            }
            Some(match page.place(index, at) {
                Ok(place) => {
                    at = place.entry.end;
                    Ok(page.entry_at(&place))
                }
                Err(damage) => {
                    left = 0..0;
                    Err(damage)
                }
            })
        })
    }

    /// When the first of its keys is due, but for the one at `place`; 0 if none ever is.
    pub fn earliest_ms(&self, but: Option<&Place>) -> Result<u64, Damage> {
        let mut earliest_ms = 0;
        if self.has_times {
            for (index, entry) in self.entries().enumerate() {
                let (.., due_ms) = entry?;
                if but.is_none_or(|but| but.index != index) {
                    earliest_ms = earlier(earliest_ms, due_ms);
                }
            }
        }
        Ok(earliest_ms)
    }

    /// Looks at every byte: what [`find`](Self::find) would answer is what [`entries`](Self::entries) gives.
    pub fn check(&self, hash: &impl Fn(&[u8]) -> u64) -> Result<(), Damage> {
        let mut end = match self.form {
            Form::Integers { width } => {
                let all: Vec<i64> = (0..self.len).map(|index| self.integer(width, index)).collect();
                return match all.is_sorted_by(|a, b| a < b) {
                    true => Ok(()),
                    false => damage(HEAD_BYTES, "ascending integers"),
                };
            }
            Form::Bare => HEAD_BYTES,
            Form::Tagged(offsets) => offsets.heap(),
        };
        for index in 0..self.len {
            let place = self.place(index, end)?;
            if let Form::Tagged(offsets) = self.form {
                if offsets.start(self.payload, index)? != end {
                    return damage(end, "entry at its offset");
                }
                if self.payload[HEAD_BYTES + index] != tag_of(hash(self.key_at(&place))) {
                    return damage(HEAD_BYTES + index, "tag of the key");
                }
            }
            end = place.entry.end;
        }
        if end == self.payload.len() { Ok(()) } else { damage(end, "end of the page") }
    }

    /// The entry whose bytes begin at `at`.
    fn place(&self, index: usize, at: usize) -> Result<Place, Damage> {
        let payload = self.payload;
        let (key_len, taken) = len_at(payload, at)?;
        let start = at + taken;
        let none = Length { here: 0, taken: 0, external: None };
        let length = if self.pairs { Length::at(payload, start)? } else { none };
        let value_len = start..start + length.taken;
        let time_bytes = if self.has_times { TIME_BYTES } else { 0 };
        let time = value_len.end..value_len.end + time_bytes;
        let due_ms = if self.has_times { u64_at(payload, time.start)? } else { 0 };
        let key = bytes::range(payload, time.end, key_len)?;
        let value = bytes::range(payload, key.end, length.here)?;
        let (entry, external) = (at..value.end, length.external);
        Ok(Place { index, entry, value_len, time, value, external, due_ms })
    }

    /// The key of the entry whose bytes begin at `at`, and where the entry ends: what a search asks of each entry that it passes.
    #[inline]
    fn key_and_end(&self, at: usize) -> Result<(&'p [u8], usize), Damage> {
        let payload = self.payload;
        let mark = |at: usize| payload.get(at).and_then(|mark| short_len(*mark));
        let value_len = if self.pairs { mark(at + 1) } else { Some(0) };
        if let (Some(key_len), Some(value_len)) = (mark(at), value_len) {
            let time_bytes = if self.has_times { TIME_BYTES } else { 0 };
            let start = at + 1 + usize::from(self.pairs) + time_bytes;
            let (key_end, end) = (start + key_len, start + key_len + value_len);
            if end <= payload.len() {
                return Ok((&payload[start..key_end], end));
            }
        }
        // A long one, or a damaged one.
        let place = self.place(0, at)?;
        Ok((self.key_at(&place), place.entry.end))
    }

    fn key_at(&self, place: &Place) -> &'p [u8] {
        &self.payload[place.time.end..place.value.start]
    }

    fn entry_at(&self, place: &Place) -> PageEntry<'p> {
        (PageKey::Bytes(self.key_at(place)), self.value(place), place.due_ms)
    }

    fn integer(&self, width: usize, index: usize) -> i64 {
        let at = HEAD_BYTES + 1 + index * width;
        let mut word = [0; 8];
        word[8 - width..].copy_from_slice(&self.payload[at..at + width]);
        i64::from_le_bytes(word) >> (64 - width * 8)
    }

    /// Position of the integer, or where it would be inserted.
    fn search(&self, width: usize, integer: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.integer(width, middle).cmp(&integer) {
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    fn integer_place(&self, width: usize, index: usize) -> Place {
        let at = HEAD_BYTES + 1 + index * width;
        let none = at..at;
        Place {
            index,
            entry: at..at + width,
            value_len: none.clone(),
            time: none.clone(),
            value: none,
            external: None,
            due_ms: 0,
        }
    }

    fn collect(&self) -> Result<Vec<PageEntry<'p>>, Damage> {
        self.entries().collect()
    }
}

/// When the first of these is due; 0 if none ever is.
pub(super) fn earliest_of(entries: &[PageEntry<'_>]) -> u64 {
    entries.iter().fold(0, |earliest_ms, (.., due_ms)| earlier(earliest_ms, *due_ms))
}

fn tag_of(hash: u64) -> u8 {
    (hash >> 56) as u8
}

/// A page without entries.
#[must_use]
pub fn empty(pairs: bool) -> Vec<u8> {
    build(&[], pairs, &|_| 0)
}

/// A page of these entries. Keys of a set that are all integers are written as such.
#[must_use]
pub fn build(entries: &[PageEntry<'_>], pairs: bool, hash: &impl Fn(&[u8]) -> u64) -> Vec<u8> {
    if !pairs && !entries.is_empty() {
        let integers: Option<Vec<i64>> = entries.iter().map(|(key, ..)| key.integer()).collect();
        if let Some(integers) = integers {
            return build_integers(integers);
        }
    }
    build_texts(entries, pairs, hash)
}

fn build_integers(mut integers: Vec<i64>) -> Vec<u8> {
    integers.sort_unstable();
    let ends = [integers.first(), integers.last()];
    let width = ends.into_iter().flatten().map(|integer| ints::width_of(*integer)).max();
    let width = width.unwrap_or(2);
    let mut payload = bytes::new_payload(integers.len(), FLAG_INTEGERS, 1 + integers.len() * width);
    payload.push(width as u8);
    for integer in integers {
        payload.extend_from_slice(&integer.to_le_bytes()[..width]);
    }
    payload
}

fn build_texts(entries: &[PageEntry<'_>], pairs: bool, hash: &impl Fn(&[u8]) -> u64) -> Vec<u8> {
    // Texts of integers have at most 20 bytes; lengths, and a due time, seldom more than 12.
    let key_bytes = |key: &PageKey<'_>| match key {
        PageKey::Bytes(key) => key.len(),
        PageKey::Integer(_) => 20,
    };
    let bytes_of = |(key, value, _): &PageEntry<'_>| key_bytes(key) + value.here().len() + 12;
    let mut heap = Vec::with_capacity(entries.iter().map(bytes_of).sum());
    let mut starts = Vec::with_capacity(entries.len());
    let mut tags = Vec::with_capacity(entries.len());
    let is_bare = entries.len() <= BARE_MAX;
    let has_times = entries.iter().any(|(.., due_ms)| *due_ms != 0);
    let mut text = IntegerText::default();
    for (key, value, due_ms) in entries {
        let key = key.bytes(&mut text);
        if !is_bare {
            tags.push(tag_of(hash(key)));
            starts.push(heap.len() as u32);
        }
        put_entry(&mut heap, key, pairs.then_some(value), has_times.then_some(*due_ms));
    }
    let pairs_flag = if pairs { FLAG_PAIRS } else { 0 } | if has_times { FLAG_TIMES } else { 0 };
    if is_bare {
        let mut payload = bytes::new_payload(entries.len(), FLAG_BARE | pairs_flag, heap.len());
        payload.extend_from_slice(&heap);
        return payload;
    }
    let wide = starts.last().is_some_and(|start| *start > u32::from(u16::MAX));
    let flags = pairs_flag | if wide { FLAG_WIDE } else { 0 };
    let width = if wide { 4 } else { 2 };
    let more_bytes = tags.len() + starts.len() * width + heap.len();
    let mut payload = bytes::new_payload(entries.len(), flags, more_bytes);
    payload.extend_from_slice(&tags);
    for start in starts {
        payload.extend_from_slice(&start.to_le_bytes()[..width]);
    }
    payload.extend_from_slice(&heap);
    payload
}

fn put_entry(out: &mut Vec<u8>, key: &[u8], value: Option<&Stored<'_>>, due_ms: Option<u64>) {
    bytes::put_len(out, key.len());
    if let Some(value) = value {
        value.put_len(out);
    }
    if let Some(due_ms) = due_ms {
        out.extend_from_slice(&due_ms.to_le_bytes());
    }
    out.extend_from_slice(key);
    if let Some(value) = value {
        out.extend_from_slice(value.here());
    }
}

/// Adds a key that [`HashPage::find`] has not found. `value` is empty in a set; 0 is no due time.
pub fn insert(
    page: &mut impl PageEdit,
    key: &[u8],
    value: Stored<'_>,
    due_ms: u64,
    hash: &impl Fn(&[u8]) -> u64,
) -> Result<(), Damage> {
    let view = HashPage::parse(page.bytes())?;
    let (len, pairs) = (view.len, view.pairs);
    if len >= PAGE_ELEMENTS_MAX {
        return damage(0, "room for one more entry");
    }
    if due_ms != 0 && !pairs {
        return damage(2, "page with values");
    }
    let (fits, due) = (view.has_times || due_ms == 0, view.has_times.then_some(due_ms));
    let rebuilt = match view.form {
        Form::Integers { width } => match ints::integer_of(key) {
            Some(integer) if ints::width_of(integer) <= width => {
                let (Ok(index) | Err(index)) = view.search(width, integer);
                let at = HEAD_BYTES + 1 + index * width;
                page.splice(at..at, &integer.to_le_bytes()[..width]);
                bytes::set_elements(page, len + 1);
                return Ok(());
            }
            integer => {
                let mut entries = view.collect()?;
                entries.push((integer.map_or(PageKey::Bytes(key), PageKey::Integer), value, 0));
                build(&entries, pairs, hash)
            }
        },
        Form::Bare if fits && len < BARE_MAX => {
            let end = page.bytes().len();
            append_entry(page, end, key, pairs.then_some(&value), due);
            bytes::set_elements(page, len + 1);
            return Ok(());
        }
        Form::Tagged(offsets)
            if fits
                && (offsets.wide || view.payload.len() - offsets.heap() <= u16::MAX as usize) =>
        {
            let (end, heap) = (page.bytes().len(), offsets.heap());
            page.several();
            append_entry(page, end, key, pairs.then_some(&value), due);
            offsets.insert(page, len, end - heap);
            page.splice(offsets.at..offsets.at, &[tag_of(hash(key))]);
            bytes::set_elements(page, len + 1);
            return Ok(());
        }
        Form::Bare | Form::Tagged(_) => {
            let mut entries = view.collect()?;
            entries.push((PageKey::Bytes(key), value, due_ms));
            build_texts(&entries, pairs, hash)
        }
    };
    page.replace(&rebuilt);
    Ok(())
}

fn append_entry(
    page: &mut impl PageEdit,
    end: usize,
    key: &[u8],
    value: Option<&Stored<'_>>,
    due_ms: Option<u64>,
) {
    let here = value.map_or(0, |value| value.here().len());
    let mut entry = Vec::with_capacity(20 + TIME_BYTES + key.len() + here);
    put_entry(&mut entry, key, value, due_ms);
    page.splice(end..end, &entry);
}

/// Says when the key at `place` is due; 0 for never.
pub fn set_due(
    page: &mut impl PageEdit,
    place: &Place,
    due_ms: u64,
    hash: &impl Fn(&[u8]) -> u64,
) -> Result<(), Damage> {
    let view = HashPage::parse(page.bytes())?;
    if view.has_times {
        page.write(place.time.start, &due_ms.to_le_bytes());
    } else if due_ms != 0 {
        if !view.pairs {
            return damage(2, "page with values");
        }
        let mut entries = view.collect()?;
        if let Some(entry) = entries.get_mut(place.index) {
            entry.2 = due_ms;
        }
        let rebuilt = build_texts(&entries, true, hash);
        page.replace(&rebuilt);
    }
    Ok(())
}

/// Puts another value in place of the one at `place`. When the key is due stays.
pub fn set_value(
    page: &mut impl PageEdit,
    place: &Place,
    value: Stored<'_>,
    hash: &impl Fn(&[u8]) -> u64,
) -> Result<(), Damage> {
    let view = HashPage::parse(page.bytes())?;
    if !view.pairs {
        return damage(2, "page with values");
    }
    let new = (value.here().len() + value.len_bytes()) as isize;
    let grown = new - (place.value.len() + place.value_len.len()) as isize;
    if let Form::Tagged(offsets) = view.form {
        if grown > 0 && !offsets.can_shift(view.payload, place.index + 1, grown as usize) {
            let mut entries = view.collect()?;
            if let Some(entry) = entries.get_mut(place.index) {
                entry.1 = value;
            }
            let rebuilt = build_texts(&entries, true, hash);
            page.replace(&rebuilt);
            return Ok(());
        }
        offsets.shift(page, place.index + 1, grown);
    }
    if place.value.len() == value.here().len() {
        page.write(place.value.start, value.here());
    } else {
        page.splice(place.value.clone(), value.here());
    }
    if place.external.is_some() || place.value.len() != value.len() {
        let mut len = Vec::with_capacity(16);
        value.put_len(&mut len);
        page.splice(place.value_len.clone(), &len);
    }
    Ok(())
}

/// Removes the entry at `place`.
pub fn remove(page: &mut impl PageEdit, place: &Place) -> Result<(), Damage> {
    let view = HashPage::parse(page.bytes())?;
    let (len, pairs) = (view.len, view.pairs);
    if let Form::Tagged(offsets) = view.form {
        if len <= BARE_AGAIN + 1 {
            let mut entries = view.collect()?;
            if place.index < entries.len() {
                entries.remove(place.index);
            }
            // So few are bare, and have no tags.
            let rebuilt = build_texts(&entries, pairs, &|_| 0);
            page.replace(&rebuilt);
            return Ok(());
        }
        page.several();
        offsets.shift(page, place.index + 1, -(place.entry.len() as isize));
        page.splice(place.entry.clone(), &[]);
        offsets.remove(page, place.index);
        let tag = HEAD_BYTES + place.index;
        page.splice(tag..tag + 1, &[]);
    } else {
        page.splice(place.entry.clone(), &[]);
    }
    bytes::set_elements(page, len - 1);
    Ok(())
}
