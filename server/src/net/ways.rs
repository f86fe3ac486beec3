//! Runs one history on the short path and on the long path, each on a server of its own, and compares the observable
//! results: replies, memory, log, statistics, slow log, events, watched keys, and which writes were postponed.

use super::batch::BatchRun;
use super::worker::{DurableSignal, WorkerState};
use crate::dispatch::client::Client;
use crate::dispatch::{Args, Executor, Outcome, Step, Table, leaving_out};
use crate::events::pubsub::Kind;
use crate::keyspace::load_blocking;
use crate::resp::{Limits, Reply, Scanner, command_bytes, pack};
use crate::server::Server;
use crate::session::Session;
use crate::session::outbox::Parcel;
use crate::value::thresholds::Thresholds;
use sexton_config::profile::DeviceProfile;
use sexton_config::value::Events;
use sexton_engine::{
    Compression, DeleteMode, Engine, EngineOptions, Seq, SnapshotOptions, SyncPolicy,
};
use sexton_persistence::device::sim::{SimRandom, SimStorage};
use sexton_persistence::device::{Clock, Device, PlacedStorage, Storage};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(super) const NOW_MS: u64 = 1_000_000;

/// Requests that arrive in one read.
pub(super) type Read = Vec<Vec<Vec<u8>>>;

/// The observable results of a history in its server.
pub(super) struct Traces {
    pub(super) replies: Vec<u8>,
    /// Calls, refusals and failures of each command that was asked for.
    pub(super) calls: Vec<(&'static str, u64, u64, u64)>,
    /// Error replies by their first word.
    pub(super) errors: Vec<(String, u64)>,
    /// The slow log's entries: arguments, client address and client name, oldest first.
    pub(super) slow: Vec<(Vec<Vec<u8>>, String, Vec<u8>)>,
    pub(super) lookups: (u64, u64),
    pub(super) expired: u64,
    /// Key-space events, and what they wait for.
    pub(super) events: Parcel,
    /// The changed watched keys: since the beginning, and for each read since the previous one.
    pub(super) dirty: Vec<Vec<bool>>,
    /// The sequence that each read's replies wait for with `appendfsync always` (N13).
    pub(super) required: Vec<Seq>,
    /// Which requests of the history had to wait, as all writers had to (N14).
    pub(super) put_off: Vec<usize>,
    pub(super) last_seq: Seq,
    pub(super) digest: String,
    /// Used memory, and all other figures of the engine.
    pub(super) used_bytes: u64,
    pub(super) engine: String,
    /// Its files, retired ones included, in the order of their names.
    pub(super) log: Vec<u8>,
}

impl Traces {
    /// Everything as text.
    fn parts(&self) -> [(&'static str, String); 15] {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        [
            ("replies", text(&self.replies)),
            ("calls", format!("{:?}", self.calls)),
            ("errors", format!("{:?}", self.errors)),
            ("slow log", format!("{:?}", self.slow)),
            ("look-ups", format!("{:?}", self.lookups)),
            ("expired keys", self.expired.to_string()),
            ("events", text(&self.events.bytes) + &format!("{:?}", self.events.marks)),
            ("watched keys", format!("{:?}", self.dirty)),
            ("what replies wait for", format!("{:?}", self.required)),
            ("pacing", format!("{:?}", self.put_off)),
            ("sequences", self.last_seq.to_string()),
            ("data", self.digest.clone()),
            ("memory", self.used_bytes.to_string()),
            ("engine", self.engine.clone()),
            ("log", text(&self.log)),
        ]
    }

