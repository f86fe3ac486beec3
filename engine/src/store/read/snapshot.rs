//! Named snapshots: one instant that many reads see, for as long as somebody holds it.
//!
//! A snapshot is its sequence in S (G1: "a named snapshot replaces 1 to 3"). It holds no memtable and no
//! table: each read takes the current superversion, in which C2 has kept what the sequence
//! needs, and pins it while it reads.

use crate::key::{Meta, Seq};
use crate::memtable::Mark;
use crate::store::engine::{Engine, EngineError};
use crate::store::namespace;
use crate::store::page_key::{self, PageKey, PageName};
use crate::store::read::iter::{Iter, IterOptions};
use crate::store::read::open_snapshots::{OpenSnapshot, SnapshotInfo};
use crate::store::read::pins::Pin;
use crate::store::read::view::{ReaderGraves, View};
use crate::store::tx::Entry;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How a snapshot is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// What lists call it: `bgsave`, a client's address...
    pub name: String,
    /// It ends by itself after this many milliseconds; 0 for never.
    pub timeout_ms: u64,
}

/// A value as a snapshot sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotValue {
    /// Sequence of the write.
    pub seq: Seq,
    /// Flags and expiry. Whether it is due is the caller's question.
    pub meta: Meta,
    /// The value's bytes.
    pub value: Vec<u8>,
}

impl SnapshotValue {
    /// The value as an [`Entry`], the form that commands use.
    #[must_use]
    pub fn entry(&self) -> Entry<'_> {
        Entry::past(self.meta, &self.value)
    }
}

/// Looks at a snapshot without holding it.
#[derive(Clone)]
pub struct SnapshotWatch(Weak<Held>);

impl SnapshotWatch {
    /// What lists say of it; `None` once it is released.
    #[must_use]
    pub fn info(&self) -> Option<SnapshotInfo> {
        self.0.upgrade().map(|held| held.info())
    }
}

impl std::fmt::Debug for SnapshotWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SnapshotWatch").field(&self.info()).finish()
    }
}

/// One instant of the store. Clones share it; it is released when the last one is dropped.
#[derive(Clone)]
pub struct Snapshot(Arc<Held>);

pub(in crate::store) struct Held {
    engine: Engine,
    id: u64,
    options: SnapshotOptions,
    seq: Seq,
    /// First sequence of the memtable that was active, and how far it was filled.
    birth: (Seq, Mark),
    /// Namespace id of each database.
    namespaces: Vec<u64>,
    opened: Instant,
    /// Gone once the snapshot has ended by itself.
    pin: Mutex<Option<Pin>>,
    has_ended: AtomicBool,
    /// Bound of the undo runs for which it was ended; 0 when it was not.
    expired_at_bytes: AtomicU64,
}

impl Held {
    fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Its own timeout, and that of the deadline, which may have come later: an old snapshot would keep what
    /// must go (N17). 0 for none.
    fn timeout_ms(&self) -> u64 {
        let longest_ms = self.engine.inner().graveyard.deadline.limit_ms() / 2;
        match self.options.timeout_ms {
            0 => longest_ms,
            own_ms if longest_ms > 0 => own_ms.min(longest_ms),
            own_ms => own_ms,
        }
    }

    fn held_bytes(&self) -> u64 {
        if self.has_ended.load(Ordering::Acquire) {
            return 0;
        }
        let version = self.engine.inner().versions.current();
        version.undo_for(self.seq).map(|table| table.file_bytes()).sum()
    }

    /// # Errors
    /// The snapshot has ended by itself.
    pub(in crate::store) fn check_open(&self) -> Result<(), EngineError> {
        if !self.has_ended.load(Ordering::Acquire) {
            if !self.is_over() {
                return Ok(());
            }
            self.end(0);
        }
        Err(self.ended())
    }

    /// Like `check_open`, without reading the clock: the background reads it ten times a second.
    pub(in crate::store) fn check_not_ended(&self) -> Result<(), EngineError> {
        if self.has_ended.load(Ordering::Acquire) { Err(self.ended()) } else { Ok(()) }
    }

    fn ended(&self) -> EngineError {
        let age_ms = self.age().as_millis() as u64;
        let max_bytes = self.expired_at_bytes.load(Ordering::Acquire);
        if max_bytes != 0 {
            return EngineError::SnapshotExpired { age_ms, max_bytes };
        }
        EngineError::SnapshotEnded { age_ms, timeout_ms: self.timeout_ms() }
    }
}

