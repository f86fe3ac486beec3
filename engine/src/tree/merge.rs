//! Merging sorted sources with a tree of losers.

use crate::key::{Meta, Seq, first_word};
use crate::source::{BackSource, Source};
use crate::table::TableResult;
use std::cmp::Ordering;

/// What is compared first: eight bytes of the key behind the common prefix, complemented when the merge
/// goes back. Exhausted sources come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    exhausted: bool,
    bytes: u64,
}

/// Merges any number of sources into the tree's order, or against it. Of equal (key, sequence) pairs the
/// source that was given first comes first.
///
/// `seek` makes it a merge forward, `seek_back` one that goes back; `next` and `prev` are for the
/// one or the other.
#[derive(Debug)]
pub struct MergeIter<S> {
    sources: Vec<S>,
    heads: Vec<Head>,
    /// `losers[0]` is the winner; `losers[i]` the loser of the match at inner node `i`.
    losers: Vec<u32>,
    /// What all keys start with. With `clipped` a source that has left it counts as exhausted.
    common_prefix: Vec<u8>,
    clipped: bool,
    goes_back: bool,
    last_key: Vec<u8>,
}

impl<S: Source> MergeIter<S> {
    /// A merge of `sources`, not positioned yet: call `seek`.
    #[must_use]
    pub fn new(sources: Vec<S>) -> Self {
        Self::with_common_prefix(sources, b"")
    }

    /// Like [`MergeIter::new`], for sources whose keys all start with `common_prefix`, which is not
    /// compared.
    #[must_use]
    pub fn with_common_prefix(sources: Vec<S>, common_prefix: &[u8]) -> Self {
        let heads = vec![Head { exhausted: true, bytes: 0 }; sources.len()];
        let losers = vec![0; sources.len()];
        let common_prefix = common_prefix.to_vec();
        let (clipped, goes_back, last_key) = (false, false, Vec::new());
        Self { sources, heads, losers, common_prefix, clipped, goes_back, last_key }
    }

    /// A merge of those keys of `sources` that start with `prefix`. It may be sought from inside the
    /// prefix only, and ends where the prefix does.
    #[must_use]
    pub fn within_prefix(sources: Vec<S>, prefix: &[u8]) -> Self {
        Self { clipped: !prefix.is_empty(), ..Self::with_common_prefix(sources, prefix) }
    }

    #[inline]
    fn head_of(&self, i: usize) -> Head {
        let source = &self.sources[i];
        if !source.valid() {
            return Head { exhausted: true, bytes: 0 };
        }
        let key = source.key();
        if self.clipped && !key.starts_with(&self.common_prefix) {
            return Head { exhausted: true, bytes: 0 };
        }
        let rest = key.get(self.common_prefix.len()..).unwrap_or_default();
        let bytes = first_word(rest);
        Head { exhausted: false, bytes: if self.goes_back { !bytes } else { bytes } }
    }

    /// True when the version of source `a` comes before that of source `b`.
    #[inline]
    fn before(&self, a: u32, b: u32) -> bool {
        let (x, y) = (a as usize, b as usize);
        match self.heads[x].cmp(&self.heads[y]) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal if self.heads[x].exhausted => a < b,
            Ordering::Equal => {
                let (left, right) = (&self.sources[x], &self.sources[y]);
                let order = left.key().cmp(right.key()).then_with(|| right.seq().cmp(&left.seq()));
                let order = if self.goes_back { order.reverse() } else { order };
                order.then(a.cmp(&b)).is_lt()
            }
        }
    }

    fn rebuild(&mut self) {
        for i in 0..self.sources.len() {
            self.heads[i] = self.head_of(i);
        }
        if !self.sources.is_empty() {
            self.losers[0] = self.play(1);
        }
    }

    /// Plays the matches below inner node `node` and answers the winner. Leaves follow the inner
    /// nodes: node `k + i` is source `i`.
    fn play(&mut self, node: usize) -> u32 {
        let k = self.sources.len();
        if node >= k {
            return (node - k) as u32;
        }
        let (left, right) = (self.play(2 * node), self.play(2 * node + 1));
        let (winner, loser) = if self.before(left, right) { (left, right) } else { (right, left) };
        self.losers[node] = loser;
        winner
    }

    #[inline]
    fn winner(&self) -> usize {
        self.losers[0] as usize
    }

    /// Plays the matches of the winner `at` again, after its source has stepped.
    #[inline]
    fn replay(&mut self, at: usize) {
        self.heads[at] = self.head_of(at);
        let mut winner = at as u32;
        let mut node = (at + self.sources.len()) / 2;
        while node > 0 {
            if self.before(self.losers[node], winner) {
                std::mem::swap(&mut self.losers[node], &mut winner);
            }
            node /= 2;
        }
        self.losers[0] = winner;
    }

    /// True when no other source stands on a key with the head of the winner's: then none stands on its
    /// key. The one that comes next, and with it all that are like the winner, lost to the winner itself.
    #[inline]
    fn is_alone(&self, winner: usize) -> bool {
        let head = self.heads[winner];
        let mut node = (winner + self.sources.len()) / 2;
        while node > 0 {
            if self.heads[self.losers[node] as usize] == head {
                return false;
            }
            node /= 2;
        }
        true
    }
}