    /// In what it differs from another one: each part's name, and where the two texts part.
    pub(super) fn differences(&self, other: &Self) -> Vec<(&'static str, String)> {
        let pairs = self.parts().into_iter().zip(other.parts());
        let differ = pairs.filter(|((_, ours), (_, theirs))| ours != theirs);
        differ
            .map(|((name, ours), (_, theirs))| {
                let same = ours.bytes().zip(theirs.bytes()).take_while(|(a, b)| a == b).count();
                let around = |text: &str| {
                    let (from, to) = (same.saturating_sub(80), (same + 80).min(text.len()));
                    text.as_bytes()[from.min(to)..to].escape_ascii().to_string()
                };
                (name, format!("\n  {}\n  {}", around(&ours), around(&theirs)))
            })
            .collect()
    }

    /// Panics if `other` differs, and lists the differences.
    pub(super) fn assert_same(&self, other: &Self, history: &str) {
        let differences = self.differences(other);
        let lines = differences.iter().map(|(name, how)| format!("\n{name}:{how}"));
        assert!(differences.is_empty(), "{history}:{}", lines.collect::<String>());
    }

    /// The log as text.
    pub(super) fn log_text(&self) -> String {
        String::from_utf8_lossy(&self.log).into_owned()
    }
}

/// Under which a history is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// ACL rules of the user; empty for an unrestricted user.
    pub(super) rules: &'static str,
    /// `slowlog-log-slower-than`. 0: everything is slow; -1: nothing is.
    pub(super) slower_than_us: i64,
    /// The store's options are drawn from this.
    pub(super) drawn: Option<u64>,
    /// The short way leaves this out.
    pub(super) without: Option<Step>,
    /// Collections above so many bytes lie in pages.
    pub(super) inline_bytes: Option<u64>,
}

impl Terms {
    pub(super) const PLAIN: Self =
        Self { rules: "", slower_than_us: -1, drawn: None, without: None, inline_bytes: None };
}

/// Waits for nothing.
#[derive(Debug, Default)]
struct NoWait(AtomicU64);

impl Clock for NoWait {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn wait_until(&self, ns: u64) {
        self.0.fetch_max(ns, Ordering::Relaxed);
    }
}

/// A memtable that keeps a history waiting often.
const SMALL_MEMTABLE_BYTES: u64 = 1 << 10;

/// A memtable that no read of a history fills.
const LARGE_MEMTABLE_BYTES: u64 = 1 << 20;

