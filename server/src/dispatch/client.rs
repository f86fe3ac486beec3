//! The state of one connection that commands can read and change.

use super::kept_removal::Removal;
use super::kept_search::KeptSearch;
use super::{
    Args, Class, CommandError, CommandSpec, Flags, LogWait, LongReply, OnDatabases, Past,
    SnapshotSession, Tally, Traits,
};
use crate::auth::{Denial, Identity};
use crate::blocking::Waiter;
use crate::events::pubsub::{Kind, Subscriptions};
use crate::keyspace::Pins;
use crate::number::parse_i64;
use crate::resp::{PackedRequest, PackedRequests};
use crate::scripting::Running;
use crate::server::Server;
use crate::session::{ReplyMode, Session, TrackingMode};
use sexton_engine::{OwnedKey, Seq, Want};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// One connection.
#[derive(Debug, Default)]
pub struct Client {
    /// Unique number, rising with each connection.
    pub id: u64,
    /// Selected logical database.
    pub db: usize,
    /// How many logical databases there are.
    pub databases: usize,
    /// True once AUTH succeeded, or from the start while no password is set.
    pub authenticated: bool,
    /// Whom it acts as, and with which rights.
    pub identity: Identity,
    /// What becomes of replies.
    pub reply_mode: ReplyMode,
    /// The connection closes once its replies are sent (QUIT, CLIENT KILL of itself).
    pub closing: bool,
    /// RESP3 was chosen with HELLO; kept here between batches, [`crate::resp::Reply`] rules within.
    pub resp3: bool,
    /// Queued commands, between MULTI and EXEC.
    pub transaction: Option<Box<Transaction>>,
    /// The buffers of the last one.
    pub spare_transaction: Option<Box<Transaction>>,
    /// Keys of WATCH.
    pub watched: Vec<Watched>,
    /// Bytes of their names.
    pub watched_bytes: usize,
    /// Set by any change of a watched key.
    pub watch_dirty: Arc<AtomicBool>,
    /// The values of its request's keys were too large to be loaded together: the request is refused unless they are in
    /// memory by now.
    pub load_refused: bool,
    /// A command that needs pages which are not in memory may end, to run again with them.
    pub may_miss: bool,
    /// What such a command needs.
    pub missed: Vec<Want>,
    /// A command that takes long may end, to run again on a helper thread.
    pub may_hand_over: bool,
    /// Such a command has ended, or runs there.
    pub is_heavy: bool,
    /// How the reply to its request leaves.
    pub long_reply: LongReply,
    /// Whether its request reads a snapshot of its own.
    pub past: Past,
    /// The search of a request that runs again.
    pub search: Option<Box<KeptSearch>>,
    /// The removal of a request that runs again.
    pub removal: Option<Removal>,
    /// What was loaded for the request so far is not needed any more: it goes before the next load.
    pub lets_go: bool,
    /// The wait requested by the current command: set by its handler, which found nothing.
    pub would_wait: Option<Box<Waiter>>,
    /// What the connection waits for.
    pub waiter: Option<Arc<Waiter>>,
    /// What WAITAOF waits for, while it waits.
    pub log_wait: Option<LogWait>,
    /// The snapshot that the connection reads, between SEXTON.SNAPSHOT OPEN and CLOSE.
    pub snapshot_session: Option<Box<SnapshotSession>>,
    /// Channels, patterns and shard channels it listens to.
    pub subscriptions: Subscriptions,
    /// Prefixes that it has named with CLIENT TRACKING.
    pub prefixes: BTreeSet<Vec<u8>>,
    /// The needs and requests of the client's current script.
    pub script: ScriptTurn,
    /// The reply to the request that runs now waits for this write of others as well (N13).
    pub hold: Seq,
    /// Its wishes for the copy of the data that it will request.
    pub copy_wishes: CopyWishes,
    /// What other connections see of this one.
    pub session: Arc<Session>,
}

/// A client's wishes for the copy that it will request (REPLCONF).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyWishes {
    /// It finds the end of a copy by a mark.
    pub knows_mark: bool,
    /// It wants the function libraries and no keys.
    pub functions_only: bool,
    /// It wants neither.
    pub nothing: bool,
}

