//! Reads that miss the DRAM table: what memory can tell, and the threads that ask the devices.

use crate::key::{Key, Meta, Seq, Slot, element_head};
use crate::memtable::Record;
use crate::page::Descriptor;
use crate::store::engine::{Engine, EngineError};
use crate::store::namespace::{self, HEAD_BYTES};
use crate::store::read::cold_queue::Read;
use crate::store::read::load::{LoadState, Waiter};
use crate::store::read::newest::{self, Newest, NewestRef};
use crate::store::read::superversion::SuperVersion;
use crate::store::shard::{ShardState, Unresolved, shard_of};
use crate::tree;
use arc_swap::Guard;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is known about a key that is not in the DRAM table, without I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Beyond {
    /// It was found in a sorted memtable and is in the DRAM table now.
    Filled,
    /// It has no value.
    Absent,
    /// A device must be asked.
    Cold,
}

/// What is known about a key that a blind overwrite replaces: only whether there was something to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Existence {
    No,
    Yes(Meta),
    Maybe,
}

/// The generation of entries that came from files or sorted memtables: never pinned.
pub(in crate::store) const CLEAN_GENERATION: u8 = 0;

/// An engine key; a short one needs no allocation.
pub(super) type ShortKey = SmallVec<[u8; 64]>;

/// The engine key of these parts.
pub(super) fn join(head: &[u8], key: &[u8]) -> ShortKey {
    let mut joined = ShortKey::from_slice(head);
    joined.extend_from_slice(key);
    joined
}

/// What is stored below the DRAM table for a key that may have a value there.
pub(in crate::store) struct BelowTable {
    superversion: Guard<Arc<SuperVersion>>,
    engine_key: ShortKey,
    pub(in crate::store) namespace: u64,
    /// A spilled grave may be above it: a device must tell.
    pub(super) is_spilled: bool,
}

impl BelowTable {
    /// The newest version in a sorted memtable.
    pub(super) fn sorted(&self) -> Option<Record<'_>> {
        let mut runs = self.superversion.frozen.iter().filter_map(|frozen| frozen.run.as_ref());
        runs.find_map(|run| run.get(&self.engine_key, Seq::MAX))
    }

    /// Whether tables may have it, by range and filter.
    pub(super) fn may_be_in_tables(&self) -> bool {
        tree::may_exist_since(&self.superversion.version, &self.engine_key, self.namespace)
    }

    /// What `take` makes of the newest version, if the key has a value.
    ///
    /// # Errors
    /// A failing medium or a damaged table.
    pub(in crate::store) fn newest<T>(
        &self,
        engine: &Engine,
        take: impl FnOnce(NewestRef<'_>) -> T,
    ) -> Result<Option<T>, EngineError> {
        if self.is_spilled {
            return engine.newest_beyond_table(&self.engine_key, Seq::MAX, take);
        }
        newest::newest_version(&self.superversion, &self.engine_key, (Seq::MAX, None), take)
    }
}

/// These cannot have all that they wait for. No latch may be held.
fn tell_too_large(waiters: Vec<Waiter>) {
    for waiter in waiters {
        waiter.one_done(Some(EngineError::LoadTooLarge { max_bytes: waiter.max_bytes }));
    }
}

impl Engine {
    /// The next rung below the DRAM table, without I/O: `None` when graves tell that the key has no value. The
    /// latch of `key` is held. Graves in memory come before the list of runs, and that before the superversion.
    pub(in crate::store) fn below_table(
        &self,
        shard: &ShardState,
        key: Key<'_>,
    ) -> Option<BelowTable> {
        if shard.complete {
            return None;
        }
        let inner = self.inner();
        let namespace = inner.namespaces.id_of(key.slot);
        let head = namespace::head(namespace);
        if shard.is_dead(key.hash, (&head, key.bytes)) {
            return None;
        }
        Some(self.below_table_of(join(&head, key.bytes), namespace))
    }

