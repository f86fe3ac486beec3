//! Graves copied out of their shards, so that they are sorted, and tables asked for them, without the latch.

use crate::cemetery::Grave;
use crate::key::{Seq, first_word};
use crate::store::shard::Shard;
use crate::table::shared_prefix;
use std::cmp::Reverse;

/// Keys and deletes of some graves, in one piece of memory: there are many of them, all over the place in their shards.
#[derive(Debug, Default)]
pub(in crate::store) struct GraveKeys {
    keys: Vec<u8>,
    /// End of each key, and its d.
    ends: Vec<(usize, Seq)>,
}

/// What graves are sorted by.
struct InOrder<'g> {
    /// The eight bytes behind what all keys share, which tell most keys apart.
    word: u64,
    key: &'g [u8],
    d: Seq,
}

impl GraveKeys {
    /// Forgets them, and keeps the memory.
    pub(in crate::store) fn clear(&mut self) {
        self.keys.clear();
        self.ends.clear();
    }

    /// Adds a grave.
    pub(in crate::store) fn add(&mut self, key: &[u8], d: Seq) {
        self.keys.extend_from_slice(key);
        self.ends.push((self.keys.len(), d));
    }

    /// Adds those graves of `shard` that are `wanted`.
    pub(in crate::store) fn add_from(&mut self, shard: &Shard, wanted: impl Fn(&Grave) -> bool) {
        let (keys, graves) = (self.keys.len(), self.ends.len());
        shard.walk_graves(|of_shard, from| {
            if from == 0 {
                self.keys.truncate(keys);
                self.ends.truncate(graves);
            }
            of_shard.visit_slice(from, |grave| {
                if wanted(grave) {
                    self.add(&grave.key, grave.d);
                }
            })
        });
    }

    /// Key and d of each.
    pub(in crate::store) fn iter(&self) -> impl Iterator<Item = (&[u8], Seq)> {
        let mut from = 0;
        self.ends.iter().map(move |&(end, d)| {
            let key = &self.keys[from..end];
            from = end;
            (key, d)
        })
    }

    /// Like `iter`, with the keys ascending, and the graves of a key newest first.
    pub(in crate::store) fn sorted(&self) -> impl Iterator<Item = (&[u8], Seq)> {
        let first = self.iter().next().map_or(&[][..], |(key, _)| key);
        let shared =
            self.iter().fold(first.len(), |shared, (key, _)| shared_prefix(&first[..shared], key));
        let mut graves: Vec<InOrder<'_>> = self
            .iter()
            .map(|(key, d)| InOrder { word: first_word(&key[shared..]), key, d })
            .collect();
        graves.sort_unstable_by(|a, b| {
            let by_key = || (a.key, Reverse(a.d)).cmp(&(b.key, Reverse(b.d)));
            a.word.cmp(&b.word).then_with(by_key)
        });
        graves.into_iter().map(|grave| (grave.key, grave.d))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graves_are_sorted_by_key_and_those_of_a_key_newest_first() {
        // Longer and shorter than a word behind what they share, with zeros at the end, and equal.
        let keys: [&[u8]; 9] = [
            b"Rab",
            b"Ra",
            b"Ra\0",
            b"Ra\0\0",
            b"Rabcdefghij",
            b"Rabcdefghi",
            b"Rabcdefghik",
            b"Rb",
            b"Rab",
        ];
        let mut graves = GraveKeys::default();
        let mut want = Vec::new();
        for (d, key) in keys.into_iter().enumerate() {
            graves.add(key, d as Seq);
            want.push((key, Reverse(d as Seq)));
        }
        want.sort_unstable();
        let got: Vec<_> = graves.sorted().map(|(key, d)| (key, Reverse(d))).collect();
        assert_eq!(got, want);
        graves.clear();
        assert_eq!(graves.sorted().count(), 0);
    }
}
