//! Which record a request goes to: YCSB's uniform, zipfian and latest.
//!
//! Constants and method from YCSB's `ZipfianGenerator`, `ScrambledZipfianGenerator`, `SkewedLatestGenerator` and
//! `Utils.fnvhash64` (brianfrankcooper/YCSB, core/src/main/java/site/ycsb), which take theirs from Gray et
//! al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994. One difference: where the
//! number of items grows, `eta` follows it, as in Gray's text; YCSB keeps that of the first number.

use crate::random::Random;

/// Skew of all workloads (`ZIPFIAN_CONSTANT`).
const THETA: f64 = 0.99;
/// Ranks that `ScrambledZipfianGenerator` draws from, whatever the number of records, and their zeta.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

const FNV_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// `Utils.fnvhash64`: FNV-1a over the eight bytes, lowest first, without its sign.
pub(crate) fn fnv64(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME));
    hash.cast_signed().unsigned_abs()
}

/// Sum of the weights of the ranks `[from, to)`.
fn zeta(from: u64, to: u64) -> f64 {
    (from..to).map(|rank| ((rank + 1) as f64).powf(-THETA)).sum()
}

/// Ranks, 0 the most frequent.
#[derive(Clone, Debug)]
pub(crate) struct Zipfian {
    items: u64,
    zeta: f64,
    zeta_of_two: f64,
    eta: f64,
}

impl Zipfian {
    /// Adds up as many terms as there are items.
    pub(crate) fn new(items: u64) -> Self {
        Self::with_zeta(items.max(1), zeta(0, items.max(1)))
    }

    fn with_zeta(items: u64, zeta_of_all: f64) -> Self {
        let mut zipfian = Self { items, zeta: zeta_of_all, zeta_of_two: zeta(0, 2), eta: 0.0 };
        zipfian.set_eta();
        zipfian
    }

    fn set_eta(&mut self) {
        let share = (2.0 / self.items as f64).powf(1.0 - THETA);
        self.eta = (1.0 - share) / (1.0 - self.zeta_of_two / self.zeta);
    }

    /// More items than before; only the new terms are added up.
    fn grow(&mut self, items: u64) {
        if items > self.items {
            self.zeta += zeta(self.items, items);
            self.items = items;
            self.set_eta();
        }
    }

    /// The rank at `u` of [0, 1).
    fn rank(&self, u: f64) -> u64 {
        let at = u * self.zeta;
        if at < 1.0 {
            return 0;
        }
        if at < 1.0 + 0.5_f64.powf(THETA) {
            return 1.min(self.items - 1);
        }
        let share = (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        ((self.items as f64 * share) as u64).min(self.items - 1)
    }
}

/// `requestdistribution`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// Every record alike.
    Uniform,
    /// A few records most of the time, spread over all keys.
    Zipfian,
    /// A few records most of the time, with the newest ones the most popular.
    Latest,
}

/// Draws the numbers of records.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    distribution: Distribution,
    zipfian: Zipfian,
    /// Most records that may exist at the end of the run. Zipfian draws among those and redraws when one does not exist
    /// yet, so that the popular records do not change while records are added.
    span: u64,
}

