//! The dispatcher's corner cases: transactions, refusals, replay.

use super::client::Client;
use super::{Args, Executor, Outcome, Table};
use crate::keyspace::load_blocking;
use crate::resp::{Reply, command_bytes, pack};
use crate::server::Server;
use crate::session::Session;
use crate::state::saving::Start;
use sexton_engine::{Engine, Latched, TxBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};

pub(super) const NOW_MS: u64 = 1_000_000;

pub(super) struct Bench {
    pub(super) server: Server,
    pub(super) executor: Executor,
}

impl Bench {
    pub(super) fn new() -> Self {
        let engine = Engine::in_memory(16).expect("a store in memory opens");
        Self {
            server: Server::new(engine, 16),
            executor: Executor::new(crate::commands::table::table(), 0, true),
        }
    }

    pub(super) fn client(&self) -> Client {
        let authenticated = !self.server.auth.is_required();
        Client { authenticated, databases: self.server.databases, ..Client::default() }
    }

    pub(super) fn try_at(
        &mut self,
        client: &mut Client,
        line: &str,
        now_ms: u64,
    ) -> (Outcome, String) {
        let (buf, ranges) = pack(line.split(' ').map(str::as_bytes));
        let mut out = Reply::new();
        let args = Args::new(&buf, &ranges);
        let outcome = self.executor.execute(&self.server, client, args, &mut out, now_ms);
        (outcome, String::from_utf8_lossy(out.bytes()).into_owned())
    }

    pub(super) fn run(&mut self, client: &mut Client, line: &str) -> String {
        self.run_at(client, line, NOW_MS)
    }

    pub(super) fn run_at(&mut self, client: &mut Client, line: &str, now_ms: u64) -> String {
        self.finish(client, line, now_ms).1
    }

    /// The rounds of loading that a request needs, and its reply.
    pub(super) fn rounds(&mut self, client: &mut Client, line: &str) -> (usize, String) {
        self.finish(client, line, NOW_MS)
    }

    /// Runs a request until it is done, as a connection does: a key may have left memory, and writers may have to wait.
    /// The bound and the background decide when.
    fn finish(&mut self, client: &mut Client, line: &str, now_ms: u64) -> (usize, String) {
        let mut pins = Vec::new();
        loop {
            match self.try_at(client, line, now_ms) {
                (Outcome::Done(_), reply) => return (pins.len(), reply),
                (Outcome::Cold(keys), _) => {
                    let pin = load_blocking(&self.server, keys, u64::MAX);
                    pins.push(pin.expect("simulated storage works"));
                }
                (Outcome::Paced, _) => self.catch_up(),
                (outcome, _) => panic!("{line}: {outcome:?}"),
            }
        }
    }

    /// Brings forward what writers wait for.
    pub(super) fn catch_up(&self) {
        self.server.engine.flush().expect("simulated storage works");
    }

    /// A request whose words are any bytes, with its reply as it is.
    pub(super) fn run_words(&mut self, client: &mut Client, words: &[&[u8]]) -> Vec<u8> {
        let (buf, ranges) = pack(words.iter().copied());
        let mut out = Reply::new();
        let args = Args::new(&buf, &ranges);
        let outcome = self.executor.execute(&self.server, client, args, &mut out, NOW_MS);
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        out.bytes().to_vec()
    }

    pub(super) fn run_all(&mut self, client: &mut Client, lines: &[&str]) {
        for line in lines {
            self.run(client, line);
        }
    }
}

#[test]
fn a_transaction_answers_all_its_commands() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    assert_eq!(bench.run(&mut client, "MULTI"), "+OK\r\n");
    assert_eq!(bench.run(&mut client, "SET a 1"), "+QUEUED\r\n");
    assert_eq!(bench.run(&mut client, "INCR a"), "+QUEUED\r\n");
    assert_eq!(bench.run(&mut client, "GETRANGE a x y"), "+QUEUED\r\n");
    let reply = bench.run(&mut client, "EXEC");
    assert_eq!(reply, "*3\r\n+OK\r\n:2\r\n-ERR value is not an integer or out of range\r\n");
    assert_eq!(bench.run(&mut client, "EXEC"), "-ERR EXEC without MULTI\r\n");
}

