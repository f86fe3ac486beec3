//! The index of a table: one flat buffer of separator keys and the offsets of the blocks.

use super::format::{TRAILER_BYTES, corrupt, get_u32, get_u64};
use crate::error::TableResult;
use crate::key::first_word;
use std::path::Path;

/// Bytes of separator keys one table may have.
pub(super) const INDEX_KEY_BYTES_MAX: u64 = 3 << 30;

/// Collects the index while a table is written.
#[derive(Debug, Default)]
pub(super) struct IndexBuilder {
    keys: Vec<u8>,
    ends: Vec<u32>,
    offsets: Vec<u64>,
}

impl IndexBuilder {
    /// Adds the block at `offset`, whose keys are all at or below `separator`.
    pub(super) fn add(&mut self, separator: &[u8], offset: u64) {
        self.keys.extend_from_slice(separator);
        self.ends.push(self.keys.len() as u32);
        self.offsets.push(offset);
    }

    pub(super) fn key_bytes(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Appends the encoded index; `end` is the offset behind the last block.
    pub(super) fn encode(&self, end: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.ends.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.keys.len() as u32).to_le_bytes());
        for offset in self.offsets.iter().chain([&end]) {
            out.extend_from_slice(&offset.to_le_bytes());
        }
        for end in &self.ends {
            out.extend_from_slice(&end.to_le_bytes());
        }
        out.extend_from_slice(&self.keys);
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.ends.clear();
        self.offsets.clear();
    }
}

/// The shortest key at or above `last` and below `next`; `last` itself when there is none shorter.
pub(super) fn separator<'a>(last: &'a [u8], next: &[u8], room: &'a mut Vec<u8>) -> &'a [u8] {
    let shared = super::block::shared_prefix(last, next);
    if let (Some(&a), Some(&b)) = (last.get(shared), next.get(shared))
        && shared + 1 < last.len()
    {
        // A byte between the two, or the next key's own byte when it has more bytes behind it.
        let middle = if b - a > 1 { Some(a + 1) } else { (next.len() > shared + 1).then_some(b) };
        if let Some(byte) = middle {
            room.clear();
            room.extend_from_slice(&last[..shared]);
            room.push(byte);
            return room;
        }
    }
    last
}

/// An index in memory.
#[derive(Debug)]
pub(super) struct Index {
    keys: Box<[u8]>,
    ends: Box<[u32]>,
    offsets: Box<[u64]>,
    /// Length of what all separators start with.
    shared: usize,
    /// The eight bytes behind that of each separator: a search goes through these, which are side by
    /// side, and reads separators only where they agree.
    words: Box<[u64]>,
}

impl Index {
    /// Checks the encoded form; the blocks must fill the file from 0 to `data_end` exactly.
    pub(super) fn decode(
        payload: &[u8],
        data_end: u64,
        file: &Path,
        offset: u64,
    ) -> TableResult<Self> {
        let bad = |what, expected: u64, got: u64| corrupt(file, offset, what, expected, got);
        let (Some(n), Some(key_bytes)) = (get_u32(payload, 0), get_u32(payload, 4)) else {
            return Err(bad("index header", 8, payload.len() as u64));
        };
        let want = 8 + 8 * (u64::from(n) + 1) + 4 * u64::from(n) + u64::from(key_bytes);
        if want != payload.len() as u64 || n == 0 {
            return Err(bad("index length", want, payload.len() as u64));
        }
        let n = n as usize;
        let offsets: Box<[u64]> =
            (0..=n).map(|i| get_u64(payload, 8 + 8 * i).unwrap_or_default()).collect();
        let ends_at = 8 + 8 * (n + 1);
        let ends: Box<[u32]> =
            (0..n).map(|i| get_u32(payload, ends_at + 4 * i).unwrap_or_default()).collect();
        let keys: Box<[u8]> = payload[ends_at + 4 * n..].into();
        if offsets[0] != 0 || offsets[n] != data_end {
            return Err(bad("index end", data_end, offsets[n]));
        }
        if let Some(w) =
            offsets.windows(2).find(|w| w[1] < w[0] || w[1] - w[0] <= TRAILER_BYTES as u64)
        {
            return Err(bad("index offset", w[0], w[1]));
        }
        if let Some(w) = ends.windows(2).find(|w| w[1] < w[0]) {
            return Err(bad("index key end", w[0].into(), w[1].into()));
        }
        if ends[n - 1] != key_bytes {
            return Err(bad("index key end", key_bytes.into(), ends[n - 1].into()));
        }
        let mut index = Self { keys, ends, offsets, shared: 0, words: Box::default() };
        if let Some(i) = (1..n).find(|&i| index.key(i - 1) > index.key(i)) {
            return Err(bad("index key order", i as u64 - 1, i as u64));
        }
        // In order, so what the first and the last share, all do.
        index.shared = super::block::shared_prefix(index.key(0), index.key(n - 1));
        index.words = (0..n).map(|i| first_word(&index.key(i)[index.shared..])).collect();
        Ok(index)
    }

