//! Observability: slow requests, latency events, memory.

mod cpu;
mod histogram;
mod lately;
mod latency;
mod memory;
mod slowlog;
mod traffic;

pub use cpu::{CpuOf, CpuTimes, cpu_times};
pub use histogram::{BUCKETS, Histogram, bounded, bucket, percentile, upper_bound};
pub use latency::{LatencyMonitor, Sample, Series};
pub use memory::{Holders, Memory, held_bytes, used_bytes};
pub use slowlog::{SlowEntry, SlowLog};
pub use traffic::{Rate, TlsFigures, Traffic};

use crate::events::Monitors;
use lately::Lately;
use sexton_config::machine::MachineMemory;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// For so long INFO answers the same figures of the allocator and the kernel, unless newer ones are noted meanwhile. Redis: 100 ms.
const MEMORY_HOLDS_FOR: Duration = Duration::from_millis(200);
/// The same of the bound that a machine or a container has.
const MACHINE_HOLDS_FOR: Duration = Duration::from_secs(1);

/// State behind SLOWLOG, LATENCY, MEMORY and parts of INFO and DEBUG.
#[derive(Debug)]
pub struct Observe {
    /// Requests that took long.
    pub slowlog: SlowLog,
    /// Events that took long.
    pub latency: LatencyMonitor,
    /// Connections that run MONITOR.
    pub monitors: Monitors,
    /// What went through the server.
    pub traffic: Traffic,
    /// Handshakes.
    pub tls: TlsFigures,
    /// Delay between a key's expiry and its deletion by the cycle, in milliseconds.
    pub expired_late_ms: Histogram,
    /// When the process started.
    pub started: Instant,
    /// Start time in seconds since the epoch: LASTSAVE before any save.
    pub started_s: u64,
    /// 40 hexadecimal digits, new with every start.
    pub run_id: String,
    /// The identifier of the replication history, in the format of `run_id`.
    pub replication_id: String,
    base_bytes: AtomicU64,
    startup_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    peak_time_s: AtomicU64,
    memory: Lately<Memory>,
    machine: Lately<MachineMemory>,
    passive_expire_only: AtomicBool,
    skips_checksums: AtomicBool,
}

impl Default for Observe {
    fn default() -> Self {
        Self::new()
    }
}

impl Observe {
    /// Starts the clocks.
    #[must_use]
    pub fn new() -> Self {
        Self {
            slowlog: SlowLog::default(),
            latency: LatencyMonitor::default(),
            monitors: Monitors::default(),
            traffic: Traffic::default(),
            tls: TlsFigures::default(),
            expired_late_ms: Histogram::default(),
            started: Instant::now(),
            started_s: now_s(),
            run_id: random_id(),
            replication_id: random_id(),
            base_bytes: AtomicU64::new(0),
            startup_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            peak_time_s: AtomicU64::new(0),
            memory: Lately::new(MEMORY_HOLDS_FOR),
            machine: Lately::new(MACHINE_HOLDS_FOR),
            passive_expire_only: AtomicBool::new(false),
            skips_checksums: AtomicBool::new(false),
        }
    }

    /// Records the memory of the process without data and clients, and `used_memory` at that time.
    pub fn note_startup(&self, base_bytes: u64, used_bytes: u64) {
        self.base_bytes.store(base_bytes, Ordering::Relaxed);
        self.startup_bytes.store(used_bytes, Ordering::Relaxed);
    }

    /// What allocator and kernel say of the process, now or just before.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.memory.get(Memory::now)
    }

    /// They have just said so.
    pub fn note_memory(&self, memory: Memory) {
        self.memory.note(memory);
    }

    /// The memory available to the process, now or just before.
    #[must_use]
    pub fn machine(&self) -> MachineMemory {
        self.machine.get(MachineMemory::now)
    }

    /// Memory of the process without data and clients, in bytes.
    #[must_use]
    pub fn base_bytes(&self) -> u64 {
        self.base_bytes.load(Ordering::Relaxed)
    }

    /// `used_memory` without data and clients.
    #[must_use]
    pub fn startup_bytes(&self) -> u64 {
        self.startup_bytes.load(Ordering::Relaxed)
    }

    /// Notes the highest use of memory seen and returns it, in bytes.
    pub fn note_peak(&self, used_bytes: u64) -> u64 {
        if used_bytes > self.peak_bytes.fetch_max(used_bytes, Ordering::Relaxed) {
            self.peak_time_s.store(now_s(), Ordering::Relaxed);
        }
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// The time of the highest allocation, in seconds since the epoch.
    #[must_use]
    pub fn peak_time_s(&self) -> u64 {
        self.peak_time_s.load(Ordering::Relaxed)
    }

    /// `DEBUG SET-ACTIVE-EXPIRE`: whether the expiry cycle deletes keys that no client reads.
    pub fn set_active_expire(&self, on: bool) {
        self.passive_expire_only.store(!on, Ordering::Relaxed);
    }

    /// `DEBUG SET-SKIP-CHECKSUM-VALIDATION`: whether RESTORE and loads take any checksum.
    pub fn set_skips_checksums(&self, on: bool) {
        self.skips_checksums.store(on, Ordering::Relaxed);
    }

    /// True while RESTORE and loads take any checksum.
    #[must_use]
    pub fn skips_checksums(&self) -> bool {
        self.skips_checksums.load(Ordering::Relaxed)
    }

    /// False while the expiry cycle must rest.
    #[must_use]
    pub fn active_expire(&self) -> bool {
        !self.passive_expire_only.load(Ordering::Relaxed)
    }
}

/// Seconds since the epoch.
#[must_use]
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

/// 40 random hexadecimal digits, as Redis names a run.
#[must_use]
pub fn random_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    // RandomState is seeded by the operating system; an id needs no more than that.
    let word = |nth: u32| RandomState::new().hash_one((nth, std::process::id(), now_s()));
    let digits: String = (0..3).map(|nth| format!("{:016x}", word(nth))).collect();
    digits[..40].to_owned()
}
