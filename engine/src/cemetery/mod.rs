//! The cemetery: deleted keys with the sequences of their deletion, apart from the tree.
//!
//! There is one [`Graves`] per shard, under the shard's latch. A grave is (key, d, e): d is the sequence of the
//! delete, e that of the first later put of the key, or [`OPEN`] if there is none. For a reader at
//! s a key is alive exactly if its newest version q <= s has q > D(k, s), the largest d <= s.

mod checkpoint;
mod dead_runs;
mod elements;
mod filter;
mod published;
mod runs;

pub(crate) use checkpoint::{Checkpoint, CheckpointError};
pub(crate) use dead_runs::{DeadRun, DeadRuns, RUN_KEYS_MIN, RUN_MORE_KEYS_MIN, Span};
pub(crate) use elements::ElementGraves;
pub(crate) use filter::GraveFilter;
#[cfg(all(loom, test))]
pub(crate) use published::{IsEmpty, Published};
pub(crate) use runs::{GraveRuns, RunList, newest_in_runs};

use crate::key::{Seq, hash_in_shard};
use hashbrown::HashTable;
use std::sync::Arc;

/// The e of a grave that no put has closed.
pub(crate) const OPEN: Seq = Seq::MAX;

/// One key in this many, chosen by its hash, records the place where it was deleted (N5). A counter per shard would make
/// all shards do so at once.
const PLACE_EVERY: u64 = if cfg!(test) { 4 } else { 32 };

/// Bits of the hash below are in use elsewhere.
const PLACE_SHIFT: u32 = 16;

/// Buckets of a slice: what is looked at under one hold of the latch.
const SLICE_BUCKETS: usize = if cfg!(test) { 8 } else { 512 };

/// The table shrinks when it has room for this many times the graves in it.
const SHRINK_AT: usize = 8;

/// One grave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grave {
    /// Engine key: kind, namespace id, user key.
    pub(crate) key: Box<[u8]>,
    /// Sequence of the delete.
    pub(crate) d: Seq,
    /// Sequence of the put that closed it, or [`OPEN`].
    pub(crate) e: Seq,
    /// Number of the superversion in which every file was past it (F2); 0 while not buried. It
    /// stays readable until older superversions are gone (F3).
    pub(crate) buried_in: u64,
}

/// Bytes to which allocations are rounded up.
const ALLOCATION_BYTES: usize = 16;

/// Estimated memory of one grave with a key of `key_bytes` bytes, in a table two thirds full.
pub(crate) fn memory_of_grave(key_bytes: usize) -> usize {
    let entry = (size_of::<(u64, Grave)>() + 1) * 3 / 2;
    entry + key_bytes.next_multiple_of(ALLOCATION_BYTES) + filter::BYTES_OF_GRAVE
}

/// Graves of one shard.
#[derive(Default)]
pub(crate) struct Graves {
    /// The newest grave of each key, by [`hash_in_shard`] of the hash that is kept with it.
    table: HashTable<(u64, Grave)>,
    /// The older ones of keys that were deleted again before their graves could go, oldest first: in a table with the
    /// others each delete of one key would walk over all of them.
    older: HashTable<(u64, Vec<Grave>)>,
    /// Graves in `older`.
    older_len: usize,
    filter: Arc<GraveFilter>,
    /// What it has now, for those who hold the latch.
    filter_words: Arc<filter::Words>,
    /// Graves that the filter was told of, those that have gone since included.
    filtered: usize,
    key_bytes: usize,
    /// How often graves may have moved to other buckets.
    moves: u64,
}

