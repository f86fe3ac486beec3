//! The view of a connection that reads a snapshot: one instant, including the clock.
//!
//! Its commands run on helper threads, because each of them may read from a device. The values of a
//! command's keys are fetched beforehand, bypassing the DRAM table (N10). The command then reads them through
//! [`Ctx::inspect`], as it reads the newest values.

use super::{CommandError, OUT_OF_MEMORY};
use crate::keyspace::collection::{Edit, HashView};
use crate::keyspace::paged::whole_at;
use crate::server::Server;
use sexton_engine::{
    EngineError, Entry, IterOptions, ScanItem, ScanRange, Seq, Snapshot, SnapshotOptions,
    SnapshotValue, SyncPolicy,
};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Number of keys that are fetched before their size is checked.
const FETCHED_TOGETHER: usize = 16;

/// The open snapshot of a connection.
#[derive(Debug)]
pub struct SnapshotSession {
    snapshot: Snapshot,
    /// The time of the snapshot, in milliseconds since the epoch: what was due then is absent.
    opened_ms: u64,
    /// The keys of the command that runs.
    values: HashMap<Vec<u8>, Option<SnapshotValue>>,
    /// Number of keys of the databases that were counted.
    counts: HashMap<usize, u64>,
}

impl SnapshotSession {
    pub(crate) fn new(snapshot: Snapshot, opened_ms: u64) -> Self {
        Self { snapshot, opened_ms, values: HashMap::new(), counts: HashMap::new() }
    }

    /// The snapshot.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The instant that the connection lives in, in milliseconds since the epoch.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.opened_ms
    }

    /// Fetches the keys of a command; fails once their values total `max_bytes`. May block.
    pub(crate) fn fetch<'k>(
        &mut self,
        db: usize,
        keys: impl Iterator<Item = &'k [u8]>,
        max_bytes: u64,
    ) -> Result<(), CommandError> {
        let keys: Vec<&[u8]> = keys.collect();
        self.values.clear();
        let mut left_bytes = max_bytes;
        for keys in keys.chunks(FETCHED_TOGETHER) {
            if left_bytes == 0 {
                return Err(CommandError::text(OUT_OF_MEMORY));
            }
            let mut values = self.snapshot.get_many(db, keys).map_err(snapshot_error)?;
            for found in values.iter_mut().flatten() {
                let whole = whole_at(&self.snapshot, db, found.meta, &found.value);
                if let Some((meta, value)) = whole.map_err(snapshot_error)? {
                    (found.meta, found.value) = (meta, value);
                }
                hide_due_fields(found, self.opened_ms);
            }
            let bytes: usize = values.iter().flatten().map(|value| value.value.len()).sum();
            left_bytes = left_bytes.saturating_sub(bytes as u64);
            self.values.extend(keys.iter().map(|key| key.to_vec()).zip(values));
        }
        Ok(())
    }

    /// Releases the values fetched for a finished command, which may be any amount.
    pub(crate) fn release(&mut self) {
        self.values = HashMap::new();
    }

    /// True while values of a command's keys are held.
    #[cfg(test)]
    pub(crate) fn holds_values(&self) -> bool {
        !self.values.is_empty()
    }

    /// A key that was fetched, unless it was due then.
    pub(crate) fn entry(&self, key: &[u8]) -> Option<Entry<'_>> {
        let value =
            self.values.get(key).expect("the dispatcher fetches keys before a command runs");
        let value = value.as_ref().filter(|value| !value.meta.is_expired(self.opened_ms));
        value.map(SnapshotValue::entry)
    }

    /// Passes the unexpired keys of a range to `visit`, without their values, until it returns false.
    pub(crate) fn walk(
        &self,
        range: &ScanRange,
        visit: &mut dyn FnMut(ScanItem) -> bool,
    ) -> Result<(), CommandError> {
        let options = IterOptions {
            db: range.db,
            prefix: range.prefix.clone(),
            keys_only: true,
            hide_due_ms: self.opened_ms,
            ..IterOptions::default()
        };
        let mut iter = self.snapshot.iter(&options).map_err(snapshot_error)?;
        let mut from = range.from.clone();
        if range.after {
            from.push(0);
        }
        iter.seek(&from).map_err(snapshot_error)?;
        while iter.valid() {
            let (key, meta) = (iter.key().to_vec(), iter.meta());
            if !visit(ScanItem { key, meta, value: Vec::new() }) {
                break;
            }
            iter.next().map_err(snapshot_error)?;
        }
        Ok(())
    }

    /// A random key, as RANDOMKEY draws it.
    pub(crate) fn random_key(
        &self,
        db: usize,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, CommandError> {
        self.snapshot.random_key(db, self.opened_ms, random).map_err(snapshot_error)
    }

    /// Number of keys, including expired ones that were not deleted yet. Walks over all of them the
    /// first time.
    pub(crate) fn count(&mut self, db: usize) -> Result<u64, CommandError> {
        if let Some(&keys) = self.counts.get(&db) {
            return Ok(keys);
        }
        let options = IterOptions { db, keys_only: true, ..IterOptions::default() };
        let mut iter = self.snapshot.iter(&options).map_err(snapshot_error)?;
        let mut keys = 0;
        iter.seek_to_first().map_err(snapshot_error)?;
        while iter.valid() {
            keys += 1;
            iter.next().map_err(snapshot_error)?;
        }
        self.counts.insert(db, keys);
        Ok(keys)
    }
}

/// Hides expired fields; if all have expired, the key is marked as expired itself.
pub(super) fn hide_due_fields(found: &mut SnapshotValue, now_ms: u64) {
    if found.meta.is_expired(now_ms) || !found.meta.is_due(&found.value, now_ms) {
        return;
    }
    let Some(hash) = HashView::of(found.meta, &found.value) else { return };
    let (_, left) = hash.without_due(now_ms);
    let expire_at_ms = if left.is_empty() { now_ms } else { found.meta.expire_at_ms };
    (found.meta, found.value) = (left.meta(expire_at_ms), left.bytes().to_vec());
}

/// Opens a snapshot for one request of a client.
pub(super) fn snapshot_for(
    server: &Server,
    (what, client): (&str, u64),
) -> Result<Snapshot, EngineError> {
    server.engine.snapshot(SnapshotOptions {
        name: format!("{what}-{client}"),
        timeout_ms: server.settings.snapshot_max_age_s.load(Ordering::Relaxed) * 1000,
    })
}

/// The write that a reply from a snapshot waits for (N13); 0 for none.
pub(super) fn required_by(server: &Server, snapshot: &Snapshot) -> Seq {
    let waits = server.engine.sync_policy() == SyncPolicy::Always;
    if waits { snapshot.seq() } else { 0 }
}

pub(crate) fn snapshot_error(error: EngineError) -> CommandError {
    match error {
        EngineError::SnapshotEnded { .. }
        | EngineError::SnapshotExpired { .. }
        | EngineError::SnapshotRefused { .. }
        | EngineError::UndoFull { .. } => format!("SNAPSHOT {error}").into(),
        error => format!("ERR storage: {error}").into(),
    }
}
