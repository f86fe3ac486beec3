//! The queue of the cold-read threads, and what they count.

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

/// Queue and figures of the cold-read threads.
pub(in crate::store) struct ColdReads {
    queue: Mutex<VecDeque<Job>>,
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
            queue: Mutex::new(VecDeque::new()),
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
            if let Some(job) = queue.pop_front() {
                return Some(job);
            }
            self.arrived.wait(&mut queue);
        }
    }

    pub(super) fn next_queued(&self) -> Option<Job> {
        self.queue.lock().pop_front()
    }

    pub(super) fn push(&self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let mut queue = self.queue.lock();
        queue.extend(jobs);
        self.arrived.notify_all();
    }
}
