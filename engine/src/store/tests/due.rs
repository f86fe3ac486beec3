//! Keys whose time has come while they are on a device (N11).

use super::crash::small_options;
use super::harness::*;
use crate::key::{EngineKey, Meta};
use crate::store::*;
use sexton_persistence::device::sim::SimStorage;
use std::collections::BTreeSet;
use std::time::Duration;

const DUE_MS: u64 = 10_000;

fn start(storage: &SimStorage) -> Engine {
    let options = EngineOptions {
        memtable_bytes: 1 << 20,
        ..small_options(storage, SyncPolicy::Always, false)
    };
    Engine::open(options, &mut replay).expect("a store that opens").0
}

fn put(engine: &Engine, number: u64, expire_at_ms: u64) {
    let name = format!("key:{number:05}").into_bytes();
    run(engine, &Op::Put(0, name, Meta { flags: 0, expire_at_ms }, vec![1; 40]));
}

/// What looks find and hand out until there is no more, at one moment.
fn drained(engine: &Engine, now_ms: u64) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut due = engine.due(now_ms, 5);
    loop {
        assert!(due.is_sorted_by_key(|due| due.hash), "latch by latch");
        keys.extend(due.into_iter().map(|due| due.key));
        engine.look_for_cold_due().expect("readable");
        due = engine.due(now_ms, 5);
        if due.is_empty() {
            return keys;
        }
    }
}

/// More keys are due at one instant than one look collects: nobody waits for the next look, and none is read
/// again from the beginning.
#[test]
fn keys_of_one_instant_come_up_once_each() {
    let storage = SimStorage::new();
    let engine = start(&storage);
    (0..100).for_each(|number| put(&engine, number, DUE_MS));
    (100..120).for_each(|number| put(&engine, number, DUE_MS + 1));
    (120..140).for_each(|number| put(&engine, number, u64::MAX / 2));
    engine.flush_now().expect("flush");
    engine.close().expect("closed");
    // After a restart nothing is in memory.
    let engine = start(&storage);
    assert!(drained(&engine, DUE_MS - 1).is_empty());
    let keys = drained(&engine, DUE_MS + 500);
    assert_eq!(keys.len(), 120);
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 120, "each once");
    engine.abandon();
}

fn put_elements(engine: &Engine, number: u64, elements_ms: u64) {
    let name = format!("key:{number:05}").into_bytes();
    let value = [&[1; 6][..], &elements_ms.to_le_bytes(), &[2; 40]].concat();
    run(engine, &Op::Put(0, name, Meta { flags: Meta::DUE_ELEMENTS, expire_at_ms: 0 }, value));
}

/// A key comes up when an element of it is due, from memory, from a device, and once more when another one is.
#[test]
fn keys_come_up_when_their_elements_are_due() {
    let storage = SimStorage::new();
    let mut engine = start(&storage);
    (0..10).for_each(|number| put_elements(&engine, number, DUE_MS + 1000 * number));
    assert_eq!(drained(&engine, DUE_MS - 1).len(), 0);
    assert_eq!(drained(&engine, DUE_MS).len(), 1, "from memory");
    put_elements(&engine, 0, DUE_MS + 500);
    for round in 1..3 {
        engine.flush_now().expect("flush");
        engine.close().expect("closed");
        engine = start(&storage);
        assert_eq!(engine.count(0).expect("counted"), 10);
        // What was worked off last is due again later; a device is looked at ten times a second.
        let earlier_ms = DUE_MS + 500 + 1000 * (round - 1);
        // A start does not know which index records are stale: whoever takes such a key finds that nothing is due.
        assert_eq!(drained(&engine, earlier_ms - 1).len() as u64, 2 * (round - 1), "round {round}");
        assert_eq!(drained(&engine, earlier_ms + 499), [b"key:00000".to_vec()], "round {round}");
        put_elements(&engine, 0, DUE_MS + 500 + 1000 * round);
        let name = format!("key:{round:05}").into_bytes();
        assert_eq!(drained(&engine, DUE_MS + 1000 * round + 499), [name], "round {round}");
        put_elements(&engine, round, DUE_MS * 100);
    }
    engine.abandon();
}

/// Whoever waits for a due time sees the first one, in memory and on a device, and is woken by an earlier one however it
/// comes about.
#[test]
fn the_next_due_time_is_known_and_an_earlier_one_rings() {
    let storage = SimStorage::new();
    let engine = start(&storage);
    // Nothing is known of the device before the first look.
    assert!(drained(&engine, 1000).is_empty());
    assert_eq!(engine.next_due_ms(), u64::MAX);
    let alarm = |before_ms| engine.inner().upkeep.due_alarm.set(before_ms);
    let has_rung = || engine.inner().upkeep.due_alarm.sleep(Duration::ZERO);
    alarm(DUE_MS);
    put(&engine, 0, DUE_MS + 500);
    assert!(!has_rung(), "it is due later than that");
    for (number, due_ms) in [(1, DUE_MS - 100), (1, DUE_MS - 200), (0, DUE_MS - 300)] {
        alarm(DUE_MS);
        put(&engine, number, due_ms);
        assert!(has_rung(), "{number} at {due_ms}");
        assert_eq!(engine.next_due_ms(), due_ms);
    }
    put(&engine, 0, DUE_MS + 300);
    assert_eq!(engine.next_due_ms(), DUE_MS - 200, "its place is another's");
    engine.flush_now().expect("flush");
    engine.close().expect("closed");
    let engine = start(&storage);
    assert!(drained(&engine, DUE_MS - 300).is_empty());
    assert_eq!(engine.next_due_ms(), DUE_MS - 200, "the first record behind the look");
    engine.abandon();
}

