//! The server's log, in Redis' line format: `pid:M dd Mon yyyy hh:mm:ss.mmm * message`.

use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How important a line is (`loglevel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// `.`
    Debug = 0,
    /// `-`
    Verbose = 1,
    /// `*`
    Notice = 2,
    /// `#`
    Warning = 3,
}

impl Level {
    /// The level of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "debug" => Some(Self::Debug),
            "verbose" => Some(Self::Verbose),
            "notice" => Some(Self::Notice),
            "warning" => Some(Self::Warning),
            _ => None,
        }
    }

    fn mark(self) -> char {
        ['.', '-', '*', '#'][self as usize]
    }
}

static THRESHOLD: AtomicU8 = AtomicU8::new(Level::Notice as u8);
static FILE: Mutex<Option<File>> = Mutex::new(None);

/// Lines below `level` are left out from now on.
pub fn set_level(level: Level) {
    THRESHOLD.store(level as u8, Ordering::Relaxed);
}

/// Lines go to the end of this file from now on, instead of to standard output.
///
/// # Errors
/// The file cannot be opened.
pub fn set_file(path: &Path) -> io::Result<()> {
    *FILE.lock() = Some(OpenOptions::new().create(true).append(true).open(path)?);
    Ok(())
}

/// Whether lines go to a file.
#[must_use]
pub fn is_file() -> bool {
    FILE.lock().is_some()
}

/// Writes one line.
pub fn line(level: Level, message: &str) {
    if (level as u8) < THRESHOLD.load(Ordering::Relaxed) {
        return;
    }
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis());
    let text = format!(
        "{}:M {} {} {message}\n",
        std::process::id(),
        timestamp(now_ms as u64),
        level.mark()
    );
    // A log that cannot be written must not stop the server.
    let _ = match &mut *FILE.lock() {
        Some(file) => file.write_all(text.as_bytes()),
        None => io::stdout().write_all(text.as_bytes()),
    };
}

/// A line of level notice.
pub fn notice(message: &str) {
    line(Level::Notice, message);
}

/// A line of level warning.
pub fn warning(message: &str) {
    line(Level::Warning, message);
}

/// `dd Mon yyyy hh:mm:ss.mmm`, in UTC.
fn timestamp(now_ms: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = now_ms / 1000;
    let (year, month, day) = civil_date(seconds / 86_400);
    format!(
        "{day:02} {} {year} {:02}:{:02}:{:02}.{:03}",
        MONTHS[month - 1],
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        now_ms % 1000
    )
}

/// Year, month (1 to 12) and day of a number of days since 1 January 1970.
fn civil_date(days: u64) -> (u64, usize, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut left) = (1970, days);
    loop {
        let length = 365 + u64::from(is_leap(year));
        if left < length {
            break;
        }
        left -= length;
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    (year, month + 1, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(timestamp(0), "01 Jan 1970 00:00:00.000");
        assert_eq!(timestamp(951_782_400_007), "29 Feb 2000 00:00:00.007");
        assert_eq!(timestamp(1_709_251_199_999), "29 Feb 2024 23:59:59.999");
        assert_eq!(timestamp(4_107_542_400_000), "01 Mar 2100 00:00:00.000");
    }
}
