//! The server's log, in Redis' line format: `pid:M dd Mon yyyy hh:mm:ss.mmm * message`, in local time.
#![allow(unsafe_code)]

use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
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
static TARGET: Mutex<Option<LogFile>> = Mutex::new(None);
/// Locked after [`TARGET`].
static LOSS: Mutex<Loss> = Mutex::new(Loss { lines: 0, is_cut: false });
/// Descriptor of the log's output, for code that may not take a lock.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(libc::STDOUT_FILENO);

/// A file that the log is written to.
struct LogFile {
    /// The configured path, made absolute: the server's directory may change.
    path: PathBuf,
    file: File,
    /// Device and inode, by which it is known again.
    identity: (u64, u64),
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let found = file.metadata()?;
        Ok(Self { path, file, identity: (found.dev(), found.ino()) })
    }

    /// Whether its path no longer refers to it: the file was moved or removed.
    fn is_away(&self) -> bool {
        !std::fs::metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }
}

/// Replaces `target`, the file that the log is written to.
fn put(target: &mut Option<LogFile>, new: Option<LogFile>) {
    let descriptor = new.as_ref().map_or(libc::STDOUT_FILENO, |new| new.file.as_raw_fd());
    DESCRIPTOR.store(descriptor, Ordering::Release);
    *target = new;
}

/// Lines below `level` are left out from now on.
pub fn set_level(level: Level) {
    THRESHOLD.store(level as u8, Ordering::Relaxed);
}

/// Whether lines of this level are written.
#[must_use]
pub fn shows(level: Level) -> bool {
    level as u8 >= THRESHOLD.load(Ordering::Relaxed)
}

/// From now on appends lines to this file, or writes them to standard output for an empty path.
///
/// # Errors
/// The file cannot be opened. The previous target remains in use.
pub fn set_file(path: &Path) -> io::Result<()> {
    let new = match path.as_os_str().is_empty() {
        true => None,
        false => Some(LogFile::open(path)?),
    };
    put(&mut TARGET.lock(), new);
    Ok(())
}

/// Reopens the file by its path (SIGHUP): a file that was moved away is no longer written.
pub fn reopen() {
    let mut target = TARGET.lock();
    let Some(path) = target.as_ref().map(|file| file.path.clone()) else { return };
    match LogFile::open(&path) {
        Ok(new) => put(&mut target, Some(new)),
        Err(error) => {
            drop(target);
            warning(&format!("Can't open the log file again: {error}"));
        }
    }
}

/// Whether the log is written to a file.
#[must_use]
pub fn is_file() -> bool {
    TARGET.lock().is_some()
}

/// Lines lost because the log is a pipe that nobody reads, or its device is full. The log reports their number
/// once it can be written again.
#[derive(Debug, Default)]
struct Loss {
    lines: u64,
    /// The last line is there in part.
    is_cut: bool,
}

impl Loss {
    /// Writes a line, preceded by the number of lost lines. Does not block: a line that cannot be written at once is lost.
    fn put(&mut self, descriptor: RawFd, level: Level, message: &str) {
        if self.lines > 0 {
            let lines = self.lines;
            let missing = format!("{lines} lines are missing here: the log could not be written");
            if !self.write(descriptor, &formatted(Level::Warning, &missing)) {
                self.lines += 1;
                return;
            }
            self.lines = 0;
        }
        if !self.write(descriptor, &formatted(level, message)) {
            self.lines += 1;
        }
    }

    fn write(&mut self, descriptor: RawFd, line: &str) -> bool {
        if self.is_cut {
            if write_at_once(descriptor, b"\n") == 0 {
                return false;
            }
            self.is_cut = false;
        }
        let written = write_at_once(descriptor, line.as_bytes());
        self.is_cut = written > 0 && written < line.len();
        written == line.len()
    }
}

fn formatted(level: Level, message: &str) -> String {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis());
    let (pid, time) = (std::process::id(), timestamp(now_ms as i64));
    format!("{pid}:M {time} {} {message}\n", level.mark())
}

/// Writes one line.
pub fn line(level: Level, message: &str) {
    if !shows(level) {
        return;
    }
    let mut target = TARGET.lock();
    // As redis-server, which opens it for each line: a file that was moved away is not written to.
    if let Some(path) = target.as_ref().filter(|file| file.is_away()).map(|file| file.path.clone())
        && let Ok(new) = LogFile::open(&path)
    {
        put(&mut target, Some(new));
    }
    // A log that cannot be written must not stop the server.
    LOSS.lock().put(DESCRIPTOR.load(Ordering::Acquire), level, message);
}

