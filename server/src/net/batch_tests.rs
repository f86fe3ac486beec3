//! The short way of plain GETs and SETs beside the long way, on the same history.

use super::batch::BatchRun;
use super::worker::{DurableSignal, WorkerState};
use crate::dispatch::client::Client;
use crate::dispatch::{Args, Executor, Outcome, Table};
use crate::events::pubsub::Kind;
use crate::resp::{Limits, Reply, Scanner, command_bytes, pack};
use crate::server::Server;
use crate::session::Session;
use crate::session::outbox::Parcel;
use sexton_config::value::Events;
use sexton_engine::{Engine, EngineOptions, SyncPolicy};
use sexton_persistence::device::Storage as _;
use sexton_persistence::device::sim::SimStorage;
use std::sync::Arc;

const NOW_MS: u64 = 1_000_000;

/// What a history has left in a server of its own.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    replies: Vec<u8>,
    /// Calls, refusals and failures of each command that was asked for.
    calls: Vec<(&'static str, u64, u64, u64)>,
    /// The slow log's arguments, oldest first.
    slow: Vec<Vec<Vec<u8>>>,
    lookups: (u64, u64),
    expired: u64,
    /// Key-space events, and what they wait for.
    events: Parcel,
    /// Which of the watched keys have changed.
    dirty: Vec<bool>,
    last_seq: u64,
    digest: String,
    /// Commands of the log.
    log: String,
}

/// A server with a log on simulated disks, whose commands count for it alone.
struct World {
    server: Server,
    disk: Arc<SimStorage>,
    table: &'static Table,
    listener: Arc<Session>,
    watchers: Vec<Client>,
}

const WATCHED: [&[u8]; 5] = [b"plain", b"k8", b"number", b"due", b"none"];

impl World {
    fn new(slower_than_us: i64) -> Self {
        let disk = Arc::new(SimStorage::new());
        let options = EngineOptions {
            // Nobody syncs in the background: with `everysec` a request waits where the machine is so busy that the
            // last sync is two seconds ago.
            sync_policy: SyncPolicy::No,
            ..EngineOptions::new(Arc::<SimStorage>::clone(&disk), "data".into())
        };
        let (engine, _) = Engine::open_bytes(options).expect("a store on simulated disks opens");
        let server = Server::new(engine, 16);
        server.observe.slowlog.set_threshold_us(slower_than_us);
        server.observe.slowlog.set_len_max(1000);
        server.events.switch.set(Events::parse(b"KEA").expect("classes"));
        let listener = Arc::new(Session::default());
        server.events.pubsub.subscribe(Kind::Pattern, b"__key*", &listener);
        let watchers = WATCHED.map(|key| {
            let mut client = Client { authenticated: true, ..Client::default() };
            client.watch(&server, 0, key, 0);
            client
        });
        let table = Box::leak(Box::new(Table::build(crate::commands::GROUPS)));
        Self { server, disk, table, listener, watchers: watchers.into() }
    }

    /// A client that acts as a user with these rules; without any, as one who may do everything.
    fn client(&self, rules: &str) -> Client {
        let mut client = Client { authenticated: true, ..Client::default() };
        if !rules.is_empty() {
            let rules: Vec<Vec<u8>> =
                rules.split(' ').map(|rule| rule.as_bytes().to_vec()).collect();
            let auth = &self.server.auth;
            auth.set_user(self.table.catalog(), b"ann", &rules).expect("these are rules");
            client.act_as(auth.authenticate(b"ann", b"").expect("it is on, and has no password"));
        }
        client
    }

