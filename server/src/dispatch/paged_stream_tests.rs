//! Commands on paged streams: their replies match those for a single record, with a fraction of the copying.

use super::client::Client;
use super::paged_tests::Random;
use super::tests::Bench;
use crate::value::thresholds::Thresholds;

/// A bench that stores streams above `inline_bytes` bytes in pages, with `stream_node_entries` entries per node.
fn bench(inline_bytes: u64, stream_node_entries: u64) -> Bench {
    let bench = Bench::new();
    let thresholds = &bench.server.settings.thresholds;
    let now = thresholds.now();
    thresholds.set(Thresholds { inline_bytes, stream_node_entries, ..now });
    bench
}

/// Adds `entries` entries to a stream, with IDs from 1-1 on.
fn fill(bench: &mut Bench, client: &mut Client, key: &str, entries: u64) {
    for n in 1..=entries {
        bench.run(client, &format!("XADD {key} {n}-1 field value{n}"));
    }
}

fn command(random: &mut Random, last: &mut u64) -> String {
    let (key, other) =
        (["s", "t"][random.below(2) as usize], ["s", "t", "u"][random.below(3) as usize]);
    let (group, consumer) = (random.below(2), random.below(3));
    let from = last.saturating_sub(random.below(90));
    let to = from + random.below(30);
    let field = ["f", "f", "f", "other"][random.below(4) as usize];
    let long = "v".repeat([3, 9, 700][random.below(40).saturating_sub(37) as usize]);
    let sign = ["~", "="][random.below(2) as usize];
    match random.below(52) {
        0..=13 => {
            *last += random.below(3);
            format!("XADD {key} {last}-* {field} {long}{from}")
        }
        14 => format!("XADD {key} MAXLEN {sign} {} {last}-* f trimmed", 20 + random.below(60)),
        15 => format!("XADD {key} NOMKSTREAM MINID {sign} {from} {last}-* f g h i"),
        16 => format!("XTRIM {key} MAXLEN {sign} {}", random.below(90)),
        17 => format!("XTRIM {key} MINID {sign} {from}"),
        18 => format!("XTRIM {key} MAXLEN ~ {} LIMIT {}", random.below(20), random.below(20)),
        19 | 20 => format!("XDEL {key} {from}-0 {from}-0 {to}-0 {from}-1 {}-0", from + 1),
        21 => format!("XRANGE {key} {from} {to}"),
        22 => format!("XREVRANGE {key} + ({from} COUNT {}", random.below(9)),
        23 => format!("XRANGE {key} - + COUNT {}", random.below(30)),
        24 => format!("XREVRANGE {key} {to} -"),
        25 => format!("XREAD COUNT {} STREAMS {key} {other} {from} {to}", random.below(9)),
        26 => format!("XLEN {key}"),
        27 => format!("XSETID {key} {}-0 ENTRIESADDED {} MAXDELETEDID {from}-0", *last + 1, last),
        28 => format!("XINFO STREAM {key}"),
        29 => format!("XINFO GROUPS {key}"),
        30 => format!("XGROUP CREATE {key} g{group} {from} MKSTREAM"),
        31 => format!("XGROUP SETID {key} g{group} $"),
        32..=34 => format!(
            "XREADGROUP GROUP g{group} c{consumer} COUNT {} STREAMS {key} >",
            random.below(7)
        ),
        35 => format!("XREADGROUP GROUP g{group} c{consumer} NOACK STREAMS {key} {other} > >"),
        36 => format!("XREADGROUP GROUP g{group} c{consumer} COUNT 5 STREAMS {key} {from}"),
        37 => format!("XACK {key} g{group} {from}-0 {to}-0 {}-0", from + 2),
        38 => format!("XCLAIM {key} g{group} c{consumer} 0 {from}-0 {to}-0 FORCE"),
        39 => format!("XAUTOCLAIM {key} g{group} c{consumer} 0 {from} COUNT 3"),
        40 => format!("XPENDING {key} g{group} - + 9 c{consumer}"),
        41 => format!("XGROUP DELCONSUMER {key} g{group} c{consumer}"),
        42 => match random.below(6) {
            0 => format!("DEL {key}"),
            1 => format!("RENAME {key} {other}"),
            2 => format!("COPY {key} {other} REPLACE"),
            3 => format!("XGROUP DESTROY {key} g{group}"),
            4 => format!("SET {other} string"),
            _ => format!("OBJECT ENCODING {key}"),
        },
        43 => format!("XINFO CONSUMERS {key} g{group}"),
        44 => format!("XPENDING {key} g{group} IDLE {} {from} + 5", random.below(3)),
        45 => format!("XPENDING {key} g{group} IDLE 1 - {to} 5 c{consumer}"),
        46 => format!("XGROUP CREATECONSUMER {key} g{group} c{}", random.below(30)),
        47 => format!("XAUTOCLAIM {key} g{group} c{consumer} 0 - COUNT 40 JUSTID"),
        48 => format!("XREADGROUP GROUP g{group} c{consumer} COUNT 9 STREAMS {key} 0"),
        49 => format!("XCLAIM {key} g{group} c{consumer} 0 {to}-0 RETRYCOUNT 9 LASTID {from}"),
        50 => format!("XGROUP SETID {key} g{group} {from}"),
        _ => format!("XPENDING {key} g{group}"),
    }
}

