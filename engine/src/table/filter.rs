//! Bloom filters whose probes for one key stay in one cache line.

use super::format::{corrupt, get_u32};
use crate::error::TableResult;
use std::path::Path;

const LINE_BYTES: usize = 64;
const HEADER_BYTES: usize = 8;
const STEP: u32 = 0x9E37_79B9;

/// Hash of an engine key as filters use it: XXH3-64.
#[must_use]
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

/// Appends the encoded filter of `hashes` (one for each distinct key) to `out`. With
/// `bits_per_key` 0 it has no lines and excludes nothing.
pub(super) fn build(hashes: &[u64], bits_per_key: u8, out: &mut Vec<u8>) {
    // Fewer probes than the classic 0.69 a bit: those in one line get in each other's way.
    let probes = (bits_per_key / 5 * 3 + bits_per_key % 5 * 3 / 5).clamp(1, 16);
    let lines = (hashes.len() * usize::from(bits_per_key)).div_ceil(LINE_BYTES * 8);
    out.extend_from_slice(&(lines as u32).to_le_bytes());
    out.extend_from_slice(&[probes, 0, 0, 0]);
    let start = out.len();
    out.resize(start + lines * LINE_BYTES, 0);
    let bytes = &mut out[start..];
    for &hash in hashes.iter().filter(|_| lines > 0) {
        let first = line_of(hash, lines) * LINE_BYTES;
        let line = &mut bytes[first..first + LINE_BYTES];
        let mut state = hash as u32;
        for _ in 0..probes {
            let bit = (state >> 23) as usize;
            line[bit / 8] |= 1 << (bit % 8);
            state = state.wrapping_mul(STEP);
        }
    }
}

/// A filter in memory.
#[derive(Debug)]
pub(super) struct Filter {
    bytes: Box<[u8]>,
    lines: usize,
    probes: u8,
}

impl Filter {
    /// Checks the encoded form found at `offset` of `file` and keeps it.
    pub(super) fn decode(payload: &[u8], file: &Path, offset: u64) -> TableResult<Self> {
        let (Some(lines), Some(options)) = (get_u32(payload, 0), get_u32(payload, 4)) else {
            return Err(corrupt(file, offset, "filter header", 8, payload.len() as u64));
        };
        let lines = lines as usize;
        let want = HEADER_BYTES as u64 + lines as u64 * LINE_BYTES as u64;
        if want != payload.len() as u64 {
            return Err(corrupt(file, offset, "filter length", want, payload.len() as u64));
        }
        if options == 0 || options > 32 {
            return Err(corrupt(file, offset, "filter probes", 32, options.into()));
        }
        Ok(Self { bytes: payload[HEADER_BYTES..].into(), lines, probes: options as u8 })
    }

    /// False only when no key with this hash was added.
    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        if self.lines == 0 {
            return true;
        }
        let first = line_of(hash, self.lines) * LINE_BYTES;
        let Some(line) = self.bytes.get(first..first + LINE_BYTES) else {
            return true;
        };
        let mut state = hash as u32;
        for _ in 0..self.probes {
            let bit = (state >> 23) as usize;
            if line[bit / 8] & (1 << (bit % 8)) == 0 {
                return false;
            }
            state = state.wrapping_mul(STEP);
        }
        true
    }

    /// Bytes held in memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter_of(n: u64) -> Filter {
        let hashes: Vec<u64> = (0..n).map(|i| key_hash(&i.to_be_bytes())).collect();
        let mut out = Vec::new();
        build(&hashes, 10, &mut out);
        Filter::decode(&out, Path::new("f"), 0).unwrap()
    }

    #[test]
    fn added_keys_are_always_found() {
        for n in [0, 1, 51, 52, 1000, 20_000] {
            let filter = filter_of(n);
            assert!((0..n).all(|i| filter.may_contain(key_hash(&i.to_be_bytes()))), "{n} keys");
        }
    }

    #[test]
    fn false_positives_are_about_one_percent() {
        let filter = filter_of(100_000);
        let wrong = (100_000..300_000u64)
            .filter(|i| filter.may_contain(key_hash(&i.to_be_bytes())))
            .count();
        assert!(wrong < 200_000 * 13 / 1000, "{wrong} of 200000");
        assert!(wrong > 0);
    }

    #[test]
    fn a_filter_of_no_bits_excludes_nothing() {
        let mut out = Vec::new();
        build(&[1, 2, 3], 0, &mut out);
        let filter = Filter::decode(&out, Path::new("f"), 0).unwrap();
        assert!((0..100).all(|i| filter.may_contain(key_hash(&[i]))));
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let mut out = Vec::new();
        build(&[1, 2, 3], 10, &mut out);
        for bad in [&out[..7], &out[..out.len() - 1]] {
            assert!(Filter::decode(bad, Path::new("f"), 9).is_err());
        }
        out[0] = 0xff;
        assert!(Filter::decode(&out, Path::new("f"), 9).is_err());
    }
}
