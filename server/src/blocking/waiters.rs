//! All clients that wait, by key.

use super::waiter::{State, Waiter, Wants};
use parking_lot::Mutex;
use sexton_engine::Seq;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The error for a group member whose stream was deleted.
pub const STREAM_IS_GONE: &[u8] = b"UNBLOCKED the stream key no longer exists";

/// Waiters per key and database.
type Queues = HashMap<(usize, Vec<u8>), VecDeque<Arc<Waiter>>>;

/// Waiting clients, in order of arrival.
#[derive(Debug, Default)]
pub struct Waiters {
    /// Number of waiters: while it is 0, writers check nothing else.
    count: Arc<AtomicUsize>,
    queues: Mutex<Queues>,
    by_client: Mutex<HashMap<u64, Arc<Waiter>>>,
}

impl Waiters {
    /// Creates an empty registry. `count` is the counter that writers check.
    #[must_use]
    pub fn new(count: Arc<AtomicUsize>) -> Self {
        Self { count, ..Self::default() }
    }

    /// True while any client waits.
    #[inline]
    pub fn are_there(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Adds `waiter`. To be called under the latches of its keys, in the transaction that found nothing there.
    pub fn add(&self, waiter: &Arc<Waiter>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.by_client.lock().insert(waiter.session.id, Arc::clone(waiter));
        let mut queues = self.queues.lock();
        for (index, key) in waiter.keys.iter().enumerate() {
            if !waiter.keys[..index].contains(key) {
                let queue = queues.entry((waiter.db, key.clone())).or_default();
                queue.push_back(Arc::clone(waiter));
            }
        }
    }

    /// `waiter` has its reply or has ended its wait. Elements it was woken for may be left, so the next waiter checks, too.
    pub fn remove(&self, waiter: &Waiter) {
        let mut queues = self.queues.lock();
        for key in &waiter.keys {
            let place = (waiter.db, key.clone());
            if let Some(queue) = queues.get_mut(&place) {
                queue.retain(|other| !std::ptr::eq(Arc::as_ptr(other), waiter));
                if queue.is_empty() {
                    queues.remove(&place);
                }
            }
        }
        drop(queues);
        if self.by_client.lock().remove(&waiter.session.id).is_some() {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
        if waiter.was_woken() {
            let next = waiter.keys.iter().filter_map(|key| self.of(waiter.db, key, |_| true));
            next.for_each(|next| next.wake());
        }
    }

    /// The oldest waiter for the key that `fits`.
    #[must_use]
    pub fn of(&self, db: usize, key: &[u8], fits: impl Fn(&Waiter) -> bool) -> Option<Arc<Waiter>> {
        let queues = self.queues.lock();
        let queue = queues.get(&(db, key.to_vec()))?;
        queue.iter().find(|waiter| waiter.state() == State::Waiting && fits(waiter)).cloned()
    }

    /// True if a client waits for the key.
    #[must_use]
    pub fn wait_for(&self, db: usize, key: &[u8]) -> bool {
        self.queues.lock().contains_key(&(db, key.to_vec()))
    }

    /// Clients that wait for new entries of the stream at this key, oldest first.
    #[must_use]
    pub fn readers_of(&self, db: usize, key: &[u8]) -> Vec<Arc<Waiter>> {
        let queues = self.queues.lock();
        let Some(queue) = queues.get(&(db, key.to_vec())) else { return Vec::new() };
        let reads = |waiter: &&Arc<Waiter>| {
            waiter.state() == State::Waiting && matches!(waiter.wants, Wants::Read(_))
        };
        queue.iter().filter(reads).cloned().collect()
    }

    /// Writes up to `required` have deleted these keys: notifies clients that read as members of a group.
    pub fn tell_gone(&self, keys: Vec<(usize, Vec<u8>)>, required: Seq) {
        for (db, key) in keys {
            for waiter in self.readers_of(db, &key) {
                let is_member = matches!(&waiter.wants, Wants::Read(read) if read.member.is_some());
                if is_member && waiter.claim() {
                    self.remove(&waiter);
                    waiter.answer([b"-", STREAM_IS_GONE, b"\r\n"].concat(), required);
                }
            }
        }
    }

    /// The keys of a database that clients wait for.
    #[must_use]
    pub fn keys_of(&self, db: usize) -> Vec<Vec<u8>> {
        let queues = self.queues.lock();
        queues.keys().filter(|(other, _)| *other == db).map(|(_, key)| key.clone()).collect()
    }

    /// What the client waits for.
    #[must_use]
    pub fn of_client(&self, id: u64) -> Option<Arc<Waiter>> {
        self.by_client.lock().get(&id).cloned()
    }
}
