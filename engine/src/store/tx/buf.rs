//! What a transaction has staged for its commit, in reused buffers.

use super::changes::Changes;
use super::journal::Journal;
use super::left_root::LeftRoot;
use super::seen::SeenPages;
use crate::dram::Located;
use crate::key::{HEAD_BYTES, Key, Meta, Slot};
use crate::memtable;
use crate::shared_value::SharedValue;
use crate::store::shard::Unresolved;
use crate::store::wbl::TxWriter;
use std::collections::HashMap;

pub(super) enum Staged {
    /// `len` bytes of `TxBuf::records` from `at`, where there is room for `room`: a record without its sequence.
    Put { at: usize, len: usize, key_len: usize, room: usize },
    /// Engine key of `len` bytes in `TxBuf::records` from `at`, and whether the value had an expiry. It is in a record
    /// of `record_len` bytes, or by itself, which is 0: see [`DeadKeys::stage`](crate::store::paper::DeadKeys::stage).
    Delete { at: usize, len: usize, record_len: usize, had_expiry: bool },
    /// Blocks were changed in place, whose records were put before (E3).
    Edited,
    /// Records of `record_len` bytes each of the pages of a new collection, without their sequence.
    Pages { at: usize, len: usize, record_len: usize },
    /// Prefix of a collection of about `pages` pages with so many bytes, located like the key of `Delete` (E4).
    Bury { at: usize, len: usize, pages: u64, bytes: u64 },
}

impl Staged {
    /// Range of the record to be copied into the arena; empty for a grave, and where there is none.
    pub(super) fn record(&self) -> std::ops::Range<usize> {
        match *self {
            Self::Put { at, len, .. } | Self::Pages { at, len, .. } => at..at + len,
            Self::Delete { at, record_len: 0, .. } | Self::Bury { at, .. } => at..at,
            Self::Delete { at, record_len, .. } => {
                let from = at - memtable::HEADER_BYTES;
                from..from + record_len
            }
            Self::Edited => 0..0,
        }
    }
}

pub(super) struct Operation {
    pub(super) hash: u64,
    pub(super) staged: Staged,
    /// It belongs to the operation behind it, and has the sequence of that: pages of a collection.
    pub(super) shares_seq: bool,
}

/// Reusable buffers of a transaction, one a worker thread.
#[derive(Default)]
pub struct TxBuf {
    pub(super) records: Vec<u8>,
    pub(super) operations: Vec<Operation>,
    /// Hash of a key -> its last operation among the first `indexed` ones; filled when a read misses.
    last_operation: HashMap<u64, usize>,
    indexed: usize,
    pub(super) deletes: usize,
    /// Those of `operations` that take no sequence of their own.
    pub(super) sharing: usize,
    /// Operations that have no entry in `operations`, since the record of an earlier one says what they did.
    pub(super) merged: usize,
    /// The values that staged records refer to.
    pub(super) shared: Vec<SharedValue>,
    /// What those hold together.
    pub(super) shared_bytes: usize,
    /// What an operation makes of pages. They name blocks that the edits of the journal hold.
    pub(super) changes: Changes,
    /// The key that was found last.
    pub(super) located: Option<LocatedKey>,
    /// Its root, if it is that of a collection that an operation has just changed.
    pub(super) left: Option<LeftRoot>,
    /// Where the pages are that operations have looked at.
    pub(super) seen: SeenPages,
    pub(super) unresolved: Vec<(usize, Unresolved)>,
    pub(super) log: Vec<u8>,
    /// Database of the first logged command, and the one selected at the end of `log`.
    pub(super) log_dbs: Option<(u32, u32)>,
    pub(super) shards: Vec<usize>,
    /// What the writes so far have replaced.
    pub(super) journal: Journal,
    /// Way into the pool, with `persistence-mode wbl`; kept from commit to commit, and in one place.
    pub(in crate::store) writer: Option<Box<TxWriter>>,
    /// Commits leave the fence to [`crate::Engine::end_batch`].
    pub(super) defers_fence: bool,
}

/// A key that was found, and where.
pub(super) struct LocatedKey {
    pub(super) hash: u64,
    /// Its slot, and where its bytes are while the transaction runs that has found it.
    own: Option<(Slot, usize, usize)>,
    pub(super) at: Located,
}

