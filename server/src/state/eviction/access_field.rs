//! The 24-bit access field of an entry: Redis' LRU clock, or its LFU counter.
//!
//! LRU: the second of the last access, never 0 (0 means: not accessed since the write). LFU: the minute of the
//! last access in the upper 16 bits, and below it an 8-bit counter that grows with the
//! logarithm of the number of accesses and decays with time.

use crate::random::random;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Counter of a new key, so that it is not evicted before it had a chance.
const LFU_START: u32 = 5;

const FIELD_MASK: u32 = 0xff_ffff;
const MINUTES_MASK: u32 = 0xffff;

/// Which meaning is in force, with the constants of the LFU counter.
#[derive(Debug)]
pub struct AccessField {
    is_lfu: AtomicBool,
    /// `lfu-log-factor`
    pub(crate) log_factor: AtomicU32,
    /// `lfu-decay-time`, in minutes
    pub(crate) decay_min: AtomicU32,
}

impl Default for AccessField {
    fn default() -> Self {
        Self {
            is_lfu: AtomicBool::new(false),
            log_factor: AtomicU32::new(10),
            decay_min: AtomicU32::new(1),
        }
    }
}

/// The LRU clock of an instant.
#[must_use]
pub fn lru_clock(now_ms: u64) -> u32 {
    ((now_ms / 1000) as u32 & FIELD_MASK).max(1)
}

/// Seconds since the access recorded in an LRU field; 0 if there was none since the write.
#[must_use]
pub fn idle_seconds(field: u32, now_ms: u64) -> i64 {
    if field == 0 { 0 } else { i64::from(lru_clock(now_ms).wrapping_sub(field) & FIELD_MASK) }
}

fn minutes(now_ms: u64) -> u32 {
    (now_ms / 60_000) as u32 & MINUTES_MASK
}

impl AccessField {
    /// True while the field counts frequency.
    #[must_use]
    pub fn is_lfu(&self) -> bool {
        self.is_lfu.load(Ordering::Relaxed)
    }

    pub(crate) fn set_lfu(&self, on: bool) {
        self.is_lfu.store(on, Ordering::Relaxed);
    }

    /// The field of a key that is written or loaded now.
    #[must_use]
    pub fn fresh(&self, now_ms: u64) -> u32 {
        if self.is_lfu() { minutes(now_ms) << 8 | LFU_START } else { lru_clock(now_ms) }
    }

    /// The field after an access.
    #[must_use]
    #[inline]
    pub fn touched(&self, field: u32, now_ms: u64) -> u32 {
        if !self.is_lfu() {
            return lru_clock(now_ms);
        }
        let mut counter = self.frequency(field, now_ms);
        if counter < 255 {
            let above = u64::from(counter.saturating_sub(LFU_START));
            let factor = u64::from(self.log_factor.load(Ordering::Relaxed));
            let one_of = (above * factor).saturating_add(1);
            counter += u32::from(random().is_multiple_of(one_of));
        }
        minutes(now_ms) << 8 | counter
    }

    /// The field that RESTORE requests: IDLETIME under LRU, FREQ under LFU; `None` if the request contains
    /// nothing that the current policy keeps.
    #[must_use]
    pub fn restored(
        &self,
        idle_seconds: Option<u64>,
        frequency: Option<u8>,
        now_ms: u64,
    ) -> Option<u32> {
        if self.is_lfu() {
            return frequency.map(|counter| minutes(now_ms) << 8 | u32::from(counter));
        }
        let clock = lru_clock(now_ms);
        // As in Redis, an age beyond the clock's start counts as half a turn.
        idle_seconds.map(|seconds| match u64::from(clock).checked_sub(seconds) {
            Some(at) => (at as u32).max(1),
            None => ((clock + FIELD_MASK / 2) % FIELD_MASK).max(1),
        })
    }

    /// The LFU counter with the decay since the last access.
    #[must_use]
    pub fn frequency(&self, field: u32, now_ms: u64) -> u32 {
        let decay_min = self.decay_min.load(Ordering::Relaxed);
        let since_min = minutes(now_ms).wrapping_sub(field >> 8) & MINUTES_MASK;
        let periods = since_min.checked_div(decay_min).unwrap_or(0);
        (field & 0xff).saturating_sub(periods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    #[test]
    fn lru_tells_the_seconds_since_the_access_over_a_turn_of_the_clock() {
        let access = AccessField::default();
        let field = access.touched(0, NOW_MS);
        assert_eq!(idle_seconds(field, NOW_MS + 61_500), 61);
        assert_eq!(idle_seconds(0, NOW_MS), 0);
        let turn_ms = 1000 * (u64::from(FIELD_MASK) + 1);
        let before = lru_clock(turn_ms - 2000);
        assert_eq!(idle_seconds(before, turn_ms + 3000), 5);
    }

    #[test]
    fn restore_sets_what_the_policy_keeps() {
        let access = AccessField::default();
        let field = access.restored(Some(1000), Some(7), NOW_MS).unwrap();
        assert_eq!(idle_seconds(field, NOW_MS), 1000);
        assert_eq!(access.restored(None, Some(7), NOW_MS), None);
        let half_a_turn = i64::from(FIELD_MASK / 2);
        let field = access.restored(Some(u64::MAX), None, NOW_MS).unwrap();
        assert!((half_a_turn - idle_seconds(field, NOW_MS)).abs() <= 2);
        access.set_lfu(true);
        assert_eq!(access.restored(Some(1000), None, NOW_MS), None);
        let field = access.restored(None, Some(200), NOW_MS).unwrap();
        assert_eq!(access.frequency(field, NOW_MS), 200);
    }

    #[test]
    fn lfu_counts_on_a_logarithmic_scale_and_decays_by_the_minute() {
        let access = AccessField::default();
        access.set_lfu(true);
        let mut field = access.fresh(NOW_MS);
        assert_eq!(access.frequency(field, NOW_MS), 5);
        field = access.touched(field, NOW_MS);
        assert_eq!(access.frequency(field, NOW_MS), 6, "the first step is certain");
        for _ in 0..10_000 {
            field = access.touched(field, NOW_MS);
        }
        let counter = access.frequency(field, NOW_MS);
        assert!((20..120).contains(&counter), "{counter} after 10,000 accesses");
        assert_eq!(access.frequency(field, NOW_MS + 7 * 60_000), counter - 7);
        assert_eq!(access.frequency(field, NOW_MS + 600 * 60_000), 0);
        access.decay_min.store(0, Ordering::Relaxed);
        assert_eq!(access.frequency(field, NOW_MS + 600 * 60_000), counter);
    }
}
