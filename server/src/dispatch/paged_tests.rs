//! Commands on paged collections: their replies match those for a single record, with a fraction of the copying.

use super::tests::Bench;
use crate::value::thresholds::Thresholds;

/// A bench that stores collections above `inline_bytes` bytes in pages.
pub(super) fn bench(inline_bytes: u64) -> Bench {
    let bench = Bench::new();
    let thresholds = &bench.server.settings.thresholds;
    let now = thresholds.now();
    let now = Thresholds { inline_bytes, hash_entries: 4, intset_entries: 4, ..now };
    thresholds.set(Thresholds { sorted_set_entries: 4, ..now });
    bench
}

/// A deterministic pseudo-random number generator.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

fn list_command(random: &mut Random) -> String {
    let key = ["a", "b"][random.below(2) as usize];
    let other = ["a", "b", "c"][random.below(3) as usize];
    let element = match random.below(20) {
        0 => "x".repeat(600),
        _ => format!("e{}", random.below(30)),
    };
    let index = random.below(40) as i64 - 20;
    match random.below(26) {
        0..=3 => format!("RPUSH {key} {element} more{index} {element}"),
        4..=6 => format!("LPUSH {key} {element} {index}"),
        7 => format!("LPOP {key}"),
        8 => format!("RPOP {key} {}", random.below(6)),
        9 => format!("LINDEX {key} {index}"),
        10 => format!("LSET {key} {index} {element}"),
        11 | 12 => format!("LINSERT {key} BEFORE e{} {element}", random.below(30)),
        13 => format!("LREM {key} {} {element}", index / 6),
        14 => format!("LTRIM {key} {} {}", random.below(4), -1 - random.below(4) as i64),
        15 => format!("LPOS {key} {element} RANK {} COUNT 0", index | 1),
        16 | 17 => format!("LMOVE {key} {other} LEFT {}", ["LEFT", "RIGHT"][(index & 1) as usize]),
        18 => format!("LMPOP 2 {key} {other} RIGHT COUNT 3"),
        19 => format!("RENAME {key} {other}"),
        20 => format!("COPY {key} {other} REPLACE"),
        21 => format!("SET {key} string"),
        22 => format!("DEL {key}"),
        23 => format!("SORT {key} BY nosort DESC LIMIT {index} {} GET # GET w_*", index / 4),
        24 => format!("SORT {key} BY nosort LIMIT {} 9 STORE {other}", index.abs()),
        _ => format!("SORT {key} ALPHA STORE {other}"),
    }
}

#[test]
fn lists_in_pages_answer_as_lists_in_one_record_do() {
    let (mut paged, mut whole) = (bench(24), bench(u64::MAX));
    let (mut client, mut other) = (paged.client(), whole.client());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for step in 0..6000 {
        let command = list_command(&mut random);
        let reply = paged.run(&mut client, &command);
        assert_eq!(reply, whole.run(&mut other, &command), "step {step}: {command}");
        for key in ["a", "b", "c"] {
            let all = format!("LRANGE {key} 0 -1");
            assert_eq!(paged.run(&mut client, &all), whole.run(&mut other, &all), "{command}");
        }
        if step % 500 == 0 {
            let digest = paged.run(&mut client, "DEBUG DIGEST");
            assert_eq!(digest, whole.run(&mut other, "DEBUG DIGEST"));
        }
    }
    assert!(paged.server.engine.has_pages() && !whole.server.engine.has_pages());
}

#[test]
fn a_push_to_a_long_list_copies_a_page_and_not_the_list() {
    let mut bench = bench(2048);
    let mut client = bench.client();
    for n in 0..1000 {
        let elements: Vec<String> = (0..100).map(|m| format!("element{n}.{m}")).collect();
        bench.run(&mut client, &format!("RPUSH long {}", elements.join(" ")));
    }
    let before = bench.server.engine.memory_parts().memtables;
    for n in 0..1000 {
        bench.run(&mut client, &format!("LPUSH long {n}"));
        bench.run(&mut client, "RPOP long");
    }
    let copied = bench.server.engine.memory_parts().memtables.saturating_sub(before);
    // The list has more than a megabyte.
    assert!(copied < 2000 * 2048 + (1 << 20), "{copied} bytes for 2,000 changes");
}

