//! What users were refused, for ACL LOG.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Refusals of one kind within this time are one entry.
const SAME_WITHIN_MS: u64 = 60_000;

/// Number of recent entries that are searched for a refusal of the same kind.
const LOOKED_AT: usize = 10;

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A database.
    Database,
    /// A name with a password.
    Auth,
    /// The name in a client's certificate.
    Certificate,
}

impl Reason {
    /// All, in the order of INFO.
    pub const ALL: [Self; 6] =
        [Self::Auth, Self::Command, Self::Key, Self::Channel, Self::Certificate, Self::Database];

    /// The field of INFO with the number of refusals, as in Redis 7.2 and Valkey 9.1.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Auth => "acl_access_denied_auth",
            Self::Command => "acl_access_denied_cmd",
            Self::Key => "acl_access_denied_key",
            Self::Channel => "acl_access_denied_channel",
            Self::Certificate => "acl_access_denied_tls_cert",
            Self::Database => "acl_access_denied_db",
        }
    }

    /// As ACL LOG shows it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
            Self::Database => "database",
            Self::Auth => "auth",
            Self::Certificate => "tls-cert",
        }
    }
}

/// Where a command was to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// By itself.
    TopLevel,
    /// In a transaction.
    Multi,
    /// In a script.
    Lua,
}

impl Context {
    /// As ACL LOG shows it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TopLevel => "toplevel",
            Self::Multi => "multi",
            Self::Lua => "lua",
        }
    }
}

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub reason: Reason,
    /// Where.
    pub context: Context,
    /// The command, key or channel.
    pub object: Vec<u8>,
    /// Of whom.
    pub user: Vec<u8>,
    /// The connection, as CLIENT LIST shows it.
    pub client: String,
}

/// Refusals of one kind.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Rising number, never reset.
    pub id: u64,
    /// How many there were.
    pub count: u64,
    /// The last one.
    pub last: Denial,
    /// When the first one was, in ms since the epoch.
    pub first_ms: u64,
    /// When the last one was, in ms since the epoch.
    pub last_ms: u64,
}

/// The log, the newest entry first.
#[derive(Debug)]
pub struct DenialLog {
    entries: Mutex<(u64, VecDeque<Entry>)>,
    len_max: AtomicUsize,
    /// Refusals of each reason since the start.
    counts: [AtomicU64; Reason::ALL.len()],
}

impl Default for DenialLog {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            len_max: AtomicUsize::new(128),
            counts: Default::default(),
        }
    }
}

impl DenialLog {
    /// `acllog-max-len`; takes effect with the next entry, as in Redis.
    pub fn set_len_max(&self, len_max: usize) {
        self.len_max.store(len_max, Ordering::Relaxed);
    }

    /// Notes a refusal.
    pub fn note(&self, denial: Denial, now_ms: u64) {
        self.counts[denial.reason as usize].fetch_add(1, Ordering::Relaxed);
        let (next_id, entries) = &mut *self.entries.lock();
        let is_same = |entry: &Entry| {
            let (a, b) = (&entry.last, &denial);
            (a.reason, a.context, &a.object, &a.user) == (b.reason, b.context, &b.object, &b.user)
                && now_ms.saturating_sub(entry.last_ms) <= SAME_WITHIN_MS
        };
        let known = entries.iter().take(LOOKED_AT).position(is_same);
        if let Some(mut entry) = known.and_then(|at| entries.remove(at)) {
            entry.count += 1;
            entry.last = denial;
            entry.last_ms = now_ms;
            entries.push_front(entry);
            return;
        }
        entries.push_front(Entry {
            id: *next_id,
            count: 1,
            last: denial,
            first_ms: now_ms,
            last_ms: now_ms,
        });
        *next_id += 1;
        entries.truncate(self.len_max.load(Ordering::Relaxed));
    }

    /// How often something was refused for this reason since the start, whatever the log has of it.
    #[must_use]
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }

    /// The newest `count` entries.
    #[must_use]
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries.lock().1.iter().take(count).cloned().collect()
    }

    /// ACL LOG RESET.
    pub fn reset(&self) {
        self.entries.lock().1.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(object: &[u8]) -> Denial {
        Denial {
            reason: Reason::Key,
            context: Context::TopLevel,
            object: object.to_vec(),
            user: b"ann".to_vec(),
            client: String::new(),
        }
    }

    #[test]
    fn refusals_of_one_kind_are_one_entry_for_a_minute() {
        let log = DenialLog::default();
        log.note(denial(b"a"), 1000);
        log.note(denial(b"b"), 2000);
        log.note(denial(b"a"), 61_000);
        let entries = log.newest(10);
        assert_eq!(entries.len(), 2);
        assert_eq!((entries[0].count, entries[0].first_ms, entries[0].last_ms), (2, 1000, 61_000));
        assert_eq!(entries[0].last.object, b"a");
        log.note(denial(b"a"), 121_001);
        assert_eq!(log.newest(10).len(), 3);
    }

    #[test]
    fn the_oldest_go_first() {
        let log = DenialLog::default();
        log.set_len_max(2);
        for nth in 0..5u8 {
            log.note(denial(&[nth]), 0);
        }
        let objects: Vec<Vec<u8>> = log.newest(10).into_iter().map(|e| e.last.object).collect();
        assert_eq!(objects, [vec![4], vec![3]]);
        log.reset();
        assert!(log.newest(1).is_empty());
        assert_eq!((log.count(Reason::Key), log.count(Reason::Auth)), (5, 0));
    }
}
