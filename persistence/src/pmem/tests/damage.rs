//! Damage to what was durable is told from a torn tail (N8), media errors included.

use super::*;
use crate::device::sim::CrashOptions;
use crate::pmem::sim::CraftedPool;

/// A pool of one writer with five batches of one record; with `complete`, c_p covers them.
fn pool_of_five(complete: bool) -> (SimPmem, Vec<u64>) {
    let pmem = SimPmem::default();
    let (pool, _) = PmemPool::open(options(&pmem), 0).expect("opens");
    let (mut writer, arena) = (pool.writer().expect("a writer"), pool.new_arena());
    let mut addresses = Vec::new();
    for seq in 1..=5 {
        let op = Op::put(seq, &[seq as u8; 100]);
        let placed = commit(&pool, &mut writer, &arena, std::slice::from_ref(&op));
        addresses.push(placed.expect("commits")[0].address() as u64);
        writer.fence().expect("a fence");
    }
    // The first record stands behind the header of the first chunk.
    let start = addresses[0] - 256;
    if complete {
        pool.note_complete().expect("writes c_p");
    }
    (pmem.crash(1, CrashOptions::LOSE_ALL), addresses.iter().map(|at| at - start).collect())
}

fn open(pmem: &SimPmem, on_damage: OnDamage) -> PmemResult<Recovered> {
    Ok(PmemPool::open(PmemOptions { on_damage, ..options(pmem) }, 0)?.1)
}

