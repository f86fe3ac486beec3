//! The background threads, what they take turns at, and how the store is.

pub(in crate::store) mod at_rest;
pub(in crate::store) mod background;
pub(in crate::store) mod budget;
pub(in crate::store) mod cold_due;
pub(in crate::store) mod disk_order;
pub(in crate::store) mod due;
pub(in crate::store) mod events;
pub(in crate::store) mod evict;
pub(in crate::store) mod figures;
mod keep_bound;
pub(in crate::store) mod memory;
pub(in crate::store) mod rest;
pub(in crate::store) mod room;
pub(in crate::store) mod schedule;
pub(in crate::store) mod shares;
pub(in crate::store) mod signals;
pub(in crate::store) mod stats;
pub(in crate::store) mod table_bound;

use crate::dram::DueAlarm;
use crate::store::options::EngineOptions;
use crate::store::upkeep::cold_due::ColdDue;
use crate::store::upkeep::events::Health;
use crate::store::upkeep::rest::Rest;
use crate::store::upkeep::room::Room;
use crate::store::upkeep::signals::Background;
use crate::tree::RateLimiter;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, OnceLock};

/// What keeps a store in shape while others use it.
pub(in crate::store) struct Upkeep {
    pub(in crate::store) background: Background,
    /// Merges while nobody writes.
    pub(in crate::store) rest: Rest,
    pub(in crate::store) room: Room,
    /// [`DiskClaim`](crate::store::DiskClaim)s held.
    pub(in crate::store) disk_claims: AtomicUsize,
    pub(in crate::store) limiter: RateLimiter,
    /// The shard whose due keys are looked for next.
    pub(in crate::store) due_shard: AtomicU32,
    pub(in crate::store) cold_due: Mutex<ColdDue>,
    /// Wakes whoever waits for a due time, which all shards' tables share.
    pub(in crate::store) due_alarm: Arc<DueAlarm>,
    pub(in crate::store) health: Health,
    /// Why writes are refused for good.
    pub(in crate::store) poison: OnceLock<String>,
    pub(in crate::store) closed: AtomicBool,
    /// Keeps other processes out of the directory until the store is closed.
    pub(in crate::store) dir_lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

impl Upkeep {
    pub(in crate::store) fn new(options: &EngineOptions, due_alarm: Arc<DueAlarm>) -> Self {
        Self {
            background: Background::default(),
            rest: Rest::default(),
            room: Room::default(),
            disk_claims: AtomicUsize::new(0),
            limiter: RateLimiter::new(options.compaction_bytes_per_s),
            due_shard: AtomicU32::new(0),
            cold_due: Mutex::default(),
            due_alarm,
            health: Health::new(options.events.clone()),
            poison: OnceLock::new(),
            closed: AtomicBool::new(false),
            dir_lock: Mutex::new(None),
        }
    }

    /// The first panic or lost write of a worker: writes stop, reads go on.
    pub(in crate::store) fn poison(&self, reason: &str) {
        if self.poison.set(reason.to_owned()).is_ok() {
            self.health.poisoned(reason);
        }
    }
}