impl LocatedKey {
    pub(super) fn new(key: Key<'_>, at: Located) -> Self {
        Self { hash: key.hash, own: Some(Self::bytes_of(key)), at }
    }

    fn bytes_of(key: Key<'_>) -> (Slot, usize, usize) {
        (key.slot, key.bytes.as_ptr() as usize, key.bytes.len())
    }

    /// True of the key that the transaction has found: it has the same hash, and its bytes are in the same place. Bytes that have
    /// replaced those have another hash.
    #[inline]
    pub(super) fn is_of(&self, key: Key<'_>) -> bool {
        self.own == Some(Self::bytes_of(key)) && self.hash == key.hash
    }

    /// The same key has its bytes here, too. False where this transaction has not found it.
    #[inline]
    pub(super) fn is_also(&mut self, key: Key<'_>) -> bool {
        let now = Self::bytes_of(key);
        let is_it =
            self.hash == key.hash && self.own.is_some_and(|own| (own.0, own.2) == (now.0, now.2));
        if is_it {
            self.own = Some(now);
        }
        is_it
    }

    /// The transaction is over: the bytes may be those of another key.
    #[inline]
    pub(super) fn end(&mut self) {
        self.own = None;
    }
}

/// A key that is put again is looked up among this many operations before it.
const MERGE_REACH: usize = 8;

/// Buffers above this are given back after a transaction with large values.
const BUF_KEEP_BYTES: usize = 1 << 20;

impl TxBuf {
    /// A buffer whose owner calls [`crate::Engine::end_batch`] on its own thread after every batch of
    /// commits, and before anybody is told of them: with `persistence-mode wbl` they share one fence.
    #[must_use]
    pub fn fencing_by_batch() -> Self {
        Self { defers_fence: true, ..Self::default() }
    }

    /// True when nothing is left in it of a transaction.
    #[inline]
    pub(super) fn is_clean(&self) -> bool {
        self.operations.is_empty()
            && self.records.is_empty()
            && self.log.is_empty()
            && self.log_dbs.is_none()
            && self.unresolved.is_empty()
            && self.journal.is_empty()
            && self.left.is_none()
    }

    pub(super) fn reset(&mut self) {
        self.records.clear();
        self.forget_operations();
        self.unresolved.clear();
        self.forget_log();
    }

    /// Encodes the record of a put, without its sequence.
    pub(super) fn stage_value(
        &mut self,
        (head, key): (&[u8; HEAD_BYTES], &[u8]),
        meta: Meta,
        value: &[u8],
    ) -> Staged {
        let at = self.records.len();
        let len = memtable::append(&mut self.records, meta, (head, key), value);
        Staged::Put { at, len, key_len: HEAD_BYTES + key.len(), room: len }
    }

    /// The same for a value that the DRAM table shares.
    pub(super) fn stage_shared(
        &mut self,
        (head, key): (&[u8; HEAD_BYTES], &[u8]),
        meta: Meta,
        value: SharedValue,
    ) -> Staged {
        self.shared_bytes += value.held_bytes();
        self.stage_again((head, key), meta, value)
    }

    /// The same for a value of which this memtable has a record already, and therefore its bytes.
    pub(super) fn stage_again(
        &mut self,
        (head, key): (&[u8; HEAD_BYTES], &[u8]),
        meta: Meta,
        value: SharedValue,
    ) -> Staged {
        let at = self.records.len();
        let len = memtable::append_shared(&mut self.records, meta, (head, key), &value);
        self.shared.push(value);
        Staged::Put { at, len, key_len: HEAD_BYTES + key.len(), room: len }
    }

    /// Forgets what was logged.
    pub(super) fn forget_log(&mut self) {
        self.log.clear();
        self.log_dbs = None;
    }

    /// Gives large buffers back: the next transaction may be long in coming.
    #[inline]
    pub(super) fn give_back(&mut self) {
        self.changes.give_back();
        for buf in [&mut self.records, &mut self.log] {
            if buf.capacity() > BUF_KEEP_BYTES {
                *buf = Vec::new();
            }
        }
    }