impl OpenSnapshot for Held {
    fn seq(&self) -> Seq {
        self.seq
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    fn is_over(&self) -> bool {
        let timeout_ms = self.timeout_ms();
        timeout_ms != 0 && self.age() >= Duration::from_millis(timeout_ms)
    }

    fn end(&self, expired_at_bytes: u64) {
        let mut pin = self.pin.lock();
        if pin.is_some() {
            self.expired_at_bytes.store(expired_at_bytes, Ordering::Release);
            self.has_ended.store(true, Ordering::Release);
            *pin = None;
            drop(pin);
            let inner = self.engine.inner();
            inner.views.snapshots.ended.fetch_add(1, Ordering::Relaxed);
            inner.reader_left();
        }
    }

    fn info(&self) -> SnapshotInfo {
        SnapshotInfo {
            id: self.id,
            name: self.options.name.clone(),
            seq: self.seq,
            age_ms: self.age().as_millis() as u64,
            timeout_ms: self.timeout_ms(),
            held_bytes: self.held_bytes(),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let inner = self.engine.inner();
        inner.views.snapshots.remove(self.id);
        if self.pin.get_mut().take().is_some() {
            inner.reader_left();
        }
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Snapshot").field(&self.0.info()).finish()
    }
}

impl Snapshot {
    /// The last sequence it sees.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.0.seq
    }

    /// What lists say of it.
    #[must_use]
    pub fn info(&self) -> SnapshotInfo {
        self.0.info()
    }

    /// # Errors
    /// It has ended by itself, and why.
    pub fn check_open(&self) -> Result<(), EngineError> {
        self.0.check_open()
    }

    /// The value that `key` had in database `db`. Runs on the caller's thread, may sort memtables and
    /// read from the device, and leaves the DRAM table alone (N10): not for a worker thread. A value
    /// that is due is answered like any other.
    ///
    /// # Errors
    /// A failing medium, a damaged table, or a snapshot that has ended by itself.
    pub fn get(&self, db: usize, key: &[u8]) -> Result<Option<SnapshotValue>, EngineError> {
        let (view, _pin) = self.view()?;
        let engine = &self.0.engine;
        let engine_key = [&self.head(db), key].concat();
        let d = engine.newest_grave(engine.hash(key), &engine_key, view.s)?;
        let found = view.newest(&engine_key, |seq, meta, value| {
            let lives = Some(seq) > d && !meta.is_tombstone();
            lives.then(|| SnapshotValue { seq, meta, value: value.to_vec() })
        })?;
        Ok(found.flatten())
    }

    /// [`Snapshot::get`] of many keys, answered in their order. They are looked up in key order, and in one
    /// table after the other: a disk then reads sequentially (N6).
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    pub fn get_many(
        &self,
        db: usize,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<SnapshotValue>>, EngineError> {
        let (view, _pin) = self.view()?;
        let engine = &self.0.engine;
        let head = self.head(db);
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|&place| keys[place]);
        let engine_keys: Vec<Vec<u8>> =
            order.iter().map(|&place| [&head, keys[place]].concat()).collect();
        let engine_keys: Vec<&[u8]> = engine_keys.iter().map(Vec::as_slice).collect();
        // G1: graves before versions.
        let graves: Vec<Option<Seq>> = std::iter::zip(&order, &engine_keys)
            .map(|(&place, key)| engine.newest_grave(engine.hash(keys[place]), key, view.s))
            .collect::<Result<_, _>>()?;
        let mut values = vec![None; keys.len()];
        view.newest_of_many(&engine_keys, |i, seq, meta, value| {
            let lives = Some(seq) > graves[i] && !meta.is_tombstone();
            values[order[i]] = lives.then(|| SnapshotValue { seq, meta, value: value.to_vec() });
        })?;
        Ok(values)
    }

    /// The content that a page of the collection `cid` in database `db` had. As [`Snapshot::get`].
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    pub fn page(
        &self,
        db: usize,
        cid: u64,
        page: PageName,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.pages(db, cid, &[page])?.pop().flatten())
    }

    /// The contents that pages of the collection `cid` in database `db` had, in their order. As [`Snapshot::get_many`].
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    pub fn pages(
        &self,
        db: usize,
        cid: u64,
        pages: &[PageName],
    ) -> Result<Vec<Option<Vec<u8>>>, EngineError> {
        let (view, _pin) = self.view()?;
        let namespace = self.0.namespaces.get(db).copied().unwrap_or(namespace::FREE);
        let head = page_key::head(namespace);
        let named = pages.iter().enumerate();
        let mut keys: Vec<(Vec<u8>, usize)> = named
            .map(|(place, page)| ([&head, PageKey::new(0, cid, *page).bytes()].concat(), place))
            .collect();
        keys.sort_unstable();
        // G1: graves before versions.
        let engine = &self.0.engine;
        let graves: Vec<Option<Seq>> = keys
            .iter()
            .map(|(key, _)| engine.newest_element_grave(key, view.s))
            .collect::<Result<_, _>>()?;
        let engine_keys: Vec<&[u8]> = keys.iter().map(|(key, _)| key.as_slice()).collect();
        let mut contents = vec![None; pages.len()];
        view.newest_of_many(&engine_keys, |i, seq, _, value| {
            contents[keys[i].1] = (Some(seq) > graves[i]).then(|| value.to_vec());
        })?;
        Ok(contents)
    }

