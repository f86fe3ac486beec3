//! Records appended to a pool of persistent memory, and read back: the raw path, without engine and network.
//!
//! `cargo run --release -p sexton-persistence --example pmem_append -- DIR [MEGABYTES [THREADS]]`: for each value size
//! and batch length appends MEGABYTES (default 256) by THREADS (default 1) and prints what it took; then leaves the
//! last pool as a killed process would, and opens it again. DIR counts as emulated persistent memory; on
//! tmpfs these are figures of DRAM.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use std::{env, fs, thread};

use parking_lot::Mutex;
use sexton_persistence::pmem::{
    KIND_PUT, List, MappedMedium, NewRecord, PmemArena, PmemOptions, PmemPool, PmemResult,
};

const KEY: &[u8] = b"user:0000000000000000";

fn options(dir: &Path, megabytes: u64) -> PmemResult<PmemOptions> {
    let medium = MappedMedium::load(dir, true)?;
    // Headers, lines between batches, and a chunk a writer that is not full.
    let bytes = (megabytes << 20) * 3 + (64 << 20);
    let options = PmemOptions::new(medium, dir.to_path_buf());
    Ok(PmemOptions { file_bytes: bytes / 4, initial_bytes: bytes, max_bytes: 2 * bytes, ..options })
}

/// What one thread does: `records` of `value`, a fence behind each `batch` of them.
fn append(
    pool: &Arc<PmemPool>,
    arena: &Arc<PmemArena>,
    next_seq: &Mutex<u64>,
    (records, batch, value): (u64, u64, &[u8]),
) -> PmemResult<()> {
    let mut writer = pool.writer()?;
    for nth in 1..=records {
        let key = (&KEY[..9], &KEY[9..]);
        let mut record =
            NewRecord { seq: 0, kind: KIND_PUT, flags: 0, aux: 0, more: false, key, value };
        writer.prepare(arena, List::Versions, record.encoded_len())?;
        let mut next = next_seq.lock();
        record.seq = *next;
        pool.cover(record.seq)?;
        writer.begin(record.seq, record.seq);
        *next += 1;
        drop(next);
        writer.append(List::Versions, &record);
        if nth % batch == 0 {
            writer.fence()?;
        }
    }
    writer.fence()
}

fn run(dir: &Path, megabytes: u64, threads: u64, value_bytes: usize, batch: u64) -> PmemResult<()> {
    let _ = fs::remove_dir_all(dir);
    let (pool, recovered) = PmemPool::open(options(dir, megabytes)?, 0)?;
    let (arena, next_seq) = (pool.new_arena(), Mutex::new(recovered.next_seq));
    let value = vec![b'x'; value_bytes];
    let records = (megabytes << 20) / (value_bytes + KEY.len() + 32) as u64 / threads;
    let begun = Instant::now();
    thread::scope(|scope| {
        let work = || append(&pool, &arena, &next_seq, (records, batch, &value));
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("does not panic"))
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let figures = pool.figures();
    println!(
        "{value_bytes:>6} {batch:>6} {threads:>8} {:>12.0} {:>8.0} {:>12.2}",
        figures.records as f64 / seconds,
        figures.record_bytes as f64 / seconds / 1e6,
        figures.media_bytes as f64 / figures.record_bytes as f64,
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("DIR is missing")?).join("pmem-append");
    let megabytes = args.next().map_or(Ok(256), |text| text.parse())?;
    let threads = args.next().map_or(Ok(1), |text| text.parse())?;
    println!(" value  batch  threads    records/s     MB/s  media/bytes");
    for value_bytes in [8, 64, 256, 1024, 4096] {
        for batch in [1, 16] {
            run(&dir, megabytes, threads, value_bytes, batch)?;
        }
    }
    run(&dir, megabytes, threads, 1024, 16)?;
    let begun = Instant::now();
    let (pool, recovered) = PmemPool::open(options(&dir, megabytes)?, 0)?;
    let opened = begun.elapsed();
    let visited: usize = recovered.arenas.iter().map(|arena| arena.in_order().count()).sum();
    let report = &recovered.report;
    println!(
        "recovery ({}): {} records, {} MB of {} MB in {opened:.2?} (map {:.2?}, scan {:.2?} by {} threads, \
         settle {:.2?}); walked in order, {visited} records: {:.2?}",
        pool.kind(),
        report.records,
        report.record_bytes >> 20,
        report.scanned_bytes >> 20,
        report.map_time,
        report.scan_time,
        report.threads,
        report.settle_time,
        begun.elapsed() - opened,
    );
    drop((pool, recovered));
    fs::remove_dir_all(&dir)?;
    Ok(())
}
