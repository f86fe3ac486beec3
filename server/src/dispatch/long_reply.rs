//! Long replies: the elements of a large collection, answered piece by piece (N18).
//!
//! A worker that meets a request for them hands it to a helper thread, which opens a snapshot (a string that is in memory is held there
//! instead, block by block). The handler runs once for each
//! piece, on the pages of the snapshot that the piece needs. The next piece follows when the client has received most of the one before.
//! So neither the collection nor its reply is ever in memory as a whole, no other client waits, and the reply shows one instant
//! however long it takes.
//!
//! A command that goes through many bytes of a string, and only reads them, has it held in the same way (BITCOUNT, BITPOS): its reply is
//! short, but no latch is held while it counts.
//!
//! In a transaction, in a script and in a snapshot session a reply is written at once, within the bounds of memory.

use super::snapshot_session::{required_by, snapshot_for};
use crate::client_memory::load_max_bytes;
use crate::keyspace::paged::{Extent, InPieces, Paged, PastCollection, Structure};
use crate::resp::{PackedRequest, Reply};
use crate::server::Server;
use crate::session::Session;
use crate::value::ValueType;
use sexton_engine::{EngineError, Found, Key, Latched, Seq, SyncPolicy, TxBuf};
use std::ops::Range;

/// Approximate size of a piece. The next one is prepared while fewer bytes than this are unsent.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// How the reply to the current request leaves.
#[derive(Debug, Default)]
pub enum LongReply {
    /// At once.
    #[default]
    None,
    /// In pieces: the request belongs on a helper thread.
    Wanted,
    /// In pieces, not all of which are written.
    Open(Box<OpenReply>),
}

impl LongReply {
    /// True if the request belongs on a helper thread.
    #[inline]
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        matches!(self, Self::Wanted)
    }

    /// True while pieces are left.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// True if the next piece is in memory: any thread may write it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Open(open) if open.collection.is_held())
    }

    /// The collection that is being answered.
    pub(super) fn collection(&self) -> Option<&Paged> {
        match self {
            Self::Open(open) => Some(&open.collection.paged),
            Self::None | Self::Wanted => None,
        }
    }
}

/// A reply whose pieces are being written.
#[derive(Debug)]
pub struct OpenReply {
    collection: PastCollection,
    /// The request, for the handler of the next piece.
    pub(super) request: PackedRequest,
    /// When the request came.
    pub(super) now_ms: u64,
    /// The write that the reply waits for (N13).
    pub(super) required: Seq,
    /// Positions that are not written yet; `None` before the first piece.
    left: Option<Range<u64>>,
}

impl OpenReply {
    /// What is answered.
    pub(super) fn collection(&mut self) -> &mut PastCollection {
        &mut self.collection
    }

    /// Opens a snapshot for a client's request to a database, or holds a string that is in memory; `None` if its key holds no collection
    /// in pages by now. May block.
    ///
    /// # Errors
    /// There are too many snapshots, or the key cannot be read.
    pub(super) fn open(
        server: &Server,
        (client, db): (&Session, usize),
        (key, request): (&[u8], PackedRequest),
        now_ms: u64,
    ) -> Result<Option<Self>, EngineError> {
        let engine = &server.engine;
        if let Some(collection) = hold(server, client, (db, key), now_ms) {
            let waits = engine.sync_policy() == SyncPolicy::Always;
            let (required, left) = (if waits { engine.last_seq() } else { 0 }, None);
            return Ok(Some(Self { collection, request, now_ms, required, left }));
        }
        let snapshot = snapshot_for(server, ("reply", client.id))?;
        let Some(found) = snapshot.get(db, key)? else { return Ok(None) };
        if found.meta.is_expired(now_ms) {
            return Ok(None);
        }
        let required = required_by(server, &snapshot);
        let collection = PastCollection::open(&snapshot, db, found.meta, &found.value)?;
        Ok(collection.map(|collection| {
            let left = None;
            Self { collection, request, now_ms, required, left }
        }))
    }

    /// Counts the elements whose number must be known before they are written; few of them are in memory together.
    fn count<S: Structure>(&mut self, answer: &impl InPieces<S>) -> Result<u64, EngineError> {
        let (mut left, step) = self.collection.over(|paged, pages| {
            let structure = S::open(paged)?;
            let whole = Extent::of(paged, answer.positions(&structure));
            Ok((answer.uncounted(&structure, pages)?, whole.step()))
        })?;
        let mut counted = 0;
        while !left.is_empty() {
            let (part, others) = split(left, step, false);
            counted += self
                .collection
                .over(|paged, pages| answer.count(&S::open(paged)?, pages, part.clone()))?;
            left = others;
        }
        Ok(counted)
    }

    /// Writes a piece; true if it was the last one.
    ///
    /// # Errors
    /// The snapshot has ended, or pages cannot be read.
    pub(super) fn write_piece<S: Structure>(
        &mut self,
        answer: &impl InPieces<S>,
        out: &mut Reply,
    ) -> Result<bool, EngineError> {
        let begun = out.len();
        let counted = if self.left.is_none() { self.count(answer)? } else { 0 };
        loop {
            let (mark, was_left) = (out.len(), self.left.take());
            let left = self.collection.over(|paged, pages| {
                out.truncate(mark);
                let structure = S::open(paged)?;
                let left = match was_left.clone() {
                    Some(left) => left,
                    None => answer.begin(&structure, pages, counted, out)?,
                };
                let whole = Extent::of(paged, answer.positions(&structure));
                let (part, left) = split(left, whole.step(), answer.is_descending());
                answer.write(&structure, pages, part, out)?;
                Ok(left)
            })?;
            let is_last = left.is_empty();
            self.left = Some(left);
            if is_last || out.len() - begun >= PIECE_BYTES {
                return Ok(is_last);
            }
        }
    }
}

/// The string in pages of a key, where it is in memory and no longer than a request may load: others may change the key meanwhile, and
/// memory would be needed for both.
///
/// The client has read the key now: what has changed it since its request was looked at first was told to it, and is forgotten.
fn hold(
    server: &Server,
    client: &Session,
    (db, bytes): (usize, &[u8]),
    now_ms: u64,
) -> Option<PastCollection> {
    let engine = &server.engine;
    let key = Key { slot: engine.slot_of(db), bytes, hash: engine.hash(bytes) };
    // What was written lately is not copied then.
    engine.settle_pages();
    let (hashes, mut buf) = ([key.hash], TxBuf::default());
    let occupied = server.running_scripts.occupied();
    let latched = Latched::Hashes(&hashes);
    let remembers = client.tracking.mode().remembers_reads();
    let mut tx = if remembers {
        let tx = engine.begin(latched, &mut buf);
        server.events.tracking.remember(bytes, client.id);
        tx
    } else {
        engine.begin_unless(latched, occupied, &mut buf)?
    };
    let Found::Live(entry) = tx.find(key) else { return None };
    let paged = Paged::of_entry(entry).ok()??;
    let is_held = paged.value_type() == Some(ValueType::String)
        && !paged.meta.is_expired(now_ms)
        && paged.descriptor.totals.bytes <= load_max_bytes(server);
    let held = if is_held { PastCollection::hold(&mut tx, key, paged) } else { None };
    tx.commit();
    held
}

/// The first `count` positions in the order of the reply, and the others.
fn split(left: Range<u64>, count: u64, is_descending: bool) -> (Range<u64>, Range<u64>) {
    let count = count.min(left.end - left.start);
    if is_descending {
        (left.end - count..left.end, left.start..left.end - count)
    } else {
        (left.start..left.start + count, left.start + count..left.end)
    }
}
