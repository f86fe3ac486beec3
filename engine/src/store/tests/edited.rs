//! Values that are written whole and differ little from what was there: they change in their blocks (E1 to E3).

use super::crash::small_options;
use super::harness::{freeze, key, replay};
use crate::key::{Key, Meta};
use crate::memtable::MemtableKind;
use crate::store::*;
use sexton_persistence::device::sim::{SimRandom, SimStorage};

const NAME: &[u8] = b"edited";
const META: Meta = Meta { flags: 4, expire_at_ms: 0 };

fn start(memtable: MemtableKind) -> Engine {
    let options = small_options(&SimStorage::new(), SyncPolicy::Always, false);
    let options = EngineOptions { memtable, memtable_bytes: 1 << 20, ..options };
    Engine::open(options, &mut replay).expect("a new store").0
}

/// An edit to a value: as a whole, or of the part that differs.
fn put(tx: &mut Tx<'_>, key: Key<'_>, meta: Meta, value: &[u8]) {
    let old = match tx.find(key) {
        Found::Live(entry) if value.len().is_multiple_of(2) => entry.value().to_vec(),
        _ => return tx.put_edited(key, meta, value),
    };
    let start = old.iter().zip(value).take_while(|(a, b)| a == b).count();
    let behind = old[start..].iter().rev().zip(value[start..].iter().rev());
    let end = behind.take_while(|(a, b)| a == b).count();
    let part = (start..old.len() - end, &value[start..value.len() - end]);
    if !tx.put_part(key, meta, part) {
        tx.put_edited(key, meta, value);
    }
}

/// One transaction with an edit to each of these values.
fn edit<'v>(engine: &Engine, meta: Meta, values: impl IntoIterator<Item = &'v Vec<u8>>) -> Commit {
    let (key, mut buf) = (key(engine, 0, NAME), TxBuf::default());
    let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
    for value in values {
        put(&mut tx, key, meta, value);
    }
    tx.commit()
}

fn value(engine: &Engine) -> (Meta, Vec<u8>) {
    let (key, mut buf) = (key(engine, 0, NAME), TxBuf::default());
    let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
    let Found::Live(entry) = tx.find(key) else { panic!("a value") };
    (entry.meta(), entry.value().to_vec())
}

fn records_bytes(engine: &Engine) -> u64 {
    engine.stats().memtable_bytes
}

#[test]
fn a_value_that_is_edited_again_in_its_epoch_has_one_record() {
    let engine = start(MemtableKind::Hash);
    let mut content = vec![b'a'; 1000];
    edit(&engine, META, [&content]);
    let first = records_bytes(&engine);
    edit(&engine, META, [&content]);
    assert!(records_bytes(&engine) > first, "what was put whole gets its block by an edit");
    content.resize(1030, b'b');
    edit(&engine, META, [&content]);
    let before = records_bytes(&engine);
    for round in 0..20 {
        content[0] = round;
        content[500] = round;
        content.push(round);
        let commit = edit(&engine, META, [&content, &content]);
        assert_eq!(commit.operations, 2);
        assert_eq!(value(&engine), (META, content.clone()));
    }
    assert_eq!(records_bytes(&engine), before);
    freeze(&engine);
    edit(&engine, META, [&content]);
    let third = records_bytes(&engine);
    assert!(third > 0, "the first edit of another epoch");
    let expiring = Meta { expire_at_ms: u64::MAX / 2, ..META };
    edit(&engine, expiring, [&content]);
    assert!(records_bytes(&engine) > third, "another expiry is in a record");
    assert_eq!(value(&engine), (expiring, content));
    engine.abandon();
}

