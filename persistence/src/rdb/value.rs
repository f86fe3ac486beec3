//! Values of every type, and how each of their encodings is read.

use super::packed::{read_intset, read_listpack, read_ziplist, read_zipmap};
use super::{Input, RdbError, Stream, Strings, module, read_count, read_string, stream};

/// One value, whatever it was packed as.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    String(Vec<u8>),
    /// A list from left to right.
    List(Strings),
    /// A set.
    Set(Strings),
    /// A sorted set: members, and their scores in member order.
    SortedSet(Strings, Vec<f64>),
    /// A hash: field, value, field, value..., and the time in ms since the epoch at which each field
    /// expires (0: never); empty when none does.
    Hash(Strings, Vec<u64>),
    /// A stream.
    Stream(Box<Stream>),
    /// A value of a module, passed over: the module's name for its type.
    Module(String),
}

impl Value {
    /// What TYPE answers.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::SortedSet(..) => "zset",
            Self::Hash(..) => "hash",
            Self::Stream(_) => "stream",
            Self::Module(name) => name,
        }
    }
}

/// Type bytes.
pub(super) mod code {
    pub(crate) const STRING: u8 = 0;
    pub(crate) const LIST: u8 = 1;
    pub(crate) const SET: u8 = 2;
    pub(crate) const ZSET: u8 = 3;
    pub(crate) const HASH: u8 = 4;
    pub(crate) const ZSET_2: u8 = 5;
    pub(crate) const MODULE_PRE_GA: u8 = 6;
    pub(crate) const MODULE_2: u8 = 7;
    pub(crate) const HASH_ZIPMAP: u8 = 9;
    pub(crate) const LIST_ZIPLIST: u8 = 10;
    pub(crate) const SET_INTSET: u8 = 11;
    pub(crate) const ZSET_ZIPLIST: u8 = 12;
    pub(crate) const HASH_ZIPLIST: u8 = 13;
    pub(crate) const LIST_QUICKLIST: u8 = 14;
    pub(crate) const STREAM: u8 = 15;
    pub(crate) const HASH_LISTPACK: u8 = 16;
    pub(crate) const ZSET_LISTPACK: u8 = 17;
    pub(crate) const LIST_QUICKLIST_2: u8 = 18;
    pub(crate) const STREAM_2: u8 = 19;
    pub(crate) const SET_LISTPACK: u8 = 20;
    pub(crate) const STREAM_3: u8 = 21;
    /// Of Redis 7.4 before its release; in Valkey the hash with times.
    pub(crate) const HASH_TTL_22: u8 = 22;
    pub(crate) const HASH_LISTPACK_TTL_23: u8 = 23;
    pub(crate) const HASH_METADATA: u8 = 24;
    pub(crate) const HASH_LISTPACK_EX: u8 = 25;
}

/// Names of types that newer servers write and that are refused.
fn refused(found: u8, dialect: Dialect) -> RdbError {
    let name = match (found, dialect) {
        (code::MODULE_PRE_GA, _) => "a module value of before Redis 4.0",
        (code::HASH_LISTPACK_TTL_23, Dialect::Valkey) => "a path hash (Valkey 9.2)",
        (26 | 27, Dialect::Redis) => "a stream of Redis 8.6 or newer",
        (28, Dialect::Redis) => "an array (Redis 8.8)",
        (29..=32, Dialect::Redis) => "a template hash (Redis 8.10)",
        (33, Dialect::Redis) => "a rate limiter (GCRA)",
        _ => return RdbError::UnknownType { found },
    };
    RdbError::Unsupported { name }
}

/// Whose numbering the types above 21 follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Redis, and Valkey up to 8.1.
    Redis,
    /// Valkey from 9.0 on (versions from 80 on).
    Valkey,
}

/// Nodes of a quicklist2: one large element, or a listpack.
const NODE_PLAIN: u64 = 1;
const NODE_PACKED: u64 = 2;

/// Lengths that stand for a score in the text form of sorted sets.
const SCORE_NAN: u8 = 253;
const SCORE_INFINITE: u8 = 254;
const SCORE_MINUS_INFINITE: u8 = 255;

