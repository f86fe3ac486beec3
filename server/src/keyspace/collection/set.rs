//! Sets.

use super::{Edit, Encoding, HEAD_BYTES, Names, Parts, Thresholds, empty, packed, set_len, splice};
use crate::keyspace::Kind;
use crate::number::parse_i64;
use crate::value::ValueType;
use sexton_engine::{Entry, Meta};
use std::borrow::Cow;
use std::ops::Range;

/// Up to this many members are each searched for from the start.
const FEW_MEMBERS: usize = 8;

/// The type of sets, for a look-up.
#[derive(Clone, Copy, Debug)]
pub struct Sets;

impl Kind for Sets {
    const TYPE: ValueType = ValueType::Set;
    type View<'v> = SetView<'v>;

    fn view(entry: Entry<'_>) -> Option<SetView<'_>> {
        Parts::of_entry(entry, ValueType::Set).map(SetView)
    }
}

/// The set that a key holds.
#[derive(Clone, Copy)]
pub struct SetView<'v>(Parts<'v>);

impl<'v> SetView<'v> {
    /// `None` for a value of another type.
    #[must_use]
    pub fn of(meta: Meta, value: &'v [u8]) -> Option<Self> {
        Parts::of(meta, value, ValueType::Set).map(Self)
    }

    /// Members.
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

    /// Members in their order in the value: integers ascending, others in insertion order.
    pub fn iter(&self) -> impl Iterator<Item = Cow<'v, [u8]>> + Clone + use<'v> {
        let integers = Integers::of(&self.0);
        let packed = match integers {
            Some(_) => packed::Items::new(b""),
            None => packed::Items::new(self.0.content()),
        };
        let numbers = integers.into_iter().flat_map(Integers::iter);
        numbers
            .map(|number| Cow::Owned(itoa::Buffer::new().format(number).as_bytes().to_vec()))
            .chain(packed.map(Cow::Borrowed))
    }

    /// True when `member` is in it.
    #[must_use]
    pub fn contains(&self, member: &[u8]) -> bool {
        match Integers::of(&self.0) {
            Some(integers) => parse_i64(member).is_some_and(|n| integers.find(n).is_ok()),
            None => packed::Items::new(self.0.content()).any(|item| item == member),
        }
    }

    /// Those of these members that are in it.
    #[must_use]
    pub fn found_of<'m>(&self, members: impl Iterator<Item = &'m [u8]>) -> Names<&'m [u8]> {
        if self.encoding() == Encoding::Intset {
            return members.filter(|member| self.contains(member)).collect();
        }
        let asked: Names<&[u8]> = members.collect();
        let items = packed::Items::new(self.0.content());
        items.filter_map(|item| asked.get(item).copied()).collect()
    }

    /// A copy to change.
    #[must_use]
    pub fn edit(&self) -> SetEdit {
        SetEdit { bytes: self.0.value.to_vec(), len: self.0.len, encoding: self.0.encoding }
    }
}

/// Members of an intset: integers of one width, ascending.
#[derive(Clone, Copy)]
struct Integers<'v> {
    width: usize,
    bytes: &'v [u8],
}

impl<'v> Integers<'v> {
    fn of(parts: &Parts<'v>) -> Option<Self> {
        if parts.encoding != Encoding::Intset {
            return None;
        }
        let (&width, bytes) = parts.content().split_first()?;
        Some(Self { width: usize::from(width), bytes })
    }

    fn len(self) -> usize {
        self.bytes.len() / self.width
    }

    fn get(self, index: usize) -> i64 {
        let bytes = &self.bytes[index * self.width..][..self.width];
        let fill = if bytes[self.width - 1] & 0x80 == 0 { 0 } else { 0xff };
        let mut wide = [fill; 8];
        wide[..self.width].copy_from_slice(bytes);
        i64::from_le_bytes(wide)
    }

    fn iter(self) -> impl Iterator<Item = i64> + Clone + use<'v> {
        (0..self.len()).map(move |index| self.get(index))
    }

    /// Where `number` is, or where it belongs.
    fn find(self, number: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(&number) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }
}

/// Bytes that `number` needs in an intset.
fn width_of(number: i64) -> usize {
    match number {
        n if i16::try_from(n).is_ok() => 2,
        n if i32::try_from(n).is_ok() => 4,
        _ => 8,
    }
}

