//! How much is loaded into memory for waiters, and when it is dropped again.

use super::crash::small_options;
use super::harness::*;
use super::paged::{Descriptor, put_paged};
use crate::key::Meta;
use crate::page::{PageId, PartKind};
use crate::store::read::load::{Load, LoadState};
use crate::store::shard::SHARDS;
use crate::store::shard::shard_of;
use crate::store::*;
use sexton_persistence::device::sim::SimStorage;
use std::sync::mpsc;

const KEYS: usize = 20;
const VALUE_BYTES: usize = 10_000;

/// A store whose [`KEYS`] values are on the device.
fn cold_store(bound_bytes: u64) -> Engine {
    store_of(KEYS, VALUE_BYTES, bound_bytes)
}

/// A store whose values are on the device, in [`KEYS`] tables.
fn store_of(keys: usize, value_bytes: usize, bound_bytes: u64) -> Engine {
    let storage = SimStorage::new();
    let options = || EngineOptions {
        memory_bound_bytes: bound_bytes,
        memtable_bytes: 1 << 20,
        ..small_options(&storage, SyncPolicy::Always, false)
    };
    let (engine, _) = Engine::open(options(), &mut replay).expect("a new store");
    for number in 0..keys {
        let value = vec![number as u8; value_bytes];
        run(&engine, &Op::Put(0, name(number), Meta::default(), value));
        if (number + 1) % (keys / KEYS) == 0 {
            engine.flush_now().expect("flushed");
        }
    }
    engine.close().expect("close");
    drop(engine);
    Engine::open(options(), &mut replay).expect("the same store").0
}

/// No key is loading or pinned.
fn nothing_is_loading(engine: &Engine) -> bool {
    engine.inner().shards.iter().all(|shard| shard.latch().loads.is_empty())
}

