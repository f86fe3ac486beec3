//! The plain interface: what was written is read, now and after a restart.

use super::harness::{TempDir, options, random};
use crate::store::*;
use sexton_persistence::device::DiskStorage;
use std::collections::BTreeMap;
use std::sync::Arc;

#[test]
fn puts_deletes_and_batches_survive_a_restart() {
    for deletes in [DeleteMode::Cemetery, DeleteMode::Tombstones] {
        for memtable in [MemtableKind::Hash, MemtableKind::SkipList] {
            survive_a_restart(deletes, memtable);
        }
    }
}

fn survive_a_restart(deletes: DeleteMode, memtable: MemtableKind) {
    let dir = TempDir::new("bytes");
    let open = || {
        let options = options(&dir, Arc::new(DiskStorage), SyncPolicy::EverySec);
        let options = EngineOptions { deletes, memtable, ..options };
        Engine::open_bytes(options).expect("a store that opens").0
    };
    let mut model: BTreeMap<(usize, Vec<u8>), Vec<u8>> = BTreeMap::new();
    let mut state = 0x1357_9bdf_0246_8ace;
    for round in 0..3 {
        let engine = open();
        for step in 0..1500_u64 {
            // Most keys leave memory with each flush.
            engine.inner().memory.table_bound.set(1 << 10);
            let db = (random(&mut state) % 2) as usize;
            let key = format!("key\r\n{:03}", random(&mut state) % 300).into_bytes();
            let value = vec![step as u8; (random(&mut state) % 90) as usize];
            match random(&mut state) % 10 {
                0..2 => {
                    let operations = engine.delete(db, &key).expect("delete").operations;
                    let was = model.remove(&(db, key)).is_some();
                    assert_eq!(operations, u32::from(was), "X1");
                }
                2 => {
                    let mut batch = WriteBatch::default();
                    batch.put(db, &key, &value);
                    batch.delete(db, &key);
                    batch.put(1 - db, &key, b"batch");
                    assert_eq!(engine.write(&batch).expect("write").operations, 3);
                    model.remove(&(db, key.clone()));
                    model.insert((1 - db, key), b"batch".to_vec());
                }
                _ => {
                    engine.put(db, &key, &value).expect("put");
                    model.insert((db, key), value);
                }
            }
            let key = format!("key\r\n{:03}", random(&mut state) % 300).into_bytes();
            let found = engine.get(db, &key).expect("get");
            assert_eq!(found.as_ref(), model.get(&(db, key)), "round {round}, step {step}");
        }
        engine.sync_through(engine.last_seq()).expect("synced");
        assert_eq!(engine.durable(), engine.last_seq());
        let is_past_table = memtable == MemtableKind::SkipList;
        assert!(is_past_table || engine.stats().cold_reads > 100);
        if round == 1 {
            engine.close().expect("close");
        } else {
            engine.abandon();
        }
    }
    let engine = open();
    for ((db, key), value) in &model {
        assert_eq!(engine.get(*db, key).expect("get").as_ref(), Some(value));
    }
    engine.abandon();
}
