//! MONITOR: every executed request, as text, for the connections that asked to see them.

use crate::resp::Args;
use crate::session::Session;
use parking_lot::Mutex;
use sexton_engine::Seq;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes kept for a monitor that does not read; above this it is disconnected, as Redis does with a
/// client above its output limit.
const PENDING_MAX_BYTES: usize = 8 << 20;

/// All connections that run MONITOR.
#[derive(Default)]
pub struct Monitors {
    active: AtomicBool,
    list: Mutex<Vec<Arc<Session>>>,
}

impl std::fmt::Debug for Monitors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitors").field("count", &self.list.lock().len()).finish()
    }
}

impl Monitors {
    /// True while any client runs MONITOR: one load, to be checked before [`Monitors::feed`].
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// The connection sees all requests from now on.
    pub fn start(&self, session: &Arc<Session>) {
        let mut list = self.list.lock();
        if list.iter().all(|monitor| monitor.id != session.id) {
            list.push(Arc::clone(session));
        }
        session.monitor.store(true, Ordering::Relaxed);
        self.active.store(true, Ordering::Relaxed);
    }

    /// Removes a connection that was closed or reset.
    pub fn stop(&self, id: u64) {
        let mut list = self.list.lock();
        list.retain(|monitor| monitor.id != id);
        self.active.store(!list.is_empty(), Ordering::Relaxed);
    }

    /// Shows an executed request to all monitors once `required` is durable (N13), unless it is for operators only.
    pub fn feed(&self, args: Args<'_>, (db, addr): (usize, &str), now_us: u64, required: Seq) {
        let line = line(args, db, addr, now_us);
        for monitor in self.list.lock().iter() {
            if monitor.outbox.push(&line, required, PENDING_MAX_BYTES) {
                monitor.wake_task();
            } else {
                monitor.kill();
            }
        }
    }
}

/// `+SECONDS.MICROS [DB ADDR] "ARG" ...`
fn line(args: Args<'_>, db: usize, addr: &str, now_us: u64) -> Vec<u8> {
    let mut text = format!("+{}.{:06} [{db} {addr}]", now_us / 1_000_000, now_us % 1_000_000);
    for arg in args.from(0) {
        text.push(' ');
        quote(&mut text, arg);
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// A string as Redis shows it to people: printable ASCII in double quotes, the rest escaped.
fn quote(text: &mut String, bytes: &[u8]) {
    text.push('"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => {
                text.push('\\');
                text.push(char::from(*byte));
            }
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            0x07 => text.push_str("\\a"),
            0x08 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(*byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(text, "\\x{byte:02x}")),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::outbox::Parcel;

    fn args<T>(words: &[&[u8]], run: impl FnOnce(Args<'_>) -> T) -> T {
        let (buf, ranges) = crate::resp::pack(words.iter().copied());
        run(Args::new(&buf, &ranges))
    }

    #[test]
    fn requests_are_shown_as_redis_shows_them() {
        let monitors = Monitors::default();
        let session = Arc::new(Session::default());
        monitors.start(&session);
        monitors.start(&session);
        args(&[b"SET", b"k", b"a\"\n\x01\xff"], |args| {
            monitors.feed(args, (3, "127.0.0.1:5"), 1_500_000, 4);
        });
        let expected = b"+1.500000 [3 127.0.0.1:5] \"SET\" \"k\" \"a\\\"\\n\\x01\\xff\"\r\n";
        let parcel = Parcel { bytes: expected.to_vec(), marks: vec![(0, 4)], is_last: false };
        assert_eq!(session.outbox.take(), parcel);
        monitors.stop(session.id);
        assert!(!monitors.is_active());
    }

    #[test]
    fn a_monitor_that_does_not_read_is_disconnected() {
        let monitors = Monitors::default();
        let session = Arc::new(Session::default());
        monitors.start(&session);
        let value = vec![b'x'; 1 << 20];
        for _ in 0..20 {
            args(&[b"set", b"k", &value], |args| monitors.feed(args, (0, "a"), 0, 0));
        }
        assert!(session.is_killed());
        assert!(session.outbox.bytes() <= PENDING_MAX_BYTES);
    }
}
