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

/// The skew of YCSB's requests.
const THETA: f64 = 0.99;
/// Adjacent ranks are this many keys apart. It is prime, so that each rank has a distinct key for any
/// number of keys but its multiples.
const STRIDE: u64 = 1_000_003;

/// Numbers below a limit of which a few are drawn often, by Zipf's law with an exponent of 0.99 (Gray et al., "Quickly
/// generating billion-record synthetic databases", 1994, as YCSB has it).
#[derive(Clone, Debug)]
pub struct Zipf {
    items: u64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Of the numbers below `items`, which is at least 2; takes time in proportion to it.
    #[must_use]
    pub fn new(items: u64) -> Self {
        let zeta_of = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>();
        let zeta = zeta_of(items);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta_of(2) / zeta);
        Self { items, zeta, eta }
    }

    /// The next rank; 0 is the most frequent.
    pub fn rank(&self, random: &mut Random) -> u64 {
        let drawn = (random.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        let at = drawn * self.zeta;
        if at < 1.0 {
            return 0;
        }
        if at < 1.0 + 0.5_f64.powf(THETA) {
            return 1;
        }
        let rank =
            self.items as f64 * (self.eta * drawn - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.items - 1)
    }

    /// The key number of a rank: ranks with similar frequency are not adjacent keys.
    #[must_use]
    pub fn of_rank(&self, rank: u64) -> u64 {
        rank.wrapping_mul(STRIDE) % self.items
    }
}
