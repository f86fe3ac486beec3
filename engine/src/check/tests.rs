//! Healthy stores are clean; a changed byte in any kind of file is reported, with its place.

use super::*;
use crate::cemetery::Checkpoint;
use crate::store::{Engine, EngineOptions, SyncPolicy};
use sexton_persistence::device::sim::SimStorage;
use std::path::Path;

pub(super) const DIR: &str = "data";

pub(super) fn engine_options(storage: &Arc<dyn Storage>) -> EngineOptions {
    EngineOptions {
        sync_policy: SyncPolicy::Always,
        background: false,
        ..EngineOptions::new(Arc::clone(storage), DIR.into())
    }
}

pub(super) fn options(storage: &Arc<dyn Storage>) -> CheckOptions {
    CheckOptions::new(Arc::clone(storage), DIR.into())
}

pub(super) fn run(options: &CheckOptions) -> CheckReport {
    check(options, &mut |_, _| {}).expect("it can be checked")
}

fn open(storage: &Arc<dyn Storage>) -> Engine {
    Engine::open_bytes(engine_options(storage)).expect("it opens").0
}

fn open_spilling(storage: &Arc<dyn Storage>) -> Engine {
    let options = EngineOptions { cemetery_max_bytes: 1, ..engine_options(storage) };
    Engine::open_bytes(options).expect("it opens").0
}

/// Tables with 300 keys, 50 of them overwritten and 30 dead by graves only; 20 more in the log.
fn store() -> Arc<dyn Storage> {
    store_opened_by(open)
}

