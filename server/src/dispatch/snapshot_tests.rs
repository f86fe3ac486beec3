//! Sessions that read one instant, and reads of the past.

use super::Outcome;
use super::tests::{Bench, NOW_MS};

#[test]
fn a_snapshot_session_reads_one_instant() {
    let mut bench = Bench::new();
    let (mut writer, mut reader) = (bench.client(), bench.client());
    bench.run_all(&mut writer, &["SET a 1", "SET b 2", "SET other 3", "SELECT 1", "SET x y"]);
    bench.run(&mut writer, "SELECT 0");
    assert!(bench.run(&mut reader, "SEXTON.SNAPSHOT OPEN").starts_with(':'));
    bench.run_all(&mut writer, &["SET a new", "DEL b", "SET c 4", "FLUSHDB", "SET d 5"]);
    assert_eq!(bench.run(&mut reader, "GET a"), "$1\r\n1\r\n");
    assert_eq!(bench.run(&mut reader, "MGET a b c"), "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n");
    let held = reader.snapshot_session.as_ref().map(|past| past.holds_values());
    assert_eq!(held, Some(false), "values that were fetched go with the reply");
    assert_eq!(bench.run(&mut reader, "EXISTS a b c d"), ":2\r\n");
    assert_eq!(bench.run(&mut reader, "STRLEN b"), ":1\r\n");
    assert_eq!(bench.run(&mut reader, "TYPE c"), "+none\r\n");
    assert_eq!(bench.run(&mut reader, "DBSIZE"), ":3\r\n");
    assert_eq!(bench.run(&mut reader, "KEYS *"), "*3\r\n$1\r\na\r\n$1\r\nb\r\n$5\r\nother\r\n");
    let scanned = bench.run(&mut reader, "SCAN 0 MATCH o*");
    assert_eq!(scanned, "*2\r\n$1\r\n0\r\n*1\r\n$5\r\nother\r\n");
    for _ in 0..20 {
        let drawn = bench.run(&mut reader, "RANDOMKEY");
        assert!(["$1\r\na\r\n", "$1\r\nb\r\n", "$5\r\nother\r\n"].contains(&&*drawn), "{drawn}");
    }
    bench.run(&mut reader, "SELECT 1");
    assert_eq!(bench.run(&mut reader, "GET x"), "$1\r\ny\r\n");
    bench.run(&mut reader, "SELECT 0");
    assert_eq!(bench.run(&mut writer, "KEYS *"), "*1\r\n$1\r\nd\r\n");
    assert_eq!(bench.run(&mut reader, "SEXTON.SNAPSHOT CLOSE"), "+OK\r\n");
    assert_eq!(bench.run(&mut reader, "MGET a d"), "*2\r\n$-1\r\n$1\r\n5\r\n");
    assert_eq!(bench.server.engine.snapshots(), []);
}

#[test]
fn a_snapshot_session_writes_nothing_and_its_clock_stands_still() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    let now_ms = crate::clock::now_ms();
    let mut at = |line: &str, now_ms: u64| match bench.try_at(&mut client, line, now_ms) {
        (Outcome::Done(_), reply) => reply,
        (other, _) => panic!("{line}: {other:?}"),
    };
    at("SET k v PX 500000", now_ms);
    assert!(at("SEXTON.SNAPSHOT CLOSE", now_ms).starts_with("-ERR this connection has no"));
    at("SEXTON.SNAPSHOT OPEN", now_ms);
    assert!(at("SEXTON.SNAPSHOT OPEN", now_ms).starts_with("-ERR this connection has a"));
    for write in ["SET k w", "DEL k", "EXPIRE k 1", "FLUSHALL", "GETEX k PERSIST", "SETNX z 1"] {
        assert!(at(write, now_ms).starts_with("-SNAPSHOT this connection reads"), "{write}");
    }
    for other in ["MULTI", "WATCH k", "DEBUG DIGEST"] {
        assert!(at(other, now_ms).starts_with("-SNAPSHOT this command cannot"), "{other}");
    }
    let later_ms = now_ms + 1_000_000;
    let ttl = at("PTTL k", later_ms);
    assert_eq!(at("PTTL k", later_ms + 70), ttl);
    assert!(ttl[1..].trim_end().parse::<u64>().is_ok_and(|ms| ms > 400_000), "{ttl}");
    assert_eq!(at("GET k", later_ms), "$1\r\nv\r\n");
    assert_eq!(at("PING", later_ms), "+PONG\r\n");
    assert!(at("SEXTON.SNAPSHOT INFO", later_ms).contains("timeout-ms\r\n:3600000\r\n"));
    assert!(at("SEXTON.SNAPSHOT LIST", later_ms).contains("client-0"));
    assert!(at("CLIENT INFO", later_ms).contains(" snapshot-seq="));
    assert_eq!(at("RESET", later_ms), "+RESET\r\n");
    assert!(!at("CLIENT INFO", later_ms).contains("snapshot-seq="));
    assert_eq!(at("GET k", later_ms), "$-1\r\n");
}

#[test]
fn reads_of_the_past_leave_the_worker_and_end_with_their_time() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.run_all(&mut client, &["SET k v", "SEXTON.SNAPSHOT OPEN TIMEOUT 1"]);
    bench.executor.may_block = false;
    assert!(matches!(bench.try_at(&mut client, "GET k", NOW_MS).0, Outcome::Offload));
    assert!(!bench.executor.is_fast(&bench.server, &client));
    bench.executor.may_block = true;
    // The machine's clock decides.
    while bench.run(&mut client, "GET k") == "$1\r\nv\r\n" {
        std::thread::yield_now();
    }
    assert!(bench.run(&mut client, "GET k").starts_with("-SNAPSHOT the snapshot has ended"));
    bench.run(&mut client, "SEXTON.SNAPSHOT CLOSE");
    assert_eq!(bench.run(&mut client, "GET k"), "$1\r\nv\r\n");
    for wrong in ["0", "-1", "x"] {
        let line = format!("SEXTON.SNAPSHOT OPEN TIMEOUT {wrong}");
        assert!(bench.run(&mut client, &line).starts_with("-ERR"), "{wrong}");
    }
}
