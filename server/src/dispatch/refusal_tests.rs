//! Tests of refusals: for lack of room, or while some operation is in progress.

use super::tests::{Bench, NOW_MS};
use super::{Executor, Outcome};
use crate::jobs::eviction;
use crate::resp::command_bytes;
use crate::session::Pause;
use crate::state::saving::Start;
use sexton_config::choice::EvictionPolicy;
use sexton_config::value::SavePoint;
use std::time::{Duration, Instant};

#[test]
fn memory_is_refused_to_those_who_need_it() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.server.engine.set_memory_bound(4 << 20);
    eviction::set_policy(&bench.server, EvictionPolicy::VolatileRandom);
    let value = "v".repeat(64 << 10);
    let replies: Vec<String> =
        (0..128).map(|nth| bench.run(&mut client, &format!("SET {nth} {value}"))).collect();
    assert_eq!(replies[0], "+OK\r\n");
    assert_eq!(replies[127], "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    assert!(!bench.executor.is_fast_write(&bench.server));
    assert_eq!(bench.run(&mut client, "DEL 0"), ":1\r\n");
    bench.run(&mut client, "FLUSHALL");
    bench.server.engine.set_memory_bound(0);
    assert_eq!(bench.run(&mut client, "SET a 1"), "+OK\r\n");
}

const OUT_OF_MEMORY: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";

/// Of a bound of 16 MB a request may have half a megabyte, and a reply two.
#[test]
fn what_a_request_makes_of_little_is_bounded_too() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.server.engine.set_memory_bound(16 << 20);
    assert_eq!(bench.run(&mut client, "SETRANGE k 500000000 x"), OUT_OF_MEMORY);
    assert_eq!(bench.run(&mut client, "SETRANGE k 5000 x"), ":5001\r\n");
    let half = "v".repeat(300 << 10);
    assert_eq!(bench.run(&mut client, &format!("APPEND a {half}")), ":307200\r\n");
    assert_eq!(bench.run(&mut client, &format!("APPEND a {half}")), OUT_OF_MEMORY);
    assert_eq!(bench.run(&mut client, "STRLEN a"), ":307200\r\n");
    assert_eq!(bench.run(&mut client, "MGET a a a a a a a"), OUT_OF_MEMORY);
    assert!(bench.run(&mut client, "MGET a a").starts_with("*2\r\n$307200\r\n"));
    assert!(!client.closing, "nothing was written");
    bench.server.engine.set_memory_bound(0);
    assert!(bench.run(&mut client, "MGET a a a a a a a").starts_with("*7\r\n$307200\r\n"));
}

#[test]
fn what_needs_room_is_refused_while_files_take_too_much() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.run_all(&mut client, &["SET a 1", "SET b 1", "SET c 1"]);
    bench.server.engine.flush().expect("simulated storage works");
    bench.run_all(&mut client, &["MULTI", "SET a 2"]);
    bench.server.disk_bound.set_max(1);
    bench.server.disk_bound.look(&bench.server.engine);
    let full = format!("-{}\r\n", crate::disk_bound::DISK_FULL);
    let aborted = full.replacen('-', "-EXECABORT Transaction discarded because of: ", 1);
    assert_eq!(bench.run(&mut client, "EXEC"), aborted);
    for line in ["SET a 2", "APPEND a 2", "MSET a 2 b 2", "SADD s 1"] {
        assert_eq!(bench.run(&mut client, line), full, "{line}");
    }
    assert_eq!(bench.run(&mut client, "GET a"), "$1\r\n1\r\n");
    assert_eq!(bench.run(&mut client, "DEL a"), ":1\r\n");
    assert_eq!(bench.run(&mut client, "EXPIRE b 1000"), ":1\r\n");
    bench.run_all(&mut client, &["MULTI", "DEL b"]);
    assert_eq!(bench.run(&mut client, "EXEC"), "*1\r\n:1\r\n");
    let mut replayer = Executor::new(crate::commands::table::table(), 0, false);
    let group = command_bytes(&[b"SET", b"d", b"1"]);
    replayer.replay(&bench.server, &mut client, &group).expect("replay is never refused");
    assert_eq!(bench.run(&mut client, "GET d"), "$1\r\n1\r\n");
    assert_eq!(bench.run(&mut client, "FLUSHALL"), "+OK\r\n");
    bench.server.disk_bound.set_max(0);
    bench.server.disk_bound.look(&bench.server.engine);
    assert_eq!(bench.run(&mut client, "SET a 2"), "+OK\r\n");
}

