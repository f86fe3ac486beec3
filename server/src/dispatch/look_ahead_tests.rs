//! What a look ahead asks for is what the requests look at, and nothing else comes of it.

use super::client::Client;
use super::paged_tests::bench;
use super::tests::{Bench, NOW_MS};
use super::{Args, Executor};
use crate::resp::{PackedRequest, Reply, pack};
use sexton_engine::{Latched, TxBuf, Work};

const BATCH: usize = 8;

/// The name of an element.
fn name(n: usize) -> String {
    format!("{n:0200}")
}

/// A bench with a large hash, set and sorted set, of 1,000 elements each, a hash of a few pages, and others without pages.
fn filled() -> (Bench, Client) {
    let mut bench = bench(64);
    let mut client = bench.client();
    for n in 0..1000 {
        let name = name(n);
        let lines =
            [format!("HSET h {name} 1"), format!("SADD s {name}"), format!("ZADD z {n} {name}")];
        lines.iter().for_each(|line| drop(bench.run(&mut client, line)));
    }
    for n in 0..100 {
        bench.run(&mut client, &format!("HSET middle f{n} 1"));
    }
    let small = ["HSET small f1 1", "SADD smalls f1", "ZADD smallz 1 f1", "SET string 1"];
    bench.run_all(&mut client, &small);
    // One that knows nothing yet.
    bench.executor = Executor::new(bench.executor.table(), 0, true);
    (bench, client)
}

fn packed(lines: &[String]) -> Vec<PackedRequest> {
    lines.iter().map(|line| pack(line.split(' ').map(str::as_bytes))).collect()
}

/// Looks ahead to a batch; answers how many look-ups that took.
fn look_ahead(bench: &mut Bench, lines: &[String]) -> u32 {
    let packed = packed(lines);
    let (server, executor) = (&bench.server, &mut bench.executor);
    let table = executor.table();
    let requests = packed.iter().map(|(buf, ranges)| {
        let args = Args::new(buf, ranges);
        let spec = table.find(args.get(0)).expect("a command");
        (spec, args, server.engine.hash(args.get(1)))
    });
    let _ = Work::take();
    executor.look_ahead(server, 0, requests);
    Work::take().look_ups
}

/// Runs a batch on the short way; answers its replies, and how many look-ups it took.
fn run(bench: &mut Bench, client: &mut Client, lines: &[String]) -> (String, u32) {
    let mut out = Reply::new();
    let (server, executor) = (&bench.server, &mut bench.executor);
    let _ = Work::take();
    for (buf, ranges) in &packed(lines) {
        let args = Args::new(buf, ranges);
        let spec = executor.table().find(args.get(0)).expect("a command");
        let ran = executor.run_short(server, client, (spec, args), &mut out, (NOW_MS, u64::MAX));
        assert!(ran.is_some(), "{lines:?}");
    }
    (String::from_utf8_lossy(out.bytes()).into_owned(), Work::take().look_ups)
}

fn batch(line: impl Fn(usize) -> String) -> Vec<String> {
    // Far from each other, so that each is on a page of its own.
    (0..BATCH).map(|at| line(at * 117)).collect()
}

#[test]
fn pages_that_were_asked_for_are_known_where_they_are() {
    let commands: [fn(usize) -> String; 9] = [
        |n| format!("HGET h {}", name(n)),
        |n| format!("HSET h {} 2", name(n)),
        |n| format!("HINCRBY h {} 3", name(n)),
        |n| format!("SISMEMBER s {}", name(n)),
        |n| format!("SADD s {}", name(n)),
        |n| format!("SREM s {}", name(n)),
        |n| format!("ZSCORE z {}", name(n)),
        |n| format!("ZADD z {n} {}", name(n)),
        |n| format!("ZINCRBY z 0 {}", name(n)),
    ];
    let mut saved = 0;
    for line in commands {
        let lines = batch(line);
        let ((mut with, mut client), (mut without, mut other)) = (filled(), filled());
        let asked = look_ahead(&mut with, &lines);
        let (replies, look_ups) = run(&mut with, &mut client, &lines);
        let (expected, before) = run(&mut without, &mut other, &lines);
        assert_eq!(replies, expected, "{}", lines[0]);
        // The root once, and each page.
        assert_eq!(asked as usize, 1 + BATCH, "{}", lines[0]);
        assert!(look_ups <= before, "{}: {look_ups}, {before}", lines[0]);
        saved += before - look_ups;
    }
    // Some elements share a page, and a few pages share a place with another one: how many, the hash of this process decides.
    assert!(saved as usize > commands.len() * BATCH / 3, "{saved} look-ups saved");
}