#[test]
fn a_refused_command_aborts_the_transaction() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.run_all(&mut client, &["MULTI", "SET a 1"]);
    assert_eq!(
        bench.run(&mut client, "GET"),
        "-ERR wrong number of arguments for 'get' command\r\n"
    );
    assert_eq!(
        bench.run(&mut client, "EXEC"),
        "-EXECABORT Transaction discarded because of previous errors.\r\n"
    );
    assert_eq!(bench.run(&mut client, "GET a"), "$-1\r\n");
}

#[test]
fn options_of_hello_count_as_soon_as_they_are_read() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.server.auth.set_password(b"secret");
    assert!(bench.run(&mut client, "HELLO 2 SETNAME x AUTH a b more").starts_with("-WRONGPASS"));
    assert!(
        bench
            .run(&mut client, "HELLO 2 AUTH default secret SETNAME y more")
            .starts_with("-ERR Syntax error in HELLO option 'more'")
    );
    assert_eq!(bench.run(&mut client, "CLIENT GETNAME"), "$1\r\ny\r\n");
}

#[test]
fn tracking_is_refused_as_redis_refuses_its_options() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    for (request, reply) in [
        ("ON REDIRECT abc", "-ERR value is not an integer or out of range\r\n"),
        ("OFF REDIRECT 12345", "-ERR The client ID you want redirect to does not exist\r\n"),
        ("OFF PREFIX", "-ERR syntax error\r\n"),
        ("OFF BCAST PREFIX a PREFIX b", "+OK\r\n"),
        ("maybe", "-ERR syntax error\r\n"),
    ] {
        assert_eq!(
            bench.run(&mut client, &format!("CLIENT TRACKING {request}")),
            reply,
            "{request}"
        );
    }
}

#[test]
fn a_watched_key_that_changed_or_expired_fails_exec() {
    let mut bench = Bench::new();
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.run_all(&mut client, &["WATCH a", "MULTI", "SET b 1"]);
    bench.run(&mut other, "SET a 1");
    assert_eq!(bench.run(&mut client, "EXEC"), "*-1\r\n");
    assert!(!bench.server.events.watches.is_used());
    // A change of another key does no harm.
    bench.run_all(&mut client, &["WATCH a", "MULTI", "SET b 1"]);
    bench.run(&mut other, "SET c 1");
    assert_eq!(bench.run(&mut client, "EXEC"), "*1\r\n+OK\r\n");
    // FLUSHALL changes all keys.
    bench.run_all(&mut client, &["WATCH a", "MULTI", "SET b 1"]);
    bench.run(&mut other, "FLUSHALL");
    assert_eq!(bench.run(&mut client, "EXEC"), "*-1\r\n");
    // Time is a change too.
    bench.run_all(&mut client, &["SET a 1 PX 100", "WATCH a", "MULTI", "SET b 1"]);
    assert_eq!(bench.try_at(&mut client, "EXEC", NOW_MS + 101).1, "*-1\r\n");
}

#[test]
fn swapdb_leaves_watchers_of_keys_alone_that_live_on_neither_side() {
    let mut bench = Bench::new();
    let (mut client, mut other) = (bench.client(), bench.client());
    let set = ["SET stale 1 PX 100", "SET here 1", "SELECT 1", "SET stale 1 PX 100", "SET there 1"];
    bench.run_all(&mut other, &set);
    let later_ms = NOW_MS + 1000;
    for (key, reply) in [
        ("none", "*1\r\n+PONG\r\n"),
        ("stale", "*1\r\n+PONG\r\n"),
        ("here", "*-1\r\n"),
        ("there", "*-1\r\n"),
    ] {
        for line in [format!("WATCH {key}").as_str(), "MULTI", "PING"] {
            bench.try_at(&mut client, line, later_ms);
        }
        bench.try_at(&mut other, "SWAPDB 0 1", later_ms);
        assert_eq!(bench.try_at(&mut client, "EXEC", later_ms).1, reply, "{key}");
        bench.try_at(&mut other, "SWAPDB 0 1", later_ms);
    }
}

#[test]
fn nothing_runs_before_authentication() {
    let mut bench = Bench::new();
    bench.server.auth.set_password(b"secret");
    let mut client = bench.client();
    assert_eq!(bench.run(&mut client, "SET a 1"), "-NOAUTH Authentication required.\r\n");
    assert_eq!(bench.run(&mut client, "AUTH secret"), "+OK\r\n");
    assert_eq!(bench.run(&mut client, "SET a 1"), "+OK\r\n");
}