#[test]
fn what_a_transaction_did_to_pages_is_taken_back_with_it() {
    let mut bench = bench(16);
    let mut client = bench.client();
    let elements: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    bench.run(&mut client, &format!("RPUSH l {}", elements.join(" ")));
    let before = bench.run(&mut client, "DEBUG DIGEST");
    let commands =
        ["MULTI", "LPUSH l x", "LTRIM l 3 -200", "RPUSH new 1 2 3 4 5 6 7 8 9 10 11", "DEL l"];
    bench.run_all(&mut client, &commands);
    super::tests::queue_panic(&mut client, "c");
    let reply = bench.run(&mut client, "EXEC");
    assert!(reply.contains("nothing was changed"), "{reply}");
    assert_eq!(bench.run(&mut client, "DEBUG DIGEST"), before);
    assert_eq!(bench.run(&mut client, "LRANGE l 498 -1"), "*2\r\n$3\r\n498\r\n$3\r\n499\r\n");
}

fn keyed_command(random: &mut Random) -> String {
    let (key, set) = (["h", "i"][random.below(2) as usize], ["s", "t"][random.below(2) as usize]);
    let other = ["s", "t", "u"][random.below(3) as usize];
    let number = random.below(60);
    let value = match random.below(20) {
        0 => "v".repeat(700),
        other => other.to_string(),
    };
    match random.below(26) {
        0..=3 => format!("HSET {key} f{number} {value} g{number} {value} f{} 1", number / 2),
        4 => format!("HSETNX {key} f{number} {value}"),
        5 | 6 => format!("HDEL {key} f{number} g{} f{}", number / 2, number / 3),
        7 => format!("HMGET {key} f{number} g{number} none"),
        8 => format!("HINCRBY {key} f{number} 3"),
        9 => format!("HINCRBYFLOAT {key} g{number} 0.5"),
        10 => format!("HSTRLEN {key} f{number}"),
        11 => format!("HEXISTS {key} g{number}"),
        12 => format!("HLEN {key}"),
        13..=15 => format!("SADD {set} m{number} {number} m{}", number / 2),
        16 | 17 => format!("SREM {set} m{number} {}", number / 2),
        18 => format!("SMISMEMBER {set} m{number} {number} none"),
        19 => format!("SMOVE {set} {other} m{number}"),
        20 => format!("SINTERCARD 2 {set} {other}"),
        21 => format!("SUNIONSTORE {other} {set} t"),
        22 => format!("RENAME {set} {other}"),
        23 => format!("COPY h {key} REPLACE"),
        24 => format!("DEL {other}"),
        _ => format!("SCARD {set}"),
    }
}

#[test]
fn hashes_and_sets_in_pages_answer_as_those_in_one_record_do() {
    let (mut paged, mut whole) = (bench(24), bench(u64::MAX));
    let (mut client, mut other) = (paged.client(), whole.client());
    let mut random = Random(0x0dd_ba11);
    for step in 0..6000 {
        let command = keyed_command(&mut random);
        let reply = paged.run(&mut client, &command);
        assert_eq!(reply, whole.run(&mut other, &command), "step {step}: {command}");
        if step % 50 == 0 {
            let digest = paged.run(&mut client, "DEBUG DIGEST");
            assert_eq!(digest, whole.run(&mut other, "DEBUG DIGEST"), "step {step}: {command}");
        }
    }
    assert!(paged.server.engine.has_pages() && !whole.server.engine.has_pages());
}

