//! CLIENT TRACKING: invalidation messages for client-side caches.
//!
//! A read remembers its keys, and a write removes them, both under the latch of the key and in the order of the
//! transaction (N19). Invalidations are sent once the write is visible, and before it is answered. So a client that
//! has read the old value gets the invalidation after that reply, and a client that has got it reads the new value.

mod message;
mod prefixes;
mod table;

pub use message::Post;

use crate::resp::Reply;
use crate::session::{Session, TrackingMode};
use message::News;
use prefixes::PrefixTable;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use table::{ReaderTable, Readers};

/// Changed keys, and the connection of the last change; 0 for changes without a request.
pub(super) type Changed = BTreeMap<Vec<u8>, u64>;

/// All caches of clients.
#[derive(Debug, Default)]
pub struct Tracking {
    /// Number of tracking connections plus remembered keys: writers check this one word.
    live: AtomicUsize,
    clients: AtomicUsize,
    readers: ReaderTable,
    /// Those of the connections that track by prefix.
    prefixes: PrefixTable,
    /// `tracking-table-max-keys`; 0 for no bound.
    max_keys: AtomicU64,
    /// Most memory of what is remembered; 0 for no bound.
    max_bytes: AtomicU64,
}

/// An entry that a transaction has removed, pending notification.
#[derive(Debug)]
pub(super) enum Taken {
    /// A key, its readers, and the connection whose request changed it.
    Key(Vec<u8>, Readers, u64),
    /// All of them.
    All,
}

