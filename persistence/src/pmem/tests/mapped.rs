//! The pool on real files by way of libpmem (Debian package libpmem1; scripts/setup.sh test installs it).

use std::thread;

use parking_lot::Mutex;

use super::*;
use crate::device::TempDir;

fn mapped(dir: &TempDir, emulated: bool) -> PmemOptions {
    let medium = MappedMedium::load(dir, emulated).expect("libpmem, see scripts/setup.sh");
    PmemOptions {
        file_bytes: 1 << 20,
        initial_bytes: 1 << 20,
        scan_threads: 2,
        ..PmemOptions::new(medium, dir.to_path_buf())
    }
}

/// Four threads commit under one lock for the sequences, fence in batches, and leave the pool without closing it.
fn write_and_read_back(dir: &TempDir, emulated: bool) {
    const PER_THREAD: u64 = 2000;
    let (pool, recovered) = PmemPool::open(mapped(dir, emulated), 0).expect("opens");
    assert_eq!((recovered.last_seq, recovered.next_seq), (0, 1));
    let (arena, next_seq) = (pool.new_arena(), Mutex::new(recovered.next_seq));
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (pool, arena, next_seq) = (&pool, &arena, &next_seq);
            scope.spawn(move || {
                let mut writer = pool.writer().expect("a writer");
                for nth in 0..PER_THREAD {
                    writer.prepare(arena, List::Versions, encoded_len(5, 400)).expect("room");
                    let mut next = next_seq.lock();
                    let seq = *next;
                    pool.cover(seq).expect("c_d");
                    writer.begin(seq, seq);
                    *next += 1;
                    drop(next);
                    let op = Op::put(seq, &vec![thread as u8; (seq % 400) as usize]);
                    writer.append(List::Versions, &op.record());
                    if nth % 16 == 15 {
                        writer.fence().expect("a fence");
                    }
                    assert!(pool.durable() < *next_seq.lock());
                }
            });
        }
    });
    assert_eq!(pool.durable(), 4 * PER_THREAD, "dropped writers have fenced");
    drop((arena, pool));
    let (pool, recovered) = PmemPool::open(mapped(dir, emulated), 0).expect("opens again");
    assert_eq!(recovered.last_seq, 4 * PER_THREAD);
    let (next_seq, mut expected) = (recovered.next_seq, 1);
    for op in recovered_ops(&recovered) {
        assert_eq!((op.seq, op.value.len() as u64), (expected, expected % 400));
        expected += 1;
    }
    assert_eq!(expected, 4 * PER_THREAD + 1);
    pool.installed(recovered.last_seq);
    recovered.arenas.iter().for_each(|recovered| recovered.arena.retire());
    drop(recovered);
    assert!(pool.erase_retired().expect("erases") > 0);
    assert_eq!(pool.figures().used_bytes, 0);
    pool.close().expect("closes");
    drop(pool);
    let (_, recovered) = PmemPool::open(mapped(dir, emulated), 4 * PER_THREAD).expect("opens");
    assert_eq!(recovered.next_seq, next_seq, "closed in good order: none is given up");
}

#[test]
fn emulated_memory_keeps_what_four_threads_wrote() {
    let dir = TempDir::new("pmem-emulated");
    assert_eq!(mapped(&dir, true).medium.kind(), PmemKind::Emulated);
    write_and_read_back(&dir, true);
}

#[test]
fn plain_files_keep_it_through_msync() {
    let dir = TempDir::new("pmem-msync");
    assert_eq!(mapped(&dir, false).medium.kind(), PmemKind::Msync);
    write_and_read_back(&dir, false);
}

#[test]
fn a_directory_that_cannot_be_mapped_is_named() {
    let path = Path::new("/proc/pmem");
    let error = MappedMedium::load(path, true).expect_err("no files in there");
    assert!(error.to_string().contains("/proc/pmem"), "{error}");
}