#[test]
fn a_refused_exec_ends_its_transaction() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.run_all(&mut client, &["WATCH w", "MULTI", "SET a b"]);
    let reply = bench.run(&mut client, "EXEC foo");
    assert_eq!(
        reply,
        "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n"
    );
    assert!(!bench.server.events.watches.is_used());
    assert_eq!(bench.run(&mut client, "EXEC"), "-ERR EXEC without MULTI\r\n");
    assert_eq!(bench.run(&mut client, "EXEC foo"), reply, "also without MULTI");
    assert_eq!(bench.run(&mut client, "PING"), "+PONG\r\n");
}

#[test]
fn flushall_calls_off_a_save_that_runs() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    assert!(matches!(bench.server.saving.start_in_background(), Start::Started));
    bench.run(&mut client, "FLUSHDB");
    assert!(!bench.server.saving.is_aborted(), "as in Redis FLUSHDB leaves it alone");
    bench.run(&mut client, "FLUSHALL");
    assert!(bench.server.saving.is_aborted());
}

#[test]
fn monitors_see_an_exec_that_runs_nothing() {
    let mut bench = Bench::new();
    let (mut client, mut other, mut watcher) = (bench.client(), bench.client(), bench.client());
    bench.run(&mut watcher, "MONITOR");
    let seen = |watcher: &Client| {
        let lines = watcher.session.outbox.take().bytes;
        String::from_utf8_lossy(&lines).matches("\"EXEC\"").count()
    };
    bench.run_all(&mut client, &["MULTI", "NOSUCH", "EXEC"]);
    assert_eq!(seen(&watcher), 1, "discarded because of an error");
    bench.run_all(&mut client, &["WATCH a", "MULTI"]);
    bench.run(&mut other, "SET a 1");
    assert_eq!(bench.run(&mut client, "EXEC"), "*-1\r\n");
    assert_eq!(seen(&watcher), 1, "discarded because of WATCH");
}

#[test]
fn the_short_ways_do_what_the_long_ones_do() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    let hash = bench.server.engine.hash(b"k");
    let mut out = Reply::new();
    let request = command_bytes(&[b"SET", b"k", b"v"]);
    let mut watcher = bench.client();
    bench.run_all(&mut watcher, &["WATCH k", "MULTI"]);
    let (server, executor) = (&bench.server, &mut bench.executor);
    let seq = executor
        .fast_set(server, &mut client, b"k", hash, b"v", &request, &mut out, NOW_MS)
        .expect("nobody holds it");
    assert!(seq > 0);
    let got = executor.fast_get(server, &client, b"k", hash, &mut out, NOW_MS);
    assert!(got.is_some());
    assert_eq!(out.bytes(), b"+OK\r\n$1\r\nv\r\n");
    assert_eq!(bench.run(&mut watcher, "EXEC"), "*-1\r\n");
    // An expired value is left to the long way, which deletes it.
    bench.run(&mut client, "SET k v PX 10");
    let (server, executor) = (&bench.server, &mut bench.executor);
    assert!(executor.fast_get(server, &client, b"k", hash, &mut out, NOW_MS + 10).is_none());
    assert_eq!(bench.try_at(&mut client, "GET k", NOW_MS + 10).1, "$-1\r\n");
}

#[test]
fn a_string_that_comes_while_somebody_waits_leaves_nothing_for_the_next_request_to_serve() {
    let mut bench = Bench::new();
    let (mut waiting, mut client) = (bench.client(), bench.client());
    let (outcome, _) = bench.try_at(&mut waiting, "BLPOP k 0", NOW_MS);
    assert!(matches!(outcome, Outcome::Blocks(_)), "{outcome:?}");
    let mut out = Reply::new();
    for name in [b"k".as_slice(), b"other"] {
        let (server, executor) = (&bench.server, &mut bench.executor);
        let (hash, request) = (server.engine.hash(name), command_bytes(&[b"SET", name, b"v"]));
        let set =
            executor.fast_set(server, &mut client, name, hash, b"v", &request, &mut out, NOW_MS);
        assert_eq!(set.is_some(), name != b"k", "the long way, where somebody waits for the key");
    }
    bench.run(&mut client, "SET k v");
    // Keys of other shards, whose latches the next requests do not have.
    for number in 0..50 {
        assert_eq!(bench.run(&mut client, &format!("INCR n{number}")), ":1\r\n");
    }
    bench.run_all(&mut client, &["DEL k", "RPUSH k a"]);
    assert_eq!(bench.run(&mut waiting, "BLPOP k 0"), "*2\r\n$1\r\nk\r\n$1\r\na\r\n");
}

