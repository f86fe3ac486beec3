//! Long replies: the elements of a large collection, answered piece by piece (N18).
//!
//! A worker that meets a request for them hands it to a helper thread, which opens a snapshot. The handler runs once for each
//! piece, on the pages of the snapshot that the piece needs. The next piece follows when the client has received most of the one before.
//! So neither the collection nor its reply is ever in memory as a whole, no other client waits, and the reply shows one instant
//! however long it takes.
//!
//! In a transaction, in a script and in a snapshot session a reply is written at once, within the bounds of memory.

use super::after::refuse;
use super::call::{Called, call_for_piece, run_guarded};
use super::client::{Client, PackedRequest};
use super::executor::Executor;
use super::snapshot_session::snapshot_error;
use super::{Args, CommandError, CommandResult, CommandSpec, Ctx};
use crate::keyspace::paged::{Extent, InPieces, Paged, PastCollection, Structure};
use crate::resp::{Reply, pack};
use crate::server::Server;
use sexton_engine::{EngineError, Seq, SnapshotOptions, SyncPolicy};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// A longer reply is written in pieces. Shorter ones take a worker a few milliseconds.
const WHOLE_MAX_BYTES: u64 = 1 << 20;

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
    spec: &'static CommandSpec,
    request: PackedRequest,
    /// When the request came.
    now_ms: u64,
    /// The write that the reply waits for (N13).
    required: Seq,
    /// Positions that are not written yet; `None` before the first piece.
    left: Option<Range<u64>>,
}

impl OpenReply {
    /// Opens a snapshot for a request; `None` if its key holds no collection in pages by now. May block.
    ///
    /// # Errors
    /// There are too many snapshots, or the key cannot be read.
    pub(super) fn open(
        server: &Server,
        client: &Client,
        spec: &'static CommandSpec,
        args: Args<'_>,
        now_ms: u64,
    ) -> Result<Option<Self>, EngineError> {
        let (engine, db) = (&server.engine, client.db);
        let options = SnapshotOptions {
            name: format!("reply-{}", client.id),
            timeout_ms: server.settings.snapshot_max_age_s.load(Ordering::Relaxed) * 1000,
        };
        let snapshot = engine.snapshot(options)?;
        let Some(found) = snapshot.get(db, args.get(spec.keys.first))? else { return Ok(None) };
        if found.meta.is_expired(now_ms) {
            return Ok(None);
        }
        let waits = engine.sync_policy() == SyncPolicy::Always;
        let required = if waits { snapshot.seq() } else { 0 };
        let collection = PastCollection::open(&snapshot, db, found.meta, &found.value)?;
        let request = pack(args.from(0));
        Ok(collection.map(|collection| {
            let left = None;
            Self { collection, spec, request, now_ms, required, left }
        }))
    }

    /// Writes a piece; true if it was the last one.
    fn write_piece<S: Structure>(
        &mut self,
        answer: &impl InPieces<S>,
        out: &mut Reply,
    ) -> Result<bool, EngineError> {
        let begun = out.len();
        loop {
            let (mark, was_left) = (out.len(), self.left.take());
            let left = self.collection.over(|paged, pages| {
                out.truncate(mark);
                let structure = S::open(paged)?;
                let left = match was_left.clone() {
                    Some(left) => left,
                    None => answer.begin(&structure, pages, out)?,
                };
                let whole = Extent::of(paged, answer.positions(&structure));
                let (part, left) = split(left, whole.step(), answer.is_descending());
                answer.write(&structure, pages, part, out)?;
                Ok(left)
            })?;
            self.collection.forget_pages();
            let is_last = left.is_empty();
            self.left = Some(left);
            if is_last || out.len() - begun >= PIECE_BYTES {
                return Ok(is_last);
            }
        }
    }
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

impl Ctx<'_, '_> {
    /// Answers elements of a collection in pages: at once, or in pieces if that would be long.
    ///
    /// # Errors
    /// The snapshot of a long reply has ended.
    pub fn answer_in_pieces<S: Structure>(
        &mut self,
        key: &[u8],
        paged: &Paged,
        answer: &impl InPieces<S>,
    ) -> CommandResult {
        if let LongReply::Open(open) = &mut self.client.long_reply {
            let is_last = open.write_piece(answer, self.out).map_err(snapshot_error)?;
            if is_last {
                self.client.long_reply = LongReply::None;
            }
            return Ok(());
        }
        let may_be_long = self.client.may_miss && !self.client.reply_mode.is_muted();
        let is_long = self.read_pages(key, paged, |structure: &S, pages, out| {
            let all = answer.begin(structure, pages, out)?;
            let whole = Extent::of(paged, answer.positions(structure));
            if may_be_long && whole.bytes_of(all.end - all.start) > WHOLE_MAX_BYTES {
                return Ok(true);
            }
            answer.write(structure, pages, all, out)?;
            Ok(false)
        });
        if is_long {
            self.client.long_reply = LongReply::Wanted;
        }
        Ok(())
    }
}

/// Runs the handler for the first piece of a long reply; returns the write that the reply waits for.
pub(super) fn answer_long(
    ctx: &mut Ctx<'_, '_>,
    long: Result<OpenReply, EngineError>,
    mark: usize,
) -> (Called, Seq) {
    let required = long.as_ref().map_or(0, |open| open.required);
    // The reply as a whole is not bounded.
    ctx.out.limit(u64::MAX);
    let called = long.map_err(snapshot_error).and_then(|open| {
        ctx.client.long_reply = LongReply::Open(Box::new(open));
        call_for_piece(ctx, mark)
    });
    let called =
        called.unwrap_or_else(|error| refuse(ctx.server, ctx.client, ctx.out, &error, mark));
    if called.failed {
        ctx.client.long_reply = LongReply::None;
    }
    (called, required)
}

impl Executor {
    /// Writes the next piece of a client's long reply; returns the write that it waits for. Where the piece cannot be had, the
    /// connection is to be closed: what was sent cannot be taken back. May block.
    pub fn go_on(&mut self, server: &Server, client: &mut Client, out: &mut Reply) -> Seq {
        let LongReply::Open(open) = &mut client.long_reply else { return 0 };
        let (spec, now_ms, required) = (open.spec, open.now_ms, open.required);
        let (bytes, ranges) = std::mem::take(&mut open.request);
        let (table, mark, changes) = (self.table, out.len(), &mut self.changes);
        let args = Args::new(&bytes, &ranges);
        let mut ctx = Ctx { server, client, table, args, spec, out, tx: None, changes, now_ms };
        let failed = run_guarded(&mut ctx).and_then(|result| result).err();
        if let LongReply::Open(open) = &mut client.long_reply {
            open.request = (bytes, ranges);
        }
        if let Some(error) = failed {
            self.fail(server, client, (out, mark), &error);
        }
        required
    }

    fn fail(
        &self,
        server: &Server,
        client: &mut Client,
        (out, mark): (&mut Reply, usize),
        error: &CommandError,
    ) {
        let error = error.bytes();
        server.observe.traffic.count_error(&error);
        crate::log::warning(&format!(
            "A long reply to client {} could not be finished, its connection is closed: {}",
            client.id,
            String::from_utf8_lossy(&error)
        ));
        out.truncate(mark);
        client.long_reply = LongReply::None;
        client.closing = true;
    }
}