fn ranked_command(random: &mut Random, scores: u64) -> String {
    let (key, other) =
        (["z", "y"][random.below(2) as usize], ["z", "y", "x"][random.below(3) as usize]);
    let number = random.below(300);
    let score = match random.below(scores) {
        0 => "0".to_owned(),
        1 => "-0".to_owned(),
        2 => "inf".to_owned(),
        3 => "-inf".to_owned(),
        score => format!("{}", score as f64 / 4.0 - 6.0),
    };
    let (low, high) = (random.below(scores) as f64 / 4.0 - 6.0, random.below(scores) as f64 / 4.0);
    let rank = random.below(500) as i64 - 250;
    let long = "m".repeat(random.below(200) as usize);
    match random.below(42) {
        0..=8 => format!("ZADD {key} {score} m{number} {low} m{} {high} {long}{rank}", number / 2),
        9 => format!("ZADD {key} XX CH {score} m{number} {low} n"),
        10 => format!("ZADD {key} NX CH {score} m{number} {score} m{number}"),
        11 => format!("ZADD {key} GT CH {score} m{number} {high} m{}", number / 2),
        12 => format!("ZADD {key} LT INCR {low} m{number}"),
        13 => format!("ZINCRBY {key} {score} m{number}"),
        14 | 15 => format!("ZREM {key} m{number} m{} {}", number / 2, number / 3),
        16 => format!("ZREMRANGEBYRANK {key} {rank} {}", rank + 5),
        17 => format!("ZREMRANGEBYSCORE {key} ({high} {}", high + 0.25),
        18 => format!("ZREMRANGEBYLEX {key} [m{number} [m{number}5"),
        19 => format!("ZPOPMIN {key} {}", random.below(4)),
        20 => format!("ZPOPMAX {key}"),
        21 => format!("ZMPOP 2 {other} {key} MAX COUNT 3"),
        22 => format!("ZRANGE {key} {rank} {} WITHSCORES", rank + 30),
        23 => format!("ZREVRANGE {key} {} {} WITHSCORES", rank.abs(), rank.abs() + 9),
        24 => format!("ZRANGEBYSCORE {key} {low} ({high} WITHSCORES LIMIT {} 7", number / 20),
        25 => format!("ZREVRANGEBYSCORE {key} {high} {low} LIMIT {} {}", number / 20, rank / 10),
        26 => format!("ZRANGEBYLEX {key} (m{number} + LIMIT {} 5", number / 100),
        27 => format!("ZREVRANGEBYLEX {key} [m{number} - LIMIT {} 5", number / 100),
        28 => format!("ZRANGESTORE {other} {key} {low} {high} BYSCORE"),
        29 => format!("ZRANK {key} m{number}"),
        30 => format!("ZREVRANK {key} m{number}"),
        31 => format!("ZMSCORE {key} m{number} m{} none", number / 2),
        32 => format!("ZCOUNT {key} {low} ({high}"),
        33 => format!("ZLEXCOUNT {key} [m{number} +"),
        34 => format!("ZUNIONSTORE {other} 2 z y AGGREGATE MAX"),
        35 => format!("ZINTERCARD 2 {key} {other}"),
        36 => format!("GEOADD {key} {high} {low} m{number}"),
        37 => format!("GEODIST {key} m{number} m{}", number / 2),
        38 => format!("GEOSEARCH {key} FROMMEMBER m{number} BYRADIUS 900 km ASC WITHDIST"),
        39 => format!("SORT {key} BY nosort LIMIT {rank} {}", number / 20),
        40 => format!("SORT {key} BY nosort DESC LIMIT {} {}", number / 20, rank / 10),
        _ => match random.below(12) {
            0 => format!("DEL {key}"),
            1 => format!("RENAME {key} {other}"),
            2 => format!("COPY {key} {other} REPLACE"),
            _ => format!("ZCARD {key}"),
        },
    }
}

