//! The pool of persistent memory, when the newest writes are there (`persistence-mode wbl`).

use super::{CheckOptions, CheckReport};
use crate::error::EngineError;
use crate::store::{POOL_DIR, POOL_MARKER, has_pool};
use sexton_persistence::pmem::{CONTROL_FILE, Inspection, PmemError, inspect};
use std::path::Path;

/// Checks the pool behind the mark as a start would read it; nothing where there is none.
pub(super) fn check(options: &CheckOptions, report: &mut CheckReport) -> Result<(), EngineError> {
    let storage = &*options.storage;
    let dir = options.dir.join(POOL_DIR);
    let is_there = storage.exists(&dir.join(CONTROL_FILE))?;
    if !has_pool(storage, &options.dir)? {
        if is_there {
            report.notes.push(format!(
                "{}: a pool of persistent memory that does not count, for there is no file {POOL_MARKER}",
                dir.display()
            ));
        }
        return Ok(());
    }
    if !is_there {
        let text = format!(
            "the file {POOL_MARKER} says that the writes behind the mark {} lie in persistent memory, where \
             there is no {CONTROL_FILE}: mount what belongs there, or remove {POOL_MARKER} to give them up",
            report.mark
        );
        report.found(dir, text);
        return Ok(());
    }
    match inspect(&options.storage, &dir, report.mark) {
        Ok(seen) => {
            for damage in &seen.damage {
                add(report, &dir, damage);
            }
            tell(&seen, report);
            report.pool = Some(seen);
        }
        Err(error) => add(report, &dir, &error),
    }
    Ok(())
}

fn add(report: &mut CheckReport, dir: &Path, error: &PmemError) {
    match error {
        // Every other error names its file itself.
        PmemError::Damaged { path, offset, message } => {
            let file = if path.is_relative() && path.parent() == Some(Path::new("")) {
                dir.join(path)
            } else {
                path.clone()
            };
            report.found(file, format!("damaged at byte {offset}: {message}"));
        }
        error => report.found(dir, error.to_string()),
    }
}