#[test]
fn what_a_connection_gathers_is_bounded() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.server.engine.set_memory_bound(16 << 20);
    let half = "v".repeat(300 << 10);
    assert_eq!(bench.run(&mut client, &format!("WATCH {half}")), "+OK\r\n");
    assert_eq!(bench.run(&mut client, &format!("WATCH {half}2")), OUT_OF_MEMORY);
    assert_eq!(bench.run(&mut client, &format!("SUBSCRIBE {half}2")), OUT_OF_MEMORY);
    assert_eq!(bench.run(&mut client, "UNWATCH"), "+OK\r\n");
    assert!(client.held_bytes() < 4096, "{} bytes", client.held_bytes());
    assert_eq!(bench.run(&mut client, "MULTI"), "+OK\r\n");
    assert_eq!(bench.run(&mut client, &format!("SET a {half}")), "+QUEUED\r\n");
    assert_eq!(bench.run(&mut client, &format!("SET b {half}")), OUT_OF_MEMORY);
    let aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    assert_eq!(bench.run(&mut client, "EXEC"), aborted);
    assert_eq!(bench.run(&mut client, "EXISTS a b"), ":0\r\n");
    assert!(client.held_bytes() < 4096, "{} bytes", client.held_bytes());
}

/// Regression: such a key was accepted, but then neither could be flushed nor could the store be opened.
#[test]
fn a_key_that_is_too_long_is_refused_before_it_is_written() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    let long = "k".repeat(sexton_engine::KEY_MAX_BYTES + 1);
    let longest = &long[1..];
    let dump = "\u{0}";
    bench.run_all(&mut client, &["SET source 1", &format!("SET {longest} 1")]);
    let before = bench.server.engine.last_seq();
    for line in [
        format!("SET {long} 1"),
        format!("SET {long} 1 NX"),
        format!("SETNX {long} 1"),
        format!("SETEX {long} 100 1"),
        format!("PSETEX {long} 100 1"),
        format!("GETSET {long} 1"),
        format!("APPEND {long} 1"),
        format!("INCR {long}"),
        format!("DECRBY {long} 2"),
        format!("INCRBYFLOAT {long} 2"),
        format!("SETRANGE {long} 0 1"),
        format!("MSET a 1 {long} 1"),
        format!("MSETNX a 1 {long} 1"),
        format!("RENAME source {long}"),
        format!("RENAMENX source {long}"),
        format!("COPY source {long}"),
        format!("RESTORE {long} 0 {dump}"),
        format!("SORT source STORE {long}"),
    ] {
        let reply = bench.run(&mut client, &line);
        assert!(reply.starts_with("-ERR key of 65537 bytes, at most 65536"), "{reply}");
    }
    assert_eq!(bench.server.engine.last_seq(), before);
    for (line, reply) in [
        (format!("GET {long}"), "$-1\r\n"),
        (format!("DEL {long}"), ":0\r\n"),
        (format!("EXISTS {longest} {long}"), ":1\r\n"),
        ("SET value-as-a-key-is-not 1".to_owned(), "+OK\r\n"),
        (format!("SET a {long}"), "+OK\r\n"),
    ] {
        assert_eq!(bench.run(&mut client, &line), reply);
    }
    assert_eq!(bench.run(&mut client, "MULTI"), "+OK\r\n");
    assert!(bench.run(&mut client, &format!("SET {long} 1")).starts_with("-ERR key of"));
    assert!(bench.run(&mut client, "EXEC").starts_with("-EXECABORT"));
}

