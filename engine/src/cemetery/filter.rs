//! Filters of the keys that may have a grave, which readers query without the latch of their shard.
//!
//! A walk over live keys queries the cemetery for each of them, nearly always in vain. Several concurrent walks over
//! equal ranges would otherwise contend for one latch after the other.

use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Graves for each word: with three bits of 64 for each, about one question in sixty is answered wrongly.
const GRAVES_PER_WORD: usize = 4;

/// Memory of one grave in a filter that was just made anew, with room for twice as many.
pub(super) const BYTES_OF_GRAVE: usize = 2 * size_of::<AtomicU64>() / GRAVES_PER_WORD;

/// Words that a filter starts with.
const WORDS_MIN: usize = 16;

/// A Bloom filter over the hashes of one shard's graves, all bits of a hash in one word.
///
/// Changed under the latch only, read without. A reader at s has passed a barrier behind every delete at or below
/// s, so it sees their bits; a word array that replaces another has the bits of every grave
/// that is still there.
#[derive(Default)]
pub(crate) struct GraveFilter {
    words: ArcSwap<Words>,
}

/// What the bits are in.
pub(super) type Words = Vec<AtomicU64>;

/// The bits of a hash. Its upper six bits chose the shard, those below 40 choose the word.
fn bits_of(hash: u64) -> u64 {
    1 << (hash >> 40 & 63) | 1 << (hash >> 46 & 63) | 1 << (hash >> 52 & 63)
}

/// Which of so many words.
fn place_of(words: usize, hash: u64) -> usize {
    let place = u64::from((hash >> 8) as u32) * words as u64;
    (place >> 32) as usize
}

fn word_of(words: &[AtomicU64], hash: u64) -> Option<&AtomicU64> {
    words.get(place_of(words.len(), hash))
}

impl GraveFilter {
    /// False only when no grave of a key with this hash is in the shard.
    #[inline]
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        let bits = bits_of(hash);
        let words = self.words.load();
        word_of(&words, hash).is_some_and(|word| word.load(Ordering::Relaxed) & bits == bits)
    }

    /// Adds a grave, the `count`th of the shard, to the words that [`rebuild`](Self::rebuild) has returned last; false when they have no
    /// room for `count`.
    pub(super) fn add(words: &Words, hash: u64, count: usize) -> bool {
        match word_of(words, hash) {
            Some(word) if count <= GRAVES_PER_WORD * words.len() => {
                // One thread at a time changes them: no read and write in one step, which would wait for what is
                // written before.
                word.store(word.load(Ordering::Relaxed) | bits_of(hash), Ordering::Relaxed);
                true
            }
            _ => false,
        }
    }

    /// Starts anew with these graves and room for twice as many; without any, it holds no memory. Returns the words.
    pub(super) fn rebuild(&self, hashes: impl ExactSizeIterator<Item = u64>) -> Arc<Words> {
        let mut words = Words::new();
        if hashes.len() > 0 {
            let count = (2 * hashes.len()).div_ceil(GRAVES_PER_WORD).max(WORDS_MIN);
            words.resize_with(count, AtomicU64::default);
        }
        for hash in hashes {
            let place = place_of(words.len(), hash);
            if let Some(word) = words.get_mut(place) {
                *word.get_mut() |= bits_of(hash);
            }
        }
        let words = Arc::new(words);
        self.words.store(Arc::clone(&words));
        words
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.words.load().len() * size_of::<AtomicU64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evenly spread, as the hashes of keys are.
    fn hash(i: u64) -> u64 {
        crate::table::key_hash(&i.to_le_bytes())
    }

    #[test]
    fn a_grave_is_never_denied_and_others_mostly_are() {
        let filter = GraveFilter::default();
        assert!(!filter.may_hold(hash(1)) && filter.bytes() == 0);
        let (mut held, mut words) = (Vec::new(), Arc::default());
        for i in 0..20_000 {
            held.push(hash(i));
            if !GraveFilter::add(&words, hash(i), held.len()) {
                words = filter.rebuild(held.iter().copied());
            }
        }
        assert!(held.iter().all(|&hash| filter.may_hold(hash)));
        let wrong = (20_000..120_000).filter(|&i| filter.may_hold(hash(i))).count();
        assert!(wrong < 3_000, "{wrong} of 100000");
        filter.rebuild(held[..10].iter().copied());
        assert!(held[..10].iter().all(|&hash| filter.may_hold(hash)));
        assert!(!held[10..].iter().all(|&hash| filter.may_hold(hash)));
        filter.rebuild([].into_iter());
        assert!(!filter.may_hold(held[0]) && filter.bytes() == 0);
    }
}
