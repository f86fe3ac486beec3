//! Due times of keys in memory (N11).
//!
//! Each shard has a heap of (due time, hash of the key). An item is never taken out when an expiry
//! changes: when it comes up, the entry with that hash tells whether it is still due then. Keys that
//! are not in memory any more are found by the expiry index of the tables.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The due times of one shard.
#[derive(Default)]
pub(super) struct Wheel {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Wheel {
    /// Notes that the key with this hash is due at `at_ms`.
    pub(super) fn add(&mut self, at_ms: u64, hash: u64) {
        self.heap.push(Reverse((at_ms, hash)));
    }

    /// Takes the next item that is due, as its hash.
    pub(super) fn pop_due(&mut self, now_ms: u64) -> Option<u64> {
        let Reverse((at_ms, _)) = self.heap.peek()?;
        if *at_ms > now_ms {
            return None;
        }
        self.heap.pop().map(|Reverse((_, hash))| hash)
    }

    /// Shows the hashes of up to `count` items from a place that `random` chooses.
    pub(super) fn sample(&self, random: u64, count: usize, mut f: impl FnMut(u64)) {
        let items = self.heap.as_slice();
        for nth in 0..count.min(items.len()) {
            let at = (random as usize).wrapping_add(nth.wrapping_mul(0x9e37_79b1)) % items.len();
            f(items[at].0.1);
        }
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.heap.capacity() * size_of::<(u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_items_come_in_order_and_not_before_their_time() {
        let mut wheel = Wheel::default();
        wheel.add(30, 3);
        wheel.add(10, 1);
        wheel.add(20, 2);
        assert_eq!(wheel.pop_due(9), None);
        assert_eq!(wheel.pop_due(20), Some(1));
        assert_eq!(wheel.pop_due(20), Some(2));
        assert_eq!(wheel.pop_due(20), None);
        assert!(wheel.bytes() >= 16);
    }
}
