//! Commands on strings in pages: their replies match those for a single record, and edits copy a fraction.

use super::paged_tests::Random;
use super::tests::Bench;
use super::{LongReply, Outcome};
use crate::value::thresholds::Thresholds;
use std::sync::atomic::Ordering;

/// A bench that stores strings above 8 times and 512 times `inline_bytes` bytes in pages.
fn bench(inline_bytes: u64) -> Bench {
    let bench = Bench::new();
    let thresholds = &bench.server.settings.thresholds;
    thresholds.set(Thresholds { inline_bytes, ..thresholds.now() });
    bench
}

fn command(random: &mut Random) -> String {
    let key = ["a", "b"][random.below(2) as usize];
    let other = ["a", "b", "c"][random.below(3) as usize];
    let len = [1, 3, 100, 4000, 9000][random.below(5) as usize];
    let text: String = (0..len).map(|at| (b'!' + ((at + len) % 90) as u8) as char).collect();
    let at = random.below(30_000);
    let signed = random.below(40_000) as i64 - 20_000;
    let (bit, position) = (random.below(2), random.below(200_000));
    match random.below(40) {
        0..=5 => format!("APPEND {key} {text}"),
        6..=9 => format!("SETRANGE {key} {at} {text}"),
        10..=13 => format!("SETBIT {key} {position} {bit}"),
        14 => format!("SET {key} {text}"),
        15 => format!("SET {key} {} GET", text.repeat(5)),
        16..=18 => format!("GETRANGE {key} {signed} {}", signed + len as i64 * 3),
        19 => format!("GETBIT {key} {position}"),
        20 => format!("STRLEN {key}"),
        21 => format!("BITCOUNT {key} {signed} -1"),
        22 => format!("BITCOUNT {key} {at} {position} BIT"),
        23 => format!("BITPOS {key} {bit} {signed}"),
        24 => format!("BITPOS {key} {bit} {at} {position} BIT"),
        25..=28 => format!(
            "BITFIELD {key} OVERFLOW SAT INCRBY i16 {position} 1000 GET u8 {at} SET u63 {position} {at} OVERFLOW FAIL INCRBY u3 {at} 7"
        ),
        29 => format!("BITFIELD_RO {key} GET i64 {position}"),
        30 => format!("BITOP XOR {other} {key} a"),
        31 => format!("RENAME {key} {other}"),
        32 => format!("COPY {key} {other} REPLACE"),
        33 => format!("GETDEL {key}"),
        34 => format!("GETEX {key} PXAT 99999999999999"),
        35 => format!("PERSIST {key}"),
        36 => format!("INCR {key}"),
        37 => format!("MGET {key} {other} none"),
        // Only what it says of the types is of interest: it takes long.
        38 if random.below(10) == 0 => format!("LCS {key} none LEN"),
        38 => format!("PEXPIREAT {key} 99999999999999"),
        _ => format!("RPUSH {key} element"),
    }
}

#[test]
fn strings_in_pages_answer_as_strings_in_one_record_do() {
    for seed in [1, 2, 3] {
        let (mut paged, mut whole) = (bench(16), bench(u64::MAX));
        let (mut client, mut other) = (paged.client(), whole.client());
        let mut random = Random(0x9e37_79b9_7f4a_7c15 + seed);
        for step in 0..3000 {
            let command = command(&mut random);
            let reply = paged.run(&mut client, &command);
            let name = &command[..command.len().min(60)];
            assert!(reply == whole.run(&mut other, &command), "step {step}: {name}");
            for key in ["a", "b", "c"] {
                for look in ["GET", "PEXPIRETIME", "TYPE", "STRLEN", "OBJECT ENCODING"] {
                    let look = format!("{look} {key}");
                    let reply = paged.run(&mut client, &look);
                    let expected = whole.run(&mut other, &look);
                    assert!(reply == expected, "step {step}: {name}, {look}");
                }
            }
            if step % 500 == 0 {
                let digest = paged.run(&mut client, "DEBUG DIGEST");
                assert_eq!(digest, whole.run(&mut other, "DEBUG DIGEST"), "{name}");
                let dump = paged.run(&mut client, "DUMP a");
                assert!(dump == whole.run(&mut other, "DUMP a"), "{name}");
            }
        }
        assert!(paged.server.engine.has_pages() && !whole.server.engine.has_pages());
    }
}

#[test]
fn an_edit_of_a_long_string_copies_a_page_and_not_the_string() {
    let mut bench = bench(2048);
    let mut client = bench.client();
    bench.run(&mut client, &format!("SET long {}", "x".repeat(1_500_000)));
    let before = bench.server.engine.memory_parts().memtables;
    for n in 0..1000 {
        bench.run(&mut client, &format!("APPEND long {n}"));
        bench.run(&mut client, &format!("SETRANGE long {} {n}", n * 1400));
        bench.run(&mut client, &format!("SETBIT long {} 1", n * 11_000));
    }
    let copied = bench.server.engine.memory_parts().memtables.saturating_sub(before);
    assert!(copied < 3000 * 4500, "{copied} bytes for 3,000 changes");
    assert_eq!(bench.run(&mut client, "STRLEN long"), ":1502890\r\n");
}