impl<S: BackSource> MergeIter<S> {
    /// Like [`Source::pass_dead`], for a backward walk to what is below `from`.
    ///
    /// # Errors
    /// As for [`Source::next`].
    pub fn pass_dead_back(&mut self, from: &[u8], d: Seq) -> TableResult<()> {
        let mut outcome = Ok(());
        for source in &mut self.sources {
            if source.valid() && source.key() >= from {
                outcome = outcome.and(source.pass_dead_back(from, d));
            }
        }
        self.rebuild();
        outcome
    }
}

impl<S: Source> Source for MergeIter<S> {
    #[inline]
    fn valid(&self) -> bool {
        self.losers.first().is_some_and(|&winner| !self.heads[winner as usize].exhausted)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.sources[self.winner()].key()
    }

    #[inline]
    fn seq(&self) -> Seq {
        self.sources[self.winner()].seq()
    }

    #[inline]
    fn meta(&self) -> Meta {
        self.sources[self.winner()].meta()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.sources[self.winner()].value()
    }

    #[inline]
    fn load_value(&mut self) -> TableResult<()> {
        let at = self.winner();
        self.sources[at].load_value()
    }

    #[inline]
    fn next(&mut self) -> TableResult<()> {
        if !self.valid() {
            return Ok(());
        }
        debug_assert!(!self.goes_back);
        let at = self.winner();
        let step = self.sources[at].next();
        self.replay(at);
        step
    }

    #[inline]
    fn next_key(&mut self) -> TableResult<()> {
        if !self.valid() {
            return Ok(());
        }
        debug_assert!(!self.goes_back);
        let at = self.winner();
        if self.is_alone(at) {
            let step = self.sources[at].next_key();
            self.replay(at);
            return step;
        }
        let mut key = std::mem::take(&mut self.last_key);
        key.clear();
        key.extend_from_slice(self.key());
        let mut step = Ok(());
        while step.is_ok() && self.valid() && self.key() == key {
            let at = self.winner();
            step = self.sources[at].next_key();
            self.replay(at);
        }
        self.last_key = key;
        step
    }

    #[inline]
    fn is_marked_dead(&self, s: Seq) -> bool {
        self.sources[self.winner()].is_marked_dead(s)
    }

    fn mark_dead(&self, s: Seq) {
        self.sources[self.winner()].mark_dead(s);
    }

    fn seek(&mut self, key: &[u8]) -> TableResult<()> {
        self.goes_back = false;
        let mut outcome = Ok(());
        for source in &mut self.sources {
            outcome = outcome.and(source.seek(key));
        }
        self.rebuild();
        outcome
    }

    fn seek_over(&mut self, key: &[u8], to: &[u8], d: Seq) -> TableResult<()> {
        self.goes_back = false;
        let mut outcome = Ok(());
        for source in &mut self.sources {
            outcome = outcome.and(source.seek_over(key, to, d));
        }
        self.rebuild();
        outcome
    }

    fn pass_dead(&mut self, to: &[u8], d: Seq) -> TableResult<()> {
        let mut outcome = Ok(());
        for source in &mut self.sources {
            if source.valid() && source.key() < to {
                outcome = outcome.and(source.pass_dead(to, d));
            }
        }
        self.rebuild();
        outcome
    }
}

impl<S: BackSource> BackSource for MergeIter<S> {
    #[inline]
    fn prev(&mut self) -> TableResult<()> {
        if !self.valid() {
            return Ok(());
        }
        debug_assert!(self.goes_back);
        let at = self.winner();
        let step = self.sources[at].prev();
        self.replay(at);
        step
    }