impl Chooser {
    /// For `records` at the start and `inserts` expected; YCSB leaves room for twice as many.
    pub(crate) fn new(distribution: Distribution, records: u64, inserts: u64) -> Self {
        let zipfian = match distribution {
            Distribution::Latest => Zipfian::new(records),
            Distribution::Zipfian | Distribution::Uniform => {
                Zipfian::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA)
            }
        };
        Self { distribution, zipfian, span: records + 2 * inserts }
    }

    /// A record below `limit`, which is not zero.
    pub(crate) fn next(&mut self, random: &mut Random, limit: u64) -> u64 {
        match self.distribution {
            Distribution::Uniform => random.below(limit),
            Distribution::Zipfian => loop {
                let number = fnv64(self.zipfian.rank(random.unit())) % self.span.max(limit);
                if number < limit {
                    return number;
                }
            },
            Distribution::Latest => {
                self.zipfian.grow(limit);
                limit - 1 - self.zipfian.rank(random.unit()).min(limit - 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    fn counts(chooser: &mut Chooser, records: usize) -> Vec<u64> {
        let mut random = Random::new(3);
        let mut counts = vec![0; records];
        (0..DRAWS).for_each(|_| counts[chooser.next(&mut random, records as u64) as usize] += 1);
        counts
    }

    #[test]
    fn zeta_of_the_scrambled_ranks_is_ycsbs() {
        // Euler and Maclaurin: exact to far more digits than are compared.
        let (from, to, power) = (1_000_000_u64, SCRAMBLED_ITEMS, 1.0 - THETA);
        let tail = ((to as f64).powf(power) - (from as f64).powf(power)) / power
            + 0.5 * ((to as f64).powf(-THETA) - (from as f64).powf(-THETA));
        assert!((zeta(0, from) + tail - SCRAMBLED_ZETA).abs() < 1e-6);
    }

    #[test]
    fn ranks_are_as_frequent_as_their_weights() {
        let zipfian = Zipfian::new(1000);
        let mut random = Random::new(1);
        let mut counts = [0u64; 1000];
        (0..DRAWS).for_each(|_| counts[zipfian.rank(random.unit()) as usize] += 1);
        let expected = |rank: u64| DRAWS as f64 * zeta(rank, rank + 1) / zeta(0, 1000);
        for rank in [0, 1] {
            let (got, wanted) = (counts[rank as usize] as f64, expected(rank));
            assert!((got / wanted - 1.0).abs() < 0.05, "rank {rank}: {got} of {wanted}");
        }
        // Behind the first two the method is an approximation.
        let (got, wanted) =
            (counts[..100].iter().sum::<u64>() as f64, { (0..100).map(expected).sum::<f64>() });
        assert!((got / wanted - 1.0).abs() < 0.05, "{got} of {wanted}");
    }

    #[test]
    fn growing_gives_what_a_new_start_gives() {
        let mut grown = Zipfian::new(100);
        grown.grow(5000);
        let fresh = Zipfian::new(5000);
        assert!((grown.zeta - fresh.zeta).abs() < 1e-9 && (grown.eta - fresh.eta).abs() < 1e-9);
    }

    #[test]
    fn zipfian_spreads_its_favourites_and_keeps_them_while_records_are_added() {
        let records = 1000;
        let first = counts(&mut Chooser::new(Distribution::Zipfian, 1000, 500), records);
        let favourite = |counts: &[u64]| {
            counts.iter().enumerate().max_by_key(|(_, count)| **count).map(|(at, _)| at)
        };
        let more = counts(&mut Chooser::new(Distribution::Zipfian, 1000, 500), 1900);
        assert_eq!(favourite(&first), favourite(&more[..1000]), "of those that were there");
        let busiest = *first.iter().max().expect("not empty") as f64 / DRAWS as f64;
        assert!(busiest > 0.03, "{busiest}");
        assert_ne!(favourite(&first), Some(0), "rank 0 is hashed to somewhere else");
    }

    #[test]
    fn latest_prefers_the_newest() {
        let counts = counts(&mut Chooser::new(Distribution::Latest, 10, 0), 1000);
        assert!(counts[999] > counts[998] && counts[998] > counts[900]);
        assert!(counts[500..].iter().sum::<u64>() > 8 * counts[..500].iter().sum::<u64>());
    }

    #[test]
    fn uniform_prefers_none() {
        let counts = counts(&mut Chooser::new(Distribution::Uniform, 100, 0), 100);
        assert!(counts.iter().all(|n| (1700..2300).contains(n)), "{counts:?}");
    }

    #[test]
    fn the_hash_is_ycsbs() {
        // FNV-1a of eight zero bytes is offset * prime^8; its sign bit is set.
        let plain = (0..8).fold(FNV_OFFSET, |hash, _| hash.wrapping_mul(FNV_PRIME));
        assert_eq!(fnv64(0), plain.min(plain.wrapping_neg()));
        assert_eq!(fnv64(0) >> 63, 0);
        assert_ne!(fnv64(1), fnv64(256));
    }
}