/// Reads a value of type `found`.
///
/// # Errors
/// Damaged input, or a type that cannot be read.
pub fn read_value(input: &mut Input<'_>, found: u8, dialect: Dialect) -> Result<Value, RdbError> {
    let mut strings = Strings::default();
    Ok(match (found, dialect) {
        (code::STRING, _) => Value::String(read_string(input)?),
        (code::LIST, _) => Value::List(read_strings(input, 1)?),
        (code::SET, _) => Value::Set(read_strings(input, 1)?),
        (code::HASH, _) => Value::Hash(read_strings(input, 2)?, Vec::new()),
        (code::ZSET, _) => read_sorted_set(input, read_text_score)?,
        (code::ZSET_2, _) => {
            read_sorted_set(input, |input| Ok(f64::from_le_bytes(input.take_array()?)))?
        }
        (code::MODULE_2, _) => Value::Module(module::skip_value(input)?),
        (code::HASH_ZIPMAP, _) => {
            read_zipmap(&read_string(input)?, &mut strings)?;
            hash(strings)?
        }
        (code::LIST_ZIPLIST, _) => {
            read_ziplist("Ziplist", &read_string(input)?, &mut strings)?;
            Value::List(strings)
        }
        (code::SET_INTSET, _) => {
            read_intset(&read_string(input)?, &mut strings)?;
            Value::Set(strings)
        }
        (code::ZSET_ZIPLIST, _) => {
            read_ziplist("Zset ziplist", &read_string(input)?, &mut strings)?;
            sorted_set(&strings)?
        }
        (code::HASH_ZIPLIST, _) => {
            read_ziplist("Hash ziplist", &read_string(input)?, &mut strings)?;
            hash(strings)?
        }
        (code::LIST_QUICKLIST, _) => {
            for _ in 0..read_count(input)? {
                read_ziplist("Ziplist", &read_string(input)?, &mut strings)?;
            }
            Value::List(strings)
        }
        (code::LIST_QUICKLIST_2, _) => {
            for _ in 0..read_count(input)? {
                let (kind, node) = (read_count(input)?, read_string(input)?);
                match kind {
                    NODE_PLAIN | NODE_PACKED if node.is_empty() => {
                        return Err(RdbError::BadValue { reason: "a list node without a byte" });
                    }
                    NODE_PLAIN => strings.push(&node),
                    NODE_PACKED => read_listpack("Listpack", &node, &mut strings)?,
                    _ => return Err(RdbError::BadValue { reason: "unknown kind of list node" }),
                }
            }
            Value::List(strings)
        }
        (code::HASH_LISTPACK, _) => {
            read_listpack("Hash listpack", &read_string(input)?, &mut strings)?;
            hash(strings)?
        }
        (code::ZSET_LISTPACK, _) => {
            read_listpack("Zset listpack", &read_string(input)?, &mut strings)?;
            sorted_set(&strings)?
        }
        (code::SET_LISTPACK, _) => {
            read_listpack("Set listpack", &read_string(input)?, &mut strings)?;
            Value::Set(strings)
        }
        (code::STREAM | code::STREAM_2 | code::STREAM_3, _) => {
            Value::Stream(Box::new(stream::read(input, found)?))
        }
        (code::HASH_TTL_22, Dialect::Valkey) => read_valkey_hash(input)?,
        (code::HASH_TTL_22 | code::HASH_METADATA, Dialect::Redis) => {
            read_hash_with_times(input, found == code::HASH_METADATA)?
        }
        (code::HASH_LISTPACK_TTL_23 | code::HASH_LISTPACK_EX, Dialect::Redis) => {
            if found == code::HASH_LISTPACK_EX {
                // The earliest of the times: the listpack has them all.
                input.skip(8)?;
            }
            read_listpack("Hash listpack", &read_string(input)?, &mut strings)?;
            hash_of_triples(&strings)?
        }
        _ => return Err(refused(found, dialect)),
    })
}

/// A count, and that many times `each` strings.
fn read_strings(input: &mut Input<'_>, each: u64) -> Result<Strings, RdbError> {
    let mut strings = Strings::default();
    for _ in 0..read_count(input)?.saturating_mul(each) {
        strings.push(&read_string(input)?);
    }
    Ok(strings)
}

fn hash(strings: Strings) -> Result<Value, RdbError> {
    if !strings.len().is_multiple_of(2) {
        return Err(RdbError::BadValue { reason: "a hash field without a value" });
    }
    Ok(Value::Hash(strings, Vec::new()))
}

fn sorted_set(pairs: &Strings) -> Result<Value, RdbError> {
    if !pairs.len().is_multiple_of(2) {
        return Err(RdbError::BadValue { reason: "a member without a score" });
    }
    let (mut members, mut scores) = (Strings::default(), Vec::new());
    for (member, score) in pairs.pairs() {
        members.push(member);
        scores.push(parse_score(score)?);
    }
    Ok(Value::SortedSet(members, scores))
}

fn parse_score(text: &[u8]) -> Result<f64, RdbError> {
    let score = std::str::from_utf8(text).ok().and_then(|text| text.trim_start().parse().ok());
    score.ok_or(RdbError::BadValue { reason: "a score that is no number" })
}

fn read_text_score(input: &mut Input<'_>) -> Result<f64, RdbError> {
    let [len] = input.take_array()?;
    match len {
        SCORE_NAN => Ok(f64::NAN),
        SCORE_INFINITE => Ok(f64::INFINITY),
        SCORE_MINUS_INFINITE => Ok(f64::NEG_INFINITY),
        len => parse_score(&input.take(len.into())?),
    }
}