#[test]
fn streams_in_pages_answer_as_those_in_one_record_do() {
    for (seed, entries, inline_bytes) in [(1, 3, 24), (2, 8, 24), (3, 3, 600), (4, 100, 24)] {
        let (mut paged, mut whole) = (bench(inline_bytes, entries), bench(u64::MAX, entries));
        let (mut client, mut other) = (paged.client(), whole.client());
        let (mut random, mut last, mut most) = (Random(0x57_4ea8 ^ seed << 40), 1, 0);
        for step in 0..3000 {
            let command = command(&mut random, &mut last);
            let reply = paged.run(&mut client, &command);
            assert_eq!(reply, whole.run(&mut other, &command), "step {step}: {command}");
            if step % 20 == 0 {
                for all in ["XINFO STREAM s FULL COUNT 0", "XINFO STREAM t FULL COUNT 0", "DUMP s"]
                {
                    let reply = paged.run(&mut client, all);
                    most = most.max(reply.len());
                    assert_eq!(reply, whole.run(&mut other, all), "step {step}: {command}");
                }
                let digest = paged.run(&mut client, "DEBUG DIGEST");
                assert_eq!(digest, whole.run(&mut other, "DEBUG DIGEST"), "step {step}: {command}");
            }
        }
        assert!(most > 3000, "{most} bytes at most");
        assert!(paged.server.engine.has_pages() && !whole.server.engine.has_pages());
    }
}

#[test]
fn an_entry_added_to_a_large_stream_copies_a_page_and_not_the_stream() {
    let mut bench = bench(2048, 100);
    let mut client = bench.client();
    fill(&mut bench, &mut client, "s", 20_000);
    let before = bench.server.engine.memory_parts().memtables;
    for n in 20_001..=21_000 {
        bench.run(&mut client, &format!("XADD s MAXLEN ~ 20000 {n}-1 field value{n}"));
    }
    let copied = bench.server.engine.memory_parts().memtables.saturating_sub(before);
    // The stream has about 400 KB.
    assert!(copied < 1000 * 5000 + (1 << 20), "{copied} bytes for 1,000 entries");
    assert_eq!(bench.run(&mut client, "XRANGE s 20999 + COUNT 1").matches("value").count(), 1);
}

#[test]
fn who_reads_for_a_group_with_much_pending_copies_a_few_small_pages() {
    let mut bench = bench(2048, 100);
    let mut client = bench.client();
    fill(&mut bench, &mut client, "s", 12_000);
    bench.run(&mut client, "XGROUP CREATE s g 0");
    bench.run(&mut client, "XREADGROUP GROUP g c COUNT 10000 STREAMS s >");
    let mut copied = |requests: &mut dyn FnMut(u64) -> String| {
        let before = bench.server.engine.memory_parts().memtables;
        for n in 1..=500 {
            let reply = bench.run(&mut client, &requests(n));
            assert!(!reply.starts_with('-'), "{reply}");
        }
        bench.server.engine.memory_parts().memtables.saturating_sub(before)
    };
    // The group has 560 KB of pending entries.
    for (name, requests) in [
        ("XREADGROUP", &mut |_| "XREADGROUP GROUP g d COUNT 1 STREAMS s >".to_owned()),
        ("XCLAIM", &mut |n| format!("XCLAIM s g d 0 {n}-1")),
        ("XACK", &mut |n| format!("XACK s g {}-1", 3 * n)),
        ("history", &mut |_| "XREADGROUP GROUP g d COUNT 1 STREAMS s 0".to_owned()),
    ] as [(&str, &mut dyn FnMut(u64) -> String); 4]
    {
        let copied = copied(requests);
        assert!(copied < 500 * 6000 + (1 << 20), "{name}: {copied} bytes for 500 requests");
    }
    let summary = bench.run(&mut client, "XPENDING s g");
    assert!(summary.starts_with("*4\r\n:10000\r\n"), "{summary}");
}

#[test]
fn a_stream_that_has_lost_its_last_entry_keeps_its_groups_and_its_ids() {
    for gone in ["XTRIM s MAXLEN 0", "XTRIM s MINID 99", "XADD s MAXLEN 0 41-1 f v"] {
        let (mut paged, mut whole) = (bench(24, 4), bench(u64::MAX, 4));
        for bench in [&mut paged, &mut whole] {
            let mut client = bench.client();
            fill(bench, &mut client, "s", 40);
            bench.run(&mut client, "XGROUP CREATE s g 0");
            bench.run(&mut client, "XREADGROUP GROUP g c COUNT 3 STREAMS s >");
            bench.run(&mut client, "EXPIRE s 1000");
        }
        let (mut client, mut other) = (paged.client(), whole.client());
        for line in [gone, "XINFO STREAM s FULL", "TTL s", "XADD s 50-1 f v", "XINFO STREAM s FULL"]
        {
            assert_eq!(paged.run(&mut client, line), whole.run(&mut other, line), "{gone}: {line}");
        }
    }
}

