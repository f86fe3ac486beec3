//! The random numbers of the simulation.

/// SplitMix64: small, seedable, reproducible on every machine. Not for secrets.
#[derive(Debug, Clone)]
pub struct SimRandom(u64);

impl SimRandom {
    /// Starts the stream that belongs to `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0. The bias is of no concern here.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// True in `percent` of the calls.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
