//! Memory of the process, from the allocator and from the kernel.

use super::Observe;
use sexton_engine::{Engine, MemoryParts};
use tikv_jemalloc_ctl::{epoch, stats};

/// Figures at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Given out by the allocator.
    pub allocated_bytes: u64,
    /// In pages that hold allocations.
    pub active_bytes: u64,
    /// In pages the allocator keeps mapped and touched.
    pub resident_bytes: u64,
    /// Resident set of the process, as the kernel counts it.
    pub rss_bytes: u64,
}

/// Breakdown of [`held_bytes`] by owner, and the bytes that count for `maxmemory`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holders {
    /// `used_memory`: see [`used_bytes`].
    pub used: u64,
    /// `used` before there were data and clients.
    pub startup: u64,
    /// The data in memory: entries, their due times and the buckets that lead to them.
    pub data: u64,
    /// Total: memory handed out by the allocator, and memory that the store has directly from the system.
    pub held: u64,
    /// Memory of the process before there were data and clients.
    pub base: u64,
    /// The store's parts.
    pub store: MemoryParts,
    /// Buffers and state of connections.
    pub clients: u64,
}

impl Holders {
    /// Collects all figures. Connections use `clients` bytes.
    #[must_use]
    pub fn now(engine: &Engine, observe: &Observe, clients: u64) -> Self {
        Self {
            used: used_bytes(engine, clients),
            startup: observe.startup_bytes(),
            data: engine.data_bytes(),
            held: held_bytes(engine, &observe.memory()),
            base: observe.base_bytes(),
            store: engine.memory_parts(),
            clients,
        }
    }

    /// The store's parts by name, but for the log's buffer, which has a name of Redis' own.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 6] {
        let store = &self.store;
        [
            ("table", store.table),
            ("memtables", store.memtables),
            ("graves", store.graves),
            ("tree", store.tree),
            ("block_cache", store.block_cache),
            ("work", store.work),
        ]
    }

    /// The part of `used` for the store's machinery: neither data nor clients.
    #[must_use]
    pub fn machinery(&self) -> u64 {
        self.used - self.data - self.clients
    }

    /// Share of the data in what `used` has grown by since the start, in percent.
    #[must_use]
    pub fn data_percentage(&self) -> f64 {
        let grown = self.used.saturating_sub(self.startup);
        if grown == 0 { 0.0 } else { 100.0 * self.data.min(grown) as f64 / grown as f64 }
    }

    /// Unaccounted memory; negative if estimates are too high.
    #[must_use]
    pub fn other(&self) -> i64 {
        let known = self.base + self.store.sum() + self.clients;
        self.held as i64 - known as i64
    }
}

/// `used_memory`: the smallest `maxmemory` into which data in memory and clients fit. These are counted byte by byte; the
/// share of the store's machinery depends on the bound alone. So the figure changes with data and clients only.
#[must_use]
pub fn used_bytes(engine: &Engine, clients: u64) -> u64 {
    engine.bound_for(engine.data_bytes() + clients)
}

/// All memory that the process has asked for and not given back.
#[must_use]
pub fn held_bytes(engine: &Engine, memory: &Memory) -> u64 {
    memory.allocated_bytes + engine.beside_allocator_bytes()
}

impl Memory {
    /// Asks the allocator and the kernel; what they do not answer is 0.
    #[must_use]
    pub fn now() -> Self {
        // Statistics stand still until the epoch is advanced; without that they are only older.
        let _ = epoch::advance();
        let read = |figure: Result<usize, tikv_jemalloc_ctl::Error>| figure.unwrap_or(0) as u64;
        let mut memory = Self {
            allocated_bytes: read(stats::allocated::read()),
            active_bytes: read(stats::active::read()),
            resident_bytes: read(stats::resident::read()),
            rss_bytes: rss_bytes().unwrap_or(0),
        };
        if memory.rss_bytes == 0 {
            memory.rss_bytes = memory.resident_bytes;
        }
        memory
    }
}

/// Resident set of the process in bytes, as the kernel counts it.
#[must_use]
fn rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sexton_config::machine::MachineMemory;

    #[test]
    fn a_running_process_has_memory() {
        let memory = Memory::now();
        assert!(memory.rss_bytes > 0);
        assert!(MachineMemory::now().bytes > memory.rss_bytes);
    }
}