    /// An iterator over the keys that lived then, not positioned yet.
    ///
    /// # Errors
    /// A snapshot that has ended by itself.
    pub fn iter(&self, options: &IterOptions) -> Result<Iter, EngineError> {
        let (view, pin) = self.view()?;
        let head = self.head(options.db);
        let engine = self.0.engine.clone();
        Ok(Iter::new(engine, &view, pin, head, options, Some(Arc::clone(&self.0))))
    }

    /// A key of database `db` that lived then and was not due at `now_ms`, drawn as by
    /// [`Engine::random_key`]; `None` when there was none.
    ///
    /// # Errors
    /// As for [`Snapshot::get`].
    pub fn random_key(
        &self,
        db: usize,
        now_ms: u64,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let (view, _pin) = self.view()?;
        let engine = &self.0.engine;
        let graves = ReaderGraves::new(engine, engine.has_graves());
        engine.draw_key(&view, &self.head(db), &graves, now_ms, random)
    }

    /// Something that shows it in lists without holding it.
    #[must_use]
    pub fn watch(&self) -> SnapshotWatch {
        SnapshotWatch(Arc::downgrade(&self.0))
    }

    fn head(&self, db: usize) -> [u8; namespace::HEAD_BYTES] {
        namespace::head(namespace::id_in(&self.0.namespaces, db))
    }

    /// A view of now for a read of then. S does not lose the sequence between the named pin and the
    /// read's own.
    fn view(&self) -> Result<(View, Pin), EngineError> {
        let held = &*self.0;
        held.check_open()?;
        let guard = held.pin.lock();
        if guard.is_none() {
            return Err(held.ended());
        }
        let (superversion, pin) = held.engine.inner().pin_superversion(held.seq);
        let (first_seq, mark) = held.birth;
        // A memtable that came later has nothing at or below the sequence.
        let active = (superversion.active.first_seq == first_seq).then_some(mark);
        Ok((View { s: held.seq, superversion, active }, pin))
    }
}

impl Engine {
    /// Opens a snapshot of the newest state. No latch may be held.
    ///
    /// # Errors
    /// [`EngineError::SnapshotRefused`] when as many are open as the options allow.
    pub fn snapshot(&self, options: SnapshotOptions) -> Result<Snapshot, EngineError> {
        self.snapshot_cutting(options, false)
    }

    /// Like [`Engine::snapshot`]; with `cuts` a new segment of the log starts after it.
    pub(in crate::store) fn snapshot_cutting(
        &self,
        options: SnapshotOptions,
        cuts: bool,
    ) -> Result<Snapshot, EngineError> {
        let inner = self.inner();
        self.check_undo_room()?;
        // The place is taken before the barrier, so that nobody waits for latches under the lock of the list.
        let id = inner.views.snapshots.take_place(inner.options.snapshots_max)?;
        let (seq, birth, namespaces, pin) = inner.at_barrier(|s, commit| {
            cuts.then(|| commit.cut_log(s));
            let mark = commit.mark();
            let first_seq = inner.views.superversion.load().active.first_seq;
            (s, (first_seq, mark), inner.namespaces.ids(), inner.views.pins.add_named(s))
        });
        let held = Arc::new(Held {
            engine: self.clone(),
            id,
            options,
            seq,
            birth,
            namespaces,
            opened: Instant::now(),
            pin: Mutex::new(Some(pin)),
            has_ended: AtomicBool::new(false),
            expired_at_bytes: AtomicU64::new(0),
        });
        let listed: Arc<dyn OpenSnapshot> = Arc::<Held>::clone(&held);
        inner.views.snapshots.opened(id, Arc::downgrade(&listed));
        Ok(Snapshot(held))
    }

    /// The open snapshots, oldest first.
    #[must_use]
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        self.inner().views.snapshots.all().iter().map(|held| held.info()).collect()
    }

    /// Ends the oldest snapshot for the bound of the undo runs; false when there is none.
    pub(in crate::store) fn end_oldest_snapshot(&self, max_bytes: u64) -> bool {
        let all = self.inner().views.snapshots.all();
        let open = all.iter().filter(|held| !held.has_ended());
        let Some(oldest) = open.min_by_key(|held| held.seq()) else { return false };
        oldest.end(max_bytes);
        true
    }

    /// Ends the snapshots whose time is over. Runs now and then.
    pub(in crate::store) fn end_old_snapshots(&self) {
        for held in self.inner().views.snapshots.all() {
            if held.is_over() {
                held.end(0);
            }
        }
    }
}
