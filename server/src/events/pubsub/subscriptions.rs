//! What one connection listens to.

use super::{KINDS, Kind, PubSub};
use crate::session::Session;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The names of each kind, as the connection itself knows them.
#[derive(Debug, Default)]
pub struct Subscriptions {
    names: [BTreeSet<Vec<u8>>; 3],
    /// Bytes of all names.
    bytes: usize,
}

impl Subscriptions {
    /// True when the connection listens to nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// The count in confirmations of this kind: channels and patterns are counted together, shard
    /// channels separately.
    #[must_use]
    pub fn count_with(&self, kind: Kind) -> usize {
        let len = |kind: Kind| self.names[kind as usize].len();
        match kind {
            Kind::Channel | Kind::Pattern => len(Kind::Channel) + len(Kind::Pattern),
            Kind::Shard => len(Kind::Shard),
        }
    }

    /// Bytes of all names.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All names of a kind.
    #[must_use]
    pub fn names(&self, kind: Kind) -> Vec<Vec<u8>> {
        self.names[kind as usize].iter().cloned().collect()
    }

    /// Listens to one more name.
    pub fn add(&mut self, pubsub: &PubSub, kind: Kind, name: &[u8], session: &Arc<Session>) {
        if self.names[kind as usize].insert(name.to_vec()) {
            self.bytes += name.len();
            pubsub.subscribe(kind, name, session);
        }
        self.show(session);
    }

    /// Listens no more.
    pub fn remove(&mut self, pubsub: &PubSub, kind: Kind, name: &[u8], session: &Session) {
        if self.names[kind as usize].remove(name) {
            self.bytes -= name.len();
            pubsub.unsubscribe(kind, name, session);
        }
        self.show(session);
    }

    /// Listens to nothing any more: RESET, or the end of the connection.
    pub fn clear(&mut self, pubsub: &PubSub, session: &Session) {
        self.bytes = 0;
        for kind in KINDS {
            for name in std::mem::take(&mut self.names[kind as usize]) {
                pubsub.unsubscribe(kind, &name, session);
            }
        }
        self.show(session);
    }

    /// For CLIENT LIST.
    fn show(&self, session: &Session) {
        for kind in KINDS {
            let count = self.names[kind as usize].len();
            session.subscriptions[kind as usize].store(count, Ordering::Relaxed);
        }
    }
}
