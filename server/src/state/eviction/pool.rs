//! Choosing victims by samples: Redis' pool of the best candidates seen so far.

use super::access_field::{AccessField, idle_seconds};
use crate::random::random;
use sexton_config::choice::EvictionPolicy;
use sexton_engine::{Candidate, Engine};

/// Candidates kept from sample to sample.
const POOL_MAX: usize = 16;

/// A policy, and the best candidates of earlier samples, best last.
#[derive(Debug)]
pub(crate) struct Pool {
    policy: EvictionPolicy,
    ranked: Vec<(u64, Candidate)>,
}

/// A key's rank as a victim; `None` under a policy that ignores the keys' access.
fn rank(policy: EvictionPolicy, access: &AccessField, key: &Candidate, now_ms: u64) -> Option<u64> {
    match policy {
        EvictionPolicy::AllkeysLru | EvictionPolicy::VolatileLru => {
            Some(idle_seconds(key.access, now_ms) as u64)
        }
        EvictionPolicy::AllkeysLfu | EvictionPolicy::VolatileLfu => {
            Some(255 - u64::from(access.frequency(key.access, now_ms)))
        }
        EvictionPolicy::VolatileTtl => Some(u64::MAX - key.expire_at_ms),
        _ => None,
    }
}

impl Pool {
    /// A pool without candidates.
    pub(crate) fn of(policy: EvictionPolicy) -> Self {
        Self { policy, ranked: Vec::new() }
    }

    /// True for a policy that takes keys with an expiry only.
    pub(crate) fn is_volatile(&self) -> bool {
        matches!(
            self.policy,
            EvictionPolicy::VolatileLru
                | EvictionPolicy::VolatileLfu
                | EvictionPolicy::VolatileRandom
                | EvictionPolicy::VolatileTtl
        )
    }

    /// The next victim; it may be deleted by the time it is looked up. `None`: no key can be evicted.
    pub(crate) fn choose(
        &mut self,
        engine: &Engine,
        access: &AccessField,
        samples: usize,
        now_ms: u64,
    ) -> Option<Candidate> {
        for key in engine.sample(random(), samples, self.is_volatile()) {
            match rank(self.policy, access, &key, now_ms) {
                Some(rank) => self.offer(rank, key),
                None => return Some(key),
            }
        }
        self.ranked.pop().map(|(_, key)| key)
    }

    fn offer(&mut self, rank: u64, key: Candidate) {
        if self.ranked.iter().any(|(_, held)| held.db == key.db && held.key == key.key) {
            return;
        }
        let at = self.ranked.partition_point(|(held, _)| *held < rank);
        if self.ranked.len() < POOL_MAX {
            self.ranked.insert(at, (rank, key));
        } else if at > 0 {
            self.ranked.insert(at, (rank, key));
            self.ranked.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: u32) -> Candidate {
        Candidate { db: 0, key: name.to_string().into_bytes(), access: 0, expire_at_ms: 0 }
    }

    #[test]
    fn the_pool_keeps_the_best_and_gives_the_best_first() {
        let mut pool = Pool::of(EvictionPolicy::AllkeysLru);
        for rank in [7, 3, 99, 50, 3].into_iter().chain(10..40) {
            pool.offer(rank, key(rank as u32));
        }
        assert_eq!(pool.ranked.len(), POOL_MAX);
        let ranks: Vec<u64> =
            std::iter::from_fn(|| pool.ranked.pop().map(|(rank, _)| rank)).collect();
        assert_eq!(ranks[..3], [99, 50, 39]);
        assert_eq!(ranks[POOL_MAX - 1], 26);
    }
}
