//! Progress over the expired keys that are on devices (N11).

use crate::key::{EngineKey, Seq};
use std::collections::VecDeque;

/// Least time between two looks into the expiry index.
const LOOK_MS: u64 = 100;

/// The same while keys in memory are due that wait to be handed out: a look would find most of them once more.
const BUSY_LOOK_MS: u64 = 1000;

/// A key that may be due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueKey {
    /// Its database.
    pub db: usize,
    /// Its bytes.
    pub key: Vec<u8>,
    /// Its hash, as [`Engine::hash`](crate::Engine::hash) gives it.
    pub hash: u64,
}

/// How far the expiry index of the tables has been worked off.
#[derive(Default)]
pub(in crate::store) struct ColdDue {
    pub(super) queue: VecDeque<DueKey>,
    /// What was taken from the queue has been worked off: its taker has asked for more since.
    pub(super) worked_off: bool,
    pub(super) now_ms: u64,
    /// When the last look began.
    pub(super) looked_ms: u64,
    /// Nothing is due before this that no look has found.
    pub(super) next_ms: u64,
    /// More keys in memory were due than the last that asked has got.
    pub(super) memory_has_more: bool,
    /// The last record that a look has read which found more than it may collect.
    pub(super) stopped_at: Option<Vec<u8>>,
    /// Records due at or before this have been handed out.
    pub(super) handed_out_ms: u64,
    /// The earliest time in tables that a flush has written and not installed.
    written_ms: Option<u64>,
    /// Times that earlier positions were gone back to: what a look finds meanwhile counts for none.
    pub(super) reopened: u64,
    /// The last position whose deletes were all committed, with the sequence they ended at.
    pub(super) settled: Option<(u64, Seq)>,
    /// Merges may drop index records due at or before this: what they led to is durable.
    pub(super) droppable_ms: u64,
}

impl ColdDue {
    /// A flush writes records due from `at_ms` on.
    pub(in crate::store) fn note_written(&mut self, at_ms: u64) {
        self.written_ms = Some(self.written_ms.map_or(at_ms, |ms| ms.min(at_ms)));
        self.reopen(at_ms);
    }

    /// What flushes have written can be read: a look since [`ColdDue::note_written`] has missed it.
    pub(in crate::store) fn note_installed(&mut self) {
        if let Some(at_ms) = self.written_ms.take() {
            self.reopen(at_ms);
        }
    }

    /// There are records due from `at_ms` on that what was handed out does not cover.
    fn reopen(&mut self, at_ms: u64) {
        self.reopened += 1;
        let before = at_ms.saturating_sub(1);
        self.stopped_at = self
            .stopped_at
            .take()
            .filter(|key| EngineKey::parse_expiry(key).map(|(due_ms, _)| due_ms) < Some(at_ms));
        self.next_ms = self.next_ms.min(at_ms);
        self.handed_out_ms = self.handed_out_ms.min(before);
        self.droppable_ms = self.droppable_ms.min(before);
        self.settled = self.settled.filter(|(ms, _)| *ms <= before);
    }

    /// The clock shows `now_ms`. If that is earlier than before, what was handed out as due may not have been due when
    /// its taker looked: all of it that was not settled is looked for again.
    pub(super) fn note_clock(&mut self, now_ms: u64) {
        if now_ms < self.now_ms {
            self.reopen(self.droppable_ms.min(now_ms).saturating_add(1));
            (self.looked_ms, self.next_ms) = (0, 0);
        }
        self.now_ms = now_ms;
    }

    /// True when a look would find more, or may: something in the tables is due, and the last look was a while ago.
    pub(super) fn wants_look(&self) -> bool {
        let rest_ms = match (self.memory_has_more, &self.stopped_at) {
            (true, _) => BUSY_LOOK_MS,
            (false, Some(_)) => 0,
            (false, None) => LOOK_MS,
        };
        self.queue.is_empty()
            && self.now_ms >= self.looked_ms + rest_ms
            && (self.stopped_at.is_some() || self.now_ms >= self.next_ms)
    }

    /// When keys in tables are wanted next, as far as is known: those found, or the next look.
    pub(super) fn wanted_ms(&self) -> u64 {
        if self.queue.is_empty() { self.next_ms.max(self.looked_ms + LOOK_MS) } else { 0 }
    }

    /// The mark is at `mark`, and the last operation at `last_seq`. True when merges may drop more records than before.
    pub(super) fn settle(&mut self, mark: Seq, last_seq: impl FnOnce() -> Seq) -> bool {
        let mut drops_more = false;
        if let Some((ms, seq)) = self.settled
            && mark >= seq
        {
            drops_more = ms > self.droppable_ms;
            self.droppable_ms = self.droppable_ms.max(ms);
            self.settled = None;
        }
        if self.worked_off && self.settled.is_none() && self.handed_out_ms > self.droppable_ms {
            self.settled = Some((self.handed_out_ms, last_seq()));
        }
        drops_more
    }

    pub(in crate::store) fn droppable_ms(&self) -> u64 {
        self.droppable_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_flush_has_written_is_looked_for_once_it_can_be_read() {
        let mut due = ColdDue { handed_out_ms: 50, ..ColdDue::default() };
        due.note_written(100);
        due.note_written(120);
        assert_eq!(due.handed_out_ms, 50, "nothing later was handed out");
        let before = due.reopened;
        // A look that did not see it: its table is not in the tree yet.
        due.handed_out_ms = 200;
        due.note_installed();
        assert_eq!(due.handed_out_ms, 99);
        assert!(due.reopened > before, "a look under way counts for nothing");
        due.handed_out_ms = 200;
        due.note_installed();
        assert_eq!(due.handed_out_ms, 200, "and once");
    }

    #[test]
    fn a_look_is_wanted_when_something_is_due_and_seldom_while_memory_has_enough() {
        let mut due = ColdDue { looked_ms: 1000, next_ms: 5000, ..ColdDue::default() };
        let wants_at = |due: &mut ColdDue, now_ms| {
            due.note_clock(now_ms);
            due.wants_look()
        };
        assert!(!wants_at(&mut due, 4999), "nothing is due");
        assert!(wants_at(&mut due, 5000));
        due.note_written(4000);
        due.note_written(8000);
        assert_eq!((due.next_ms, due.wanted_ms()), (4000, 4000));
        due.looked_ms = 5000;
        assert!(!wants_at(&mut due, 5099), "they are collected for a while");
        assert_eq!(due.wanted_ms(), 5100);
        assert!(wants_at(&mut due, 5100));
        due.memory_has_more = true;
        assert!(!wants_at(&mut due, 5999) && wants_at(&mut due, 6000));
        due.queue.push_back(DueKey { db: 0, key: Vec::new(), hash: 0 });
        assert!(!wants_at(&mut due, 9000), "what was found goes first");
        assert_eq!(due.wanted_ms(), 0);
        due.queue.clear();
        due.note_clock(10);
        due.memory_has_more = false;
        assert!(wants_at(&mut due, 3000), "the clock went back");
    }

    #[test]
    fn a_look_goes_on_where_it_stopped_unless_something_came_before() {
        let record = [&[crate::key::KIND_EXPIRY][..], &100_u64.to_be_bytes(), b"Rk"].concat();
        let mut due = ColdDue { stopped_at: Some(record.clone()), ..ColdDue::default() };
        due.reopen(101);
        assert_eq!(due.stopped_at, Some(record));
        due.reopen(100);
        assert_eq!(due.stopped_at, None, "a record of that time may sort before it");
    }
}