impl Graves {
    /// True when nothing is buried here: the look-up costs nothing.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Number of graves, closed ones included.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.table.len() + self.older_len
    }

    /// Memory held, estimated from the table's capacity and the keys.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        let table = self.table.capacity() * 8 / 7 * (size_of::<(u64, Grave)>() + 1);
        let older = self.older_len * size_of::<Grave>()
            + self.older.capacity() * size_of::<(u64, Vec<Grave>)>();
        table + older + self.key_bytes + self.filter.bytes()
    }

    /// What answers most questions without the latch.
    #[must_use]
    pub(crate) fn filter(&self) -> Arc<GraveFilter> {
        Arc::clone(&self.filter)
    }

    fn rebuild_filter(&mut self) {
        self.filtered = self.table.len();
        self.filter_words = self.filter.rebuild(self.table.iter().map(|(hash, _)| *hash));
    }

    /// True when `key` has an open grave: it is dead in its newest state.
    #[must_use]
    pub(crate) fn is_open(&self, hash: u64, key: (&[u8], &[u8])) -> bool {
        !self.table.is_empty()
            && self
                .table
                .iter_hash(hash_in_shard(hash))
                .any(|(h, g)| *h == hash && g.e == OPEN && g.is(key))
    }

    /// Opens a grave at `d`. Rule X1: the caller holds the key's latch and has seen it alive. True for
    /// one key in `PLACE_EVERY`, whose place is to be checked for stretches of dead keys.
    pub(crate) fn open(&mut self, hash: u64, key: Box<[u8]>, d: Seq) -> bool {
        self.key_bytes += key.len().next_multiple_of(ALLOCATION_BYTES);
        let mut grave = Grave { key, d, e: OPEN, buried_in: 0 };
        let same = |(h, g): &(u64, Grave)| *h == hash && g.key == grave.key;
        if let Some((_, newest)) = self.table.find_mut(hash_in_shard(hash), same) {
            if newest.d < d {
                std::mem::swap(newest, &mut grave);
            }
            self.put_older(hash, grave);
            return (hash >> PLACE_SHIFT).is_multiple_of(PLACE_EVERY);
        }
        // Without room the table grows, or is cleared of what was removed.
        self.moves += u64::from(self.table.len() == self.table.capacity());
        self.table.insert_unique(hash_in_shard(hash), (hash, grave), |(h, _)| hash_in_shard(*h));
        self.filtered += 1;
        if !GraveFilter::add(&self.filter_words, hash, self.filtered) {
            self.rebuild_filter();
        }
        (hash >> PLACE_SHIFT).is_multiple_of(PLACE_EVERY)
    }

    /// Puts a grave behind the newest one of its key.
    fn put_older(&mut self, hash: u64, grave: Grave) {
        self.older_len += 1;
        let same = |(h, graves): &(u64, Vec<Grave>)| *h == hash && is_of(graves, &grave.key);
        match self.older.find_mut(hash_in_shard(hash), same) {
            Some((_, graves)) => {
                let at = graves.partition_point(|other| other.d < grave.d);
                graves.insert(at, grave);
            }
            None => {
                let new = (hash, vec![grave]);
                self.older.insert_unique(hash_in_shard(hash), new, |(h, _)| hash_in_shard(*h));
            }
        }
    }

    /// The older graves of a key, oldest first.
    fn older_of(&self, hash: u64, key: &[u8]) -> &[Grave] {
        if self.older.is_empty() {
            return &[];
        }
        let same = |(h, graves): &(u64, Vec<Grave>)| *h == hash && is_of(graves, key);
        let found = self.older.find(hash_in_shard(hash), same);
        found.map_or(&[], |(_, graves)| graves)
    }

    /// Closes the key's open grave by the put at `q` (P1). Looks at sequences, never only at the
    /// grave's being there (P3); marks, and does not remove (P2).
    pub(crate) fn close(&mut self, hash: u64, key: (&[u8], &[u8]), q: Seq) {
        if self.table.is_empty() {
            return;
        }
        let open = self.table.iter_hash_mut(hash_in_shard(hash));
        for (h, grave) in open {
            if *h == hash && grave.e == OPEN && grave.d < q && grave.is(key) {
                grave.e = q;
            }
        }
        // The newest of the older ones alone can be open: what was before was closed by the put that it deleted.
        let same = |(h, g): &(u64, Vec<Grave>)| *h == hash && g.first().is_some_and(|g| g.is(key));
        if !self.older.is_empty()
            && let Some((_, graves)) = self.older.find_mut(hash_in_shard(hash), same)
        {
            let open = graves.iter_mut().rev().take_while(|grave| grave.e == OPEN);
            open.filter(|grave| grave.d < q).for_each(|grave| grave.e = q);
        }
    }

    /// D(k, s): the largest d <= s among the key's graves.
    #[must_use]
    pub(crate) fn newest_at(&self, hash: u64, key: &[u8], s: Seq) -> Option<Seq> {
        if self.table.is_empty() {
            return None;
        }
        let same = |(h, g): &(u64, Grave)| *h == hash && *g.key == *key;
        let (_, newest) = self.table.find(hash_in_shard(hash), same)?;
        if newest.d <= s {
            return Some(newest.d);
        }
        let older = self.older_of(hash, key);
        older[..older.partition_point(|grave| grave.d <= s)].last().map(|grave| grave.d)
    }

    /// Walks all graves; `keep` may mark them and answers whether they stay.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(u64, &mut Grave) -> bool) {
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.retain_slice(from, &mut keep);
        }
    }

    /// Changes when a walk in slices has to begin again: it could miss graves.
    #[must_use]
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    fn slice_end(&self, from: usize) -> usize {
        (from + SLICE_BUCKETS).min(self.table.num_buckets())
    }

    fn next_slice(&self, end: usize) -> Option<usize> {
        (end < self.table.num_buckets()).then_some(end)
    }

    /// As [`Graves::retain`], for the slice that begins with bucket `from`. Answers where the next one does.
    pub(crate) fn retain_slice(
        &mut self,
        from: usize,
        mut keep: impl FnMut(u64, &mut Grave) -> bool,
    ) -> Option<usize> {
        let end = self.slice_end(from);
        for bucket in from..end {
            let Ok(mut entry) = self.table.get_bucket_entry(bucket) else { continue };
            let (hash, grave) = entry.get_mut();
            let key_bytes = grave.key.len().next_multiple_of(ALLOCATION_BYTES);
            let mut last_older = None;
            let stays = keep(*hash, grave);
            if !self.older.is_empty() {
                let same =
                    |(h, graves): &(u64, Vec<Grave>)| *h == *hash && is_of(graves, &grave.key);
                if let Ok(mut entry) = self.older.find_entry(hash_in_shard(*hash), same) {
                    let (_, graves) = entry.get_mut();
                    let before = graves.len();
                    graves.retain_mut(|grave| keep(*hash, grave));
                    self.key_bytes -= (before - graves.len()) * key_bytes;
                    self.older_len -= before - graves.len();
                    if !stays {
                        // The newest of those that stay takes its place.
                        last_older = graves.pop();
                        self.older_len -= usize::from(last_older.is_some());
                    }
                    if graves.is_empty() {
                        entry.remove();
                    } else if graves.capacity() > SHRINK_AT * graves.len() {
                        graves.shrink_to_fit();
                    }
                }
            }
            if stays {
                continue;
            }
            self.key_bytes -= key_bytes;
            match last_older {
                Some(older) => *grave = older,
                None => drop(entry.remove()),
            }
        }
        let next = self.next_slice(end);
        if next.is_none() {
            self.tidy();
        }
        next
    }

    /// Shows the graves of the slice that begins with bucket `from`. Answers where the next one does.
    pub(crate) fn visit_slice(&self, from: usize, mut visit: impl FnMut(&Grave)) -> Option<usize> {
        let end = self.slice_end(from);
        for (hash, grave) in (from..end).filter_map(|bucket| self.table.get_bucket(bucket)) {
            visit(grave);
            self.older_of(*hash, &grave.key).iter().for_each(&mut visit);
        }
        self.next_slice(end)
    }

    /// All graves, in no order.
    fn all(&self) -> impl Iterator<Item = &Grave> {
        let newest = self.table.iter().map(|(_, grave)| grave);
        newest.chain(self.older.iter().flat_map(|(_, graves)| graves))
    }

    /// After a mass delete the room for its graves goes back, too.
    fn tidy(&mut self) {
        if self.table.capacity() > SHRINK_AT * self.table.len() {
            self.table.shrink_to(2 * self.table.len(), |(hash, _)| hash_in_shard(*hash));
            self.moves += 1;
        }
        if self.older.capacity() > SHRINK_AT * self.older.len() {
            self.older.shrink_to(2 * self.older.len(), |(hash, _)| hash_in_shard(*hash));
        }
        if self.filtered > 2 * self.table.len() {
            self.rebuild_filter();
        }
    }

    /// Graves open as of `c`: d <= c and not closed by then (D2). Without those in limbo (F3): what they
    /// covered is gone from the manifest (D4), and no reader outlives a crash.
    pub(crate) fn needed_as_of(&self, c: Seq) -> impl Iterator<Item = &Grave> {
        self.all().filter(move |grave| grave.is_needed_as_of(c))
    }
}