/// A set that is being changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetEdit {
    bytes: Vec<u8>,
    len: usize,
    encoding: Encoding,
}

impl Default for SetEdit {
    fn default() -> Self {
        let mut bytes = empty(Encoding::Intset);
        bytes.push(2);
        Self { bytes, len: 0, encoding: Encoding::Intset }
    }
}

impl Edit for SetEdit {
    const TYPE: ValueType = ValueType::Set;

    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl SetEdit {
    /// An empty one that is not compact any more.
    #[must_use]
    pub fn of_any_size() -> Self {
        Self { bytes: empty(Encoding::Hashtable), len: 0, encoding: Encoding::Hashtable }
    }

    /// Adds a member that is not there, to one that is not compact.
    pub fn push(&mut self, member: &[u8]) {
        packed::push(&mut self.bytes, member);
        self.set_len(self.len + 1);
    }

    /// A set of distinct `members`; `None` if one is repeated.
    pub fn of_distinct<'m>(
        members: impl Iterator<Item = &'m [u8]> + Clone,
        thresholds: &Thresholds,
    ) -> Option<Self> {
        let mut numbers: Vec<i64> = members.clone().map_while(parse_i64).collect();
        let count = members.clone().count();
        let mut set = Self::default();
        if numbers.len() == count && count as u64 <= thresholds.intset_entries {
            numbers.sort_unstable();
            let width = numbers.iter().map(|&number| width_of(number)).max().unwrap_or(2);
            set.bytes[HEAD_BYTES] = width as u8;
            for number in &numbers {
                set.bytes.extend_from_slice(&number.to_le_bytes()[..width]);
            }
            numbers.dedup();
            set.set_len(numbers.len());
        } else {
            set.become_hashtable();
            let mut seen = Names::with_capacity_and_hasher(count, Default::default());
            for member in members.filter(|member| seen.insert(*member)) {
                packed::push(&mut set.bytes, member);
            }
            set.set_len(seen.len());
        }
        (set.len == count).then_some(set)
    }

