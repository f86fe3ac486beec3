//! The limit of a connection's unread output (`client-output-buffer-limit`).

use crate::log;
use crate::session::Session;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Unsent replies at which a connection without a hard limit is no longer read, in bytes.
const PAUSE_BYTES: u64 = 64 << 20;

/// The limits of one class of clients; 0 for none.
#[derive(Debug, Default)]
pub struct OutputLimit {
    hard_bytes: AtomicU64,
    soft_bytes: AtomicU64,
    soft_s: AtomicU64,
}

impl OutputLimit {
    /// Sets the limits from the text of the directive: `class hard soft seconds`, for each class.
    ///
    /// # Errors
    /// The text has no such class, or something else than numbers.
    pub fn set_from(&self, class: &str, text: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(text);
        let mut words = text.split_ascii_whitespace().skip_while(|word| *word != class).skip(1);
        let mut number = || {
            let word = words.next().ok_or("limits of a class are missing")?;
            word.parse::<u64>().map_err(|_| "a limit is not a number of bytes or seconds")
        };
        let limits = (number()?, number()?, number()?);
        self.hard_bytes.store(limits.0, Ordering::Relaxed);
        self.soft_bytes.store(limits.1, Ordering::Relaxed);
        self.soft_s.store(limits.2, Ordering::Relaxed);
        Ok(())
    }

    /// Unsent bytes at which the connection is no longer read until some have left. With a hard limit it is
    /// closed instead; without one this is what bounds its memory.
    pub(crate) fn pause_bytes(&self) -> u64 {
        match self.hard_bytes.load(Ordering::Relaxed) {
            0 => PAUSE_BYTES.max(self.soft_bytes.load(Ordering::Relaxed)),
            _ => u64::MAX,
        }
    }

    /// Unsent bytes at which the connection is closed at once; `u64::MAX` for none.
    pub(crate) fn closing_bytes(&self) -> u64 {
        match self.hard_bytes.load(Ordering::Relaxed) {
            0 => u64::MAX,
            hard => hard,
        }
    }

    /// Unsent bytes at which a listener is disconnected when another message arrives.
    pub(crate) fn listener_max_bytes(&self) -> usize {
        match self.hard_bytes.load(Ordering::Relaxed) {
            0 => self.pause_bytes() as usize,
            hard => hard as usize,
        }
    }

    /// True when a connection with `unsent` bytes must be closed: it is above the hard limit, or has
    /// been above the soft one for too long.
    fn is_overcome(&self, session: &Session, unsent: u64) -> bool {
        let hard = self.hard_bytes.load(Ordering::Relaxed);
        if hard != 0 && unsent >= hard {
            return true;
        }
        let soft = self.soft_bytes.load(Ordering::Relaxed);
        let above = session.above_soft_limit(soft != 0 && unsent >= soft);
        above.is_some_and(|above| above > Duration::from_secs(self.soft_s.load(Ordering::Relaxed)))
    }

    /// Closes the connection when `unsent` bytes are too many; true when it did.
    pub(crate) fn enforce(&self, session: &Session, unsent: u64) -> bool {
        if session.is_killed() || !self.is_overcome(session, unsent) {
            return false;
        }
        over_output_limit(session, unsent as usize);
        true
    }
}

/// Closes the connection, with a line in the log.
pub(crate) fn over_output_limit(session: &Session, unsent: usize) {
    session.output_bytes.store(unsent, Ordering::Relaxed);
    log::warning(&format!(
        "Client {} scheduled to be closed ASAP for overcoming of output buffer limits.",
        session.line()
    ));
    session.kill();
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"normal 1000 100 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";

    #[test]
    fn each_class_has_its_limits_and_a_bad_text_changes_nothing() {
        let limit = OutputLimit::default();
        limit.set_from("pubsub", TEXT).unwrap();
        assert_eq!(limit.hard_bytes.load(Ordering::Relaxed), 33_554_432);
        limit.set_from("nobody", TEXT).unwrap_err();
        limit.set_from("normal", b"normal 1 x 3").unwrap_err();
        assert_eq!(limit.soft_s.load(Ordering::Relaxed), 60);
    }

    #[test]
    fn above_the_hard_limit_at_once_above_the_soft_one_for_its_time() {
        let (limit, session) = (OutputLimit::default(), Session::default());
        assert!(!limit.is_overcome(&session, u64::MAX), "0 0 0 is no limit");
        assert_eq!(limit.pause_bytes(), PAUSE_BYTES);
        limit.set_from("normal", b"normal 1000 100 1000").unwrap();
        assert!(limit.is_overcome(&session, 1000));
        assert!(!limit.is_overcome(&session, 999), "the soft limit gives a thousand seconds");
        assert_eq!(limit.pause_bytes(), u64::MAX);
    }

    #[test]
    fn the_time_of_a_soft_limit_ends_within_a_second() {
        let (limit, mut session) = (OutputLimit::default(), Session::default());
        limit.set_from("normal", b"normal 0 100 2").unwrap();
        assert!(!limit.is_overcome(&session, 100));
        let begun = session.created;
        session.created = begun.checked_sub(Duration::from_millis(1900)).unwrap();
        assert!(!limit.is_overcome(&session, 100));
        session.created = begun.checked_sub(Duration::from_millis(2100)).unwrap();
        assert!(limit.is_overcome(&session, 100));
    }
}
