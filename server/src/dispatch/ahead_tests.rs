//! Commands that read a snapshot, to answer or to store what they make of it: the outcome is the one that the latches would have given.

use super::client::Client;
use super::latch::Scope;
use super::paged_tests::bench;
use super::table::sources;
use super::tests::{Bench, NOW_MS};
use super::unchanged::{Reads, WatchedKeys};
use super::{Args, Outcome, Past};
use crate::resp::{Reply, pack};

/// A list `l`, a set `s` and sorted sets `z` and `g` (of positions) in pages, strings `b1` and `b2`, of which `b2` is shorter, and what
/// patterns lead to: `w_1` and so on, `h_1` and so on.
fn filled() -> (Bench, Client) {
    let mut bench = bench(64);
    let mut client = bench.client();
    let mut lines: Vec<String> = Vec::new();
    for n in 0..900_u64 {
        let mixed = n.wrapping_mul(0x9e37_79b9) % 1009;
        lines.push(format!("RPUSH l {mixed}"));
        lines.push(format!("SADD s m{mixed}"));
        lines.push(format!("ZADD z {mixed} m{n}"));
        lines.push(format!("GEOADD g {}.5 {}.25 m{n}", mixed % 179, n % 85));
        if n % 3 == 0 {
            lines.push(format!("SET w_{mixed} {}", 5000 - n));
            lines.push(format!("HSET h_{mixed} f v{n} t t{n}"));
        }
    }
    lines.push(format!("SET b1 {}", "pq".repeat(70_000)));
    lines.push(format!("SET b2 {}", "xyz".repeat(40_000)));
    lines.push("SET few abc".into());
    lines.iter().for_each(|line| drop(bench.run(&mut client, line)));
    (bench, client)
}

/// Runs a request of what is made of a snapshot; `None` where nothing was.
fn made_ahead(bench: &mut Bench, client: &mut Client, line: &str) -> Option<String> {
    let reply = made_ahead_of(bench, client, line, "PING")?;
    Some(reply.unwrap_or_else(|| panic!("{line}: it was not stored")))
}

/// The same of one behind which another client sends a request; `Some(None)` where what was made is not stored.
fn made_ahead_of(
    bench: &mut Bench,
    client: &mut Client,
    line: &str,
    behind: &str,
) -> Option<Option<String>> {
    let (buf, ranges) = pack(line.split(' ').map(str::as_bytes));
    let args = Args::new(&buf, &ranges);
    let spec = bench.executor.table.find(args.get(0)).expect("a command");
    let (mut out, keys, mut other) = (Reply::new(), sources(spec, args), bench.client());
    let Bench { server, executor } = bench;
    let is_any = Scope::of(spec, args, client) == Scope::All;
    let reads = if is_any { Reads::Any } else { Reads::Named(&keys) };
    let watched = WatchedKeys::watch(server, client.db, reads);
    executor.make_ahead(&watched, client, (spec, args), &mut out, NOW_MS);
    if !matches!(client.past, Past::Made(_)) {
        client.past = Past::None;
        return None;
    }
    let (other_buf, other_ranges) = pack(behind.split(' ').map(str::as_bytes));
    let behind = Args::new(&other_buf, &other_ranges);
    let outcome = executor.execute(server, &mut other, behind, &mut Reply::new(), NOW_MS);
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    let outcome = executor.run(server, client, spec, args, &mut out, NOW_MS);
    if matches!(outcome, Outcome::Offload) {
        client.past = Past::None;
        return Some(None);
    }
    assert!(matches!(outcome, Outcome::Done(_)), "{line}: {outcome:?}");
    assert!(matches!(client.past, Past::None), "{line}");
    Some(Some(String::from_utf8_lossy(out.bytes()).into_owned()))
}

