//! Stores to mapped files of the simulation.

use std::ops::Range;
use std::thread::ThreadId;

use super::crash::{CrashOptions, crash_lines};
use super::random::SimRandom;
use crate::device::units::{PAGE_BYTES, split};

/// Bytes stored to a mapping.
#[derive(Debug, Clone)]
pub(super) struct Copied {
    pub(super) offset: u64,
    pub(super) data: Vec<u8>,
    /// A store fence is for the stores of its own thread.
    pub(super) thread: ThreadId,
}

impl Copied {
    fn stretch(&self) -> Range<u64> {
        self.offset..self.offset + self.data.len() as u64
    }

    fn bytes(&self, stretch: &Range<u64>) -> &[u8] {
        &self.data[(stretch.start - self.offset) as usize..(stretch.end - self.offset) as usize]
    }

    /// What of it a power failure leaves: each line, in part where it is torn, or not.
    pub(super) fn crash(
        &self,
        content: &mut Vec<u8>,
        random: &mut SimRandom,
        options: CrashOptions,
    ) {
        crash_lines(self.stretch(), random, options, |word| {
            store(content, word.start as usize, self.bytes(&word));
        });
    }

    /// Takes the pages of `ranges` out of it; answers those, and the rest.
    pub(super) fn split_by_pages(&self, ranges: &[Range<u64>]) -> (Vec<Self>, Vec<Self>) {
        let is_synced = |page: &Range<u64>| {
            let touches = |range: &Range<u64>| {
                (range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES))
                    .contains(&(page.start / PAGE_BYTES))
            };
            ranges.iter().any(touches)
        };
        let part = |page: Range<u64>| Self {
            offset: page.start,
            data: self.bytes(&page).to_vec(),
            thread: self.thread,
        };
        let (synced, rest): (Vec<_>, Vec<_>) =
            split(self.stretch(), PAGE_BYTES).partition(is_synced);
        (synced.into_iter().map(part).collect(), rest.into_iter().map(part).collect())
    }
}

/// Puts bytes into a file, which grows to hold them.
pub(super) fn store(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(data);
}
