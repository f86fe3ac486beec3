//! Keys that one transaction puts again and again.

use super::crash::small_options;
use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::sim::SimStorage;

fn put(name: &str, value: Vec<u8>) -> Op {
    Op::Put(0, name.into(), Meta::default(), value)
}

#[test]
fn the_memtable_has_what_was_put_last() {
    let storage = SimStorage::new();
    let options = small_options(&storage, SyncPolicy::Always, false);
    let (engine, _) = Engine::open(options.clone(), &mut replay).expect("a new store");
    let mut ops = vec![put("shrinks", vec![1; 200]), put("short", vec![1]), put("grows", vec![])];
    for round in 0..30_u8 {
        ops.push(Op::Append(0, b"grows".to_vec(), round));
        ops.push(put("shrinks", vec![round; 100 - usize::from(round)]));
    }
    ops.extend([Op::Delete(0, b"short".to_vec()), put("short", vec![2]), put("short", vec![3; 3])]);
    let commit = run_group(&engine, &ops).expect("memory");
    assert_eq!(commit.operations as usize, ops.len());
    let next = run_group(&engine, &[put("other", vec![1])]).expect("memory");
    assert_eq!(next.last_seq, commit.last_seq + 1, "each operation has a sequence");

    freeze(&engine);
    engine.inner().memory.table_bound.set(0);
    let wanted = [
        (b"grows".as_slice(), (0..30).collect()),
        (b"shrinks", vec![29; 71]),
        (b"short", vec![3; 3]),
    ];
    engine.keep_shards_within_bound();
    for (name, value) in &wanted {
        assert_eq!(get(&engine, 0, name).map(|(_, value)| value).as_ref(), Some(value));
    }
    assert_eq!(engine.stats().misses_from_memtable, wanted.len() as u64);
    engine.abandon();
}
