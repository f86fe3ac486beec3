//! Measures a small write followed by fdatasync: at the end of a file that grows, and inside a
//! file prepared with filler. Usage: `prefilled_sync DIRECTORY [ROUNDS]`.

use std::path::PathBuf;
use std::time::Instant;

use sexton_persistence::aof::FILLER;
use sexton_persistence::device::{DiskStorage, Storage, StorageResult};

/// A group with one small command.
const WRITE_BYTES: usize = 192;
const WRITES_PER_ROUND: u64 = 500;

fn round(dir: &std::path::Path, prefilled: bool) -> StorageResult<f64> {
    let path = dir.join("prefilled_sync.tmp");
    let file = DiskStorage.create(&path)?;
    let bytes = WRITES_PER_ROUND * WRITE_BYTES as u64;
    if prefilled {
        file.write_all_at(&FILLER.repeat(bytes as usize / FILLER.len()), 0)?;
    } else {
        file.allocate(0, bytes)?;
    }
    file.sync_data()?;
    let start = Instant::now();
    for index in 0..WRITES_PER_ROUND {
        file.write_all_at(&[b'x'; WRITE_BYTES], index * WRITE_BYTES as u64)?;
        file.sync_data()?;
    }
    let mean_us = start.elapsed().as_secs_f64() * 1e6 / WRITES_PER_ROUND as f64;
    DiskStorage.remove(&path)?;
    Ok(mean_us)
}

fn main() -> StorageResult<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().unwrap_or_else(|| ".".to_owned()));
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(5);
    println!("mean us of a {WRITE_BYTES}-byte write + fdatasync, {WRITES_PER_ROUND} per round");
    println!("round  growing (allocated)  prefilled");
    for index in 0..rounds {
        println!("{index:5}  {:19.0}  {:9.0}", round(&dir, false)?, round(&dir, true)?);
    }
    Ok(())
}
