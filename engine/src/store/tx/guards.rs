//! The latches of a transaction.

use crate::store::latch;
use crate::store::shard::{SHARDS, ShardState, shard_of};

/// Which latches a transaction holds.
#[derive(Clone, Copy, Debug)]
pub enum Latched<'a> {
    /// The shards of these hashes (any order, repeats allowed); taken in ascending order.
    Hashes(&'a [u64]),
    /// Every shard: FLUSHALL, SWAPDB, EXEC with key-space commands, a consistent view.
    All,
}

/// The latches that a transaction holds, each with the number of its shard.
pub(super) enum Guards<'e> {
    None,
    One(usize, latch::Latched<'e>),
    Many(Vec<(usize, latch::Latched<'e>)>),
}

impl<'e> Guards<'e> {
    /// Takes the latches by `lock`; `None` as soon as that gives none. `scratch` is for the numbers of several.
    #[inline]
    pub(super) fn take(
        latched: Latched<'_>,
        scratch: &mut Vec<usize>,
        mut lock: impl FnMut(usize) -> Option<latch::Latched<'e>>,
    ) -> Option<Self> {
        match latched {
            Latched::Hashes([]) => Some(Self::None),
            Latched::Hashes(&[hash]) => {
                let shard = shard_of(hash);
                Some(Self::One(shard, lock(shard)?))
            }
            Latched::Hashes(hashes) => {
                scratch.clear();
                scratch.extend(hashes.iter().map(|&hash| shard_of(hash)));
                scratch.sort_unstable();
                scratch.dedup();
                Self::take_each(scratch.iter().copied(), lock)
            }
            Latched::All => Self::take_each(0..SHARDS, lock),
        }
    }

    /// Takes the latches of these shards, which ascend.
    pub(super) fn take_each(
        shards: impl Iterator<Item = usize>,
        mut lock: impl FnMut(usize) -> Option<latch::Latched<'e>>,
    ) -> Option<Self> {
        let mut guards = Vec::with_capacity(shards.size_hint().0);
        for shard in shards {
            guards.push((shard, lock(shard)?));
        }
        Some(Self::Many(guards))
    }

    /// True when the latch of this hash is held.
    pub(super) fn holds(&self, hash: u64) -> bool {
        self.get(hash).is_some()
    }

    /// Shows what each latch guards.
    pub(super) fn for_each(&mut self, mut show: impl FnMut(&mut ShardState)) {
        match self {
            Self::None => {}
            Self::One(_, shard) => show(shard),
            Self::Many(guards) => guards.iter_mut().for_each(|(_, shard)| show(shard)),
        }
    }

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