    pub(super) fn below_table_of(&self, engine_key: ShortKey, namespace: u64) -> BelowTable {
        let inner = self.inner();
        let is_spilled = inner.graveyard.spill.runs.may_hold(&engine_key);
        let superversion = inner.views.superversion.load();
        BelowTable { superversion, engine_key, namespace, is_spilled }
    }

    /// Looks beyond the DRAM table without I/O. The latch of `key` is held.
    pub(in crate::store) fn look_beyond_table(
        &self,
        shard: &mut ShardState,
        key: Key<'_>,
    ) -> Beyond {
        if !shard.loads.is_empty()
            && let Some(load) = shard.loads.get(key.slot, key.bytes)
            && load.state == LoadState::Absent
        {
            return Beyond::Absent;
        }
        let Some(below) = self.below_table(shard, key) else { return Beyond::Absent };
        match below.sorted() {
            Some(record) if record.meta.is_tombstone() => Beyond::Absent,
            Some(_) if below.is_spilled => Beyond::Cold,
            Some(record) => {
                self.fill(shard, key, record.meta, record.value());
                shard.reads.from_memtable += 1;
                Beyond::Filled
            }
            None if below.may_be_in_tables() => Beyond::Cold,
            None => Beyond::Absent,
        }
    }

    /// Whether a key that is not in the DRAM table has a value, without I/O. The latch is held.
    pub(in crate::store) fn existence_beyond_table(
        &self,
        shard: &ShardState,
        key: Key<'_>,
    ) -> Existence {
        let Some(below) = self.below_table(shard, key) else { return Existence::No };
        match below.sorted() {
            Some(record) if record.meta.is_tombstone() => Existence::No,
            Some(_) if below.is_spilled => Existence::Maybe,
            Some(record) => Existence::Yes(record.meta),
            None if below.may_be_in_tables() => Existence::Maybe,
            None => Existence::No,
        }
    }

    pub(in crate::store) fn fill(
        &self,
        shard: &mut ShardState,
        key: Key<'_>,
        meta: Meta,
        value: &[u8],
    ) {
        let access = self.inner().write.access_now();
        shard.table.upsert(key, meta, value, CLEAN_GENERATION, access);
    }

    pub(super) fn read_cold(&self, read: &Read) -> Result<(), EngineError> {
        let inner = self.inner();
        if !self.is_awaited(read) {
            return Ok(());
        }
        inner.cold.reads.fetch_add(1, Ordering::Relaxed);
        let key = &read.want.key;
        let head: [u8; HEAD_BYTES] = read.want.head(inner.namespaces.id_of(key.slot));
        let engine_key = [&head, key.bytes.as_slice()].concat();
        let found = self.read_newest(&engine_key, Seq::MAX)?;
        inner.figures.reads.note_miss(found.as_ref().map(|found| found.place));
        let mut guard = inner.shards[shard_of(key.hash)].latch();
        let shard = &mut *guard;
        // A page whose collection went meanwhile must not outlive the sweep of its pages.
        let is_gone = read.want.page.is_some()
            && inner.graveyard.elements.newest_at(&engine_key, Seq::MAX)
                > found.as_ref().map(|found| found.seq);
        let load = shard.loads_of(&read.want).get_mut(key.slot, &key.bytes);
        let Some(load) = load else { return Ok(()) };
        if load.state != (LoadState::Reading { ticket: read.ticket }) {
            return Ok(());
        }
        let Some(Newest { meta, value, .. }) = found.filter(|_| !is_gone) else {
            load.state = LoadState::Absent;
            return Ok(());
        };
        let sated = load.dismiss(|waiter| !waiter.takes(value.len()));
        if load.waiters.is_empty() {
            load.state = LoadState::Overtaken;
        } else {
            load.state = LoadState::Filled;
            inner.cold.found.fetch_add(1, Ordering::Relaxed);
            // Room is made first: the entry itself is clean and would be a candidate.
            self.keep_within_bound(shard);
            match read.want.page {
                Some(_) => self.fill_page(shard, key.as_key(), meta, &value),
                None => self.fill(shard, key.as_key(), meta, &value),
            }
            self.note_table_bytes(shard);
        }
        drop(guard);
        tell_too_large(sated);
        Ok(())
    }