#[test]
fn a_failed_background_save_refuses_writes_and_ping() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    let saving = &bench.server.saving;
    saving.set_points(&[SavePoint { seconds: 3600, changes: 1 }]);
    assert_eq!(saving.start_in_background(), Start::Started);
    saving.end(None);
    for line in ["SET a 1", "PING"] {
        let reply = bench.run(&mut client, line);
        assert!(reply.starts_with("-MISCONF Redis is configured to save RDB snapshots"), "{reply}");
    }
    assert!(!bench.executor.is_fast_write(&bench.server));
    assert_eq!(bench.run(&mut client, "GET a"), "$-1\r\n");
    bench.server.saving.set_points(&[]);
    assert_eq!(bench.run(&mut client, "SET a 1"), "+OK\r\n");
}

#[test]
fn data_is_not_served_while_it_is_loaded() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.server.loading.begin(10);
    for line in ["GET a", "SET a 1", "PING"] {
        let reply = bench.run(&mut client, line);
        assert_eq!(reply, "-LOADING Redis is loading the dataset in memory\r\n", "{line}");
    }
    assert!(!bench.executor.is_fast(&bench.server, &client));
    assert!(bench.run(&mut client, "INFO persistence").contains("loading_total_bytes:10"));
    bench.server.loading.end();
    assert_eq!(bench.run(&mut client, "GET a"), "$-1\r\n");
}

#[test]
fn a_pause_of_writes_holds_back_what_may_write_and_what_replicas_hear() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.run(
        &mut client,
        "FUNCTION LOAD #!lua\tname=l\nredis.register_function('writes',function()return\t2\tend)\
         redis.register_function{function_name='reads',callback=function()return\t1\tend,\
         flags={'no-writes'}}",
    );
    let sha = bench.run(&mut client, "SCRIPT LOAD #!lua\tflags=no-writes\nreturn\t3");
    let by_sha = format!("EVALSHA {} 0", sha.lines().nth(1).unwrap());
    bench.server.sessions.pause(Pause::Write, Instant::now() + Duration::from_secs(60));
    let mut held = |line: &str| {
        let mut client = bench.client();
        let commands: Vec<_> = line.split(" ; ").collect();
        let (last, before) = commands.split_last().unwrap();
        for command in before {
            bench.run(&mut client, command);
        }
        matches!(bench.try_at(&mut client, last, NOW_MS).0, Outcome::Paused(_))
    };
    for line in [
        "PFCOUNT h",
        "PUBLISH a b",
        "EVAL return\t1 0",
        "EVALSHA 0000 0",
        "FCALL writes 0",
        "MULTI ; SET a 1",
    ] {
        assert!(held(line), "{line}");
    }
    for line in [
        "GET a",
        "EVAL #!lua\tflags=no-writes\nreturn\t1 0",
        &by_sha,
        "EVAL_RO return\t1 0",
        "FCALL reads 0",
        "MULTI ; GET a ; EXEC",
    ] {
        assert!(!held(line), "{line}");
    }
}

#[test]
fn a_key_that_is_due_stays_while_writes_pause_and_nobody_sees_it() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.run(&mut client, "SET a 1 PX 10");
    bench.server.sessions.pause(Pause::Write, Instant::now() + Duration::from_secs(60));
    for line in ["GET a", "GETRANGE a 0 5"] {
        bench.try_at(&mut client, line, NOW_MS + 20);
    }
    assert_eq!(bench.try_at(&mut client, "GET a", NOW_MS + 20).1, "$-1\r\n");
    assert_eq!(bench.try_at(&mut client, "EXISTS a", NOW_MS + 20).1, ":0\r\n");
    assert_eq!(bench.server.stats.expired_keys(), 0);
    bench.server.sessions.unpause();
    assert_eq!(bench.try_at(&mut client, "GET a", NOW_MS + 20).1, "$-1\r\n");
    assert_eq!(bench.server.stats.expired_keys(), 1);
}

#[test]
fn a_pause_holds_writes_back_untouched() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.server.sessions.pause(Pause::Write, Instant::now() + Duration::from_secs(60));
    assert!(!bench.executor.is_fast(&bench.server, &client));
    let (outcome, reply) = bench.try_at(&mut client, "SET a 1", NOW_MS);
    assert!(matches!(outcome, Outcome::Paused(_)));
    assert_eq!(reply, "");
    assert_eq!(bench.run(&mut client, "GET a"), "$-1\r\n");
    bench.server.sessions.unpause();
    assert_eq!(bench.run(&mut client, "SET a 1"), "+OK\r\n");
}
