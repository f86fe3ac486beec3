//! The background threads, what they take turns at, and how the store is.

use super::background::Background;
use super::due::ColdDue;
use super::events::Health;
use super::options::EngineOptions;
use super::rest::Rest;
use crate::tree::RateLimiter;
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

/// What keeps a store in shape while others use it.
pub(super) struct Upkeep {
    pub(super) background: Background,
    /// Merges while nobody writes.
    pub(super) rest: Rest,
    /// [`DiskClaim`](super::DiskClaim)s held.
    pub(super) disk_claims: AtomicUsize,
    pub(super) limiter: RateLimiter,
    /// The shard whose due keys are looked for next.
    pub(super) due_shard: AtomicU32,
    pub(super) cold_due: Mutex<ColdDue>,
    pub(super) health: Health,
    /// Why writes are refused for good.
    pub(super) poison: OnceLock<String>,
    pub(super) closed: AtomicBool,
    /// Keeps other processes out of the directory until the store is closed.
    pub(super) dir_lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

impl Upkeep {
    pub(super) fn new(options: &EngineOptions) -> Self {
        Self {
            background: Background::default(),
            rest: Rest::default(),
            disk_claims: AtomicUsize::new(0),
            limiter: RateLimiter::new(options.compaction_bytes_per_s),
            due_shard: AtomicU32::new(0),
            cold_due: Mutex::default(),
            health: Health::new(options.events.clone()),
            poison: OnceLock::new(),
            closed: AtomicBool::new(false),
            dir_lock: Mutex::new(None),
        }
    }

    /// The first panic or lost write of a worker: writes stop, reads go on.
    pub(super) fn poison(&self, reason: &str) {
        if self.poison.set(reason.to_owned()).is_ok() {
            self.health.poisoned(reason);
        }
    }
}