    /// False when all waiters of this read have reached their limit; they are told so.
    fn is_awaited(&self, read: &Read) -> bool {
        let key = &read.want.key;
        let mut shard = self.inner().shards[shard_of(key.hash)].latch();
        let load = shard.loads_of(&read.want).get_mut(key.slot, &key.bytes);
        let Some(load) = load else { return true };
        if load.state != (LoadState::Reading { ticket: read.ticket }) {
            return true;
        }
        let sated = load.dismiss(|waiter| waiter.has_enough());
        let awaited = !load.waiters.is_empty();
        if !awaited {
            load.state = LoadState::Overtaken;
        }
        drop(shard);
        tell_too_large(sated);
        awaited
    }

    /// Settles the unresolved overwrites of one shard whose latch is held (blocks on I/O).
    pub(in crate::store) fn resolve_latched(
        &self,
        shard: &mut ShardState,
    ) -> Result<(), EngineError> {
        let inner = self.inner();
        while let Some(item) = shard.unresolved.last() {
            let slot = item.slot;
            let is_current = inner.namespaces.id_of(slot) == item.namespace;
            let (namespace, seq) = (item.namespace, item.seq);
            if let Some(before) = self.lived_before(item)? {
                if is_current {
                    let count = shard.count_mut(slot);
                    count.keys -= 1;
                    count.expires -= i64::from(before.meta.expire_at_ms != 0);
                }
                self.bury_overwritten(shard, namespace, &before, seq);
            }
            inner.flusher.unresolved.fetch_sub(1, Ordering::Relaxed);
            shard.unresolved.pop();
        }
        Ok(())
    }

    /// How many keys of `slot` are counted twice for overwrites that are no longer in their shard and not settled
    /// (blocks on I/O). All latches are held, so neither moves meanwhile; whoever settles them takes the latch.
    pub(in crate::store) fn overwrites_counted_as_new(
        &self,
        slot: Slot,
    ) -> Result<i64, EngineError> {
        let flusher = &self.inner().flusher;
        let mut items = flusher.settling.lock().clone();
        for job in flusher.frozen.all() {
            items.extend_from_slice(&job.unresolved().lock());
        }
        let namespace = self.inner().namespaces.id_of(slot);
        let mut twice = 0;
        for item in items.iter().filter(|item| (item.slot, item.namespace) == (slot, namespace)) {
            twice += i64::from(self.lived_before(item)?.is_some());
        }
        Ok(twice)
    }

    /// The value that an unresolved put replaced, if there was one. No open grave was there at the
    /// put, so its newest older version was alive.
    pub(in crate::store) fn lived_before(
        &self,
        item: &Unresolved,
    ) -> Result<Option<Newest>, EngineError> {
        let head = namespace::head(item.namespace);
        let engine_key = [head.as_slice(), &item.key].concat();
        self.read_newest(&engine_key, item.seq - 1)
    }

    /// Buries the pages of a collection that a put at `seq` has replaced unread. Its grave is in the checkpoint of that put's
    /// memtable, which is settled before it is flushed.
    pub(in crate::store) fn bury_overwritten(
        &self,
        shard: &mut ShardState,
        namespace: u64,
        before: &Newest,
        seq: Seq,
    ) {
        if !before.meta.is_paged() {
            return;
        }
        let Some(named) = Descriptor::named_by(&before.value) else { return };
        let (prefix, inner) = (element_head(namespace, named.collection), self.inner());
        if inner.graveyard.elements.newest_at(&prefix, Seq::MAX).is_some() {
            return;
        }
        inner.graveyard.elements.open(&prefix, seq);
        // Its root was not in memory: hardly any page was.
        let leave = shard.pages.note_dead(&prefix, 0);
        inner.graveyard.note_dead_pages(&prefix, seq, (named.pages, leave));
        inner.graveyard.note_grave(prefix.len(), &inner.upkeep.background);
    }
}