#[test]
fn sorted_sets_in_pages_answer_as_those_in_one_record_do() {
    for (seed, scores) in [(1, 1), (2, 12), (3, 100), (4, 5000)] {
        let (mut paged, mut whole) = (bench(24), bench(u64::MAX));
        let (mut client, mut other) = (paged.client(), whole.client());
        let mut random = Random(0x50_f7ed ^ seed << 40);
        let mut most = 0;
        for step in 0..3000 {
            let command = ranked_command(&mut random, scores);
            let reply = paged.run(&mut client, &command);
            assert_eq!(reply, whole.run(&mut other, &command), "step {step}: {command}");
            if step % 20 == 0 {
                for all in ["ZRANGE z 0 -1 WITHSCORES", "ZREVRANGE y 0 -1 WITHSCORES"] {
                    let reply = paged.run(&mut client, all);
                    most = most.max(reply.len());
                    assert_eq!(reply, whole.run(&mut other, all), "step {step}: {command}");
                }
                let digest = paged.run(&mut client, "DEBUG DIGEST");
                assert_eq!(digest, whole.run(&mut other, "DEBUG DIGEST"), "step {step}: {command}");
            }
        }
        assert!(most > 5000, "{most} bytes at most");
        assert!(paged.server.engine.has_pages() && !whole.server.engine.has_pages());
    }
}

#[test]
fn an_increment_to_no_number_leaves_a_sorted_set_in_pages_as_it_was() {
    let mut bench = bench(24);
    let mut client = bench.client();
    let members: Vec<String> = (0..100).map(|n| format!("{n} m{n}")).collect();
    bench.run(&mut client, &format!("ZADD z inf top {}", members.join(" ")));
    let before = bench.run(&mut client, "DEBUG DIGEST");
    let reply = bench.run(&mut client, "ZINCRBY z -inf top");
    assert!(reply.contains("not a number"), "{reply}");
    assert_eq!(bench.run(&mut client, "DEBUG DIGEST"), before);
    assert_eq!(bench.run(&mut client, "ZRANK z top"), ":100\r\n");
}

#[test]
fn a_change_of_a_large_sorted_set_copies_a_few_pages() {
    let mut bench = bench(2048);
    let mut client = bench.client();
    for n in 0..1000 {
        let pairs: Vec<String> = (0..30).map(|m| format!("{m}.{n} member{n}.{m}")).collect();
        bench.run(&mut client, &format!("ZADD z {}", pairs.join(" ")));
    }
    let before = bench.server.engine.memory_parts().memtables;
    for n in 0..500 {
        bench.run(&mut client, &format!("ZADD z {n} new{n}"));
        bench.run(&mut client, &format!("ZINCRBY z 7 member{n}.3"));
        bench.run(&mut client, "ZPOPMIN z");
        bench.run(&mut client, &format!("ZREM z member{n}.20"));
    }
    let copied = bench.server.engine.memory_parts().memtables.saturating_sub(before);
    // The set has about a megabyte.
    assert!(copied < 2000 * 6000 + (1 << 20), "{copied} bytes for 2,000 changes");
}

#[test]
fn a_walk_of_a_sorted_set_in_pages_answers_what_stays_with_its_score() {
    let mut bench = bench(300);
    let mut client = bench.client();
    for n in 0..200 {
        bench.run(&mut client, &format!("ZADD z {} stays{n}", n % 3));
    }
    let (mut cursor, mut seen, mut rounds) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = bulks(&bench.run(&mut client, &format!("ZSCAN z {cursor} COUNT 3")));
        seen.extend_from_slice(&reply[1..]);
        cursor.clone_from(&reply[0]);
        rounds += 1;
        if cursor == "0" {
            break;
        }
        bench.run(&mut client, &format!("ZADD z 1 more{rounds} 5 other{rounds}"));
        bench.run(&mut client, &format!("ZREM z more{}", rounds / 2));
        assert!(rounds < 5000, "a walk without an end");
    }
    for n in 0..200 {
        let pair = [format!("stays{n}"), (n % 3).to_string()];
        let times = seen.chunks(2).filter(|seen| *seen == pair).count();
        assert_eq!(times, 1, "stays{n}");
    }
}

