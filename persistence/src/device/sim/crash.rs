//! What a power failure leaves of what was not synced.

use std::ops::Range;

use super::random::SimRandom;
use crate::device::units::{LINE_BYTES, WORD_BYTES, split};

/// The unit that a medium writes as a whole.
pub const SECTOR_BYTES: usize = 512;

/// How a crash treats what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashOptions {
    /// Unsynced operations that survive, in percent; each is decided on its own.
    pub keep_percent: u64,
    /// Surviving writes that are torn, in percent: each of their sectors is decided on its own.
    pub tear_percent: u64,
}

impl Default for CrashOptions {
    fn default() -> Self {
        Self { keep_percent: 50, tear_percent: 30 }
    }
}

impl CrashOptions {
    /// The harshest honest medium: everything unsynced is gone.
    pub const LOSE_ALL: Self = Self { keep_percent: 0, tear_percent: 0 };
    /// `kill -9`: the operating system lives on and writes everything.
    pub const KEEP_ALL: Self = Self { keep_percent: 100, tear_percent: 0 };
}

/// Calls `keep` with each word of a stretch of stores that a power failure leaves: those of whole lines, some of torn
/// ones.
pub(crate) fn crash_lines(
    stretch: Range<u64>,
    random: &mut SimRandom,
    options: CrashOptions,
    mut keep: impl FnMut(Range<u64>),
) {
    for line in split(stretch, LINE_BYTES) {
        if !random.percent(options.keep_percent) {
            continue;
        }
        let torn = random.percent(options.tear_percent);
        for word in split(line, WORD_BYTES) {
            if !torn || random.percent(50) {
                keep(word);
            }
        }
    }
}