fn read_sorted_set(
    input: &mut Input<'_>,
    read_score: impl Fn(&mut Input<'_>) -> Result<f64, RdbError>,
) -> Result<Value, RdbError> {
    let (mut members, mut scores) = (Strings::default(), Vec::new());
    for _ in 0..read_count(input)? {
        members.push(&read_string(input)?);
        scores.push(read_score(input)?);
    }
    Ok(Value::SortedSet(members, scores))
}

/// Valkey's: field, value, time in ms or -1.
fn read_valkey_hash(input: &mut Input<'_>) -> Result<Value, RdbError> {
    let (mut strings, mut times) = (Strings::default(), Vec::new());
    for _ in 0..read_count(input)? {
        strings.push(&read_string(input)?);
        strings.push(&read_string(input)?);
        let time = i64::from_le_bytes(input.take_array()?);
        times.push(u64::try_from(time).unwrap_or(0));
    }
    hash_with_times(strings, times)
}

/// Redis': time, field, value. The time is 0 for none, and from 7.4.0 on counted from one below the
/// earliest, which comes first.
fn read_hash_with_times(input: &mut Input<'_>, is_relative: bool) -> Result<Value, RdbError> {
    let earliest = if is_relative { u64::from_le_bytes(input.take_array()?) } else { 1 };
    let (mut strings, mut times) = (Strings::default(), Vec::new());
    for _ in 0..read_count(input)? {
        let time = read_count(input)?;
        times.push(if time == 0 { 0 } else { time.saturating_add(earliest.saturating_sub(1)) });
        strings.push(&read_string(input)?);
        strings.push(&read_string(input)?);
    }
    hash_with_times(strings, times)
}

fn hash_of_triples(triples: &Strings) -> Result<Value, RdbError> {
    let (mut strings, mut times) = (Strings::default(), Vec::new());
    let mut parts = triples.iter();
    while let Some(field) = parts.next() {
        let (Some(value), Some(time)) = (parts.next(), parts.next()) else {
            return Err(RdbError::BadValue { reason: "a hash field without value or time" });
        };
        let time = std::str::from_utf8(time).ok().and_then(|time| time.parse().ok());
        strings.push(field);
        strings.push(value);
        times.push(time.ok_or(RdbError::BadValue { reason: "a time that is no number" })?);
    }
    hash_with_times(strings, times)
}

/// Times that no server can have set are damage, as for Redis: they have 63 bits.
fn hash_with_times(strings: Strings, times: Vec<u64>) -> Result<Value, RdbError> {
    if times.iter().any(|&time| i64::try_from(time).is_err()) {
        return Err(RdbError::BadValue { reason: "a time of a hash field beyond all times" });
    }
    let any = times.iter().any(|&time| time != 0);
    Ok(Value::Hash(strings, if any { times } else { Vec::new() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Value, RdbError> {
        let mut input = Input::new(&bytes[1..]);
        let value = read_value(&mut input, bytes[0], Dialect::Redis)?;
        assert_eq!(input.left(), 0);
        Ok(value)
    }

    fn strings(all: &[&[u8]]) -> Strings {
        all.iter().copied().collect()
    }

    #[test]
    fn scores_as_text() {
        let bytes = b"\x03\x04\x01a\x032.5\x01b\xfe\x01c\xff\x01d\x02-1";
        let Ok(Value::SortedSet(members, scores)) = read(bytes) else { panic!() };
        assert_eq!(members, strings(&[b"a", b"b", b"c", b"d"]));
        assert_eq!(scores, [2.5, f64::INFINITY, f64::NEG_INFINITY, -1.0]);
    }

    #[test]
    fn times_of_fields_count_from_the_earliest() {
        let mut bytes = vec![code::HASH_METADATA];
        bytes.extend_from_slice(&5_000_u64.to_le_bytes());
        bytes.extend_from_slice(b"\x03\x01\x01a\x011\x00\x01b\x012\x0b\x01c\x013");
        let fields = strings(&[b"a", b"1", b"b", b"2", b"c", b"3"]);
        assert_eq!(read(&bytes), Ok(Value::Hash(fields, vec![5_000, 0, 5_010])));
        let bytes = b"\x16\x01\x00\x01a\x011";
        assert_eq!(read(bytes), Ok(Value::Hash(strings(&[b"a", b"1"]), vec![])));
    }

    #[test]
    fn times_of_fields_beyond_63_bits_are_refused() {
        let hash = |earliest: u64| {
            let head = [&[code::HASH_METADATA][..], &earliest.to_le_bytes()].concat();
            read(&[&head[..], b"\x01\x01\x01a\x011"].concat())
        };
        let latest = i64::MAX as u64;
        assert_eq!(hash(latest), Ok(Value::Hash(strings(&[b"a", b"1"]), vec![latest])));
        assert!(matches!(hash(latest + 1), Err(RdbError::BadValue { .. })));
    }

    #[test]
    fn a_number_of_parts_that_does_not_fit_is_refused() {
        // A listpack of one element.
        let one = b"\x0a\x0a\0\0\0\x01\0\x81a\x02\xff";
        for found in [code::HASH_LISTPACK, code::ZSET_LISTPACK, code::HASH_LISTPACK_TTL_23] {
            let bytes = [&[found], &one[..]].concat();
            assert!(matches!(read(&bytes[..]), Err(RdbError::BadValue { .. })), "{found}");
        }
        assert_eq!(read(&[99, 0]), Err(RdbError::UnknownType { found: 99 }));
        assert!(matches!(read(&[28, 0]), Err(RdbError::Unsupported { .. })));
    }
}
