//! The shared state of a connection, for CLIENT LIST, CLIENT KILL and CLIENT PAUSE.
//!
//! A [`Session`] is shared between the connection, which keeps it up to date, and the list of all
//! sessions. Each field is accessed at most once per batch of requests.

pub mod outbox;
pub(crate) mod output_limit;
mod scan_cursors;
mod tracking;

pub use output_limit::OutputLimit;
pub use scan_cursors::CursorTable;
pub use tracking::{TrackingMode, TrackingState};

use crate::auth::DEFAULT_USER;
use outbox::Outbox;
use parking_lot::Mutex;
use sexton_engine::SnapshotWatch;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What CLIENT REPLY asked for: whether replies are sent. What is pushed (messages and the confirmations
/// of subscriptions) is sent in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyMode {
    off: bool,
    /// The reply to the request that runs now is dropped.
    skips: bool,
    /// The reply to the next request is dropped.
    skips_next: bool,
}

impl ReplyMode {
    /// CLIENT REPLY ON: from the reply to this very request on.
    pub fn turn_on(&mut self) {
        (self.off, self.skips) = (false, false);
    }

    /// RESET: as in Redis its own reply is dropped when it is the one to be skipped.
    pub fn reset(&mut self) {
        (self.off, self.skips_next) = (false, false);
    }

    /// CLIENT REPLY OFF.
    pub fn turn_off(&mut self) {
        self.off = true;
    }

    /// CLIENT REPLY SKIP: means nothing while replies are off.
    pub fn skip_next(&mut self) {
        self.skips_next |= !self.off;
    }

    /// True while what a request answers is dropped.
    #[must_use]
    pub fn is_muted(self) -> bool {
        self.off || self.skips
    }

    /// True when nothing is dropped, now or next.
    #[must_use]
    pub fn is_on(self) -> bool {
        self == Self::default()
    }

    /// A request has been answered.
    pub fn end_request(&mut self) {
        self.skips = std::mem::take(&mut self.skips_next);
    }
}

/// Words that describe a connection to people.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// `CLIENT SETNAME`.
    pub name: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`.
    pub lib_name: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`.
    pub lib_ver: Vec<u8>,
}

/// One connection, as the others see it.
#[derive(Debug)]
pub struct Session {
    /// Unique number, rising with each connection.
    pub id: u64,
    /// The client's address (`ip:port`, or `path:0` for a unix socket).
    pub addr: String,
    /// Our own address of this connection.
    pub local_addr: String,
    /// File descriptor, for CLIENT LIST.
    pub fd: i32,
    /// When it was accepted.
    pub created: Instant,
    /// Name, library and version.
    pub labels: Mutex<Labels>,
    /// Name of the user that it acts as.
    pub user: Mutex<Vec<u8>>,
    /// Selected database.
    pub db: AtomicUsize,
    /// 2 or 3.
    pub protocol: AtomicU8,
    /// Queued commands of MULTI plus one; 0 outside of MULTI.
    pub queued: AtomicUsize,
    /// Number of watched keys.
    pub watching: AtomicUsize,
    /// Numbers of channels, patterns and shard channels it listens to.
    pub subscriptions: [AtomicUsize; 3],
    /// `CLIENT NO-EVICT`.
    pub no_evict: AtomicBool,
    /// `CLIENT NO-TOUCH`.
    pub no_touch: AtomicBool,
    /// True while a request of it waits for the log (WAITAOF) or for the end of CLIENT PAUSE.
    pub blocked: AtomicBool,
    /// True for a connection that runs MONITOR.
    pub monitor: AtomicBool,
    /// True for a connection that is sent a copy of the data: of the class `replica`.
    pub takes_copy: AtomicBool,
    /// What CLIENT TRACKING has asked for.
    pub tracking: TrackingState,
    /// The snapshot that the connection reads.
    pub snapshot: Mutex<Option<SnapshotWatch>>,
    /// What [`crate::state::client_memory::ClientMemory`] counts of the connection: all that it held at its last turn.
    pub noted_bytes: AtomicUsize,
    /// Memory that only the connection knows: its names, its scanner, its task.
    pub beside_bytes: AtomicUsize,
    /// Bytes waiting in the read buffer.
    pub query_bytes: AtomicUsize,
    /// Bytes of arguments in front of a long one that is arriving.
    pub parsed_bytes: AtomicUsize,
    /// Free room of the read buffer, in bytes.
    pub query_free_bytes: AtomicUsize,
    /// Bytes of replies not sent yet.
    pub output_bytes: AtomicUsize,
    /// Memory of the buffer of replies, sent and unsent.
    pub output_buffer_bytes: AtomicUsize,
    /// Memory of the requests that MULTI has queued.
    pub queued_bytes: AtomicUsize,
    /// Bytes received since the connection was made.
    pub input_total_bytes: AtomicU64,
    /// Bytes sent since the connection was made.
    pub output_total_bytes: AtomicU64,
    /// Requests executed since the connection was made.
    pub commands_total: AtomicU64,
    /// What other connections have for this one.
    pub outbox: Outbox,
    last_command: Mutex<&'static str>,
    last_active_ms: AtomicU64,
    /// Since when more than the soft limit of output waits, in ms after `created`, plus 1; 0: it does not.
    above_soft_since_ms: AtomicU64,
    /// Since when its next request cannot run, in ms after `created`, plus 1; 0: it can.
    parked_since_ms: AtomicU64,
    killed: AtomicBool,
    wake: Notify,
    /// Wakes the task that serves the connection.
    task: Mutex<Option<Waker>>,
}

