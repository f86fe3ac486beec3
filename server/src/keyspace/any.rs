//! Values of any type, for code that treats all types alike: dumps, digests, OBJECT ENCODING.

use super::collection::{
    Edit, Field, HashEdit, HashView, ListEdit, ListView, SetEdit, SetView, SortedSetEdit,
    SortedSetView, StreamEdit, StreamView, Thresholds,
};
use super::string::Written;
use crate::value::{self, ValueType};
use sexton_engine::Meta;
use sexton_persistence::rdb::{Strings, Value};

/// A key's value, by its type.
#[derive(Clone, Copy)]
pub enum AnyView<'v> {
    /// A string.
    String(&'v [u8]),
    /// A list.
    List(ListView<'v>),
    /// A set.
    Set(SetView<'v>),
    /// A sorted set.
    SortedSet(SortedSetView<'v>),
    /// A hash.
    Hash(HashView<'v>),
    /// A stream.
    Stream(StreamView<'v>),
}

impl<'v> AnyView<'v> {
    /// `None` for a type or a form that no version up to this one has written.
    #[must_use]
    pub fn of(meta: Meta, value: &'v [u8]) -> Option<Self> {
        match ValueType::of(meta.flags)? {
            ValueType::String => Some(Self::String(value)),
            ValueType::List => ListView::of(meta, value).map(Self::List),
            ValueType::Set => SetView::of(meta, value).map(Self::Set),
            ValueType::SortedSet => SortedSetView::of(meta, value).map(Self::SortedSet),
            ValueType::Hash => HashView::of(meta, value).map(Self::Hash),
            ValueType::Stream => StreamView::of(meta, value).map(Self::Stream),
        }
    }

    /// What OBJECT ENCODING answers for a value with these flags.
    #[must_use]
    pub fn encoding(&self, flags: u8) -> &'static str {
        match self {
            Self::String(string) => value::string_encoding(flags, string),
            Self::List(list) => list.encoding().name(),
            Self::Set(set) => set.encoding().name(),
            Self::SortedSet(set) => set.encoding().name(),
            Self::Hash(hash) => hash.encoding().name(),
            Self::Stream(stream) => stream.encoding().name(),
        }
    }

    /// The value as dumps have it.
    #[must_use]
    pub fn to_dumped(&self) -> Value {
        let mut strings = Strings::default();
        match self {
            Self::String(string) => Value::String(string.to_vec()),
            Self::List(list) => {
                list.iter().for_each(|element| strings.push(element));
                Value::List(strings)
            }
            Self::Set(set) => {
                set.iter().for_each(|member| strings.push(&member));
                Value::Set(strings)
            }
            Self::SortedSet(set) => {
                let mut scores = Vec::with_capacity(set.count());
                for (score, member) in set.iter() {
                    scores.push(score);
                    strings.push(member);
                }
                Value::SortedSet(strings, scores)
            }
            Self::Hash(hash) => {
                let mut times = Vec::new();
                for field in hash.fields() {
                    strings.push(field.name);
                    strings.push(field.value);
                    if hash.has_times() {
                        times.push(field.due_ms);
                    }
                }
                Value::Hash(strings, times)
            }
            Self::Stream(stream) => Value::Stream(Box::new(stream.to_dumped())),
        }
    }
}

/// Why a value of a dump cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// This version has no such type.
    Type(String),
    /// It is a collection without elements: some old versions of Redis wrote such keys, which are none.
    Empty,
    /// It contradicts itself: a member twice, a score that is no number.
    Damaged,
}

/// Flags and value of a root record, from a dump.
///
/// # Errors
/// [`NotStored`].
pub fn from_dumped(value: Value, thresholds: &Thresholds) -> Result<(u8, Vec<u8>), NotStored> {
    fn finished<E: Edit>(edit: &E) -> Result<(u8, Vec<u8>), NotStored> {
        if edit.is_empty() {
            return Err(NotStored::Empty);
        }
        Ok((edit.meta(0).flags, edit.bytes().to_vec()))
    }
    match value {
        Value::String(string) => Ok((Written::Whole.expiring_at(0).flags, string)),
        Value::List(elements) => {
            let mut list = ListEdit::default();
            elements.iter().for_each(|element| list.push_right(element));
            finished(&list)
        }
        Value::Set(members) => {
            let set = SetEdit::of_distinct(members.iter(), thresholds).ok_or(NotStored::Damaged)?;
            finished(&set)
        }
        Value::SortedSet(members, scores) => {
            let pairs = scores.into_iter().zip(members.iter()).collect();
            let set = SortedSetEdit::of_unsorted(pairs, thresholds).ok_or(NotStored::Damaged)?;
            finished(&set)
        }
        Value::Hash(pairs, times) => {
            let hash =
                HashEdit::of_distinct(pairs.pairs(), thresholds).ok_or(NotStored::Damaged)?;
            if times.iter().all(|&time_ms| time_ms == 0) {
                return finished(&hash);
            }
            let view = hash.view();
            let times = times.iter().copied().chain(std::iter::repeat(0));
            let fields = view.iter().zip(times);
            let fields = fields.map(|((name, value), due_ms)| Field { name, value, due_ms });
            finished(&HashEdit::of_fields(fields, view.encoding()))
        }
        Value::Stream(stream) => {
            let stream = StreamEdit::of_dumped(*stream, thresholds).ok_or(NotStored::Damaged)?;
            finished(&stream)
        }
        other => Err(NotStored::Type(other.type_name().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::collection::tests_thresholds;

    fn strings(items: &[&str]) -> Strings {
        let mut strings = Strings::default();
        items.iter().for_each(|item| strings.push(item.as_bytes()));
        strings
    }

    #[test]
    fn a_value_of_each_type_comes_back_from_its_dump() {
        let thresholds = tests_thresholds();
        for (dumped, encoding) in [
            (Value::String(b"12".to_vec()), "int"),
            (Value::List(strings(&["a", "", "a"])), "quicklist"),
            (Value::Set(strings(&["-1", "7"])), "intset"),
            (Value::Set(strings(&["7", "seven"])), "hashtable"),
            (Value::SortedSet(strings(&["a", "b"]), vec![-1.5, f64::INFINITY]), "listpack"),
            (Value::Hash(strings(&["f", "1", "g", "2"]), Vec::new()), "listpack"),
            (Value::Hash(strings(&["f", "1", "g", "2"]), vec![0, 1_700_000_000_000]), "hashtable"),
        ] {
            let (flags, value) = from_dumped(dumped.clone(), &thresholds).unwrap();
            let meta = Meta { flags, expire_at_ms: 0 };
            let view = AnyView::of(meta, &value).unwrap();
            assert_eq!(view.to_dumped(), dumped);
            assert_eq!(view.encoding(flags), encoding);
        }
    }

    #[test]
    fn what_contradicts_itself_is_not_stored() {
        let thresholds = tests_thresholds();
        for empty in [
            Value::List(Strings::default()),
            Value::Set(Strings::default()),
            Value::SortedSet(Strings::default(), Vec::new()),
            Value::Hash(Strings::default(), Vec::new()),
        ] {
            assert_eq!(from_dumped(empty, &thresholds), Err(NotStored::Empty));
        }
        for dumped in [
            Value::Set(strings(&["a", "a"])),
            Value::SortedSet(strings(&["a"]), vec![f64::NAN]),
            Value::Hash(strings(&["f", "1", "f", "2"]), Vec::new()),
            Value::Hash(strings(&["f", "1", "f", "2"]), vec![1, 0]),
        ] {
            assert_eq!(from_dumped(dumped, &thresholds), Err(NotStored::Damaged));
        }
    }
}
