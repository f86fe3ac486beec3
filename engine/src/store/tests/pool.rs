//! Memtables in persistent memory: its room, and what a start finds there.

use super::crash::small_options;
use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::sim::{CrashOptions, SimStorage};
use sexton_persistence::pmem::{PmemOptions, SimPmem};
use std::sync::Arc;

/// Storage and persistent memory of one machine.
#[derive(Default)]
struct Machine {
    storage: SimStorage,
    pmem: SimPmem,
}

impl Machine {
    fn start(&self, memtable_bytes: u64) -> Engine {
        let pool = PmemOptions {
            slot_bytes: 4096,
            file_bytes: 64 << 10,
            initial_bytes: 0,
            max_bytes: 160 << 10,
            ..PmemOptions::new(self.pmem.medium(), "data/pmem".into())
        };
        let options = small_options(&self.storage, SyncPolicy::Always, false);
        let options =
            EngineOptions { write_behind: true, pool: Some(pool), memtable_bytes, ..options };
        Engine::open(options, &mut replay).expect("a store that opens").0
    }

    /// What a power failure leaves.
    fn after_power_failure(&self) -> Self {
        Self {
            storage: self.storage.crash(1, CrashOptions::LOSE_ALL),
            pmem: self.pmem.crash(1, CrashOptions::LOSE_ALL),
        }
    }
}

const MEMTABLE_BYTES: u64 = 16 << 10;

fn check_counts(engine: &Engine, model: &Model) {
    for (db, keys) in model.0.iter().enumerate() {
        assert_eq!(engine.count(db).expect("counted"), keys.len() as u64, "database {db}");
    }
}

#[test]
fn the_pool_is_the_bound() {
    let machine = Machine::default();
    let (engine, mut model) = (machine.start(MEMTABLE_BYTES), Model::new(3));
    let mut frozen = 0;
    while !engine.must_wait() {
        assert!(engine.inner().may_freeze());
        put(&engine, &mut model, &format!("key:{}", frozen % 3), &[frozen as u8; 12 << 10]);
        freeze(&engine);
        frozen += 1;
        assert!(frozen < 20, "160 KB hold no 20 memtables of 12 KB");
    }
    assert!(frozen > 6, "{frozen} memtables were frozen");
    let stats = engine.stats();
    assert_eq!((stats.memtables_frozen, stats.stalls), (frozen, 1));
    assert_eq!(engine.wbl_stats().expect("a pool").spilled, 0, "writers waited first");
    assert_eq!(engine.durable(), engine.last_seq());
    check(&engine, &model);
    // Everything is there after a crash, none of it in a table.
    let again = machine.after_power_failure().start(MEMTABLE_BYTES);
    check(&again, &model);
    let stats = again.stats();
    assert_eq!((stats.flushes, stats.memtables_frozen), (0, frozen), "the last one was half full");
    again.abandon();
    engine.flush_oldest(&mut engine.inner().flusher.flush_permit.lock()).expect("flushed");
    assert!(!engine.must_wait(), "a flush has made room");
    engine.flush_now().expect("flushed");
    check(&engine, &model);
    engine.abandon();
}

