//! SORT of collections in pages that keeps their order: only what is asked for is read.

use super::Outcome;
use super::paged_tests::{bench, bulks, cold_bench};
use super::tests::NOW_MS;

#[test]
fn a_window_of_a_set_in_pages_is_part_of_all_its_members() {
    let mut bench = bench(100);
    let mut client = bench.client();
    let members: Vec<String> = (0..2000).map(|n| format!("m{n}")).collect();
    bench.run(&mut client, &format!("SADD s {}", members.join(" ")));
    let all = bulks(&bench.run(&mut client, "SORT s BY nosort"));
    assert_eq!(all, bulks(&bench.run(&mut client, "SMEMBERS s")));
    assert_eq!(all.len(), 2000);
    for (start, count) in [(0, 5), (0, 2000), (3, 0), (700, 300), (1995, 9), (1999, 1), (2000, 1)] {
        let window = &all[start..all.len().min(start + count)];
        for order in ["ASC", "DESC"] {
            let request = format!("SORT s BY nosort {order} LIMIT {start} {count}");
            assert_eq!(bulks(&bench.run(&mut client, &request)), window, "{request}");
        }
    }
    // What is stored is sorted.
    assert_eq!(bench.run(&mut client, "SORT s BY nosort LIMIT 0 3 STORE l"), ":3\r\n");
    assert_eq!(bulks(&bench.run(&mut client, "LRANGE l 0 -1")), ["m0", "m1", "m10"]);
}

#[test]
fn a_window_of_a_cold_collection_reads_a_few_pages() {
    let (mut bench, mut client, evict) = cold_bench();
    for (request, expected) in [
        ("SORT l BY nosort LIMIT 2000 2", "*2\r\n$5\r\ne2000\r\n$5\r\ne2001\r\n"),
        ("SORT l BY nosort DESC LIMIT 0 1", "*1\r\n$5\r\ne2999\r\n"),
        ("SORT z BY nosort LIMIT 2000 1 GET #", "*1\r\n$5\r\nm2000\r\n"),
        ("SORT z BY nosort DESC LIMIT 1 1", "*1\r\n$5\r\nm2998\r\n"),
        ("SORT l BY nosort LIMIT 3000 1", "*0\r\n"),
        ("SORT l BY nosort LIMIT 2000 2 STORE few", ":2\r\n"),
    ] {
        evict(&mut bench, &mut client);
        let before = bench.server.engine.stats().cold_reads;
        let (loads, reply) = bench.rounds(&mut client, request);
        let reads = bench.server.engine.stats().cold_reads - before;
        assert_eq!(reply, expected, "{request}");
        assert!(loads <= 5 && reads <= 8, "{request}: {loads} rounds, {reads} reads");
    }
    evict(&mut bench, &mut client);
    let before = bench.server.engine.stats().cold_reads;
    let (_, reply) = bench.rounds(&mut client, "SORT s BY nosort LIMIT 0 3");
    let reads = bench.server.engine.stats().cold_reads - before;
    assert!(bulks(&reply).len() == 3 && reads <= 5, "{reads} reads: {reply}");
}

#[test]
fn a_large_window_is_handed_over_and_a_small_one_is_not() {
    let mut bench = bench(2048);
    let mut client = bench.client();
    let element = "e".repeat(200);
    for first in (0..8000).step_by(500) {
        let elements: Vec<String> = (first..first + 500).map(|n| format!("{element}{n}")).collect();
        bench.run(&mut client, &format!("RPUSH l {}", elements.join(" ")));
        bench.run(&mut client, &format!("SADD s {}", elements.join(" ")));
    }
    bench.executor.may_block = false;
    for (request, is_handed_over) in [
        ("SORT l BY nosort", true),
        ("SORT s BY nosort", true),
        ("SORT s BY nosort LIMIT 7000 1", true),
        ("SORT l ALPHA LIMIT 0 1", true),
        ("SORT l BY nosort LIMIT 7000 1", false),
        ("SORT s BY nosort LIMIT 0 5", false),
    ] {
        let (outcome, _) = bench.try_at(&mut client, request, NOW_MS);
        assert_eq!(matches!(outcome, Outcome::Offload), is_handed_over, "{request}: {outcome:?}");
        bench.executor.may_block = true;
        bench.run(&mut client, request);
        bench.executor.may_block = false;
    }
}