#[test]
fn a_request_for_many_keys_asks_for_some_of_them_at_a_time() {
    const MANY: usize = 1_000;
    let engine = store_of(MANY, 100, 0);
    let refused = load_some(&engine, 0..MANY, 50 * 100).expect_err("too much");
    assert!(matches!(refused, EngineError::LoadTooLarge { .. }), "{refused}");
    assert!(nothing_is_loading(&engine), "what was not asked for has no pin to lose");
    assert_eq!(in_memory(&engine), 50, "no more than it may have");
    // One of those that were never asked for, and all of them.
    let pin = load_some(&engine, MANY - 1..MANY, usize::MAX).expect("no bound");
    let all = load_some(&engine, 0..MANY, usize::MAX).expect("no bound");
    assert_eq!(in_memory(&engine), MANY);
    engine.inner().memory.table_bound.set(0);
    drop(all);
    assert_eq!(in_memory(&engine), 1, "that is pinned");
    drop(pin);
    assert!(nothing_is_loading(&engine) && in_memory(&engine) == 0);
    engine.abandon();
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

/// What the tables hold without a value.
fn held_when_empty(engine: &Engine) -> usize {
    let inner = engine.inner();
    for shard in &inner.shards {
        engine.note_table_bytes(&mut shard.latch());
    }
    inner.memory.table_bound.held_bytes()
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
    let engine = cold_store(0);
    let bound = &engine.inner().memory.table_bound;
    let empty = held_when_empty(&engine);
    let pin = load_some(&engine, 0..KEYS, usize::MAX).expect("no bound");
    bound.set(empty + (bound.held_bytes() - empty) / 2);
    engine.keep_shards_within_bound();
    assert_eq!(in_memory(&engine), KEYS, "they are pinned");
    drop(pin);
    let left = in_memory(&engine);
    assert!(bound.excess_bytes() == 0 && left < KEYS, "{left} values left");
    // About half, in whichever shards they are.
    assert!(left >= KEYS / 4, "{left} values left");
    engine.abandon();
}

#[test]
fn a_shard_may_hold_more_than_its_share_while_the_others_hold_less() {
    let engine = cold_store(0);
    let bound = &engine.inner().memory.table_bound;
    let empty = held_when_empty(&engine);
    drop(load_some(&engine, 0..1, usize::MAX).expect("no bound"));
    // An equal share is less than one value.
    bound.set(empty + 8 * VALUE_BYTES);
    assert!(bound.bytes() / SHARDS < VALUE_BYTES + empty / SHARDS);
    drop(load_some(&engine, 0..4, usize::MAX).expect("no bound"));
    assert_eq!(in_memory(&engine), 4);
    // What is loaded next takes the place of what is there, whose shards are others.
    drop(load_some(&engine, 4..KEYS, usize::MAX).expect("no bound"));
    let left = in_memory(&engine);
    assert!(bound.excess_bytes() == 0 && (4..KEYS).contains(&left), "{left} values left");
    engine.abandon();
}

/// Keys in one table, and a name between them of which only the device can tell that it is not there.
fn cold_absent() -> (Engine, Vec<u8>) {
    let storage = SimStorage::new();
    let options = || EngineOptions {
        memtable_bytes: 1 << 20,
        ..small_options(&storage, SyncPolicy::Always, false)
    };
    let (engine, _) = Engine::open(options(), &mut replay).expect("a new store");
    for number in 0..KEYS {
        run(&engine, &Op::Put(0, name(number), Meta::default(), vec![1]));
    }
    engine.flush_now().expect("flushed");
    engine.close().expect("close");
    drop(engine);
    let engine = Engine::open(options(), &mut replay).expect("the same store").0;
    let mut names = (0..100_000).map(|number| format!("key:10:{number}").into_bytes());
    let absent = names.find(|name| is_cold(&engine, name)).expect("a filter that is wrong once");
    (engine, absent)
}

fn is_cold(engine: &Engine, name: &[u8]) -> bool {
    let (mut buf, key) = (TxBuf::default(), key(engine, 0, name));
    matches!(engine.begin(Latched::Hashes(&[key.hash]), &mut buf).find(key), Found::Cold)
}

/// Writes `name` in every way there is, and takes all of it back.
fn write_and_take_back(engine: &Engine, name: &[u8]) {
    let (mut buf, key) = (TxBuf::default(), key(engine, 0, name));
    let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
    for value in [b"one", b"two"] {
        tx.put(key, Meta::default(), value);
        tx.put(key, Meta::default(), b"again");
        tx.set_meta(key, Meta { flags: 1, ..Meta::default() });
        assert!(tx.delete(key));
    }
}

/// Regression: a write that was taken back left the key unknown, so that each retry read the device again, forever.
#[test]
fn a_write_that_is_taken_back_leaves_an_absent_key_known() {
    let (engine, absent) = cold_absent();
    let pin = load(&engine, 0, &absent);
    assert!(!is_cold(&engine, &absent));
    write_and_take_back(&engine, &absent);
    assert!(!is_cold(&engine, &absent), "what the load has found is forgotten");
    // What is written stays written, whatever others take back behind it.
    run(&engine, &Op::Put(0, absent.clone(), Meta::default(), b"new".to_vec()));
    write_and_take_back(&engine, &absent);
    assert_eq!(get(&engine, 0, &absent).expect("a value").1, b"new");
    run(&engine, &Op::Delete(0, absent.clone()));
    write_and_take_back(&engine, &absent);
    assert_eq!(get(&engine, 0, &absent), None);
    drop(pin);
    engine.abandon();
}

/// The state of the load of `name`, which there is.
fn state(engine: &Engine, name: &[u8]) -> LoadState {
    let key = key(engine, 0, name);
    let shard = engine.inner().shards[shard_of(key.hash)].latch();
    shard.loads.get(key.slot, key.bytes).expect("a load").state
}

#[test]
fn what_overtakes_a_load_and_is_not_taken_back_stays_ahead_of_it() {
    let (engine, absent) = cold_absent();
    let key = key(&engine, 0, &absent);
    let owned = OwnedKey { slot: key.slot, hash: key.hash, bytes: absent.clone() };
    for before in [LoadState::Reading { ticket: 7 }, LoadState::Absent, LoadState::Overtaken] {
        let load = Load { state: before, pins: 1, waiters: Vec::new() };
        engine.inner().shards[shard_of(key.hash)].latch().loads.insert(&owned, load);
        write_and_take_back(&engine, &absent);
        assert_eq!(state(&engine, &absent), before);
        run(&engine, &Op::Put(0, absent.clone(), Meta::default(), vec![1]));
        write_and_take_back(&engine, &absent);
        assert_eq!(state(&engine, &absent), LoadState::Overtaken, "after {before:?}");
        run(&engine, &Op::Delete(0, absent.clone()));
        engine.inner().shards[shard_of(key.hash)].latch().loads.remove(key.slot, key.bytes);
    }
    engine.abandon();
}

#[test]
fn a_value_that_was_loaded_stays_loaded_when_a_write_is_taken_back() {
    let (engine, _) = cold_absent();
    let pin = load(&engine, 0, &name(3));
    write_and_take_back(&engine, &name(3));
    assert_eq!(state(&engine, &name(3)), LoadState::Filled);
    assert_eq!(get(&engine, 0, &name(3)).expect("a value").1, [1]);
    drop(pin);
    engine.abandon();
}

#[test]
fn a_page_that_was_found_absent_stays_known_when_its_write_is_taken_back() {
    let (engine, absent) = cold_absent();
    let root = key(&engine, 0, &absent);
    let owned = OwnedKey { slot: root.slot, hash: root.hash, bytes: absent.clone() };
    let cid = engine.new_collection().expect("it takes pages");
    let descriptor = Descriptor { cid, pages: 2, count: 1 }.encode();
    let page = PageId { part: PartKind::Hash, number: 1 };
    let (want, mut buf) = (Want::page_of(&owned, cid, page.into()), TxBuf::default());
    let page_load = |engine: &Engine| {
        let shard = engine.inner().shards[shard_of(root.hash)].latch();
        shard.page_loads.get(want.key.slot, &want.key.bytes).map(|load| load.state)
    };
    let load = Load { state: LoadState::Absent, pins: 1, waiters: Vec::new() };
    engine.inner().shards[shard_of(root.hash)].latch().page_loads.insert(&want.key, load);
    let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
    for content in [Some(b"x".to_vec()), None, Some(b"y".to_vec())] {
        put_paged(&mut tx, root, cid, (Meta::default(), &descriptor), &[(page, content)]);
    }
    drop(tx);
    assert_eq!(page_load(&engine), Some(LoadState::Absent));
    let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
    put_paged(&mut tx, root, cid, (Meta::default(), &descriptor), &[(page, Some(b"z".to_vec()))]);
    tx.commit();
    assert_eq!(page_load(&engine), Some(LoadState::Overtaken));
    engine.abandon();
}
