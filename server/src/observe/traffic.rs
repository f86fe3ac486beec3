//! Traffic counters: connections, commands, bytes, errors.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Redis averages its instantaneous figures over this many samples.
const SAMPLES: usize = 16;

/// Maximum number of distinct error prefixes: an attacker must not fill memory with new ones.
const ERROR_KINDS_MAX: usize = 128;

/// Longest first word that counts as the code of an error, as in Redis.
const CODE_MAX_BYTES: usize = 30;

/// Totals since start (or CONFIG RESETSTAT). Workers add to them once a batch.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Accepted connections.
    pub connections: AtomicU64,
    /// Connections refused for `maxclients`.
    pub rejected_connections: AtomicU64,
    /// Executed requests.
    pub commands: AtomicU64,
    /// Bytes received.
    pub input_bytes: AtomicU64,
    /// Bytes sent.
    pub output_bytes: AtomicU64,
    /// Reads from connections.
    pub reads: AtomicU64,
    /// Writes to connections.
    pub writes: AtomicU64,
    /// Error replies.
    pub error_replies: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
    rates: Mutex<Rates>,
}

/// Handshakes of TLS since the start.
#[derive(Debug, Default)]
pub struct TlsFigures {
    /// Those that went well.
    pub handshakes: AtomicU64,
    /// Of these, those that went on with an earlier session.
    pub resumed: AtomicU64,
    /// Those that failed.
    pub failed: AtomicU64,
}

/// Rates of the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Requests per second.
    pub commands: u64,
    /// KiB received per second.
    pub input_kib: f64,
    /// KiB sent per second.
    pub output_kib: f64,
}

#[derive(Debug, Default)]
struct Rates {
    last: Option<(Instant, [u64; 3])>,
    samples: [[f64; 3]; SAMPLES],
    next: usize,
}

impl Traffic {
    /// An error reply with this text was sent: counted under its first word, or as ERR where that is no code.
    pub fn count_error(&self, text: &[u8]) {
        self.error_replies.fetch_add(1, Ordering::Relaxed);
        // The ends of lines are sent as blanks.
        let is_blank = |&byte: &u8| matches!(byte, b' ' | b'\r' | b'\n');
        let start = &text[..text.len().min(CODE_MAX_BYTES + 1)];
        let code = start.iter().position(is_blank).map_or(&b"ERR"[..], |end| &text[..end]);
        // What would end a field of INFO, as in Redis.
        let prefix = String::from_utf8_lossy(code).replace([':', '#'], "_");
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(&prefix) {
            *count += 1;
        } else if errors.len() < ERROR_KINDS_MAX {
            errors.insert(prefix, 1);
        }
    }

    /// Error replies by prefix.
    #[must_use]
    pub fn errors(&self) -> Vec<(String, u64)> {
        self.errors.lock().iter().map(|(prefix, count)| (prefix.clone(), *count)).collect()
    }

    /// Takes a sample for the rates; call it about ten times a second.
    pub fn sample(&self, now: Instant) {
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let totals = [load(&self.commands), load(&self.input_bytes), load(&self.output_bytes)];
        let mut rates = self.rates.lock();
        if let Some((then, old)) = rates.last {
            let elapsed_s = now.duration_since(then).as_secs_f64();
            if elapsed_s > 0.0 {
                let next = rates.next;
                for (nth, total) in totals.iter().enumerate() {
                    rates.samples[next][nth] = total.saturating_sub(old[nth]) as f64 / elapsed_s;
                }
                rates.next = (next + 1) % SAMPLES;
            }
        }
        rates.last = Some((now, totals));
    }

    /// Mean of the last samples.
    #[must_use]
    pub fn rate(&self) -> Rate {
        let rates = self.rates.lock();
        let mean = |nth: usize| rates.samples.iter().map(|s| s[nth]).sum::<f64>() / SAMPLES as f64;
        Rate { commands: mean(0) as u64, input_kib: mean(1) / 1024.0, output_kib: mean(2) / 1024.0 }
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        let figures = [
            &self.connections,
            &self.rejected_connections,
            &self.commands,
            &self.input_bytes,
            &self.output_bytes,
            &self.reads,
            &self.writes,
            &self.error_replies,
        ];
        for figure in figures {
            figure.store(0, Ordering::Relaxed);
        }
        self.errors.lock().clear();
        *self.rates.lock() = Rates::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn errors_are_counted_by_prefix() {
        let traffic = Traffic::default();
        for text in ["ERR syntax error", "WRONGTYPE x", "ERR no such key"] {
            traffic.count_error(text.as_bytes());
        }
        assert_eq!(traffic.errors(), [("ERR".to_owned(), 2), ("WRONGTYPE".to_owned(), 1)]);
        for nth in 0..1000 {
            traffic.count_error(format!("E{nth} x").as_bytes());
        }
        assert_eq!(traffic.errors().len(), ERROR_KINDS_MAX);
        assert_eq!(traffic.error_replies.load(Ordering::Relaxed), 1003);
    }

    #[test]
    fn what_is_no_code_counts_as_err_and_none_ends_a_field_of_info() {
        for (text, code) in [
            ("NOSPACE", "ERR"),
            ("", "ERR"),
            (" lead", ""),
            ("a\nb c", "a"),
            ("ERR\r\n-ERR FAKE", "ERR"),
            ("MYE: foo", "MYE_"),
            ("A#B x", "A_B"),
            ("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123 x", "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123"),
            ("ABCDEFGHIJKLMNOPQRSTUVWXYZ01234 x", "ERR"),
        ] {
            let traffic = Traffic::default();
            traffic.count_error(text.as_bytes());
            assert_eq!(traffic.errors(), [(code.to_owned(), 1)], "{text:?}");
        }
    }

    #[test]
    fn rates_are_means_of_samples() {
        let traffic = Traffic::default();
        let mut now = Instant::now();
        traffic.sample(now);
        for _ in 0..SAMPLES {
            traffic.commands.fetch_add(100, Ordering::Relaxed);
            traffic.input_bytes.fetch_add(2048, Ordering::Relaxed);
            now += Duration::from_secs(1);
            traffic.sample(now);
        }
        assert_eq!(traffic.rate(), Rate { commands: 100, input_kib: 2.0, output_kib: 0.0 });
        traffic.reset();
        assert_eq!(traffic.rate(), Rate::default());
    }
}