/// The elements of an array of bulk strings.
pub(super) fn bulks(reply: &str) -> Vec<String> {
    let lines = reply.split("\r\n").filter(|line| !line.starts_with(['*', '$', '~', '%']));
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_walk_of_pages_answers_what_stays_and_ends_whatever_form_the_set_takes() {
    let mut bench = bench(300);
    let mut client = bench.client();
    for n in 0..20 {
        bench.run(&mut client, &format!("SADD s stays{n}"));
    }
    let (mut cursor, mut seen, mut rounds) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = bulks(&bench.run(&mut client, &format!("SSCAN s {cursor} COUNT 3")));
        seen.extend_from_slice(&reply[1..]);
        cursor.clone_from(&reply[0]);
        rounds += 1;
        if cursor == "0" {
            break;
        }
        // It is moved to pages after the first answers, and continues to grow.
        let more: Vec<String> = (0..1500 / rounds).map(|n| format!("more{rounds}.{n}")).collect();
        if rounds < 12 {
            bench.run(&mut client, &format!("SADD s {}", more.join(" ")));
        }
        assert!(rounds < 5000, "a walk without an end");
    }
    for n in 0..20 {
        assert!(seen.contains(&format!("stays{n}")), "stays{n}");
    }
    assert!(rounds > 20, "{rounds} rounds");
}

#[test]
fn what_is_drawn_from_a_set_in_pages_was_in_it_and_is_gone() {
    let mut bench = bench(100);
    let mut client = bench.client();
    let members: Vec<String> = (0..400).map(|n| format!("m{n}")).collect();
    bench.run(&mut client, &format!("SADD s {}", members.join(" ")));
    let mut left = 400;
    while left > 0 {
        let random = bulks(&bench.run(&mut client, "SRANDMEMBER s"));
        let is_there = bench.run(&mut client, &format!("SISMEMBER s {}", random[0]));
        assert_eq!(is_there, ":1\r\n");
        let popped = bulks(&bench.run(&mut client, "SPOP s 7"));
        left -= popped.len();
        for member in popped {
            assert!(members.contains(&member), "{member}");
            assert_eq!(bench.run(&mut client, &format!("SISMEMBER s {member}")), ":0\r\n");
        }
        assert_eq!(bench.run(&mut client, "SCARD s"), format!(":{left}\r\n"));
    }
    assert_eq!(bench.run(&mut client, "EXISTS s"), ":0\r\n");
}

#[test]
fn what_a_command_or_a_transaction_needs_of_cold_pages_is_loaded_before_it_runs() {
    let mut bench = bench(200);
    let mut client = bench.client();
    let pairs: Vec<String> = (0..2000).map(|n| format!("f{n} v{n}")).collect();
    bench.run(&mut client, &format!("HSET h {}", pairs.join(" ")));
    let elements: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    bench.run(&mut client, &format!("RPUSH l {}", elements.join(" ")));
    bench.server.engine.flush().expect("flushed");
    let members: Vec<String> = (0..5000).map(|n| format!("{n} m{n}")).collect();
    bench.run(&mut client, &format!("ZADD z {}", members.join(" ")));
    bench.server.engine.flush().expect("flushed");
    let evict = |bench: &mut Bench, client: &mut crate::dispatch::client::Client| {
        bench.server.engine.set_memory_bound(1);
        for _ in 0..50 {
            // The holder of a shard's latch evicts its excess.
            bench.run(client, "EXISTS h l z");
        }
    };
    evict(&mut bench, &mut client);
    let (loads, reply) = bench.rounds(&mut client, "HGET h f77");
    assert_eq!((loads, reply.as_str()), (2, "$3\r\nv77\r\n"), "its root, and one page");
    for (request, most, expected) in [
        // The root, a page of the index, a node on each of two levels, and the page of the member.
        ("ZSCORE z m4077", 5, "$4\r\n4077\r\n"),
        ("ZRANK z m77", 5, ":77\r\n"),
        ("ZCOUNT z 9 (1900", 4, ":1891\r\n"),
        ("ZRANGE z 3000 3001", 4, "*2\r\n$5\r\nm3000\r\n$5\r\nm3001\r\n"),
        ("ZADD z 7.5 m4078", 6, ":0\r\n"),
        ("ZADD z 1.5 new 2.5 more", 5, ":2\r\n"),
        ("ZREM z m1000 m2000 m3000 m4000", 5, ":4\r\n"),
        ("ZPOPMAX z", 6, "*2\r\n$5\r\nm4999\r\n$4\r\n4999\r\n"),
        ("ZREMRANGEBYRANK z 100 299", 6, ":200\r\n"),
    ] {
        bench.server.engine.flush().expect("flushed");
        evict(&mut bench, &mut client);
        let (loads, reply) = bench.rounds(&mut client, request);
        assert_eq!(reply, expected, "{request}");
        assert!(loads > 1 && loads <= most, "{request}: {loads} rounds");
    }
    bench.server.engine.flush().expect("flushed");
    evict(&mut bench, &mut client);
    let (loads, reply) = bench.rounds(&mut client, "LRANGE l 0 -1");
    assert!(loads <= 3 && reply.starts_with("*2000\r\n"), "{loads} rounds");
    evict(&mut bench, &mut client);
    bench.run_all(&mut client, &["MULTI", "HGET h f78", "LPOP l", "HSET h f79 new", "HGET h f79"]);
    let (loads, reply) = bench.rounds(&mut client, "EXEC");
    assert_eq!(reply, "*4\r\n$3\r\nv78\r\n$1\r\n0\r\n:0\r\n$3\r\nnew\r\n");
    assert_eq!(loads, 2, "the roots, and the pages");
}