    fn traces(self, replies: &[u8]) -> Traces {
        let Self { server, disk, table, listener, watchers } = self;
        let entries = server.observe.slowlog.newest(1000);
        let calls = table.all().iter().map(|spec| (spec.name, spec.stats.totals()));
        let calls =
            calls.map(|(name, totals)| (name, totals.calls, totals.rejected, totals.failed));
        let calls = calls.filter(|(_, calls, rejected, _)| calls + rejected != 0).collect();
        let mut traces = Traces {
            replies: replies.to_vec(),
            calls,
            slow: entries.into_iter().rev().map(|entry| entry.args).collect(),
            lookups: (server.stats.hits(), server.stats.misses()),
            expired: server.stats.expired_keys(),
            events: listener.outbox.take(),
            dirty: watchers.iter().map(|client| client.watch_failed(0)).collect(),
            last_seq: server.engine.last_seq(),
            digest: String::new(),
            log: String::new(),
        };
        let mut executor = Executor::new(table, 0, true);
        let mut client = Client { authenticated: true, ..Client::default() };
        let (bytes, ranges) = pack([&b"DEBUG"[..], b"DIGEST"].into_iter());
        let mut out = Reply::new();
        executor.execute(&server, &mut client, Args::new(&bytes, &ranges), &mut out, NOW_MS);
        traces.digest = String::from_utf8_lossy(out.bytes()).into_owned();
        server.engine.sync_through(traces.last_seq).expect("is written");
        let dir = std::path::Path::new("data/appendonlydir");
        for name in disk.list(dir).expect("a log").iter().filter(|name| name.ends_with(".aof")) {
            let text = disk.read(&dir.join(name)).expect("is read");
            let text = String::from_utf8_lossy(&text).into_owned();
            // Groups are as long as the log's thread was late; each begins with its database.
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                traces.log.push_str(line.trim_matches('\0'));
                traces.log.push('\n');
            }
        }
        traces.log = traces.log.replace("*2\n$6\nSELECT\n$1\n0\n", "");
        traces
    }
}

/// GETs and SETs, plain and others between them, in one read.
fn history() -> Vec<Vec<Vec<u8>>> {
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let mut requests = vec![words(&format!("SET due v PXAT {}", NOW_MS + 1)), words("GET due")];
    requests.push(words("SET plain v"));
    for nth in 0..200 {
        requests.push(match nth % 10 {
            0..3 => words(&format!("SET k{} v{nth}", nth % 7)),
            3..6 => words(&format!("get k{}", nth % 9)),
            6 => words("INCR number"),
            7 => words("GET number"),
            8 => words("GET"),
            _ => words(&format!("SET k{} v XX", nth % 9)),
        });
    }
    requests
}

/// One of each shape of command that takes the short way, several times over, with what makes them fail.
fn mixed_history() -> Vec<Vec<Vec<u8>>> {
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let lines = [
        "INCR number",
        "incr plain",
        "APPEND text more",
        "STRLEN text",
        "DEL k1 none k2",
        "EXISTS k1 k3 k3",
        "MSET k1 a k2 b",
        "MGET k1 none number",
        "EXPIRE k1 100",
        "TTL k1",
        "SETEX k4 10 v",
        "PERSIST k4",
        "GETSET k5 v",
        "GETDEL k5",
        "SETRANGE text 1 x",
        "INCRBYFLOAT float 1.5",
        "SETNX k6 v",
        "RENAME k6 k7",
        "RENAME none k7",
        "TYPE text",
        "OBJECT ENCODING text",
        "SET number 5 GET",
        "INCR",
        "DECR number x",
        "EXPIRE k3 -1",
        "UNLINK k2",
        "TOUCH k1 text",
        "COPY text copied REPLACE",
        "PING",
        "GET text",
    ];
    let mut requests = vec![words("SET plain v")];
    for nth in 0..300 {
        requests.push(match nth % 4 {
            0 => words(&format!("SET k{} v{nth}", nth % 7)),
            _ => words(lines[nth * 7 % lines.len()]),
        });
    }
    requests
}

/// What comes when the time of a key has come, in a second read.
fn late_history() -> Vec<Vec<Vec<u8>>> {
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    ["GET due", "GET due", "SET due again", "GET due", "GET none"].map(words).into()
}

fn short_way(slower_than_us: i64, reads: &[Vec<Vec<Vec<u8>>>]) -> Traces {
    short_way_as("", slower_than_us, reads)
}

