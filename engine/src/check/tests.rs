//! Healthy stores are clean; a changed byte in any kind of file is reported, with its place.

use super::*;
use crate::cemetery::Checkpoint;
use crate::store::{Engine, EngineOptions, SyncPolicy};
use sexton_persistence::device::sim::SimStorage;
use std::path::Path;

const DIR: &str = "data";

fn engine_options(storage: &Arc<dyn Storage>) -> EngineOptions {
    EngineOptions {
        sync_policy: SyncPolicy::Always,
        background: false,
        ..EngineOptions::new(Arc::clone(storage), DIR.into())
    }
}

fn options(storage: &Arc<dyn Storage>) -> CheckOptions {
    CheckOptions {
        storage: Arc::clone(storage),
        dir: DIR.into(),
        log_dir_name: "appendonlydir".into(),
        log_file_name: "appendonly.aof".into(),
        truncate_log: false,
    }
}

fn run(options: &CheckOptions) -> CheckReport {
    check(options, &mut |_, _| {}).expect("it can be checked")
}

fn open(storage: &Arc<dyn Storage>) -> Engine {
    Engine::open_bytes(engine_options(storage)).expect("it opens").0
}

/// Tables with 300 keys, 50 of them overwritten and 30 dead by graves only; 20 more in the log.
fn store() -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(SimStorage::new());
    let engine = open(&storage);
    let put = |from: u32, to: u32| {
        for i in from..to {
            let key = format!("key{i:05}");
            let commit = engine.put(0, key.as_bytes(), key.repeat(5).as_bytes()).expect("written");
            engine.sync_through(commit.last_seq).expect("synced");
        }
    };
    put(0, 300);
    engine.flush().expect("flushed");
    put(100, 150);
    for i in 0..30 {
        engine.delete(0, format!("key{i:05}").as_bytes()).expect("deleted");
    }
    engine.flush().expect("flushed");
    put(1000, 1020);
    storage
}

fn files(storage: &dyn Storage, dir: &str, part: &str) -> Vec<PathBuf> {
    let dir = Path::new(DIR).join(dir);
    let names = storage.list(&dir).expect("listed");
    names.iter().filter(|name| name.contains(part)).map(|name| dir.join(name)).collect()
}

fn flip(storage: &dyn Storage, path: &Path, offset: u64) {
    let file = storage.open(path).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("read");
    file.write_all_at(&[byte[0] ^ 0x10], offset).expect("written");
}

#[test]
fn a_healthy_store_is_clean() {
    let storage = store();
    let report = run(&options(&storage));
    assert_eq!(report.findings, []);
    assert_eq!((report.live_keys, report.graves, report.versions), (270, 30, 350));
    assert_eq!(report.logged_seq - report.mark, 20);
    assert!(report.groups > 0);
}

#[test]
fn a_changed_byte_in_a_table_checkpoint_or_manifest_is_reported() {
    let storage = store();
    for part in [".tbl", ".graves", "MANIFEST", "CURRENT"] {
        let found = files(&*storage, "tree", part);
        assert!(!found.is_empty(), "{part}");
        for path in found {
            let bytes = storage.open(&path).and_then(|file| file.len()).expect("its length");
            for offset in (0..bytes).step_by(41).chain([bytes - 1]) {
                flip(&*storage, &path, offset);
                let report = run(&options(&storage));
                let told = !report.findings.is_empty() || !report.notes.is_empty();
                assert!(told, "byte {offset} of {}", path.display());
                if part == ".tbl" {
                    let finding = report.findings.first().expect("tables have no torn end");
                    assert!(finding.to_string().contains(".tbl"), "{finding}");
                }
                flip(&*storage, &path, offset);
            }
        }
    }
    assert_eq!(run(&options(&storage)).findings, []);
}

#[test]
fn a_lost_grave_shows_in_the_number_of_keys() {
    let storage = store();
    let path = files(&*storage, "tree", ".graves").pop().expect("a checkpoint");
    let mut checkpoint = Checkpoint::read(&*storage, &path).expect("read");
    checkpoint.graves.remove(7);
    checkpoint.write(&*storage, &path).expect("written");
    let report = run(&options(&storage));
    let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
    assert!(finding.what.contains("271 keys live"), "{finding}");
}

#[test]
fn a_missing_table_is_reported() {
    let storage = store();
    let path = files(&*storage, "tree", ".tbl").pop().expect("a table");
    storage.remove(&path).expect("removed");
    let report = run(&options(&storage));
    assert!(report.findings.iter().any(|finding| finding.file == path), "{:?}", report.findings);
}

#[test]
fn damage_in_the_log_is_reported_and_cut_only_when_told() {
    let storage = store();
    let segment = files(&*storage, "appendonlydir", ".incr.aof").into_iter().find(|path| {
        let file = storage.open(path).expect("opened");
        let mut text = vec![0; file.len().expect("its length") as usize];
        file.read_exact_at(&mut text, 0).expect("read");
        text.windows(8).any(|bytes| bytes == b"key01010")
    });
    let segment = segment.expect("a segment with the last writes");
    let file = storage.open(&segment).expect("opened");
    let mut text = vec![0; file.len().expect("its length") as usize];
    file.read_exact_at(&mut text, 0).expect("read");
    let at = text.windows(8).position(|bytes| bytes == b"key01010").expect("the write") as u64;
    flip(&*storage, &segment, at);
    // Later groups say that this one had been synced.
    let report = run(&options(&storage));
    assert!(report.findings[0].what.contains("--truncate-log"), "{:?}", report.findings);
    let again = run(&options(&storage));
    assert_eq!(again.findings, report.findings, "looking changes nothing");
    assert!(Engine::open_bytes(engine_options(&storage)).is_err());

    let told = run(&CheckOptions { truncate_log: true, ..options(&storage) });
    assert_eq!(told.findings, []);
    assert!(told.notes.iter().any(|note| note.contains("was cut at byte")), "{:?}", told.notes);
    assert_eq!(run(&options(&storage)).findings, []);
    let engine = open(&storage);
    assert!(engine.get(0, b"key01009").expect("read").is_some());
    assert!(engine.get(0, b"key01010").expect("read").is_none());
}

#[test]
fn a_store_in_use_or_none_at_all_is_refused() {
    let storage = store();
    let engine = open(&storage);
    assert!(check(&options(&storage), &mut |_, _| {}).is_err());
    engine.close().expect("closed");
    assert_eq!(run(&options(&storage)).findings, []);
    let empty: Arc<dyn Storage> = Arc::new(SimStorage::new());
    assert!(check(&options(&empty), &mut |_, _| {}).is_err());
}
