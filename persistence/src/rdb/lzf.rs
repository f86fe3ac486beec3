//! The LZF format, and a compressor that chooses the matches that liblzf chooses.
//!
//! Compressed data is a sequence of
//!
//! ```text
//! 000LLLLL <L+1 bytes>            literals
//! LLLooooo oooooooo               copy L+2 bytes from o+1 bytes back, L = 1 to 6
//! 111ooooo LLLLLLLL oooooooo      copy L+9 bytes from o+1 bytes back
//! ```
//!
//! The compressor hashes three bytes to the latest position where they stood. With the hash, table
//! size and "very fast" steps that Redis compiles liblzf with, its output is liblzf's.

use std::cell::RefCell;

const HASH_BITS: u32 = 16;
const LITERALS_MAX: usize = 32;
const OFFSET_MAX: usize = 1 << 13;
/// Longest copy, in bytes, the first two not counted.
const COPY_MAX: usize = (1 << 8) + (1 << 3);

/// Table slot of the three bytes at `at`.
fn slot(input: &[u8], at: usize) -> usize {
    let three =
        u32::from(input[at]) << 16 | u32::from(input[at + 1]) << 8 | u32::from(input[at + 2]);
    ((three >> (24 - HASH_BITS)).wrapping_sub(three.wrapping_mul(5)) & ((1 << HASH_BITS) - 1))
        as usize
}

/// Output with the current run of literals: its length byte is filled in when it ends.
struct Output {
    bytes: Vec<u8>,
    limit: usize,
    run_start: usize,
}

impl Output {
    fn run_len(&self) -> usize {
        self.bytes.len() - self.run_start - 1
    }

    fn start_run(&mut self) {
        self.run_start = self.bytes.len();
        self.bytes.push(0);
    }

    fn end_run(&mut self) {
        match self.run_len() {
            0 => {
                self.bytes.pop();
            }
            len => self.bytes[self.run_start] = len as u8 - 1,
        }
    }

    fn literal(&mut self, byte: u8) {
        self.bytes.push(byte);
        if self.run_len() == LITERALS_MAX {
            self.end_run();
            self.start_run();
        }
    }
}

/// Where three bytes stood last. Kept from call to call: to clear it would take longer than to compress
/// a short string.
struct Table {
    /// Positions above `next`'s value at the start of a call are the call's own.
    slots: Vec<u32>,
    next: u32,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::new(Table { slots: vec![0; 1 << HASH_BITS], next: 0 });
}

impl Table {
    /// What the positions of a new input are counted from: all that the table holds is at or below.
    fn begin(&mut self, len: usize) -> u32 {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let base = self.next;
        if let Some(next) = base.checked_add(len) {
            self.next = next;
            return base;
        }
        self.slots.fill(0);
        self.next = len;
        0
    }
}

/// Compresses `input`; `None` when the result would not fit into `limit` bytes, by liblzf's careful
/// estimate.
#[must_use]
pub fn compress(input: &[u8], limit: usize) -> Option<Vec<u8>> {
    if input.is_empty() || limit == 0 {
        return None;
    }
    TABLE.with_borrow_mut(|table| compress_with(table, input, limit))
}

fn compress_with(table: &mut Table, input: &[u8], limit: usize) -> Option<Vec<u8>> {
    let base = table.begin(input.len());
    // Positions are stored plus one: 0 stands for "never seen".
    let mut remember = |at: usize| {
        let seen = std::mem::replace(&mut table.slots[slot(input, at)], base + at as u32 + 1);
        seen.saturating_sub(base) as usize
    };
    let mut out = Output { bytes: Vec::with_capacity(limit + 4), limit, run_start: 0 };
    out.start_run();
    let mut at = 0;
    while at + 2 < input.len() {
        let seen = remember(at);
        // A match at the very first byte is never taken, as in liblzf.
        let offset = match seen.checked_sub(1) {
            Some(position) if position > 0 => at - position - 1,
            _ => OFFSET_MAX,
        };
        if offset >= OFFSET_MAX || input[at..at + 3] != input[seen - 1..seen + 2] {
            if out.bytes.len() >= out.limit {
                return None;
            }
            out.literal(input[at]);
            at += 1;
            continue;
        }
        let empty_run = usize::from(out.run_len() == 0);
        if out.bytes.len() - empty_run + 4 >= out.limit {
            return None;
        }
        out.end_run();
        let longest = (input.len() - at - 2).min(COPY_MAX);
        let len = copy_len(&input[seen - 1..], &input[at..], longest);
        let (high, low) = ((offset >> 8) as u8, offset as u8);
        if len < 9 {
            out.bytes.push(high | ((len - 2) as u8) << 5);
        } else {
            out.bytes.extend_from_slice(&[high | 7 << 5, (len - 9) as u8]);
        }
        out.bytes.push(low);
        out.start_run();
        at += len;
        if at + 2 >= input.len() {
            break;
        }
        // The last two positions of the copy are remembered, the others are not.
        remember(at - 2);
        remember(at - 1);
    }
    if out.bytes.len() + 3 > out.limit {
        return None;
    }
    for &byte in &input[at..] {
        out.literal(byte);
    }
    out.end_run();
    Some(out.bytes)
}

