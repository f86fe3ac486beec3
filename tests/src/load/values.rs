//! Values that do not compress.

use super::Random;

/// Length of the random bytes that values are cut from. A compressor with a window of some hundred kilobytes
/// rarely finds a repetition in it.
const POOL_BYTES: usize = 16 << 20;

/// Values cut at random places from random bytes.
#[derive(Clone, Debug)]
pub struct Values(std::rc::Rc<[u8]>);

impl Values {
    /// For values of up to `longest_bytes`.
    #[must_use]
    pub fn new(seed: u64, longest_bytes: usize) -> Self {
        let mut random = Random::new(seed);
        let words = (POOL_BYTES + longest_bytes).div_ceil(8);
        Self((0..words).flat_map(|_| random.bits().to_le_bytes()).collect())
    }

    /// One of `bytes`, which are at most those of [`Values::new`].
    #[must_use]
    pub fn cut(&self, random: &mut Random, bytes: usize) -> &[u8] {
        let at = random.below((self.0.len() - bytes) as u64 + 1) as usize;
        &self.0[at..at + bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_length_and_differ() {
        let values = Values::new(1, 4096);
        let mut random = Random::new(2);
        let first = values.cut(&mut random, 4096).to_vec();
        assert_eq!(first.len(), 4096);
        assert_ne!(first, values.cut(&mut random, 4096));
        let distinct: std::collections::HashSet<u8> = first.into_iter().collect();
        assert!(distinct.len() > 250, "all bytes occur");
    }
}
