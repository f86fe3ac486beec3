//! Intersections, unions and differences: wherever the sets lie, and however long it takes, the outcome is the same.

use super::client::Client;
use super::paged_tests::{Random, bench};
use super::tests::{Bench, NOW_MS};
use super::{Args, Outcome, Past};
use crate::resp::{Reply, pack};

fn execute(bench: &mut Bench, client: &mut Client, line: &str) -> (Outcome, Vec<u8>) {
    let (buf, ranges) = pack(line.split(' ').map(str::as_bytes));
    let mut out = Reply::new();
    let args = Args::new(&buf, &ranges);
    let outcome = bench.executor.execute(&bench.server, client, args, &mut out, NOW_MS);
    (outcome, out.bytes().to_vec())
}

/// A reply whose elements may come in any order, or in pairs with their scores in the order of these.
fn sorted(reply: &[u8], line: &str) -> Vec<String> {
    let mut words: Vec<String> =
        String::from_utf8_lossy(reply).split("\r\n").map(str::to_owned).collect();
    if line.starts_with('S') {
        words.sort_unstable();
    }
    words
}

fn command(random: &mut Random) -> String {
    let keys = ["a", "b", "c", "d", "none", "s1", "s2", "i"];
    let mut key = || keys[random.below(8) as usize];
    let (one, other, third) = (key(), key(), key());
    let weights = random.below(3);
    let aggregate = ["SUM", "MIN", "MAX"][random.below(3) as usize];
    match random.below(16) {
        0 => format!("SINTER {one} {other}"),
        1 => format!("SUNION {one} {other} {third}"),
        2 => format!("SDIFF {one} {other} {third}"),
        3 => format!("SINTERCARD 3 {one} {other} {third} LIMIT {weights}"),
        4 => format!("SINTERSTORE r {one} {other} {third}"),
        5 => format!("SUNIONSTORE r {one} {other}"),
        6 => format!("SDIFFSTORE r {one} {other}"),
        7 => format!("ZINTER 2 {one} {other} WEIGHTS {weights} 2 AGGREGATE {aggregate} WITHSCORES"),
        8 => {
            format!("ZUNION 2 {one} {other} WEIGHTS {weights} -1 AGGREGATE {aggregate} WITHSCORES")
        }
        9 => format!("ZDIFF 3 {one} {other} {third} WITHSCORES"),
        10 => format!("ZINTERCARD 2 {one} {other} LIMIT {weights}"),
        11 => format!("ZUNIONSTORE r 2 {one} {other} AGGREGATE {aggregate}"),
        12 => format!("ZINTERSTORE r 3 {one} {other} {third} WEIGHTS 1 2 3"),
        13 => format!("ZRANGESTORE r {one} {weights} -2"),
        14 => format!("ZRANGESTORE r {one} 3 1 BYSCORE REV LIMIT {weights} 700"),
        _ => format!("ZDIFFSTORE r 2 {one} {other}"),
    }
}

/// Sets `s1` and `s2` and of integers `i`, sorted sets `a` to `d`, of any size.
fn fill(random: &mut Random) -> Vec<String> {
    let mut lines = Vec::new();
    for key in ["a", "b", "c", "d", "s1", "s2", "i"] {
        lines.push(format!("DEL {key}"));
        let most = [3, 40, 400, 3000][random.below(4) as usize];
        for _ in 0..random.below(most) {
            let number = random.below(most * 3 / 2);
            lines.push(match key {
                "i" => format!("SADD i {number}"),
                "s1" | "s2" => format!("SADD {key} m{number}"),
                _ => format!("ZADD {key} {} m{number}", random.below(5)),
            });
        }
    }
    lines
}

#[test]
fn operations_on_several_sets_answer_alike_wherever_the_sets_lie() {
    let mut random = Random(7);
    let (mut paged, mut whole) = (bench(64), bench(u64::MAX));
    let mut clients = (paged.client(), whole.client());
    for _ in 0..6 {
        for line in fill(&mut random) {
            paged.run(&mut clients.0, &line);
            whole.run(&mut clients.1, &line);
        }
        for _ in 0..170 {
            let line = command(&mut random);
            let (outcome, expected) = execute(&mut whole, &mut clients.1, &line);
            assert!(matches!(outcome, Outcome::Done(_)), "{line}: {outcome:?}");
            let expected = sorted(&expected, &line);
            let (outcome, reply) = execute(&mut paged, &mut clients.0, &line);
            assert!(matches!(outcome, Outcome::Done(_)), "{line}: {outcome:?}");
            assert_eq!(sorted(&reply, &line), expected, "{line}");
            for on_a_snapshot in [false, true] {
                if on_a_snapshot {
                    // What took too long.
                    (clients.0.past, paged.executor.may_block) = (Past::Wanted, true);
                    let (outcome, reply) = execute(&mut paged, &mut clients.0, &line);
                    paged.executor.may_block = false;
                    assert!(matches!(outcome, Outcome::Done(_)), "{line}: {outcome:?}");
                    assert_eq!(sorted(&reply, &line), expected, "of a snapshot: {line}");
                    assert!(matches!(clients.0.past, Past::None));
                }
                if !line.contains(" r ") {
                    continue;
                }
                for line in ["SORT r ALPHA", "ZRANGE r 0 -1 WITHSCORES"] {
                    let replies =
                        (paged.run(&mut clients.0, line), whole.run(&mut clients.1, line));
                    assert_eq!(replies.0, replies.1, "{line}, on a snapshot: {on_a_snapshot}");
                }
            }
        }
    }
    assert_eq!(paged.server.engine.snapshots(), []);
}

