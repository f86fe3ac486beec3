//! Searches through lists of which a request may hold a part only.

use super::Outcome;
use super::client::Client;
use super::paged_tests::Random;
use super::tests::{Bench, NOW_MS};
use crate::client_memory::load_max_bytes;
use crate::keyspace::{Pins, load_blocking};
use crate::value::thresholds::Thresholds;
use sexton_engine::EngineError;

/// Elements of the list `l`: far more bytes than a request may load.
const ELEMENTS: usize = 4000;

fn element(number: usize) -> String {
    format!("{:0>120}", number % 500)
}

/// A list in pages, and a client. What can go out of memory goes at once.
fn bench(inline_bytes: u64) -> (Bench, Client) {
    let mut bench = Bench::new();
    let thresholds = &bench.server.settings.thresholds;
    thresholds.set(Thresholds { inline_bytes, ..thresholds.now() });
    let mut client = bench.client();
    for start in (0..ELEMENTS).step_by(100) {
        let elements: Vec<String> = (start..start + 100).map(element).collect();
        bench.run(&mut client, &format!("RPUSH l {}", elements.join(" ")));
    }
    if inline_bytes < u64::MAX {
        bench.server.engine.set_memory_bound(1);
    }
    (bench, client)
}

pub(super) fn evict(bench: &mut Bench) {
    bench.server.engine.flush().expect("flushed");
    let mut other = bench.client();
    for _ in 0..50 {
        // The holder of a shard's latch evicts its excess.
        bench.run(&mut other, "EXISTS l");
    }
}

/// Runs a request as a connection does: what is loaded for it together is bounded. `between` happens before each run but the first.
pub(super) fn run_bounded(
    (bench, client): (&mut Bench, &mut Client),
    line: &str,
    mut between: impl FnMut(&mut Bench, usize),
) -> String {
    let mut pins = Pins::default();
    for round in 0..10_000 {
        match bench.try_at(client, line, NOW_MS) {
            (Outcome::Done(_), reply) => {
                let keeps = client.search.is_some() || client.removal.is_some();
                assert!(!keeps && !client.lets_go, "{line}");
                assert!(!bench.server.events.watches.is_used(), "{line}");
                return reply;
            }
            (Outcome::Cold(wanted), _) => {
                client.let_go(&mut pins);
                let max_bytes = pins.room_bytes(load_max_bytes(&bench.server), &wanted);
                match load_blocking(&bench.server, wanted, max_bytes) {
                    Ok(pin) => pins.push(pin),
                    Err(EngineError::LoadTooLarge { .. }) => client.load_refused = true,
                    Err(error) => panic!("{error}"),
                }
                between(bench, round);
            }
            (Outcome::Paced, _) => bench.catch_up(),
            (outcome, _) => panic!("{line}: {outcome:?}"),
        }
    }
    panic!("{line} runs without end");
}

fn command(random: &mut Random) -> String {
    let wanted = match random.below(6) {
        0 => "none".to_owned(),
        _ => element(random.below(500) as usize),
    };
    let rank = random.below(19) as i64 - 9;
    match random.below(9) {
        0 => format!("LPOS l {wanted}"),
        1 => format!("LPOS l {wanted} RANK {}", if rank == 0 { 1 } else { rank }),
        2 => format!("LPOS l {wanted} RANK {} COUNT {}", rank | 1, random.below(5)),
        3 => format!("LPOS l {wanted} COUNT 0 MAXLEN {}", random.below(5000)),
        4 => format!("LPOS l {wanted} RANK -1 COUNT 0 MAXLEN {}", random.below(5000)),
        5 => format!("LREM l {} {wanted}", random.below(7) as i64 - 3),
        6 => format!("LINSERT l BEFORE {wanted} {}", element(random.below(500) as usize)),
        7 => format!("LINSERT l AFTER {wanted} {}", element(random.below(500) as usize)),
        _ => format!("LSET l {} {wanted}", random.below(100)),
    }
}

#[test]
fn searches_of_a_list_larger_than_a_request_may_hold_answer_as_those_in_memory() {
    let ((mut cold, mut client), (mut whole, mut other)) = (bench(200), bench(u64::MAX));
    let mut random = Random(0x5ea2c4);
    for step in 0..250 {
        evict(&mut cold);
        let line = command(&mut random);
        let mut rounds = 0;
        let reply = run_bounded((&mut cold, &mut client), &line, |_, _| rounds += 1);
        assert_eq!(reply, whole.run(&mut other, &line), "step {step}: {line}");
        let finds_nothing = reply == ":-1\r\n" || reply == "$-1\r\n";
        if finds_nothing && !line.contains("MAXLEN") {
            assert!(rounds > 5, "{rounds} rounds: nothing was let go");
        }
    }
    for start in (0..2 * ELEMENTS).step_by(500) {
        let line = format!("LRANGE l {start} {}", start + 499);
        assert_eq!(cold.run(&mut client, &line), whole.run(&mut other, &line), "{line}");
    }
}

