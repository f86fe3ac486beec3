//! Requests for keys and pages that are not in memory: who asks for what, in which steps, and the pins that result.
//!
//! A request may name all pages of a large collection. It asks for some of them at a time, behind the reads that are queued
//! by then, so that the reads of others come in between; and it asks for no more when it has all that it may have.

use crate::store::engine::{Engine, EngineError};
use crate::store::read::cold::Beyond;
use crate::store::read::cold_queue::{Job, Read};
use crate::store::read::load::{Load, LoadState, Request, Waiter, Waiting, Want};
use crate::store::shard::shard_of;
use crate::store::tx::OwnedKey;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};

/// Keys that a request asks for at once, and pins that go under one hold of a latch.
const AT_ONCE: usize = 256;

/// Keeps loaded entries in memory until dropped.
pub struct LoadPin {
    engine: Engine,
    keys: Arc<[Want]>,
    /// How many of the keys were asked for.
    asked: usize,
    read_bytes: u64,
}

impl LoadPin {
    /// Bytes of pages that were read for it.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        // Pages are sorted behind keys, and nobody asks for both at once.
        if self.keys.last().is_some_and(Want::is_page) { self.read_bytes } else { 0 }
    }
}

impl std::fmt::Debug for LoadPin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadPin").field("keys", &self.asked).finish_non_exhaustive()
    }
}

