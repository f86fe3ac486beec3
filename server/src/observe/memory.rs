//! Memory of the process, from the allocator and from the kernel.

use crate::server::Server;
use sexton_engine::MemoryParts;
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

/// Who holds what of [`used_bytes`], in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holders {
    /// Everything: what the allocator gave out, and what the store has from the system beside it.
    pub used: u64,
    /// What the process held before there were data and clients.
    pub startup: u64,
    /// The store's parts.
    pub store: MemoryParts,
    /// Buffers and state of connections.
    pub clients: u64,
}

impl Holders {
    /// Asks all of them.
    #[must_use]
    pub fn now(server: &Server) -> Self {
        Self {
            used: used_bytes(server, &Memory::now()),
            startup: server.observe.startup_bytes(),
            store: server.engine.memory_parts(),
            clients: server.client_memory.bytes() as u64,
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

    /// Memory of the data itself: at most what has come since the start.
    #[must_use]
    pub fn dataset(&self) -> u64 {
        let grown = self.used.saturating_sub(self.startup);
        (self.store.table + self.store.memtables).min(grown)
    }

    /// What nobody accounts for; negative where estimates are too high.
    #[must_use]
    pub fn other(&self) -> i64 {
        let known = self.startup + self.store.sum() + self.clients;
        self.used as i64 - known as i64
    }
}

/// All memory that the process has asked for and not given back: `used_memory`.
#[must_use]
pub fn used_bytes(server: &Server, memory: &Memory) -> u64 {
    memory.allocated_bytes + server.engine.beside_allocator_bytes()
}

impl Memory {
    /// Asks the allocator alone how much it has given out.
    #[must_use]
    pub fn allocated() -> Self {
        let _ = epoch::advance();
        let allocated = stats::allocated::read().unwrap_or(0);
        Self { allocated_bytes: allocated as u64, ..Self::default() }
    }

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
pub fn rss_bytes() -> Option<u64> {
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
