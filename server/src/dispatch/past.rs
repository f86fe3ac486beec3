//! Commands on several keys that take long and only read: they run on a snapshot, on a helper thread, and no latch is held meanwhile.

use super::CommandError;
use super::snapshot_session::{required_by, snapshot_error, snapshot_for};
use crate::keyspace::operand::Operand;
use crate::keyspace::paged::PastCollection;
use crate::server::Server;
use crate::session::Session;
use crate::value::ValueType;
use sexton_engine::{Latched, Seq, Snapshot, TxBuf};

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
    /// The write that a reply waits for (N13).
    pub(super) required: Seq,
}

impl PastKeys {
    /// Opens a snapshot for a client's request that came at `now_ms` and reads these keys of a database. A client that tracks what it reads
    /// has read them at that instant: it will be told of every change behind it. `None`: no snapshot is to be had, and the request must
    /// read the newest state. May block.
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
            let snapshot = snapshot_for(server, ("read", client.id)).ok()?;
            // Where a key was changed since, that was told, and forgotten.
            if !remembers || keys.iter().all(|key| tracking.remembers(key, client.id)) {
                let required = required_by(server, &snapshot);
                return Some(Self { snapshot, db, now_ms, required });
            }
        }
        None
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