/// A bench with a hash, a list, a set and a sorted set of 3,000 elements each, and what sends them out of memory.
pub(super) fn cold_bench() -> (
    Bench,
    crate::dispatch::client::Client,
    impl Fn(&mut Bench, &mut crate::dispatch::client::Client),
) {
    let mut bench = bench(200);
    let mut client = bench.client();
    for (command, key, words) in [
        ("HSET", "h", (|n| format!("f{n} v{n}")) as fn(u32) -> String),
        ("RPUSH", "l", |n| format!("e{n}")),
        ("SADD", "s", |n| format!("m{n}")),
        ("ZADD", "z", |n| format!("{n} m{n}")),
    ] {
        let words: Vec<String> = (0..3000).map(words).collect();
        bench.run(&mut client, &format!("{command} {key} {}", words.join(" ")));
        bench.server.engine.flush().expect("flushed");
    }
    bench.server.engine.set_memory_bound(1);
    let evict = |bench: &mut Bench, client: &mut crate::dispatch::client::Client| {
        bench.server.engine.flush().expect("flushed");
        for _ in 0..50 {
            // The holder of a shard's latch evicts its excess.
            bench.run(client, "EXISTS h l s z");
        }
    };
    (bench, client, evict)
}

#[test]
fn a_command_for_another_type_reads_no_page_to_say_so() {
    let (mut bench, mut client, evict) = cold_bench();
    for request in [
        "GET h",
        "APPEND l x",
        "INCR s",
        "SETRANGE z 0 x",
        "GETDEL h",
        "SET h x GET",
        "BITCOUNT l",
        "PFCOUNT s",
        "LPUSH h x",
        "LPOP z",
        "HGET l f",
        "SADD l x",
        "SPOP h 3",
        "SRANDMEMBER z 3",
        "HRANDFIELD s -3",
        "ZRANDMEMBER l 3",
        "ZADD s 1 x",
        "ZPOPMIN l",
        "SINTER l s",
        "SUNIONSTORE d h",
        "ZUNION 1 l",
        "ZINTERCARD 1 h",
        "SORT h",
        "LMPOP 1 z LEFT",
        "XLEN l",
    ] {
        evict(&mut bench, &mut client);
        let before = bench.server.engine.stats().cold_reads;
        let (_, reply) = bench.rounds(&mut client, request);
        assert!(reply.starts_with("-WRONGTYPE"), "{request}: {reply}");
        let reads = bench.server.engine.stats().cold_reads - before;
        assert!((1..=2).contains(&reads), "{request}: {reads} reads, one of each root");
    }
}

