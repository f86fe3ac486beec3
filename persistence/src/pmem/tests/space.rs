//! Room: long records, a full pool, slots that come back, files that come and go.

use super::*;
use crate::pmem::chunk::{CHUNK_HEADER_BYTES, Walk};
use crate::pmem::sim::SimMode;

fn open(pmem: &SimPmem, mark: u64) -> (Arc<PmemPool>, Recovered) {
    PmemPool::open(options(pmem), mark).expect("opens")
}

#[test]
fn records_are_laid_out_by_batches() {
    let pmem = SimPmem::default();
    let (pool, _) = open(&pmem, 0);
    let (mut writer, arena) = (pool.writer().expect("a writer"), pool.new_arena());
    let mut addresses = Vec::new();
    // 32 + 5 + 8, padded: 48 bytes each.
    for (seq, ends_batch) in [(1, false), (2, true), (3, true), (4, true), (5, false), (6, true)] {
        let op = Op::put(seq, b"12345678");
        writer.prepare(&arena, op.list(), op.record().encoded_len()).expect("room");
        writer.begin(seq, seq);
        addresses.push(writer.append(op.list(), &op.record()).address() as usize);
        if ends_batch {
            writer.fence().expect("a fence");
        }
    }
    let offsets: Vec<_> = addresses.iter().map(|at| at - addresses[0]).collect();
    // 1 and 2 touch each other, and so do 5 and 6; 3, 4 and 5 each begin a line.
    assert_eq!(offsets, [0, 48, 128, 192, 256, 304]);
    let figures = pool.figures();
    assert_eq!((figures.records, figures.record_bytes, figures.fences), (6, 6 * 48, 4));
    assert_eq!(figures.media_bytes, 5 * 256, "header and four batches");
    assert_eq!(arena.used_bytes(), 256 + 304 + 48);
}

#[test]
fn a_long_record_takes_slots_in_a_row_and_comes_back_whole() {
    let pmem = SimPmem::default();
    let (pool, _) = open(&pmem, 0);
    let (mut writer, arena) = (pool.writer().expect("a writer"), pool.new_arena());
    let value: Vec<u8> = (0..40_003_u32).map(|at| (at >> 3) as u8).collect();
    let ops = [Op::put(1, b"short"), Op::put(2, &value), Op::put(3, b"")];
    for op in &ops {
        commit(&pool, &mut writer, &arena, std::slice::from_ref(op)).expect("commits");
        writer.fence().expect("a fence");
    }
    let crashed = pmem.crash(1, crate::device::sim::CrashOptions::LOSE_ALL);
    let (_, recovered) = open(&crashed, 0);
    assert_eq!(recovered_ops(&recovered), ops);
    assert_eq!(recovered.last_seq, 3);
}