#[test]
fn edits_of_long_strings_are_taken_back_with_their_transaction() {
    let mut bench = bench(16);
    let mut client = bench.client();
    bench.run(&mut client, &format!("SET s {}", "x".repeat(20_000)));
    let before = bench.run(&mut client, "DEBUG DIGEST");
    let commands =
        ["MULTI", "APPEND s x", "SETRANGE s 3 abc", "SETBIT s 1000000 1", "APPEND n x", "DEL s"];
    bench.run_all(&mut client, &commands);
    super::tests::queue_panic(&mut client, "c");
    let reply = bench.run(&mut client, "EXEC");
    assert!(reply.contains("nothing was changed"), "{reply}");
    assert_eq!(bench.run(&mut client, "DEBUG DIGEST"), before);
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut bench = bench(16);
    let mut client = bench.client();
    bench.run(&mut client, &format!("SET s {}", "x".repeat(20_000)));
    bench.run(&mut client, "APPEND s more");
    let before = bench.run(&mut client, "DEBUG DIGEST");
    for (request, reply) in [
        ("SETRANGE s 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        ("SETRANGE s -1 x", "-ERR offset is out of range"),
        ("SETBIT s 1 2", "-ERR bit is not an integer or out of range"),
        ("BITCOUNT s 1", "-ERR syntax error"),
        ("BITPOS s 1 1 2 WORD", "-ERR syntax error"),
        ("INCR s", "-ERR value is not an integer or out of range"),
        ("LPUSH s x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ] {
        assert_eq!(bench.run(&mut client, request), format!("{reply}\r\n"), "{request}");
    }
    assert_eq!(bench.run(&mut client, "DEBUG DIGEST"), before);
}

#[test]
fn what_takes_long_is_handed_to_a_thread_that_nobody_waits_for() {
    let mut bench = bench(2048);
    let mut client = bench.client();
    let content = "x".repeat(2_000_000);
    bench.run(&mut client, &format!("SET s {content}"));
    bench.run(&mut client, "RPUSH other 1");
    for (request, reply) in [
        (format!("SET t {content}"), "+OK\r\n"),
        ("BITCOUNT s".to_owned(), ":8000000\r\n"),
        ("BITPOS s 0".to_owned(), ":0\r\n"),
        ("COPY s u".to_owned(), ":1\r\n"),
        ("RENAME u v".to_owned(), "+OK\r\n"),
        ("BITOP NOT s s".to_owned(), ":2000000\r\n"),
    ] {
        let name = &request[..8];
        let hits = bench.server.stats.hits();
        let before = bench.run(&mut client, "DEBUG DIGEST");
        bench.executor.may_block = false;
        let (outcome, nothing) = bench.try_at(&mut client, &request, super::tests::NOW_MS);
        assert!(matches!(outcome, Outcome::Offload) && nothing.is_empty(), "{name}: {outcome:?}");
        let is_held_apart = client.long_reply.is_wanted();
        assert_eq!(is_held_apart, name.starts_with("BIT") && name != "BITOP NO", "{name}");
        bench.executor.may_block = true;
        assert_eq!(bench.run(&mut client, "DEBUG DIGEST"), before, "{name}");
        client.is_heavy = !request.starts_with("SET");
        if is_held_apart {
            client.long_reply = LongReply::Wanted;
        }
        assert_eq!(bench.run(&mut client, &request), reply, "{name}");
        assert!(!client.is_heavy, "{name}");
        let reads = !(name.starts_with("SET") || name.starts_with("RENAME"));
        assert_eq!(bench.server.stats.hits() - hits, u64::from(reads), "{name}: counted once");
        assert_eq!(bench.server.running_scripts.occupied().load(Ordering::Relaxed), 0, "{name}");
    }
    bench.executor.may_block = false;
    for request in ["STRLEN s", "APPEND s x", "GETBIT s 5", "SETBIT s 5 1", "BITCOUNT s 5 100"] {
        let (outcome, _) = bench.try_at(&mut client, request, super::tests::NOW_MS);
        assert!(matches!(outcome, Outcome::Done(_)), "{request}: {outcome:?}");
    }
}

#[test]
fn a_large_transaction_is_handed_over_as_a_whole() {
    let mut bench = bench(2048);
    let mut client = bench.client();
    let half = format!("APPEND s {}", "x".repeat(400_000));
    bench.executor.may_block = false;
    bench.run_all(&mut client, &["MULTI", &half, &half, "STRLEN s"]);
    let (outcome, nothing) = bench.try_at(&mut client, "EXEC", super::tests::NOW_MS);
    assert!(matches!(outcome, Outcome::Offload) && nothing.is_empty(), "{outcome:?}");
    bench.executor.may_block = true;
    let reply = bench.run(&mut client, "EXEC");
    assert_eq!(reply, "*3\r\n:400000\r\n:800000\r\n:800000\r\n");
    assert_eq!(bench.server.running_scripts.occupied().load(Ordering::Relaxed), 0);
    bench.executor.may_block = false;
    bench.run_all(&mut client, &["MULTI", "STRLEN s"]);
    assert_eq!(bench.run(&mut client, "EXEC"), "*1\r\n:800000\r\n");
}