/// One run of a script: its inputs, and its outputs to be processed once its writes are sequenced.
#[derive(Debug, Default)]
pub struct ScriptTurn {
    /// Number of the thread, for striped statistics.
    pub worker: usize,
    /// When it has begun, where that was just now.
    pub started: Option<Instant>,
    /// It runs on a dedicated thread.
    pub is_alone: bool,
    /// Its program runs: what is called now is called by it.
    pub is_inside: bool,
    /// EXEC runs it.
    pub in_transaction: bool,
    /// Keys on a device are read where they are met.
    pub reads_cold: bool,
    /// What is known of runs that were given up.
    pub again: Again,
    /// How others see it, where it may take long.
    pub running: Option<Arc<Running>>,
    /// A resource that it needs to continue.
    pub wants: Option<ScriptWants>,
    /// It has written.
    pub has_written: bool,
    /// Messages that it has published.
    pub messages: Vec<(Kind, Vec<u8>, Vec<u8>)>,
    /// Its calls, which count when it has run to its end.
    pub tallies: Vec<(&'static CommandSpec, Tally)>,
    /// What its user was refused in it.
    pub denials: Vec<Denial>,
    /// Its commands, for MONITOR: the database, and the arguments with their places.
    pub shown: Vec<(usize, PackedRequest)>,
}

impl ScriptTurn {
    /// What it has called of this command.
    pub fn tally(&mut self, spec: &'static CommandSpec) -> &mut Tally {
        let known = self.tallies.iter().position(|(known, _)| std::ptr::eq(*known, spec));
        let index = known.unwrap_or_else(|| {
            self.tallies.push((spec, Tally::default()));
            self.tallies.len() - 1
        });
        &mut self.tallies[index].1
    }
}

/// State of a restarted script from its previous runs. It is kept until the script has completed: otherwise each load would
/// cost one run per latch, and the number of restarts would be unbounded.
#[derive(Debug, Default)]
pub struct Again {
    /// Hashes of keys that it does not name and touches.
    pub latches: Vec<u64>,
    /// It needs all latches.
    pub all_latches: bool,
    /// Number of consecutive restarts because of keys on a device.
    pub cold_rounds: u32,
}

/// A resource that a script needs to continue; the current run is discarded.
#[derive(Debug)]
pub enum ScriptWants {
    /// The latches of these hashes.
    Latches(Vec<u64>),
    /// All latches, on a thread that may wait.
    AllLatches,
    /// These keys in memory.
    Cold(Vec<OwnedKey>),
    /// A dedicated thread.
    Alone,
    /// Unavailable: the client receives this error.
    End(CommandError),
}

/// A watched key.
#[derive(Debug)]
pub struct Watched {
    db: usize,
    key: Vec<u8>,
    /// Expiry at the time of WATCH, 0 for none: EXEC fails if it has passed since then.
    expire_at_ms: u64,
}

/// A transaction that takes no more is kept for the next one of its connection.
const KEPT_BYTES: usize = 4 << 10;

/// What queued commands are, all together: what EXEC asks of each of them is known when they are queued.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contents {
    /// A bit for each class that one of them has.
    classes: u8,
    /// All flags that one of them has.
    pub flags: Flags,
    /// All traits that one of them has.
    pub traits: Traits,
    /// Commands that may write. A script counts as several: it says so only when it has run.
    pub writes: usize,
    /// One of them does what cannot be taken back.
    pub is_final: bool,
    /// One of them may select another database.
    pub selects: bool,
}

impl Contents {
    fn add(&mut self, spec: &CommandSpec) {
        self.classes |= 1 << spec.class as u8;
        self.flags = self.flags.union(spec.flags);
        self.traits = self.traits.and(spec.traits);
        self.writes += match spec.class {
            Class::Script => 2,
            _ => usize::from(spec.flags.contains(Flags::WRITE)),
        };
        let selects = spec.on_databases == OnDatabases::Selects;
        self.is_final |= spec.class != Class::Keyed && !selects;
        self.selects |= selects;
    }

    /// True if one of them is of this class.
    #[must_use]
    pub fn has(self, class: Class) -> bool {
        self.classes >> class as u8 & 1 == 1
    }
}

/// Commands queued by MULTI.
#[derive(Debug, Default)]
pub struct Transaction {
    /// In order of arrival, each with its row of the command table.
    commands: PackedRequests<&'static CommandSpec>,
    /// What they are.
    pub contents: Contents,
    /// The database that the last SELECT among them leads to.
    pub db: Option<usize>,
    /// A command could not be queued: EXEC answers EXECABORT.
    pub failed: bool,
}

