//! Reads that miss the DRAM table: what memory can tell, and the threads that ask the devices.

use crate::key::{Key, Meta, Seq, Slot, element_head};
use crate::memtable::Record;
use crate::page::Descriptor;
use crate::store::engine::{Engine, EngineError};
use crate::store::namespace::{self, HEAD_BYTES};
use crate::store::read::cold_queue::Job;
use crate::store::read::load::{Load, LoadState, Waiter, Waiting, Want};
use crate::store::read::newest::{self, Newest, NewestRef};
use crate::store::read::superversion::SuperVersion;
use crate::store::shard::{ShardState, Unresolved, shard_of};
use crate::store::tx::OwnedKey;
use crate::tree;
use arc_swap::Guard;
use smallvec::SmallVec;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

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

/// Pins that go under one hold of a latch.
const PINS_AT_ONCE: usize = 256;

/// Keeps loaded entries in memory until dropped.
pub struct LoadPin {
    engine: Engine,
    keys: Arc<[Want]>,
}

impl std::fmt::Debug for LoadPin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadPin").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl Drop for LoadPin {
    fn drop(&mut self) {
        // Pages of a collection follow each other and lie in one shard.
        let of_shard = self.keys.chunk_by(|a, b| shard_of(a.key.hash) == shard_of(b.key.hash));
        for wanted in of_shard.flat_map(|wanted| wanted.chunks(PINS_AT_ONCE)) {
            let mut shard = self.engine.inner().shards[shard_of(wanted[0].key.hash)].latch();
            for want in wanted {
                let key = &want.key;
                let loads = shard.loads_of(want);
                if let Some(load) = loads.get_mut(key.slot, &key.bytes) {
                    load.pins -= 1;
                    if load.pins == 0 && !matches!(load.state, LoadState::Reading { .. }) {
                        loads.remove(key.slot, &key.bytes);
                    }
                }
            }
            // They could not be evicted while they were pinned, whatever the bound.
            self.engine.keep_within_bound(&mut shard);
        }
    }
}

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

    /// Starts loading cold keys on the cold-read threads; one load a key, however many wait.
    /// `done` runs once, on another thread or at once on this one, when every key is in memory (or
    /// known absent) or a read failed, with [`EngineError::LoadTooLarge`] when the values have more than `max_bytes`
    /// together; a single value may be of any size. Loaded entries stay pinned until the [`LoadPin`] is dropped.
    /// No latch may be held.
    pub fn load(
        &self,
        keys: Vec<OwnedKey>,
        max_bytes: u64,
        done: impl FnOnce(Result<LoadPin, EngineError>) + Send + 'static,
    ) {
        self.load_wanted(keys.into_iter().map(Want::key).collect(), max_bytes, done);
    }

    /// As [`Engine::load`], for keys and pages.
    ///
    /// # Errors
    /// As for [`Engine::load`], told to `done`.
    pub fn load_wanted(
        &self,
        wanted: Vec<Want>,
        max_bytes: u64,
        done: impl FnOnce(Result<LoadPin, EngineError>) + Send + 'static,
    ) {
        let jobs = self.register_load(wanted, max_bytes, done);
        let inner = self.inner();
        inner.cold.push(jobs.into_iter());
        if inner.cold.stop.load(Ordering::Acquire) {
            self.refuse_queued_loads();
        } else if !inner.options.background {
            self.run_queued_cold_reads();
        }
    }

    /// Like `load`, for one key and on the calling thread, which waits. No latch may be held.
    pub(in crate::store) fn load_here(&self, key: OwnedKey) -> Result<LoadPin, EngineError> {
        let (tell, told) = mpsc::channel();
        let jobs = self.register_load(vec![Want::key(key)], u64::MAX, move |result| {
            // The receiver waits below.
            let _ = tell.send(result);
        });
        for job in jobs {
            let error = self.read_cold(&job).err();
            self.end_load(&job, error);
        }
        told.recv().unwrap_or_else(|_| Err(EngineError::Storage("the store is closed".into())))
    }

    /// Notes a load for each key, and answers the reads that somebody must do for them.
    fn register_load(
        &self,
        mut keys: Vec<Want>,
        max_bytes: u64,
        done: impl FnOnce(Result<LoadPin, EngineError>) + Send + 'static,
    ) -> Vec<Job> {
        keys.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        keys.dedup();
        let keys: Arc<[Want]> = keys.into();
        let (engine, pinned) = (self.clone(), Arc::clone(&keys));
        let ended = move |result: Result<(), EngineError>| {
            // Where a read has failed the pin goes here, so that what was loaded beside that key is let go.
            let pin = LoadPin { engine, keys: pinned };
            done(result.map(|()| pin));
        };
        let waiting = Arc::new(Waiting::new(keys.len(), max_bytes, Box::new(ended)));
        let inner = self.inner();
        let mut jobs = Vec::new();
        for want in &*keys {
            let key = &want.key;
            let mut shard = inner.shards[shard_of(key.hash)].latch();
            if let Some(load) = shard.loads_of(want).get_mut(key.slot, &key.bytes) {
                load.pins += 1;
                if matches!(load.state, LoadState::Reading { .. }) {
                    load.waiters.push(Arc::clone(&waiting));
                    continue;
                }
                if load.state != LoadState::Overtaken {
                    drop(shard);
                    waiting.one_done(None);
                    continue;
                }
            }
            let state = if shard.has_in_memory(want) {
                LoadState::Filled
            } else if !inner.namespaces.is_live(key.slot) {
                // The database was emptied since the caller looked. Filling an entry in could
                // outlive the sweep of the slot and appear in the namespace that gets it next.
                LoadState::Absent
            } else {
                let beyond = match &want.page {
                    Some(page) => self.look_beyond_pages(&mut shard, page),
                    None => self.look_beyond_table(&mut shard, key.as_key()),
                };
                match beyond {
                    Beyond::Filled => LoadState::Filled,
                    Beyond::Absent => LoadState::Absent,
                    Beyond::Cold => {
                        let ticket = inner.cold.tickets.fetch_add(1, Ordering::Relaxed);
                        LoadState::Reading { ticket }
                    }
                }
            };
            let reading = match state {
                LoadState::Reading { ticket } => {
                    jobs.push(Job { want: want.clone(), ticket });
                    true
                }
                _ => false,
            };
            let loads = shard.loads_of(want);
            match loads.get_mut(key.slot, &key.bytes) {
                Some(load) => {
                    load.state = state;
                    if reading {
                        load.waiters.push(Arc::clone(&waiting));
                    }
                }
                None => {
                    let waiters = if reading { vec![Arc::clone(&waiting)] } else { Vec::new() };
                    loads.insert(key, Load { state, pins: 1, waiters });
                }
            }
            drop(shard);
            if !reading {
                waiting.one_done(None);
            }
        }
        waiting.one_done(None);
        jobs
    }

    /// Loop of one cold-read thread.
    pub(in crate::store) fn run_cold_reads(&self) {
        while let Some(job) = self.inner().cold.next() {
            let error = self.read_cold(&job).err();
            self.end_load(&job, error);
        }
    }

    /// Runs the queued reads on this thread, for a store without background threads.
    fn run_queued_cold_reads(&self) {
        while let Some(job) = self.inner().cold.next_queued() {
            let error = self.read_cold(&job).err();
            self.end_load(&job, error);
        }
    }

    /// Fails the queued loads, which no thread will read any more.
    pub(in crate::store) fn refuse_queued_loads(&self) {
        while let Some(job) = self.inner().cold.next_queued() {
            self.end_load(&job, Some(EngineError::Storage("the store is closed".into())));
        }
    }

    /// Tells the waiters of a read that it is over.
    fn end_load(&self, job: &Job, error: Option<EngineError>) {
        let key = &job.want.key;
        let mut shard = self.inner().shards[shard_of(key.hash)].latch();
        let load = shard.loads_of(&job.want).get_mut(key.slot, &key.bytes);
        let Some(load) = load else { return };
        match load.state {
            // A write overtook this read and another one is under way: that one tells them.
            LoadState::Reading { ticket } if ticket != job.ticket => return,
            LoadState::Reading { .. } => load.state = LoadState::Overtaken,
            _ => {}
        }
        let waiters = std::mem::take(&mut load.waiters);
        drop(shard);
        for waiter in waiters {
            waiter.one_done(error.clone());
        }
    }

    fn read_cold(&self, job: &Job) -> Result<(), EngineError> {
        let inner = self.inner();
        if !self.is_awaited(job) {
            return Ok(());
        }
        inner.cold.reads.fetch_add(1, Ordering::Relaxed);
        let key = &job.want.key;
        let head: [u8; HEAD_BYTES] = job.want.head(inner.namespaces.id_of(key.slot));
        let engine_key = [&head, key.bytes.as_slice()].concat();
        let found = self.read_newest(&engine_key, Seq::MAX)?;
        inner.figures.reads.note_miss(found.as_ref().map(|found| found.place));
        let mut guard = inner.shards[shard_of(key.hash)].latch();
        let shard = &mut *guard;
        // A page whose collection went meanwhile must not outlive the sweep of its pages.
        let is_gone = job.want.page.is_some()
            && inner.graveyard.elements.newest_at(&engine_key, Seq::MAX)
                > found.as_ref().map(|found| found.seq);
        let load = shard.loads_of(&job.want).get_mut(key.slot, &key.bytes);
        let Some(load) = load else { return Ok(()) };
        if load.state != (LoadState::Reading { ticket: job.ticket }) {
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
            match job.want.page {
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
    fn is_awaited(&self, job: &Job) -> bool {
        let key = &job.want.key;
        let mut shard = self.inner().shards[shard_of(key.hash)].latch();
        let load = shard.loads_of(&job.want).get_mut(key.slot, &key.bytes);
        let Some(load) = load else { return true };
        if load.state != (LoadState::Reading { ticket: job.ticket }) {
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
        let Some((cid, pages)) = Descriptor::named_by(&before.value) else { return };
        let (prefix, inner) = (element_head(namespace, cid), self.inner());
        if inner.graveyard.elements.newest_at(&prefix, Seq::MAX).is_some() {
            return;
        }
        inner.graveyard.elements.open(&prefix, seq);
        inner.graveyard.note_dead_pages(&prefix, seq, pages);
        inner.graveyard.note_grave(prefix.len(), &inner.upkeep.background);
        shard.pages.note_dead(&prefix);
    }
}
