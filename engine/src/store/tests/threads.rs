//! Many threads at once: each writes keys of its own and must always read what it wrote, whatever
//! flushes, compactions, evictions and emptied databases of the others do meanwhile.

use super::crash::small_options;
use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::sim::{SimRandom, SimStorage};
use std::sync::atomic::{AtomicBool, Ordering};

const WRITERS: u64 = 3;
const STEPS: u64 = 1500;
const KEYS: u64 = 40;

/// Writes and reads its own keys of database 0; answers what should be left of them.
fn write(engine: &Engine, writer: u64) -> Model {
    let mut random = SimRandom::new(writer);
    let mut model = Model::new(3);
    for step in 0..STEPS {
        let key = |number: u64| format!("writer:{writer}:{number:02}").into_bytes();
        let name = key(random.below(KEYS));
        let op = match random.below(10) {
            0..3 => Op::Delete(0, name),
            3..5 => Op::Append(0, name, step as u8),
            _ => Op::Put(0, name, Meta::default(), vec![step as u8; random.below(120) as usize]),
        };
        let did = run(engine, &op);
        if let Op::Delete(_, name) = &op {
            let was = model.0[0].contains_key(name);
            assert_eq!(did, was, "answer of DEL at step {step} (X1)");
        }
        engine.kick_log();
        model.apply(&op);
        let name = key(random.below(KEYS));
        assert_eq!(get(engine, 0, &name).as_ref(), model.0[0].get(&name), "step {step}: {name:?}");
    }
    model
}

/// Fills and empties another database, and compares scans with what it wrote there.
fn fill_and_empty(engine: &Engine, stop: &AtomicBool) {
    let mut round = 0_u8;
    while !stop.load(Ordering::Acquire) {
        round = round.wrapping_add(1);
        for number in 0..20 {
            let name = format!("writer:{number}").into_bytes();
            run(engine, &Op::Put(1, name, Meta::default(), vec![round; 50]));
        }
        let range = ScanRange { db: 1, ..ScanRange::default() };
        let items = engine.scan(&range).expect("scan").map(|item| item.expect("item"));
        let values: Vec<Vec<u8>> = items.map(|item| item.value).collect();
        assert_eq!(values, vec![vec![round; 50]; 20], "round {round}");
        assert_eq!(engine.count(1).expect("count"), 20, "round {round}");
        run(engine, &Op::Flush(1));
        assert_eq!(get(engine, 1, b"writer:3"), None, "round {round}");
        assert_eq!(engine.count(1).expect("count"), 0, "round {round}");
    }
}

#[test]
fn every_thread_reads_what_it_wrote() {
    let storage = SimStorage::new();
    let options = EngineOptions {
        memtable_bytes: 8 << 10,
        cold_read_threads: 2,
        ..small_options(&storage, SyncPolicy::No, true)
    };
    let (engine, _) = Engine::open(options.clone(), &mut replay).expect("an empty store");
    engine.inner().memory.table_bound.set(0);
    engine.set_memory_bound(1);
    let stop = AtomicBool::new(false);
    let mut model = Model::new(3);
    std::thread::scope(|scope| {
        let emptier = scope.spawn(|| fill_and_empty(&engine, &stop));
        let engine = &engine;
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(engine, writer))).collect();
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        stop.store(true, Ordering::Release);
        for result in results {
            model.0[0].extend(result.expect("a writer").0.swap_remove(0));
        }
        emptier.join().expect("fills and empties");
    });
    check(&engine, &model);
    let stats = engine.stats();
    assert!(stats.flushes > 5 && stats.compactions > 1 && stats.cold_reads > 50, "{stats:?}");
    engine.close().expect("close");
    drop(engine);
    let (engine, _) = Engine::open(options, &mut replay).expect("a closed store");
    check(&engine, &model);
    engine.close().expect("close again");
}