#[test]
fn a_request_that_waits_is_shown_to_monitors_when_it_comes_and_once() {
    let mut bench = Bench::new();
    let (mut waiting, mut client) = (bench.client(), bench.client());
    let monitor = Arc::new(Session::default());
    bench.server.observe.monitors.start(&monitor);
    let shown = || {
        let text = String::from_utf8_lossy(&monitor.outbox.take().bytes).into_owned();
        text.lines()
            .filter_map(|line| line.split_once("] "))
            .map(|(_, words)| words.to_owned())
            .collect()
    };
    for line in ["BLPOP k 0", "BLMOVE k other LEFT LEFT 0"] {
        bench.try_at(&mut waiting, line, NOW_MS);
        let words: Vec<String> = shown();
        assert_eq!(words.len(), 1, "{line}: {words:?}");
        assert!(words[0].starts_with("\"BL"), "{words:?}");
        bench.run(&mut client, "RPUSH k a");
        let words: Vec<String> = shown();
        assert_eq!(words, ["\"RPUSH\" \"k\" \"a\""]);
        bench.run(&mut waiting, line);
        let words: Vec<String> = shown();
        assert!(words.is_empty(), "{line}: {words:?}");
    }
    // One that need not wait.
    bench.run_all(&mut client, &["RPUSH k a", "BLPOP k 0"]);
    let words: Vec<String> = shown();
    assert_eq!(words.len(), 2, "{words:?}");
}

#[test]
fn replay_repeats_outcomes_and_names_what_fails() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    let group = [
        command_bytes(&[b"SELECT", b"3"]),
        command_bytes(&[b"MULTI"]),
        // Long past; the log says when it is deleted, not the clock.
        command_bytes(&[b"SET", b"a", b"1", b"PXAT", b"5"]),
        command_bytes(&[b"INCR", b"a"]),
        command_bytes(&[b"EXEC"]),
    ]
    .concat();
    let mut replayer = Executor::new(crate::commands::table::table(), 0, false);
    replayer.replay(&bench.server, &mut client, &group).expect("a good group");
    assert_eq!(client.db, 3);
    assert_eq!(bench.try_at(&mut client, "GET a", 4).1, "$1\r\n2\r\n");
    let error = replayer.replay(&bench.server, &mut client, &command_bytes(&[b"NOPE"]));
    assert!(error.is_err_and(|text| text.contains("'nope' answered: ERR unknown command")));
    let torn = replayer.replay(&bench.server, &mut client, b"*2\r\n$3\r\nGET\r\n");
    assert_eq!(torn, Err("a group ends inside a command".to_owned()));
}

/// None of them may take a latch while the transaction holds some: it would deadlock with itself.
#[test]
fn commands_about_the_whole_server_run_inside_a_transaction() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    for asked in [
        "INFO",
        "INFO keyspace",
        "MEMORY STATS",
        "DEBUG HTSTATS 0",
        "CONFIG SET maxmemory 209715200",
        "CONFIG SET maxmemory-policy allkeys-lru",
        "DBSIZE",
    ] {
        bench.run_all(&mut client, &["WATCH k", "MULTI", "SET k 1", asked, "GET k"]);
        let reply = bench.run(&mut client, "EXEC");
        assert!(reply.starts_with("*3\r\n+OK\r\n"), "{asked}: {reply}");
        assert!(reply.ends_with("$1\r\n1\r\n"), "{asked}: {reply}");
    }
    bench.run_all(&mut client, &["MULTI", "INFO keyspace", "SET other 1"]);
    let reply = bench.run(&mut client, "EXEC");
    assert!(reply.contains("keys=2"), "it tells of the state behind the transaction: {reply}");
}

/// A command that only tests have; the row is otherwise that of PERSIST.
fn panics_after_writing(ctx: &mut super::Ctx<'_, '_>) -> super::CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    ctx.put(
        db,
        key,
        sexton_engine::Meta { flags: crate::value::PLAIN_STRING, expire_at_ms: 0 },
        b"half",
        crate::events::Event::string("set"),
    );
    panic!("a test's own panic");
}

/// A command that only tests have: it forgets the log.
#[cfg(debug_assertions)]
fn writes_unlogged(ctx: &mut super::Ctx<'_, '_>) -> super::CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    ctx.delete(db, key, crate::events::Event::generic("del"));
    ctx.out.ok();
    Ok(())
}