/// Regression: keys that had got rid of their expiry left index records that no merge dropped once writes had stopped.
#[test]
fn index_records_that_were_worked_off_are_reason_enough_to_rewrite_a_table() {
    let storage = SimStorage::new();
    let engine = start(&storage);
    let put_small = |number: u64, expire_at_ms| {
        let name = format!("key:{number:05}").into_bytes();
        run(&engine, &Op::Put(0, name, Meta { flags: 0, expire_at_ms }, vec![1]));
    };
    (0..2000).for_each(|number| put_small(number, DUE_MS));
    engine.flush_now().expect("flush");
    (0..2000).for_each(|number| put_small(number, 0));
    engine.flush_now().expect("flush");
    let has_records = || {
        let version = engine.inner().versions.current();
        version.tables().any(|(_, table)| EngineKey::is_expiry(&table.properties().max_key))
    };
    let merge = || while engine.compact_once().expect("merged") {};
    merge();
    assert!(has_records(), "they are due later");
    // Read, then worked off, then, with a mark behind it, done with.
    (0..2).for_each(|_| assert!(drained(&engine, DUE_MS).is_empty()));
    put_small(0, 0);
    engine.flush_now().expect("flush");
    assert!(drained(&engine, DUE_MS).is_empty());
    merge();
    assert!(!has_records());
    assert_eq!(engine.count(0).expect("counted"), 2000);
    engine.abandon();
}

/// Regression: after the clock had jumped forward and back nothing was looked for until it had caught up, and the
/// index records of what came due meanwhile could be dropped.
#[test]
fn a_clock_that_goes_back_hides_no_key() {
    let storage = SimStorage::new();
    let engine = start(&storage);
    (0..20).for_each(|number| put(&engine, number, DUE_MS + 1000 * number));
    engine.flush_now().expect("flush");
    engine.close().expect("closed");
    let engine = start(&storage);
    assert!(drained(&engine, DUE_MS - 1).is_empty());
    // They are handed out, and their taker finds that they are not due.
    assert_eq!(drained(&engine, DUE_MS + 3_600_000).len(), 20);
    let mut found: BTreeSet<_> = drained(&engine, DUE_MS).into_iter().collect();
    run(&engine, &Op::Put(1, b"other".to_vec(), Meta::default(), vec![1; 40]));
    engine.flush_now().expect("flush");
    for second in 0..20 {
        found.extend(drained(&engine, DUE_MS + 1000 * second));
        assert_eq!(found.len() as u64, second + 1);
        let droppable_ms = engine.inner().upkeep.cold_due.lock().droppable_ms();
        assert!(droppable_ms <= DUE_MS + 1000 * second, "{droppable_ms}");
    }
    engine.abandon();
}

/// Keys get another due time, lose it, go and come back, are evicted and read again: what is remembered of due times
/// is bounded by the keys in memory, and goes with them.
#[test]
fn due_times_take_no_more_memory_than_the_keys_that_have_one() {
    const KEYS: u64 = 400;
    let storage = SimStorage::new();
    let engine = start(&storage);
    let far_ms = 1 << 50;
    for round in 0..100 {
        if round % 10 == 0 {
            engine.flush_now().expect("flush");
        }
        for number in 0..KEYS {
            // Later, earlier, and the same again.
            put(&engine, number, far_ms + [round, 200 - round, 0][(number % 3) as usize]);
            match (round + number) % 7 {
                0 => put(&engine, number, 0),
                1 => drop(run(&engine, &Op::Delete(0, format!("key:{number:05}").into_bytes()))),
                _ => {}
            }
        }
    }
    let held = || engine.inner().shards.iter().map(|shard| shard.latch().table.due_bytes());
    // An item of 16 bytes each, doubling vectors of them, and what lists them.
    let most = |keys: u64| keys as usize * 32 + engine.inner().shards.len() * 160;
    assert!(held().sum::<usize>() <= most(KEYS), "{} bytes", held().sum::<usize>());
    (0..KEYS).for_each(|number| put(&engine, number, far_ms));
    engine.flush_now().expect("flush");
    for round in 0..50 {
        // A bound that holds nothing: what files have leaves the table with the next transaction.
        engine.set_memory_bound(1);
        for shard in &engine.inner().shards {
            engine.keep_within_bound(&mut shard.latch());
        }
        engine.set_memory_bound(0);
        for number in 0..KEYS {
            let found = get(&engine, 0, format!("key:{number:05}").as_bytes());
            assert_eq!(found.map(|(meta, _)| meta.expire_at_ms), Some(far_ms), "round {round}");
        }
    }
    assert!(engine.stats().cold_reads > KEYS, "keys were evicted and read again");
    assert!(held().sum::<usize>() <= most(KEYS), "{} bytes", held().sum::<usize>());
    (0..KEYS).for_each(|number| {
        run(&engine, &Op::Delete(0, format!("key:{number:05}").into_bytes()));
    });
    assert_eq!(held().sum::<usize>(), 0, "they went with their keys");
    engine.abandon();
}