#[test]
fn another_expiry_of_an_edited_value_takes_a_short_record() {
    let engine = start(MemtableKind::Hash);
    let content = vec![b'a'; 1000];
    edit(&engine, META, [&content]);
    let active = || engine.inner().views.superversion.load().active.clone();
    let (key, mut buf) = (key(&engine, 0, NAME), TxBuf::default());
    let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
    tx.set_meta(key, Meta { expire_at_ms: 7, ..META });
    tx.commit();
    let (shared_bytes, records, filled) =
        (active().shared_bytes(), records_bytes(&engine), active().filled_bytes());
    assert!(shared_bytes >= 1000, "it has a block now");
    for expire_at_ms in 0..50 {
        let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
        tx.set_meta(key, Meta { expire_at_ms: u64::MAX / 2 + expire_at_ms, ..META });
        tx.commit();
    }
    assert_eq!(active().shared_bytes(), shared_bytes);
    assert!(records_bytes(&engine) < records + 50 * 200);
    assert!(active().filled_bytes() < filled + 50 * 200);
    assert_eq!(value(&engine), (Meta { expire_at_ms: u64::MAX / 2 + 49, ..META }, content));
    engine.abandon();
}

#[test]
fn an_edit_that_changes_nothing_fills_the_memtable_by_its_log_bytes() {
    let engine = start(MemtableKind::Hash);
    let active = || engine.inner().views.superversion.load().active.clone();
    let content = vec![b'a'; 1000];
    edit(&engine, META, [&content, &content]);
    let (first, used) = (active(), active().used_bytes());
    let (key, mut buf) = (key(&engine, 0, NAME), TxBuf::default());
    for _ in 0..16 {
        let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
        tx.put_edited(key, META, &content);
        tx.log(0, &[b'+'; 70_000]);
        tx.commit();
        assert_eq!(first.used_bytes(), used);
    }
    assert!(first.filled_bytes() >= 1 << 20);
    engine.abandon();
}

/// A store whose memtable is full, of 2 MB in blocks of 1 KB that the DRAM table has, too.
fn full_of_blocks(options: impl FnOnce(EngineOptions) -> EngineOptions) -> Engine {
    let whole = small_options(&SimStorage::new(), SyncPolicy::Always, false);
    let whole = EngineOptions { memtable_bytes: 2 << 20, ..whole };
    let engine = Engine::open(options(whole), &mut replay).expect("a new store").0;
    each_of_many(&engine, |tx, key| tx.put(key, META, b"short"));
    each_of_many(&engine, |tx, key| tx.put_edited(key, META, &[1; 1000]));
    let active = engine.inner().views.superversion.load().active.clone();
    assert!(active.filled_bytes() >= 2 << 20);
    engine
}

fn each_of_many(engine: &Engine, change: impl Fn(&mut Tx<'_>, Key<'_>)) {
    let mut buf = TxBuf::default();
    for number in 0..2100_u32 {
        let name = number.to_be_bytes();
        let key = key(engine, 0, &name);
        let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
        change(&mut tx, key);
        tx.commit();
    }
}

#[test]
fn a_memtable_whose_values_the_table_keeps_fills_on() {
    let engine = full_of_blocks(|options| options);
    let active = engine.inner().views.superversion.load().active.clone();
    assert!(engine.memtable_fills_on());
    let filled = active.filled_bytes();
    assert!(
        (1 << 19..1 << 20).contains(&filled),
        "a quarter of the blocks, and the records: {filled}"
    );
    // What is changed again puts no record, whatever the memtable holds.
    let used = active.used_bytes();
    each_of_many(&engine, |tx, key| tx.put_edited(key, META, &[7; 1000]));
    assert_eq!(active.used_bytes(), used);
    // Nobody else refers to the blocks of what is gone: a flush frees them.
    each_of_many(&engine, |tx, key| assert!(tx.delete(key)));
    assert!(!engine.memtable_fills_on());
    assert!(active.filled_bytes() >= 2 << 20);
    engine.abandon();
}

#[test]
fn a_memtable_that_fills_on_is_frozen_where_its_log_is_as_long() {
    let engine = full_of_blocks(|options| options);
    let mut buf = TxBuf::default();
    for name in [b"a", b"b"] {
        let key = key(&engine, 0, name);
        let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
        tx.put(key, META, b"short");
        tx.put_edited(key, META, &[1; 1000]);
        tx.log(0, &[b'+'; 1 << 20]);
        tx.commit();
    }
    assert!(
        !engine.memtable_fills_on(),
        "the first changes of blocks count by what a start would read of the log"
    );
    engine.abandon();
}

