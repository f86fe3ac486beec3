//! What the commit mutex guards: sequences, the log buffer, the active arena's end.

use crate::key::Seq;
use crate::memtable::{Cursor, Mark, Memtable, Room};
use crate::shared_value::SharedValue;
use sexton_persistence::aof::LogBuffer;
use std::sync::Arc;

/// The state of the one short critical section of a write.
pub(in crate::store) struct CommitState {
    /// The next sequence to hand out.
    pub(in crate::store) next_seq: Seq,
    /// Where log bytes go.
    pub(in crate::store) log: LogBuffer,
    /// False with `appendonly no`, and during replay.
    pub(in crate::store) log_on: bool,
    /// The log begins with the next freeze (`CONFIG SET appendonly yes`).
    pub(in crate::store) log_begins: bool,
    memtable: Arc<Memtable>,
    cursor: Cursor,
    full_told: bool,
}

impl CommitState {
    pub(in crate::store) fn new(next_seq: Seq, log: LogBuffer, memtable: Arc<Memtable>) -> Self {
        let cursor = Cursor::default();
        Self { next_seq, log, log_on: false, log_begins: false, memtable, cursor, full_told: false }
    }

    /// Room for records in the active arena.
    pub(in crate::store) fn reserve(&mut self, bytes: usize) -> Room {
        self.memtable.arena().reserve(&mut self.cursor, bytes)
    }

    /// Keeps a value that a record of the active memtable refers to.
    pub(in crate::store) fn keep(&mut self, value: SharedValue) {
        self.memtable.keep(value);
    }

    /// The same for values that hold `bytes` bytes together: the list is empty afterwards.
    pub(in crate::store) fn keep_all(&mut self, values: &mut Vec<SharedValue>, bytes: usize) {
        self.memtable.keep_all(values, bytes as u64);
    }

    /// Notes a commit of `log_bytes` bytes whose values are in blocks.
    pub(in crate::store) fn note_logged(&mut self, log_bytes: usize) {
        self.memtable.note_logged(log_bytes);
    }

    /// The memtable was full, but may take more: it is told when it is full again.
    pub(in crate::store) fn fills_on(&mut self) {
        self.full_told = false;
    }

    /// True once a memtable, when it has reached `full_at_bytes`, the size at which it is frozen.
    pub(in crate::store) fn just_filled(&mut self, full_at_bytes: u64) -> bool {
        let full = self.memtable.filled_bytes() >= full_at_bytes;
        full && !std::mem::replace(&mut self.full_told, full)
    }

    /// Bytes of the active memtable.
    pub(in crate::store) fn memtable_bytes(&self) -> u64 {
        self.memtable.used_bytes()
    }

    /// End of the active arena. Right for readers when all latches are held.
    pub(in crate::store) fn mark(&self) -> Mark {
        self.memtable.mark(&self.cursor)
    }

    /// Puts `next` in the place of the active memtable, in which nothing is. All latches are held.
    pub(in crate::store) fn replace_empty(&mut self, next: Arc<Memtable>) {
        debug_assert_eq!(self.memtable.used_bytes(), 0);
        self.memtable = next;
        self.cursor = Cursor::default();
    }

    /// Makes `next` the active memtable and cuts the log at the last sequence, which is the answer
    /// (N1), with whether the log's thread wants to be woken. All latches are held.
    pub(in crate::store) fn rotate(&mut self, next: Arc<Memtable>) -> (Seq, bool) {
        let m = self.next_seq - 1;
        self.memtable = next;
        self.cursor = Cursor::default();
        self.full_told = false;
        let wake = self.log_on;
        if wake {
            self.log.cut(m);
        }
        self.begin_log_if_wanted();
        (m, wake)
    }

    /// What is logged from here on goes to a new segment. `last` is the last sequence.
    pub(in crate::store) fn cut_log(&mut self, last: Seq) {
        if self.log_on {
            self.log.cut(last);
        }
    }

    /// From here on commits are logged, if that was asked for. All latches are held.
    pub(in crate::store) fn begin_log_if_wanted(&mut self) {
        if std::mem::take(&mut self.log_begins) {
            self.log = self.log.successor(self.next_seq - 1);
            self.log_on = true;
        }
    }

    /// From here on commits are not logged; what was appended is still to be taken. All latches are
    /// held.
    pub(in crate::store) fn end_log(&mut self) {
        self.log_begins = false;
        self.log_on = false;
    }
}
