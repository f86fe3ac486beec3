//! The queue of the cold-read threads, and what they count.
//!
//! A request for many keys or pages may have hundreds of reads queued. Those of small requests overtake them, but not always: neither kind
//! waits for the other for ever.

use super::load::{Request, Want};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One read.
pub(super) struct Read {
    pub(super) want: Want,
    pub(super) ticket: u64,
}

/// What a cold-read thread does next.
pub(super) enum Job {
    Read(Read),
    /// Asks for more of what a request wants.
    Ask(Request),
}

/// Keys and pages up to which a request is a small one.
const FEW: usize = 16;

/// Of so many jobs one is of a large request, while both wait.
const LARGE_EVERY: u32 = 4;

/// Jobs that wait.
#[derive(Default)]
struct Queue {
    of_small: VecDeque<Job>,
    of_large: VecDeque<Job>,
    /// Jobs of small requests that have overtaken others since one of those had its turn.
    overtook: u32,
}

impl Queue {
    fn pop(&mut self) -> Option<Job> {
        let large_waits = !self.of_large.is_empty();
        if self.of_small.is_empty() || (large_waits && self.overtook + 1 >= LARGE_EVERY) {
            self.overtook = 0;
            return self.of_large.pop_front();
        }
        self.overtook += u32::from(large_waits);
        self.of_small.pop_front()
    }
}

/// Queue and figures of the cold-read threads.
pub(in crate::store) struct ColdReads {
    queue: Mutex<Queue>,
    arrived: Condvar,
    pub(super) stop: AtomicBool,
    pub(super) tickets: AtomicU64,
    pub(in crate::store) threads: usize,
    pub(in crate::store) reads: AtomicU64,
    pub(in crate::store) found: AtomicU64,
    /// Entries that left the DRAM table for want of room.
    pub(in crate::store) evicted: AtomicU64,
}

impl ColdReads {
    pub(in crate::store) fn new(threads: usize) -> Self {
        Self {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            stop: AtomicBool::new(false),
            tickets: AtomicU64::new(1),
            threads: threads.max(1),
            reads: AtomicU64::new(0),
            found: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    pub(in crate::store) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let _queue = self.queue.lock();
        self.arrived.notify_all();
    }

    pub(super) fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if self.stop.load(Ordering::Acquire) {
                return None;
            }
            if let Some(job) = queue.pop() {
                return Some(job);
            }
            self.arrived.wait(&mut queue);
        }
    }

    pub(super) fn next_queued(&self) -> Option<Job> {
        self.queue.lock().pop()
    }

    /// Jobs of a request for `wanted` keys and pages.
    pub(super) fn push(&self, wanted: usize, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let mut queue = self.queue.lock();
        if wanted <= FEW {
            queue.of_small.extend(jobs);
        } else {
            queue.of_large.extend(jobs);
        }
        self.arrived.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OwnedKey;

    fn job(ticket: u64) -> Job {
        let want = Want::key(OwnedKey { slot: 0, hash: 0, bytes: Vec::new() });
        Job::Read(Read { want, ticket })
    }

    #[test]
    fn small_requests_overtake_large_ones_which_have_their_turns() {
        let reads = ColdReads::new(1);
        reads.push(FEW + 1, (100..104).map(job).collect());
        reads.push(1, (0..5).map(job).collect());
        reads.push(FEW, vec![job(5)]);
        let order = std::iter::from_fn(|| match reads.next_queued()? {
            Job::Read(read) => Some(read.ticket),
            Job::Ask(_) => None,
        });
        assert_eq!(order.collect::<Vec<u64>>(), [0, 1, 2, 100, 3, 4, 5, 101, 102, 103]);
    }
}