fn short_way_as(rules: &str, slower_than_us: i64, reads: &[Vec<Vec<Vec<u8>>>]) -> Traces {
    let world = World::new(slower_than_us);
    let mut worker = worker_of(&world);
    let mut client = world.client(rules);
    let (mut replies, mut now_ms) = (Vec::new(), NOW_MS);
    for requests in reads {
        replies.extend(run_read(&world, (&mut worker, &mut client), requests, now_ms));
        now_ms += 1000;
    }
    world.traces(&replies)
}

fn worker_of(world: &World) -> WorkerState {
    let mut worker = WorkerState::new(0, Arc::new(DurableSignal::default()));
    worker.executor = Executor::new(world.table, 0, false);
    worker
}

/// Requests that came in one read, by the short way; their replies.
fn run_read(
    world: &World,
    (worker, client): (&mut WorkerState, &mut Client),
    requests: &[Vec<Vec<u8>>],
    now_ms: u64,
) -> Vec<u8> {
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
    assert!(run.run().is_none());
    assert_eq!(commands, requests.len() as u64);
    let replies = worker.reply.bytes().to_vec();
    worker.reply.truncate(0);
    replies
}

fn long_way(slower_than_us: i64, reads: &[Vec<Vec<Vec<u8>>>]) -> Traces {
    long_way_as("", slower_than_us, reads)
}

fn long_way_as(rules: &str, slower_than_us: i64, reads: &[Vec<Vec<Vec<u8>>>]) -> Traces {
    let world = World::new(slower_than_us);
    let mut executor = Executor::new(world.table, 0, true);
    let mut client = world.client(rules);
    let (mut out, mut now_ms) = (Reply::new(), NOW_MS);
    for requests in reads {
        for request in requests {
            let (bytes, ranges) = pack(request.iter().map(Vec::as_slice));
            let args = Args::new(&bytes, &ranges);
            let outcome = executor.execute(&world.server, &mut client, args, &mut out, now_ms);
            assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        }
        now_ms += 1000;
    }
    let replies = out.bytes().to_vec();
    world.traces(&replies)
}

#[test]
fn plain_requests_leave_the_traces_of_any_other() {
    let reads = [history(), late_history()];
    // 0: everything is slow; -1: nothing is.
    for slower_than_us in [0, -1] {
        let (short, long) = (short_way(slower_than_us, &reads), long_way(slower_than_us, &reads));
        assert_eq!(short.log, long.log);
        assert_eq!(short, long);
        // 208 requests, of which 20 are no GET of anything.
        assert_eq!(short.slow.len(), if slower_than_us == 0 { 188 } else { 0 });
        assert_eq!(short.dirty, [true, false, true, true, false]);
        assert!(short.log.contains("SET\n$2\nk0\n") && short.log.contains("DEL"), "{}", short.log);
        assert!(!short.events.bytes.is_empty() && short.expired == 1);
    }
}

#[test]
fn a_user_with_few_rights_is_refused_on_the_short_way_as_on_the_long_one() {
    let reads = [history(), mixed_history()];
    let rules = "on nopass +@read +set +incr +rename %R~k* ~plain ~number";
    let (short, long) = (short_way_as(rules, -1, &reads), long_way_as(rules, -1, &reads));
    assert_eq!(short, long);
    let figures = |name: &str| short.calls.iter().find(|(known, ..)| *known == name);
    for name in ["get", "set"] {
        let &(_, calls, rejected, _) = figures(name).expect("was asked for");
        assert!(calls > 0 && rejected > 0, "{name}: {calls} calls, {rejected} refused");
    }
    assert!(figures("append").is_some_and(|&(_, calls, rejected, _)| calls == 0 && rejected > 0));
}

#[test]
fn every_command_leaves_the_traces_of_the_long_way() {
    let reads = [mixed_history(), mixed_history()];
    for slower_than_us in [0, -1] {
        let (short, long) = (short_way(slower_than_us, &reads), long_way(slower_than_us, &reads));
        assert_eq!(short.log, long.log);
        assert_eq!(short, long);
        let failed: u64 = short.calls.iter().map(|(.., failed)| failed).sum();
        assert!(failed > 5, "some of them fail: {:?}", short.calls);
        assert!(short.log.contains("APPEND") && short.log.contains("INCR\n"), "{}", short.log);
    }
}