/// True when graves are of this key.
fn is_of(graves: &[Grave], key: &[u8]) -> bool {
    graves.first().is_some_and(|grave| *grave.key == *key)
}

impl Grave {
    /// True when the mark `m` has passed the grave, and it is no mere leftover for old readers (F3).
    pub(crate) fn is_sealed_through(&self, m: Seq) -> bool {
        self.d <= m && self.buried_in == 0
    }

    /// See [`Graves::needed_as_of`].
    pub(crate) fn is_needed_as_of(&self, c: Seq) -> bool {
        self.d <= c && self.e > c && self.buried_in == 0
    }

    fn is(&self, key: (&[u8], &[u8])) -> bool {
        self.key.len() == key.0.len() + key.1.len()
            && self.key.starts_with(key.0)
            && self.key[key.0.len()..] == *key.1
    }

    /// Rule F1: a closed grave may go when its closing put is visible and durable and no member of
    /// S (`snapshots`, sorted) is in [d, e).
    #[must_use]
    pub(crate) fn may_go_closed(&self, visible: Seq, durable: Seq, snapshots: &[Seq]) -> bool {
        let after_d = snapshots.partition_point(|&s| s < self.d);
        let in_between = snapshots.get(after_d).is_some_and(|&s| s < self.e);
        self.e <= visible.min(durable) && !in_between
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graves_with(key: &[u8], d: Seq) -> Graves {
        let mut graves = Graves::default();
        graves.open(7, key.into(), d);
        graves
    }

    #[test]
    fn open_grave_covers_from_d_on() {
        let graves = graves_with(b"Rk", 5);
        assert_eq!(graves.newest_at(7, b"Rk", 4), None);
        assert_eq!(graves.newest_at(7, b"Rk", 5), Some(5));
        assert!(graves.is_open(7, (b"R", b"k")));
        assert!(!graves.is_open(7, (b"R", b"other")));
    }

    #[test]
    fn room_for_many_graves_goes_back_and_the_others_are_still_found() {
        let mut graves = Graves::default();
        for nth in 0..10_000_u64 {
            graves.open(nth, nth.to_be_bytes().as_slice().into(), nth + 1);
        }
        let full = graves.bytes();
        graves.retain(|hash, _| hash % 100 == 7);
        assert!(graves.bytes() * 10 < full, "{} of {full} bytes", graves.bytes());
        assert_eq!(graves.newest_at(307, &307_u64.to_be_bytes(), Seq::MAX), Some(308));
    }

    #[test]
    fn slices_show_every_grave_once_unless_some_have_moved() {
        let mut graves = Graves::default();
        let put = |graves: &mut Graves, nth: u64| {
            graves.open(nth, nth.to_be_bytes().as_slice().into(), nth + 1);
        };
        (0..100).for_each(|nth| put(&mut graves, nth));
        let walk = |graves: &Graves| {
            let (mut seen, mut from) = (Vec::new(), Some(0));
            while let Some(bucket) = from {
                from = graves.visit_slice(bucket, |grave| seen.push(grave.d));
            }
            seen.sort_unstable();
            seen
        };
        assert_eq!(walk(&graves), (1..=100).collect::<Vec<_>>());
        let (moves, mut from) = (graves.moves(), Some(0));
        while let Some(bucket) = from {
            from = graves.retain_slice(bucket, |_, grave| grave.d % 3 == 0);
        }
        assert_eq!(walk(&graves), (1..=33).map(|nth| 3 * nth).collect::<Vec<_>>());
        assert_eq!((graves.len(), graves.moves()), (33, moves));
        let freed = graves.key_bytes;
        let mut expected = walk(&graves);
        for nth in 1000..2000 {
            let (before, moves) = (graves.table.num_buckets(), graves.moves());
            put(&mut graves, nth);
            expected.push(nth + 1);
            assert!(graves.table.num_buckets() == before || graves.moves() > moves, "{nth}");
        }
        assert_eq!(walk(&graves), expected);
        assert_eq!(graves.key_bytes, freed + 1000 * ALLOCATION_BYTES);
    }

    #[test]
    fn late_writers_do_not_close_a_younger_grave() {
        let mut graves = graves_with(b"Rk", 5);
        graves.close(7, (b"R", b"k"), 4);
        assert!(graves.is_open(7, (b"R", b"k")), "P3: q = 4 is older than d = 5");
        graves.close(7, (b"R", b"k"), 6);
        assert!(!graves.is_open(7, (b"R", b"k")));
        assert_eq!(graves.newest_at(7, b"Rk", 5), Some(5), "P2: closing does not remove");
    }

    #[test]
    fn a_key_that_is_deleted_again_and_again_costs_each_delete_the_same() {
        const PAIRS: u64 = 200_000;
        let key = b"Rlock".as_slice();
        let mut graves = Graves::default();
        for nth in 1..=PAIRS {
            graves.open(7, key.into(), 2 * nth);
            assert!(graves.is_open(7, (b"R", b"lock")));
            graves.close(7, (b"R", b"lock"), 2 * nth + 1);
        }
        // All in one chain, this would have been 10^10 steps.
        assert_eq!((graves.len() as u64, graves.table.len()), (PAIRS, 1));
        assert_eq!(graves.newest_at(7, key, 1), None);
        for s in [2, 3, 77, 78, 2 * PAIRS + 5] {
            assert_eq!(graves.newest_at(7, key, s), Some((s / 2).min(PAIRS) * 2));
        }
        let mut seen = 0;
        graves.visit_slice(0, |grave| seen += u64::from(grave.e == grave.d + 1));
        assert_eq!(seen, PAIRS, "each was closed by the put behind it");
        assert_eq!(graves.needed_as_of(2 * 500).map(|grave| grave.d).collect::<Vec<_>>(), [1000]);
        // A reader at 100 needs one of them; which goes first is all the same.
        let full = graves.bytes();
        graves.retain(|_, grave| !grave.may_go_closed(Seq::MAX, Seq::MAX, &[100]));
        assert_eq!((graves.len(), graves.newest_at(7, key, 100)), (1, Some(100)));
        assert!(graves.bytes() * 100 < full, "{} of {full} bytes", graves.bytes());
        graves.open(7, key.into(), Seq::MAX / 2);
        graves.retain(|_, grave| grave.e != OPEN);
        assert_eq!((graves.len(), graves.newest_at(7, key, Seq::MAX)), (1, Some(100)));
        graves.retain(|_, _| false);
        assert!(graves.is_empty() && graves.key_bytes == 0 && graves.older.is_empty());
    }

    #[test]
    fn graves_of_many_keys_do_what_a_list_does() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        let (mut graves, mut list) = (Graves::default(), Vec::<(u64, Grave)>::new());
        for seq in 1..20_000 {
            // Some keys share a hash.
            let key = next(60).to_be_bytes();
            let hash = u64::from(key[7] / 2) << 16;
            match next(100) {
                0 => {
                    let gone = next(5);
                    graves.retain(|_, grave| grave.d % 5 != gone);
                    list.retain(|(_, grave)| grave.d % 5 != gone);
                }
                1..50 => {
                    let grave = Grave { key: key.as_slice().into(), d: seq, e: OPEN, buried_in: 0 };
                    graves.open(hash, grave.key.clone(), seq);
                    list.push((hash, grave));
                }
                _ => {
                    graves.close(hash, key.split_at(1), seq);
                    for (_, grave) in &mut list {
                        if *grave.key == key && grave.e == OPEN {
                            grave.e = seq;
                        }
                    }
                }
            }
            let s = next(seq + 1);
            let of_key = list.iter().map(|(_, grave)| grave).filter(|grave| *grave.key == key);
            let expected = of_key.clone().filter(|grave| grave.d <= s).map(|grave| grave.d).max();
            assert_eq!(graves.newest_at(hash, &key, s), expected);
            let newest = of_key.max_by_key(|grave| grave.d);
            assert_eq!(
                graves.is_open(hash, key.split_at(1)),
                newest.is_some_and(|grave| grave.e == OPEN)
            );
            assert_eq!(graves.len(), list.len());
        }
        let mut all: Vec<Grave> = list.into_iter().map(|(_, grave)| grave).collect();
        let mut found: Vec<Grave> = graves.all().cloned().collect();
        all.sort_by_key(|grave| grave.d);
        found.sort_by_key(|grave| grave.d);
        assert_eq!(found, all);
    }