#[test]
fn a_memtable_counts_all_of_its_blocks_while_another_waits_for_its_flush() {
    let engine = full_of_blocks(|options| options);
    freeze(&engine);
    each_of_many(&engine, |tx, key| tx.put_edited(key, META, &[2; 1000]));
    assert!(!engine.memtable_fills_on());
    engine.flush_oldest(&mut engine.inner().flusher.flush_permit.lock()).expect("flushed");
    assert!(engine.memtable_fills_on());
    engine.abandon();
}

#[test]
fn a_memtable_counts_all_of_its_blocks_where_memory_is_bounded() {
    let engine = full_of_blocks(|options| EngineOptions { memory_bound_bytes: 1 << 30, ..options });
    assert!(!engine.memtable_fills_on());
    engine.abandon();
    let engine = full_of_blocks(|options| options);
    assert!(engine.memtable_fills_on());
    let active = engine.inner().views.superversion.load().active.clone();
    let filled = active.filled_bytes();
    engine.set_memory_bound(1 << 30);
    assert!(active.filled_bytes() > 2 * filled, "as if it had been bounded all the time");
    engine.abandon();
}

/// Some change of some bytes, now and then to a length that has no block.
fn change(random: &mut SimRandom, content: &mut Vec<u8>) {
    let at = random.below(content.len() as u64 + 1) as usize;
    let end = content.len().min(at + random.below(40) as usize);
    let new = vec![random.next_u64() as u8; random.below(42) as usize];
    content.splice(at..end, new);
    match random.below(60) {
        0 => content.truncate(100),
        1 => content.resize(3000, 7),
        _ if content.len() < 600 => content.resize(700, 9),
        _ => {}
    }
}

#[test]
fn what_was_read_and_what_is_taken_back_is_as_it_was() {
    for (seed, memtable) in
        [(1, MemtableKind::Hash), (2, MemtableKind::Hash), (3, MemtableKind::SkipList)]
    {
        let (engine, mut random) = (start(memtable), SimRandom::new(seed));
        let mut content = vec![b'a'; 700];
        let (mut meta, mut known) = (META, Vec::new());
        edit(&engine, meta, [&content]);
        for round in 0..400_u64 {
            match random.below(40) {
                0 => freeze(&engine),
                1 => engine.flush_now().expect("flushed"),
                2 => meta.expire_at_ms = [0, u64::MAX / 2][(round % 2) as usize],
                3 | 4 => {
                    let snapshot = engine.snapshot(SnapshotOptions::default()).expect("one");
                    known.push((snapshot, content.clone()));
                    known.drain(..known.len().saturating_sub(8));
                }
                _ => {}
            }
            let (before, kept) = (value(&engine), content.clone());
            let mut all = Vec::new();
            for _ in 0..1 + random.below(3) {
                change(&mut random, &mut content);
                all.push(content.clone());
            }
            if random.percent(30) {
                let (key, mut buf) = (key(&engine, 0, NAME), TxBuf::default());
                let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
                for value in &all {
                    put(&mut tx, key, meta, value);
                    if random.percent(20) {
                        tx.put(key, meta, &value[..value.len() / 2]);
                    }
                    if random.percent(10) {
                        tx.delete(key);
                    }
                    if random.percent(20) {
                        tx.set_meta(key, Meta { expire_at_ms: u64::MAX / 3, ..META });
                    }
                }
                drop(tx);
                content = kept;
                assert_eq!(value(&engine), before, "seed {seed}, round {round}: taken back");
            } else {
                edit(&engine, meta, &all);
                assert_eq!(value(&engine).1, content, "seed {seed}, round {round}");
            }
            for (snapshot, content) in &known {
                let found = snapshot.get(0, NAME).expect("readable").expect("a value");
                assert!(found.value == *content, "seed {seed}, round {round}: a snapshot");
            }
        }
        drop(known);
        engine.abandon();
    }
}
