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
//! The compressor hashes three bytes to the latest position where they occurred. With the hash, table
//! size and "very fast" steps that Redis compiles liblzf with, its output is liblzf's.

use std::cell::RefCell;

const HASH_BITS: u32 = 16;
const LITERALS_MAX: usize = 32;
const OFFSET_MAX: usize = 1 << 13;
/// Longest copy, in bytes, the first two not counted.
const COPY_MAX: usize = (1 << 8) + (1 << 3);

/// Table slot of three bytes.
#[inline]
fn slot(bytes: &[u8]) -> usize {
    let three = u32::from(bytes[0]) << 16 | u32::from(bytes[1]) << 8 | u32::from(bytes[2]);
    // Sixteen bits: the index of a table of 2^16 needs no check.
    usize::from((three >> (24 - HASH_BITS)).wrapping_sub(three.wrapping_mul(5)) as u16)
}

/// Output, and how long it may get.
struct Output {
    bytes: Vec<u8>,
    limit: usize,
}

impl Output {
    /// Length with `count` literals more and the length byte of the run that the next one belongs to.
    fn len_with(&self, count: usize) -> usize {
        self.bytes.len() + count + count / LITERALS_MAX + 1
    }

    /// Whether liblzf would not give up at one of the next `count` literals.
    fn has_room(&self, count: usize) -> bool {
        count == 0 || self.len_with(count - 1) < self.limit
    }

    /// Appends literals in runs.
    fn literals(&mut self, literals: &[u8]) {
        self.bytes.reserve(literals.len() + literals.len() / LITERALS_MAX + 1);
        for run in literals.chunks(LITERALS_MAX) {
            self.bytes.push(run.len() as u8 - 1);
            self.bytes.extend_from_slice(run);
        }
    }
}

/// Last position of three bytes. Kept from call to call: to clear it would take longer than to compress
/// a short string.
struct Table {
    /// Positions, plus one. Those above the value of `next` at the start of a call are the call's own.
    slots: Box<[u32; 1 << HASH_BITS]>,
    next: u32,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::new(Table::new());
}

impl Table {
    fn new() -> Self {
        Self { slots: Box::new([0; 1 << HASH_BITS]), next: 0 }
    }

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

    /// The first position from `from` on with three bytes that occurred at an earlier one, and that one.
    /// Notes all positions it passes.
    fn find(&mut self, base: u32, input: &[u8], from: usize) -> Option<(usize, usize)> {
        for (at, three) in input.windows(3).enumerate().skip(from) {
            let seen = std::mem::replace(&mut self.slots[slot(three)], base + at as u32 + 1);
            // A match at the very first byte is never taken, as in liblzf.
            if seen <= base + 1 {
                continue;
            }
            let position = (seen - base - 1) as usize;
            if at - position <= OFFSET_MAX && input[position..position + 3] == *three {
                return Some((at, position));
            }
        }
        None
    }

    fn note(&mut self, base: u32, input: &[u8], at: usize) {
        self.slots[slot(&input[at..at + 3])] = base + at as u32 + 1;
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
    let mut out = Output { bytes: Vec::new(), limit };
    let mut at = 0;
    while at + 2 < input.len() {
        // What does not compress has no match at all, mostly: then nothing was written yet.
        let Some((here, there)) = table.find(base, input, at) else { break };
        if !out.has_room(here - at) {
            return None;
        }
        out.literals(&input[at..here]);
        if out.bytes.len() + 4 >= limit {
            return None;
        }
        let longest = (input.len() - here - 2).min(COPY_MAX);
        let len = copy_len(&input[there..], &input[here..], longest);
        let offset = here - there - 1;
        let (high, low) = ((offset >> 8) as u8, offset as u8);
        if len < 9 {
            out.bytes.push(high | ((len - 2) as u8) << 5);
        } else {
            out.bytes.extend_from_slice(&[high | 7 << 5, (len - 9) as u8]);
        }
        out.bytes.push(low);
        at = here + len;
        if at + 2 >= input.len() {
            break;
        }
        // The last two positions of the copy are remembered, the others are not.
        table.note(base, input, at - 2);
        table.note(base, input, at - 1);
    }
    // The last two bytes are not looked at, and cost what liblzf takes for any end.
    let rest = &input[at..];
    let looked_at = rest.len().saturating_sub(2);
    if !out.has_room(looked_at) || out.len_with(looked_at) + 3 > limit {
        return None;
    }
    out.literals(rest);
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
        let mut fresh = Table::new();
        let expected = compress_with(&mut fresh, &plain, 496);
        let mut used = Table { next: u32::MAX - 1_800, ..Table::new() };
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