    #[test]
    fn closed_graves_wait_for_readers_between_and_for_durability() {
        let grave = Grave { key: b"Rk".as_slice().into(), d: 5, e: 9, buried_in: 0 };
        assert!(grave.may_go_closed(9, 9, &[9]));
        assert!(grave.may_go_closed(9, 9, &[4, 9]));
        assert!(!grave.may_go_closed(9, 9, &[5, 9]), "a reader at 5 sees the delete");
        assert!(!grave.may_go_closed(9, 9, &[8, 9]));
        assert!(!grave.may_go_closed(9, 8, &[9]), "the closing put could be lost");
        assert!(!grave.may_go_closed(8, 9, &[8]), "the closing put is not visible");
    }

    #[test]
    fn checkpoint_holds_what_was_open_then() {
        let mut graves = graves_with(b"Ra", 5);
        graves.open(8, b"Rb".as_slice().into(), 6);
        graves.open(9, b"Rc".as_slice().into(), 12);
        graves.close(7, (b"R", b"a"), 11);
        graves.close(8, (b"R", b"b"), 9);
        let needed = |graves: &Graves| graves.needed_as_of(10).map(|g| g.d).collect::<Vec<Seq>>();
        assert_eq!(needed(&graves), [5], "b was closed at 9, c is younger; a only later (D2)");
        graves.retain(|_, grave| {
            grave.buried_in = 3;
            true
        });
        assert_eq!(needed(&graves), [], "in limbo (F3) for readers that a crash ends");
    }

    #[test]
    fn one_key_in_so_many_names_its_place_whenever_it_is_deleted() {
        let mut graves = Graves::default();
        let mut names =
            |nth: u64| graves.open(nth << PLACE_SHIFT | 7, b"Rk".as_slice().into(), nth);
        let named: Vec<u64> = (1..=3 * PLACE_EVERY).filter(|&nth| names(nth)).collect();
        assert_eq!(named, [PLACE_EVERY, 2 * PLACE_EVERY, 3 * PLACE_EVERY]);
    }

    #[test]
    fn emptied_table_gives_its_memory_back() {
        let mut graves = Graves::default();
        for i in 0..1000_u64 {
            graves.open(i, i.to_be_bytes().as_slice().into(), i);
        }
        assert!(graves.bytes() > 8000);
        graves.retain(|_, _| false);
        assert_eq!((graves.len(), graves.bytes()), (0, 0));
    }
}
