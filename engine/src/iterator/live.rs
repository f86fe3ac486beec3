//! The walk over live keys.

use super::cursor::Cursor;
use super::stretch::Stretch;
use crate::cemetery::DeadRuns;
use crate::error::TableResult;
use crate::key::{Meta, Seq};
use crate::tree::{BackSource, Graves, MergeIter, Source};
use std::sync::Arc;

/// A half-open range of engine keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// First key in it.
    pub(crate) lower: Vec<u8>,
    /// First key behind it; empty for none.
    pub(crate) upper: Vec<u8>,
}

impl Bounds {
    /// The keys that start with `prefix`.
    pub(crate) fn of_prefix(prefix: &[u8]) -> Self {
        let mut upper = prefix.to_vec();
        // The next prefix of at most this length: the last byte that can grow does.
        while let Some(last) = upper.pop() {
            if last < u8::MAX {
                upper.push(last + 1);
                break;
            }
        }
        Self { lower: prefix.to_vec(), upper }
    }

    /// Both conditions at once.
    pub(crate) fn narrowed(mut self, other: Self) -> Self {
        self.lower = self.lower.max(other.lower);
        let open = self.upper.is_empty() || other.upper.is_empty();
        self.upper = if open { self.upper.max(other.upper) } else { self.upper.min(other.upper) };
        self
    }

    /// True when the closed range has no key in this one.
    pub(crate) fn misses(&self, min_key: &[u8], max_key: &[u8]) -> bool {
        max_key < self.lower.as_slice()
            || (!self.upper.is_empty() && self.upper.as_slice() <= min_key)
    }

    /// What the keys of this range start with, when all keys are in the closed range `min` to `max`.
    pub(crate) fn common_prefix(&self, mut min: Vec<u8>, mut max: Vec<u8>) -> Vec<u8> {
        if min < self.lower {
            min.clone_from(&self.lower);
        }
        if !self.upper.is_empty() && max > self.upper {
            max.clone_from(&self.upper);
        }
        let common = min.iter().zip(&max).take_while(|(a, b)| a == b).count();
        min.truncate(common);
        min
    }

    /// Its upper end, where it has one.
    pub(crate) fn end(&self) -> Option<&[u8]> {
        (!self.upper.is_empty()).then_some(self.upper.as_slice())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Nowhere,
    /// The merge goes forward and is on the version the walk stands on.
    On,
    /// The merge goes back and is already on a key before; the version was copied.
    Behind,
}

/// What a key is at s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Alive,
    /// A grave covers it: that stays so (N5).
    Dead,
    /// Not to be shown, for another reason than a grave.
    Hidden,
}

/// A walk over the keys that live at `s`. Not positioned until the first seek.
///
/// Walked off either end it is not `valid`, and stays so until the next seek.
pub(crate) struct LiveWalk {
    merge: MergeIter<Cursor>,
    s: Seq,
    bounds: Bounds,
    /// Keys can be at or above the end of the bounds.
    can_pass_end: bool,
    /// Versions due at or before this are taken for absent; 0 hides none.
    hide_due_ms: u64,
    keys_only: bool,
    stands: Stands,
    stretch: Stretch,
    key: Vec<u8>,
    value: Vec<u8>,
    meta: Meta,
    seq: Seq,
}

impl LiveWalk {
    /// Over `cursors`, newest first, whose keys outside `bounds` are passed over.
    pub(crate) fn new(cursors: Vec<Cursor>, common_prefix: &[u8], s: Seq, bounds: Bounds) -> Self {
        // Every key that the merge gives starts with the prefix. Where that lies below the end, and the
        // end does not start with it, they all do.
        let can_pass_end =
            bounds.end().is_some_and(|end| end.starts_with(common_prefix) || end < common_prefix);
        Self {
            merge: MergeIter::within_prefix(cursors, common_prefix),
            s,
            bounds,
            can_pass_end,
            hide_due_ms: 0,
            keys_only: false,
            stands: Stands::Nowhere,
            stretch: Stretch::default(),
            key: Vec::new(),
            value: Vec::new(),
            meta: Meta::default(),
            seq: 0,
        }
    }

    /// Takes keys whose newest version is due at or before `now_ms` for absent; 0 for none.
    pub(crate) fn hiding_due(mut self, now_ms: u64) -> Self {
        self.hide_due_ms = now_ms;
        self
    }

    /// Passes over what dead runs prove dead, and leaves such proofs itself (N5).
    pub(crate) fn passing_dead(mut self, runs: &Arc<DeadRuns>) -> Self {
        self.stretch = Stretch::with(Arc::clone(runs));
        self
    }