/// What a SET of the short way has written is not for the next transaction to serve, which has other latches.
#[test]
fn plain_sets_go_on_while_somebody_waits_for_another_key() {
    let world = World::new(-1);
    let (mut worker, mut client) = (worker_of(&world), Client::default());
    client.authenticated = true;
    let mut waiting = Client { authenticated: true, ..Client::default() };
    let (bytes, ranges) = pack([&b"BLPOP"[..], b"q", b"0"].into_iter());
    let args = Args::new(&bytes, &ranges);
    worker.executor.execute(&world.server, &mut waiting, args, &mut Reply::new(), NOW_MS);
    assert!(world.server.blocking.are_there());
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let lines = (0..50).flat_map(|nth| [format!("SET s{nth} v"), format!("INCR i{nth}")]);
    let mut requests: Vec<Vec<Vec<u8>>> = lines.map(|line| words(&line)).collect();
    requests.push(words("SET q v"));
    requests.push(words("INCR i0"));
    let replies = run_read(&world, (&mut worker, &mut client), &requests, NOW_MS);
    assert_eq!(String::from_utf8(replies).unwrap(), "+OK\r\n:1\r\n".repeat(50) + "+OK\r\n:2\r\n");
    assert!(world.server.blocking.are_there(), "a string is nothing that it waits for");
}

/// A latency event of plain requests has the name and the time of any other's.
#[test]
fn slow_plain_requests_are_latency_events() {
    for (words, event) in
        [(&[&b"GET"[..], b"k"][..], &b"fast-command"[..]), (&[b"SET", b"k", b"v"], b"command")]
    {
        let world = World::new(-1);
        world.server.observe.latency.set_threshold_ms(5);
        let mut executor = Executor::new(world.table, 0, true);
        let mut client = Client { authenticated: true, ..Client::default() };
        let (bytes, ranges) = pack(words.iter().copied());
        let (args, mut out) = (Args::new(&bytes, &ranges), Reply::new());
        let hash = world.server.engine.hash(b"k");
        for time_us in [4_999, 7_000] {
            if words.len() == 2 {
                executor.fast_get(&world.server, &client, b"k", hash, &mut out, NOW_MS);
            } else {
                let logged = command_bytes(words);
                let server = &world.server;
                executor.fast_set(server, &mut client, b"k", hash, b"v", &logged, &mut out, NOW_MS);
            }
            executor.settle(&world.server, &client, args, time_us);
        }
        let series = world.server.observe.latency.series(event).expect("is recorded");
        assert_eq!((series.1.samples.len(), series.1.max_ms), (1, 7));
        assert_eq!(world.server.observe.latency.all().len(), 1);
    }
}

#[test]
fn slow_plain_requests_are_in_the_slow_log() {
    let value = vec![b'v'; 60_000];
    let set = |nth: usize| vec![b"SET".to_vec(), format!("k{nth}").into_bytes(), value.clone()];
    let short = short_way(1, &[(0..50).map(set).collect()]);
    assert!(short.slow.len() > 40, "{} of 50 SETs of 60 KB took a microsecond", short.slow.len());
}

#[test]
fn requests_that_were_timed_together_say_so() {
    let world = World::new(10_000);
    let server = &world.server;
    let mut executor = Executor::new(world.table, 0, true);
    let mut client = Client { authenticated: true, ..Client::default() };
    let mut out = Reply::new();
    let first = Args::new(b"GETk", &[(0, 3), (3, 4)]);
    for (count, time_us) in [(3, 9_999), (3, 10_000), (1, 10_000)] {
        for _ in 0..count {
            let hash = server.engine.hash(b"k");
            executor.fast_get(server, &client, b"k", hash, &mut out, NOW_MS);
        }
        executor.settle(server, &client, first, time_us);
    }
    client.closing = true;
    let slow = world.traces(out.bytes()).slow;
    assert_eq!(slow[0], [&b"GET"[..], b"k", b"... (2 more requests)"]);
    assert_eq!(slow[1..], [[b"GET".to_vec(), b"k".to_vec()]]);
}
