//! Commands on several keys that take long: they read a snapshot, on a helper thread, and no latch is held meanwhile.

use super::CommandError;
use super::snapshot_session::{hide_due_fields, required_by, snapshot_error, snapshot_for};
use super::unchanged::Unchanged;
use crate::keyspace::Kind;
use crate::keyspace::collection::Hashes;
use crate::keyspace::operand::Operand;
use crate::keyspace::paged::{Keyed, Paged, PastCollection, Structure, whole_at};
use crate::server::Server;
use crate::session::Session;
use crate::value::ValueType;
use sexton_engine::{EngineError, Latched, Meta, Seq, Snapshot, SnapshotValue, TxBuf};
use std::any::Any;
use std::cell::RefCell;
use std::time::Instant;

/// A snapshot is opened so often until nobody has changed a key of a client that tracks meanwhile.
const TRIES: usize = 4;

/// Whether the client's request reads a snapshot.
#[derive(Debug, Default)]
pub enum Past {
    /// It reads the newest state.
    #[default]
    None,
    /// It will: it belongs on a helper thread.
    Wanted,
    /// It does.
    Open(Box<PastKeys>),
    /// It stores what was made of one.
    Made(Box<Made>),
}

impl Past {
    /// Answers if it is wanted, once.
    pub(super) fn take_wanted(&mut self) -> bool {
        let is_wanted = matches!(self, Self::Wanted);
        if is_wanted {
            *self = Self::None;
        }
        is_wanted
    }

    /// What was made before, once.
    pub(super) fn take_made(&mut self) -> Option<Made> {
        match std::mem::take(self) {
            Self::Made(made) => Some(*made),
            other => {
                *self = other;
                None
            }
        }
    }

    /// True while a snapshot is read, and there is no transaction.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// When the request began that stores what was made before.
    pub(super) fn begun(&self) -> Option<Instant> {
        if let Self::Made(made) = self { Some(made.begun) } else { None }
    }

    /// True where a key has changed since the request has made of it what it stores. To be called under the latches of its keys.
    pub(super) fn is_outdated(&self) -> bool {
        matches!(self, Self::Made(made) if !made.unchanged.holds())
    }
}

/// What was made of keys as they were in a snapshot.
#[derive(Debug)]
pub struct Made {
    pub(super) value: Box<dyn Any + Send>,
    /// Keys that the request does not name and that were due, or of which something was.
    pub(super) due: Vec<Vec<u8>>,
    unchanged: Unchanged,
    begun: Instant,
}

/// What a key held, as it is in its record, or that it was of another type than was asked for.
pub type PastRecord = Result<Option<SnapshotValue>, CommandError>;

/// The keys of a database as they were at one instant.
#[derive(Debug)]
pub struct PastKeys {
    snapshot: Snapshot,
    db: usize,
    now_ms: u64,
    /// The write that a reply waits for (N13).
    pub(super) required: Seq,
    /// Whether the keys that were read are as they were, where they are watched.
    pub(super) unchanged: Unchanged,
    /// Keys that were read and found due, or of which something was.
    due: RefCell<Vec<Vec<u8>>>,
    begun: Instant,
}

impl PastKeys {
    /// Opens a snapshot of a database for the request of a client that came at `now_ms`. `None`: no snapshot is to be had, and the request
    /// must read the newest state. May block.
    pub(super) fn of(server: &Server, client: &Session, db: usize, now_ms: u64) -> Option<Self> {
        let begun = Instant::now();
        let snapshot = snapshot_for(server, ("read", client.id)).ok()?;
        let required = required_by(server, &snapshot);
        let (unchanged, due) = (Unchanged::default(), RefCell::default());
        Some(Self { snapshot, db, now_ms, required, unchanged, due, begun })
    }

    /// The same for a request that reads these keys. A client that tracks what it reads has read them at that instant: it will be told of
    /// every change behind it.
    pub(super) fn open(
        server: &Server,
        client: &Session,
        (db, keys): (usize, &[&[u8]]),
        now_ms: u64,
    ) -> Option<Self> {
        let (engine, tracking) = (&server.engine, &server.events.tracking);
        let remembers = client.tracking.mode().remembers_reads();
        for _ in 0..TRIES {
            for key in keys.iter().filter(|_| remembers) {
                let (hashes, mut buf) = ([engine.hash(key)], TxBuf::default());
                let tx = engine.begin(Latched::Hashes(&hashes), &mut buf);
                tracking.remember(key, client.id);
                tx.commit();
            }
            let past = Self::of(server, client, db, now_ms)?;
            // Where a key was changed since, that was told, and forgotten.
            if !remembers || keys.iter().all(|key| tracking.remembers(key, client.id)) {
                return Some(past);
            }
        }
        None
    }

