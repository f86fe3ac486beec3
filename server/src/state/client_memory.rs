//! The memory of all connections, and the limit that `maxmemory-clients` sets.

use crate::session::Session;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Minimum of `maxmemory-clients`, as in Redis: with less, no client could use the server.
const ASKED_MIN_BYTES: u64 = 128 << 10;

/// Memory of all connections.
#[derive(Debug, Default)]
pub struct ClientMemory {
    bytes: AtomicUsize,
    /// `maxmemory-clients`: bytes, a percentage of `maxmemory` where negative, 0 for no bound.
    asked: AtomicI64,
}

impl ClientMemory {
    /// Bytes of all connections, as of their last turns.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// `maxmemory-clients`: bytes, a percentage of `maxmemory` where negative, 0 for no bound.
    pub fn set_max(&self, asked: i64) {
        self.asked.store(asked, Ordering::Relaxed);
    }

    /// What `maxmemory-clients` allows all connections together; `u64::MAX` for no bound.
    pub(crate) fn asked_max_bytes(&self, maxmemory: u64) -> u64 {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked == 0 || (asked < 0 && maxmemory == 0) {
            return u64::MAX;
        }
        let bytes = match u64::try_from(asked) {
            Ok(bytes) => bytes,
            Err(_) => (u128::from(maxmemory) * u128::from(asked.unsigned_abs()) / 100) as u64,
        };
        bytes.max(ASKED_MIN_BYTES)
    }

    /// Records the current memory of a connection.
    pub fn note(&self, session: &Session, bytes: usize) {
        let before = session.noted_bytes.swap(bytes, Ordering::Relaxed);
        // Two's complement: the sum is exact whatever the order.
        self.bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maxmemory_clients_is_a_number_of_bytes_or_a_share() {
        let memory = ClientMemory::default();
        assert_eq!(memory.asked_max_bytes(1 << 30), u64::MAX);
        memory.set_max(1 << 20);
        assert_eq!(memory.asked_max_bytes(0), 1 << 20);
        memory.set_max(1);
        assert_eq!(memory.asked_max_bytes(0), ASKED_MIN_BYTES);
        memory.set_max(-50);
        assert_eq!(memory.asked_max_bytes(1 << 30), 1 << 29);
        assert_eq!(memory.asked_max_bytes(0), u64::MAX, "there is nothing to have a share of");
    }
}