    /// A read-only view of the edited set.
    #[must_use]
    pub fn view(&self) -> SetView<'_> {
        SetView(Parts {
            meta: Self::expiring_at(0),
            value: &self.bytes,
            encoding: self.encoding,
            len: self.len,
        })
    }

    /// Adds `member`; false when it is there.
    pub fn add(&mut self, member: &[u8], thresholds: &Thresholds) -> bool {
        if self.encoding == Encoding::Intset {
            match parse_i64(member) {
                Some(number) => return self.add_integer(number, thresholds),
                None => self.become_hashtable(),
            }
        }
        if self.view().contains(member) {
            return false;
        }
        packed::push(&mut self.bytes, member);
        self.set_len(self.len + 1);
        true
    }

    /// Removes `member`; false when it is not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let Some(place) = self.place_of(member) else { return false };
        splice(&mut self.bytes, place, b"");
        self.set_len(self.len - 1);
        true
    }

    /// Adds these members; how many were not there.
    pub fn add_all<'m>(
        &mut self,
        members: impl ExactSizeIterator<Item = &'m [u8]> + Clone,
        thresholds: &Thresholds,
    ) -> usize {
        let before = self.len;
        if members.len() <= FEW_MEMBERS {
            members.for_each(|member| {
                self.add(member, thresholds);
            });
            return self.len - before;
        }
        let mut members = members.peekable();
        while self.encoding == Encoding::Intset
            && let Some(member) = members.next()
        {
            self.add(member, thresholds);
        }
        if self.encoding == Encoding::Intset {
            return self.len - before;
        }
        let mut there = self.view().found_of(members.clone());
        for member in members {
            if there.insert(member) {
                packed::push(&mut self.bytes, member);
                self.len += 1;
            }
        }
        self.set_len(self.len);
        self.len - before
    }

    /// Removes these members; how many were there.
    pub fn remove_all<'m>(&mut self, members: impl ExactSizeIterator<Item = &'m [u8]>) -> usize {
        let before = self.len;
        if members.len() <= FEW_MEMBERS || self.encoding == Encoding::Intset {
            members.for_each(|member| {
                self.remove(member);
            });
            return before - self.len;
        }
        let going: Names<&[u8]> = members.collect();
        let mut rest = empty(self.encoding);
        self.len = 0;
        for member in packed::Items::new(&self.bytes[HEAD_BYTES..]) {
            if !going.contains(member) {
                packed::push(&mut rest, member);
                self.len += 1;
            }
        }
        self.bytes = rest;
        self.set_len(self.len);
        before - self.len
    }

    fn add_integer(&mut self, number: i64, thresholds: &Thresholds) -> bool {
        let Err(index) = self.integers().find(number) else { return false };
        let width = self.integers().width;
        if width_of(number) > width {
            self.widen(width_of(number));
        }
        let width = self.integers().width;
        let place = HEAD_BYTES + 1 + index * width;
        splice(&mut self.bytes, place..place, &number.to_le_bytes()[..width]);
        self.set_len(self.len + 1);
        if self.len as u64 > thresholds.intset_entries {
            self.become_hashtable();
        }
        true
    }

    fn integers(&self) -> Integers<'_> {
        Integers {
            width: usize::from(self.bytes[HEAD_BYTES]),
            bytes: &self.bytes[HEAD_BYTES + 1..],
        }
    }

    fn widen(&mut self, width: usize) {
        let mut bytes = empty(Encoding::Intset);
        bytes.push(width as u8);
        for number in self.integers().iter() {
            bytes.extend_from_slice(&number.to_le_bytes()[..width]);
        }
        self.bytes = bytes;
        self.set_len(self.len);
    }

    fn become_hashtable(&mut self) {
        let mut bytes = empty(Encoding::Hashtable);
        for member in self.view().iter() {
            packed::push(&mut bytes, &member);
        }
        (self.bytes, self.encoding) = (bytes, Encoding::Hashtable);
        self.set_len(self.len);
    }

    fn set_len(&mut self, len: usize) {
        self.len = len;
        set_len(&mut self.bytes, len);
    }

    /// The byte range of `member` in the value.
    fn place_of(&self, member: &[u8]) -> Option<Range<usize>> {
        if self.encoding == Encoding::Intset {
            let integers = self.integers();
            let index = integers.find(parse_i64(member)?).ok()?;
            let start = HEAD_BYTES + 1 + index * integers.width;
            return Some(start..start + integers.width);
        }
        let end = self.bytes.len();
        let mut items = packed::Items::new(&self.bytes[HEAD_BYTES..]);
        loop {
            let start = end - items.bytes_left();
            if items.next()? == member {
                return Some(start..end - items.bytes_left());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::collection::tests_thresholds;

    fn members(set: &SetEdit) -> Vec<String> {
        set.view().iter().map(|member| String::from_utf8(member.into_owned()).unwrap()).collect()
    }

    #[test]
    fn integers_of_every_width_lie_in_order() {
        let thresholds = tests_thresholds();
        let mut set = SetEdit::default();
        for member in ["5", "-3", "40000", "-3", "5000000000", "-32769"] {
            let was = set.view().contains(member.as_bytes());
            assert_eq!(set.add(member.as_bytes(), &thresholds), !was);
        }
        assert_eq!(members(&set), ["-32769", "-3", "5", "40000", "5000000000"]);
        assert_eq!(set.view().encoding(), Encoding::Intset);
        assert!(set.remove(b"40000"));
        assert!(!set.remove(b"40000"));
        assert!(!set.remove(b"05"), "not the canonical form of a member");
        assert_eq!(set.len(), 4);
    }

    #[test]
    fn a_member_that_is_no_integer_or_too_many_make_it_a_hashtable() {
        let thresholds = tests_thresholds();
        let mut set = SetEdit::default();
        set.add(b"1", &thresholds);
        set.add(b"one", &thresholds);
        assert_eq!(members(&set), ["1", "one"]);
        assert_eq!(set.view().encoding(), Encoding::Hashtable);
        assert!(!set.add(b"1", &thresholds));
        assert!(set.remove(b"1") && set.remove(b"one") && set.is_empty());

        let mut many = SetEdit::default();
        for number in 0..=thresholds.intset_entries {
            assert_eq!(many.view().encoding(), Encoding::Intset);
            many.add(number.to_string().as_bytes(), &thresholds);
        }
        assert_eq!(many.view().encoding(), Encoding::Hashtable);
        assert_eq!(many.len() as u64, thresholds.intset_entries + 1);
    }
}