    fn seek_back(&mut self, key: Option<&[u8]>) -> TableResult<()> {
        self.goes_back = true;
        let mut outcome = Ok(());
        for source in &mut self.sources {
            outcome = outcome.and(source.seek_back(key));
        }
        self.rebuild();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sorted list of (key, sequence); the value names the source.
    struct List(Vec<(Vec<u8>, Seq, u8)>, usize);

    impl Source for List {
        fn valid(&self) -> bool {
            self.1 < self.0.len()
        }
        fn key(&self) -> &[u8] {
            &self.0[self.1].0
        }
        fn seq(&self) -> Seq {
            self.0[self.1].1
        }
        fn meta(&self) -> Meta {
            Meta::default()
        }
        fn value(&self) -> &[u8] {
            std::slice::from_ref(&self.0[self.1].2)
        }
        fn next(&mut self) -> TableResult<()> {
            self.1 += 1;
            Ok(())
        }
        fn seek(&mut self, key: &[u8]) -> TableResult<()> {
            self.1 = self.0.partition_point(|e| &*e.0 < key);
            Ok(())
        }
    }

    impl BackSource for List {
        fn prev(&mut self) -> TableResult<()> {
            self.1 = self.1.checked_sub(1).unwrap_or(self.0.len());
            Ok(())
        }
        fn seek_back(&mut self, key: Option<&[u8]>) -> TableResult<()> {
            self.1 = self.0.partition_point(|e| key.is_none_or(|key| &*e.0 < key));
            self.prev()
        }
    }

    #[test]
    fn agrees_with_a_sort_for_any_number_of_sources() {
        let mut state = 7u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (state >> 33) % n
        };
        for sources in 0..12u8 {
            let mut all = Vec::new();
            let mut lists = Vec::new();
            for source in 0..sources {
                let mut list = Vec::new();
                for _ in 0..random(40) {
                    let mut key = vec![b'p'; 3];
                    key.extend((0..random(12)).map(|_| random(3) as u8));
                    list.push((key, random(30), source));
                }
                list.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
                list.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
                all.extend(list.clone());
                lists.push(list);
            }
            all.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
            for prefix in [&b""[..], b"ppp"] {
                for from in [&b""[..], b"ppp\x01", b"ppp\x02\x02", b"z"] {
                    let lists = lists.iter().map(|l| List(l.clone(), 0)).collect();
                    let mut merge = MergeIter::with_common_prefix(lists, prefix);
                    assert!(!merge.valid());
                    merge.seek(from).unwrap();
                    let mut got = Vec::new();
                    while merge.valid() {
                        got.push((merge.key().to_vec(), merge.seq(), merge.value()[0]));
                        merge.next().unwrap();
                    }
                    let want: Vec<_> = all.iter().filter(|e| &*e.0 >= from).cloned().collect();
                    assert_eq!(got, want, "{sources} sources from {from:?}");
                    merge.seek(from).unwrap();
                    let mut keys = Vec::new();
                    while merge.valid() {
                        keys.push((merge.key().to_vec(), merge.seq()));
                        merge.next_key().unwrap();
                    }
                    let mut want: Vec<_> = want.into_iter().map(|e| (e.0, e.1)).collect();
                    want.dedup_by(|a, b| a.0 == b.0);
                    assert_eq!(keys, want);
                    merge.seek_back(Some(from)).unwrap();
                    let mut got = Vec::new();
                    while merge.valid() {
                        got.push((merge.key().to_vec(), merge.seq()));
                        merge.prev().unwrap();
                    }
                    let below = all.iter().rev().filter(|e| &*e.0 < from);
                    let want: Vec<_> = below.map(|e| (e.0.clone(), e.1)).collect();
                    assert_eq!(got, want, "{sources} sources back from {from:?}");
                }
            }
        }
    }

    #[test]
    fn a_merge_within_a_prefix_ends_with_it() {
        let list = |keys: &[&str], seq: Seq| {
            let items = keys.iter().map(|key| (key.as_bytes().to_vec(), seq, 0));
            List(items.collect(), 0)
        };
        let lists = vec![list(&["a", "p1", "q9"], 1), list(&["p2", "p3"], 2), list(&["o9"], 3)];
        let mut merge = MergeIter::within_prefix(lists, b"p");
        let mut seen = Vec::new();
        merge.seek(b"p").unwrap();
        while merge.valid() {
            seen.push(String::from_utf8(merge.key().to_vec()).unwrap());
            merge.next().unwrap();
        }
        assert_eq!(seen, ["p1", "p2", "p3"]);
        seen.clear();
        merge.seek_back(Some(b"p3")).unwrap();
        while merge.valid() {
            seen.push(String::from_utf8(merge.key().to_vec()).unwrap());
            merge.prev().unwrap();
        }
        assert_eq!(seen, ["p2", "p1"]);
    }
}
