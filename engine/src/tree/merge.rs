//! Merging sorted sources with a tree of losers.

use super::source::Source;
use crate::key::{Meta, Seq};
use crate::table::TableResult;
use std::cmp::Ordering;

/// What is compared first: eight bytes of the key behind the common prefix. Exhausted sources
/// come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    exhausted: bool,
    bytes: u64,
}

/// Merges any number of sources into the tree's order. Of equal (key, sequence) pairs the
/// source that was given first comes first.
#[derive(Debug)]
pub struct MergeIter<S> {
    sources: Vec<S>,
    heads: Vec<Head>,
    /// `losers[0]` is the winner; `losers[i]` the loser of the match at inner node `i`.
    losers: Vec<u32>,
    common_prefix: usize,
    last_key: Vec<u8>,
}

impl<S: Source> MergeIter<S> {
    /// A merge of `sources`, not positioned yet: call `seek`.
    #[must_use]
    pub fn new(sources: Vec<S>) -> Self {
        Self::with_common_prefix(sources, 0)
    }

    /// The same, when every key of every source starts with the same `common_prefix` bytes, which
    /// need not be compared.
    #[must_use]
    pub fn with_common_prefix(sources: Vec<S>, common_prefix: usize) -> Self {
        let heads = vec![Head { exhausted: true, bytes: 0 }; sources.len()];
        let losers = vec![0; sources.len()];
        Self { sources, heads, losers, common_prefix, last_key: Vec::new() }
    }

    #[inline]
    fn head_of(&self, i: usize) -> Head {
        let source = &self.sources[i];
        if !source.valid() {
            return Head { exhausted: true, bytes: 0 };
        }
        let rest = source.key().get(self.common_prefix..).unwrap_or_default();
        let bytes = match rest.first_chunk::<8>() {
            Some(chunk) => u64::from_be_bytes(*chunk),
            None => {
                let mut chunk = [0; 8];
                chunk[..rest.len()].copy_from_slice(rest);
                u64::from_be_bytes(chunk)
            }
        };
        Head { exhausted: false, bytes }
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
                left.key()
                    .cmp(right.key())
                    .then_with(|| right.seq().cmp(&left.seq()))
                    .then(a.cmp(&b))
                    .is_lt()
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

    /// Steps to the newest version of the following key.
    ///
    /// # Errors
    /// As for [`Source::next`].
    pub fn next_key(&mut self) -> TableResult<()> {
        if !self.valid() {
            return Ok(());
        }
        let mut key = std::mem::take(&mut self.last_key);
        key.clear();
        key.extend_from_slice(self.key());
        let mut step = self.next();
        while step.is_ok() && self.valid() && self.key() == key {
            step = self.next();
        }
        self.last_key = key;
        step
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
    fn next(&mut self) -> TableResult<()> {
        if !self.valid() {
            return Ok(());
        }
        let mut winner = self.losers[0];
        let at = winner as usize;
        let step = self.sources[at].next();
        self.heads[at] = self.head_of(at);
        let mut node = (at + self.sources.len()) / 2;
        while node > 0 {
            if self.before(self.losers[node], winner) {
                std::mem::swap(&mut self.losers[node], &mut winner);
            }
            node /= 2;
        }
        self.losers[0] = winner;
        step
    }

    fn seek(&mut self, key: &[u8]) -> TableResult<()> {
        let mut outcome = Ok(());
        for source in &mut self.sources {
            outcome = outcome.and(source.seek(key));
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
            for prefix in [0, 3] {
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
                        keys.push(merge.key().to_vec());
                        merge.next_key().unwrap();
                    }
                    let mut want: Vec<_> = want.into_iter().map(|e| e.0).collect();
                    want.dedup();
                    assert_eq!(keys, want);
                }
            }
        }
    }
}
