//! Forgetting: graves that nothing needs any more (F1 to F3), entries of dead namespaces (N7).

use crate::cemetery::{Grave, OPEN};
use crate::key::{EngineKey, Seq};
use crate::store::engine::{Engine, EngineError, Inner};
use crate::store::graveyard::DeadSlot;
use crate::store::graveyard::grave_keys::GraveKeys;
use crate::store::graveyard::sweep_look::SweepLook;
use crate::store::latch::Latched;
use crate::store::namespace::{self, FIRST_SEQ, KIND_ELEMENT};
use crate::store::shard::{Count, Shard};
use crate::table::Table;
use crate::tree::{BurialTally, GraveFile, Job, Version, death_in};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Who evicts keys sweeps collections that are gone where they have so many bytes in memory; of fewer nobody waits for the room.
const LEAVING_MANY_BYTES: usize = 256 << 10;

/// Buckets of one shard swept under one hold of its latch.
const SWEEP_BUCKETS: usize = 1024;

/// With fewer graves in memory both cost next to nothing.
const FEW_GRAVES: u64 = 100_000;

/// Rewrites of one tally of many.
const BURIALS: usize = 8;

impl Inner {
    /// Asking every grave takes long, and no deadline of deletes (N17) wants it at once.
    fn has_many_graves(&self) -> bool {
        let graves = |shard: &Shard| shard.graves.load(Ordering::Relaxed) as u64;
        !self.graveyard.deadline.is_set()
            && self.shards.iter().map(graves).sum::<u64>() + self.graveyard.elements.len() as u64
                >= FEW_GRAVES
    }

    /// How many rewrites to take from one tally.
    pub(in crate::store) fn burials_a_tally(&self) -> usize {
        if self.has_many_graves() { BURIALS } else { 1 }
    }
}

impl Engine {
    /// Sweeps the cemetery if that is owed and its turn. On the flush thread, as [`Engine::sweep_graves`].
    pub(in crate::store) fn sweep_in_turn(&self) {
        let inner = self.inner();
        let turn = &inner.graveyard.sweep_turn;
        let begun = Instant::now();
        if !turn.is_owed.load(Ordering::Acquire)
            || (inner.has_many_graves() && !turn.is_over(begun))
        {
            return;
        }
        turn.is_owed.store(false, Ordering::Release);
        self.sweep_graves();
        *turn.last.lock() = Some((Instant::now(), begun.elapsed()));
    }
}

impl Engine {
    /// Removes graves that may go. Runs on the flush thread only, so that no grave leaves between
    /// a mark's birth and its checkpoint.
    pub(in crate::store) fn sweep_graves(&self) {
        let inner = self.inner();
        self.forget_undo_runs();
        let mark = inner.flusher.mark.load(Ordering::Acquire);
        let look = SweepLook::new(self);
        self.sweep_dead_runs(&look.superversion.version, look.memtables_from);
        let has_deadline = inner.graveyard.deadline.is_set();
        let stays = |grave: &mut Grave| {
            let is_past = |grave: &Grave| look.is_buried(&grave.key, grave.d);
            if grave.e != OPEN {
                // With a deadline it stays until what it killed is gone, too (N17).
                return !grave.may_go_closed(mark, mark, &look.snapshots)
                    || (has_deadline && !is_past(grave));
            }
            if grave.buried_in != 0 {
                return look.oldest_reader < grave.buried_in;
            }
            if is_past(grave) {
                grave.buried_in = look.superversion.number;
                return look.oldest_reader < grave.buried_in;
            }
            true
        };
        let (mut oldest, mut forgotten) = (Seq::MAX, false);
        for shard in &inner.shards {
            if shard.graves.load(Ordering::Acquire) == 0 {
                continue;
            }
            // Graves of deletes since then are younger than what they could be forgotten by.
            shard.walk_graves(|graves, from| {
                let next = graves.retain_slice(from, |_, grave| {
                    let stays = stays(grave);
                    if stays {
                        oldest = oldest.min(grave.d);
                    }
                    forgotten |= !stays;
                    stays
                });
                shard.graves.store(graves.len(), Ordering::Release);
                next
            });
        }
        inner.graveyard.elements.retain(|grave| {
            let stays = stays(grave);
            if stays {
                oldest = oldest.min(grave.d);
            }
            forgotten |= !stays;
            stays
        });
        let runs = inner.graveyard.spill.runs.load();
        let spilled = runs.in_use().map(|file| file.table.properties().min_seq).min();
        oldest = oldest.min(spilled.unwrap_or(Seq::MAX));
        inner
            .graveyard
            .deadline
            .oldest_grave
            .store(if oldest == Seq::MAX { 0 } else { oldest }, Ordering::Release);
        if forgotten {
            inner.graveyard.deadline.has_traces.store(true, Ordering::Release);
        }
    }

