//! Collections in pages behind the commands: the same replies as from one record, and a fraction of the copying.

use super::Outcome;
use super::tests::Bench;
use crate::keyspace::load_blocking;
use crate::value::thresholds::Thresholds;

/// A bench whose collections lie in pages above so many bytes.
fn bench(inline_bytes: u64) -> Bench {
    let bench = Bench::new();
    let thresholds = &bench.server.settings.thresholds;
    let now = thresholds.now();
    thresholds.set(Thresholds { inline_bytes, hash_entries: 4, intset_entries: 4, ..now });
    bench
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
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
    match random.below(24) {
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

/// The elements of an array of bulk strings.
fn bulks(reply: &str) -> Vec<String> {
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
        // It comes to lie in pages behind the first answers, and grows on.
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

/// The rounds of loading that a request needs, and its reply.
fn rounds(bench: &mut Bench, client: &mut crate::client::Client, line: &str) -> (usize, String) {
    let mut pins = Vec::new();
    loop {
        match bench.try_at(client, line, 1_000_000) {
            (Outcome::Done(_), reply) => return (pins.len(), reply),
            (Outcome::Cold(wanted), _) => {
                pins.push(load_blocking(&bench.server, wanted, u64::MAX).expect("a device"));
            }
            (outcome, _) => panic!("{line}: {outcome:?}"),
        }
    }
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
    let evict = |bench: &mut Bench, client: &mut crate::client::Client| {
        bench.server.engine.set_memory_bound(1);
        for _ in 0..50 {
            // Whoever has the latch of a shard evicts what is too much in it.
            bench.run(client, "EXISTS h l");
        }
    };
    evict(&mut bench, &mut client);
    let (loads, reply) = rounds(&mut bench, &mut client, "HGET h f77");
    assert_eq!((loads, reply.as_str()), (2, "$3\r\nv77\r\n"), "its root, and one page");
    let (loads, reply) = rounds(&mut bench, &mut client, "LRANGE l 0 -1");
    assert!(loads <= 3 && reply.starts_with("*2000\r\n"), "{loads} rounds");
    evict(&mut bench, &mut client);
    bench.run_all(&mut client, &["MULTI", "HGET h f78", "LPOP l", "HSET h f79 new", "HGET h f79"]);
    let (loads, reply) = rounds(&mut bench, &mut client, "EXEC");
    assert_eq!(reply, "*4\r\n$3\r\nv78\r\n$1\r\n0\r\n:0\r\n$3\r\nnew\r\n");
    assert_eq!(loads, 2, "the roots, and the pages");
}
