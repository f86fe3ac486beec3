//! The random numbers of scripts: Redis' generator, with identical results on every machine.

use std::cell::Cell;

/// A linear congruential generator of 48 bits: POSIX' lrand48.
pub(super) struct Random(Cell<u64>);

/// One more than the largest number, less one, as Redis divides by it.
pub(super) const RANDOM_MAX: f64 = i32::MAX as f64;

impl Random {
    pub(super) fn new() -> Self {
        Self(Cell::new(0x1234_abcd_330e))
    }

    pub(super) fn seed(&self, seed: i32) {
        self.0.set(u64::from(seed as u32) << 16 | 0x330e);
    }

    /// The next number of 31 bits.
    pub(super) fn next(&self) -> i32 {
        let state = self.0.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
        self.0.set(state);
        (state >> 17) as i32
    }

    /// The next fraction, from 0 to below 1.
    pub(super) fn fraction(&self) -> f64 {
        f64::from(self.next() % i32::MAX) / RANDOM_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_redis() {
        let random = Random::new();
        // What redis-server 7.0 answers right after its start.
        assert_eq!(crate::interop::c_numbers::general(random.fraction(), 14), "0.39646477363839");
        let upto = |max: f64| (random.fraction() * max).floor() + 1.0;
        assert_eq!((upto(100.0), upto(100.0)), (85.0, 36.0));
    }
}
