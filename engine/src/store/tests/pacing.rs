//! The pace of writers sees what every kind of commit writes.

use super::crash::small_options;
use super::harness::*;
use crate::key::{Key, Meta};
use crate::store::*;
use sexton_persistence::device::sim::SimStorage;
use sexton_persistence::pmem::{PmemOptions, SimPmem};
use std::time::{Duration, Instant};

/// Half way between the soft and the hard debt.
const DEBT_MEMTABLES: u64 = 32;

const MEMTABLE_BYTES: u64 = 1 << 20;

fn store(in_pool: bool) -> Engine {
    let options = EngineOptions {
        memtable_bytes: MEMTABLE_BYTES,
        ..small_options(&SimStorage::new(), SyncPolicy::Always, false)
    };
    let pool = || PmemOptions {
        slot_bytes: 64 << 10,
        file_bytes: 1 << 20,
        initial_bytes: 0,
        max_bytes: 4 << 20,
        ..PmemOptions::new(SimPmem::default().medium(), "data/pmem".into())
    };
    let options = EngineOptions { write_behind: in_pool, pool: in_pool.then(pool), ..options };
    Engine::open(options, &mut replay).expect("a store that opens").0
}

#[test]
fn a_plain_set_counts_against_the_pace() {
    for in_pool in [false, true] {
        let engine = store(in_pool);
        let pace = &engine.inner().write.pace;
        let before = Instant::now();
        // 10 MB a second were written freely, half of it is allowed, a hundredth of that at once: 50 KB.
        pace.note_filled(0, before);
        pace.note_filled(10_000_000, before + Duration::from_secs(1));
        pace.set(DEBT_MEMTABLES * MEMTABLE_BYTES, MEMTABLE_BYTES, before + Duration::from_secs(1));
        assert!(!engine.must_wait(), "nothing has been written at this pace");
        let written = 200_000;
        let mut buf = TxBuf::default();
        let key = Key { slot: engine.slot_of(0), bytes: b"key", hash: engine.hash(b"key") };
        let tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
        let resp = (0, &b"*1\r\n$4\r\nPING\r\n"[..]);
        tx.commit_put(key, Meta::default(), &vec![b'v'; written], None, resp);
        assert!(engine.must_wait(), "{written} bytes in one SET, pool: {in_pool}");
        engine.abandon();
    }
}
