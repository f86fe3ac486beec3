//! How values are written: in the plain types, which every version reads and packs again as it
//! likes.

use super::value::code;
use super::{CollectionKind, Element, StringOptions, Value, stream, write_length, write_string};

/// Versions that can be written, by what they brought.
mod version {
    /// Redis 5.0: streams. All before it could be written lower, and every server in use reads 9.
    pub(super) const STREAMS: u16 = 9;
    /// Redis 7.0: entries read of streams.
    pub(super) const STREAMS_2: u16 = 10;
    /// Valkey 9.0, by its own numbering: times of hash fields. Redis has them from 7.4 on, in a form that Valkey does not read.
    pub(super) const FIELD_TIMES: u16 = crate::rdb::FIELD_TIMES_VERSION;
}

impl Value {
    /// Lowest RDB version that can hold the value; `None` for a module's, which cannot be written.
    #[must_use]
    pub fn version_needed(&self) -> Option<u16> {
        Some(match self {
            Self::Module(_) => return None,
            Self::Hash(_, times) if !times.is_empty() => version::FIELD_TIMES,
            Self::Stream(stream) if stream.needs_type_19() => version::STREAMS_2,
            _ => version::STREAMS,
        })
    }

    /// The type byte it is written with.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::String(_) => code::STRING,
            Self::List(_) => CollectionKind::List.code(),
            Self::Set(_) => CollectionKind::Set.code(),
            Self::SortedSet(..) => CollectionKind::SortedSet.code(),
            Self::Hash(_, times) if times.is_empty() => CollectionKind::Hash.code(),
            Self::Hash(..) => CollectionKind::ExpiringHash.code(),
            Self::Stream(stream) if stream.needs_type_19() => code::STREAM_2,
            Self::Stream(_) => code::STREAM,
            Self::Module(_) => code::MODULE_2,
        }
    }
}

/// Appends the bytes of a value behind its type byte; nothing for a module's.
pub(super) fn write_value(out: &mut Vec<u8>, value: &Value, options: StringOptions) {
    match value {
        Value::String(string) => write_string(out, string, options),
        Value::List(strings) | Value::Set(strings) => {
            write_length(out, strings.len() as u64);
            strings.iter().for_each(|string| Element::Item(string).write(out, options));
        }
        Value::SortedSet(members, scores) => {
            write_length(out, members.len() as u64);
            for (member, score) in members.iter().zip(scores) {
                Element::Scored(member, *score).write(out, options);
            }
        }
        Value::Hash(strings, times) => {
            write_length(out, (strings.len() / 2) as u64);
            for (nth, (field, value)) in strings.pairs().enumerate() {
                let element = match times.get(nth) {
                    _ if times.is_empty() => Element::Field(field, value),
                    time => Element::Timed(field, value, time.copied().unwrap_or(0)),
                };
                element.write(out, options);
            }
        }
        Value::Stream(stream) => stream::write(out, stream, value.code(), options),
        Value::Module(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::{Dialect, Input, Strings, read_value};

    #[test]
    fn values_come_back() {
        let strings: Strings =
            [&b"a"[..], b"1", b"long enough to be compressed aaaaaaaaaaaaaaaaaaaaaaaaaaa", b"-7"]
                .into_iter()
                .collect();
        let values = [
            Value::String(b"text".to_vec()),
            Value::List(strings.clone()),
            Value::Set(strings.clone()),
            Value::SortedSet(strings.clone(), vec![0.1, f64::INFINITY, -0.0, 1e300]),
            Value::Hash(strings.clone(), vec![]),
            Value::Hash(strings, vec![0, 1_700_000_000_000]),
        ];
        for value in values {
            let mut bytes = Vec::new();
            write_value(&mut bytes, &value, StringOptions { compress: true });
            let mut input = Input::new(&bytes);
            let is_valkeys = value.version_needed() == Some(version::FIELD_TIMES);
            let dialect = if is_valkeys { Dialect::Valkey } else { Dialect::Redis };
            assert_eq!(read_value(&mut input, value.code(), dialect), Ok(value));
            assert_eq!(input.left(), 0);
        }
    }
}
