//! Compares the short path of plain GETs and SETs with the long path on one history.

use super::batch::{GRANTED, Kind};
use super::ways::{NOW_MS, Read, Terms, World, is_paced, long_way, run_read, short_way, worker_of};
use super::worker::WorkerState;
use crate::dispatch::client::Client;
use crate::dispatch::{Args, Executor, Step};
use crate::resp::{Reply, command_bytes, pack};
use sexton_persistence::device::sim::SimRandom;
use std::sync::atomic::Ordering;

/// GETs and SETs, plain and others between them, in one read.
fn history() -> Read {
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

/// One command of each form that takes the short path, several times, with requests that make them fail.
fn mixed_history() -> Read {
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

/// The same requests in transactions, some of which are discarded, watch a key that changes, or lead to another database.
fn in_transactions(requests: &[Vec<Vec<u8>>]) -> Read {
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let mut all = Vec::new();
    for (nth, some) in requests.chunks(7).enumerate() {
        if nth % 6 == 2 {
            all.extend([words("WATCH k1 text"), words("SET k1 w")]);
        }
        all.push(words("MULTI"));
        all.extend_from_slice(some);
        match nth % 6 {
            1 => all.extend([words("SELECT 1"), words("INCR number"), words("SELECT 0")]),
            3 => all.push(words("WATCH k1")),
            4 => all.push(words("MULTI")),
            _ => {}
        }
        all.push(words(if nth % 6 == 5 { "DISCARD" } else { "EXEC" }));
    }
    all
}

/// A second read, after a key has expired.
fn late_history() -> Read {
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    ["GET due", "GET due", "SET due again", "GET due", "GET none"].map(words).into()
}

/// Reads of random requests: plain and others, long values and short ones. If writers are to wait, each read has one
/// request.
fn drawn_history(seed: u64) -> Vec<Read> {
    let random = &mut SimRandom::new(seed);
    let others = mixed_history();
    let request = |random: &mut SimRandom| -> Vec<Vec<u8>> {
        let key = match random.below(10) {
            0 => b"plain".to_vec(),
            1 => b"number".to_vec(),
            2 => b"due".to_vec(),
            _ => format!("k{}", random.below(12)).into_bytes(),
        };
        let len = if random.percent(3) { 3000 } else { 80 };
        let value = vec![b'a' + random.below(26) as u8; random.below(len) as usize];
        match random.below(100) {
            0..35 => vec![b"SET".to_vec(), key, value],
            35..55 => vec![b"get".to_vec(), key],
            55..65 => vec![b"DEL".to_vec(), key, b"k3".to_vec()],
            65..70 => vec![b"SET".to_vec(), key, value, b"PX".to_vec(), b"2500".to_vec()],
            70..73 => vec![b"MULTI".to_vec()],
            73..78 => vec![b"EXEC".to_vec()],
            _ => others[random.below(others.len() as u64) as usize].clone(),
        }
    };
    let reads = if is_paced(seed) { 400 } else { 40 };
    let mut read = || {
        let len = if is_paced(seed) { 1 } else { 1 + random.below(25) };
        (0..len).map(|_| request(random)).collect()
    };
    (0..reads).map(|_| read()).collect()
}

/// Seeds of what is drawn.
const DRAWN: std::ops::Range<u64> = 0..12;

#[test]
fn plain_requests_leave_the_traces_of_any_other() {
    let reads = [history(), late_history()];
    for slower_than_us in [0, -1] {
        let terms = Terms { slower_than_us, ..Terms::PLAIN };
        let (short, long) = (short_way(terms, &reads), long_way(terms, &reads));
        short.assert_same(&long, "plain requests");
        // 208 requests, of which 20 are no GET of anything.
        assert_eq!(short.slow.len(), if slower_than_us == 0 { 188 } else { 0 });
        let whole = [true, false, true, true, false];
        assert_eq!(short.dirty, [whole, [false, false, false, true, false], whole]);
        let log = short.log_text();
        assert!(log.contains("SET\r\n$2\r\nk0\r\n") && log.contains("DEL"), "{log}");
        assert!(!short.events.bytes.is_empty() && short.expired == 1);
        assert_eq!(short.errors, [("ERR".to_owned(), 20)]);
    }
}

#[test]
fn a_user_with_few_rights_is_refused_on_the_short_way_as_on_the_long_one() {
    let reads = [history(), mixed_history()];
    let rules = "on nopass +@read +set +incr +rename %R~k* ~plain ~number";
    let terms = Terms { rules, ..Terms::PLAIN };
    let (short, long) = (short_way(terms, &reads), long_way(terms, &reads));
    short.assert_same(&long, rules);
    let figures = |name: &str| short.calls.iter().find(|(known, ..)| *known == name);
    for name in ["get", "set"] {
        let &(_, calls, rejected, _) = figures(name).expect("was asked for");
        assert!(calls > 0 && rejected > 0, "{name}: {calls} calls, {rejected} refused");
    }
    assert!(figures("append").is_some_and(|&(_, calls, rejected, _)| calls == 0 && rejected > 0));
}

/// A key is hashed, prefetched, and loaded ahead before the request runs: it must be there.
#[test]
fn what_begins_with_a_key_has_one() {
    let world = World::new(Terms::PLAIN);
    let (mut with, mut without) = (0, Vec::new());
    for spec in world.table.all().iter().filter(|spec| spec.is_short()) {
        if Kind::Short(spec).begins_with_key() {
            assert!(!spec.accepts(1), "{}", spec.name);
            with += 1;
        } else {
            without.push(spec.name);
        }
    }
    without.sort_unstable();
    assert!(with > 100 && without == ["echo", "ping"], "{with}, {without:?}");
}

#[test]
fn what_is_queued_leaves_the_traces_of_the_long_way() {
    let reads = [in_transactions(&history()), in_transactions(&mixed_history()), late_history()];
    let rules = "on nopass +@all -append -mset ~k* ~plain ~number ~due";
    for terms in
        [Terms::PLAIN, Terms { slower_than_us: 0, ..Terms::PLAIN }, Terms { rules, ..Terms::PLAIN }]
    {
        let (short, long) = (short_way(terms, &reads), long_way(terms, &reads));
        short.assert_same(&long, terms.rules);
        let log = short.log_text();
        assert!(log.contains("MULTI") && log.contains("EXEC") && log.contains("SELECT"), "{log}");
        let figures = |name: &str| short.calls.iter().find(|(known, ..)| *known == name);
        assert!(figures("exec").is_some() && figures("discard").is_some());
    }
}

#[test]
fn every_command_leaves_the_traces_of_the_long_way() {
    let reads = [mixed_history(), mixed_history()];
    for slower_than_us in [0, -1] {
        let terms = Terms { slower_than_us, ..Terms::PLAIN };
        let (short, long) = (short_way(terms, &reads), long_way(terms, &reads));
        short.assert_same(&long, "commands of every kind");
        let failed: u64 = short.calls.iter().map(|(.., failed)| failed).sum();
        assert!(failed > 5, "some of them fail: {:?}", short.calls);
        let log = short.log_text();
        assert!(log.contains("APPEND") && log.contains("INCR\r\n"), "{log}");
    }
}

/// Terms whose options are drawn.
fn drawn_terms(seed: u64) -> Terms {
    let slower_than_us = if seed % 4 < 2 { 0 } else { -1 };
    Terms { slower_than_us, drawn: Some(seed), ..Terms::PLAIN }
}

#[test]
fn histories_under_drawn_options_leave_the_traces_of_the_long_way() {
    let (mut put_off, mut held, mut expired) = (0, 0, 0);
    for seed in DRAWN {
        let (terms, reads) = (drawn_terms(seed), drawn_history(seed));
        let (short, long) = (short_way(terms, &reads), long_way(terms, &reads));
        short.assert_same(&long, &format!("{terms:?}"));
        put_off += short.put_off.len();
        held += short.required.iter().filter(|&&required| required != 0).count();
        assert!(
            short.put_off.is_empty() || is_paced(seed),
            "a read is no more than there is room for"
        );
        expired += short.expired;
    }
    assert!(put_off > 20, "{put_off} writes had to wait for a flush");
    assert!(held > 20, "{held} reads had to wait for the log");
    assert!(expired > 20, "{expired} keys expired");
}

/// Each step that the short path once lacked, or could lack: with the default options and with random ones.
#[test]
fn a_short_way_that_leaves_a_step_out_leaves_other_traces() {
    let plain = Terms { slower_than_us: 0, ..Terms::PLAIN };
    let paced = drawn_terms(0);
    for (terms, reads) in [(plain, vec![history(), late_history()]), (paced, drawn_history(0))] {
        let long = long_way(terms, &reads);
        let without = |step| {
            let short = short_way(Terms { without: Some(step), ..terms }, &reads);
            let differences = short.differences(&long);
            differences.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(without(Step::SlowLog), ["slow log"]);
        assert_eq!(without(Step::Watch), ["watched keys"]);
        if terms.drawn.is_some() {
            assert!(!long.put_off.is_empty());
            let differences = without(Step::Pacing);
            assert!(differences.contains(&"pacing"), "{differences:?}");
        }
    }
}

#[test]
fn what_is_due_among_the_keys_of_a_del_is_logged_by_itself() {
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let before = [
        "MSET a 1 b 1 c 1",
        "SET due 1 PX 50",
        "HSET h f 1 g 1",
        "HPEXPIRE h 50 FIELDS 1 f",
        "HSET i f 1",
        "HPEXPIRE i 50 FIELDS 1 f",
    ];
    let reads = [before.map(words).into(), vec![words("DEL a none due b h i c a")]];
    let terms = Terms { without: Some(Step::Joining), ..Terms::PLAIN };
    let (short, long) = (short_way(terms, &reads), long_way(terms, &reads));
    short.assert_same(&long, "DEL");
    assert!(short.replies.ends_with(b":4\r\n"));
    let logged = ["DEL a none", "DEL due", "DEL b", "HDEL h f", "DEL h", "HDEL i f", "DEL i c a"];
    let logged = logged.map(|line| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        command_bytes(&words)
    });
    assert!(short.log.ends_with(&logged.concat()), "{}", short.log_text());
    let events = String::from_utf8_lossy(&short.events.bytes).into_owned();
    let told = |event: &str| events.rfind(event).expect("is told");
    assert!(told("__keyspace@0__:a") < told("__keyspace@0__:due"), "in the order of the keys");
}

/// A write of a SET on the short path must not be served by the next transaction, which has other latches.
#[test]
fn plain_sets_go_on_while_somebody_waits_for_another_key() {
    let world = World::new(Terms::PLAIN);
    let (mut worker, mut client) = (worker_of(&world), Client::default());
    client.authenticated = true;
    let mut waiting = Client { authenticated: true, ..Client::default() };
    let (bytes, ranges) = pack([&b"BLPOP"[..], b"q", b"0"].into_iter());
    let args = Args::new(&bytes, &ranges);
    worker.executor.execute(&world.server, &mut waiting, args, &mut Reply::new(), NOW_MS);
    assert!(world.server.events.awaited.are_there());
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let lines = (0..50).flat_map(|nth| [format!("SET s{nth} v"), format!("INCR i{nth}")]);
    let mut requests: Read = lines.map(|line| words(&line)).collect();
    requests.push(words("SET q v"));
    requests.push(words("INCR i0"));
    let (replies, _, stop) = run_read(&world, (&mut worker, &mut client), &requests, NOW_MS);
    assert!(stop.is_none(), "{stop:?}");
    assert_eq!(String::from_utf8(replies).unwrap(), "+OK\r\n:1\r\n".repeat(50) + "+OK\r\n:2\r\n");
    assert!(world.server.events.awaited.are_there(), "a string is nothing that it waits for");
}

/// A turn asks once for a few small batches whether writes are allowed, and again when something else has run.
#[test]
fn batches_of_a_turn_share_the_permission_to_write() {
    let world = World::new(Terms::PLAIN);
    let (mut worker, mut client) = (worker_of(&world), Client::default());
    client.authenticated = true;
    let refuse = |refuse: bool| {
        world.server.disk_bound.set_max(u64::from(refuse));
        world.server.disk_bound.look(&world.server.engine);
    };
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    // How many requests the permission is still good for, behind a batch, and whether its last request was refused.
    let mut left_behind = |worker: &mut WorkerState, lines: &[&str]| {
        let requests: Read = lines.iter().map(|line| words(line)).collect();
        let (replies, _, stop) = run_read(&world, (worker, &mut client), &requests, NOW_MS);
        assert!(stop.is_none(), "{stop:?}");
        (worker.granted, !replies.ends_with(b"+OK\r\n"))
    };
    assert_eq!(left_behind(&mut worker, &["SET k v"]), (GRANTED - 1, false));
    refuse(true);
    assert_eq!(
        left_behind(&mut worker, &["SET k v", "SET k v"]),
        (GRANTED - 3, false),
        "not asked"
    );
    assert_eq!(left_behind(&mut worker, &["SELECT 0", "SET k v"]), (0, true), "something else ran");
    refuse(false);
    assert_eq!(left_behind(&mut worker, &["SET k v"]), (GRANTED - 1, false));
    worker.begin_turn();
    refuse(true);
    assert_eq!(left_behind(&mut worker, &["SET k v"]), (0, true), "each turn asks");
    refuse(false);
    assert_eq!(
        left_behind(&mut worker, &["SET k v"; GRANTED + 6]),
        (0, false),
        "a batch asks once"
    );
    assert_eq!(left_behind(&mut worker, &["SET k v"]), (GRANTED - 1, false));
    world.server.settings.out_of_memory.store(true, Ordering::Relaxed);
    assert_eq!(
        left_behind(&mut worker, &["SET k v"]),
        (GRANTED - 1, false),
        "memory is always asked"
    );
}

/// A latency event of plain requests has the name and the time of any other's.
#[test]
fn slow_plain_requests_are_latency_events() {
    for (words, event) in
        [(&[&b"GET"[..], b"k"][..], &b"fast-command"[..]), (&[b"SET", b"k", b"v"], b"command")]
    {
        let world = World::new(Terms::PLAIN);
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
            executor.record_stats(&world.server, &client, args, time_us);
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
    let terms = Terms { slower_than_us: 1, ..Terms::PLAIN };
    let short = short_way(terms, &[(0..50).map(set).collect()]);
    assert!(short.slow.len() > 40, "{} of 50 SETs of 60 KB took a microsecond", short.slow.len());
}

#[test]
fn requests_that_were_timed_together_say_so() {
    let world = World::new(Terms { slower_than_us: 10_000, ..Terms::PLAIN });
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
        executor.record_stats(server, &client, first, time_us);
    }
    client.closing = true;
    let slow: Vec<_> = world.traces(out.bytes()).slow.into_iter().map(|entry| entry.0).collect();
    assert_eq!(slow[0], [&b"GET"[..], b"k", b"... (2 more requests)"]);
    assert_eq!(slow[1..], [[b"GET".to_vec(), b"k".to_vec()]]);
}
