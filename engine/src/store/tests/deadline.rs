//! The delete deadline (N17): after it no file holds a deleted key or its value.

use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::{DiskStorage, Storage};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const LIMIT_MS: u64 = 8_000;

fn stepwise(dir: &Path, limit_ms: u64) -> Engine {
    spilling(dir, limit_ms, 0)
}

fn spilling(dir: &Path, limit_ms: u64, cemetery_max_bytes: u64) -> Engine {
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    let options = EngineOptions {
        background: false,
        memtable_bytes: 1 << 20,
        delete_persist_ms: limit_ms,
        cemetery_max_bytes,
        compression_bottom: crate::table::Compression::None,
        compression: crate::table::Compression::None,
        ..options(dir, storage, SyncPolicy::Always)
    };
    Engine::open(options, &mut |engine, group| replay(engine, group)).expect("opens").0
}

/// Files below `dir` that hold `what`.
fn holders(dir: &Path, what: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("directory") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            found.extend(holders(&path, what));
        } else if std::fs::read(&path).expect("file").windows(what.len()).any(|w| w == what) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn name(kind: &str, number: u64) -> Vec<u8> {
    format!("{kind}-{number:05}").into_bytes()
}

fn fill(engine: &Engine, kind: &str, expire_at_ms: u64) {
    for number in 0..300 {
        let value = [b"secret of ".to_vec(), name(kind, number)].concat();
        let meta = Meta { flags: 0, expire_at_ms };
        assert!(run(engine, &Op::Put(0, name(kind, number), meta, value)));
    }
}

/// What the background does between two looks at the clock.
fn work(engine: &Engine, now_ms: u64) {
    engine.keep_deadline_at(now_ms).expect("no faults");
    while engine.compact_once().expect("no faults") {}
    engine.sweep_graves();
    engine.sweep_dead_namespaces();
}

fn wait(engine: &Engine, from_ms: u64, to_ms: u64, busy: bool) {
    for (tick, now_ms) in (from_ms..=to_ms).step_by(250).enumerate() {
        if busy {
            for number in 0..5 {
                let key = name("other", tick as u64 * 5 + number);
                assert!(run(engine, &Op::Put(0, key, Meta::default(), vec![1; 50])));
            }
        }
        work(engine, now_ms);
    }
}

fn gone_after_the_limit(busy: bool, cemetery_max_bytes: u64) {
    let dir = TempDir::new("deadline");
    let engine = spilling(&dir, LIMIT_MS, cemetery_max_bytes);
    fill(&engine, "kept", 0);
    fill(&engine, "plain", 0);
    fill(&engine, "timed", u64::MAX / 2);
    fill(&engine, "again", 0);
    engine.flush_now().expect("flush");
    work(&engine, 0);
    for number in 0..300 {
        for kind in ["plain", "timed", "again"] {
            assert!(run(&engine, &Op::Delete(0, name(kind, number))));
        }
        let again = Op::Put(0, name("again", number), Meta::default(), b"new".to_vec());
        assert!(run(&engine, &again));
    }
    work(&engine, 500);
    for what in ["plain-00123", "timed-00123", "secret of again-00123"] {
        assert!(
            !holders(&dir, what.as_bytes()).is_empty(),
            "{what} is still there: no false peace"
        );
    }
    wait(&engine, 600, 500 + LIMIT_MS, busy);
    for kind in ["plain-", "timed-", "secret of plain", "secret of timed", "secret of again"] {
        assert_eq!(holders(&dir, kind.as_bytes()), Vec::<String>::new(), "{kind}");
    }
    assert!(!holders(&dir, b"secret of kept-00299").is_empty());
    assert_eq!(engine.stats().graves, 0);
    assert_eq!(get(&engine, 0, b"again-00007").expect("lives").1, b"new");
    assert_eq!(get(&engine, 0, b"plain-00007"), None);
}

#[test]
fn on_an_idle_store_nothing_deleted_is_left_in_any_file() {
    gone_after_the_limit(false, 0);
}

#[test]
fn nor_on_a_busy_one() {
    gone_after_the_limit(true, 0);
}

#[test]
fn nor_when_graves_are_spilled() {
    gone_after_the_limit(false, 1);
    gone_after_the_limit(true, 1);
}

#[test]
fn nor_of_an_emptied_database() {
    let dir = TempDir::new("deadline-flush");
    let engine = stepwise(&dir, LIMIT_MS);
    fill(&engine, "plain", 0);
    assert!(run(&engine, &Op::Put(1, b"kept-1".to_vec(), Meta::default(), b"value".to_vec())));
    engine.flush_now().expect("flush");
    work(&engine, 0);
    assert!(run(&engine, &Op::Flush(0)));
    wait(&engine, 100, 100 + LIMIT_MS, false);
    assert_eq!(holders(&dir, b"plain-"), Vec::<String>::new());
    assert!(!holders(&dir, b"kept-1").is_empty());
}

/// Replay from m executes again what came between m and a FLUSHDB: the graves must be those of m.
#[test]
fn the_checkpoint_is_not_rewritten_while_a_database_has_died_above_its_mark() {
    let dir = TempDir::new("deadline-mark");
    let engine = stepwise(&dir, LIMIT_MS);
    fill(&engine, "plain", 0);
    engine.flush_now().expect("flush");
    engine.keep_deadline_at(0).expect("no faults");
    assert!(run(&engine, &Op::Delete(0, name("plain", 7))));
    engine.flush_now().expect("flush");
    assert!(run(&engine, &Op::Flush(0)));
    engine.sync_through(engine.last_seq()).expect("no faults");
    engine.sweep_dead_namespaces();
    assert_eq!(engine.stats().graves, 0, "the sweep took the grave, the checkpoint has it");
    engine.inner().graveyard.deadline.has_traces.store(true, Ordering::Release);
    let of_graves = |files: Vec<String>| files.iter().any(|file| file.ends_with(".graves"));
    engine.keep_deadline_at(LIMIT_MS / 8).expect("no faults");
    assert!(of_graves(holders(&dir, b"plain-00007")), "the death is above the mark");
    engine.flush_now().expect("flush");
    engine.keep_deadline_at(LIMIT_MS / 4).expect("no faults");
    assert!(!of_graves(holders(&dir, b"plain-00007")));
}

#[test]
fn deletes_from_before_a_restart_are_due_at_once() {
    let dir = TempDir::new("deadline-restart");
    let engine = stepwise(&dir, LIMIT_MS);
    fill(&engine, "plain", 0);
    fill(&engine, "kept", 0);
    engine.flush_now().expect("flush");
    for number in 0..300 {
        assert!(run(&engine, &Op::Delete(0, name("plain", number))));
    }
    engine.flush_now().expect("flush");
    assert_eq!(engine.stats().graves, 300);
    engine.abandon();
    let engine = stepwise(&dir, LIMIT_MS);
    for now_ms in [0, 500, 1000, 1500] {
        work(&engine, now_ms);
    }
    assert_eq!(holders(&dir, b"plain-"), Vec::<String>::new());
    engine.close().expect("close");
}

#[test]
fn without_a_limit_nothing_hurries() {
    let dir = TempDir::new("deadline-none");
    let engine = stepwise(&dir, 0);
    fill(&engine, "plain", 0);
    fill(&engine, "kept", 0);
    engine.flush_now().expect("flush");
    assert!(run(&engine, &Op::Delete(0, name("plain", 7))));
    wait(&engine, 0, LIMIT_MS, false);
    assert!(!holders(&dir, b"secret of plain-00007").is_empty(), "too few for a rewrite");
}
