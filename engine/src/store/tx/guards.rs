//! The latches of a transaction.

use crate::store::latch;
use crate::store::shard::{ShardState, shard_of};

/// The latches that a transaction holds, each with the number of its shard.
pub(super) enum Guards<'e> {
    None,
    One(usize, latch::Latched<'e>),
    Many(Vec<(usize, latch::Latched<'e>)>),
}

impl Guards<'_> {
    /// What the latch of this hash guards.
    ///
    /// # Panics
    /// Where it is not held.
    #[inline]
    pub(super) fn shard(&mut self, hash: u64) -> &mut ShardState {
        let shard = shard_of(hash);
        match self {
            Guards::One(held, guard) if *held == shard => guard,
            Guards::Many(guards) => {
                let at = guards.binary_search_by_key(&shard, |g| g.0);
                &mut guards[at.expect("key of a latched shard")].1
            }
            _ => panic!("key of a shard that is not latched"),
        }
    }

    /// What the latch of this hash guards, if it is held.
    pub(super) fn get(&self, hash: u64) -> Option<&ShardState> {
        let shard = shard_of(hash);
        match self {
            Guards::One(held, guard) => (*held == shard).then_some(&**guard),
            Guards::Many(guards) => {
                let at = guards.binary_search_by_key(&shard, |guard| guard.0).ok()?;
                Some(&guards[at].1)
            }
            Guards::None => None,
        }
    }
}