#[test]
fn a_trim_may_leave_a_page_without_entries() {
    let (mut paged, mut whole) = (bench(24, 4), bench(u64::MAX, 4));
    let (mut client, mut other) = (paged.client(), whole.client());
    fill(&mut paged, &mut client, "s", 9);
    fill(&mut whole, &mut other, "s", 9);
    // The last entry of the second node, which the trim would keep, has been deleted.
    for line in [
        "XDEL s 8-1",
        "XTRIM s MINID 8",
        "XINFO STREAM s",
        "XRANGE s - +",
        "XREAD STREAMS s 0",
        "XADD s 10-1 f v",
        "XTRIM s MAXLEN ~ 1",
        "XTRIM s MINID 10",
        "XINFO STREAM s FULL",
    ] {
        assert_eq!(paged.run(&mut client, line), whole.run(&mut other, line), "{line}");
    }
    assert_eq!(paged.run(&mut client, "XLEN s"), ":1\r\n");
}

#[test]
fn what_a_transaction_did_to_a_stream_in_pages_is_taken_back_with_it() {
    let mut bench = bench(24, 4);
    let mut client = bench.client();
    fill(&mut bench, &mut client, "s", 100);
    bench.run(&mut client, "XGROUP CREATE s g 0");
    let all = "XINFO STREAM s FULL COUNT 0";
    let before = bench.run(&mut client, all);
    let commands = [
        "MULTI",
        "XADD s 101-1 f v",
        "XTRIM s MAXLEN 20",
        "XREADGROUP GROUP g c STREAMS s >",
        "XDEL s 100-1 99-1 98-1 97-1 101-1",
        "XTRIM s MAXLEN 0",
    ];
    bench.run_all(&mut client, &commands);
    super::tests::queue_panic(&mut client, "c");
    let reply = bench.run(&mut client, "EXEC");
    assert!(reply.contains("nothing was changed"), "{reply}");
    assert_eq!(bench.run(&mut client, all), before);
    // And what stays is whole in the end.
    bench.run_all(&mut client, &commands);
    assert!(!bench.run(&mut client, "EXEC").contains("ERR"));
    assert_eq!(bench.run(&mut client, "XLEN s"), ":0\r\n");
}

#[test]
fn cold_pages_of_a_stream_are_loaded_for_who_needs_them() {
    let mut bench = bench(200, 10);
    let mut client = bench.client();
    fill(&mut bench, &mut client, "s", 5000);
    bench.run(&mut client, "XGROUP CREATE s g 0");
    for (request, most, contains) in [
        // The root, two nodes on the way, and pages.
        ("XADD s 5001-1 f v", 4, "5001-1"),
        ("XLEN s", 1, ":5001"),
        ("XRANGE s 700 + COUNT 25", 6, "value724"),
        ("XREVRANGE s 700 - COUNT 25", 6, "value676"),
        ("XREADGROUP GROUP g c COUNT 30 STREAMS s >", 8, "value30\r"),
        ("XREADGROUP GROUP g c STREAMS s 5-1", 8, "value30\r"),
        ("XACK s g 7-1 8-1 30-1", 6, ":3"),
        ("XPENDING s g - + 100", 5, "29-1"),
        ("XDEL s 11-1 2011-1 4011-1", 6, ":3"),
        ("XTRIM s MAXLEN 4000", 7, ":998"),
        ("XTRIM s MINID 1500", 7, ":500"),
        ("XINFO STREAM s", 7, "radix-tree-keys"),
    ] {
        bench.server.engine.flush().expect("flushed");
        bench.server.engine.set_memory_bound(1);
        for _ in 0..50 {
            // The holder of a shard's latch evicts its excess.
            bench.run(&mut client, "EXISTS s");
        }
        let (loads, reply) = bench.rounds(&mut client, request);
        assert!(reply.contains(contains), "{request}: {reply}");
        assert!(loads <= most, "{request}: {loads} rounds");
    }
}

#[test]
fn what_is_said_of_a_long_stream_reads_nodes_and_no_pages_but_its_ends() {
    let (mut paged, mut whole) = (bench(200, 10), bench(u64::MAX, 10));
    let mut replies = Vec::new();
    for bench in [&mut paged, &mut whole] {
        let mut client = bench.client();
        fill(bench, &mut client, "s", 5000);
        replies.push(bench.run(&mut client, "XINFO STREAM s"));
    }
    assert!(replies[0].contains("radix-tree-keys\r\n:500\r\n"), "{}", replies[0]);
    assert_eq!(replies[0], replies[1], "the tree that Redis would have");
    let mut client = paged.client();
    paged.server.engine.flush().expect("flushed");
    paged.server.engine.set_memory_bound(1);
    for _ in 0..50 {
        paged.run(&mut client, "EXISTS s");
    }
    let before = paged.server.engine.stats().cold_reads;
    let (_, reply) = paged.rounds(&mut client, "XINFO STREAM s");
    assert_eq!(reply, replies[1]);
    let reads = paged.server.engine.stats().cold_reads - before;
    assert!((10..=30).contains(&reads), "{reads} reads of 500 pages");
}
