//! The front of the crate, on simulated storage.

use super::{Batch, Db};
use crate::key::KEY_MAX_BYTES;
use crate::store::{EngineError, EngineOptions, SyncPolicy};
use sexton_persistence::device::sim::{CrashOptions, SimStorage};
use std::ops::Bound;
use std::sync::Arc;

fn open(storage: &SimStorage, sync_policy: SyncPolicy) -> Db {
    let options = EngineOptions::new(Arc::new(storage.clone()), "data".into());
    Db::open_with(EngineOptions { sync_policy, ..options }).expect("a store that opens")
}

/// Keys of a range, as text.
fn keys(range: super::Range<'_>) -> String {
    let keys = range.map(|pair| String::from_utf8(pair.expect("no faults").0).expect("text"));
    keys.collect::<Vec<_>>().join(" ")
}

#[test]
fn ranges_have_the_bounds_that_were_asked_for() {
    let db = open(&SimStorage::new(), SyncPolicy::EverySec);
    for key in ["a", "b", "c", "d"] {
        db.put(key.as_bytes(), b"value").expect("written");
    }
    assert_eq!(keys(db.range::<&str>(..)), "a b c d");
    assert_eq!(keys(db.range("b".."d")), "b c");
    assert_eq!(keys(db.range("b"..="d")), "b c d");
    assert_eq!(keys(db.range("c"..)), "c d");
    assert_eq!(keys(db.range(.."b")), "a");
    assert_eq!(keys(db.range::<&str>((Bound::Excluded("b"), Bound::Unbounded))), "c d");
    assert_eq!(keys(db.range(.."")), "", "below the empty key there is nothing");
    assert_eq!(keys(db.range::<&str>((Bound::Included("d"), Bound::Excluded("b")))), "");
}

#[test]
fn a_snapshot_and_a_range_see_the_state_of_their_call() {
    let db = open(&SimStorage::new(), SyncPolicy::EverySec);
    db.put(b"a", b"1").expect("written");
    db.put(b"b", b"1").expect("written");
    let (snapshot, range) = (db.snapshot().expect("a snapshot"), db.range::<&str>(..));
    assert!(db.delete(b"a").expect("deleted"));
    assert!(!db.delete(b"a").expect("no faults"), "it has no value any more");
    db.put(b"c", b"2").expect("written");
    assert_eq!(keys(range), "a b");
    assert_eq!(keys(snapshot.range::<&str>(..)), "a b");
    assert_eq!(snapshot.get(b"a").expect("no faults").as_deref(), Some(&b"1"[..]));
    assert_eq!(
        (db.get(b"a").expect("no faults"), keys(db.range::<&str>(..))),
        (None, "b c".into())
    );
}

#[test]
fn what_was_synced_survives_a_crash() {
    for policy in [SyncPolicy::EverySec, SyncPolicy::No, SyncPolicy::Always] {
        let storage = SimStorage::new();
        let db = open(&storage, policy);
        let mut batch = Batch::new();
        batch.put(b"a", b"1").put(b"b", b"2").delete(b"a");
        assert_eq!(batch.len(), 3);
        db.write(&batch).expect("written");
        db.sync().expect("synced");
        let after = open(&storage.crash(1, CrashOptions::LOSE_ALL), policy);
        assert_eq!(keys(after.range::<&str>(..)), "b", "{policy:?}");
    }
    let db = open(&SimStorage::new(), SyncPolicy::Off);
    assert!(matches!(db.sync(), Err(EngineError::Refused(_))), "nothing keeps it");
}

#[test]
fn a_checkpoint_is_a_store_of_its_own() {
    let storage = SimStorage::new();
    let db = open(&storage, SyncPolicy::EverySec);
    db.put(b"a", b"1").expect("written");
    assert!(db.checkpoint("copy").expect("a checkpoint").bytes > 0);
    db.put(b"b", b"2").expect("written");
    let options = EngineOptions::new(Arc::new(storage.clone()), "copy".into());
    let copy = Db::open_with(options).expect("the checkpoint is a store");
    assert_eq!(keys(copy.range::<&str>(..)), "a");
    assert!(db.checkpoint("copy").is_err(), "it exists");
    assert_eq!(db.stats().snapshots, 0);
}

#[test]
fn what_no_file_can_hold_is_refused_before_it_is_written() {
    let db = open(&SimStorage::new(), SyncPolicy::EverySec);
    let long = vec![b'k'; KEY_MAX_BYTES + 1];
    let refused =
        |result| matches!(result, Err(EngineError::KeyTooLong { bytes }) if bytes == long.len());
    assert!(refused(db.put(&long, b"value")));
    let mut batch = Batch::new();
    batch.put(b"key", b"value").put(&long, b"value");
    assert!(refused(db.write(&batch)));
    assert_eq!(keys(db.range::<&str>(..)), "", "nothing of the batch is written");
}
