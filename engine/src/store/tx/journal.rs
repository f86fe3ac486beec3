//! What the writes of a transaction have replaced, so that they can be taken back before they are committed.

use super::Tx;
use super::buf::TxBuf;
use crate::key::{Key, Meta, Slot};
use crate::store::shard::Count;

/// The state of one key before one write of this transaction.
pub(super) struct OldState {
    slot: Slot,
    hash: u64,
    /// Bytes of the journal from `at` on: the key, then the value.
    at: usize,
    key_len: usize,
    value_len: usize,
    /// Flags, expiry, generation and access field of the entry; `None` where the DRAM table had none.
    entry: Option<(Meta, u8, u32)>,
    /// The counts of its namespace in its shard.
    count: Count,
}

/// The states before each write, in order.
#[derive(Default)]
pub(super) struct Journal {
    states: Vec<OldState>,
    bytes: Vec<u8>,
}

impl Journal {
    /// Forgets all states; gives a buffer of more than `keep_bytes` back.
    pub(super) fn reset(&mut self, keep_bytes: usize) {
        self.states.clear();
        self.bytes.clear();
        if self.bytes.capacity() > keep_bytes {
            self.bytes = Vec::new();
        }
    }
}

impl Tx<'_> {
    /// To be called before each change of a key in the DRAM table.
    pub(super) fn note_old(&mut self, key: Key<'_>) {
        let TxBuf { journal, .. } = &mut *self.buf;
        let Journal { mut states, mut bytes } = std::mem::take(journal);
        let shard = self.shard(key.hash);
        let at = bytes.len();
        bytes.extend_from_slice(key.bytes);
        let entry = shard.table.find(key).map(|entry| {
            bytes.extend_from_slice(entry.value());
            (entry.meta(), entry.generation(), entry.access())
        });
        let value_len = bytes.len() - at - key.bytes.len();
        states.push(OldState {
            slot: key.slot,
            hash: key.hash,
            at,
            key_len: key.bytes.len(),
            value_len,
            entry,
            count: *shard.count_mut(key.slot),
        });
        self.buf.journal = Journal { states, bytes };
    }

    /// True when some of this transaction's operations have their sequences already, so that it can only be
    /// committed: dropped, it poisons the store.
    #[must_use]
    pub fn is_part_committed(&self) -> bool {
        self.first_seq.is_some()
    }

    /// Undoes all writes, last one first. Nothing has left this transaction but what the DRAM table holds.
    pub(super) fn take_back(&mut self) {
        let Journal { states, bytes } = std::mem::take(&mut self.buf.journal);
        for state in states.iter().rev() {
            let (key, value) = bytes[state.at..].split_at(state.key_len);
            let key = Key { slot: state.slot, bytes: key, hash: state.hash };
            let shard = self.shard(state.hash);
            match state.entry {
                Some((meta, generation, access)) => {
                    let value = &value[..state.value_len];
                    shard.table.upsert(key, meta, value, generation, access);
                }
                None => {
                    shard.table.remove(key);
                }
            }
            *shard.count_mut(state.slot) = state.count;
        }
        self.buf.reset();
        self.operations = 0;
    }
}
