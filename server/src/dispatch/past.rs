//! Commands on several keys that take long and only read: they run on a snapshot, on a helper thread, and no latch is held meanwhile.

use super::after::refuse;
use super::call::{Called, run};
use super::latch::each_key;
use super::snapshot_session::snapshot_error;
use super::{Args, CommandError, CommandSpec, Ctx};
use crate::keyspace::operand::Operand;
use crate::keyspace::paged::PastCollection;
use crate::server::Server;
use crate::session::Session;
use crate::value::ValueType;
use sexton_engine::{Latched, Seq, Snapshot, SnapshotOptions, SyncPolicy, TxBuf};
use std::sync::atomic::Ordering;

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
}

/// The keys of a database as they were at one instant.
#[derive(Debug)]
pub struct PastKeys {
    snapshot: Snapshot,
    db: usize,
    now_ms: u64,
}

impl PastKeys {
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

/// Opens a snapshot for a request. A client that tracks what it reads has read its keys at that instant: it will be told of every change
/// behind it. `None`: none is to be had, and the request must read the newest state. May block.
pub(super) fn open(
    server: &Server,
    client: &Session,
    (spec, args): (&'static CommandSpec, Args<'_>),
) -> Option<Snapshot> {
    let engine = &server.engine;
    let tracking = &server.events.tracking;
    let remembers = client.tracking.mode().remembers_reads();
    for _ in 0..TRIES {
        if remembers {
            each_key(spec, args, |key| {
                let (hashes, mut buf) = ([engine.hash(key)], TxBuf::default());
                let tx = engine.begin(Latched::Hashes(&hashes), &mut buf);
                tracking.remember(key, client.id);
                tx.commit();
            });
        }
        let snapshot = engine.snapshot(SnapshotOptions {
            name: format!("read-{}", client.id),
            timeout_ms: server.settings.snapshot_max_age_s.load(Ordering::Relaxed) * 1000,
        });
        let snapshot = snapshot.ok()?;
        // Where a key was changed since, that was told, and forgotten.
        let mut is_remembered = true;
        if remembers {
            each_key(spec, args, |key| is_remembered &= tracking.remembers(key, client.id));
        }
        if is_remembered {
            return Some(snapshot);
        }
    }
    None
}

/// Runs the handler on a snapshot; returns the write that the reply waits for (N13). May block.
pub(super) fn answer_from_the_past(
    ctx: &mut Ctx<'_, '_>,
    snapshot: Snapshot,
    mark: usize,
) -> (Called, Seq) {
    let (db, now_ms) = (ctx.client.db, ctx.now_ms);
    ctx.changes.begin_command(Some(ctx.client.id));
    let waits = ctx.server.engine.sync_policy() == SyncPolicy::Always;
    let required = if waits { snapshot.seq() } else { 0 };
    ctx.client.past = Past::Open(Box::new(PastKeys { snapshot, db, now_ms }));
    let called = run(ctx, mark);
    ctx.client.past = Past::None;
    let called =
        called.unwrap_or_else(|error| refuse(ctx.server, ctx.client, ctx.out, &error, mark));
    (called, required)
}