    pub(super) fn forget_operations(&mut self) {
        self.operations.clear();
        self.changes.clear();
        self.left = None;
        self.journal.reset(BUF_KEEP_BYTES);
        if self.indexed > 0 {
            self.last_operation.clear();
            self.indexed = 0;
        }
        self.deletes = 0;
        self.sharing = 0;
        self.merged = 0;
        self.shared.clear();
        self.shared_bytes = 0;
    }

    /// True when blocks were changed in place.
    pub(super) fn edits_in_place(&self) -> bool {
        self.journal.edits.len() > 0
    }

    /// Sequences that the staged operations take.
    pub(super) fn sequences(&self) -> usize {
        self.operations.len() - self.sharing + self.merged
    }

    /// Puts another value into the record of a key that was put before in this transaction, among its last few operations,
    /// and not changed otherwise since; false if there is none. So what a script or EXEC does to one key again and again
    /// is staged once, and the journal has what was before the first put. The operation counts, and takes a sequence, which
    /// stays without a record: a replay of the log makes as many.
    pub(super) fn merge_put(
        &mut self,
        hash: u64,
        key: (&[u8; HEAD_BYTES], &[u8]),
        meta: Meta,
        value: &[u8],
    ) -> bool {
        // Staged pages belong to an operation that is still to come.
        if self.operations.last().is_none_or(|last| last.shares_seq) {
            return false;
        }
        let near = self.operations.len().saturating_sub(MERGE_REACH);
        let same = |operation: &Operation| operation.hash == hash && !operation.shares_seq;
        let Some(index) = self.operations[near..].iter().rposition(same).map(|at| near + at) else {
            return false;
        };
        if !self.journal.has_value(index) || !self.is_put_of(index, key) {
            return false;
        }
        self.rewrite(index, key, meta, value);
        self.merged += 1;
        true
    }

    /// True when this operation puts a value of this key.
    fn is_put_of(&self, index: usize, (head, key): (&[u8; HEAD_BYTES], &[u8])) -> bool {
        let Staged::Put { at, key_len, .. } = self.operations[index].staged else { return false };
        self.records[at + memtable::HEADER_BYTES..][..key_len].strip_prefix(head) == Some(key)
    }

    /// Another value in the record of a staged put.
    fn rewrite(&mut self, index: usize, key: (&[u8; HEAD_BYTES], &[u8]), meta: Meta, value: &[u8]) {
        let Staged::Put { at, len, key_len, room } = &mut self.operations[index].staged else {
            return;
        };
        *len = memtable::encoded_len(*key_len, value.len());
        if *len > *room {
            // What is written again mostly grows by little. The last record grows where it is.
            let is_last = *at + *room == self.records.len();
            *room = *len + *len / 2;
            if !is_last {
                *at = self.records.len();
            }
            self.records.resize(*at + *room, 0);
        }
        memtable::encode(&mut self.records[*at..*at + *len], 0, meta, (key.0, key.1), value);
    }

    /// True when the last staged operation on this engine key is a delete. Its grave opens with the
    /// commit only, so until then neither cemetery nor tree know that the key is dead.
    pub(super) fn is_deleted(&mut self, hash: u64, head: &[u8], key: &[u8]) -> bool {
        for (i, operation) in self.operations.iter().enumerate().skip(self.indexed) {
            self.last_operation.insert(operation.hash, i);
        }
        self.indexed = self.operations.len();
        let Some(&last) = self.last_operation.get(&hash) else { return false };
        // Going back from the last one with this hash is needed only for keys that share it.
        self.operations[..=last]
            .iter()
            .rev()
            .filter(|operation| operation.hash == hash)
            .find_map(|operation| {
                let (staged, is_delete) = match operation.staged {
                    // A page of a new collection is in memory.
                    Staged::Edited | Staged::Pages { .. } => return None,
                    Staged::Delete { at, len, .. } | Staged::Bury { at, len, .. } => {
                        (&self.records[at..at + len], true)
                    }
                    Staged::Put { at, key_len, .. } => {
                        (&self.records[at + memtable::HEADER_BYTES..][..key_len], false)
                    }
                };
                (staged.strip_prefix(head) == Some(key)).then_some(is_delete)
            })
            .unwrap_or(false)
    }
}
