//! Time annotations (`aof-timestamp-enabled`): the line `#TS:SECONDS\r\n` that Redis 7 writes and
//! `redis-check-aof --truncate-to-timestamp` reads.
//!
//! A group belongs to one second: a new group begins when the second changes. The log can therefore be cut at a time
//! without splitting a group.

use std::time::{SystemTime, UNIX_EPOCH};

/// Where the log has the time from: seconds since 1970.
pub type LogClock = fn() -> u64;

/// The system's clock.
#[must_use]
pub fn log_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

const TAG: &[u8; 4] = b"#TS:";
/// Tag, the digits of `u64::MAX`, and the end of the line.
pub(super) const STAMP_MAX_BYTES: usize = TAG.len() + 20 + 2;

/// Writes the annotation and answers its length.
pub(super) fn write_stamp(out: &mut [u8], time_s: u64) -> usize {
    let line = format!("#TS:{time_s}\r\n");
    out[..line.len()].copy_from_slice(line.as_bytes());
    line.len()
}

/// The time in front of a group's commands, if there is one, and the commands.
pub(super) fn split_stamp(bytes: &[u8]) -> (Option<u64>, &[u8]) {
    let parse = || {
        let rest = bytes.strip_prefix(TAG)?;
        let end = rest.iter().take(STAMP_MAX_BYTES).position(|byte| *byte == b'\r')?;
        let time_s = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
        Some((time_s, rest[end..].strip_prefix(b"\r\n")?))
    };
    parse().map_or((None, bytes), |(time_s, rest)| (Some(time_s), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_split_off_again() {
        for time_s in [0, 1_700_000_000, u64::MAX] {
            let mut line = [0; STAMP_MAX_BYTES + 3];
            let length = write_stamp(&mut line, time_s);
            line[length..length + 3].copy_from_slice(b"*1\r");
            assert_eq!(split_stamp(&line[..length + 3]), (Some(time_s), &b"*1\r"[..]));
        }
        for no_stamp in
            [&b"*1\r\n"[..], b"#TS:12", b"#TS:x\r\n", b"#TS:99999999999999999999\r\n", b""]
        {
            assert_eq!(split_stamp(no_stamp), (None, no_stamp));
        }
    }
}
