//! Collections: values of type list, set, sorted set, hash or stream, and their stored form.
//!
//! A collection is stored whole in the value of its root record:
//!
//! ```text
//! form 1 (u8) | encoding (u8) | elements u32 LE | content
//!
//! list        content = elements from left to right, packed
//! set         content = width (u8: 2, 4 or 8) | members as integers of that width, ascending     (encoding intset)
//!                     | members in the order in which they came, packed                          (encoding hashtable)
//! sorted set  content = (score, f64 LE | member, packed) ascending by score, then member
//! hash        content = (field, packed | value, packed) in the order in which the fields came
//!                     | earliest due time u64 LE | (field, packed | value, packed | due time, packed: empty or u64 LE)
//!                                                            (a hash with fields that expire: it has flags of its own)
//! stream      content = last ID u128 LE | highest deleted ID u128 LE | entries ever added u64 LE | bytes of groups u32 LE
//!                       | nodes u32 LE | groups | nodes | where each node begins u32 LE
//! ```
//!
//! [`packed`] defines the format of one byte string. The encoding is what OBJECT ENCODING returns. Redis' thresholds set it at
//! each write, and as in Redis it never reverts. Only a stream can be empty: other keys are deleted with their last element.

mod hash;
mod hash_fields;
mod list;
pub mod packed;
mod set;
mod sorted_set;
pub mod stream;

pub use hash::{HashEdit, HashView, Hashes};
pub use hash_fields::{Field, HashFields};
pub use list::{ListEdit, ListView, Lists};
pub use set::{SetEdit, SetView, Sets};
pub use sorted_set::{Scored, SortedSetEdit, SortedSetView, SortedSets, order, score_text};
pub use stream::{StreamEdit, StreamView, Streams};

use crate::value::ValueType;
pub use crate::value::thresholds::Thresholds;
use sexton_engine::{Entry, Meta};
use std::collections::{HashMap, HashSet};

/// By names that a request asks for, of which each is hashed a few times: a hasher in one or two steps, with seeds of this process.
pub type ByName<'n, T> = HashMap<&'n [u8], T, foldhash::fast::RandomState>;

/// A set of such names.
pub type Names<N> = HashSet<N, foldhash::fast::RandomState>;

/// The form of a collection that is stored whole in its root record.
const FORM_INLINE: u8 = 1;

/// Bytes before the content.
const HEAD_BYTES: usize = 6;

/// Most elements of a collection: what the head can count.
pub const ELEMENTS_MAX: usize = u32::MAX as usize;

/// What OBJECT ENCODING answers for a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// A small hash or sorted set.
    Listpack = 0,
    /// A small set of integers.
    Intset = 1,
    /// A set or hash of any size.
    Hashtable = 2,
    /// A sorted set of any size.
    Skiplist = 3,
    /// A list.
    Quicklist = 4,
    /// A stream.
    Stream = 5,
}

impl Encoding {
    /// The encoding given in a record.
    #[must_use]
    pub fn of(byte: u8) -> Option<Self> {
        [
            Self::Listpack,
            Self::Intset,
            Self::Hashtable,
            Self::Skiplist,
            Self::Quicklist,
            Self::Stream,
        ]
        .into_iter()
        .find(|encoding| *encoding as u8 == byte)
    }

    /// The name, as Redis has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Listpack => "listpack",
            Self::Intset => "intset",
            Self::Hashtable => "hashtable",
            Self::Skiplist => "skiplist",
            Self::Quicklist => "quicklist",
            Self::Stream => "stream",
        }
    }
}

/// A collection that is being changed: the value to be.
pub trait Edit {
    /// Its type.
    const TYPE: ValueType;

    /// Elements: pairs of a hash, members, items of a list.
    fn len(&self) -> usize;

    /// The value of its root record; not to be written when it is [empty](Self::is_empty).
    fn bytes(&self) -> &[u8];

    /// True when nothing is left: the key must be deleted.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record's flags and expiry (0: none), for a type that has one kind of values.
    fn expiring_at(expire_at_ms: u64) -> Meta {
        Meta { flags: Self::TYPE as u8, expire_at_ms }
    }

    /// The flags of this value's record, and its expiry (0: none).
    fn meta(&self, expire_at_ms: u64) -> Meta {
        Self::expiring_at(expire_at_ms)
    }
}

/// Head and content of a collection's value.
#[derive(Clone, Copy)]
struct Parts<'v> {
    meta: Meta,
    value: &'v [u8],
    encoding: Encoding,
    len: usize,
}

impl<'v> Parts<'v> {
    /// `None` for a value of another type, or in a form that this version does not know.
    fn of(meta: Meta, value: &'v [u8], expected: ValueType) -> Option<Self> {
        if ValueType::of(meta.flags) != Some(expected) {
            return None;
        }
        let (head, _) = value.split_first_chunk::<HEAD_BYTES>()?;
        let [FORM_INLINE, encoding, len @ ..] = *head else { return None };
        let encoding = Encoding::of(encoding)?;
        Some(Self { meta, value, encoding, len: u32::from_le_bytes(len) as usize })
    }

    fn of_entry(entry: Entry<'v>, expected: ValueType) -> Option<Self> {
        Self::of(entry.meta(), entry.value(), expected)
    }

    fn content(&self) -> &'v [u8] {
        &self.value[HEAD_BYTES..]
    }
}

/// The value of a collection without elements.
fn empty(encoding: Encoding) -> Vec<u8> {
    vec![FORM_INLINE, encoding as u8, 0, 0, 0, 0]
}

fn set_len(value: &mut [u8], len: usize) {
    debug_assert!(len <= ELEMENTS_MAX, "{len} elements");
    value[2..HEAD_BYTES].copy_from_slice(&(len as u32).to_le_bytes());
}

fn set_encoding(value: &mut [u8], encoding: Encoding) {
    value[1] = encoding as u8;
}

/// Puts `new` in place of the bytes of `value` in `range`.
pub(super) fn splice(value: &mut Vec<u8>, range: std::ops::Range<usize>, new: &[u8]) {
    let (old_len, new_len) = (range.len(), new.len());
    let tail = range.end..value.len();
    if new_len > old_len {
        value.resize(value.len() + new_len - old_len, 0);
    }
    value.copy_within(tail.clone(), range.start + new_len);
    value.truncate(range.start + new_len + tail.len());
    value[range.start..range.start + new_len].copy_from_slice(new);
}

/// The thresholds of a server with defaults.
#[cfg(test)]
pub(crate) fn tests_thresholds() -> Thresholds {
    crate::value::thresholds::SharedThresholds::default().now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_splice_moves_what_follows() {
        for new in [b"".as_slice(), b"x", b"xyz"] {
            let mut value = b"abcdef".to_vec();
            splice(&mut value, 1..3, new);
            assert_eq!(value, [b"a", new, b"def"].concat());
        }
    }

    #[test]
    fn values_of_other_types_and_forms_are_no_collections() {
        let meta = ListEdit::expiring_at(0);
        assert!(Parts::of(meta, &empty(Encoding::Quicklist), ValueType::List).is_some());
        assert!(Parts::of(meta, &empty(Encoding::Quicklist), ValueType::Set).is_none());
        assert!(Parts::of(meta, &[2, 4, 0, 0, 0, 0], ValueType::List).is_none());
        assert!(Parts::of(meta, &[1, 4, 0], ValueType::List).is_none());
    }
}