    /// Copies no value; `value` is not to be asked then.
    pub(crate) fn keys_only(mut self, keys_only: bool) -> Self {
        self.keys_only = keys_only;
        self
    }

    /// True while it stands on a live key.
    pub(crate) fn valid(&self) -> bool {
        self.stands != Stands::Nowhere
    }

    /// The engine key.
    pub(crate) fn key(&self) -> &[u8] {
        if self.stands == Stands::On { self.merge.key() } else { &self.key }
    }

    /// The value.
    pub(crate) fn value(&self) -> &[u8] {
        if self.stands == Stands::On { self.merge.value() } else { &self.value }
    }

    /// Flags and expiry.
    pub(crate) fn meta(&self) -> Meta {
        if self.stands == Stands::On { self.merge.meta() } else { self.meta }
    }

    /// Sequence of the version.
    pub(crate) fn seq(&self) -> Seq {
        if self.stands == Stands::On { self.merge.seq() } else { self.seq }
    }

    /// Goes to the first live key at or above `key` in the bounds.
    pub(crate) fn seek(&mut self, key: &[u8], graves: &dyn Graves) -> TableResult<()> {
        self.stands = Stands::Nowhere;
        let from = if key > self.bounds.lower.as_slice() { key } else { &self.bounds.lower };
        self.stretch.drop_open();
        self.stretch.open(from);
        match self.stretch.run_around(from, self.s) {
            Some(d) => self.merge.seek_over(from, &self.stretch.span.to, d)?,
            None => self.merge.seek(from)?,
        }
        self.find_forward(graves)
    }

    /// Goes to the last live key below `key` in the bounds; `None` stands for their end.
    pub(crate) fn seek_back(&mut self, key: Option<&[u8]>, graves: &dyn Graves) -> TableResult<()> {
        self.stands = Stands::Nowhere;
        let below = match (key, self.bounds.end()) {
            (Some(key), Some(end)) => Some(key.min(end)),
            (key, end) => key.or(end),
        };
        self.merge.seek_back(below)?;
        self.stretch.drop_open();
        if let Some(below) = below {
            self.stretch.open(below);
        }
        self.find_back(graves)
    }

    /// Steps to the following live key.
    pub(crate) fn next(&mut self, graves: &dyn Graves) -> TableResult<()> {
        match std::mem::replace(&mut self.stands, Stands::Nowhere) {
            Stands::Nowhere => Ok(()),
            Stands::On => {
                self.merge.next_key()?;
                self.find_forward(graves)
            }
            Stands::Behind => {
                self.stretch.drop_open();
                self.key.push(0);
                self.merge.seek(&self.key)?;
                self.find_forward(graves)
            }
        }
    }

    /// Steps to the live key before.
    pub(crate) fn prev(&mut self, graves: &dyn Graves) -> TableResult<()> {
        match self.stands {
            Stands::Nowhere => return Ok(()),
            Stands::On => {
                self.key.clear();
                self.key.extend_from_slice(self.merge.key());
                self.stands = Stands::Nowhere;
                self.merge.seek_back(Some(&self.key))?;
            }
            Stands::Behind => self.stands = Stands::Nowhere,
        }
        self.find_back(graves)
    }

    /// What the version, the newest of its key that s can see, makes of the key.
    #[inline]
    fn judge(
        &self,
        key: &[u8],
        (seq, meta): (Seq, Meta),
        graves: &dyn Graves,
    ) -> TableResult<Verdict> {
        if !graves.is_empty() && graves.newest_at(key, self.s)? > Some(seq) {
            return Ok(Verdict::Dead);
        }
        let is_due = self.hide_due_ms != 0 && meta.is_expired(self.hide_due_ms);
        Ok(if is_due || meta.is_tombstone() { Verdict::Hidden } else { Verdict::Alive })
    }

    /// From the merge's place on, the first live key.
    fn find_forward(&mut self, graves: &dyn Graves) -> TableResult<()> {
        while self.merge.valid() {
            let (key, seq) = (self.merge.key(), self.merge.seq());
            if self.can_pass_end && self.bounds.end().is_some_and(|end| key >= end) {
                break;
            }
            if seq > self.s {
                self.merge.next()?;
                continue;
            }
            let verdict = if self.merge.is_marked_dead(self.s) {
                Verdict::Dead
            } else {
                let verdict = self.judge(key, (seq, self.merge.meta()), graves)?;
                if verdict == Verdict::Dead {
                    self.merge.mark_dead(self.s);
                }
                verdict
            };
            match verdict {
                Verdict::Alive => {
                    self.stretch.close_forward(key, self.s);
                    self.stands = Stands::On;
                    return Ok(());
                }
                Verdict::Hidden => {
                    self.stretch.close_forward(key, self.s);
                    self.merge.next_key()?;
                }
                Verdict::Dead => {
                    self.stretch.open(key);
                    if let Some(d) = self.stretch.note_dead(key, self.s) {
                        self.key.clear();
                        self.key.extend_from_slice(key);
                        self.merge.pass_dead(&self.stretch.span.to, d)?;
                        // Where nothing was passed over, this key is still to be left.
                        if !self.merge.valid() || self.merge.key() != self.key {
                            continue;
                        }
                    }
                    self.merge.next_key()?;
                }
            }
        }
        match self.bounds.end() {
            Some(end) => self.stretch.close_forward(end, self.s),
            None => self.stretch.drop_open(),
        }
        Ok(())
    }