impl Tracking {
    /// True while a write must be noted.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        self.live.load(Ordering::Relaxed) != 0
    }

    /// True if a client tracks a prefix of `key`.
    #[inline]
    pub(super) fn has_prefix_of(&self, key: &[u8]) -> bool {
        self.prefixes.has_prefix_of(key)
    }

    /// True if a change of `key` may have to be told. To be called under its latch.
    #[inline]
    pub(super) fn is_told_of(&self, key: &[u8]) -> bool {
        self.is_used() && (self.has_prefix_of(key) || self.readers.may_have(key))
    }

    /// Number of connections that track.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Number of keys that are remembered, and of pairs of a key and a connection.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize) {
        (self.readers.keys(), self.readers.items())
    }

    /// Number of prefixes in use.
    #[must_use]
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }

    /// `tracking-table-max-keys`; 0 for no bound.
    pub fn set_max_keys(&self, max: u64) {
        self.max_keys.store(max, Ordering::Relaxed);
    }

    /// Most memory of what is remembered; 0 for no bound.
    pub fn set_max_bytes(&self, max: u64) {
        self.max_bytes.store(max, Ordering::Relaxed);
    }

    /// CLIENT TRACKING ON: with these options, `redirect` (0: none) is notified in place of the connection. `prefixes` are those
    /// that it has not registered before.
    pub fn start(
        &self,
        session: &Arc<Session>,
        (mode, redirect): (TrackingMode, u64),
        prefixes: &[&[u8]],
    ) {
        if !session.tracking.is_on() {
            self.clients.fetch_add(1, Ordering::Relaxed);
            self.live.fetch_add(1, Ordering::Relaxed);
        }
        session.tracking.set(mode.and(TrackingMode::ON), redirect);
        self.prefixes.add(session, prefixes);
    }

    /// CLIENT TRACKING OFF, RESET, or the end of the connection. `prefixes` are its registered ones. Its remembered keys stay in
    /// the table until they change.
    pub fn stop(&self, session: &Session, prefixes: &BTreeSet<Vec<u8>>) {
        if !session.tracking.is_on() {
            return;
        }
        session.tracking.set(TrackingMode::NONE, 0);
        self.prefixes.remove(session, prefixes);
        self.clients.fetch_sub(1, Ordering::Relaxed);
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    /// True if the connection `id` has read `key`, and nobody has changed it since.
    #[must_use]
    pub fn remembers(&self, key: &[u8], id: u64) -> bool {
        self.readers.has(key, id)
    }

    /// The connection `id` has read `key`. To be called under the key's latch.
    pub fn remember(&self, key: &[u8], id: u64) {
        self.live.fetch_add(self.readers.add(key, id), Ordering::Relaxed);
    }

    /// `key` changes. To be called under its latch.
    pub(super) fn take(&self, key: &[u8]) -> Option<Readers> {
        let readers = self.readers.take(key)?;
        self.live.fetch_sub(1, Ordering::Relaxed);
        Some(readers)
    }

    /// All keys change. To be called under all latches.
    pub(super) fn take_all(&self) {
        self.live.fetch_sub(self.readers.clear(), Ordering::Relaxed);
    }

    /// True while more keys are remembered than `tracking-table-max-keys` or memory allows.
    #[inline]
    fn is_over_limit(&self) -> bool {
        let is_over = |size: usize, max: &AtomicU64| {
            let max = max.load(Ordering::Relaxed);
            max != 0 && size as u64 > max
        };
        is_over(self.readers.keys(), &self.max_keys)
            || is_over(self.readers.bytes(), &self.max_bytes)
    }

    /// Forgets keys, and notifies their readers, until the number of keys is within the limit.
    #[inline]
    pub fn keep_limit(&self, post: Post<'_>) {
        while self.is_over_limit() {
            let Some((key, readers)) = self.readers.take_any() else { break };
            self.live.fetch_sub(1, Ordering::Relaxed);
            tell_readers(post, &key, &readers, 0);
        }
    }

    /// Sends invalidations for removed entries. The connection that sent the request, `own`, is notified by [`Tracking::tell_own`].
    pub(super) fn tell(&self, post: Post<'_>, taken: &[Taken], own: u64) {
        for taken in taken {
            match taken {
                Taken::Key(key, readers, by) => {
                    let others: Readers = readers.iter().copied().filter(|&id| id != own).collect();
                    tell_readers(post, key, &others, *by);
                }
                Taken::All => {
                    for session in post.sessions.all() {
                        if session.id != own && session.tracking.is_on() {
                            post.tell(&session, News::All, None);
                        }
                    }
                }
            }
        }
    }

    /// Notifies the connection that sent the request, after its reply.
    pub(super) fn tell_own(
        &self,
        post: Post<'_>,
        taken: Vec<Taken>,
        (own, out): (&Arc<Session>, &mut Reply),
    ) {
        for taken in taken {
            let id = own.id;
            match taken {
                Taken::Key(key, readers, by) => {
                    if readers.contains(&id) && hears(own, by) {
                        post.tell(own, News::Keys(&[&key]), Some((id, out)));
                    }
                }
                Taken::All if own.tracking.is_on() => {
                    post.tell(own, News::All, Some((id, out)));
                }
                Taken::All => {}
            }
        }
    }

    /// Notifies clients that track by prefix, with one message per prefix. The client that sent the requests is notified
    /// after its replies.
    pub(super) fn broadcast(
        &self,
        post: Post<'_>,
        changed: &Changed,
        mut own: Option<(u64, &mut Reply)>,
    ) {
        let prefixes = self.prefixes.lock();
        for (prefix, listeners) in prefixes.iter() {
            let from = (Bound::Included(prefix.as_slice()), Bound::Unbounded);
            let keys: Vec<(&[u8], u64)> = changed
                .range::<[u8], _>(from)
                .map(|(key, by)| (key.as_slice(), *by))
                .take_while(|(key, _)| key.starts_with(prefix))
                .collect();
            for listener in listeners {
                let quiet = listener.tracking.mode().has(TrackingMode::NOLOOP);
                let keys: Vec<&[u8]> = keys
                    .iter()
                    .filter(|(_, by)| !quiet || *by != listener.id)
                    .map(|&(key, _)| key)
                    .collect();
                if !keys.is_empty() {
                    let own = own.as_mut().map(|(id, out)| (*id, &mut **out));
                    post.tell(listener, News::Keys(&keys), own);
                }
            }
        }
    }
}

/// True if a reader must be notified of a change by this connection.
fn hears(reader: &Session, by: u64) -> bool {
    let mode = reader.tracking.mode();
    // What is remembered may be from before it was another mode.
    mode.has(TrackingMode::ON)
        && !mode.has(TrackingMode::BCAST)
        && !(mode.has(TrackingMode::NOLOOP) && by == reader.id)
}

fn tell_readers(post: Post<'_>, key: &[u8], readers: &[u64], by: u64) {
    for session in readers.iter().filter_map(|&id| post.sessions.get(id)) {
        if hears(&session, by) {
            post.tell(&session, News::Keys(&[key]), None);
        }
    }
}