#[test]
fn a_full_pool_says_so_before_a_sequence_is_taken_and_goes_on_after_an_erasure() {
    let pmem = SimPmem::default();
    let (pool, _) = open(&pmem, 0);
    let mut writer = pool.writer().expect("a writer");
    let (mut arena, mut seq) = (pool.new_arena(), 0);
    let full = loop {
        match commit(&pool, &mut writer, &arena, &[Op::put(seq + 1, &[1; 3000])]) {
            Ok(_) => seq += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(seq, 64, "one a slot");
    assert!(matches!(full, PmemError::Full { max_bytes: 262_144, .. }), "{full}");
    writer.fence().expect("a fence");
    assert_eq!(pool.durable(), 64);
    pool.installed(64);
    arena.retire();
    arena = pool.new_arena();
    let figures = pool.figures();
    assert_eq!((figures.retired_bytes, figures.used_bytes), (64 * 4096, 64 * 4096));
    assert_eq!(pool.erase_retired().expect("erases"), 64 * 4096);
    assert_eq!(pool.figures().used_bytes, 0);
    commit(&pool, &mut writer, &arena, &[Op::put(65, &[1; 3000])]).expect("there is room");
}

#[test]
fn an_arena_that_is_dropped_without_being_retired_stays() {
    let pmem = SimPmem::default();
    let (pool, _) = open(&pmem, 0);
    let (mut writer, arena) = (pool.writer().expect("a writer"), pool.new_arena());
    commit(&pool, &mut writer, &arena, &[Op::put(1, b"kept")]).expect("commits");
    drop((writer, arena));
    assert_eq!(pool.erase_retired().expect("nothing to do"), 0);
    drop(pool);
    assert_eq!(open(&pmem, 0).1.last_seq, 1);
}

/// N17: what was flushed or given up is in no slot any more.
#[test]
fn nothing_stays_readable_of_what_was_retired_or_given_up() {
    let pmem = SimPmem::default();
    let (pool, _) = open(&pmem, 0);
    let (mut writer, arena) = (pool.writer().expect("a writer"), pool.new_arena());
    commit(&pool, &mut writer, &arena, &[Op::put(1, b"first secret")]).expect("commits");
    writer.fence().expect("a fence");
    assert!(pmem.holds(b"first secret"));
    pool.installed(1);
    arena.retire();
    drop(arena);
    pool.erase_retired().expect("erases");
    assert!(!pmem.holds(b"first secret"));

    let (arena, mut other) = (pool.new_arena(), pool.writer().expect("another"));
    commit(&pool, &mut other, &arena, &[Op::put(2, b"never fenced")]).expect("commits");
    commit(&pool, &mut writer, &arena, &[Op::put(3, b"behind a hole")]).expect("commits");
    writer.fence().expect("a fence");
    assert_eq!(pool.durable(), 1);
    let crashed = pmem.crash(1, crate::device::sim::CrashOptions::LOSE_ALL);
    assert!(crashed.holds(b"behind a hole"));
    let (_, recovered) = open(&crashed, 1);
    assert_eq!((recovered.last_seq, recovered.report.given_up), (1, 1));
    assert!(!crashed.holds(b"behind a hole"));
}

#[test]
fn what_the_mark_has_passed_is_erased_at_a_start() {
    let pmem = SimPmem::default();
    let (pool, _) = open(&pmem, 0);
    let (mut writer, arena) = (pool.writer().expect("a writer"), pool.new_arena());
    commit(&pool, &mut writer, &arena, &[Op::put(1, b"in the tree")]).expect("commits");
    writer.fence().expect("a fence");
    let crashed = pmem.crash(1, crate::device::sim::CrashOptions::LOSE_ALL);
    let (pool, recovered) = open(&crashed, 1);
    assert!(recovered.arenas.is_empty() && !crashed.holds(b"in the tree"));
    assert_eq!(pool.figures().used_bytes, 0);
    assert_eq!(recovered.next_seq - 1, pool.durable());
}

#[test]
fn records_of_several_writers_come_in_the_order_of_their_sequences() {
    let pmem = SimPmem::default();
    let (pool, _) = open(&pmem, 0);
    let mut writers: Vec<_> = (0..3).map(|_| pool.writer().expect("a writer")).collect();
    let (mut arena, mut ops) = (pool.new_arena(), Vec::new());
    for seq in 1..=300 {
        if seq == 200 {
            arena = pool.new_arena();
        }
        let op = if seq % 4 == 0 { Op::delete(seq) } else { Op::put(seq, &[seq as u8; 60]) };
        let nth = (seq * seq % 7 % 3) as usize;
        commit(&pool, &mut writers[nth], &arena, std::slice::from_ref(&op)).expect("commits");
        ops.push(op);
    }
    writers.iter_mut().for_each(|writer| writer.fence().expect("a fence"));
    let crashed = pmem.crash(1, crate::device::sim::CrashOptions::LOSE_ALL);
    let (_, recovered) = open(&crashed, 50);
    assert_eq!(recovered_ops(&recovered), ops[50..]);
    let bounds: Vec<_> = recovered
        .arenas
        .iter()
        .map(|arena| (arena.first_seq, arena.last_seq, arena.records))
        .collect();
    assert_eq!(bounds, [(51, 199, 149), (200, 300, 101)]);
}

#[test]
fn a_fence_that_fails_holds_durable_back_until_a_flush_takes_over() {
    let pmem = SimPmem::new(SimMode::Msync);
    let (pool, _) = open(&pmem, 0);
    let (mut writer, arena) = (pool.writer().expect("a writer"), pool.new_arena());
    commit(&pool, &mut writer, &arena, &[Op::put(1, b"a")]).expect("commits");
    pmem.fail_fence(1);
    assert!(matches!(writer.fence(), Err(PmemError::Storage(_))));
    commit(&pool, &mut writer, &arena, &[Op::put(2, b"b")]).expect("commits");
    assert!(writer.fence().is_err(), "1 is still missing");
    assert_eq!(pool.durable(), 0);
    pool.installed(2);
    commit(&pool, &mut writer, &arena, &[Op::put(3, b"c")]).expect("commits");
    assert_eq!(pool.durable(), 2);
    writer.fence().expect("a flush has taken over");
    assert_eq!(pool.durable(), 3);
    let crashed = pmem.crash(1, crate::device::sim::CrashOptions::LOSE_ALL);
    assert_eq!(open(&crashed, 2).1.last_seq, 3);
}

#[test]
fn writers_are_bounded_and_their_places_come_back() {
    let pmem = SimPmem::default();
    let (pool, _) = open(&pmem, 0);
    let writers: Vec<_> = (0..8).map(|_| pool.writer().expect("a writer")).collect();
    assert!(matches!(pool.writer(), Err(PmemError::TooManyWriters { writers_max: 8 })));
    drop(writers);
    assert!(pool.writer().is_ok());
}

#[test]
fn the_size_of_slots_changes_only_while_a_pool_is_empty() {
    let pmem = SimPmem::default();
    let (pool, _) = open(&pmem, 0);
    pool.make_room(8 * 4096).expect("room");
    drop(pool);
    let larger = || PmemOptions { slot_bytes: 8192, ..options(&pmem) };
    let (pool, _) = PmemPool::open(larger(), 0).expect("opens");
    let (mut writer, arena) = (pool.writer().expect("a writer"), pool.new_arena());
    commit(&pool, &mut writer, &arena, &[Op::put(1, b"a")]).expect("commits");
    assert_eq!(pool.figures().used_bytes, 8192);
    drop((writer, arena, pool));
    let (pool, recovered) = open(&pmem, 0);
    assert_eq!((recovered.last_seq, pool.figures().used_bytes), (1, 8192));
    let odd = PmemOptions { slot_bytes: 5000, ..options(&SimPmem::default()) };
    assert!(matches!(PmemPool::open(odd, 0), Err(PmemError::Refused { .. })));
}

#[test]
fn a_store_that_went_on_without_the_pool_comes_back_behind_its_mark() {
    let pmem = SimPmem::default();
    let (pool, _) = open(&pmem, 0);
    let (mut writer, arena) = (pool.writer().expect("a writer"), pool.new_arena());
    commit(&pool, &mut writer, &arena, &[Op::put(1, b"a")]).expect("commits");
    writer.fence().expect("a fence");
    pool.close().expect("closes");
    let (pool, recovered) = open(&pmem, 5_000_000);
    assert_eq!((recovered.last_seq, recovered.next_seq), (5_000_000, 5_000_001));
    let (mut writer, arena) = (pool.writer().expect("a writer"), pool.new_arena());
    let op = Op::put(5_000_001, b"b");
    commit(&pool, &mut writer, &arena, std::slice::from_ref(&op)).expect("commits");
    writer.fence().expect("a fence");
    let crashed = pmem.crash(1, crate::device::sim::CrashOptions::LOSE_ALL);
    assert_eq!(recovered_ops(&open(&crashed, 5_000_000).1), [op]);
}

#[test]
fn a_batch_is_copied_for_who_reads_it_and_goes_on() {
    for mode in [SimMode::Pmem, SimMode::Msync] {
        let pmem = SimPmem::new(mode);
        let (pool, _) = open(&pmem, 0);
        let (mut writer, arena) = (pool.writer().expect("a writer"), pool.new_arena());
        let ops = [Op::put(1, b"before"), Op::put(2, b"behind")];
        let first = commit(&pool, &mut writer, &arena, &ops[..1]).expect("commits")[0];
        let chunk = &arena.chunks()[0];
        let read_first = || {
            let mut walk = Walk::new(arena.chunk_bytes(chunk), CHUNK_HEADER_BYTES);
            walk.next_trusted().map(|(bytes, header)| Op::of(header.record(bytes)))
        };
        assert_eq!(read_first(), None, "it waits for the fence");
        pool.copy_pending();
        assert_eq!(read_first().as_ref(), Some(&ops[0]));
        assert_eq!(pool.durable(), 0, "its writer has not fenced");
        let second = commit(&pool, &mut writer, &arena, &ops[1..]).expect("commits")[0];
        let behind = first.address() as usize + ops[0].record().encoded_len();
        assert_eq!(second.address() as usize, behind, "its writer has not fenced");
        writer.fence().expect("a fence");
        assert_eq!(pool.durable(), 2);
        let crashed = pmem.crash(1, crate::device::sim::CrashOptions::LOSE_ALL);
        assert_eq!(recovered_ops(&open(&crashed, 0).1), ops);
    }
}