    /// Tables that are in dead runs with all their keys and sequences, and those all of whose namespaces are dead
    /// (N7): they go without being read. Only by runs and deaths that the mark
    /// has passed (D1, N1), and that no reader is below (C2).
    pub(in crate::store) fn pick_dead_tables(&self, version: &Version, now: Seq) -> Option<Job> {
        let inner = self.inner();
        // Where databases are emptied again and again there are many ids, and often no table.
        version.tables().next()?;
        let dead_ids = self.droppable_ids(now);
        if inner.graveyard.dead_runs.is_empty() && dead_ids.is_empty() {
            return None;
        }
        let staying = if dead_ids.is_empty() { Vec::new() } else { self.staying_ids(&dead_ids) };
        let min_reader = self.snapshots_through(now)[0];
        let mut inputs: Vec<(usize, Vec<Arc<Table>>)> = Vec::new();
        let mut dead_through = 0;
        for (level, table) in version.tables() {
            let p = table.properties();
            let dead =
                inner.graveyard.dead_runs.holds(&p.min_key, &p.max_key, p.max_seq, min_reader);
            let Some(d) = dead.or_else(|| death_of_all(table, &dead_ids, &staying)) else {
                continue;
            };
            dead_through = dead_through.max(d);
            match inputs.last_mut().filter(|(last, _)| *last == level) {
                Some((_, tables)) => tables.push(Arc::clone(table)),
                None => inputs.push((level, vec![Arc::clone(table)])),
            }
        }
        (dead_through > 0).then(|| Job::of_dead(inputs, dead_through))
    }

    /// Forgets dead runs that contain nothing any more.
    fn sweep_dead_runs(&self, version: &Version, memtables_from: Seq) {
        let runs = &self.inner().graveyard.dead_runs;
        if !runs.is_empty() {
            runs.retain(|from, to, d| memtables_from <= d || version.overlaps(from, to));
        }
    }

    /// The rewrite that frees most graves (a table with many dead), if one pays. Asks every grave, so
    /// only after something has changed, and with many graves for several rewrites at once.
    ///
    /// # Errors
    /// A grave run that cannot be read.
    pub(in crate::store) fn pick_burial(
        &self,
        version: &Version,
    ) -> Result<Option<Job>, EngineError> {
        let inner = self.inner();
        if let Some(job) = inner.graveyard.sweep_turn.take_burial(version) {
            return Ok(Some(job));
        }
        if !inner.graveyard.burial_wanted.swap(false, Ordering::AcqRel) {
            return Ok(None);
        }
        let tally = self.tally_of_dead(version)?;
        let (dead_bytes, queue_bytes) = tally.bytes(inner.graveyard.deadline.overdue());
        inner.graveyard.deadline.dead_bytes.store(dead_bytes, Ordering::Relaxed);
        inner.graveyard.deadline.queue_bytes.store(queue_bytes, Ordering::Relaxed);
        let (overdue, options) = (inner.graveyard.deadline.overdue(), inner.compaction_options());
        let mut jobs = tally.picks(overdue, &options, inner.burials_a_tally()).into_iter();
        let job = jobs.next();
        inner.graveyard.sweep_turn.keep_burials(jobs);
        if job.is_none() {
            inner.upkeep.rest.want_burial();
        }
        Ok(job)
    }

