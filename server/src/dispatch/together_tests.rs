//! Requests on one key that run in one transaction: where that ends, and that nothing has happened where it cannot be.

use super::Args;
use super::client::Client;
use super::paged_tests::cold_bench;
use super::tests::{Bench, NOW_MS};
use crate::resp::{PackedRequest, Reply, pack};
use sexton_engine::Seq;

/// Runs them together; answers how many have run, and the replies.
fn run(
    bench: &mut Bench,
    client: &mut Client,
    lines: &[&str],
    reply_max_bytes: u64,
) -> (Option<(usize, Seq)>, String) {
    let mut out = Reply::new();
    out.raw(b"before ");
    let (server, executor) = (&bench.server, &mut bench.executor);
    let table = executor.table();
    let packed = |line: &&str| pack(line.split(' ').map(str::as_bytes));
    let packed: Vec<PackedRequest> = lines.iter().map(packed).collect();
    let requests = packed.iter().map(|(buf, ranges)| {
        let args = Args::new(buf, ranges);
        let spec = table.find(args.get(0)).expect("a command");
        assert!(spec.shares_transaction(), "{}", spec.name);
        (spec, args)
    });
    let times = (NOW_MS, reply_max_bytes);
    let ran = executor.run_together(server, client, requests, &mut out, times);
    (ran, String::from_utf8_lossy(out.bytes()).into_owned())
}

#[test]
fn all_run_up_to_one_that_fails() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    let before = bench.server.engine.last_seq();
    let lines = ["INCR n", "APPEND n 5", "GETDEL n", "RPUSH n a", "INCR n", "LLEN n"];
    let (ran, replies) = run(&mut bench, &mut client, &lines, u64::MAX);
    assert_eq!(ran, Some((5, before + 4)));
    assert!(replies.starts_with("before :1\r\n:2\r\n$2\r\n15\r\n:1\r\n-WRONGTYPE "), "{replies}");
    assert_eq!(replies.lines().count(), 6, "{replies}");
    assert_eq!(bench.run(&mut client, "LRANGE n 0 -1"), "*1\r\n$1\r\na\r\n");
    let counted: Vec<_> =
        bench.executor.fast.others.iter().map(|(_, all, bad)| (*all, *bad)).collect();
    let sums = counted.iter().fold((0, 0), |sums, one| (sums.0 + one.0, sums.1 + one.1));
    assert_eq!(sums, (5, 1));
}

#[test]
fn what_somebody_waits_for_is_handed_over_between_two() {
    let mut bench = Bench::new();
    let (mut client, mut waiting) = (bench.client(), bench.client());
    let (outcome, _) = bench.try_at(&mut waiting, "BLPOP q 0", NOW_MS);
    assert!(matches!(outcome, super::Outcome::Blocks(_)), "{outcome:?}");
    let lines = ["RPUSH q a", "RPUSH q b", "RPUSH q c"];
    let (ran, replies) = run(&mut bench, &mut client, &lines, u64::MAX);
    assert_eq!((ran.map(|(count, _)| count), replies.as_str()), (Some(1), "before :1\r\n"));
    let (ran, replies) = run(&mut bench, &mut client, &lines[1..], u64::MAX);
    assert_eq!((ran.map(|(count, _)| count), replies.as_str()), (Some(2), "before :1\r\n:2\r\n"));
    assert_eq!(bench.run(&mut waiting, "BLPOP q 0"), "*2\r\n$1\r\nq\r\n$1\r\na\r\n");
}

#[test]
fn nothing_has_happened_where_a_reply_would_be_too_long() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    let text = "x".repeat(100);
    let append = format!("APPEND t {text}");
    let (ran, replies) = run(&mut bench, &mut client, &[&append, "GETDEL t"], 30);
    assert_eq!((ran, replies.as_str()), (None, "before "));
    assert_eq!(bench.run(&mut client, "EXISTS t"), ":0\r\n");
    let (ran, _) = run(&mut bench, &mut client, &[&append, "STRLEN t"], 30);
    assert_eq!(ran.map(|(count, _)| count), Some(2));
}

#[test]
fn nothing_has_happened_where_a_page_must_be_loaded() {
    let (mut bench, mut client, evict) = cold_bench();
    evict(&mut bench, &mut client);
    bench.server.engine.set_memory_bound(0);
    assert_eq!(bench.run(&mut client, "HGET h f77"), "$3\r\nv77\r\n");
    let lines = ["HSET h f77 new", "HGET h f77", "HGET h f1"];
    let (ran, replies) = run(&mut bench, &mut client, &lines, u64::MAX);
    assert_eq!((ran, replies.as_str()), (None, "before "));
    assert_eq!(bench.run(&mut client, "HGET h f77"), "$3\r\nv77\r\n");
    assert_eq!(bench.run(&mut client, "HGET h f1"), "$2\r\nv1\r\n");
    let (ran, replies) = run(&mut bench, &mut client, &lines, u64::MAX);
    assert_eq!(ran.map(|(count, _)| count), Some(3));
    assert_eq!(replies, "before :0\r\n$3\r\nnew\r\n$2\r\nv1\r\n");
}

#[test]
fn the_next_waits_for_its_turn_behind_long_replies() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    bench.run(&mut client, &format!("HSET h f {}", "x".repeat(20_000)));
    let (ran, _) = run(&mut bench, &mut client, &["HGET h f", "HGET h f", "HLEN h"], u64::MAX);
    assert_eq!(ran.map(|(count, _)| count), Some(1));
}