#[test]
fn what_was_found_at_the_keys_of_patterns_is_stored_unless_one_has_changed_since() {
    let line = "SORT l BY w_* GET h_*->f STORE d";
    for (behind, is_stored) in [
        ("SET other x", true),
        ("SET d x", true),
        // 0 is an element, and 20000 is none.
        ("SET w_0 1", false),
        ("SET w_20000 1", true),
        ("HSET h_0 f z", false),
        ("HDEL h_0 t", false),
        ("PEXPIREAT w_0 9000000", false),
        // It has none of its own: nothing was found there.
        ("SET w_1 1", false),
        ("SADD h_1 z", false),
        ("RPUSH l 1", false),
        ("DEL w_none", true),
        ("MOVE w_0 1", false),
        ("FLUSHALL", false),
        ("SWAPDB 0 1", false),
    ] {
        let (mut bench, mut client) = filled();
        for (key, there) in [("w_0", 1), ("h_0", 1), ("w_1", 0), ("h_1", 0)] {
            assert_eq!(bench.run(&mut client, &format!("EXISTS {key}")), format!(":{there}\r\n"));
        }
        assert_ne!(bench.run(&mut client, "LPOS l 1"), "$-1\r\n");
        let stored = made_ahead_of(&mut bench, &mut client, line, behind).expect("it is made");
        assert_eq!(stored.is_some(), is_stored, "{behind}");
        assert!(!bench.server.events.watches.is_used());
    }
}

#[test]
fn what_was_due_at_the_keys_of_patterns_is_gone_before_the_request_is_logged() {
    let (mut bench, mut client) = filled();
    bench.run_all(&mut client, &["PEXPIREAT w_0 1000500", "HPEXPIREAT h_0 1000500 FIELDS 1 f"]);
    let keys = bench.run(&mut client, "DBSIZE");
    let (buf, ranges) = pack("SORT l BY w_* GET h_*->f STORE d".split(' ').map(str::as_bytes));
    let (args, mut out) = (Args::new(&buf, &ranges), Reply::new());
    (bench.executor.may_block, client.past) = (true, Past::Wanted);
    let later_ms = NOW_MS + 1000;
    let outcome = bench.executor.execute(&bench.server, &mut client, args, &mut out, later_ms);
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    assert_eq!(out.bytes(), b":900\r\n");
    // `d` has come, and `w_0` has gone.
    assert_eq!(bench.run(&mut client, "DBSIZE"), keys);
    assert_eq!(bench.run(&mut client, "EXISTS w_0"), ":0\r\n");
    assert_eq!(bench.run(&mut client, "HLEN h_0"), ":1\r\n");
}

#[test]
fn what_is_made_of_a_snapshot_is_what_is_made_under_the_latches() {
    let (mut bench, mut client) = filled();
    let reach = "FROMLONLAT 90 40 BYRADIUS";
    for line in [
        "SORT l STORE d",
        "SORT l DESC LIMIT 5 700 STORE d",
        "SORT l BY nosort GET # STORE d",
        "SORT s ALPHA STORE d",
        "SORT s BY nosort LIMIT 3 500 STORE d",
        "SORT z BY nosort DESC STORE d",
        "SORT none STORE d",
        "SORT l LIMIT 2 0 STORE d",
        "SORT l BY w_* STORE d",
        "SORT l BY h_*->f ALPHA DESC LIMIT 3 500 GET # GET w_* GET h_*->t STORE d",
        "SORT s BY nosort GET none_* STORE d",
        &format!("GEOSEARCHSTORE d g {reach} 9000 km"),
        &format!("GEOSEARCHSTORE d g {reach} 9000 km COUNT 300 STOREDIST"),
        &format!("GEOSEARCHSTORE d g {reach} 1 m"),
        &format!("GEOSEARCHSTORE d none {reach} 1 km"),
        "GEOSEARCHSTORE d g FROMMEMBER m5 BYBOX 5000 9000 km ASC",
        "GEORADIUS g 90 40 9000 km STORE x STOREDIST d",
        "GEORADIUSBYMEMBER g m7 9000 km STORE d",
        // Without a set its radius is not looked at.
        "GEORADIUSBYMEMBER none m7 -1 km STORE x STORE d",
        "BITOP AND d b1 b2",
        "BITOP OR d b2 b1 none few",
        "BITOP XOR d few b2",
        "BITOP NOT d b1",
        "BITOP AND d none none",
        "ZRANGESTORE d z 5 600",
        "SUNIONSTORE d s",
    ] {
        let seen = |bench: &mut Bench, client: &mut Client, reply: String| {
            let mut seen = vec![reply];
            for asked in ["TYPE d", "OBJECT ENCODING d", "DEBUG DIGEST-VALUE d", "PTTL d"] {
                seen.push(bench.run(client, asked));
            }
            bench.run_all(client, &["SET d old", "PEXPIREAT d 9000000"]);
            seen
        };
        let reply = bench.run(&mut client, line);
        let expected = seen(&mut bench, &mut client, reply);
        let reply = made_ahead(&mut bench, &mut client, line);
        let reply = reply.unwrap_or_else(|| panic!("{line}: nothing was made"));
        assert_eq!(seen(&mut bench, &mut client, reply), expected, "{line}");
    }
    for line in [
        "SORT s STORE d",
        "SORT b1 STORE d",
        "GEOSEARCHSTORE d g FROMMEMBER none BYRADIUS 1 km",
        "GEOSEARCHSTORE d s FROMLONLAT 1 1 BYRADIUS 1 km",
        "BITOP AND d b1 l",
        // They must be the newest.
        "MOVE b1 1",
    ] {
        assert_eq!(made_ahead(&mut bench, &mut client, line), None, "{line}");
    }
    for key in ["l", "s", "z"] {
        let before = bench.run(&mut client, &format!("DEBUG DIGEST-VALUE {key}"));
        let moved = made_ahead(&mut bench, &mut client, &format!("MOVE {key} 1"));
        assert_eq!(moved.as_deref(), Some(":1\r\n"), "{key}");
        assert_eq!(bench.run(&mut client, &format!("EXISTS {key}")), ":0\r\n");
        bench.run(&mut client, "SELECT 1");
        let after = bench.run(&mut client, &format!("DEBUG DIGEST-VALUE {key}"));
        bench.run(&mut client, "SELECT 0");
        assert_eq!(after, before, "{key}");
    }
}