    /// What a key held, a collection in pages as if it lay in one record. `None` for what does not lie in pages, for a string, which shares its
    /// pages with its copies, and for what takes more than so many bytes or has elements that are due on their own.
    pub(super) fn whole(
        &self,
        key: &[u8],
        max_bytes: u64,
    ) -> Result<Option<(Meta, Vec<u8>)>, EngineError> {
        let found = self.snapshot.get(self.db, key)?;
        let Some(found) = found.filter(|found| !found.meta.is_expired(self.now_ms)) else {
            return Ok(None);
        };
        match Paged::of(found.meta, &found.value)? {
            Some(paged) if paged.is_copied_whole(max_bytes) => {
                whole_at(&self.snapshot, self.db, found.meta, &found.value)
            }
            _ => Ok(None),
        }
    }

    /// What a key held, if that is of one of these types: what lies in pages as if it lay in one record.
    ///
    /// # Errors
    /// WRONGTYPE; the snapshot has ended.
    pub(super) fn value(&self, key: &[u8], types: &[ValueType]) -> PastRecord {
        self.whole_value(self.found(key, types)?)
    }

    /// What a record stands for: what lies in pages as if it lay in one record.
    ///
    /// # Errors
    /// The snapshot has ended.
    pub(super) fn whole_value(&self, record: Option<SnapshotValue>) -> PastRecord {
        let Some(mut found) = record else { return Ok(None) };
        if let Some((meta, value)) =
            whole_at(&self.snapshot, self.db, found.meta, &found.value).map_err(snapshot_error)?
        {
            (found.meta, found.value) = (meta, value);
        }
        hide_due_fields(&mut found, self.now_ms);
        Ok((!found.meta.is_expired(self.now_ms)).then_some(found))
    }

    /// The value of a field of a hash: of one in pages only the page of the field is read.
    ///
    /// # Errors
    /// The snapshot has ended.
    pub(super) fn field(
        &self,
        record: Option<SnapshotValue>,
        field: &[u8],
    ) -> Result<Option<Vec<u8>>, CommandError> {
        let Some(mut found) = record else { return Ok(None) };
        let collection = PastCollection::open(&self.snapshot, self.db, found.meta, &found.value);
        let Some(mut collection) = collection.map_err(snapshot_error)? else {
            hide_due_fields(&mut found, self.now_ms);
            let hash = Hashes::view(found.entry());
            return Ok(hash.and_then(|hash| hash.get(field).map(<[u8]>::to_vec)));
        };
        let value = collection.over(|paged, pages| {
            let found = Keyed::open(paged)?.get_due(pages, field)?;
            let left = found.filter(|(_, due_ms)| *due_ms == 0 || *due_ms > self.now_ms);
            Ok(left.map(|(value, _)| value.to_vec()))
        });
        value.map_err(snapshot_error)
    }

    /// What a key held, if that is of one of these types, as it is in its record.
    fn found(&self, key: &[u8], types: &[ValueType]) -> PastRecord {
        let found = self.snapshot.get(self.db, key).map_err(snapshot_error)?;
        self.read(key, found, types)
    }

    /// The same of many keys, in the order of their names, which a disk reads without a seek for each.
    pub(super) fn found_all(
        &self,
        keys: &[&[u8]],
        types: &[ValueType],
    ) -> Result<Vec<PastRecord>, CommandError> {
        let found = self.snapshot.get_many(self.db, keys).map_err(snapshot_error)?;
        let each = std::iter::zip(keys, found);
        Ok(each.map(|(key, found)| self.read(key, found, types)).collect())
    }

    /// This was found for a key.
    fn read(&self, key: &[u8], found: Option<SnapshotValue>, types: &[ValueType]) -> PastRecord {
        self.unchanged.note(self.db, key);
        let is_due = |found: &SnapshotValue| found.meta.is_expired(self.now_ms);
        if found.as_ref().is_some_and(|found| is_due(found) || found.meta.has_due_elements()) {
            self.due.borrow_mut().push(key.to_vec());
        }
        let Some(found) = found.filter(|found| !is_due(found)) else { return Ok(None) };
        let is_one = ValueType::of(found.meta.flags).is_some_and(|found| types.contains(&found));
        is_one.then_some(Some(found)).ok_or(CommandError::WrongType)
    }

    /// This was made of the keys.
    pub(super) fn made<T: Any + Send>(&mut self, value: T) -> Made {
        let (value, unchanged) = (Box::new(value), std::mem::take(&mut self.unchanged));
        Made { value, due: self.due.take(), unchanged, begun: self.begun }
    }

    /// What a key held, if that is of one of these types; and its pages.
    pub(super) fn operand(
        &self,
        key: &[u8],
        types: &[ValueType],
    ) -> Result<(Operand, Option<PastCollection>), CommandError> {
        let found = self.snapshot.get(self.db, key).map_err(snapshot_error)?;
        let Some(found) = found.filter(|found| !found.meta.is_expired(self.now_ms)) else {
            return Ok((Operand::Nothing, None));
        };
        let collection = PastCollection::open(&self.snapshot, self.db, found.meta, &found.value);
        Ok(match collection.map_err(snapshot_error)? {
            Some(collection) => {
                (Operand::of_paged(collection.paged.clone(), types)?, Some(collection))
            }
            None => (Operand::of(Some(found.entry()), types)?, None),
        })
    }
}