/// What is no damage.
fn tell(seen: &Inspection, report: &mut CheckReport) {
    if seen.given_up > 0 || seen.torn > 0 {
        report.notes.push(format!(
            "the pool ends with what was never known to be durable: the next start gives up {} whole records \
             above sequence {}, and erases the rest of {} chunks",
            seen.given_up, seen.last_seq, seen.torn
        ));
    }
    if seen.bad_lines > 0 {
        report.notes.push(format!(
            "{} lines of the medium cannot be read: where nothing durable was in them, the next start \
             rewrites them",
            seen.bad_lines
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{DIR, engine_options, flip, options, run};
    use super::*;
    use crate::store::{Engine, EngineOptions};
    use sexton_persistence::device::Storage;
    use sexton_persistence::device::sim::SimStorage;
    use sexton_persistence::pmem::{PmemOptions, SimPmem};
    use std::path::PathBuf;
    use std::sync::Arc;

    fn pool_file(name: &str) -> PathBuf {
        Path::new(DIR).join(POOL_DIR).join(name)
    }

    /// A store with 100 keys in a table, and 50 more and 10 deletes in the pool, whose files it gets copies of; and
    /// its last sequence.
    fn store() -> (Arc<dyn Storage>, u64) {
        let storage: Arc<dyn Storage> = Arc::new(SimStorage::new());
        let pmem = SimPmem::default();
        let pool_dir = Path::new(DIR).join(POOL_DIR);
        let pool = PmemOptions {
            slot_bytes: 4096,
            file_bytes: 16 * 4096,
            initial_bytes: 0,
            ..PmemOptions::new(pmem.medium(), pool_dir.clone())
        };
        let wanted =
            EngineOptions { write_behind: true, pool: Some(pool), ..engine_options(&storage) };
        let (engine, _) = Engine::open_bytes(wanted).expect("it opens");
        let put = |from: u32, to: u32| {
            for i in from..to {
                let key = format!("key{i:05}");
                engine.put(0, key.as_bytes(), key.repeat(5).as_bytes()).expect("written");
            }
        };
        put(0, 100);
        engine.flush().expect("flushed");
        put(100, 150);
        for i in 0..10 {
            engine.delete(0, format!("key{i:05}").as_bytes()).expect("deleted");
        }
        let last_seq = engine.last_seq();
        assert_eq!(engine.durable(), last_seq);
        drop(engine);
        storage.create_dir_all(&pool_dir).expect("made");
        for name in pmem.medium().list(&pool_dir).expect("listed") {
            let bytes = pmem.durable(&pool_file(&name)).expect("a file");
            let file = storage.create(&pool_file(&name)).expect("made");
            file.write_all_at(&bytes, 0).expect("written");
        }
        (storage, last_seq)
    }

    /// Position of a key's value in the first pool file.
    fn place_of(storage: &dyn Storage, value: &str) -> u64 {
        let file = storage.open(&pool_file("pool-0001.pmem")).expect("opened");
        let mut bytes = vec![0; file.len().expect("its length") as usize];
        file.read_exact_at(&mut bytes, 0).expect("read");
        let found = bytes.windows(value.len()).position(|bytes| bytes == value.as_bytes());
        found.expect("it is there") as u64
    }

    #[test]
    fn says_what_a_healthy_pool_holds() {
        let (storage, last_seq) = store();
        let report = run(&options(&storage));
        assert_eq!((report.findings, report.notes), (vec![], vec![]));
        let pool = report.pool.expect("a pool");
        assert_eq!((pool.versions, pool.graves, pool.arenas), (50, 10, 1));
        assert_eq!((pool.last_seq, pool.given_up, pool.bad_lines), (last_seq, 0, 0));
        assert!(pool.reserved_seq >= last_seq && pool.chunks >= 2);
    }

    #[test]
    fn a_record_that_was_durable_and_is_damaged_is_reported_with_its_place() {
        let (storage, _) = store();
        let at = place_of(&*storage, &"key00120".repeat(5));
        flip(&*storage, &pool_file("pool-0001.pmem"), at);
        let report = run(&options(&storage));
        let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
        assert_eq!(finding.file, pool_file("pool-0001.pmem"));
        assert!(finding.what.contains("was written behind it"), "{finding}");
    }

    #[test]
    fn a_torn_end_is_a_note() {
        let (storage, _) = store();
        let at = place_of(&*storage, "key00009");
        flip(&*storage, &pool_file("pool-0001.pmem"), at);
        let report = run(&options(&storage));
        assert_eq!(report.findings, []);
        assert!(report.notes[0].contains("never known to be durable"), "{:?}", report.notes);
    }

    #[test]
    fn a_pool_that_is_not_there_is_named() {
        let (storage, _) = store();
        let control = pool_file(CONTROL_FILE);
        storage.remove(&control).expect("removed");
        let report = run(&options(&storage));
        let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
        assert!(finding.what.contains("mount what belongs there"), "{finding}");
        assert!(report.pool.is_none());
    }

    #[test]
    fn a_pool_without_its_files_or_its_control_file_is_reported() {
        let (storage, _) = store();
        for offset in [20, 4096 + 20] {
            flip(&*storage, &pool_file(CONTROL_FILE), offset);
        }
        let report = run(&options(&storage));
        assert!(report.findings[0].what.contains("neither copy is valid"), "{:?}", report.findings);
        let (storage, _) = store();
        storage.remove(&pool_file("pool-0001.pmem")).expect("removed");
        let report = run(&options(&storage));
        assert!(report.findings[0].what.contains("pool-0001.pmem"), "{:?}", report.findings);
    }

    #[test]
    fn a_pool_without_the_marker_does_not_count() {
        let (storage, _) = store();
        storage.remove(&Path::new(DIR).join(POOL_MARKER)).expect("removed");
        let report = run(&options(&storage));
        assert_eq!((report.findings, report.pool.is_none()), (vec![], true));
        assert!(report.notes[0].contains("does not count"), "{:?}", report.notes);
    }
}
