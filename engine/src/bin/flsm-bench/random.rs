//! Random numbers, keys and values of the shapes that db_bench uses.

/// xorshift64*: fast, seeded, reproducible on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // SplitMix64's finaliser, so that neighbouring seeds do not start alike; never zero.
        let mut state = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self((state ^ (state >> 31)) | 1)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number of [0, 1).
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        // As many bits as a double's fraction has.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `n`, which is not zero.
    #[inline]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// Every number below `num` once, in an order that a full-period generator gives: nothing is remembered.
#[derive(Clone, Debug)]
pub(crate) struct Shuffled {
    num: u64,
    step: u64,
    at: u64,
    left: u64,
}

impl Shuffled {
    pub(crate) fn new(num: u64, random: &mut Random) -> Self {
        let step = random.next() | 1;
        Self { num, step, at: random.below(num.next_power_of_two()), left: num }
    }
}

impl Iterator for Shuffled {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        loop {
            // x -> 5 x + odd modulo a power of two visits every number once (Hull and Dobell).
            let next = self.at.wrapping_mul(5).wrapping_add(self.step);
            self.at = next & (self.num.next_power_of_two() - 1);
            if self.at < self.num {
                return Some(self.at);
            }
        }
    }
}

/// Writes key number `number` into `key`: eight bytes big endian, then '0' up to the key size, as
/// db_bench does. Shorter keys keep the low bytes.
#[inline]
pub(crate) fn write_key(key: &mut [u8], number: u64) {
    let bytes = number.to_be_bytes();
    if key.len() >= bytes.len() {
        key[..bytes.len()].copy_from_slice(&bytes);
        key[bytes.len()..].fill(b'0');
    } else {
        key.copy_from_slice(&bytes[bytes.len() - key.len()..]);
    }
}

/// Values that compress to about a given share, cut one after the other from a fixed text.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    text: std::sync::Arc<[u8]>,
    at: usize,
}

/// Length of the text that values are cut from.
const TEXT_BYTES: usize = 1 << 20;
/// The text consists of pieces of this length, each a random part repeated.
const PIECE_BYTES: usize = 100;

impl Values {
    pub(crate) fn new(compression_ratio: f64, value_size: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let length = TEXT_BYTES.max(value_size);
        let mut text = Vec::with_capacity(length + PIECE_BYTES);
        let raw = ((PIECE_BYTES as f64 * compression_ratio) as usize).clamp(1, PIECE_BYTES);
        while text.len() < length {
            let piece = text.len();
            // Printable, as db_bench's.
            text.extend((0..raw).map(|_| b' ' + random.below(95) as u8));
            while text.len() < piece + PIECE_BYTES {
                text.push(text[text.len() - raw]);
            }
        }
        Self { text: text.into(), at: 0 }
    }

    /// The next value; nothing is copied.
    #[inline]
    pub(crate) fn next(&mut self, size: usize) -> &[u8] {
        if self.at + size > self.text.len() {
            self.at = 0;
        }
        self.at += size;
        &self.text[self.at - size..self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_their_numbers() {
        let (mut a, mut b) = ([0; 16], [0; 16]);
        write_key(&mut a, 255);
        write_key(&mut b, 256);
        assert!(a < b);
        assert_eq!(&a, b"\0\0\0\0\0\0\0\xff00000000");
        let mut short = [0; 4];
        write_key(&mut short, 0x0102_0304);
        assert_eq!(short, [1, 2, 3, 4]);
    }

    #[test]
    fn values_repeat_within_a_piece_only_as_far_as_the_ratio_says() {
        let mut values = Values::new(0.5, 100, 1);
        let first = values.next(100).to_vec();
        assert_eq!(first[..50], first[50..]);
        assert_ne!(first, values.next(100));
    }

    #[test]
    fn shuffled_numbers_come_once_each() {
        let mut random = Random::new(3);
        for num in [1, 2, 100, 1024] {
            let order: Vec<u64> = Shuffled::new(num, &mut random).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..num), "{order:?}");
            assert!(num < 100 || order != sorted);
        }
    }

    #[test]
    fn random_numbers_spread_over_the_range() {
        let mut random = Random::new(7);
        let mut counts = [0u32; 10];
        for _ in 0..10_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|n| (800..1200).contains(n)), "{counts:?}");
    }
}
