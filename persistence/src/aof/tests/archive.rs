//! Retired segments that are kept, and a log that is put together from them.

use super::*;
use crate::aof::gather;
use crate::device::sim::{CrashOptions, SimFaults};

const ARCHIVE: &str = "/data/archive";

fn archiving(policy: SyncPolicy) -> LogOptions {
    LogOptions { archive_dir: Some(ARCHIVE.into()), ..options(policy) }
}

/// Commits 1 to 40; every tenth ends a segment, and marks follow up to 30.
fn run(rig: &Rig) -> Result<Vec<Commit>, LogError> {
    let mut commits = Vec::new();
    for seq in 1..=40 {
        let commit = Commit::new(seq, 1, 0, 100);
        rig.append(&commit);
        commits.push(commit);
        rig.core.sync_through(seq)?;
        if seq % 10 == 0 {
            rig.cut();
            rig.core.write_batch()?;
            rig.core.segments.prepare(rig.core.policy())?;
        }
        if seq % 10 == 5 && seq > 10 {
            rig.core.segments.retire_through(seq - 5)?;
        }
    }
    Ok(commits)
}

fn elsewhere() -> LogLocation {
    LogLocation { dir: PathBuf::from("/restored/appendonlydir"), ..location() }
}

fn recovered(storage: &SimStorage, mark: u64) -> Vec<u64> {
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut recovery = recover(&shared, &elsewhere(), mark, mark).expect("a log");
    let mut seqs = Vec::new();
    while let Some(group) = recovery.next_group().expect("no hole") {
        seqs.extend(group.first_seq..group.first_seq + group.count);
    }
    seqs
}

#[test]
fn archive_and_log_together_are_everything_behind_any_mark() {
    for policy in [SyncPolicy::No, SyncPolicy::Always] {
        let storage = storage();
        let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
        let rig = Rig::open(&storage, archiving(policy), &tail, 0);
        run(&rig).expect("no faults here");
        let archived = storage.list(Path::new(ARCHIVE)).expect("an archive");
        assert!(archived.len() >= 3 && archived.iter().all(|name| !name.starts_with("temp-")));
        let names = storage.list(&location().dir).expect("a directory");
        assert!(
            !names.iter().any(|name| name.ends_with(".spare")),
            "none is used again: {names:?}"
        );
        for mark in [0, 10, 20, 30] {
            let storage = storage.crash(0, CrashOptions::KEEP_ALL);
            storage.create_dir_all(Path::new("/restored")).expect("mkdir");
            let sources = [location().dir, ARCHIVE.into()];
            let gathered = gather(&storage, &sources, &elsewhere(), mark).expect("segments");
            assert!(gathered.segments > 0 && gathered.bytes > 0);
            assert_eq!(recovered(&storage, mark), (mark + 1..=40).collect::<Vec<_>>());
            let again = gather(&storage, &sources, &elsewhere(), mark);
            assert!(matches!(again, Err(LogError::InTheWay { .. })));
        }
        let late = gather(&storage, &[location().dir], &elsewhere(), 0);
        assert!(matches!(late, Err(LogError::StartsAboveMark { mark: 0, .. })), "{late:?}");
    }
}

/// The power goes between any two steps: what the log lacks then is in the archive.
#[test]
fn no_segment_is_lost_between_log_and_archive() {
    let mut finished = false;
    for operations in 0..1000 {
        let storage = storage();
        let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
        let rig = Rig::open(&storage, archiving(SyncPolicy::Always), &tail, 0);
        let faults = SimFaults { power_off_after: Some(operations), ..SimFaults::default() };
        storage.set_faults(faults);
        finished = run(&rig).is_ok();
        let durable = rig.core.durable();
        let storage = storage.crash(operations, CrashOptions::default());
        if durable == 0 {
            continue;
        }
        // The start after it clears away what is not listed.
        let mark = durable / 10 * 10;
        let (_, tail) = read_all(&storage, mark, durable).expect("a log");
        drop(Rig::open(&storage, archiving(SyncPolicy::Always), &tail, tail.last_seq));
        storage.create_dir_all(Path::new("/restored")).expect("mkdir");
        storage.create_dir_all(Path::new(ARCHIVE)).expect("mkdir");
        let sources = [location().dir, ARCHIVE.into()];
        gather(&storage, &sources, &elsewhere(), 0).expect("segments");
        let seqs = recovered(&storage, 0);
        assert!(seqs.len() as u64 >= durable, "{} of {durable} after {operations}", seqs.len());
        if finished {
            break;
        }
    }
    assert!(finished, "the last round reaches the end");
}
