//! Compares requests on one key that share a transaction with the long way, where each has its own.

use super::ways::{NOW_MS, Read, Terms, long_way, short_way};
use crate::dispatch::Step;
use sexton_persistence::device::sim::SimRandom;

/// Collections above this lie in pages.
const INLINE_BYTES: u64 = 120;

/// The key `k`, and a command on it; of a key of several types some fail.
fn request(random: &mut SimRandom, kind: u64, key: &str) -> String {
    let n = random.below(40);
    let what = random.below(8);
    match kind {
        0 => match what {
            0..4 => format!("HSET {key} f{n} v{what}"),
            4 => format!("HINCRBY {key} n{what} {n}"),
            5 => format!("HDEL {key} f{n} n1"),
            6 => format!("HMGET {key} f{n} n1"),
            _ => format!("HGET {key} f{n}"),
        },
        1 => match what {
            0..3 => format!("LPUSH {key} e{n}"),
            3..5 => format!("RPUSH {key} e{n} more"),
            5 => format!("RPOP {key}"),
            6 => format!("LLEN {key}"),
            _ => format!("LPOP {key} 2"),
        },
        2 => match what {
            0..4 => format!("SADD {key} m{n}"),
            4 => format!("SCARD {key}"),
            5 => format!("SREM {key} m{n}"),
            _ => format!("SISMEMBER {key} m{n}"),
        },
        3 => match what {
            0..3 => format!("ZADD {key} {what}.5 m{n}"),
            3 => format!("ZINCRBY {key} {n} m{n}"),
            4 => format!("ZRANK {key} m{n}"),
            5 => format!("ZPOPMIN {key}"),
            6 => format!("ZREM {key} m{n}"),
            _ => format!("ZSCORE {key} m{n}"),
        },
        4 => match what {
            0..2 => format!("INCR {key}"),
            2 => format!("APPEND {key} {n}"),
            3 => format!("GETDEL {key}"),
            4 => format!("PEXPIRE {key} 1500"),
            5 => format!("SETNX {key} 7"),
            6 => format!("TTL {key}"),
            _ => format!("GETSET {key} {n}"),
        },
        _ => match what {
            0..4 => format!("XADD {key} * f {n}"),
            4 => format!("XLEN {key}"),
            5 => format!("PERSIST {key}"),
            6 => format!("XDEL {key} {NOW_MS}-{what}"),
            _ => format!("EXPIRE {key} -1"),
        },
    }
}

/// Reads of several requests on one key, and of some on the next one.
fn history(seed: u64) -> Vec<Read> {
    let random = &mut SimRandom::new(seed);
    let mut read = || {
        let mut requests = Read::new();
        for _ in 0..1 + random.below(4) {
            let kind = random.below(6);
            let keys = ["h", "l", "s", "z", "t", "x", "due"];
            let key = if random.percent(15) { "due" } else { keys[kind as usize] };
            for _ in 0..1 + random.below(12) {
                let kind = if random.percent(5) { random.below(6) } else { kind };
                let line = request(random, kind, key);
                requests.push(line.split(' ').map(|word| word.as_bytes().to_vec()).collect());
            }
        }
        requests
    };
    (0..60).map(|_| read()).collect()
}

/// Seeds of stores where a read may have several requests.
const DRAWN: [u64; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

#[test]
fn requests_that_share_a_transaction_leave_the_traces_of_the_long_way() {
    let mut joined = 0;
    for seed in DRAWN {
        let reads = history(seed);
        let terms = Terms { drawn: Some(seed), inline_bytes: Some(INLINE_BYTES), ..Terms::PLAIN };
        let (short, long) = (short_way(terms, &reads), long_way(terms, &reads));
        let apart = short_way(Terms { without: Some(Step::Joining), ..terms }, &reads);
        apart.assert_same(&long, &format!("{terms:?}, each by itself"));
        // A key that changes several times in one transaction has one record, and events are told when it ends.
        let differences: Vec<_> = short
            .differences(&long)
            .into_iter()
            .filter(|(name, _)| !["events", "memory", "engine"].contains(name))
            .collect();
        assert!(differences.is_empty(), "{terms:?}: {differences:?}");
        assert_eq!(short.events.bytes, long.events.bytes, "{terms:?}");
        let ends = |marks: &[(usize, u64)]| marks.last().map(|&(_, required)| required);
        assert_eq!(ends(&short.events.marks), ends(&long.events.marks));
        joined += long.events.marks.len().saturating_sub(short.events.marks.len());
        assert!(long.errors.iter().any(|(name, _)| name == "WRONGTYPE"), "{:?}", long.errors);
    }
    assert!(joined > 500, "{joined} commands were told of with those behind them");
}
