//! The beginning of a transaction.

use super::{Latched, Tx, TxBuf};
use crate::store::engine::Engine;
use crate::store::shard::shard_of;
use std::sync::atomic::AtomicU64;

impl Engine {
    /// Takes the latches and starts a transaction.
    pub fn begin<'e>(&'e self, latched: Latched<'_>, buf: &'e mut TxBuf) -> Tx<'e> {
        Tx::begin(self, latched, buf)
    }

    /// Like [`Engine::begin`], but `None` where a latch is held and `occupied` says that it will be for long: one bit per
    /// shard, as in [`Engine::shard_bits`].
    #[inline]
    pub fn begin_unless<'e>(
        &'e self,
        latched: Latched<'_>,
        occupied: &AtomicU64,
        buf: &'e mut TxBuf,
    ) -> Option<Tx<'e>> {
        Tx::begin_unless(self, latched, occupied, buf)
    }

    /// The shards whose latches these are, a bit each.
    #[must_use]
    pub fn shard_bits(latched: Latched<'_>) -> u64 {
        match latched {
            Latched::All => u64::MAX,
            Latched::Hashes(hashes) => {
                hashes.iter().fold(0, |bits, &hash| bits | 1 << shard_of(hash))
            }
        }
    }
}
