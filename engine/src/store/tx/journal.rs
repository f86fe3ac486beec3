//! Undo journal of a transaction: what its writes have replaced, to take them back before they are committed.
//!
//! A write hands over what it finds, so that nothing is looked up twice: a value in a cell of the DRAM table is copied,
//! and a large one is moved here with its memory. The keys are those of the staged operations, one for each state.

use super::Tx;
use super::buf::{Operation, Staged};
use super::edits::Edits;
use crate::dram::{Displaced, Replaced, Table};
use crate::key::{self, Key, Meta, Slot};
use crate::memtable;
use crate::shared_value::{SharedValue, Value};
use crate::store::namespace::HEAD_BYTES;
use crate::store::page_key::cid_of;
use crate::store::read::load::LoadState;
use crate::store::shard::Count;

/// A value that was replaced.
enum OldValue {
    /// `len` bytes of the journal from `at` on.
    Copied {
        at: usize,
        len: usize,
    },
    Block(Displaced),
    Shared(SharedValue),
}

/// What a key had.
enum Old {
    /// No entry in the DRAM table.
    Nothing,
    /// The operation changes no entry.
    Untouched,
    /// Blocks were changed in place: the edits from this one on.
    Edits(usize),
    /// The pages of this collection were in the shard of this hash.
    Renamed(u64, u64),
    /// This collection was not there.
    Entered(u64),
    /// Other flags, expiry and generation, and the value that it has now.
    Meta(Meta, u8),
    /// Flags and expiry, generation, access field, value.
    Entry(Meta, u8, u32, OldValue),
}

/// The state of one key before one write of this transaction.
struct OldState {
    slot: Slot,
    old: Old,
    /// The counts of its namespace in its shard.
    count: Count,
}

/// The states before each write, in order.
#[derive(Default)]
pub(super) struct Journal {
    states: Vec<OldState>,
    bytes: Vec<u8>,
    /// What was changed in place.
    pub(super) edits: Edits,
    /// Loads that writes have overtaken: which of `states`, and what was known of the key. Almost always empty.
    overtaken: Vec<(usize, LoadState)>,
}

impl Journal {
    /// True without anything to take back.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.states.is_empty() && self.edits.len() == 0
    }

    /// Forgets all states; gives a buffer of more than `keep_bytes` back.
    pub(super) fn reset(&mut self, keep_bytes: usize) {
        self.states.clear();
        self.bytes.clear();
        self.overtaken.clear();
        self.edits.reset(keep_bytes);
        if self.bytes.capacity() > keep_bytes {
            self.bytes = Vec::new();
        }
    }

    /// A write of this transaction replaces `replaced`; `count` was before it.
    #[inline]
    pub(super) fn note(&mut self, slot: Slot, count: Count, replaced: Replaced<'_>) {
        let old = match replaced {
            Replaced::Nothing => Old::Nothing,
            Replaced::Entry(entry) => {
                let value = match entry.shared() {
                    Some(shared) => OldValue::Shared(shared),
                    None => {
                        let (at, value) = (self.bytes.len(), entry.value());
                        self.bytes.extend_from_slice(value);
                        OldValue::Copied { at, len: value.len() }
                    }
                };
                Old::Entry(entry.meta(), entry.generation(), entry.access(), value)
            }
            Replaced::Block(block) => {
                let (meta, generation, access) = (block.meta(), block.generation(), block.access());
                Old::Entry(meta, generation, access, OldValue::Block(block))
            }
        };
        self.states.push(OldState { slot, old, count });
    }

    /// A write of this transaction changes flags and expiry only.
    pub(super) fn note_meta(&mut self, slot: Slot, count: Count, meta: Meta, generation: u8) {
        self.states.push(OldState { slot, old: Old::Meta(meta, generation), count });
    }

    /// A write of this transaction changes nothing in memory.
    pub(super) fn note_nothing(&mut self, slot: Slot, count: Count) {
        self.states.push(OldState { slot, old: Old::Untouched, count });
    }

    /// A write of this transaction has changed blocks in place: all edits but the first `before`.
    pub(super) fn note_edits(&mut self, slot: Slot, count: Count, before: usize) {
        self.states.push(OldState { slot, old: Old::Edits(before), count });
    }

    /// A write of this transaction has given a collection, whose root had the hash `from`, another key.
    pub(super) fn note_renamed(&mut self, slot: Slot, count: Count, (cid, from): (u64, u64)) {
        self.states.push(OldState { slot, old: Old::Renamed(cid, from), count });
    }

    /// A write of this transaction has put a new collection, whose pages were made ready before.
    pub(super) fn note_entered(&mut self, slot: Slot, count: Count, cid: u64) {
        self.states.push(OldState { slot, old: Old::Entered(cid), count });
    }

    /// The write that was noted last has taken this state from a load of its key (N10).
    #[inline]
    pub(super) fn note_overtaken(&mut self, state: Option<LoadState>) {
        if let Some(state) = state {
            self.overtaken.push((self.states.len().saturating_sub(1), state));
        }
    }

    /// True when the state before this operation has the key's value: it need not be noted before a further put.
    pub(super) fn has_value(&self, operation: usize) -> bool {
        let old = self.states.get(operation).map(|state| &state.old);
        matches!(old, Some(Old::Nothing | Old::Entry(..)))
    }

    /// True when it has the state before each of `operations` staged operations and of nothing else: a write that panicked
    /// half-way is in the journal but not staged.
    pub(super) fn is_whole(&self, operations: usize) -> bool {
        self.states.len() == operations
    }

    /// Bytes that were copied.
    #[cfg(test)]
    pub(super) fn copied_bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl Old {
    fn bring_back(&self, table: &mut Table, key: Key<'_>, bytes: &[u8]) {
        match self {
            Self::Untouched | Self::Edits(_) | Self::Renamed(..) | Self::Entered(_) => {}
            Self::Nothing => {
                table.remove(key);
            }
            Self::Meta(meta, generation) => {
                table.set_meta((key, None), *meta, *generation);
            }
            Self::Entry(meta, generation, access, value) => {
                let value = match value {
                    OldValue::Copied { at, len } => Value::Copied(&bytes[*at..][..*len]),
                    OldValue::Block(block) => Value::Copied(block.value()),
                    OldValue::Shared(value) => Value::Shared(value),
                };
                table.upsert_value(key, *meta, value, *generation, *access);
            }
        }
    }
}