#[cfg(debug_assertions)]
#[test]
fn a_change_without_its_log_form_is_refused_where_debug_assertions_are_on() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.run_all(&mut client, &["SET a 1", "MULTI"]);
    queue_command(&mut client, "a", writes_unlogged);
    let reply = bench.run(&mut client, "EXEC");
    assert!(reply.contains("a change without its log form"), "{reply}");
    assert_eq!(bench.run(&mut client, "GET a"), "$1\r\n1\r\n");
}

#[test]
fn a_transaction_that_is_over_is_over_for_those_who_list_clients() {
    let mut bench = Bench::new();
    let (mut client, mut other) = (bench.client(), bench.client());
    let queued = |client: &Client| client.session.queued.load(Ordering::Relaxed);
    for (before, last, reply) in [
        ("SET a 1", "EXEC", "*1\r\n+OK\r\n"),
        ("SET a", "EXEC", "-EXECABORT"),
        ("SET a 1", "EXEC", "*-1\r\n"),
        ("SET a 1", "DISCARD", "+OK\r\n"),
        ("SET a 1", "RESET", "+RESET\r\n"),
    ] {
        if reply == "*-1\r\n" {
            bench.run_all(&mut client, &["WATCH b"]);
            bench.run_all(&mut other, &["SET b 1"]);
        }
        bench.run_all(&mut client, &["MULTI"]);
        bench.run(&mut client, before);
        assert!(queued(&client) > 0, "{last} after {before}");
        let got = bench.run(&mut client, last);
        assert!(got.starts_with(reply), "{got}");
        assert_eq!((queued(&client), client.queued_bytes()), (0, 0), "{last} after {before}");
        assert!(client.transaction.is_none());
    }
}

pub(super) fn queue_panic(client: &mut Client, key: &str) {
    queue_command(client, key, panics_after_writing);
}

fn queue_command(client: &mut Client, key: &str, run: super::Handler) {
    let persist = crate::commands::table::find(b"persist").expect("a command");
    let binding = super::Binding::keyed("persist", run);
    let spec: &'static super::CommandSpec =
        Box::leak(Box::new(super::CommandSpec::for_tests(&binding, persist.metadata)));
    let buf = format!("persist{key}");
    let ranges = [(0, 7), (7, buf.len() as u32)];
    client.queue(spec, Args::new(buf.as_bytes(), &ranges));
}

/// After a panic the state must be that before the transaction, whatever the transaction did until then.
#[test]
fn a_panic_inside_exec_takes_the_whole_transaction_back() {
    let mut bench = Bench::new();
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.run_all(&mut client, &["SET a 1", "SET b 2 PX 5000", "SET gone 3", "SET moved 4"]);
    let before = bench.server.engine.last_seq();
    bench.run_all(
        &mut client,
        &[
            "MULTI",
            "SET a 10",
            "APPEND b x",
            "DEL gone",
            "SET gone 5",
            "EXPIRE a 100",
            "SET new 1",
            "MOVE moved 3",
            "SELECT 2",
        ],
    );
    queue_panic(&mut client, "c");
    let reply = bench.run(&mut client, "EXEC");
    assert!(reply.starts_with("-ERR internal error in 'persist', nothing was changed"), "{reply}");
    assert_eq!(bench.server.engine.last_seq(), before, "nothing got a sequence");
    assert_eq!(bench.server.engine.write_refusal(), None, "the store goes on");
    assert_eq!(client.db, 0);
    for (line, reply) in [
        (
            "MGET a b gone new c moved",
            "*6\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$-1\r\n$-1\r\n$1\r\n4\r\n",
        ),
        ("PTTL a", ":-1\r\n"),
        ("PTTL b", ":5000\r\n"),
        ("DBSIZE", ":4\r\n"),
        ("SET a 11", "+OK\r\n"),
        ("GET a", "$2\r\n11\r\n"),
    ] {
        assert_eq!(bench.run(&mut other, line), reply, "{line}");
    }
    assert!(
        bench.run(&mut other, "INFO keyspace").contains("keys=4,expires=1"),
        "counts are taken back, too"
    );
}