#[test]
fn random_elements_of_cold_collections_come_in_a_few_rounds() {
    let (mut bench, mut client, evict) = cold_bench();
    for (request, most, elements) in [
        ("SRANDMEMBER s 100", 20, 100),
        ("SRANDMEMBER s -100", 20, 100),
        ("SPOP s 100", 24, 100),
        ("HRANDFIELD h 100", 20, 100),
        ("HRANDFIELD h -100 WITHVALUES", 20, 200),
        ("ZRANDMEMBER z 100", 6, 100),
        ("ZRANDMEMBER z -100 WITHSCORES", 6, 200),
    ] {
        evict(&mut bench, &mut client);
        let (loads, reply) = bench.rounds(&mut client, request);
        let drawn = bulks(&reply);
        assert_eq!(drawn.len(), elements, "{request}");
        assert!(loads > 1 && loads <= most, "{request}: {loads} rounds");
        let is_pair =
            |pair: &[String]| pair[0][1..] == pair[1][usize::from(request.starts_with('H'))..];
        if request.contains("WITH") {
            assert!(drawn.chunks(2).all(is_pair), "{drawn:?}");
        } else if !request.contains('-') {
            assert_eq!(drawn.iter().collect::<std::collections::HashSet<_>>().len(), elements);
        }
    }
    assert_eq!(bench.run(&mut client, "SCARD s"), ":2900\r\n");
    // Of what a pattern names only the page of the field is read.
    bench.run(&mut client, "RPUSH few 1 2");
    evict(&mut bench, &mut client);
    let (_, reply) = bench.rounds(&mut client, "SORT few BY nosort GET h*->f7");
    assert_eq!(reply, "*2\r\n$-1\r\n$-1\r\n");
    bench.run(&mut client, "RENAME h h1");
    evict(&mut bench, &mut client);
    let before = bench.server.engine.stats().cold_reads;
    let (_, reply) = bench.rounds(&mut client, "SORT few BY nosort GET h*->f7");
    assert_eq!(reply, "*2\r\n$2\r\nv7\r\n$-1\r\n");
    assert!(bench.server.engine.stats().cold_reads - before < 10);
}