#[test]
fn values_of_frozen_memtables_stay_in_persistent_memory() {
    let machine = Machine::default();
    let (engine, mut model) = (machine.start(MEMTABLE_BYTES), Model::new(3));
    let expiring = Meta { flags: 3, expire_at_ms: u64::MAX / 2 };
    let in_db = |db, key: &str, meta| Op::Put(db, key.into(), meta, vec![db as u8; 300]);
    for key in ["overwritten", "appended", "deleted", "written again", "left"] {
        put(&engine, &mut model, key, &[1; 300]);
    }
    write(&engine, &mut model, in_db(0, "loses its expiry", expiring));
    write(&engine, &mut model, in_db(1, "swapped", Meta::default()));
    write(&engine, &mut model, in_db(2, "emptied", Meta::default()));
    write(&engine, &mut model, in_db(1, "due", expiring));
    let elements = [&[1; 6][..], &1000_u64.to_le_bytes(), &[2; 300]].concat();
    let has_elements = Meta { flags: Meta::DUE_ELEMENTS, expire_at_ms: 0 };
    write(&engine, &mut model, Op::Put(1, b"due elements".to_vec(), has_elements, elements));
    freeze(&engine);
    write(&engine, &mut model, Op::Delete(0, b"written again".to_vec()));
    write(&engine, &mut model, in_db(0, "loses its expiry", Meta::default()));
    put(&engine, &mut model, "overwritten", &[2; 400]);
    write(&engine, &mut model, Op::Flush(2));
    write(&engine, &mut model, in_db(2, "after that", Meta::default()));
    freeze(&engine);
    // The newest, which is nearly empty, and stays the active one.
    let newest = [
        Op::Append(0, b"appended".to_vec(), 7),
        Op::Delete(0, b"deleted".to_vec()),
        Op::Put(0, b"written again".to_vec(), Meta::default(), b"again".to_vec()),
        Op::Put(0, b"new".to_vec(), Meta::default(), b"new".to_vec()),
        Op::Swap(0, 1),
    ];
    for op in newest {
        write(&engine, &mut model, op);
    }
    let again = machine.after_power_failure().start(MEMTABLE_BYTES);
    let stats = again.stats();
    assert_eq!(stats.memtables_frozen, 2);
    assert_eq!(stats.dram_entries, 5, "three of the newest memtable, and what is due one day");
    assert!(again.due(999, 10).is_empty());
    let due: Vec<_> = again.due(1000, 10).into_iter().map(|due| (due.db, due.key)).collect();
    assert_eq!(due, [(0, b"due elements".to_vec())]);
    check_counts(&again, &model);
    check(&again, &model);
    for (db, keys) in model.0.iter().enumerate() {
        for (key, value) in keys {
            assert_eq!(get(&again, db, key).as_ref(), Some(value), "{db} {key:?}");
        }
    }
    assert_eq!(again.stats().dram_entries, 10, "what was read is in the table now");
    for (db, key) in [(1, "left"), (1, "overwritten"), (0, "swapped"), (1, "loses its expiry")] {
        write(&again, &mut model, Op::Append(db, key.into(), 9));
        write(&again, &mut model, in_db(db, "one more", Meta::default()));
    }
    again.flush_now().expect("flushed");
    check_counts(&again, &model);
    check(&again, &model);
    again.abandon();
    engine.abandon();
}

#[test]
fn a_nearly_empty_memtable_stays_active_and_a_fuller_one_is_frozen() {
    for (bytes, frozen) in [(4 << 10, 0), (12 << 10, 1)] {
        let machine = Machine::default();
        let (engine, mut model) = (machine.start(MEMTABLE_BYTES), Model::new(3));
        put(&engine, &mut model, "key", &vec![1; bytes]);
        let machine = machine.after_power_failure();
        let again = machine.start(MEMTABLE_BYTES);
        let stats = again.stats();
        assert_eq!((stats.memtables_frozen, stats.dram_entries), (frozen, 1 - frozen));
        put(&again, &mut model, "another", &[2; 100]);
        check(&again, &model);
        // Nothing is added to an arena of an earlier run, so the next start freezes it in any case.
        let third = machine.after_power_failure().start(MEMTABLE_BYTES);
        assert_eq!(third.stats().memtables_frozen, 1);
        check(&third, &model);
        check_counts(&third, &model);
        [engine, again, third].iter().for_each(Engine::abandon);
    }
}

#[test]
fn a_writer_at_rest_keeps_no_memtable_and_one_in_a_batch_writes_to_the_newest() {
    for by_batch in [false, true] {
        let machine = Machine::default();
        let (engine, mut model) = (machine.start(MEMTABLE_BYTES), Model::new(3));
        let mut buf = if by_batch { TxBuf::fencing_by_batch() } else { TxBuf::default() };
        for op in [Op::Flush(1), Op::Put(0, b"key".to_vec(), Meta::default(), vec![1; 50])] {
            run_group_in(&engine, std::slice::from_ref(&op), &mut buf).expect("memory");
            model.apply(&op);
            // Frozen in the middle of a batch: what follows belongs to the next memtable.
            freeze(&engine);
            let next = Op::Put(2, b"next".to_vec(), Meta::default(), vec![2; 50]);
            run_group_in(&engine, std::slice::from_ref(&next), &mut buf).expect("memory");
            model.apply(&next);
            let active = Arc::clone(&engine.inner().views.superversion.load().active);
            engine.end_batch(&mut buf);
            assert!(active.used_bytes() > 0, "written to the one before");
            assert_eq!(engine.durable(), engine.last_seq());
            let weak = Arc::downgrade(&active);
            drop(active);
            engine.flush_now().expect("flushed");
            assert!(weak.upgrade().is_none(), "its arena could never be erased");
            check(&engine, &model);
        }
        let again = machine.after_power_failure().start(MEMTABLE_BYTES);
        check(&again, &model);
        again.abandon();
        drop(buf);
        engine.abandon();
    }
}