    /// From the merge's place back, the first live key. A walk back comes to the versions of a key from
    /// the oldest on: the last one that s can see counts.
    fn find_back(&mut self, graves: &dyn Graves) -> TableResult<()> {
        while self.merge.valid() {
            if self.merge.key() < self.bounds.lower.as_slice() {
                break;
            }
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            let mut seen = false;
            while self.merge.valid() && self.merge.key() == self.key {
                if self.merge.seq() <= self.s {
                    seen = true;
                    (self.seq, self.meta) = (self.merge.seq(), self.merge.meta());
                    if !self.keys_only {
                        self.value.clear();
                        self.value.extend_from_slice(self.merge.value());
                    }
                }
                self.merge.prev()?;
            }
            if !seen {
                continue;
            }
            match self.judge(&self.key, (self.seq, self.meta), graves)? {
                Verdict::Dead => {
                    if !self.stretch.is_open() {
                        self.key.push(0);
                        self.stretch.open(&self.key);
                        self.key.pop();
                    }
                    if let Some(d) = self.stretch.note_dead(&self.key, self.s) {
                        self.merge.pass_dead_back(&self.stretch.span.from, d)?;
                    }
                }
                verdict => {
                    // The least key above this one is the first of the stretch, and the next one
                    // ends before this.
                    self.key.push(0);
                    self.stretch.close_back(&self.key, self.s);
                    self.key.pop();
                    self.stretch.open(&self.key);
                    if verdict == Verdict::Alive {
                        self.stands = Stands::Behind;
                        return Ok(());
                    }
                }
            }
        }
        self.stretch.close_back(&self.bounds.lower, self.s);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(lower: &[u8], upper: &[u8]) -> Bounds {
        Bounds { lower: lower.to_vec(), upper: upper.to_vec() }
    }

    #[test]
    fn the_range_of_a_prefix_ends_behind_its_last_key() {
        assert_eq!(Bounds::of_prefix(b"ab"), bounds(b"ab", b"ac"));
        assert_eq!(Bounds::of_prefix(b"a\xff\xff"), bounds(b"a\xff\xff", b"b"));
        assert_eq!(Bounds::of_prefix(b"\xff"), bounds(b"\xff", b""));
        assert_eq!(Bounds::of_prefix(b""), bounds(b"", b""));
    }

    #[test]
    fn narrowing_keeps_the_tighter_end_of_both() {
        let open = bounds(b"b", b"");
        assert_eq!(open.clone().narrowed(bounds(b"a", b"x")), bounds(b"b", b"x"));
        assert_eq!(bounds(b"a", b"x").narrowed(open.clone()), bounds(b"b", b"x"));
        assert_eq!(bounds(b"a", b"x").narrowed(bounds(b"c", b"m")), bounds(b"c", b"m"));
        assert_eq!(open.clone().narrowed(bounds(b"", b"")), open);
    }

    #[test]
    fn a_range_misses_what_ends_before_it_or_starts_behind_it() {
        let range = bounds(b"d", b"g");
        assert!(range.misses(b"a", b"c") && range.misses(b"g", b"h"));
        assert!(!range.misses(b"a", b"d") && !range.misses(b"f", b"z"));
        assert!(!bounds(b"d", b"").misses(b"x", b"z"));
    }

    #[test]
    fn the_common_prefix_is_that_of_the_keys_that_can_be_met() {
        let common =
            |range: Bounds, min: &[u8], max: &[u8]| range.common_prefix(min.to_vec(), max.to_vec());
        assert_eq!(common(Bounds::of_prefix(b"R1"), b"R0a", b"R9"), b"R");
        assert_eq!(common(bounds(b"", b""), b"key:100", b"key:199"), b"key:1");
        assert_eq!(common(bounds(b"key:11", b"key:112"), b"key:100", b"key:199"), b"key:11");
    }
}