#[test]
fn what_reads_a_snapshot_answers_as_under_the_latches() {
    let (mut bench, mut client) = filled();
    bench.run_all(
        &mut client,
        &[
            // Keys of other types, and what is due in half a second: a key, and a field.
            "DEL w_3 h_9",
            "LPUSH w_3 x",
            "SET h_9 x",
            "PEXPIREAT w_0 1000500",
            "HPEXPIREAT h_0 1000500 FIELDS 1 f",
            // One in pages, with a field that is due and one that is not.
            "HSET h_1 f x g y due z",
            "HPEXPIREAT h_1 1000500 FIELDS 1 due",
        ],
    );
    for n in 0..300 {
        bench.run(&mut client, &format!("HSET h_1 field{n} value{n}"));
    }
    let (later_ms, mut other) = (NOW_MS + 1000, bench.client());
    for line in [
        "SORT l",
        "SORT_RO l DESC LIMIT 7 300",
        "SORT s ALPHA GET # GET nothing",
        "SORT z BY nosort LIMIT 10 500",
        "SORT s",
        "SORT b1",
        "SORT none",
        "SORT l BY w_* GET # GET w_* GET h_*->f GET h_*->due GET h_*->none",
        "SORT_RO l BY h_*->f ALPHA DESC GET h_*->t",
        "SORT l BY h_*->f",
        "SORT l GET h_*->g GET h_*->field7",
        "GEOSEARCH g FROMLONLAT 90 40 BYRADIUS 9000 km ASC WITHDIST WITHCOORD WITHHASH",
        "GEOSEARCH g FROMMEMBER m7 BYBOX 9000 9000 km COUNT 300 ANY",
        "GEOSEARCH g FROMMEMBER none BYBOX 9 9 km",
        "GEORADIUS g 90 40 9000 km DESC",
        "GEORADIUSBYMEMBER_RO g m3 9000 km WITHDIST",
        "GEORADIUS l 90 40 9000 km",
    ] {
        let (buf, ranges) = pack(line.split(' ').map(str::as_bytes));
        let mut ask = |bench: &mut Bench, past: Past| {
            let (args, mut out) = (Args::new(&buf, &ranges), Reply::new());
            (bench.executor.may_block, client.past) = (matches!(past, Past::Wanted), past);
            let outcome =
                bench.executor.execute(&bench.server, &mut client, args, &mut out, later_ms);
            assert!(matches!(outcome, Outcome::Done(_)), "{line}: {outcome:?}");
            assert!(matches!(client.past, Past::None), "{line}");
            String::from_utf8_lossy(out.bytes()).into_owned()
        };
        // The latches would find what is due, and delete it.
        let of_the_past = ask(&mut bench, Past::Wanted);
        bench.executor.may_block = true;
        let keys = bench.run(&mut other, "DBSIZE");
        let (by_latches, is_due) = (ask(&mut bench, Past::None), line.contains("BY w_*"));
        assert_eq!(of_the_past, by_latches, "{line}");
        bench.executor.may_block = true;
        assert_eq!(bench.run(&mut other, "DBSIZE") != keys, is_due, "{line}");
    }
    assert_eq!(bench.server.engine.snapshots(), []);
}
