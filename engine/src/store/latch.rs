//! The latches of the shards: taken here, and nowhere else.
//!
//! A thread takes several latches in ascending order of their shards, so no two threads can wait for each other, and
//! never one that it holds. Debug builds check both, and panic where a release build might wait forever.

use super::shard::{ShardFigures, ShardState};
use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// The latch of one shard, with what it guards, and the figures of that as they were at the last look.
pub(super) struct Latch {
    state: Mutex<ShardState>,
    figures: ShardFigures,
}

/// A latch that is held.
pub(super) struct Latched<'a> {
    guard: MutexGuard<'a, ShardState>,
    #[cfg(debug_assertions)]
    _held: order::Held,
}

impl Latch {
    pub(super) fn new(state: ShardState) -> Self {
        let figures = ShardFigures::default();
        figures.publish(&state);
        Self { state: Mutex::new(state), figures }
    }

    /// Waits for the latch and takes it.
    #[inline]
    pub(super) fn take(&self) -> Latched<'_> {
        Latched {
            // Looked at before it waits: a thread that waits for itself tells nobody any more.
            #[cfg(debug_assertions)]
            _held: order::Held::note(std::ptr::from_ref(&self.state).addr()),
            guard: self.state.lock(),
        }
    }

    /// Waits for the latch, but not longer than this.
    pub(super) fn take_within(&self, wait: Duration) -> Option<Latched<'_>> {
        #[cfg(debug_assertions)]
        let held = order::Held::note(std::ptr::from_ref(&self.state).addr());
        let guard = self.state.try_lock_for(wait)?;
        Some(Latched {
            #[cfg(debug_assertions)]
            _held: held,
            guard,
        })
    }

    /// Takes the latch unless somebody has it, this thread included. It waits for nobody, so the order is free.
    #[inline]
    pub(super) fn try_take(&self) -> Option<Latched<'_>> {
        let guard = self.state.try_lock()?;
        Some(Latched {
            #[cfg(debug_assertions)]
            _held: order::Held::note_unordered(std::ptr::from_ref(&self.state).addr()),
            guard,
        })
    }

    /// Figures of what it guards. Waits for nobody: while the latch is held they are those of the last look before.
    pub(super) fn figures(&self) -> &ShardFigures {
        if let Some(state) = self.state.try_lock() {
            self.figures.publish(&state);
        }
        &self.figures
    }
}

impl Latched<'_> {
    /// Lets a waiting thread have the latch for a while.
    pub(super) fn let_others(&mut self) {
        MutexGuard::bump(&mut self.guard);
    }
}

impl Deref for Latched<'_> {
    type Target = ShardState;

    #[inline]
    fn deref(&self) -> &ShardState {
        &self.guard
    }
}

impl DerefMut for Latched<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut ShardState {
        &mut self.guard
    }
}

/// What each thread holds. The latches of a store are in one array, in the order of its shards.
#[cfg(debug_assertions)]
mod order {
    use std::cell::RefCell;

    thread_local! {
        static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    /// The address of a latch that this thread holds, or is about to.
    pub(super) struct Held(usize);

    impl Held {
        pub(super) fn note(address: usize) -> Self {
            HELD.with_borrow_mut(|held| {
                assert!(!held.contains(&address), "a latch is taken by the thread that holds it");
                let highest = held.iter().copied().max().unwrap_or(0);
                assert!(highest < address, "a latch is taken under that of a later shard");
                held.push(address);
            });
            Self(address)
        }

        /// Like `note`, for a latch that was free: no order is checked.
        pub(super) fn note_unordered(address: usize) -> Self {
            HELD.with_borrow_mut(|held| held.push(address));
            Self(address)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            HELD.with_borrow_mut(|held| held.retain(|&address| address != self.0));
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use crate::store::shard::{SHARDS, shard_of};
    use crate::{Engine, Latched, TxBuf};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn panic_of(run: impl FnOnce()) -> String {
        let payload = catch_unwind(AssertUnwindSafe(run)).expect_err("debug builds notice");
        payload.downcast_ref::<&str>().map(ToString::to_string).unwrap_or_default()
    }

    /// A key's hash in this shard.
    fn hash_in(shard: usize) -> u64 {
        (0_u32..)
            .map(|i| crate::key::hash(&i.to_le_bytes()))
            .find(|&hash| shard_of(hash) == shard)
            .expect("some key")
    }

    #[test]
    fn a_walk_over_all_shards_under_a_latch_is_noticed() {
        let engine = Engine::in_memory(2).expect("a store in memory");
        for walk in [
            |engine: &Engine| assert_eq!(engine.count_provisional(0), (0, 0, 0)),
            |engine: &Engine| engine.set_memory_bound(1 << 30),
        ] {
            let mut buf = TxBuf::default();
            let tx = engine.begin(Latched::Hashes(&[hash_in(0)]), &mut buf);
            assert_eq!(panic_of(|| walk(&engine)), "a latch is taken by the thread that holds it");
            drop(tx);
            // Nothing is left behind: the same walk goes through without the latch.
            walk(&engine);
        }
    }

    #[test]
    fn figures_wait_for_no_latch() {
        let engine = Engine::in_memory(2).expect("a store in memory");
        engine.put(0, b"key", b"value").expect("written");
        assert_eq!(engine.stats().dram_entries, 1);
        let mut buf = TxBuf::default();
        let tx = engine.begin(Latched::All, &mut buf);
        let stats = engine.stats();
        assert_eq!((stats.dram_entries, stats.last_seq), (1, engine.last_seq()));
        assert!(stats.dram_bytes > 0 && engine.memory_parts().table > 0);
        drop(tx);
    }

    #[test]
    fn latches_out_of_order_are_noticed() {
        let engine = Engine::in_memory(2).expect("a store in memory");
        let (mut first, mut second) = (TxBuf::default(), TxBuf::default());
        let last = hash_in(SHARDS - 1);
        let tx = engine.begin(Latched::Hashes(&[last]), &mut first);
        let text = panic_of(|| drop(engine.begin(Latched::Hashes(&[hash_in(3)]), &mut second)));
        assert_eq!(text, "a latch is taken under that of a later shard");
        drop(tx);
        drop(engine.begin(Latched::Hashes(&[last, hash_in(3), hash_in(0), last]), &mut second));
    }
}