#[test]
fn a_search_is_of_the_list_as_it_is_at_the_end() {
    let wanted = element(499);
    // A push moves all numbers. A change that leaves the root as it was is one of an element that was passed.
    let same_length = format!("LSET l 7 {wanted}");
    for (change, line, expected) in [
        ("LPUSH l first", format!("LPOS l {wanted}"), ":500\r\n"),
        (&*same_length, format!("LPOS l {wanted} RANK 9"), ":3999\r\n"),
        (&*same_length, format!("LREM l 0 {wanted}"), ":9\r\n"),
        (&*same_length, format!("LPOS l {wanted}"), ":7\r\n"),
        ("DEL l", format!("LPOS l {wanted}"), "$-1\r\n"),
        ("DEL l", format!("LINSERT l BEFORE {wanted} x"), ":0\r\n"),
        ("SET l string", format!("LREM l 1 {wanted}"), "-WRONGTYPE"),
    ] {
        let (mut bench, mut client) = bench(200);
        evict(&mut bench);
        let mut done = false;
        let reply = run_bounded((&mut bench, &mut client), &line, |bench, round| {
            if round == 2 {
                let mut other = bench.client();
                bench.run(&mut other, change);
                done = true;
            }
        });
        assert!(done, "{line} was not interrupted");
        assert!(reply.starts_with(expected), "{change}, {line}: {reply}");
    }
}

#[test]
fn a_search_that_is_disturbed_again_and_again_is_refused() {
    let (mut bench, mut client) = bench(200);
    for line in ["LPOS l none", "LREM l 0 none", "LINSERT l BEFORE none x"] {
        evict(&mut bench);
        let mut rounds = 0;
        let reply = run_bounded((&mut bench, &mut client), line, |bench, _| {
            let mut other = bench.client();
            bench.run(&mut other, "RPUSH l more");
            rounds += 1;
        });
        assert!(reply.starts_with("-OOM"), "{line}: {reply}");
        assert!(rounds < 30, "{rounds} rounds");
    }
    assert_eq!(bench.run(&mut client, "LPOS l more RANK -1 MAXLEN 1").get(..1), Some(":"));
}

#[test]
fn a_removal_of_more_than_a_request_may_hold_changes_nothing() {
    let (mut bench, mut client) = bench(200);
    for number in (0..ELEMENTS).step_by(5) {
        bench.run(&mut client, &format!("LSET l {number} same"));
    }
    evict(&mut bench);
    let before = bench.run(&mut client, "LLEN l");
    let reply = run_bounded((&mut bench, &mut client), "LREM l 0 same", |_, _| {});
    assert!(reply.starts_with("-OOM"), "{reply}");
    assert_eq!(bench.run(&mut client, "LLEN l"), before);
    evict(&mut bench);
    let reply = run_bounded((&mut bench, &mut client), "LREM l -9 same", |_, _| {});
    assert_eq!(reply, ":9\r\n");
}

#[test]
fn transactions_and_replay_search_lists_that_are_not_in_memory() {
    let (mut bench, mut client) = bench(200);
    evict(&mut bench);
    let wanted = element(499);
    let lines =
        ["MULTI".to_owned(), format!("LPOS l {wanted} RANK -1"), format!("LREM l -1 {wanted}")];
    lines.iter().for_each(|line| drop(bench.run(&mut client, line)));
    assert_eq!(bench.run(&mut client, "EXEC"), "*2\r\n:3999\r\n:1\r\n");
    evict(&mut bench);
    for (words, len) in [
        (vec!["LREM", "l", "1", &*wanted], 3998),
        (vec!["LINSERT", "l", "AFTER", &*wanted, "x"], 3999),
    ] {
        let (buf, ranges) = crate::resp::pack(words.iter().map(|word| word.as_bytes()));
        let args = super::Args::new(&buf, &ranges);
        let replayed = bench.executor.replay_request(&bench.server, &mut client, args);
        assert_eq!(replayed, Ok(()));
        bench.executor.replaying = false;
        assert!(client.search.is_none() && !bench.server.events.watches.is_used());
        assert_eq!(bench.run(&mut client, "LLEN l"), format!(":{len}\r\n"));
        evict(&mut bench);
    }
    // The second of the eight that are left stands behind the first, which has gone.
    assert_eq!(bench.run(&mut client, "LINDEX l 999"), "$1\r\nx\r\n");
}