/// One queued command.
#[derive(Clone, Copy)]
pub struct Queued<'q> {
    /// Its row of the command table.
    pub spec: &'static CommandSpec,
    /// Its arguments.
    pub args: Args<'q>,
}

impl Transaction {
    /// Number of commands.
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    /// The commands, in order of arrival.
    pub fn queued(&self) -> impl Iterator<Item = Queued<'_>> + Clone {
        self.commands.iter().map(|(spec, args)| Queued { spec, args })
    }

    /// An empty one in its buffers, unless they have become large.
    fn emptied(mut self: Box<Self>) -> Option<Box<Self>> {
        (self.db, self.failed, self.contents) = (None, false, Contents::default());
        self.commands.clear();
        (self.commands.held_bytes() <= KEPT_BYTES).then_some(self)
    }
}

impl Client {
    /// The state of a connection that was just accepted and listed.
    #[must_use]
    pub fn new(server: &Server, session: Arc<Session>) -> Self {
        let databases = server.databases;
        let mut client = Self { id: session.id, session, databases, ..Self::default() };
        client.act_as_anybody(server);
        client
    }

    /// Makes the connection act as the default user, which may require a password first.
    pub fn act_as_anybody(&mut self, server: &Server) {
        self.act_as(server.auth.anybody());
        self.authenticated = !server.auth.is_required();
    }

    /// It has shown that it is this user.
    pub fn act_as(&mut self, identity: Identity) {
        *self.session.user.lock() = identity.user().name().to_vec();
        self.identity = identity;
        self.authenticated = true;
    }

    /// True when nothing but AUTH and its like may be done.
    #[must_use]
    pub fn must_authenticate(&self, server: &Server) -> bool {
        !self.authenticated && server.auth.is_required()
    }

    /// Updates its rights. False if its user was deleted: the connection is then closed.
    pub fn renew_rights(&mut self, server: &Server) -> bool {
        if self.identity.is_current(&server.auth) {
            return true;
        }
        let stays = !self.session.is_killed() && server.auth.renew(&mut self.identity);
        if !stays {
            self.identity = server.auth.anybody();
            self.authenticated = false;
            self.closing = true;
        }
        stays
    }

    /// Bytes of the names that it watches, tracks and listens to.
    #[must_use]
    pub fn name_bytes(&self) -> usize {
        let prefix_bytes: usize = self.prefixes.iter().map(Vec::len).sum();
        self.watched_bytes + self.subscriptions.bytes() + prefix_bytes
    }