#[test]
fn one_request_with_several_elements_is_looked_ahead_to() {
    for line in [
        "HMGET h f1 f50 f99",
        "SMISMEMBER s f1 f50 f99",
        "ZMSCORE z f1 f50 f99",
        "HDEL h f1 f50 f99",
    ] {
        let (mut bench, _) = filled();
        assert_eq!(look_ahead(&mut bench, &[line.into()]), 4, "{line}");
    }
    let (mut bench, _) = filled();
    for line in ["HGET h f1", "HSET h f1 2", "GET string", "HGETALL h"] {
        assert_eq!(look_ahead(&mut bench, &[line.into()]), 0, "{line}");
    }
}

#[test]
fn what_is_small_is_left_alone_for_a_while() {
    let (mut bench, _) = filled();
    let small = batch(|n| {
        ["HGET small f1", "SADD smalls f1", "ZSCORE smallz f1", "HGET none f1"][n % 4].into()
    });
    let large = batch(|n| format!("HGET h {}", name(n)));
    // Each key differs from the one before it.
    assert_eq!(look_ahead(&mut bench, &small) as usize, BATCH);
    let left_out = (0..).take_while(|_| look_ahead(&mut bench, &large) == 0).count();
    assert_eq!(left_out, 15);
    assert_eq!(look_ahead(&mut bench, &large) as usize, 1 + BATCH);
}

#[test]
fn pages_that_are_asked_for_again_and_again_are_left_alone_for_a_while() {
    let (mut bench, _) = filled();
    let lines = batch(|n| format!("HGET h {}", name(n)));
    let others = batch(|n| format!("SISMEMBER s {}", name(n)));
    for lines in [&lines, &others, &lines] {
        assert_eq!(look_ahead(&mut bench, lines) as usize, 1 + BATCH);
    }
    let left_out = (0..).take_while(|_| look_ahead(&mut bench, &others) == 0).count();
    assert_eq!(left_out, 15);
}

#[test]
fn a_collection_of_a_few_pages_is_looked_ahead_to() {
    let (mut bench, _) = filled();
    let lines: Vec<String> = (0..BATCH).map(|n| format!("HGET middle f{n}")).collect();
    assert_eq!(look_ahead(&mut bench, &lines) as usize, 1 + BATCH);
}

#[test]
fn a_latch_of_somebody_else_is_not_waited_for() {
    let (mut bench, _) = filled();
    let engine = bench.server.engine.clone();
    let mut buf = TxBuf::default();
    let held = engine.begin(Latched::All, &mut buf);
    let lines = batch(|n| format!("HGET h {}", name(n)));
    assert_eq!(look_ahead(&mut bench, &lines), 0);
    drop(held);
}

/// Arguments that name elements are there in every request that has enough of them.
#[test]
fn who_names_elements_names_one() {
    let table = crate::commands::table::table();
    let mut with = 0;
    for spec in table.all().iter().filter(|spec| !spec.elements.is_none()) {
        let least = (1..9).find(|&len| spec.accepts(len)).expect("a few arguments");
        let words: Vec<String> = (0..least).map(|at| at.to_string()).collect();
        let (buf, ranges) = pack(words.iter().map(String::as_bytes));
        assert!(spec.elements.of(Args::new(&buf, &ranges)).next().is_some(), "{}", spec.name);
        assert!(spec.is_short(), "{}", spec.name);
        with += 1;
    }
    assert_eq!(with, 21);
    let names = |line: &str| {
        let (buf, ranges) = pack(line.split(' ').map(str::as_bytes));
        let args = Args::new(&buf, &ranges);
        let spec = table.find(args.get(0)).expect("a command");
        let names = spec.elements.of(args).map(|name| String::from_utf8_lossy(name).into_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    for (line, expected) in [
        ("HGET h f", "f"),
        ("HINCRBY h f 7", "f"),
        ("HSET h f v g w", "f g"),
        ("HMGET h f g", "f g"),
        ("SREM s a b", "a b"),
        ("ZADD z 1 a 2 b", "a b"),
        ("ZINCRBY z 1 a", "a"),
        ("GET k", ""),
    ] {
        assert_eq!(names(line), expected, "{line}");
    }
}
