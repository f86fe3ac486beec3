//! The iterator that users of the store get.

use crate::iterator::{Bounds, LiveWalk};
use crate::key::{Meta, Seq};
use crate::store::engine::{Engine, EngineError};
use crate::store::namespace::{self, HEAD_BYTES};
use crate::store::read::pins::Pin;
use crate::store::read::snapshot::Held;
use crate::store::read::view::{ReaderGraves, View};
use std::sync::Arc;

/// Which keys an iterator walks over, and what it does with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IterOptions {
    /// Logical database.
    pub db: usize,
    /// Only keys with this prefix.
    pub prefix: Vec<u8>,
    /// Only keys at or above this one.
    pub lower: Vec<u8>,
    /// Only keys below this one; empty for no bound.
    pub upper: Vec<u8>,
    /// No value is copied; [`Iter::value`] answers nothing of use.
    pub keys_only: bool,
    /// Keys due at or before this time (milliseconds since the epoch) are passed over; 0 shows all.
    pub hide_due_ms: u64,
    /// Bound of what a long walk reads ahead of each table, in bytes: 0 for block by block, `None` for the
    /// default (256 KiB).
    pub read_ahead_bytes_max: Option<usize>,
}

/// An iterator over the live keys of one database at one sequence, in key order, both ways (G2).
///
/// It is not positioned until the first seek. Walked off either end it is not [`Iter::valid`] until the
/// next seek. While it lives it is a member of S and keeps its superversion: memtables and tables that
/// have been replaced since stay. It reads on the caller's thread, which must not be a worker.
pub struct Iter {
    engine: Engine,
    walk: LiveWalk,
    head: [u8; HEAD_BYTES],
    has_graves: bool,
    /// Tables of level 0 that each seek looks into.
    level_0: u64,
    room: Vec<u8>,
    /// The snapshot it came from, which may end by itself.
    held: Option<Arc<Held>>,
    _pin: Pin,
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("valid", &self.valid()).finish_non_exhaustive()
    }
}

impl IterOptions {
    pub(in crate::store) fn bounds(&self, head: &[u8]) -> Bounds {
        let prefix = Bounds::of_prefix(&[head, &self.prefix].concat());
        let lower = [head, &self.lower].concat();
        let upper = [head, &self.upper].concat();
        prefix.narrowed(Bounds {
            lower,
            upper: if self.upper.is_empty() { Vec::new() } else { upper },
        })
    }
}

impl Iter {
    pub(in crate::store) fn new(
        engine: Engine,
        view: &View,
        pin: Pin,
        head: [u8; HEAD_BYTES],
        options: &IterOptions,
        held: Option<Arc<Held>>,
    ) -> Self {
        let bounds = options.bounds(&head);
        let level_0 = view.level_0_in(&bounds);
        let walk = view.walk_reading_ahead(bounds, options.read_ahead_bytes_max);
        let walk = walk.passing_dead(&engine.inner().graveyard.dead_runs);
        let walk = walk.hiding_due(options.hide_due_ms).keys_only(options.keys_only);
        let has_graves = engine.has_graves();
        Self { engine, walk, head, has_graves, level_0, room: Vec::new(), held, _pin: pin }
    }

    pub(in crate::store) fn check_open(&self) -> Result<(), EngineError> {
        self.held.as_ref().map_or(Ok(()), |held| held.check_not_ended())
    }

    /// True while it stands on a key.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.walk.valid()
    }

    /// The user's key. Empty when not [`Iter::valid`].
    #[must_use]
    pub fn key(&self) -> &[u8] {
        if self.valid() { self.walk.key().get(HEAD_BYTES..).unwrap_or_default() } else { &[] }
    }

    /// The value. Empty when not [`Iter::valid`].
    #[must_use]
    pub fn value(&self) -> &[u8] {
        if self.valid() { self.walk.value() } else { &[] }
    }

    /// Flags and expiry.
    #[must_use]
    pub fn meta(&self) -> Meta {
        if self.valid() { self.walk.meta() } else { Meta::default() }
    }

    /// Sequence of the write; 0 when not [`Iter::valid`].
    #[must_use]
    pub fn seq(&self) -> Seq {
        if self.valid() { self.walk.seq() } else { 0 }
    }

    /// Goes to the first key.
    ///
    /// # Errors
    /// This and the other steps: a failing medium, a damaged table, or a snapshot that has ended by itself.
    /// The iterator is not valid then.
    pub fn seek_to_first(&mut self) -> Result<(), EngineError> {
        self.seek(b"")
    }

    /// Goes to the last key.
    ///
    /// # Errors
    /// As for [`Iter::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<(), EngineError> {
        self.check_open()?;
        let graves = ReaderGraves::new(&self.engine, self.has_graves);
        Ok(self.walk.seek_back(None, &graves)?)
    }

    /// Goes to the first key at or above `key`.
    ///
    /// # Errors
    /// As for [`Iter::seek_to_first`].
    pub fn seek(&mut self, key: &[u8]) -> Result<(), EngineError> {
        self.check_open()?;
        self.room.clear();
        self.room.extend_from_slice(&self.head);
        self.room.extend_from_slice(key);
        self.engine.inner().upkeep.rest.note_looks(self.level_0);
        let graves = ReaderGraves::new(&self.engine, self.has_graves);
        Ok(self.walk.seek(&self.room, &graves)?)
    }

    /// Goes to the last key at or below `key`.
    ///
    /// # Errors
    /// As for [`Iter::seek_to_first`].
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<(), EngineError> {
        self.check_open()?;
        self.room.clear();
        self.room.extend_from_slice(&self.head);
        self.room.extend_from_slice(key);
        // The least key above `key`.
        self.room.push(0);
        self.engine.inner().upkeep.rest.note_looks(self.level_0);
        let graves = ReaderGraves::new(&self.engine, self.has_graves);
        Ok(self.walk.seek_back(Some(&self.room), &graves)?)
    }

    /// Steps to the following key.
    ///
    /// # Errors
    /// As for [`Iter::seek_to_first`].
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "it answers no item, and goes both ways")]
    pub fn next(&mut self) -> Result<(), EngineError> {
        self.check_open()?;
        let graves = ReaderGraves::new(&self.engine, self.has_graves);
        Ok(self.walk.next(&graves)?)
    }

    /// Steps to the key before.
    ///
    /// # Errors
    /// As for [`Iter::seek_to_first`].
    #[inline]
    pub fn prev(&mut self) -> Result<(), EngineError> {
        self.check_open()?;
        let graves = ReaderGraves::new(&self.engine, self.has_graves);
        Ok(self.walk.prev(&graves)?)
    }
}

impl Engine {
    /// An iterator over the newest state as of the call, not positioned yet. No latch may be held.
    #[must_use]
    pub fn iter(&self, options: &IterOptions) -> Iter {
        let (view, pin, namespaces) = self.newest_view();
        let id = namespace::id_in(&namespaces, options.db);
        Iter::new(self.clone(), &view, pin, namespace::head(id), options, None)
    }
}
