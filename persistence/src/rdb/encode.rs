//! How values are written: in the plain types, which every version reads and packs again as it
//! likes.

use super::value::code;
use super::{StringOptions, Strings, Value, stream, write_length, write_string};

/// Versions that can be written, by what they brought.
mod version {
    /// Redis 5.0: streams. All before it could be written lower, and every server in use reads 9.
    pub(super) const STREAMS: u16 = 9;
    /// Redis 7.0: entries read of streams.
    pub(super) const STREAMS_2: u16 = 10;
    /// Redis 7.4: times of hash fields.
    pub(super) const FIELD_TIMES: u16 = 12;
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
            Self::List(_) => code::LIST,
            Self::Set(_) => code::SET,
            Self::SortedSet(..) => code::ZSET_2,
            Self::Hash(_, times) if times.is_empty() => code::HASH,
            Self::Hash(..) => code::HASH_METADATA,
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
            write_strings(out, strings, options);
        }
        Value::SortedSet(members, scores) => {
            write_length(out, members.len() as u64);
            for (member, score) in members.iter().zip(scores) {
                write_string(out, member, options);
                out.extend_from_slice(&score.to_le_bytes());
            }
        }
        Value::Hash(strings, times) => {
            let earliest = times.iter().copied().filter(|&time| time != 0).min();
            if let Some(earliest) = earliest {
                out.extend_from_slice(&earliest.to_le_bytes());
            }
            write_length(out, (strings.len() / 2) as u64);
            for (nth, (field, value)) in strings.pairs().enumerate() {
                if let Some(earliest) = earliest {
                    let time = times.get(nth).copied().unwrap_or(0);
                    write_length(out, if time == 0 { 0 } else { time - earliest + 1 });
                }
                write_string(out, field, options);
                write_string(out, value, options);
            }
        }
        Value::Stream(stream) => stream::write(out, stream, value.code(), options),
        Value::Module(_) => {}
    }
}

fn write_strings(out: &mut Vec<u8>, strings: &Strings, options: StringOptions) {
    strings.iter().for_each(|string| write_string(out, string, options));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::{Dialect, Input, read_value};

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
            assert_eq!(read_value(&mut input, value.code(), Dialect::Redis), Ok(value));
            assert_eq!(input.left(), 0);
        }
    }
}