    /// Bytes of the commands that MULTI has queued.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.session.queued_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that the connection holds besides its buffers. Registries that look names up hold a second copy of them.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let search_bytes = self.search.as_ref().map_or(0, |kept| kept.memory_bytes());
        let spare = self.spare_transaction.as_ref();
        let spare_bytes =
            spare.map_or(0, |spare| size_of_val(&**spare) + spare.commands.held_bytes());
        size_of::<Self>() + 2 * self.name_bytes() + search_bytes + spare_bytes
    }

    /// The reply to the current request reveals a write that must be durable first (N13).
    pub fn hold_reply(&mut self, required: Seq) {
        self.hold = self.hold.max(required);
    }

    /// Returns the sequence that [`Client::hold_reply`] has recorded since the last call.
    pub fn take_hold(&mut self) -> Seq {
        std::mem::take(&mut self.hold)
    }

    /// True while only subscriber commands may run: the client is subscribed, and RESP2 cannot distinguish
    /// messages from replies.
    #[must_use]
    pub fn only_listens(&self) -> bool {
        self.session.protocol.load(Ordering::Relaxed) == 2 && !self.subscriptions.is_empty()
    }

    /// SELECT: commands work on this database from now on.
    pub fn select(&mut self, db: usize) {
        self.db = db;
        self.session.db.store(db, Ordering::Relaxed);
    }

    /// MULTI: commands are queued from now on.
    pub fn start_transaction(&mut self) {
        self.transaction = Some(self.spare_transaction.take().unwrap_or_default());
        self.session.queued.store(1, Ordering::Relaxed);
        self.session.queued_bytes.store(0, Ordering::Relaxed);
    }

    /// Queues a command; not where EXEC will fail anyway.
    pub fn queue(&mut self, spec: &'static CommandSpec, args: Args<'_>) {
        let is_lost = self.watch_dirty.load(Ordering::Acquire);
        if let Some(transaction) = &mut self.transaction
            && !(is_lost || transaction.failed)
        {
            if spec.on_databases == OnDatabases::Selects {
                let db = parse_i64(args.get(1)).and_then(|db| usize::try_from(db).ok());
                transaction.db = db.filter(|&db| db < self.databases).or(transaction.db);
            }
            transaction.contents.add(spec);
            let bytes = transaction.commands.push(spec, args);
            self.session.queued.store(transaction.len() + 1, Ordering::Relaxed);
            self.session.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// A command was refused: inside of MULTI, EXEC must fail.
    pub fn fail_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.failed = true;
        }
    }

    /// SEXTON.SNAPSHOT CLOSE, RESET: the newest state is read again. False when there was no snapshot.
    pub fn close_snapshot_session(&mut self) -> bool {
        *self.session.snapshot.lock() = None;
        self.snapshot_session.take().is_some()
    }

    /// RESET, DISCARD: drops a transaction. Its watches are removed by [`Client::unwatch`].
    pub fn discard_transaction(&mut self) {
        let transaction = self.transaction.take();
        self.end_transaction(transaction);
    }

    /// EXEC has run it, or will not.
    pub(super) fn end_transaction(&mut self, transaction: Option<Box<Transaction>>) {
        self.spare_transaction = transaction.and_then(Transaction::emptied);
        self.session.queued.store(0, Ordering::Relaxed);
        self.session.queued_bytes.store(0, Ordering::Relaxed);
    }

    /// Watches `key`, whose expiry is `expire_at_ms` (0: none). To be called under its latch.
    pub fn watch(&mut self, server: &Server, db: usize, key: &[u8], expire_at_ms: u64) {
        if !server.events.watches.watch(db, key, &self.watch_dirty) {
            return;
        }
        self.watched.push(Watched { db, key: key.to_vec(), expire_at_ms });
        self.watched_bytes += key.len();
        self.session.watching.store(self.watched.len(), Ordering::Relaxed);
    }

    /// CLIENT TRACKING ON with these options, and prefixes that it has not named yet.
    pub fn start_tracking(
        &mut self,
        server: &Server,
        how: (TrackingMode, u64),
        prefixes: Vec<&[u8]>,
    ) {
        let mut new = prefixes;
        new.retain(|prefix| self.prefixes.insert(prefix.to_vec()));
        server.events.tracking.start(&self.session, how, &new);
    }

    /// CLIENT TRACKING OFF.
    pub fn stop_tracking(&mut self, server: &Server) {
        server.events.tracking.stop(&self.session, &std::mem::take(&mut self.prefixes));
    }

    /// Forgets all watches and what they have seen.
    pub fn unwatch(&mut self, server: &Server) {
        for watched in std::mem::take(&mut self.watched) {
            server.events.watches.unwatch(watched.db, &watched.key, &self.watch_dirty);
        }
        self.watched_bytes = 0;
        self.session.watching.store(0, Ordering::Relaxed);
        self.watch_dirty.store(false, Ordering::Release);
    }

    /// The request has ended, or will not run again: so has what it has kept from run to run.
    #[inline]
    pub fn end_runs(&mut self, server: &Server) {
        self.lets_go = false;
        self.removal = None;
        if let Some(kept) = self.search.take() {
            kept.unwatch(server);
        }
    }

    /// What was loaded for the request so far goes, if it is not needed any more.
    pub fn let_go(&mut self, pins: &mut Pins) {
        if std::mem::take(&mut self.lets_go) {
            pins.clear();
        }
    }

    /// The request will run again: what its search has found is valid until the list changes. To be called under the key's latch.
    pub(super) fn watch_search(&mut self, server: &Server) {
        if let Some(kept) = &mut self.search {
            kept.watch(server);
        }
    }

    /// True if a watched key was changed or has expired since WATCH.
    #[must_use]
    pub fn watch_failed(&self, now_ms: u64) -> bool {
        self.watch_dirty.load(Ordering::Acquire)
            || self.watched.iter().any(|w| w.expire_at_ms != 0 && w.expire_at_ms <= now_ms)
    }

    /// Hashes of the watched keys, for EXEC's latches.
    pub fn watched_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.watched.iter().map(|watched| watched.key.as_slice())
    }
}