    /// The rewrite of a table with fewer dead than [`Engine::pick_burial`] wants, for a store at rest. Asks every
    /// grave once after that has found nothing.
    pub(in crate::store) fn pick_burial_at_rest(
        &self,
        version: &Version,
    ) -> Result<Option<Job>, EngineError> {
        let inner = self.inner();
        if !inner.upkeep.rest.take_burial_wanted() {
            return Ok(None);
        }
        let tally = self.tally_of_dead(version)?.at_rest();
        Ok(tally.pick(inner.graveyard.deadline.overdue(), &inner.compaction_options()))
    }

    /// What is dead in the tables of `version`.
    pub(in crate::store) fn tally_of_dead<'v>(
        &self,
        version: &'v Version,
    ) -> Result<BurialTally<'v>, EngineError> {
        let inner = self.inner();
        let mark = inner.flusher.mark.load(Ordering::Acquire);
        // With two outputs a rewrite buries whatever is dead at the mark (N6).
        let min_reader = if self.separates() { mark } else { self.snapshots_through(mark)[0] };
        let mut tally = BurialTally::new(version, min_reader)
            .pressed(self.cemetery_is_pressed())
            .while_deleting(inner.graveyard.spill.deletes_go_on())
            .short_of_room(inner.upkeep.room.is_short());
        let runs = inner.graveyard.spill.runs.load();
        let mut oldest = Seq::MAX;
        {
            let countable = |file: &&GraveFile| file.table.properties().max_seq <= min_reader;
            let files: Vec<GraveFile> = runs.in_use().filter(countable).cloned().collect();
            let mut counts = inner.graveyard.spill.counts.lock();
            let counted = counts.refresh(version, &files, inner.upkeep.background.stop_flag());
            // What could not be counted is wanted still.
            inner.graveyard.burial_wanted.fetch_or(counted.is_err(), Ordering::AcqRel);
            counted?;
            tally.add_counts(&counts);
            let spilled = files.iter().map(|file| file.table.properties().min_seq);
            oldest = oldest.min(spilled.min().unwrap_or(Seq::MAX));
        }
        tally.note_due_index(inner.upkeep.cold_due.lock().droppable_ms());
        let has_deadline = inner.graveyard.deadline.is_set();
        // Without a deadline what a closed grave has killed goes as merges pass.
        let is_wanted =
            |grave: &Grave| grave.d <= min_reader && (has_deadline || grave.e > min_reader);
        for (key, d) in inner.graveyard.elements.copies(is_wanted) {
            tally.note(&key, d);
            oldest = oldest.min(d);
        }
        let mut graves = GraveKeys::default();
        for shard in &inner.shards {
            if shard.graves.load(Ordering::Acquire) > 0 {
                graves.clear();
                graves.add_from(shard, is_wanted);
                for (key, d) in graves.iter() {
                    tally.note(key, d);
                    oldest = oldest.min(d);
                }
            }
        }
        if has_deadline {
            if oldest < Seq::MAX {
                tally.note_expiry_index(oldest);
            }
            for (id, d) in self.droppable_ids(mark) {
                tally.note_namespace(id, d);
            }
        }
        Ok(tally)
    }

    /// Drops the entries and graves of emptied databases from memory, step by step, and frees their
    /// slots. Answers whether work is left.
    pub(in crate::store) fn sweep_dead_namespaces(&self) -> bool {
        let inner = self.inner();
        let emptied = inner.graveyard.emptied.load(Ordering::Acquire);
        let dead: Vec<DeadSlot> = inner.graveyard.dead_slots.lock().clone();
        if dead.is_empty() {
            inner.graveyard.emptied_swept.fetch_max(emptied, Ordering::AcqRel);
            return false;
        }
        // Asked again under every latch: a slot may have been swept and given out by a FLUSHDB.
        let still_dead = || {
            let mut slots = [false; namespace::SLOTS];
            for item in &dead {
                slots[usize::from(item.slot)] = inner.namespaces.id_of(item.slot) == item.id;
            }
            slots
        };
        let may_forget = |d: Seq| {
            inner.durable() >= d && inner.views.pins.sequences().first().is_none_or(|&s| s >= d)
        };
        let mut pending = false;
        for shard in &inner.shards {
            loop {
                let mut state = shard.latch();
                let slots = still_dead();
                pending |= state.loads_any(|slot| slots[usize::from(slot)]);
                let is_swept = state.sweep_slots(&slots, SWEEP_BUCKETS);
                // What went counts now, and not when somebody next writes here.
                self.note_table_bytes(&mut state);
                if is_swept {
                    break;
                }
            }
        }
        inner.graveyard.emptied_swept.fetch_max(emptied, Ordering::AcqRel);
        let forgettable: Vec<u64> =
            dead.iter().filter(|item| may_forget(item.d)).map(|item| item.id).collect();
        pending |= forgettable.len() < dead.len();
        if !forgettable.is_empty() {
            let of = |grave: &Grave| EngineKey::namespace_of(&grave.key);
            let is_gone = |grave: &Grave| of(grave).is_some_and(|id| forgettable.contains(&id));
            inner.graveyard.elements.retain(|grave| !is_gone(grave));
        }
        for shard in &inner.shards {
            let mut state = shard.latch();
            if !forgettable.is_empty() && !state.graves.is_empty() {
                state.graves.retain(|_, grave| {
                    namespace::split(&grave.key).is_none_or(|(id, _)| !forgettable.contains(&id))
                });
                shard.graves.store(state.graves.len(), Ordering::Release);
            }
            let slots = still_dead();
            for item in dead.iter().filter(|item| slots[usize::from(item.slot)]) {
                *state.count_mut(item.slot) = Count::default();
            }
        }
        if !pending {
            let _barrier = inner.barrier();
            let slots = still_dead();
            let mut held = inner.graveyard.dead_slots.lock();
            held.retain(|item| !dead.iter().any(|swept| swept.id == item.id));
            for item in dead.iter().filter(|item| slots[usize::from(item.slot)]) {
                inner.namespaces.release(item.slot);
            }
        }
        !inner.graveyard.dead_slots.lock().is_empty()
    }

    /// Takes many pages of collections that are gone out of memory, while keys are evicted: the store does it by itself, but behind a flush
    /// that may take seconds. Shards whose latches are taken are left to the next call. No latch may be held.
    pub fn sweep_gone(&self) {
        let leaving_bytes = self.inner().graveyard.leaving_bytes.load(Ordering::Relaxed);
        if leaving_bytes >= LEAVING_MANY_BYTES && self.evicts_keys() {
            self.sweep_dead_pages_by(|shard| shard.latch.try_take());
        }
    }

    /// Takes pages of collections that are gone out of memory, step by step.
    pub(in crate::store) fn sweep_dead_pages(&self) {
        self.sweep_dead_pages_by(|shard| Some(shard.latch()));
    }

    fn sweep_dead_pages_by<'s>(&'s self, latch: impl Fn(&'s Shard) -> Option<Latched<'s>>) {
        let inner = self.inner();
        let Some(_turn) = inner.graveyard.dead_pages_turn.try_lock() else { return };
        if !inner.graveyard.has_dead_pages.swap(false, Ordering::AcqRel) {
            return;
        }
        let gone = inner.graveyard.gone.load(Ordering::Acquire);
        let leaving_bytes = inner.graveyard.leaving_bytes.load(Ordering::Acquire);
        let mut is_whole = true;
        for shard in &inner.shards {
            let Some(mut state) = latch(shard) else {
                is_whole = false;
                continue;
            };
            let leaving = state.pages.take_leaving();
            while state.pages.has_dead() && !state.pages.sweep_dead(SWEEP_BUCKETS) {
                self.note_table_bytes(&mut state);
                state.let_others();
            }
            self.note_table_bytes(&mut state);
            drop(state);
            // Without the latch: a large collection has many.
            drop(leaving);
        }
        if is_whole {
            inner.graveyard.gone_swept.store(gone, Ordering::Release);
            inner.graveyard.leaving_bytes.fetch_sub(leaving_bytes, Ordering::AcqRel);
        } else {
            inner.graveyard.has_dead_pages.store(true, Ordering::Release);
        }
    }

    /// Collections in pages that have gone since the store was opened, and how many of them may still have pages in memory.
    #[must_use]
    pub fn collections_gone(&self) -> (u64, u64) {
        let graveyard = &self.inner().graveyard;
        let swept = graveyard.gone_swept.load(Ordering::Acquire);
        let gone = graveyard.gone.load(Ordering::Acquire);
        (gone, gone - swept)
    }

    /// Ids that died at or below `now`, by rising id: to a flush or merge their deaths are graves.
    pub(in crate::store) fn dead_ids_through(&self, now: Seq) -> Vec<(u64, Seq)> {
        let dead = self.inner().graveyard.dead.lock();
        dead.iter().map(|(&id, &d)| (id, d)).filter(|(_, d)| *d <= now).collect()
    }

    /// Ids whose records merges with `now` may drop (N7): durably dead, and no reader from before.
    pub(in crate::store) fn droppable_ids(&self, now: Seq) -> Vec<(u64, Seq)> {
        let inner = self.inner();
        let first_reader = inner.views.pins.sequences().first().copied().unwrap_or(Seq::MAX);
        let dead = inner.graveyard.dead.lock();
        let deaths = dead.iter().map(|(&id, &d)| (id, d));
        deaths.filter(|(_, d)| *d <= now && first_reader >= *d).collect()
    }

    /// Ids of which records must stay, by rising id: of databases, and dead ones that are not in `droppable`.
    fn staying_ids(&self, droppable: &[(u64, Seq)]) -> Vec<u64> {
        let inner = self.inner();
        // Under a latch no id goes from one list to the other.
        let _latched = inner.shards[0].latch();
        let mut ids = inner.namespaces.ids();
        let is_droppable = |id: u64| droppable.binary_search_by_key(&id, |&(id, _)| id).is_ok();
        let dead = inner.graveyard.dead.lock();
        ids.extend(dead.keys().copied().filter(|&id| !is_droppable(id)));
        ids.sort_unstable();
        ids
    }

    /// Forgets dead ids that no file can hold any more.
    pub(in crate::store) fn forget_dead_ids(&self) {
        let inner = self.inner();
        let superversion = inner.views.superversion.load_full();
        let memtables_from = superversion.memtables_from();
        inner.graveyard.dead.lock().retain(|&id, &mut d| {
            memtables_from <= d || superversion.version.may_hold_namespace(id, d)
        });
    }

    /// The dead ids that a mark at `m` has to name: those that some file may hold, one of `added`, which are
    /// about to be installed with it, included. The memtables that stay hold nothing of before.
    pub(in crate::store) fn dead_ids_in_files<'t>(
        &self,
        m: Seq,
        added: impl Iterator<Item = &'t Arc<Table>> + Clone,
    ) -> Vec<(u64, Seq)> {
        let version = self.inner().versions.current();
        let mut dead = self.dead_ids_through(m);
        dead.retain(|&(id, d)| {
            version.may_hold_namespace(id, d)
                || added.clone().any(|table| table.properties().may_hold_namespace(id, d))
        });
        dead
    }
}

/// The last death of the namespaces that the table's keys belong to, if they are all in `dead_ids`. Both lists rise by id;
/// records of `staying` ids stay. An id in neither list has no records: no id is used again (N7).
fn death_of_all(table: &Table, dead_ids: &[(u64, Seq)], staying: &[u64]) -> Option<Seq> {
    let p = table.properties();
    let (from, to) = (p.min_namespace, p.max_namespace);
    let has_namespace =
        |key: &[u8]| EngineKey::namespace_of(key).is_some() && key[0] >= KIND_ELEMENT;
    if !has_namespace(&p.min_key) || !has_namespace(&p.max_key) {
        return None;
    }
    if from == to {
        return death_in(dead_ids, from).filter(|&d| p.max_seq <= d);
    }
    // Ids below belong to databases of whom nobody may have heard at this start.
    let stays =
        staying[staying.partition_point(|&id| id < from)..].first().is_some_and(|&id| id <= to);
    if from < FIRST_SEQ || stays {
        return None;
    }
    let first = dead_ids.partition_point(|&(id, _)| id < from);
    let deaths = dead_ids[first..].iter().take_while(|&&(id, _)| id <= to).map(|&(_, d)| d);
    deaths.max().filter(|&d| p.max_seq <= d)
}