fn store_opened_by(open: fn(&Arc<dyn Storage>) -> Engine) -> Arc<dyn Storage> {
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

pub(super) fn flip(storage: &dyn Storage, path: &Path, offset: u64) {
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
fn a_store_that_was_never_flushed_is_clean() {
    let storage: Arc<dyn Storage> = Arc::new(SimStorage::new());
    let engine = open(&storage);
    let commit = engine.put(0, b"key", b"value").expect("written");
    engine.sync_through(commit.last_seq).expect("synced");
    drop(engine);
    let report = run(&options(&storage));
    assert_eq!((report.findings, report.groups), (vec![], 1));
}

#[test]
fn spilled_graves_are_counted_and_cover_their_dead() {
    let storage = store_opened_by(open_spilling);
    assert!(files(&*storage, "tree", ".graves").is_empty());
    let report = run(&options(&storage));
    assert_eq!(report.findings, []);
    assert_eq!((report.live_keys, report.graves, report.grave_files), (270, 30, 1));
}

#[test]
fn a_changed_byte_in_a_table_checkpoint_or_manifest_is_reported() {
    changed_bytes_are_reported(&store(), &[".tbl", ".graves", "MANIFEST", "CURRENT"]);
}

#[test]
fn a_changed_byte_in_a_grave_run_is_reported() {
    changed_bytes_are_reported(&store_opened_by(open_spilling), &[".grun", "MANIFEST"]);
}

fn changed_bytes_are_reported(storage: &Arc<dyn Storage>, parts: &[&str]) {
    for part in parts {
        let found = files(&**storage, "tree", part);
        assert!(!found.is_empty(), "{part}");
        for path in found {
            let bytes = storage.open(&path).and_then(|file| file.len()).expect("its length");
            for offset in (0..bytes).step_by(41).chain([bytes - 1]) {
                flip(&**storage, &path, offset);
                let report = run(&options(storage));
                let told = !report.findings.is_empty() || !report.notes.is_empty();
                assert!(told, "byte {offset} of {}", path.display());
                if [".tbl", ".grun"].contains(part) {
                    let finding = report.findings.first().expect("tables have no torn end");
                    assert!(finding.to_string().contains(part), "{finding}");
                }
                flip(&**storage, &path, offset);
            }
        }
    }
    assert_eq!(run(&options(storage)).findings, []);
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

/// Everything that [`store`] has written, by reading it.
fn assert_has_all(storage: &Arc<dyn Storage>) {
    let engine = open(storage);
    for i in 0..300 {
        let key = format!("key{i:05}");
        let found = engine.get(0, key.as_bytes()).expect("read");
        let expected = (i >= 30).then(|| key.repeat(5).into_bytes());
        assert_eq!(found, expected, "{key}");
    }
    for i in 1000..1020 {
        let key = format!("key{i:05}");
        assert!(engine.get(0, key.as_bytes()).expect("read").is_some(), "{key}, from the log");
    }
    assert_eq!(engine.count(0).expect("counted"), 290);
    engine.close().expect("closed");
}

fn remove_all(storage: &dyn Storage, part: &str) {
    let found = files(storage, "tree", part);
    assert!(!found.is_empty(), "{part}");
    found.iter().for_each(|path| storage.remove(path).expect("removed"));
}

#[test]
fn a_tree_is_made_anew_without_its_manifest() {
    let ways = [("CURRENT", "made anew"), ("MANIFEST", "records of the manifest are lost")];
    let stores = [store, || store_opened_by(open_spilling)];
    for ((lost, tells), store) in ways.into_iter().flat_map(|way| stores.map(|store| (way, store)))
    {
        let storage = store();
        remove_all(&*storage, lost);
        assert!(Engine::open_bytes(engine_options(&storage)).is_err());
        assert!(!run(&options(&storage)).findings.is_empty());
        let told = run(&CheckOptions { rebuild_manifest: true, ..options(&storage) });
        assert_eq!(told.findings, []);
        assert!(told.notes.iter().any(|note| note.contains(tells)), "{:?}", told.notes);
        assert_eq!((told.live_keys, told.graves), (270, 0));
        assert_eq!(run(&options(&storage)).findings, []);
        assert_has_all(&storage);
        let kept = storage.list(&Path::new(DIR).join("tree.damaged")).expect("the old tree");
        assert!(kept.iter().any(|name| name.ends_with(".tbl")));
    }
}

#[test]
fn a_tree_is_made_anew_with_a_record_of_its_manifest_damaged() {
    let storage = store();
    let path = files(&*storage, "tree", "MANIFEST").pop().expect("a manifest");
    let bytes = storage.open(&path).and_then(|file| file.len()).expect("its length");
    let mut rebuilt = 0;
    for offset in (0..bytes).step_by(bytes as usize / 8) {
        let storage = store();
        flip(&*storage, &path, offset);
        let damaged = !run(&options(&storage)).findings.is_empty();
        let told = run(&CheckOptions { rebuild_manifest: true, ..options(&storage) });
        assert_eq!(told.findings, [], "byte {offset}");
        assert_eq!(damaged, storage.exists(&Path::new(DIR).join("tree.damaged")).expect("looked"));
        rebuilt += u32::from(damaged);
        assert_has_all(&storage);
    }
    assert!(rebuilt > 3, "{rebuilt}");
}

#[test]
fn a_healthy_tree_is_left_alone_and_a_lost_grave_refused() {
    let storage = store();
    let told = run(&CheckOptions { rebuild_manifest: true, ..options(&storage) });
    assert!(told.notes.iter().any(|note| note.contains("not rebuilt")), "{:?}", told.notes);
    assert!(!storage.exists(&Path::new(DIR).join("tree.damaged")).expect("looked"));
    remove_all(&*storage, "CURRENT");
    remove_all(&*storage, ".graves");
    let told = run(&CheckOptions { rebuild_manifest: true, ..options(&storage) });
    assert!(told.findings[0].what.contains("its dead would rise"), "{:?}", told.findings);
}

#[test]
fn a_lost_grave_run_is_no_reason_to_let_its_dead_rise() {
    let storage = store_opened_by(open_spilling);
    remove_all(&*storage, "CURRENT");
    remove_all(&*storage, ".grun");
    let told = run(&CheckOptions { rebuild_manifest: true, ..options(&storage) });
    assert!(told.findings[0].what.contains("its dead would rise"), "{:?}", told.findings);
    assert!(!storage.exists(&Path::new(DIR).join("tree.damaged")).expect("looked"));
}

#[test]
fn undo_runs_are_no_damage() {
    let storage: Arc<dyn Storage> = Arc::new(SimStorage::new());
    let engine = open(&storage);
    let write = |value: &[u8]| {
        for i in 0..200 {
            engine.put(0, format!("key{i:05}").as_bytes(), value).expect("written");
        }
        for i in 0..40 {
            engine.delete(0, format!("key{i:05}").as_bytes()).expect("deleted");
        }
    };
    write(b"old");
    let snapshot = engine.snapshot(Default::default()).expect("room for one");
    write(b"new");
    engine.flush().expect("flushed");
    write(b"newest");
    engine.flush().expect("flushed");
    assert!(snapshot.get(0, b"key00150").expect("read").is_some());
    assert!(
        !files(&*storage, "undo", ".undo").is_empty(),
        "the snapshot needs what was overwritten"
    );
    // As after kill -9.
    std::mem::forget(snapshot);
    engine.abandon();
    drop(engine);
    let report = run(&options(&storage));
    assert_eq!(report.findings, []);
    assert!(report.notes.iter().any(|note| note.contains("undo runs")), "{:?}", report.notes);
}

#[test]
fn the_log_is_cut_at_a_second_unless_the_tables_are_later() {
    let storage: Arc<dyn Storage> = Arc::new(SimStorage::new());
    thread_local!(static NOW_S: std::cell::Cell<u64> = const { std::cell::Cell::new(100) });
    let engine = open(&storage);
    engine.set_log_clock(Some(|| NOW_S.get()));
    for second in 100..110_u64 {
        NOW_S.set(second);
        let commit = engine.put(0, format!("key{second}").as_bytes(), b"x").expect("written");
        engine.sync_through(commit.last_seq).expect("synced");
        if second == 104 {
            engine.flush().expect("flushed");
        }
    }
    drop(engine);
    let cut = |second| run(&CheckOptions { truncate_to_s: Some(second), ..options(&storage) });
    assert_eq!(run(&options(&storage)).logged_s, Some((105, 109)));
    assert!(cut(104).findings[0].what.contains("begins at 105, after 104"));
    assert!(cut(109).notes.iter().any(|note| note.contains("nothing was cut off")));
    assert_eq!(cut(107).findings, []);
    assert_eq!(run(&options(&storage)).logged_s, Some((105, 107)));
    let engine = open(&storage);
    assert!(engine.get(0, b"key107").expect("read").is_some());
    assert!(engine.get(0, b"key108").expect("read").is_none());
}
