//! How a pool is opened.

use std::path::PathBuf;
use std::sync::Arc;

use super::medium::Medium;
use crate::device::Device;

/// What to do when data that was durable is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// Do not open (N8).
    #[default]
    Refuse,
    /// Keep what is before it and give up the rest, as if it had been a torn tail.
    Cut,
}

/// How a pool is opened. All sizes are bounds on what a pool takes, none is a promise to keep.
#[derive(Debug, Clone)]
pub struct PmemOptions {
    /// Where the files are mapped.
    pub medium: Arc<dyn Medium>,
    /// Directory of the pool; made if it is not there.
    pub dir: PathBuf,
    /// Bytes of a slot, a power of two from 4096 on. A pool that holds records keeps the size it has.
    pub slot_bytes: u64,
    /// Bytes of a pool file, rounded up to slots; one long record may take a larger file.
    pub file_bytes: u64,
    /// Bytes that are made and prefaulted when the pool is opened with nothing in it, so that no write waits for it.
    pub initial_bytes: u64,
    /// Bytes that all pool files may have.
    pub max_bytes: u64,
    /// Writers that there may be at a time.
    pub writers_max: usize,
    /// Threads of the recovery scan; 0 for as many as there are processors.
    pub scan_threads: usize,
    /// What to do when durable data is missing.
    pub on_damage: OnDamage,
    /// The named device that the directory is on: counts what is written, and takes the time of the device it
    /// emulates.
    pub device: Option<Arc<Device>>,
}

impl PmemOptions {
    /// A pool for memtables of 64 MB; at most 1 GB of them wait for their flush.
    #[must_use]
    pub fn new(medium: Arc<dyn Medium>, dir: PathBuf) -> Self {
        Self {
            medium,
            dir,
            slot_bytes: 256 << 10,
            file_bytes: 64 << 20,
            initial_bytes: 64 << 20,
            max_bytes: 1 << 30,
            writers_max: 256,
            scan_threads: 0,
            on_damage: OnDamage::default(),
            device: None,
        }
    }
}