impl Drop for LoadPin {
    fn drop(&mut self) {
        // Pages of a collection follow each other and lie in one shard.
        let keys = &self.keys[..self.asked];
        let of_shard = keys.chunk_by(|a, b| shard_of(a.key.hash) == shard_of(b.key.hash));
        for wanted in of_shard.flat_map(|wanted| wanted.chunks(AT_ONCE)) {
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

impl Engine {
    /// Starts loading cold keys on the cold-read threads; one load a key, however many wait.
    /// `done` runs once, on another thread or at once on this one, when every key is in memory (or
    /// known absent) or a read failed, with [`EngineError::LoadTooLarge`] when the values have more than `max_bytes`
    /// together; a single value may be of any size, unless that is 0. Loaded entries stay pinned until the [`LoadPin`] is dropped.
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
        let inner = self.inner();
        let request = self.new_request(wanted, max_bytes, done);
        inner.cold.push(request.keys.len(), self.ask(request));
        if inner.cold.stop.load(Ordering::Acquire) {
            self.refuse_queued_loads();
        } else if !inner.options.background {
            self.run_queued_cold_reads();
        }
    }

    /// Like `load`, for one key and on the calling thread, which waits. No latch may be held.
    pub(in crate::store) fn load_here(&self, key: OwnedKey) -> Result<LoadPin, EngineError> {
        let (tell, told) = mpsc::channel();
        let request = self.new_request(vec![Want::key(key)], u64::MAX, move |result| {
            // The receiver waits below.
            let _ = tell.send(result);
        });
        for job in self.ask(request) {
            self.run_cold_job(job);
        }
        told.recv().unwrap_or_else(|_| Err(EngineError::Storage("the store is closed".into())))
    }

    fn new_request(
        &self,
        mut keys: Vec<Want>,
        max_bytes: u64,
        done: impl FnOnce(Result<LoadPin, EngineError>) + Send + 'static,
    ) -> Request {
        keys.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        keys.dedup();
        let keys: Arc<[Want]> = keys.into();
        let (engine, pinned) = (self.clone(), Arc::clone(&keys));
        let ended = move |result: Result<(), EngineError>, asked, read_bytes| {
            // Where a read has failed the pin goes here, so that what was loaded beside that key is let go.
            let pin = LoadPin { engine, keys: pinned, asked, read_bytes };
            done(result.map(|()| pin));
        };
        let waiting = Arc::new(Waiting::new(keys.len(), max_bytes, Box::new(ended)));
        Request { keys, from: 0, waiting }
    }

    /// Asks for the next keys of a request. Answers the reads that somebody must do for them, and what is left.
    fn ask(&self, mut request: Request) -> Vec<Job> {
        let (from, all) = (request.from, request.keys.len());
        if request.waiting.has_enough() {
            request.refuse(&EngineError::LoadTooLarge { max_bytes: request.waiting.max_bytes });
            return Vec::new();
        }
        let end = all.min(from + AT_ONCE);
        request.waiting.note_asked(end);
        let reads = request.keys[from..end].iter();
        let reads = reads.filter_map(|want| self.note_load(want, &request.waiting));
        let mut jobs: Vec<Job> = reads.map(Job::Read).collect();
        if end < all {
            request.from = end;
            jobs.push(Job::Ask(request));
        } else {
            request.waiting.one_done(None);
        }
        jobs
    }

    /// Notes a load for a key, which gets a pin, and answers the read that somebody must do for it.
    fn note_load(&self, want: &Want, waiting: &Waiter) -> Option<Read> {
        let inner = self.inner();
        let key = &want.key;
        let mut shard = inner.shards[shard_of(key.hash)].latch();
        if let Some(load) = shard.loads_of(want).get_mut(key.slot, &key.bytes) {
            load.pins += 1;
            if matches!(load.state, LoadState::Reading { .. }) {
                load.waiters.push(Arc::clone(waiting));
                return None;
            }
            if load.state != LoadState::Overtaken {
                drop(shard);
                waiting.one_done(None);
                return None;
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
        let read = match state {
            LoadState::Reading { ticket } => Some(Read { want: want.clone(), ticket }),
            _ => None,
        };
        let loads = shard.loads_of(want);
        match loads.get_mut(key.slot, &key.bytes) {
            Some(load) => {
                load.state = state;
                if read.is_some() {
                    load.waiters.push(Arc::clone(waiting));
                }
            }
            None => {
                let waiters = read.iter().map(|_| Arc::clone(waiting)).collect();
                loads.insert(key, Load { state, pins: 1, waiters });
            }
        }
        drop(shard);
        if read.is_none() {
            waiting.one_done(None);
        }
        read
    }

    /// Loop of one cold-read thread.
    pub(in crate::store) fn run_cold_reads(&self) {
        while let Some(job) = self.inner().cold.next() {
            self.run_cold_job(job);
        }
    }

    /// Runs the queued reads on this thread, for a store without background threads.
    fn run_queued_cold_reads(&self) {
        while let Some(job) = self.inner().cold.next_queued() {
            self.run_cold_job(job);
        }
    }

    fn run_cold_job(&self, job: Job) {
        match job {
            Job::Read(read) => {
                let error = self.read_cold(&read).err();
                self.end_load(&read, error);
            }
            Job::Ask(request) => {
                self.inner().cold.push(request.keys.len(), self.ask(request));
            }
        }
    }

    /// Fails the queued loads, which no thread will read any more.
    pub(in crate::store) fn refuse_queued_loads(&self) {
        let closed = || EngineError::Storage("the store is closed".into());
        while let Some(job) = self.inner().cold.next_queued() {
            match job {
                Job::Read(read) => self.end_load(&read, Some(closed())),
                Job::Ask(request) => request.refuse(&closed()),
            }
        }
    }

    /// Tells the waiters of a read that it is over.
    fn end_load(&self, read: &Read, error: Option<EngineError>) {
        let key = &read.want.key;
        let mut shard = self.inner().shards[shard_of(key.hash)].latch();
        let load = shard.loads_of(&read.want).get_mut(key.slot, &key.bytes);
        let Some(load) = load else { return };
        match load.state {
            // A write overtook this read and another one is under way: that one tells them.
            LoadState::Reading { ticket } if ticket != read.ticket => return,
            LoadState::Reading { .. } => load.state = LoadState::Overtaken,
            _ => {}
        }
        let waiters = std::mem::take(&mut load.waiters);
        drop(shard);
        for waiter in waiters {
            waiter.one_done(error.clone());
        }
    }
}