#[test]
fn a_failed_watch_is_told_when_the_write_that_failed_it_is_durable() {
    let mut bench = Bench::new();
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.server.engine.set_sync_policy(sexton_engine::SyncPolicy::Always).expect("a policy");
    bench.run_all(&mut client, &["SET a 1", "WATCH a", "MULTI", "GET a"]);
    bench.run(&mut other, "SET a 2");
    let last_seq = bench.server.engine.last_seq();
    match bench.try_at(&mut client, "EXEC", NOW_MS) {
        (Outcome::Done(required), reply) => assert_eq!((required, &*reply), (last_seq, "*-1\r\n")),
        other => panic!("{other:?}"),
    }
}

/// Regression: each FLUSHALL gave all databases a new namespace, and all old ones had to be kept.
#[test]
fn dbsize_leaves_the_worker_where_it_would_have_to_wait() {
    let mut bench = Bench::new();
    let (mut client, mut past) = (bench.client(), bench.client());
    bench.run_all(&mut client, &["SET k v", "SET other v"]);
    bench.run_all(&mut past, &["SEXTON.SNAPSHOT OPEN"]);
    bench.run_all(&mut client, &["SET third v"]);
    bench.executor.may_block = false;
    let Bench { server, executor } = &mut bench;
    let (buf, ranges) = pack([b"DBSIZE".as_slice()].into_iter());
    let mut is_handed_over = |client: &mut Client| {
        let mut out = Reply::new();
        let outcome = executor.execute(server, client, Args::new(&buf, &ranges), &mut out, NOW_MS);
        match outcome {
            Outcome::Offload => assert_eq!(out.bytes(), b""),
            _ => assert_eq!(out.bytes(), b":3\r\n"),
        }
        matches!(outcome, Outcome::Offload)
    };
    assert!(!is_handed_over(&mut client));
    assert!(is_handed_over(&mut past), "a snapshot is on a device");
    let (is_held, end) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut tx_buf, key) = (TxBuf::default(), [server.engine.hash(b"k")]);
            let held = server.engine.begin(Latched::Hashes(&key), &mut tx_buf);
            is_held.wait();
            end.wait();
            drop(held);
        });
        is_held.wait();
        let handed_over = is_handed_over(&mut client);
        end.wait();
        assert!(handed_over, "somebody else holds a latch");
    });
    let script = server.running_scripts.start(1);
    assert!(is_handed_over(&mut client), "a script holds a latch");
    drop(script);
    assert!(!is_handed_over(&mut client));
}

#[test]
fn emptying_what_is_empty_is_no_operation() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.run_all(&mut client, &["SET a 1", "FLUSHALL"]);
    let before = bench.server.engine.last_seq();
    bench.run_all(&mut client, &["FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC"]);
    assert_eq!(bench.server.engine.last_seq(), before);
    bench.run_all(&mut client, &["SELECT 3", "SET a 1", "FLUSHALL"]);
    assert_eq!(bench.server.engine.last_seq(), before + 2, "one database had a key");
    assert_eq!(bench.run(&mut client, "DBSIZE"), ":0\r\n");
}

#[test]
fn a_checkpoint_needs_the_permission_to_set_protected_directives() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    let reply = bench.run(&mut client, "SEXTON.CHECKPOINT /nowhere/at-all");
    assert!(reply.contains("enable-protected-configs"), "{reply}");
}

/// Regression: a script that began again for a latch or a cold key counted its calls each time.
#[test]
fn calls_of_a_script_that_begins_again_count_once() {
    let mut bench = Bench::new();
    // Counted for this test alone.
    let table = Box::leak(Box::new(Table::build(crate::commands::GROUPS)));
    bench.executor = Executor::new(table, 0, true);
    let mut client = bench.client();
    // The latches of keys that were not declared are missed one after the other.
    let script = "redis.call('incr',KEYS[1])redis.pcall('incr',KEYS[1],1)redis.pcall('setrange',KEYS[1],-1,1)\
                  for\ti\tin\tstring.gmatch('abcdefgh','.')do\tredis.call('incr',i)end\t\
                  return\tredis.call('get',KEYS[1])";
    assert_eq!(bench.run(&mut client, &format!("EVAL {script} 1 k")), "$1\r\n1\r\n");
    let totals = |name: &[u8]| bench.executor.table().find(name).expect("a command").stats.totals();
    let counts = |name| (totals(name).calls, totals(name).rejected, totals(name).failed);
    assert_eq!(counts(b"incr"), (9, 1, 0));
    assert_eq!(counts(b"setrange"), (1, 0, 1));
    assert_eq!(counts(b"get"), (1, 0, 0));
    assert_eq!(counts(b"eval"), (1, 0, 0));
}