/// A line of level verbose, made only where it is shown.
pub fn verbose(message: impl FnOnce() -> String) {
    if shows(Level::Verbose) {
        line(Level::Verbose, &message());
    }
}

/// A line of level notice.
pub fn notice(message: &str) {
    line(Level::Notice, message);
}

/// A line of level warning.
pub fn warning(message: &str) {
    line(Level::Warning, message);
}

/// Writes bytes to the log's target without a lock or an allocation: for the crash handler.
pub fn write_raw(bytes: &[u8]) {
    write_at_once(DESCRIPTOR.load(Ordering::Acquire), bytes);
}

/// Writes as much as possible without blocking, and returns how much that was. Otherwise a pipe whose reader has stopped
/// would block every thread that logs.
fn write_at_once(descriptor: RawFd, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        let mut asked = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one valid entry; `poll` may be called in a signal handler.
        if unsafe { libc::poll(&raw mut asked, 1, 0) } != 1 {
            break;
        }
        // A pipe that is ready accepts this many bytes without blocking.
        let piece = &bytes[written..bytes.len().min(written + libc::PIPE_BUF)];
        // SAFETY: the bytes are ours, and `write` may be called in a signal handler.
        let count = unsafe { libc::write(descriptor, piece.as_ptr().cast(), piece.len()) };
        match usize::try_from(count) {
            Ok(count @ 1..) => written += count,
            _ => break,
        }
    }
    written
}

/// `dd Mon yyyy hh:mm:ss.mmm`, in local time.
fn timestamp(now_ms: i64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds: libc::time_t = now_ms.div_euclid(1000);
    // SAFETY: all fields of the C struct are numbers, or a pointer that may be null.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid for the call. Null comes back for years beyond 2^31 only; then zeros are shown.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut local) };
    format!(
        "{:02} {} {} {:02}:{:02}:{:02}.{:03}",
        local.tm_mday,
        MONTHS[usize::try_from(local.tm_mon).unwrap_or(0) % MONTHS.len()],
        1900 + local.tm_year,
        local.tm_hour,
        local.tm_min,
        local.tm_sec,
        now_ms.rem_euclid(1000)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Duration;

    /// `date` knows the time zone of this machine.
    #[test]
    fn times_are_local() {
        for (seconds, rest_ms) in [(951_782_400, 7), (1_709_251_199, 999), (1_720_000_000, 0)] {
            let date = std::process::Command::new("date")
                .env("LC_ALL", "C")
                .args(["-d", &format!("@{seconds}"), "+%d %b %Y %H:%M:%S"])
                .output()
                .unwrap();
            let expected = format!("{}.{rest_ms:03}", String::from_utf8_lossy(&date.stdout).trim());
            assert_eq!(timestamp(seconds * 1000 + rest_ms), expected);
        }
    }

    /// Most lines that the test writes into a pipe, which takes 64 KiB.
    const LINES: u64 = 10_000;

    #[test]
    fn a_pipe_that_nobody_reads_holds_up_nobody_and_the_lines_are_counted() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (tell, done) = std::sync::mpsc::channel();
        // A thread of its own: a write that waits would wait for ever.
        std::thread::spawn(move || {
            let mut loss = Loss::default();
            for number in 0..LINES {
                let message = format!("line {number} {}", "x".repeat(number as usize % 9000));
                loss.put(writer.as_raw_fd(), Level::Notice, &message);
            }
            tell.send((loss, writer)).unwrap();
        });
        let (mut loss, writer) = done.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(loss.lines > 0 && loss.lines < LINES);
        let lost = loss.lines;
        let mut text = vec![0; 1 << 16];
        let count = reader.read(&mut text).unwrap();
        text.truncate(count);
        loss.put(writer.as_raw_fd(), Level::Notice, "read again");
        assert_eq!(loss.lines, 0);
        drop(writer);
        reader.read_to_end(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.starts_with(&std::process::id().to_string())));
        let missing = format!(" # {lost} lines are missing here: the log could not be written");
        assert!(lines[lines.len() - 2].ends_with(&missing), "{}", lines[lines.len() - 2]);
        assert!(lines[lines.len() - 1].ends_with(" * read again"));
    }

    #[test]
    fn a_file_that_was_moved_is_away() {
        let dir = sexton_persistence::device::TempDir::new("log");
        let (path, moved) = (dir.join("a.log"), dir.join("b.log"));
        let file = LogFile::open(&path).unwrap();
        assert!(!file.is_away());
        std::fs::rename(&path, &moved).unwrap();
        assert!(file.is_away());
        let new = LogFile::open(&path).unwrap();
        assert!(!new.is_away() && file.is_away());
    }
}