#[test]
fn what_takes_long_and_only_reads_sees_one_instant() {
    let mut bench = bench(64);
    let mut client = bench.client();
    let mut other = bench.client();
    for from in (0..20_000).step_by(1000) {
        let names: Vec<String> = (from..from + 1000).map(|number| format!("m{number}")).collect();
        bench.run(&mut client, &format!("SADD s {}", names.join(" ")));
        bench.run(&mut client, &format!("SADD t {}", names.join(" ")));
    }
    for (line, reply) in [
        ("SINTERCARD 2 s t", ":20000\r\n"),
        ("ZINTERCARD 2 s t LIMIT 19999", ":19999\r\n"),
        ("SDIFF s t", "*0\r\n"),
        ("SINTER s t none", "*0\r\n"),
        // One that reads little stays with its worker.
        ("SINTERCARD 2 s t LIMIT 5", ":5\r\n"),
    ] {
        bench.executor.may_block = false;
        let hits = bench.server.stats.hits();
        let (mut outcome, mut answered) = execute(&mut bench, &mut client, line);
        let is_short = line.ends_with("LIMIT 5") || line.ends_with("none");
        assert_eq!(matches!(outcome, Outcome::Offload), !is_short, "{line}: {outcome:?}");
        if !is_short {
            bench.executor.may_block = true;
            (outcome, answered) = execute(&mut bench, &mut client, line);
        }
        assert!(matches!(outcome, Outcome::Done(_)), "{line}: {outcome:?}");
        assert_eq!(String::from_utf8_lossy(&answered), reply, "{line}");
        assert_eq!(bench.server.stats.hits() - hits, 2, "{line}: counted once");
    }
    // One that stores what it makes has its latches only then.
    bench.executor.may_block = false;
    bench.run(&mut client, "SREM s m7");
    let (outcome, _) = execute(&mut bench, &mut client, "SDIFFSTORE r t s");
    assert!(matches!(outcome, Outcome::Offload), "{outcome:?}");
    bench.executor.may_block = true;
    assert_eq!(execute(&mut bench, &mut client, "SDIFFSTORE r t s").1, b":1\r\n");
    assert_eq!(bench.run(&mut other, "SMEMBERS r"), "*1\r\n$2\r\nm7\r\n");
    assert_eq!(bench.server.engine.snapshots(), []);
}

#[test]
fn a_transaction_or_a_script_with_a_command_that_takes_long_runs_on_a_helper_thread_as_a_whole() {
    let mut bench = bench(64);
    let (mut client, mut other) = (bench.client(), bench.client());
    for from in (0..20_000).step_by(1000) {
        let names: Vec<String> = (from..from + 1000).map(|number| format!("m{number}")).collect();
        bench.run(&mut client, &format!("SADD s {}", names.join(" ")));
        bench.run(&mut client, &format!("SADD t {}", names.join(" ")));
        bench.run(
            &mut client,
            &format!("RPUSH l {}", names.join(" ").replace('m', &"m".repeat(60))),
        );
    }
    bench.executor.may_block = false;
    // SUBSTR: statistics are those of the process, and no other test asks for it.
    let queued = ["WATCH n", "MULTI", "SELECT 1", "INCR n", "SELECT 0", "INCR n", "SUBSTR n 0 0"];
    bench.run_all(&mut client, &queued);
    bench.run(&mut client, "SINTERCARD 2 s t");
    let hits = bench.server.stats.hits();
    let (outcome, reply) = execute(&mut bench, &mut client, "EXEC");
    assert!(matches!(outcome, Outcome::Offload) && reply.is_empty(), "{outcome:?}");
    assert_eq!(bench.run(&mut other, "GET n"), "$-1\r\n", "all of it was taken back");
    assert_eq!(client.db, 0);
    bench.executor.may_block = true;
    let expected = "*6\r\n+OK\r\n:1\r\n+OK\r\n:1\r\n$1\r\n1\r\n:20000\r\n";
    assert_eq!(String::from_utf8_lossy(&execute(&mut bench, &mut client, "EXEC").1), expected);
    assert_eq!(bench.server.stats.hits() - hits, 3, "what was taken back has not looked");
    let counted = bench.run(&mut other, "INFO commandstats");
    assert!(counted.contains("cmdstat_substr:calls=1,"), "{counted}");
    // It still watches what it has watched.
    bench.executor.may_block = false;
    bench.run_all(&mut client, &["WATCH n", "MULTI", "LRANGE l 0 -1"]);
    assert!(matches!(execute(&mut bench, &mut client, "EXEC").0, Outcome::Offload));
    bench.run(&mut other, "SET n x");
    bench.executor.may_block = true;
    assert_eq!(execute(&mut bench, &mut client, "EXEC").1, b"*-1\r\n");
    bench.run_all(&mut client, &["MULTI", "LRANGE l 0 -1"]);
    assert!(execute(&mut bench, &mut client, "EXEC").1.starts_with(b"*1\r\n*20000\r\n"));
    // What cannot be taken back runs where it is.
    bench.executor.may_block = false;
    bench.run_all(&mut client, &["MULTI", "PUBLISH c m", "SINTERCARD 2 s t"]);
    assert_eq!(execute(&mut bench, &mut client, "EXEC").1, b"*2\r\n:0\r\n:20000\r\n");

    let script =
        "EVAL redis.call('INCR',KEYS[1])return(redis.call('SINTERCARD',2,KEYS[2],KEYS[3])) 3 k s t";
    assert!(matches!(execute(&mut bench, &mut client, script).0, Outcome::Offload));
    bench.executor.may_block = true;
    assert_eq!(execute(&mut bench, &mut client, script).1, b":20000\r\n");
    assert_eq!(bench.run(&mut other, "GET k"), "$1\r\n1\r\n");
}
