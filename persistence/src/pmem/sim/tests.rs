use std::path::Path;

use super::*;

const LANE: u32 = 1;

fn region(pmem: &SimPmem) -> Arc<dyn Region> {
    let medium = pmem.medium();
    let region = medium.create(Path::new("/p/a"), 8192).expect("creates");
    medium.sync_dir(Path::new("/p")).expect("syncs");
    region
}

fn content(pmem: &SimPmem) -> Vec<u8> {
    pmem.durable(Path::new("/p/a")).expect("a file")
}

#[test]
fn only_what_its_own_lane_has_fenced_survives_for_certain() {
    let pmem = SimPmem::default();
    let region = region(&pmem);
    region.copy(LANE, 0, &[1; 64]);
    region.copy(LANE + 1, 64, &[2; 64]);
    region.fence(LANE, &[]).expect("a fence");
    region.copy(LANE, 128, &[3; 64]);
    let after = content(&pmem.crash(1, CrashOptions::LOSE_ALL));
    assert_eq!((after[0], after[64], after[128]), (1, 0, 0));
    let after = content(&pmem.crash(1, CrashOptions::KEEP_ALL));
    assert_eq!((after[0], after[64], after[128]), (1, 2, 3));
}

#[test]
fn a_torn_line_changes_by_whole_words_and_lines_are_lost_one_by_one() {
    let pmem = SimPmem::default();
    region(&pmem).copy(LANE, 0, &[7; 640]);
    let (mut torn, mut kept, mut lost) = (0, 0, 0);
    for seed in 0..200 {
        let options = CrashOptions { keep_percent: 70, tear_percent: 30 };
        let after = content(&pmem.crash(seed, options));
        for line in after[..640].chunks(64) {
            let words = line.chunks(8).filter(|word| **word == [7; 8]).count();
            let bytes = line.iter().filter(|byte| **byte == 7).count();
            assert_eq!(bytes, words * 8, "no word is torn");
            match words {
                0 => lost += 1,
                8 => kept += 1,
                _ => torn += 1,
            }
        }
    }
    // 2000 lines: 30 % lost, 21 % torn, the rest whole.
    assert!((500..700).contains(&lost) && (320..520).contains(&torn), "{lost} {kept} {torn}");
}

#[test]
fn msync_takes_the_pages_of_its_ranges_whoever_wrote() {
    let pmem = SimPmem::new(SimMode::Msync);
    let region = region(&pmem);
    region.copy(LANE, 0, &[1; 8]);
    region.copy(LANE + 1, 8, &[2; 8]);
    region.copy(LANE, 5000, &[3; 8]);
    region.fence(LANE, &[0..8, 16..24]).expect("syncs");
    let after = content(&pmem.crash(1, CrashOptions::LOSE_ALL));
    assert_eq!((after[0], after[8], after[5000]), (1, 2, 0));
}

#[test]
fn without_power_nothing_reaches_the_medium_and_what_can_fail_fails() {
    let pmem = SimPmem::default();
    let region = region(&pmem);
    pmem.power_off_after(1);
    region.copy(LANE, 0, &[1; 8]);
    assert!(!pmem.is_on());
    region.copy(LANE, 8, &[2; 8]);
    assert!(region.fence(LANE, &[]).is_err());
    assert!(pmem.medium().create(Path::new("/p/b"), 64).is_err());
    let after = content(&pmem.crash(1, CrashOptions::KEEP_ALL));
    assert_eq!((after[0], after[8]), (1, 0));
}

#[test]
fn names_are_durable_with_the_directory() {
    let pmem = SimPmem::default();
    let path = Path::new("/p/b");
    pmem.medium().create(path, 64).expect("creates");
    assert!(pmem.crash(1, CrashOptions::LOSE_ALL).durable(path).is_err());
    pmem.medium().sync_dir(Path::new("/p")).expect("syncs");
    assert!(pmem.crash(1, CrashOptions::LOSE_ALL).durable(path).is_ok());
    assert!(pmem.medium().create(path, 64).is_err(), "it is there");
}

#[test]
fn a_broken_line_cannot_be_read_until_it_is_rewritten() {
    let pmem = SimPmem::default();
    let region = region(&pmem);
    pmem.break_line(Path::new("/p/a"), 300).expect("breaks");
    let mut buf = [0; 16];
    assert!(region.read(250, &mut buf).is_err(), "it begins at 256");
    region.read(512, &mut buf).expect("behind it");
    region.rewrite_zeros(256, 256).expect("heals");
    region.read(250, &mut buf).expect("healed");
}
