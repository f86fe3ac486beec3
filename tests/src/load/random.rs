//! Random numbers of the load generators.

/// xorshift64*: enough to spread keys.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Any seed; neighbours do not start alike.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `limit`, which is at most 2^32 and not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.bits() >> 32) % limit
    }
}