/// Refused with a word and the file and offset; and cut when that is wanted.
fn assert_damage(pmem: &SimPmem, word: &str, last_seq: u64) {
    let before = pmem.durable(&file(1)).expect("a file");
    let error = open(pmem, OnDamage::Refuse).expect_err("damage");
    assert!(matches!(error, PmemError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains(word), "{error}");
    assert_eq!(pmem.durable(&file(1)).expect("a file"), before, "nothing was changed");
    let recovered = open(pmem, OnDamage::Cut).expect("cut");
    assert_eq!(recovered.last_seq, last_seq);
    assert!(recovered.report.damage.is_some_and(|text| text.contains(word)));
    let again = open(pmem, OnDamage::Refuse).expect("that was accepted");
    assert_eq!((again.last_seq, again.report.bad_lines), (last_seq, 0));
}

#[test]
fn a_flipped_bit_with_a_batch_behind_it_is_damage() {
    let (pmem, offsets) = pool_of_five(false);
    pmem.flip_bit(&file(1), (offsets[2] + 40) * 8).expect("flips");
    assert_damage(&pmem, "sequence 4 was written behind it", 2);
}

#[test]
fn a_media_error_with_a_batch_behind_it_is_damage_and_is_healed() {
    let (pmem, offsets) = pool_of_five(false);
    pmem.break_line(&file(1), offsets[0]).expect("breaks");
    assert_damage(&pmem, "was written behind it", 0);
}

#[test]
fn damage_to_the_last_batch_is_known_by_c_p() {
    let (pmem, offsets) = pool_of_five(true);
    pmem.flip_bit(&file(1), (offsets[4] + 40) * 8).expect("flips");
    assert_damage(&pmem, "sequence 5 is missing, everything up to 5 was durable", 4);
}

/// The known limit: without c_p it looks like a torn tail.
#[test]
fn a_media_error_in_the_last_batch_is_a_torn_tail() {
    let (pmem, offsets) = pool_of_five(false);
    // Each record of 100 bytes has a media line of its own or shares it with an earlier one.
    let line = offsets[4] / 256;
    let kept = offsets.iter().filter(|offset| *offset / 256 < line).count() as u64;
    pmem.break_line(&file(1), offsets[4]).expect("breaks");
    let recovered = open(&pmem, OnDamage::Refuse).expect("opens");
    assert_eq!((recovered.last_seq, recovered.report.bad_lines), (kept, 1));
    assert_eq!(open(&pmem, OnDamage::Refuse).expect("opens").report.bad_lines, 0, "healed");
}

#[test]
fn a_media_error_in_a_free_slot_is_healed() {
    let (pmem, _) = pool_of_five(true);
    pmem.break_line(&file(1), 5 * 4096 + 700).expect("breaks");
    let recovered = open(&pmem, OnDamage::Refuse).expect("opens");
    assert_eq!((recovered.last_seq, recovered.report.bad_lines), (5, 1));
    let recovered = open(&pmem, OnDamage::Refuse).expect("opens");
    assert_eq!((recovered.last_seq, recovered.report.bad_lines), (5, 0));
}

#[test]
fn a_chunk_that_lost_its_header_is_damage() {
    let (pmem, _) = pool_of_five(false);
    pmem.flip_bit(&file(1), 20 * 8).expect("flips");
    assert_damage(&pmem, "header is not valid", 0);
}

#[test]
fn a_sequence_that_was_never_handed_out_is_damage() {
    let (pmem, _) = pool_of_five(true);
    // The older copy of the control file says that none was: the newer one is destroyed.
    let control = dir().join(control::CONTROL_FILE);
    let durable = pmem.durable(&control).expect("a file");
    let version = |at: usize| u64::from_le_bytes(durable[at..at + 8].try_into().expect("eight"));
    let newer = if version(8) > version(4096 + 8) { 0 } else { 4096 };
    pmem.flip_bit(&control, (newer + 100) * 8).expect("flips");
    let recovered = open(&pmem, OnDamage::Refuse).expect("c_d was written before c_p");
    assert_eq!(recovered.last_seq, 5);
}

#[test]
fn a_sequence_that_is_twice_below_the_floor_gives_up_what_is_below_it_for_good() {
    let mut pool = CraftedPool::new(1, 4, 4096);
    pool.set_pair(0, 1000, 4);
    for slot in 0..2 {
        let at = pool.add_chunk((0, slot * 4096), (1, 0, 1), List::Versions);
        let record = NewRecord {
            seq: 3,
            kind: 1,
            flags: 0,
            aux: 0,
            more: false,
            key: (b"k", b"1"),
            value: b"value",
        };
        pool.add_record((0, at), true, &record);
    }
    assert_damage(&pool.finish(dir()), "more than once", 0);
}

#[test]
fn missing_files_are_refused_and_not_taken_for_new() {
    let (pmem, _) = pool_of_five(true);
    let control = dir().join(control::CONTROL_FILE);
    let medium = pmem.medium();
    medium.remove(&control).expect("removes");
    let error = open(&pmem, OnDamage::Cut).expect_err("no control file");
    assert!(error.to_string().contains("it is missing"), "{error}");

    let (pmem, _) = pool_of_five(true);
    pmem.medium().remove(&file(1)).expect("removes");
    let error = open(&pmem, OnDamage::Cut).expect_err("no pool file");
    assert!(matches!(error, PmemError::Refused { .. }), "{error}");

    let (pmem, _) = pool_of_five(true);
    pmem.put(&control, vec![0xff; 8192]);
    let error = open(&pmem, OnDamage::Cut).expect_err("no valid copy");
    assert!(error.to_string().contains("neither copy is valid"), "{error}");

    let (pmem, _) = pool_of_five(true);
    let mut bytes = pmem.durable(&control).expect("a file");
    bytes[7] = b'2';
    bytes[4096 + 7] = b'2';
    pmem.put(&control, bytes);
    let error = open(&pmem, OnDamage::Cut).expect_err("another version");
    assert!(error.to_string().contains("version 2 of the format"), "{error}");
}

/// A value may hold what looks like a record: its checksum starts from the pool's id and the chunk's use, which no client
/// knows.
#[test]
fn a_record_inside_a_value_is_not_taken_for_one() {
    let pmem = SimPmem::default();
    let (pool, _) = PmemPool::open(options(&pmem), 0).expect("opens");
    let (mut writer, arena) = (pool.writer().expect("a writer"), pool.new_arena());
    let forged = Op::put(2, b"forged");
    let mut value = forged.record().header(0, true).to_vec();
    value.extend_from_slice(&forged.key);
    value.extend_from_slice(&forged.value);
    commit(&pool, &mut writer, &arena, &[Op::put(1, &value.repeat(30))]).expect("commits");
    writer.fence().expect("a fence");
    for seed in 0..50 {
        let crashed = pmem.crash(seed, CrashOptions::default());
        // The real record is torn: everything behind its header is searched for evidence.
        crashed.flip_bit(&file(1), (256 + 33) * 8).expect("flips");
        let recovered = open(&crashed, OnDamage::Refuse).expect("opens");
        assert_eq!((recovered.last_seq, recovered.report.given_up), (0, 0));
    }
}
