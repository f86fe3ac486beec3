//! How much is brought into memory for those who miss it, and when it goes again.

use super::crash::small_options;
use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::sim::SimStorage;
use std::sync::mpsc;

const KEYS: usize = 20;
const VALUE_BYTES: usize = 10_000;

/// A store whose [`KEYS`] values are on the device.
fn cold_store(bound_bytes: u64) -> Engine {
    let storage = SimStorage::new();
    let options = || EngineOptions {
        memory_bound_bytes: bound_bytes,
        memtable_bytes: 1 << 20,
        ..small_options(&storage, SyncPolicy::Always, false)
    };
    let (engine, _) = Engine::open(options(), &mut replay).expect("a new store");
    for number in 0..KEYS {
        let value = vec![number as u8; VALUE_BYTES];
        run(&engine, &Op::Put(0, name(number), Meta::default(), value));
        engine.flush_now().expect("flushed");
    }
    engine.close().expect("close");
    drop(engine);
    Engine::open(options(), &mut replay).expect("the same store").0
}

fn name(number: usize) -> Vec<u8> {
    format!("key:{number:02}").into()
}

fn owned(engine: &Engine, number: usize) -> OwnedKey {
    let bytes = name(number);
    let key = key(engine, 0, &bytes);
    OwnedKey { slot: key.slot, hash: key.hash, bytes: bytes.clone() }
}

fn in_memory(engine: &Engine) -> usize {
    engine.inner().shards.iter().map(|shard| shard.latch().table.len()).sum()
}

fn load_some(
    engine: &Engine,
    numbers: std::ops::Range<usize>,
    max_bytes: usize,
) -> Result<LoadPin, EngineError> {
    let (tell, told) = mpsc::channel();
    let keys = numbers.map(|number| owned(engine, number)).collect();
    engine.load(keys, max_bytes as u64, move |result| tell.send(result).expect("a listener"));
    told.recv().expect("an answer")
}

#[test]
fn no_more_is_loaded_for_a_request_than_it_may_have() {
    let engine = cold_store(0);
    let refused = load_some(&engine, 0..KEYS, 5 * VALUE_BYTES).expect_err("too much");
    assert!(matches!(refused, EngineError::LoadTooLarge { .. }), "{refused}");
    assert_eq!(in_memory(&engine), 5);
    assert_eq!(engine.stats().cold_reads, 6, "nothing is read for those who cannot have it");
    // What fits is loaded, and what was refused once can be had.
    let _pin = load_some(&engine, 10..15, 5 * VALUE_BYTES).expect("just enough");
    assert_eq!(in_memory(&engine), 10);
    assert_eq!(get(&engine, 0, &name(19)).expect("a value").1, vec![19; VALUE_BYTES]);
    engine.abandon();
}

#[test]
fn a_single_value_is_loaded_whatever_its_size() {
    let engine = cold_store(0);
    let _pin = load_some(&engine, 3..4, 1).expect("one value");
    assert!(load_some(&engine, 4..6, 1).is_err());
    engine.abandon();
}

#[test]
fn a_refused_load_takes_nothing_from_others_who_wait_for_the_same_key() {
    let engine = cold_store(0);
    let all = load_some(&engine, 0..KEYS, usize::MAX).expect("no bound");
    let again = load_some(&engine, 0..KEYS, 1).expect("it is in memory");
    drop(all);
    drop(again);
    engine.abandon();
}

#[test]
fn what_was_loaded_beyond_the_bound_goes_with_its_pin() {
    // A shard's part of the bound has room for one value at most.
    let engine = cold_store(1 << 20);
    let pin = load_some(&engine, 0..KEYS, usize::MAX).expect("no bound");
    let held = in_memory(&engine);
    assert_eq!(held, KEYS);
    drop(pin);
    assert!(in_memory(&engine) < held, "nothing has gone");
    engine.abandon();
}