impl Default for Session {
    /// A session without a client, for tests of commands.
    fn default() -> Self {
        Self::new(0, String::new(), String::new(), -1)
    }
}

impl Session {
    /// A session as it is right after accepting.
    #[must_use]
    pub fn new(id: u64, addr: String, local_addr: String, fd: i32) -> Self {
        Self {
            id,
            addr,
            local_addr,
            fd,
            created: Instant::now(),
            labels: Mutex::default(),
            user: Mutex::new(DEFAULT_USER.to_vec()),
            db: AtomicUsize::new(0),
            protocol: AtomicU8::new(2),
            queued: AtomicUsize::new(0),
            watching: AtomicUsize::new(0),
            subscriptions: Default::default(),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            monitor: AtomicBool::new(false),
            takes_copy: AtomicBool::new(false),
            tracking: TrackingState::default(),
            snapshot: Mutex::new(None),
            noted_bytes: AtomicUsize::new(0),
            beside_bytes: AtomicUsize::new(0),
            query_bytes: AtomicUsize::new(0),
            parsed_bytes: AtomicUsize::new(0),
            query_free_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            output_buffer_bytes: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
            input_total_bytes: AtomicU64::new(0),
            output_total_bytes: AtomicU64::new(0),
            commands_total: AtomicU64::new(0),
            outbox: Outbox::default(),
            last_command: Mutex::new("NULL"),
            last_active_ms: AtomicU64::new(0),
            above_soft_since_ms: AtomicU64::new(0),
            parked_since_ms: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            wake: Notify::new(),
            task: Mutex::new(None),
        }
    }

