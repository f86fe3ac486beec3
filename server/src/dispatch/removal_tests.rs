//! Removals of more than a request may load: piece by piece, with the outcome of one that removes all at once.

use super::client::Client;
use super::search_tests::{evict, run_bounded};
use super::tests::Bench;
use crate::value::thresholds::Thresholds;

/// Elements of a collection: far more bytes than a request may load, or than a piece may have.
const ELEMENTS: usize = 4000;

/// The list `l`, the sorted set `z` or the stream `s`, in pages or whole in its root. Of one in pages no more is in memory than must be.
fn bench(key: &str, is_paged: bool) -> (Bench, Client) {
    let mut bench = Bench::new();
    let thresholds = &bench.server.settings.thresholds;
    let inline_bytes = if is_paged { 200 } else { u64::MAX };
    thresholds.set(Thresholds { inline_bytes, sorted_set_entries: 4, ..thresholds.now() });
    let mut client = bench.client();
    for start in (0..ELEMENTS).step_by(100) {
        let numbers = start..start + 100;
        let elements = numbers.clone().map(|number| match key {
            "l" => format!("{number:0>150}"),
            "z" => format!("{} {:0>150}", number / 3, number * 7 % ELEMENTS),
            _ => format!("XADD s {}-1 f {number:0>150}", number + 1),
        });
        let elements: Vec<String> = elements.collect();
        match key {
            "l" => drop(bench.run(&mut client, &format!("RPUSH l {}", elements.join(" ")))),
            "z" => drop(bench.run(&mut client, &format!("ZADD z {}", elements.join(" ")))),
            _ => elements.iter().for_each(|line| drop(bench.run(&mut client, line))),
        }
    }
    if is_paged {
        bench.server.engine.set_memory_bound(1);
        evict(&mut bench);
    }
    (bench, client)
}

fn content(bench: &mut Bench, client: &mut Client, key: &str) -> String {
    let line = match key {
        "l" => "LRANGE l 0 -1",
        "z" => "ZRANGE z 0 -1 WITHSCORES",
        _ => "XRANGE s - +",
    };
    bench.server.engine.set_memory_bound(0);
    bench.run(client, line)
}

fn key_of(line: &str) -> &str {
    line.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn what_is_removed_in_pieces_is_what_one_run_removes() {
    for (line, in_pieces) in [
        ("LTRIM l 0 99", true),
        ("LTRIM l 2000 2499", true),
        ("LTRIM l -1500 -1", true),
        ("LTRIM l 1300 -1400", true),
        ("LTRIM l 9000 1", false),
        ("ZREMRANGEBYRANK z 0 2999", true),
        ("ZREMRANGEBYRANK z -3000 -100", true),
        ("ZREMRANGEBYSCORE z 100 (1000", true),
        ("ZREMRANGEBYSCORE z -inf +inf", false),
        ("XTRIM s MAXLEN 50", true),
        ("XTRIM s MAXLEN ~ 50 LIMIT 2800", true),
        ("XTRIM s MINID 3555-1", true),
        ("XTRIM s MINID 99999", true),
        ("XADD s MAXLEN 10 7000-1 f v", true),
        ("XADD s MINID ~ 3000 7000-1 f v", true),
    ] {
        let key = key_of(line);
        let ((mut cold, mut client), (mut whole, mut other)) =
            (bench(key, true), bench(key, false));
        let before = cold.server.engine.last_seq();
        let reply = run_bounded((&mut cold, &mut client), line, |_, _| {});
        assert_eq!(reply, whole.run(&mut other, line), "{line}");
        let operations = cold.server.engine.last_seq() - before;
        assert_eq!(operations > 3, in_pieces, "{line}: {operations} operations");
        let found = content(&mut cold, &mut client, key);
        assert!(found == content(&mut whole, &mut other, key), "{line}");
    }
}

#[test]
fn what_others_do_between_two_pieces_stays_done() {
    let second = "ZADD z -5 new 7 new2 900 new3";
    for (line, change, reply, look, expected) in [
        ("LTRIM l 0 99", "LPUSH l new", "+OK", "LLEN l", ":101"),
        ("LTRIM l 3000 -1", "RPUSH l new", "+OK", "LLEN l", ":1001"),
        ("LTRIM l 0 99", "DEL l", "+OK", "EXISTS l", ":0"),
        ("LTRIM l 0 1", "SET l string", "+OK", "TYPE l", "+string"),
        ("ZREMRANGEBYRANK z 0 2999", "ZADD z 5000 new", ":3000", "ZCARD z", ":1001"),
        ("ZREMRANGEBYSCORE z 600 1100", second, ":1503", "ZCARD z", ":2500"),
        ("XTRIM s MAXLEN 50", "XADD s 9000-1 f v", ":3950", "XLEN s", ":51"),
        ("XADD s MAXLEN 1 9000-1 f v", "XADD s 8000-1 f v", "$6\r\n9000-1", "XLEN s", ":1"),
    ] {
        let (mut bench, mut client) = bench(key_of(line), true);
        let (begun, mut done) = (bench.server.engine.last_seq(), false);
        let replied = run_bounded((&mut bench, &mut client), line, |bench, _| {
            if !done && bench.server.engine.last_seq() > begun {
                let mut other = bench.client();
                let reply = bench.run(&mut other, change);
                assert!(!reply.starts_with('-'), "{change}: {reply}");
                done = true;
            }
        });
        assert!(done, "{line} was not interrupted");
        assert!(replied.starts_with(reply), "{change}, {line}: {replied}");
        let looked = bench.run(&mut client, look);
        assert_eq!(looked.trim_end(), expected, "{change}, {line}");
    }
}

#[test]
fn a_piece_that_cannot_be_loaded_becomes_smaller() {
    let mut bench = Bench::new();
    let thresholds = &bench.server.settings.thresholds;
    thresholds.set(Thresholds { inline_bytes: 200, ..thresholds.now() });
    let mut client = bench.client();
    // The average says nothing of the elements at the end.
    bench.run(&mut client, &format!("RPUSH l {}", "x ".repeat(20_000).trim_end()));
    for _ in 0..20 {
        bench.run(
            &mut client,
            &format!("RPUSH l {}", format!("{} ", "y".repeat(400)).repeat(100).trim_end()),
        );
    }
    bench.server.engine.set_memory_bound(1);
    evict(&mut bench);
    let mut refused = 0;
    let reply = run_bounded((&mut bench, &mut client), "LTRIM l 0 9999", |_, _| {
        refused += 1;
    });
    assert!(refused > 3 && reply.starts_with("+OK"), "{refused} runs: {reply}");
    assert_eq!(bench.run(&mut client, "LLEN l"), ":10000\r\n");
}

#[test]
fn a_transaction_removes_all_at_once() {
    let (mut bench, mut client) = bench("z", true);
    let before = bench.server.engine.last_seq();
    bench.run_all(&mut client, &["MULTI", "ZREMRANGEBYRANK z 0 2999"]);
    assert_eq!(bench.run(&mut client, "EXEC"), "*1\r\n:3000\r\n");
    assert_eq!(bench.server.engine.last_seq(), before + 1);
}
