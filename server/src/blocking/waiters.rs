//! All clients that wait, by key.

use super::waiter::{State, Waiter, Wants};
use crate::events::AwaitedKeys;
use parking_lot::Mutex;
use sexton_engine::Seq;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The error for a group member whose stream was deleted.
pub const STREAM_IS_GONE: &[u8] = b"UNBLOCKED the stream key no longer exists";

/// Waiters per key and database.
type Queues = HashMap<(usize, Vec<u8>), VecDeque<Arc<Waiter>>>;

/// Waiting clients, in order of arrival.
#[derive(Debug, Default)]
pub struct Waiters {
    /// Their keys: a writer of any other key checks nothing else.
    awaited: Arc<AwaitedKeys>,
    queues: Mutex<Queues>,
    by_client: Mutex<HashMap<u64, Arc<Waiter>>>,
}

impl Waiters {
    /// Creates an empty registry. `awaited` is what writers check.
    #[must_use]
    pub fn new(awaited: Arc<AwaitedKeys>) -> Self {
        Self { awaited, ..Self::default() }
    }

    /// Adds `waiter`. To be called under the latches of its keys, in the transaction that found nothing there.
    pub fn add(&self, waiter: &Arc<Waiter>) {
        self.awaited.begin();
        self.by_client.lock().insert(waiter.session.id, Arc::clone(waiter));
        let mut queues = self.queues.lock();
        for (index, key) in waiter.keys.iter().enumerate() {
            if !waiter.keys[..index].contains(key) {
                let queue = queues.entry((waiter.db, key.clone())).or_default();
                queue.push_back(Arc::clone(waiter));
                self.awaited.add(key);
            }
        }
    }

    /// `waiter` has its reply or has ended its wait. Elements it was woken for may be left, so the next waiter checks, too.
    pub fn remove(&self, waiter: &Waiter) {
        let mut queues = self.queues.lock();
        for key in &waiter.keys {
            let place = (waiter.db, key.clone());
            if let Some(queue) = queues.get_mut(&place) {
                let before = queue.len();
                queue.retain(|other| !std::ptr::eq(Arc::as_ptr(other), waiter));
                if queue.len() < before {
                    self.awaited.remove(key);
                }
                if queue.is_empty() {
                    queues.remove(&place);
                }
            }
        }
        drop(queues);
        if self.by_client.lock().remove(&waiter.session.id).is_some() {
            self.awaited.end();
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

    /// True if a client waits for the key. To be called under its latch.
    #[inline]
    #[must_use]
    pub fn wait_for(&self, db: usize, key: &[u8]) -> bool {
        self.awaited.may_have(key) && self.queues.lock().contains_key(&(db, key.to_vec()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::{Pop, Side};
    use crate::session::Session;

    #[test]
    fn a_key_is_awaited_until_the_last_who_waits_for_it_is_gone() {
        let awaited = Arc::default();
        let waiters = Waiters::new(Arc::clone(&awaited));
        let wait = |id, keys: &[&[u8]]| {
            let mut session = Session::default();
            session.id = id;
            let keys = keys.iter().map(|key| key.to_vec()).collect();
            let wants = Wants::Pop(Pop { scored: false, side: Side::First, count: None });
            let waiter = Arc::new(Waiter::new(Arc::new(session), 0, keys, wants));
            waiters.add(&waiter);
            waiter
        };
        let (of_both, of_one) = (wait(1, &[b"a", b"a", b"b"]), wait(2, &[b"a"]));
        let may_have = || [b"a", b"b", b"c"].map(|key| awaited.may_have(key));
        assert_eq!(may_have(), [true, true, false]);
        waiters.remove(&of_both);
        waiters.remove(&of_both);
        assert_eq!(may_have(), [true, false, false]);
        assert!(waiters.wait_for(0, b"a") && !waiters.wait_for(1, b"a"));
        waiters.remove(&of_one);
        assert_eq!((may_have(), awaited.are_there()), ([false; 3], false));
    }
}