    /// Separator behind block `i`.
    pub(super) fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.keys[start..self.ends[i] as usize]
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The first block that can hold `key`; `len()` when none can.
    pub(super) fn find(&self, key: &[u8]) -> usize {
        let Some(rest) = key.strip_prefix(&self.key(0)[..self.shared]) else {
            return if key < self.key(0) { 0 } else { self.len() };
        };
        let word = first_word(rest);
        let mut low = self.words.partition_point(|other| *other < word);
        let mut high = low + self.words[low..].partition_point(|other| *other == word);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Like [`Index::find`], where the block is not before `at`, and most likely that one or the next.
    pub(super) fn find_from(&self, at: usize, key: &[u8]) -> usize {
        let near = (at..self.len()).take(2).find(|&i| self.key(i) >= key);
        near.unwrap_or_else(|| self.find(key))
    }

    /// Offset and length of the frame of block `i`.
    pub(super) fn frame(&self, i: usize) -> Option<(u64, usize)> {
        let (start, end) = (*self.offsets.get(i)?, *self.offsets.get(i + 1)?);
        Some((start, usize::try_from(end - start).ok()?))
    }

    /// Bytes held in memory.
    pub(super) fn bytes(&self) -> usize {
        self.keys.len() + 4 * self.ends.len() + 8 * (self.offsets.len() + self.words.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_lie_between_their_neighbours_and_are_short() {
        let keys: [&[u8]; 9] =
            [b"", b"a", b"a\0", b"ab", b"abcdef", b"abcdz", b"abd", b"b\xff\xff", b"c"];
        for (i, last) in keys.iter().enumerate() {
            for next in &keys[i + 1..] {
                let mut room = Vec::new();
                let found = separator(last, next, &mut room);
                assert!(found >= *last && found < *next, "{last:?} {found:?} {next:?}");
                assert!(found.len() <= last.len());
            }
        }
        assert_eq!(separator(b"abcdef", b"abzzz", &mut Vec::new()), b"abd");
    }

    #[test]
    fn find_gives_the_first_block_at_or_above() {
        let mut builder = IndexBuilder::default();
        for (i, key) in [b"b", b"d", b"f"].iter().enumerate() {
            builder.add(*key, i as u64 * 100);
        }
        let mut out = Vec::new();
        builder.encode(300, &mut out);
        let index = Index::decode(&out, 300, Path::new("t"), 300).unwrap();
        let found: Vec<usize> = [b"a", b"b", b"c", b"f", b"g"].map(|k| index.find(k)).to_vec();
        assert_eq!(found, [0, 0, 1, 2, 3]);
        assert_eq!(index.frame(2), Some((200, 100)));
        assert_eq!(index.frame(3), None);
        assert!(Index::decode(&out, 301, Path::new("t"), 300).is_err());
        assert!(Index::decode(&out[..out.len() - 1], 300, Path::new("t"), 300).is_err());
    }

    #[test]
    fn find_agrees_with_a_walk_whatever_the_keys_share() {
        let mut state = 5u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (state >> 33) % n
        };
        for (prefix, len_max) in
            [(&b""[..], 3), (b"R\0\0\0\0\0\0\0\x05", 4), (b"a-long-prefix", 20)]
        {
            let key = |random: &mut dyn FnMut(u64) -> u64| {
                let mut key = prefix.to_vec();
                key.extend((0..random(len_max + 1)).map(|_| random(3) as u8 * 100));
                key
            };
            for n in [1, 2, 7, 200] {
                let mut keys: Vec<Vec<u8>> = (0..n).map(|_| key(&mut random)).collect();
                keys.sort_unstable();
                let mut builder = IndexBuilder::default();
                for (i, key) in keys.iter().enumerate() {
                    builder.add(key, i as u64 * 100);
                }
                let mut out = Vec::new();
                builder.encode(n as u64 * 100, &mut out);
                let index = Index::decode(&out, n as u64 * 100, Path::new("t"), 0).unwrap();
                for _ in 0..400 {
                    let mut probe = key(&mut random);
                    match random(4) {
                        0 => probe.truncate(random(probe.len() as u64 + 1) as usize),
                        1 => probe.push(0),
                        2 => probe.insert(random(probe.len() as u64 + 1) as usize, 255),
                        _ => {}
                    }
                    let want = keys.partition_point(|key| *key < probe);
                    assert_eq!(index.find(&probe), want, "{probe:?} in {keys:?}");
                }
            }
        }
    }
}