/// Length of the copy at `here` from `there`, which agree in three bytes. Like liblzf, which compares
/// the first 19 bytes without looking at the limit where that is safe, it may pass `longest` by two.
fn copy_len(there: &[u8], here: &[u8], longest: usize) -> usize {
    let limit = if longest > 16 { longest.max(19) } else { longest };
    let mut len = 3;
    while len < limit && there[len] == here[len] {
        len += 1;
    }
    len
}

/// Decompresses to exactly `size` bytes; `None` when the data is damaged or has another size.
#[must_use]
pub fn decompress(input: &[u8], size: usize) -> Option<Vec<u8>> {
    // Two bytes of input can stand for at most 264 of output, so a lie about the size is cheap.
    if size > input.len().saturating_mul(COPY_MAX) {
        return None;
    }
    let mut out = Vec::with_capacity(size);
    let mut rest = input;
    while let [control, behind @ ..] = rest {
        let control = usize::from(*control);
        if control < LITERALS_MAX {
            let (literals, behind) = behind.split_at_checked(control + 1)?;
            out.extend_from_slice(literals);
            rest = behind;
        } else {
            let (len, behind) = match (control >> 5, behind) {
                (7, [more, behind @ ..]) => (usize::from(*more) + 9, behind),
                (7, []) => return None,
                (len, behind) => (len + 2, behind),
            };
            let (low, behind) = behind.split_first()?;
            let start = out.len().checked_sub(((control & 0x1f) << 8 | usize::from(*low)) + 1)?;
            if out.len() + len > size {
                return None;
            }
            for from in start..start + len {
                out.push(out[from]);
            }
            rest = behind;
        }
        if out.len() > size {
            return None;
        }
    }
    (out.len() == size).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A deterministic sequence with repetitions at many distances.
    fn text(len: usize, alphabet: u64) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ len as u64;
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                b'a' + ((state >> 33) % alphabet) as u8
            })
            .collect()
    }

    #[test]
    fn everything_comes_back() {
        for len in (1..400).chain([5_000, 20_000, 100_000]) {
            for alphabet in [1, 2, 4, 26] {
                let plain = text(len, alphabet);
                if let Some(packed) = compress(&plain, len * 2 + 8) {
                    assert_eq!(decompress(&packed, len).as_deref(), Some(&plain[..]));
                }
            }
        }
    }

    #[test]
    fn what_was_compressed_before_makes_no_difference() {
        let plain = text(500, 2);
        let mut fresh = Table { slots: vec![0; 1 << HASH_BITS], next: 0 };
        let expected = compress_with(&mut fresh, &plain, 496);
        let mut used = Table { slots: vec![0; 1 << HASH_BITS], next: u32::MAX - 1_800 };
        for len in [100, 700, 300, 600, 900] {
            compress_with(&mut used, &text(len, 3), len * 2);
            assert_eq!(compress_with(&mut used, &plain, 496), expected, "after {len}");
        }
        assert!(used.next < 10_000, "the positions began anew");
    }

    #[test]
    fn equals_liblzf_on_a_run() {
        // DUMP of `SETRANGE` of 100 times `a` in redis-server 7.0.15.
        assert_eq!(
            compress(&[b'a'; 100], 96).unwrap(),
            [1, b'a', b'a', 0xe0, 87, 0, 1, b'a', b'a']
        );
    }

    #[test]
    fn damaged_data_is_refused() {
        let plain = text(300, 2);
        let packed = compress(&plain, 296).unwrap();
        assert_eq!(decompress(&packed, plain.len() + 1), None);
        assert_eq!(decompress(&packed[..packed.len() - 1], plain.len()), None);
        assert_eq!(decompress(&[0xff, 0xff], 273), None);
        assert_eq!(decompress(&[0, b'x', 0x20, 9], 4), None, "offset before the start");
        assert_eq!(decompress(&[5, 1], usize::MAX), None);
    }
}