    /// The connection just executed requests, `command` last.
    pub fn touch(&self, command: &'static str) {
        *self.last_command.lock() = command;
        self.last_active_ms.store(self.created.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// The connection executes `command`.
    pub fn note_command(&self, command: &'static str) {
        *self.last_command.lock() = command;
    }

    /// True for a connection from this machine: loopback or a unix socket.
    #[must_use]
    pub fn is_local(&self) -> bool {
        ["127.", "[::1]", "/"].iter().any(|start| self.addr.starts_with(start))
    }

    /// True for a connection that listens to anything: of the class `pubsub`.
    #[must_use]
    pub fn is_subscriber(&self) -> bool {
        self.subscriptions.iter().any(|count| count.load(Ordering::Relaxed) != 0)
    }

    /// Seconds since the last request.
    #[must_use]
    pub fn idle_s(&self) -> u64 {
        let age_ms = self.created.elapsed().as_millis() as u64;
        age_ms.saturating_sub(self.last_active_ms.load(Ordering::Relaxed)) / 1000
    }

    /// The connection's next request cannot run now.
    pub fn note_parked(&self) {
        if self.parked_since_ms.load(Ordering::Relaxed) == 0 {
            let now_ms = self.created.elapsed().as_millis() as u64 + 1;
            self.parked_since_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Requests have run.
    pub fn note_goes_on(&self) {
        if self.parked_since_ms.load(Ordering::Relaxed) != 0 {
            self.parked_since_ms.store(0, Ordering::Relaxed);
        }
    }

    /// For how long its next request could not run.
    #[must_use]
    pub fn parked_for(&self) -> Option<Duration> {
        let since_ms = self.parked_since_ms.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.created.elapsed().saturating_sub(Duration::from_millis(since_ms)))
    }

    /// Notes whether more output waits than the soft limit allows, and answers for how long it has been so.
    pub fn above_soft_limit(&self, is_above: bool) -> Option<Duration> {
        let since_ms = self.above_soft_since_ms.load(Ordering::Relaxed);
        if !is_above {
            if since_ms != 0 {
                self.above_soft_since_ms.store(0, Ordering::Relaxed);
            }
            return None;
        }
        let now_ms = self.created.elapsed().as_millis() as u64 + 1;
        if since_ms == 0 {
            self.above_soft_since_ms.store(now_ms, Ordering::Relaxed);
            return Some(Duration::ZERO);
        }
        Some(Duration::from_millis(now_ms.saturating_sub(since_ms)))
    }

    /// Asks the connection to close; it does so at its next await.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.wake.notify_one();
        self.wake_task();
    }

    /// Sets the waker of the task that serves the connection.
    pub fn set_task(&self, waker: Waker) {
        *self.task.lock() = Some(waker);
    }

    /// Makes the connection look again for what it waits for; callable from any thread.
    pub fn wake_task(&self) {
        if let Some(waker) = self.task.lock().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// True once the connection must close.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Resolves when the connection must close.
    pub async fn killed(&self) {
        while !self.is_killed() {
            self.wake.notified().await;
        }
    }

    /// Memory of the connection: its buffers, its queued commands, its outbox, itself, and the rest as of
    /// its last turn.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let buffers = [
            &self.query_bytes,
            &self.parsed_bytes,
            &self.query_free_bytes,
            &self.output_buffer_bytes,
            &self.queued_bytes,
        ];
        let buffers: usize = buffers.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
        let beside = self.beside_bytes.load(Ordering::Relaxed);
        buffers + self.outbox.bytes() + size_of::<Self>() + beside
    }

    /// One line of CLIENT LIST, without its end of line.
    #[must_use]
    pub fn line(&self) -> String {
        let load = |figure: &AtomicUsize| figure.load(Ordering::Relaxed);
        let labels = self.labels.lock().clone();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let queued = load(&self.queued) as i64 - 1;
        let mut flags = String::new();
        if self.takes_copy.load(Ordering::Relaxed) {
            flags.push('S');
        }
        if self.monitor.load(Ordering::Relaxed) {
            flags.push('O');
        }
        if self.is_subscriber() {
            flags.push('P');
        }
        if queued >= 0 {
            flags.push('x');
        }
        if self.blocked.load(Ordering::Relaxed) {
            flags.push('b');
        }
        let tracking = self.tracking.mode();
        for (mode, flag) in [
            (TrackingMode::ON, 't'),
            (TrackingMode::BROKEN_REDIRECT, 'R'),
            (TrackingMode::BCAST, 'B'),
        ] {
            if tracking.has(mode) {
                flags.push(flag);
            }
        }
        if self.no_evict.load(Ordering::Relaxed) {
            flags.push('e');
        }
        if self.no_touch.load(Ordering::Relaxed) {
            flags.push('T');
        }
        if flags.is_empty() {
            flags.push('N');
        }
        let (query, free, output) =
            (load(&self.query_bytes), load(&self.query_free_bytes), load(&self.output_bytes));
        let output_memory = load(&self.output_buffer_bytes) + self.outbox.bytes();
        let events = if output > 0 { "rw" } else { "r" };
        let [sub, psub, ssub] = self.subscriptions.each_ref().map(load);
        let mut line = format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub={sub} \
             psub={psub} ssub={ssub} multi={queued} qbuf={query} qbuf-free={free} argv-mem={} \
             multi-mem={}",
            self.id,
            self.addr,
            self.local_addr,
            self.fd,
            text(&labels.name),
            self.created.elapsed().as_secs(),
            self.idle_s(),
            load(&self.db),
            load(&self.parsed_bytes),
            load(&self.queued_bytes),
        );
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            " rbs=0 rbp=0 obl={output} oll=0 omem={output_memory} tot-mem={} events={events} cmd={} \
             user={} redir={} resp={} lib-name={} lib-ver={}",
            self.memory_bytes(),
            self.last_command.lock(),
            text(&self.user.lock()),
            self.tracking.shown_redirect(),
            self.protocol.load(Ordering::Relaxed),
            text(&labels.lib_name),
            text(&labels.lib_ver),
        );
        let snapshot = self.snapshot.lock().as_ref().and_then(SnapshotWatch::info);
        if let Some(info) = snapshot {
            let (seq, age_ms, bytes) = (info.seq, info.age_ms, info.held_bytes);
            let _ =
                write!(line, " snapshot-seq={seq} snapshot-age-ms={age_ms} snapshot-bytes={bytes}");
        }
        line
    }
}

/// The requests that CLIENT PAUSE delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Writes only.
    Write,
    /// Everything.
    All,
}