/// The user's key of a staged operation.
fn key_of<'a>(operation: &Operation, records: &'a [u8]) -> &'a [u8] {
    match operation.staged {
        Staged::Put { at, key_len, .. } => {
            &records[at + memtable::HEADER_BYTES..][HEAD_BYTES..key_len]
        }
        Staged::Delete { at, len, .. } | Staged::Bury { at, len, .. } => {
            &records[at + HEAD_BYTES..at + len]
        }
        Staged::Edited | Staged::Pages { .. } => &[],
    }
}

impl Tx<'_> {
    /// True when some of this transaction's operations have their sequences already, so that it can only be
    /// committed: dropped, it poisons the store.
    #[must_use]
    pub fn is_part_committed(&self) -> bool {
        self.first_seq.is_some()
    }

    /// Undoes all writes, last one first. Nothing has left this transaction but what the DRAM table holds.
    pub(super) fn take_back(&mut self) {
        let Journal { states, bytes, mut edits, mut overtaken } =
            std::mem::take(&mut self.buf.journal);
        let operations = std::mem::take(&mut self.buf.operations);
        let records = std::mem::take(&mut self.buf.records);
        for (number, (operation, state)) in operations.iter().zip(&states).enumerate().rev() {
            let (slot, hash) = (state.slot, operation.hash);
            let key = Key { slot, bytes: key_of(operation, &records), hash };
            match state.old {
                Old::Edits(before) => edits.take_back(&mut self.guards, before),
                Old::Renamed(cid, from) => self.move_pages(cid, hash, from),
                Old::Entered(cid) => self.shard(hash).pages.forget(cid),
                _ => {}
            }
            let shard = self.shard(hash);
            if let Some((_, load)) = overtaken.pop_if(|(at, _)| *at == number) {
                let is_page = operation.shares_seq;
                let loads = if is_page { &mut shard.page_loads } else { &mut shard.loads };
                loads.give_back(key, load);
            }
            if !operation.shares_seq {
                state.old.bring_back(&mut shard.table, key, &bytes);
            } else if let Some(pages) =
                cid_of(key.bytes).and_then(|cid| shard.pages.table_of_mut(cid))
            {
                let key = Key { hash: key::hash(key.bytes), ..key };
                state.old.bring_back(pages, key, &bytes);
            }
            *shard.count_mut(slot) = state.count;
        }
        self.buf.reset();
        self.operations = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Engine, Found, Latched, TxBuf};

    type State = Option<(Vec<u8>, Meta)>;

    fn key<'a>(engine: &Engine, bytes: &'a [u8]) -> Key<'a> {
        Key { slot: engine.slot_of(0), bytes, hash: crate::key::hash(bytes) }
    }

    fn meta(expire_at_ms: u64) -> Meta {
        Meta { flags: 0, expire_at_ms }
    }

    fn states(engine: &Engine, keys: &[&[u8]]) -> (Vec<State>, Vec<(i64, i64)>) {
        let state = |bytes: &&[u8]| {
            let mut buf = TxBuf::default();
            let key = key(engine, bytes);
            let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
            match tx.find(key) {
                Found::Live(entry) => Some((entry.value().to_vec(), entry.meta())),
                _ => None,
            }
        };
        let all = keys.iter().map(state).collect();
        let slot = engine.slot_of(0);
        let counts = engine.inner().shards.iter().map(|shard| *shard.latch().count_mut(slot));
        let counts: Vec<(i64, i64)> = counts.map(|count| (count.keys, count.expires)).collect();
        (all, counts)
    }

    #[test]
    fn a_dropped_transaction_leaves_everything_as_it_was() {
        let engine = Engine::in_memory(1).unwrap();
        let keys: [&[u8]; 7] =
            [b"cell", b"large", b"same", b"gone", b"expiring", b"new", b"only its expiry changes"];
        let all: Vec<u64> = keys.iter().map(|bytes| crate::key::hash(bytes)).collect();
        let mut buf = TxBuf::default();
        let mut tx = engine.begin(Latched::Hashes(&all), &mut buf);
        let all_old =
            [(0, 30, 0), (1, 90_000, 0), (2, 70_000, 0), (3, 50_000, 9), (4, 20, 7), (6, 9, 3)];
        for (number, len, at) in all_old {
            tx.put(key(&engine, keys[number]), meta(at), &vec![b'o'; len]);
        }
        tx.commit();
        let before = states(&engine, &keys);
        let mut tx = engine.begin(Latched::Hashes(&all), &mut buf);
        for round in 1..4 {
            for bytes in &keys[..6] {
                tx.put(key(&engine, bytes), meta(0), &vec![round; 40 * usize::from(round)]);
            }
            tx.put(key(&engine, keys[2]), meta(0), &[round; 70_000]);
            tx.set_meta(key(&engine, keys[6]), meta(5 * u64::from(round % 2)));
            tx.put(key(&engine, keys[6]), meta(1), &[round; 9]);
            tx.set_meta(key(&engine, keys[0]), meta(5));
            tx.set_meta(key(&engine, keys[1]), meta(0));
            assert!(tx.delete(key(&engine, keys[3])) && tx.delete(key(&engine, keys[2])));
        }
        drop(tx);
        assert_eq!(states(&engine, &keys), before);
    }

    #[test]
    fn a_large_value_is_kept_and_not_copied() {
        let engine = Engine::in_memory(1).unwrap();
        let large = key(&engine, b"large");
        let mut buf = TxBuf::default();
        let mut tx = engine.begin(Latched::Hashes(&[large.hash]), &mut buf);
        tx.put(large, meta(0), &[1; 100_000]);
        tx.put(large, meta(0), &[2; 100_000]);
        tx.put(large, meta(0), &[3; 50_000]);
        assert!(tx.delete(large));
        assert_eq!(tx.buf.journal.copied_bytes(), 0);
        tx.put(large, meta(0), b"small");
        tx.set_meta(large, meta(7));
        tx.put(large, meta(0), b"again");
        assert_eq!(tx.buf.journal.copied_bytes(), 5);
    }

    #[test]
    fn a_key_that_is_put_again_has_one_record_and_all_its_operations() {
        let engine = Engine::in_memory(1).unwrap();
        let (one, two) = (key(&engine, b"one"), key(&engine, b"two"));
        let mut buf = TxBuf::default();
        let mut tx = engine.begin(Latched::Hashes(&[one.hash, two.hash]), &mut buf);
        tx.put(one, meta(0), b"before");
        let before = tx.commit();
        let mut tx = engine.begin(Latched::Hashes(&[one.hash, two.hash]), &mut buf);
        for round in 1..=10_u8 {
            tx.put(one, meta(u64::from(round)), &vec![round; usize::from(round) * 10]);
            tx.put(two, meta(0), &[round]);
        }
        assert_eq!(tx.buf.operations.len(), 2);
        assert_eq!(tx.buf.journal.copied_bytes(), b"before".len());
        let after = tx.commit();
        assert_eq!((after.operations, after.last_seq), (20, before.last_seq + 20));
        let (found, _) = states(&engine, &[b"one", b"two"]);
        assert_eq!(found, [Some((vec![10; 100], meta(10))), Some((vec![10], meta(0)))]);
    }
}
