//! Estimates how fast a device makes the log durable, from its last large syncs.

use std::time::Duration;

/// Smaller syncs are too noisy to estimate bandwidth, and are not worth an early start.
pub(super) const RATED_BYTES_MIN: u64 = 8 << 20;

/// Assumed bytes per second of a device until it has been measured.
const RATE_AT_FIRST: u64 = 64 << 20;

/// Busy time after which a sync counts half, in seconds, since other load on the device varies.
const HALF_LIFE_S: f64 = 1.0;

/// Sums over syncs, with the older ones decaying. Bytes and times are summed before they are divided: a device also works on
/// what is written during a sync, so that a long sync of few bytes is followed by a short one of many, and
/// neither tells the rate alone.
#[derive(Debug, Default)]
pub(super) struct DeviceRate {
    bytes: f64,
    /// Time in which the device had bytes of the log to write, and the part of it spent in syncs.
    busy_s: f64,
    syncing_s: f64,
}

impl DeviceRate {
    /// A sync of at least [`RATED_BYTES_MIN`] has made `bytes` durable in `took`. For `busy` the device was
    /// busy with these bytes and with none before them.
    pub(super) fn add(&mut self, bytes: u64, took: Duration, busy: Duration) {
        let busy_s = busy.as_secs_f64().max(1e-6);
        let fading = (-busy_s / HALF_LIFE_S).exp2();
        self.bytes = self.bytes * fading + bytes as f64;
        self.busy_s = self.busy_s * fading + busy_s;
        self.syncing_s = self.syncing_s * fading + took.as_secs_f64().min(busy_s);
    }

    /// Bytes that the device makes durable within `time`.
    pub(super) fn bytes_in(&self, time: Duration) -> u64 {
        let bytes_per_s =
            if self.busy_s > 0.0 { self.bytes / self.busy_s } else { RATE_AT_FIRST as f64 };
        (bytes_per_s * time.as_secs_f64()) as u64
    }

    /// The device is what the log waits for: more than half of the time went by in syncs.
    pub(super) fn is_bound(&self) -> bool {
        self.syncing_s > self.busy_s / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_was_written_during_a_long_sync_does_not_make_the_device_fast() {
        let mut rate = DeviceRate::default();
        assert_eq!(rate.bytes_in(ms(500)), 32 * MIB, "until it has shown its own");
        for _ in 0..5 {
            rate.add(33 * MIB, ms(1200), ms(1200));
            rate.add(165 * MIB, ms(150), ms(150));
            let per_s = rate.bytes_in(ms(1000)) / MIB;
            assert!((130..=170).contains(&per_s), "198 MiB in 1.35 s: {per_s} MiB/s");
        }
    }

    #[test]
    fn the_last_syncs_count_more() {
        let mut rate = DeviceRate::default();
        rate.add(100 * MIB, ms(900), ms(1000));
        assert_eq!(rate.bytes_in(ms(250)), 25 * MIB);
        rate.add(10 * MIB, ms(900), ms(1000));
        assert_eq!(rate.bytes_in(ms(1000)), 40 * MIB, "60 of 1.5 s");
        for _ in 0..20 {
            rate.add(10 * MIB, ms(900), ms(1000));
        }
        assert_eq!(rate.bytes_in(ms(1000)) / MIB, 10);
    }
}
