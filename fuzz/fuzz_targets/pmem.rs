//! The scan of a pool of persistent memory on arbitrary files: recovered or refused, never a panic; what it
//! yields is in order, within its bounds and without a hole; and what it leaves reads the same a second time.
//!
//! The first byte picks: raw bytes as control and pool file (divided at the first 4096), or a script that makes
//! voids, chunks and records with valid checksums, of which then some bits are turned and lines broken.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sexton_persistence::pmem::sim::{CraftedPool, SimMode};
use sexton_persistence::pmem::{List, NewRecord, OnDamage, PmemOptions, PmemPool, SimPmem};
use std::path::Path;

const SLOT_BYTES: usize = 4096;
const SLOTS: usize = 4;
const FILES: usize = 2;

fn dir() -> &'static Path {
    Path::new("/p")
}

/// Small numbers near those that would fit, so that gaps and overlaps are met often.
fn near(fits: u64, byte: u8) -> u64 {
    if byte < 200 { fits } else { (fits + u64::from(byte % 8)).saturating_sub(4) }
}

/// A pool from a script of six bytes a step.
fn crafted(script: &[u8]) -> SimPmem {
    let mut pool = CraftedPool::new(FILES, SLOTS, SLOT_BYTES);
    pool.set_pair(0, 1000, 0);
    let (mut at, mut next, mut broken) = ((0, 0), 1_u64, Vec::new());
    for step in script.chunks_exact(6) {
        let &[kind, a, b, c, d, e] = step else { continue };
        match kind {
            0..40 => {
                let (file, slot) = (usize::from(a) % FILES, usize::from(b) % SLOTS);
                let list = if c & 1 == 0 { List::Versions } else { List::Graves };
                let slots = if d < 200 { 1 } else { u32::from(d % 6) };
                let header = (u64::from(e % 4), near(next - 1, c), slots);
                let offset = pool.add_chunk((file, slot * SLOT_BYTES), header, list);
                at = (file, offset);
            }
            40..220 => {
                let value = vec![a; usize::from(b) * if c & 128 == 0 { 1 } else { 20 }];
                let seq = near(next, d);
                let record = NewRecord {
                    seq,
                    kind: c % 16,
                    flags: a,
                    aux: 0,
                    more: e & 1 == 1,
                    key: (b"k", &[a]),
                    value: &value,
                };
                let first = e & 2 == 2;
                let unit = if e & 4 == 4 { 64 } else { 256 };
                let offset = if first { at.1.next_multiple_of(unit) } else { at.1 };
                at.1 = pool.add_record((at.0, offset), first, &record);
                next = seq + 1;
            }
            220..230 => {
                pool.add_void(near(next, a), near(next + 3, b));
                next = near(next + 4, c);
            }
            230..236 => pool.set_pair(near(next, a), near(next + 100, b), u64::from(c % 8)),
            236..246 => {
                let offset = usize::from(a) << 8 | usize::from(b);
                pool.damage(usize::from(d) % FILES, offset % (SLOTS * SLOT_BYTES), c);
            }
            _ => broken.push((usize::from(a) % FILES, u64::from(b) << 6)),
        }
    }
    let pmem = pool.finish(dir());
    for (file, offset) in broken {
        let path = dir().join(format!("pool-{:04}.pmem", file + 1));
        pmem.break_line(&path, offset).expect("simulated memory");
    }
    pmem
}

/// Sequences and values above the mark, and R. `None` when the pool is refused.
fn read(pmem: &SimPmem, mark: u64, on_damage: OnDamage) -> Option<(Vec<(u64, Vec<u8>)>, u64)> {
    let options = PmemOptions {
        on_damage,
        initial_bytes: 0,
        scan_threads: 1,
        slot_bytes: SLOT_BYTES as u64,
        ..PmemOptions::new(pmem.medium(), dir().to_path_buf())
    };
    let (pool, recovered) = match PmemPool::open(options, mark) {
        Ok(opened) => opened,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let mut records = Vec::new();
    for arena in &recovered.arenas {
        let mut last = mark;
        for record in arena.in_order() {
            assert!(record.seq > last && record.seq <= recovered.last_seq, "order and bounds");
            last = record.seq;
            records.push((record.seq, record.value.to_vec()));
        }
        assert_eq!(last, arena.last_seq);
    }
    assert_eq!(records.len() as u64, recovered.report.records);
    assert!(recovered.next_seq > recovered.last_seq && pool.durable() + 1 == recovered.next_seq);
    Some((records, recovered.last_seq))
}

fuzz_target!(|input: &[u8]| {
    let Some((&pick, rest)) = input.split_first() else { return };
    let pmem = if pick & 1 == 0 {
        let pmem = SimPmem::new(SimMode::Pmem);
        let (control, pool) = rest.split_at(rest.len().min(4096));
        pmem.put(&dir().join("control.pmem"), [control, &vec![0; 8192 - control.len()]].concat());
        let len = pool.len().next_multiple_of(SLOT_BYTES).max(SLOT_BYTES);
        pmem.put(&dir().join("pool-0001.pmem"), [pool, &vec![0; len - pool.len()]].concat());
        pmem
    } else {
        crafted(rest)
    };
    let mark = u64::from(pick >> 2) % 8;
    let on_damage = if pick & 2 == 0 { OnDamage::Refuse } else { OnDamage::Cut };
    let Some(first) = read(&pmem, mark, on_damage) else { return };
    let again = read(&pmem, mark, OnDamage::Refuse).expect("what was read once is read again");
    assert_eq!(again, first);
});