/// All connections.
#[derive(Debug, Default)]
pub struct Sessions {
    next_id: AtomicU64,
    open: Mutex<BTreeMap<u64, Arc<Session>>>,
    pause: Mutex<Option<(Pause, Instant)>>,
    pausing: AtomicBool,
    resumed: Notify,
}

impl Sessions {
    /// Makes a session with the next number and lists it.
    pub fn open(&self, addr: String, local_addr: String, fd: i32) -> Arc<Session> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let session = Arc::new(Session::new(id, addr, local_addr, fd));
        self.open.lock().insert(id, Arc::clone(&session));
        session
    }

    /// Removes a closed connection.
    pub fn close(&self, id: u64) {
        self.open.lock().remove(&id);
    }

    /// Number of open connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.lock().len()
    }

    /// True if no client is connected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All open connections by number.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.open.lock().values().cloned().collect()
    }

    /// One open connection.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<Arc<Session>> {
        self.open.lock().get(&id).cloned()
    }

    /// CLIENT PAUSE: a longer pause and a stricter mode win over what is in force.
    pub fn pause(&self, mode: Pause, until: Instant) {
        let mut pause = self.pause.lock();
        let (old_mode, old_until) =
            pause.filter(|(_, end)| *end > Instant::now()).unwrap_or((Pause::Write, until));
        let mode = if old_mode == Pause::All { Pause::All } else { mode };
        *pause = Some((mode, until.max(old_until)));
        self.pausing.store(true, Ordering::Release);
    }

    /// CLIENT UNPAUSE.
    pub fn unpause(&self) {
        *self.pause.lock() = None;
        self.pausing.store(false, Ordering::Release);
        self.resumed.notify_waiters();
        self.all()
            .iter()
            .filter(|one| one.blocked.load(Ordering::Relaxed))
            .for_each(|one| one.wake_task());
    }

    /// Number of connections with a request that waits for the log or for the end of CLIENT PAUSE.
    #[must_use]
    pub fn blocked(&self) -> usize {
        self.open.lock().values().filter(|one| one.blocked.load(Ordering::Relaxed)).count()
    }

    /// True while CLIENT PAUSE may be in force: one load, no lock.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.pausing.load(Ordering::Relaxed)
    }

    /// Until when a request must wait, if it must.
    #[must_use]
    pub fn paused_until(&self, writes: bool) -> Option<Instant> {
        if !self.is_paused() {
            return None;
        }
        let pause = self.pause.lock();
        let (mode, until) = (*pause)?;
        let is_over = until <= Instant::now();
        if is_over {
            self.pausing.store(false, Ordering::Release);
        }
        (!is_over && (writes || mode == Pause::All)).then_some(until)
    }

    /// True while CLIENT PAUSE is in force: nothing changes the data, not even time or a lack of memory.
    #[must_use]
    pub fn are_writes_paused(&self) -> bool {
        self.paused_until(true).is_some()
    }

    /// Resolves at the next CLIENT UNPAUSE.
    pub async fn resumed(&self) {
        self.resumed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn sessions_are_numbered_and_listed() {
        let sessions = Sessions::default();
        let first = sessions.open("1.2.3.4:5".into(), "127.0.0.1:6379".into(), 8);
        let second = sessions.open("1.2.3.4:6".into(), "127.0.0.1:6379".into(), 9);
        assert_eq!((first.id, second.id), (1, 2));
        second.labels.lock().name = b"worker".to_vec();
        second.touch("client|list");
        let line = second.line();
        assert!(
            line.starts_with("id=2 addr=1.2.3.4:6 laddr=127.0.0.1:6379 fd=9 name=worker age=0")
        );
        assert!(line.contains(" flags=N db=0 "));
        assert!(line.contains(" multi=-1 "));
        assert!(line.ends_with(" cmd=client|list user=default redir=-1 resp=2 lib-name= lib-ver="));
        sessions.close(1);
        assert_eq!(sessions.len(), 1);
        assert!(sessions.get(1).is_none());
    }

    #[test]
    fn the_longer_and_stricter_pause_wins() {
        let sessions = Sessions::default();
        assert!(sessions.paused_until(true).is_none());
        let later = Instant::now() + Duration::from_secs(60);
        let latest = later + Duration::from_secs(60);
        sessions.pause(Pause::Write, later);
        assert_eq!(sessions.paused_until(true), Some(later));
        assert!(sessions.paused_until(false).is_none());
        sessions.pause(Pause::All, latest);
        sessions.pause(Pause::Write, later);
        assert_eq!(sessions.paused_until(false), Some(latest));
        sessions.unpause();
        assert!(sessions.paused_until(true).is_none());
    }
}
