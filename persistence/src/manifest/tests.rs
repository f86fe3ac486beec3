use std::path::Path;

use super::*;
use crate::device::sim::{CrashOptions, SimFaults, SimRandom, SimStorage};

fn dir() -> &'static Path {
    Path::new("/data")
}

fn shared(storage: &SimStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

fn created() -> (SimStorage, Manifest) {
    let storage = SimStorage::new();
    storage.create_dir_all(dir()).expect("mkdir");
    let manifest = Manifest::create(shared(&storage), dir()).expect("creates");
    (storage, manifest)
}

fn replayed(storage: &SimStorage) -> Result<Vec<Vec<u8>>, ManifestError> {
    Manifest::open(shared(storage), dir())?.replay()
}

#[test]
fn every_crash_leaves_all_confirmed_records_and_at_most_the_one_under_way() {
    for seed in 0..500 {
        let mut random = SimRandom::new(seed);
        let (mut storage, mut manifest) = created();
        let mut records: Vec<Vec<u8>> = Vec::new();
        for _ in 0..random.below(20) {
            match random.below(10) {
                0 => {
                    records = records.split_off(records.len() / 2);
                    let kept: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
                    manifest.rewrite(&kept).expect("rewrites");
                }
                1 => {
                    // A crash inside an append: its sync fails, so it may or may not be there.
                    let record = vec![9; random.below(3000) as usize];
                    let before = storage.crash(0, CrashOptions::KEEP_ALL);
                    let file = before.open(manifest.file.path()).expect("opens");
                    let bytes = manifest.secret.encode(manifest.records, &record).expect("fits");
                    file.write_all_at(&bytes, manifest.end).expect("writes");
                    storage = before.crash(random.next_u64(), CrashOptions::default());
                    manifest = Manifest::open(shared(&storage), dir()).expect("opens");
                    if manifest.record_count() > records.len() as u64 {
                        records.push(record);
                    }
                }
                _ => {
                    let record = vec![random.below(256) as u8; random.below(2000) as usize];
                    manifest.append(&record).expect("appends");
                    records.push(record);
                }
            }
            let crashed = storage.crash(random.next_u64(), CrashOptions::default());
            let found = replayed(&crashed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(found == records, "seed {seed}");
        }
    }
}

#[test]
fn a_flipped_bit_before_the_last_record_is_refused() {
    let (storage, mut manifest) = created();
    for record in [&b"first"[..], b"second record", b"third"] {
        manifest.append(record).expect("appends");
    }
    let path = manifest.file.path().to_path_buf();
    let last_start = manifest.size_bytes() - 32;
    for bit in 0..last_start * 8 {
        let damaged = storage.crash(0, CrashOptions::KEEP_ALL);
        damaged.flip_bit(&path, bit).expect("flips");
        match replayed(&damaged) {
            Err(ManifestError::Damaged { .. }) => {}
            // Padding belongs to no record.
            Ok(records) => assert!(records.len() == 3, "bit {bit}: {records:?}"),
            Err(error) => panic!("bit {bit}: {error}"),
        }
    }
}

/// A manifest of before files had a secret, with these records.
fn of_version_1(records: &[&[u8]]) -> (SimStorage, PathBuf) {
    let (storage, manifest) = created();
    let path = manifest.path().to_path_buf();
    let file = storage.create(&path).expect("creates");
    let mut bytes = Secret::None.header();
    for (index, record) in records.iter().enumerate() {
        bytes.extend(Secret::None.encode(index as u64, record).expect("fits"));
    }
    file.write_all_at(&bytes, 0).expect("writes");
    file.sync_data().expect("syncs");
    (storage, path)
}

/// Regression: a record holds keys, and a key could hold what looked like a later record; torn, it made the
/// next start refuse the manifest as damaged.
#[test]
fn no_frame_inside_a_torn_record_is_evidence() {
    let (storage, mut manifest) = created();
    manifest.append(b"first").expect("appends");
    let forged: Vec<u8> = (0..200_u64)
        .flat_map(|index| {
            let guess = if index % 2 == 0 { Secret::None } else { Secret::Known(index) };
            guess.encode(index, b"forged").expect("fits")
        })
        .collect();
    manifest.append(&forged).expect("appends");
    let file = storage.open(manifest.path()).expect("opens");
    file.set_len(manifest.size_bytes() - 8).expect("cuts");
    assert_eq!(replayed(&storage).expect("a torn append"), [b"first"]);
}

#[test]
fn a_manifest_without_a_secret_is_read_and_gets_one() {
    let (storage, path) = of_version_1(&[b"first", b"second"]);
    let end = storage.read(&path).expect("reads").len() as u64;
    storage.open(&path).expect("opens").write_all_at(b"torn", end).expect("writes");
    let read_only = Manifest::open_read_only(shared(&storage), dir()).expect("opens");
    assert_eq!(read_only.replay().expect("reads"), [&b"first"[..], b"second"]);
    for _ in 0..2 {
        assert_eq!(replayed(&storage).expect("opens"), [&b"first"[..], b"second"]);
        let opened = Manifest::open(shared(&storage), dir()).expect("opens");
        assert!(matches!(opened.secret, Secret::Known(_)) && opened.path() != path);
    }
}

/// Regression: behind a torn record each eight bytes of it were read as a frame, to the end of the file.
#[test]
fn a_long_torn_record_is_looked_through_once() {
    // Lengths that fit everywhere, with indexes that a later record could have.
    let forged: Vec<u8> = (0..100_000_u64)
        .flat_map(|_| [&50_000_u32.to_le_bytes()[..], &[7; 4], &2_u64.to_le_bytes()].concat())
        .collect();
    let (storage, mut manifest) = created();
    manifest.append(b"first").expect("appends");
    manifest.append(&forged).expect("appends");
    let file = storage.open(manifest.path()).expect("opens");
    file.set_len(manifest.size_bytes() - 8).expect("cuts");
    let before = storage.counters().read_bytes;
    assert_eq!(replayed(&storage).expect("a torn append"), [b"first"]);
    let read = storage.counters().read_bytes - before;
    assert!(read < 4 * forged.len() as u64, "{read} bytes read");
}

#[test]
fn a_manifest_without_a_readable_header_is_salvaged_by_the_places_of_its_records() {
    let (storage, mut manifest) = created();
    for record in [&b"first"[..], b"second"] {
        manifest.append(record).expect("appends");
    }
    storage.flip_bit(manifest.path(), 17 * 8).expect("flips");
    assert!(matches!(replayed(&storage), Err(ManifestError::Damaged { offset: 0, .. })));
    let found = salvage(&storage, dir()).expect("reads");
    assert_eq!(found.records, [&b"first"[..], b"second"]);
    assert!(found.is_whole);
}

#[test]
fn a_failed_append_blocks_until_a_rewrite() {
    let (storage, mut manifest) = created();
    manifest.append(b"kept").expect("appends");
    storage.set_faults(SimFaults { fail_sync: Some(1), ..SimFaults::default() });
    assert!(manifest.append(b"unknown").is_err());
    assert!(matches!(manifest.append(b"next"), Err(ManifestError::Failed { .. })));
    manifest.rewrite(&[b"kept", b"next"]).expect("rewrites");
    manifest.append(b"last").expect("appends again");
    let found = replayed(&storage.crash(3, CrashOptions::LOSE_ALL)).expect("opens");
    assert_eq!(found, [&b"kept"[..], b"next", b"last"]);
    assert_eq!(storage.list(dir()).expect("lists"), ["CURRENT", "MANIFEST-00000002"]);
}

/// The process ends between write and sync of a record, or between rename of the pointer and sync of
/// the directory; the next one reads it, builds on it, and then the power fails.
#[test]
fn what_was_read_after_the_end_of_a_process_survives_a_power_failure() {
    for steps in 0..12 {
        for rewrites in [false, true] {
            let (storage, mut manifest) = created();
            manifest.append(b"first").expect("appends");
            storage.set_faults(SimFaults { power_off_after: Some(steps), ..SimFaults::default() });
            let _ = if rewrites {
                manifest.rewrite(&[b"first", b"second"])
            } else {
                manifest.append(b"second")
            };
            drop(manifest);
            storage.set_faults(SimFaults::default());
            let read = replayed(&storage).expect("opens after the end of the process");
            let crashed = storage.crash(0, CrashOptions::LOSE_ALL);
            assert_eq!(replayed(&crashed).expect("opens"), read, "{steps} steps, {rewrites}");
        }
    }
}

/// Regression: the next attempt wrote over the file that the pointer of a failed one already named, and a
/// crash in the middle of that left a torn manifest.
#[test]
fn a_rewrite_after_a_failed_one_leaves_what_the_pointer_names() {
    for steps in 0..12 {
        let (storage, mut manifest) = created();
        manifest.append(b"first").expect("appends");
        // The second sync of the directory: the pointer has moved, but nobody knows whether for good.
        storage.set_faults(SimFaults { fail_sync_dir: Some(2), ..SimFaults::default() });
        manifest.rewrite(&[b"first", b"second"]).expect_err("the fault");
        storage.set_faults(SimFaults { power_off_after: Some(steps), ..SimFaults::default() });
        let _ = manifest.rewrite(&[b"first", b"second", b"third"]);
        for options in [CrashOptions::KEEP_ALL, CrashOptions::LOSE_ALL] {
            let found = replayed(&storage.crash(steps, options)).expect("opens");
            assert_eq!(found[0], b"first", "{steps} steps");
        }
    }
}