/// True if the store is so small that writers wait for flushes. Its reads must contain one request each: the short path
/// checks once per read.
pub(super) fn is_paced(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Draws all options that may differ between stores without changing a reply. Left out are `everysec`, since time then
/// influences which requests wait; values shared by memtable and table, which only the short path has; and skip lists,
/// whose heights are random.
fn drawn_options(seed: u64, storage: Arc<dyn Storage>, options: EngineOptions) -> EngineOptions {
    let random = &mut SimRandom::new(seed);
    let profiles = DeviceProfile::built_in();
    let storage = match profiles.get(random.below(profiles.len() as u64 + 1) as usize) {
        None => storage,
        Some(profile) => {
            let device = Device::new("default", None, "data".into());
            let device = device.emulating(profile.clone(), Arc::new(NoWait::default()));
            Arc::new(PlacedStorage::new(storage, device, Vec::new()))
        }
    };
    let memtable_bytes = if is_paced(seed) { SMALL_MEMTABLE_BYTES } else { LARGE_MEMTABLE_BYTES };
    let compressions = [Compression::None, Compression::Lz4, Compression::Zstd];
    EngineOptions {
        storage,
        sync_policy: [SyncPolicy::Off, SyncPolicy::No, SyncPolicy::Always]
            [random.below(3) as usize],
        memtable_bytes: memtable_bytes << random.below(3),
        max_write_buffer_number: 2 + random.below(3) as usize,
        yields_to_log: random.percent(30),
        block_cache_bytes: (4 << 10) << random.below(8),
        compression_upper: compressions[random.below(3) as usize],
        filter_bits_per_key: [0, 1, 10][random.below(3) as usize],
        undo_runs: random.percent(60),
        undo_max_bytes: if random.percent(50) { 0 } else { 200 << random.below(6) },
        log_segment_bytes: (1 << 10) << random.below(7),
        cemetery_max_bytes: if random.percent(40) { 0 } else { 300 << random.below(6) },
        deletes: [DeleteMode::Cemetery, DeleteMode::Tombstones][random.below(2) as usize],
        ..options
    }
}

/// A server with a log on simulated disks, whose commands count for it alone.
pub(super) struct World {
    pub(super) server: Server,
    pub(super) table: &'static Table,
    terms: Terms,
    disk: Arc<SimStorage>,
    listener: Arc<Session>,
    watchers: Vec<Client>,
    dirty: Vec<Vec<bool>>,
    required: Vec<Seq>,
    put_off: Vec<usize>,
}

const WATCHED: [&[u8]; 5] = [b"plain", b"k8", b"number", b"due", b"none"];

/// Where retired segments of the log are kept.
const ARCHIVE_DIR: &str = "archive";

fn watch_all(server: &Server) -> Vec<Client> {
    let watcher = |key: &&[u8]| {
        let mut client = Client { authenticated: true, ..Client::default() };
        client.watch(server, 0, key, 0);
        client
    };
    WATCHED.iter().map(watcher).collect()
}

impl World {
    pub(super) fn new(terms: Terms) -> Self {
        let disk = Arc::new(SimStorage::new());
        let storage: Arc<dyn Storage> = Arc::<SimStorage>::clone(&disk);
        let options = EngineOptions {
            // There is no background sync: with `everysec` a request waits if the machine is so busy that the
            // last sync was two seconds ago.
            sync_policy: SyncPolicy::No,
            // Groups of the log are as long as its thread is late.
            background: false,
            log_archive_dir: Some(ARCHIVE_DIR.into()),
            ..EngineOptions::new(Arc::clone(&storage), "data".into())
        };
        let options = match terms.drawn {
            Some(seed) => drawn_options(seed, storage, options),
            None => options,
        };
        let (engine, _) = Engine::open_bytes(options).expect("a store on simulated disks opens");
        let server = Server::new(engine, 16);
        server.observe.slowlog.set_threshold_us(terms.slower_than_us);
        server.observe.slowlog.set_len_max(10_000);
        server.events.switch.set(Events::parse(b"KEA").expect("classes"));
        if let Some(inline_bytes) = terms.inline_bytes {
            let thresholds = &server.settings.thresholds;
            thresholds.set(Thresholds { inline_bytes, ..thresholds.now() });
        }
        let listener = Arc::new(Session::default());
        server.events.pubsub.subscribe(Kind::Pattern, b"__key*", &listener);
        let watchers = watch_all(&server);
        let table = Box::leak(Box::new(Table::build(crate::commands::GROUPS)));
        let (dirty, required, put_off) = (Vec::new(), Vec::new(), Vec::new());
        Self { server, table, terms, disk, listener, watchers, dirty, required, put_off }
    }

    /// A client that acts as a user with the rules of the terms.
    fn client(&self) -> Client {
        let rules = self.terms.rules;
        let mut client = Client { authenticated: true, ..Client::default() };
        client.session.labels.lock().name = b"asker".to_vec();
        if !rules.is_empty() {
            let rules: Vec<Vec<u8>> =
                rules.split(' ').map(|rule| rule.as_bytes().to_vec()).collect();
            let auth = &self.server.auth;
            auth.set_user(self.table.catalog(), b"ann", &rules).expect("these are rules");
            client.act_as(auth.authenticate(b"ann", b"").expect("it is on, and has no password"));
        }
        client
    }

    /// Runs a history, read by read: `run` runs requests from `from` on, and returns what stopped it, and where. Half of the
    /// stores keep a snapshot of the state after the first read.
    fn run(
        &mut self,
        reads: &[Read],
        mut run: impl FnMut(&Self, &Read, usize, u64) -> (Seq, Option<(usize, Outcome)>),
    ) {
        let (mut now_ms, mut before, mut snapshot) = (NOW_MS, 0, None);
        for (nth, requests) in reads.iter().enumerate() {
            let watchers = watch_all(&self.server);
            let (mut from, mut required, mut pins) = (0, 0, Vec::new());
            loop {
                let (needs, stop) = run(self, requests, from, now_ms);
                required = needs.max(required);
                let Some((at, outcome)) = stop else { break };
                from = at;
                match outcome {
                    Outcome::Paced => {
                        self.put_off.push(before + at);
                        self.server.engine.flush().expect("simulated disks work");
                    }
                    Outcome::Cold(wanted) => {
                        let pin = load_blocking(&self.server, wanted, u64::MAX);
                        pins.push(pin.expect("simulated disks work"));
                    }
                    outcome => panic!("{nth}: {outcome:?}"),
                }
            }
            let engine = &self.server.engine;
            engine.sync_through(engine.last_seq()).expect("simulated disks work");
            let waits = engine.sync_policy() == SyncPolicy::Always;
            self.required.extend(waits.then_some(required));
            self.dirty.push(watchers.iter().map(|client| client.watch_failed(0)).collect());
            for mut watcher in watchers {
                watcher.unwatch(&self.server);
            }
            if let Some(seed) = self.terms.drawn {
                if !is_paced(seed) && nth % 8 == 7 {
                    engine.flush().expect("simulated disks work");
                }
                if snapshot.is_none() && seed % 4 < 2 {
                    snapshot = engine.snapshot(SnapshotOptions::default()).ok();
                }
            }
            before += requests.len();
            now_ms += 1000;
        }
    }

    pub(super) fn traces(self, replies: &[u8]) -> Traces {
        let Self { server, table, disk, listener, watchers, mut dirty, required, put_off, .. } =
            self;
        let entries = server.observe.slowlog.newest(10_000);
        let calls = table.all().iter().map(|spec| (spec.name, spec.stats.totals()));
        let calls =
            calls.map(|(name, totals)| (name, totals.calls, totals.rejected, totals.failed));
        let calls = calls.filter(|(_, calls, rejected, _)| calls + rejected != 0).collect();
        dirty.push(watchers.iter().map(|client| client.watch_failed(0)).collect());
        // Times are left out, and the number of table look-ups: requests that the short path cannot run look up once more.
        let mut stats = server.engine.stats();
        for figure in [
            &mut stats.stall_ms,
            &mut stats.stalls,
            &mut stats.oldest_snapshot_age_ms,
            &mut stats.oldest_unsynced_age_ms,
            &mut stats.largest_unsynced_age_ms,
            &mut stats.oldest_unburied_delete_ms,
            &mut stats.dram_hits,
            &mut stats.dram_misses,
            &mut stats.misses_from_memtable,
        ] {
            *figure = 0;
        }
        stats.write_pace_bytes_per_s = None;
        let mut traces = Traces {
            replies: replies.to_vec(),
            calls,
            errors: server.observe.traffic.errors(),
            slow: entries.into_iter().rev().map(|e| (e.args, e.client, e.name)).collect(),
            lookups: (server.stats.hits(), server.stats.misses()),
            expired: server.stats.expired_keys(),
            events: listener.outbox.take(),
            dirty,
            required,
            put_off,
            last_seq: server.engine.last_seq(),
            digest: String::new(),
            used_bytes: server.used_bytes(),
            engine: format!("{stats:?}"),
            log: Vec::new(),
        };
        let mut executor = Executor::new(table, 0, true);
        let mut client = Client { authenticated: true, ..Client::default() };
        let (bytes, ranges) = pack([&b"DEBUG"[..], b"DIGEST"].into_iter());
        let mut out = Reply::new();
        executor.execute(&server, &mut client, Args::new(&bytes, &ranges), &mut out, NOW_MS);
        traces.digest = String::from_utf8_lossy(out.bytes()).into_owned();
        for dir in [ARCHIVE_DIR, "data/appendonlydir"].map(Path::new) {
            let mut names = disk.list(dir).unwrap_or_default();
            names.sort();
            for name in names.iter().filter(|name| name.ends_with(".aof")) {
                let file = disk.read(&dir.join(name)).expect("is read");
                let end = file.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
                traces.log.extend_from_slice(&without_chain(&file[..end]));
            }
        }
        traces
    }
}

/// A log file without the last word of each group's header: it is chained to a random identity of each log.
fn without_chain(file: &[u8]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = file.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    for line in lines.iter_mut().filter(|line| line.starts_with(b"#")) {
        let end = line.trim_ascii_end().len();
        let begin = line[..end].iter().rposition(|&byte| byte == b' ').map_or(0, |at| at + 1);
        line[begin..end].fill(b'_');
    }
    lines.join(&b'\n')
}

pub(super) fn short_way(terms: Terms, reads: &[Read]) -> Traces {
    let mut world = World::new(terms);
    let mut worker = worker_of(&world);
    let (mut client, mut replies) = (world.client(), Vec::new());
    leaving_out(terms.without, || {
        world.run(reads, |world, requests, from, now_ms| {
            // Each read is a turn, as that of a connection alone.
            worker.begin_turn();
            let how = (&mut worker, &mut client);
            let (read, required, stop) = run_read(world, how, &requests[from..], now_ms);
            replies.extend(read);
            (required, stop.map(|(at, outcome)| (from + at, outcome)))
        });
    });
    world.traces(&replies)
}

pub(super) fn worker_of(world: &World) -> WorkerState {
    let mut worker = WorkerState::new(0, Arc::new(DurableSignal::default()));
    // A read runs at once, however slow the machine is.
    worker.slice.length = Duration::MAX;
    worker.executor = Executor::new(world.table, 0, false);
    worker
}

/// Runs the requests of one read on the short path: their replies, what these wait for, and what stopped them where.
pub(super) fn run_read(
    world: &World,
    (worker, client): (&mut WorkerState, &mut Client),
    requests: &[Vec<Vec<u8>>],
    now_ms: u64,
) -> (Vec<u8>, Seq, Option<(usize, Outcome)>) {
    let mut bytes = Vec::new();
    for request in requests {
        let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        bytes.extend(command_bytes(&words));
    }
    worker.batch.clear();
    let (_, error) = Scanner::default().scan(&mut bytes, &mut worker.batch, Limits::default());
    assert!(error.is_none() && worker.batch.requests.len() == requests.len());
    let (mut required, mut commands, mut last) = (0, 0, "");
    let mut run = BatchRun {
        server: &world.server,
        worker,
        client,
        buf: &bytes,
        now_ms,
        required: &mut required,
        commands: &mut commands,
        last: &mut last,
    };
    let stop = run.run().map(|(at, why)| (at, why.expect("replies are short")));
    let executed = stop.as_ref().map_or(requests.len(), |&(at, _)| at);
    assert_eq!(commands, executed as u64, "each is counted");
    let replies = worker.reply.bytes().to_vec();
    worker.reply.truncate(0);
    (replies, required, stop)
}

pub(super) fn long_way(terms: Terms, reads: &[Read]) -> Traces {
    let mut world = World::new(terms);
    let mut executor = Executor::new(world.table, 0, true);
    let (mut client, mut out) = (world.client(), Reply::new());
    world.run(reads, |world, requests, from, now_ms| {
        let mut required = 0;
        for (at, request) in requests.iter().enumerate().skip(from) {
            let (bytes, ranges) = pack(request.iter().map(Vec::as_slice));
            let args = Args::new(&bytes, &ranges);
            match executor.execute(&world.server, &mut client, args, &mut out, now_ms) {
                Outcome::Done(needs) => required = needs.max(required),
                outcome => return (required, Some((at, outcome))),
            }
        }
        (required, None)
    });
    let replies = out.bytes().to_vec();
    world.traces(&replies)
}
