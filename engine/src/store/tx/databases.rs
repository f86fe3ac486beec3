//! Operations on whole databases, under all latches.

use super::Tx;
use super::guards::Guards;
use crate::key::{Seq, Slot};
use crate::store::engine::{Engine, EngineError};
use crate::store::latch;
use crate::store::namespace;
use crate::store::read::scan::{LatchedGraves, ScanItem, ScanRange};
use crate::store::shard::{Count, shard_of};
use crate::store::wbl::{KIND_FLUSH_DATABASE, KIND_SWAP_DATABASES};
use crate::tree::Graves;
use std::sync::atomic::Ordering;

/// With at most this many entries in memory, those of an emptied database are removed at once under the latches already
/// held: this takes a millisecond.
const SWEPT_AT_ONCE: usize = 16 << 10;

impl Tx<'_> {
    /// Empties a database in O(1) (N7): one operation. Needs `Latched::All`. False, and nothing
    /// done, while too many emptied databases wait to be swept.
    pub fn flush_database(&mut self, db: usize) -> bool {
        assert!(self.all, "flush_database needs all latches");
        self.commit_staged(false);
        let engine = self.engine;
        if !engine.inner().namespaces.has_free_slot() {
            self.sweep_dead_slots();
        }
        let replace = |seq| Some((seq, engine.inner().namespaces.replace(db, seq)?));
        let Some((seq, dead)) = self.take_sequence((KIND_FLUSH_DATABASE, db as u64), replace)
        else {
            return false;
        };
        self.operations += 1;
        let with_keys = self.shards_with_keys(dead.0);
        self.forget_namespace(db, dead, seq);
        self.sweep_if_small(dead.0, with_keys);
        true
    }

    /// A bit for each shard that counts keys of the slot. What is in memory is counted, and an overwrite that is not settled yet
    /// (N9) counts for one more, so a shard without a bit has nothing of the slot.
    fn shards_with_keys(&mut self, slot: Slot) -> u64 {
        let Guards::Many(guards) = &mut self.guards else { return u64::MAX };
        let bit = |(shard, state): &mut (usize, latch::Latched<'_>)| {
            u64::from(state.count_mut(slot).keys != 0) << *shard
        };
        guards.iter_mut().map(bit).sum()
    }

    /// Takes the entries of an emptied database out of memory at once where that takes no time to speak of, so that
    /// whoever asks next finds the memory free. Larger ones leave in the background. Only shards `with_keys` have any.
    fn sweep_if_small(&mut self, slot: Slot, with_keys: u64) {
        let inner = self.engine.inner();
        let Guards::Many(guards) = &mut self.guards else { return };
        let entries: usize =
            guards.iter().map(|(_, shard)| shard.table.len() + shard.pages.len()).sum();
        let is_meant = |other| other == slot;
        if entries > SWEPT_AT_ONCE || guards.iter().any(|(_, shard)| shard.loads_any(is_meant)) {
            return;
        }
        let mut slots = [false; namespace::SLOTS];
        slots[usize::from(slot)] = true;
        for (_, state) in guards.iter_mut().filter(|(shard, _)| with_keys >> *shard & 1 == 1) {
            while !state.sweep_slots(&slots, usize::MAX) {}
        }
        let emptied = inner.graveyard.emptied.load(Ordering::Acquire);
        if inner.graveyard.emptied_swept.load(Ordering::Acquire) + 1 >= emptied {
            inner.graveyard.emptied_swept.fetch_max(emptied, Ordering::AcqRel);
        }
    }

    /// True when no key of the database lives, those that have expired and were not removed included. Needs
    /// `Latched::All`. Overwrites that are not settled yet (N9) count as keys, so it may be false though
    /// nothing is there.
    pub fn is_database_empty(&mut self, db: usize) -> bool {
        assert!(self.all, "is_database_empty needs all latches");
        self.commit_staged(false);
        let slot = self.engine.slot_of(db);
        let Guards::Many(guards) = &mut self.guards else { return false };
        guards.iter_mut().map(|(_, shard)| shard.count_mut(slot).keys).sum::<i64>() == 0
    }

    /// What was behind database `db`, a slot and an id, died at `seq`.
    pub(in crate::store) fn forget_namespace(
        &mut self,
        db: usize,
        (slot, dead_id): (Slot, u64),
        seq: Seq,
    ) {
        let engine = self.engine;
        let fresh_slot = engine.slot_of(db);
        if let Guards::Many(guards) = &mut self.guards {
            for (_, shard) in guards {
                *shard.count_mut(slot) = Count::default();
                // An overwrite settled late may have corrected the count of a dead namespace here.
                *shard.count_mut(fresh_slot) = Count::default();
                let before = shard.unresolved.len();
                shard.unresolved.retain(|item| item.slot != slot);
                let gone = (before - shard.unresolved.len()) as u64;
                engine.inner().flusher.unresolved.fetch_sub(gone, Ordering::Relaxed);
            }
        }
        let inner = engine.inner();
        inner.graveyard.note_dead(slot, dead_id, seq, &inner.upkeep.background);
    }

    /// Makes slots free at once when databases are emptied faster than the background sweeps.
    pub(in crate::store) fn sweep_dead_slots(&mut self) {
        let inner = self.engine.inner();
        let Guards::Many(guards) = &mut self.guards else { return };
        let mut dead_slots = inner.graveyard.dead_slots.lock();
        // All in one pass, but for those of which something is on its way into memory.
        let mut slots = [false; namespace::SLOTS];
        for dead in dead_slots.iter() {
            let is_meant = |slot| slot == dead.slot;
            slots[usize::from(dead.slot)] =
                !guards.iter().any(|(_, state)| state.loads_any(is_meant));
        }
        for (_, state) in guards.iter_mut() {
            while !state.sweep_slots(&slots, usize::MAX) {}
        }
        dead_slots.retain(|dead| {
            if !slots[usize::from(dead.slot)] {
                return true;
            }
            for (_, state) in guards.iter_mut() {
                *state.count_mut(dead.slot) = Count::default();
            }
            inner.namespaces.release(dead.slot);
            false
        });
    }

    /// Swaps two databases: one operation. Needs `Latched::All`.
    pub fn swap_databases(&mut self, a: usize, b: usize) {
        assert!(self.all, "swap_databases needs all latches");
        self.commit_staged(false);
        let namespaces = &self.engine.inner().namespaces;
        let aux = a as u64 | (b as u64) << 32;
        self.take_sequence((KIND_SWAP_DATABASES, aux), |_| {
            namespaces.swap(a, b);
            Some(())
        });
        self.operations += 1;
    }

    /// Takes the sequence of an operation that is neither version nor grave, and applies `change` in that
    /// critical section; the pool gets a record of this kind and `aux`. `None`, and no sequence taken, where
    /// `change` answers `None`.
    fn take_sequence<T>(
        &mut self,
        record: (u8, u64),
        change: impl FnOnce(Seq) -> Option<T>,
    ) -> Option<T> {
        let inner = self.engine.inner();
        if let Some(wbl) = inner.write.wbl.get() {
            return self.take_pool_sequence(wbl, record, change);
        }
        let mut commit = inner.write.commit.lock();
        let seq = commit.next_seq;
        let changed = change(seq)?;
        commit.next_seq += 1;
        drop(commit);
        self.took_sequences(seq, 1);
        Some(changed)
    }

    /// Scan of the newest state under `Latched::All`, this transaction's writes included, until
    /// `visit` answers false.
    pub fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(ScanItem) -> bool,
    ) -> Result<(), EngineError> {
        self.with_graves(|engine, graves| engine.scan_latched(range, graves, visit))
    }

    /// [`Engine::random_key`] under `Latched::All`, this transaction's writes included.
    pub fn random_key(
        &mut self,
        db: usize,
        now_ms: u64,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        self.with_graves(|engine, graves| {
            let (view, head) = engine.view_latched(db);
            engine.draw_key(&view, &head, graves, now_ms, random)
        })
    }

    /// Runs something that reads the whole of a database, with what is staged committed.
    fn with_graves<R>(&mut self, run: impl FnOnce(&Engine, &dyn Graves) -> R) -> R {
        assert!(self.all, "a walk over a database needs all latches");
        self.commit_staged(false);
        let Guards::Many(guards) = &self.guards else { unreachable!("all latches are held") };
        let graves =
            |hash: u64, key: &[u8], s: Seq| guards[shard_of(hash)].1.graves.newest_at(hash, key, s);
        run(self.engine, &LatchedGraves::new(self.engine, graves))
    }

    /// Live keys of a database and those with an expiry as known now, under `Latched::All`; no I/O.
    pub fn count_provisional(&mut self, db: usize) -> (u64, u64) {
        assert!(self.all, "a count needs all latches");
        let slot = self.engine.slot_of(db);
        let Guards::Many(guards) = &mut self.guards else { return (0, 0) };
        let (mut keys, mut expires) = (0, 0);
        for (_, shard) in guards {
            let count = shard.count_mut(slot);
            keys += count.keys;
            expires += count.expires;
        }
        (keys.max(0) as u64, expires.max(0) as u64)
    }

    /// Exact number of keys of a database under `Latched::All` (N9).
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn count(&mut self, db: usize) -> Result<u64, EngineError> {
        assert!(self.all, "count needs all latches");
        self.commit_staged(false);
        let engine = self.engine;
        let slot = engine.slot_of(db);
        let Guards::Many(guards) = &mut self.guards else { return Ok(0) };
        let mut keys = 0;
        for (_, shard) in guards {
            engine.resolve_latched(shard)?;
            keys += shard.count_mut(slot).keys;
        }
        keys -= engine.overwrites_counted_as_new(slot)?;
        Ok(keys.max(0) as u64)
    }
}
