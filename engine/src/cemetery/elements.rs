//! Graves of pages and of whole collections (rule E4).
//!
//! A shard's graves are found by the hash of the user's key, which a page's key does not contain. These graves are therefore kept
//! separately, partitioned by the hash of the collection's prefix. Each part has a mutex, which is the last in the lock order. A store
//! without collections pays one look at a counter.

use super::{Grave, Graves};
use crate::key::{EngineKey, Seq};
use crate::table::key_hash;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Parts, so that readers of one collection seldom wait for another.
const PARTS: usize = 16;

/// So often a walk begins again because graves have moved; then it holds the mutex.
const WALKS_MAX: u32 = 3;

/// The graves in memory of keys of the kind `E`.
#[derive(Default)]
pub(crate) struct ElementGraves {
    len: AtomicUsize,
    parts: [Mutex<Graves>; PARTS],
}

impl ElementGraves {
    /// True when there is none: nothing else is asked then.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of graves.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Memory held, estimated.
    pub(crate) fn bytes(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.parts.iter().map(|part| part.lock().bytes()).sum()
    }

    /// A page's graves are beside that of its collection.
    fn part(&self, key: &[u8]) -> (&Mutex<Graves>, u64) {
        let of_prefix = key_hash(EngineKey::prefix_of(key).unwrap_or(key));
        (&self.parts[(of_prefix >> 32) as usize % PARTS], of_prefix)
    }

    /// Opens a grave of a page, or of a prefix, at `d`.
    pub(crate) fn open(&self, key: &[u8], d: Seq) {
        // Counted first: a reader at or above d has to find it.
        self.len.fetch_add(1, Ordering::AcqRel);
        self.part(key).0.lock().open(key_hash(key), key.into(), d);
    }

    /// Closes the open grave of a page by the put at `q` (P1, P3). A prefix is never closed.
    pub(crate) fn close(&self, key: &[u8], q: Seq) {
        if !self.is_empty() {
            self.part(key).0.lock().close(key_hash(key), (key, b""), q);
        }
    }

    /// D(k, s): by the page's own graves and that of its collection.
    pub(crate) fn newest_at(&self, key: &[u8], s: Seq) -> Option<Seq> {
        if self.is_empty() {
            return None;
        }
        let (part, of_prefix) = self.part(key);
        let part = part.lock();
        let own = part.newest_at(key_hash(key), key, s);
        let prefix = EngineKey::prefix_of(key);
        own.max(prefix.and_then(|prefix| part.newest_at(of_prefix, prefix, s)))
    }

    /// Walks all graves in slices; `keep` may mark them and answers whether they stay. It may see a grave more than once.
    pub(crate) fn retain(&self, mut keep: impl FnMut(&mut Grave) -> bool) {
        self.walk(|graves, from| {
            let before = graves.len();
            let next = graves.retain_slice(from, |_, grave| keep(grave));
            self.len.fetch_sub(before - graves.len(), Ordering::AcqRel);
            next
        });
    }

    /// The copies of all graves that are `wanted`.
    pub(crate) fn copies(&self, wanted: impl Fn(&Grave) -> bool) -> Vec<(Box<[u8]>, Seq)> {
        let mut copies = Vec::new();
        for part in self.parts.iter().filter(|_| !self.is_empty()) {
            let graves = part.lock();
            copies.extend(graves.all().filter(|g| wanted(g)).map(|g| (g.key.clone(), g.d)));
        }
        copies
    }

    fn walk(&self, mut slice: impl FnMut(&mut Graves, usize) -> Option<usize>) {
        for part in self.parts.iter().filter(|_| !self.is_empty()) {
            let mut graves = part.lock();
            let (mut from, mut moves, mut walks) = (0, graves.moves(), 1);
            while let Some(next) = slice(&mut graves, from) {
                from = next;
                if walks < WALKS_MAX {
                    parking_lot::MutexGuard::bump(&mut graves);
                    if graves.moves() != moves {
                        (from, moves) = (0, graves.moves());
                        walks += 1;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::element_head;

    fn page(cid: u64, number: u32) -> Vec<u8> {
        [&element_head(3, cid)[..], b"h", &number.to_be_bytes()].concat()
    }

    #[test]
    fn a_page_is_dead_by_its_own_grave_and_by_that_of_its_collection() {
        let graves = ElementGraves::default();
        assert_eq!(graves.newest_at(&page(7, 1), Seq::MAX), None);
        graves.open(&page(7, 1), 10);
        graves.open(&element_head(3, 7), 20);
        assert_eq!(graves.newest_at(&page(7, 1), 9), None);
        assert_eq!(graves.newest_at(&page(7, 1), 19), Some(10));
        assert_eq!(graves.newest_at(&page(7, 1), 20), Some(20));
        assert_eq!(graves.newest_at(&page(7, 2), 19), None);
        assert_eq!(graves.newest_at(&page(7, 2), 20), Some(20));
        assert_eq!(graves.newest_at(&page(8, 1), 20), None, "another collection");
        graves.close(&page(7, 1), 30);
        let open: Vec<_> = graves.copies(|grave| grave.e == crate::cemetery::OPEN);
        assert_eq!(open, [(element_head(3, 7).into(), 20)], "a put closes that of the page alone");
        graves.retain(|grave| grave.d > 10);
        assert_eq!((graves.len(), graves.newest_at(&page(7, 1), 19)), (1, None));
    }

    #[test]
    fn who_asks_for_one_of_many_collections_looks_into_one_part() {
        let graves = ElementGraves::default();
        (0..100_000).for_each(|cid| graves.open(&element_head(3, cid), cid + 1));
        for cid in (0..110_000).step_by(1111) {
            let key = page(cid, 9);
            let own = std::ptr::from_ref(graves.part(&key).0);
            // With all others held this would never end if it needed one of them.
            let others = graves.parts.iter().filter(|part| !std::ptr::eq(*part, own));
            let held: Vec<_> = others.map(|part| part.lock()).collect();
            let expected = (cid < 100_000).then_some(cid + 1);
            assert_eq!(graves.newest_at(&key, Seq::MAX), expected);
            drop(held);
        }
        let sizes: Vec<usize> = graves.parts.iter().map(|part| part.lock().len()).collect();
        assert!(sizes.iter().all(|size| (5_000..8_000).contains(size)), "{sizes:?}");
    }
}