/// A request names all the pages at once that it can know of: each round runs it again from its start.
#[test]
fn no_command_asks_for_its_pages_one_by_one() {
    let (mut bench, mut client, _) = cold_bench();
    for n in 1..3000 {
        bench.run(&mut client, &format!("XADD x {n}-0 f v{n}"));
    }
    bench.run(&mut client, "XGROUP CREATE x g 0");
    bench.run(&mut client, "XREADGROUP GROUP g one COUNT 2000 STREAMS x >");
    let places: Vec<String> =
        (0..3000).map(|n| format!("{}.{n:04} {}.5 p{n}", n % 90, n % 60)).collect();
    bench.run(&mut client, &format!("GEOADD g {}", places.join(" ")));
    bench.run(&mut client, "SETRANGE b 400000 end");
    let ids = |step: usize| {
        (1..2000).step_by(step).map(|n| format!("{n}-0")).collect::<Vec<_>>().join(" ")
    };
    let evict = |bench: &mut Bench, client: &mut crate::dispatch::client::Client| {
        bench.server.engine.flush().expect("flushed");
        for _ in 0..50 {
            bench.run(client, "EXISTS h l s z x g b");
        }
    };
    let bits: Vec<String> = (0..200).map(|n| format!("GET u8 #{}", n * 1999)).collect();
    let all = |letter: &str, step: usize| {
        (0..3000).step_by(step).map(|n| format!("{letter}{n}")).collect::<Vec<_>>().join(" ")
    };
    let (fields, members, few) = (all("f", 7), all("m", 7), all("f", 100));
    let pairs: Vec<String> = (0..3000).step_by(11).map(|n| format!("f{n} w{n}")).collect();
    let scored: Vec<String> =
        (0..3000).step_by(11).map(|n| format!("{}.5 m{n}", 3000 - n)).collect();
    let count = few.split(' ').count();
    let mut many = Vec::new();
    for request in [
        "HSCAN h 0 COUNT 2000".to_string(),
        "SSCAN s 0 COUNT 2000".into(),
        "ZSCAN z 0 COUNT 200".into(),
        "HGETALL h".into(),
        "SMEMBERS s".into(),
        "LRANGE l 0 -1".into(),
        "ZRANGE z 0 -1".into(),
        "ZRANGEBYLEX z - +".into(),
        "ZREVRANGEBYSCORE z 2500 100 WITHSCORES".into(),
        format!("HMGET h {fields}"),
        format!("SMISMEMBER s {members}"),
        format!("ZMSCORE z {members}"),
        "HRANDFIELD h 500".into(),
        "HRANDFIELD h -500".into(),
        "SRANDMEMBER s 500".into(),
        "ZRANDMEMBER z 500".into(),
        "ZRANDMEMBER z -500 WITHSCORES".into(),
        format!("HTTL h FIELDS {count} {few}"),
        format!("HEXPIRE h 1000 FIELDS {count} {few}"),
        format!("HPERSIST h FIELDS {count} {few}"),
        format!("HGETDEL h FIELDS {count} {few}"),
        format!("HSET h {}", pairs.join(" ")),
        format!("HDEL h {few}"),
        format!("SADD s {members} x y z"),
        format!("SREM s {}", all("m", 50)),
        "SPOP s 300".into(),
        format!("ZADD z {}", scored.join(" ")),
        format!("ZREM z {}", all("m", 50)),
        "ZPOPMIN z 300".into(),
        "ZREMRANGEBYSCORE z 500 800".into(),
        "ZREMRANGEBYRANK z 500 800".into(),
        "LPOP l 300".into(),
        "RPOP l 300".into(),
        "LTRIM l 100 1800".into(),
        "SORT l BY nosort LIMIT 0 10".into(),
        "SORT_RO l ALPHA".into(),
        "COPY h h2".into(),
        "SUNIONSTORE d s".into(),
        "SINTER s z2 s".into(),
        "ZUNIONSTORE d 1 z".into(),
        "ZRANGESTORE d z 0 -1".into(),
        "ZINTERCARD 2 z s".into(),
        "DUMP z".into(),
        "XRANGE x - +".into(),
        "XREVRANGE x + - COUNT 1000".into(),
        "XREAD COUNT 1500 STREAMS x 0".into(),
        "XREADGROUP GROUP g one COUNT 500 STREAMS x 0".into(),
        "XREADGROUP GROUP g two COUNT 500 STREAMS x >".into(),
        "XPENDING x g - + 1000".into(),
        format!("XCLAIM x g three 0 {}", ids(20)),
        "XAUTOCLAIM x g four 0 0 COUNT 300".into(),
        format!("XACK x g {}", ids(30)),
        format!("XDEL x {}", ids(40)),
        "XTRIM x MAXLEN 2700".into(),
        "GEOSEARCH g FROMLONLAT 45 30 BYRADIUS 3000 km".into(),
        "GEOSEARCHSTORE gd g FROMLONLAT 45 30 BYBOX 3000 3000 km".into(),
        "GEORADIUSBYMEMBER_RO g p7 1000 km".into(),
        format!("GEOPOS g {}", all("p", 13)),
        format!("GEOHASH g {}", all("p", 13)),
        "GETRANGE b 0 -1".into(),
        "BITCOUNT b".into(),
        "BITPOS b 1".into(),
        format!("BITFIELD_RO b {}", bits.join(" ")),
        "SETRANGE b 100000 x".into(),
        "APPEND b x".into(),
        "BITOP NOT d b".into(),
    ] {
        evict(&mut bench, &mut client);
        let (loads, reply) = bench.rounds(&mut client, &request);
        let short: String = request.chars().take(40).collect();
        // What a consumer group needs is found step by step: names, rows, their nodes, entries.
        let most = if request.starts_with('X') { 12 } else { 6 };
        if loads > most || reply.starts_with('-') {
            many.push(format!("{short}: {loads} rounds, {}", &reply[..reply.len().min(40)]));
        }
    }
    assert!(many.is_empty(), "{many:#?}");
}
