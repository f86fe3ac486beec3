//! What eviction knows: its policy, and its candidates.

mod access_field;
mod pool;

pub use access_field::{AccessField, idle_seconds, lru_clock};
pub(crate) use pool::Pool;

use parking_lot::Mutex;
use sexton_config::choice::EvictionPolicy;
use std::sync::atomic::AtomicUsize;

/// The policy in force, and what it knows about the keys.
#[derive(Debug)]
pub struct Eviction {
    /// `maxmemory-samples`
    pub(crate) samples: AtomicUsize,
    /// What the access field of a key means.
    pub access: AccessField,
    /// The policy and its candidates. The thread that holds the lock evicts; the others continue meanwhile.
    pub(crate) pool: Mutex<Pool>,
    /// A new policy that the pool has not adopted. Separate, because the holder of the pool waits for latches, which the
    /// setter of a policy may hold.
    pub(crate) wanted: Mutex<Option<EvictionPolicy>>,
}

impl Default for Eviction {
    fn default() -> Self {
        Self {
            samples: AtomicUsize::new(5),
            access: AccessField::default(),
            pool: Mutex::new(Pool::of(EvictionPolicy::NoEviction)),
            wanted: Mutex::new(None),
        }
    }
}
