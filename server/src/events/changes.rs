//! The changes of a transaction, in order, and the notifications they cause.
//!
//! Handlers append changes; nobody is notified before the transaction ends. Watchers are notified under its latches, so no
//! EXEC can run between a change and its notification. The tracking table is updated under the latches too; clients that
//! cache are notified after the latches are released. Listeners are notified once the sequence of the write is known: like
//! the reply, messages wait for the log (N13).

use super::Events;
use super::notify::{Event, KEYEVENT_BIT, KEYSPACE_BIT};
use super::pubsub::Kind;
use super::tracking::{Changed, Post, Taken};
use crate::resp::Reply;
use crate::session::Session;
use sexton_engine::Seq;
use std::sync::Arc;

/// One change, or an event without one.
#[derive(Debug)]
struct Change {
    db: usize,
    key: Vec<u8>,
    /// Watchers must be notified: the value or its expiry has changed.
    modifies: bool,
    cached: Cached,
    event: Option<Event>,
}

/// The origin of a change, for clients that are not notified of their own changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The request that runs.
    Request,
    /// Its script: as in Redis, clients that track by prefix are notified of such changes.
    Script,
    /// No request: time, or memory, or another connection that has waited.
    Nobody,
}

/// The effect on the value that clients may have cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cached {
    /// Nothing.
    Stays,
    /// It is another one now.
    Changes(By),
    /// Those of all keys are.
    AllChange,
    /// The connection has read it.
    IsRead,
}

/// The changes of one transaction. While there are no watchers and listeners, they are only counted.
#[derive(Debug, Default)]
pub struct Changes {
    list: Vec<Change>,
    /// The connection whose request runs; 0 for none.
    by: u64,
    /// A script of it does.
    in_script: bool,
    /// Pending notifications for clients that cache. The connection whose request runs receives its own after its reply.
    taken: Vec<Taken>,
    own: Vec<Taken>,
    /// Changes that clients that track by prefix are notified of at the end of the batch.
    broadcast: Changed,
    /// Keys that were written while a client waited for one, with their databases.
    ready: Vec<(usize, Vec<u8>)>,
    /// Changes and log forms of the command that runs.
    written: u32,
    logged: u32,
    /// Looks of the transaction that found a key, and that did not: what is taken back has not looked.
    looks: (u64, u64),
}

impl Changes {
    /// A command of the connection `by` begins; `None` for one of the script that its request is.
    #[inline]
    pub fn begin_command(&mut self, by: Option<u64>) {
        (self.written, self.logged) = (0, 0);
        self.in_script = by.is_none();
        self.by = by.unwrap_or(self.by);
    }

    /// False if the current command has changed something without logging it: the next start would refuse
    /// the log.
    #[must_use]
    pub fn are_logged(&self) -> bool {
        self.written == 0 || self.logged > 0
    }

    /// The command that runs has given the log a form of what it did.
    #[inline]
    pub fn note_logged(&mut self) {
        self.logged += 1;
    }

    /// A key was looked up for reading.
    #[inline]
    pub fn count_lookup(&mut self, found: bool) {
        let (hits, misses) = &mut self.looks;
        *(if found { hits } else { misses }) += 1;
    }

    /// The looks that were counted, once: hits and misses.
    #[inline]
    #[must_use]
    pub fn take_lookups(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.looks)
    }

    /// `key` was written by the command that runs.
    #[inline]
    pub fn write(&mut self, events: &Events, db: usize, key: &[u8], event: Option<Event>) {
        self.written += 1;
        if events.are_used() {
            let by = if self.in_script { By::Script } else { By::Request };
            self.note(events, (db, key), true, Cached::Changes(by), event);
        }
    }

    /// `key` was changed by an operation with a log form of its own, not by a request.
    #[inline]
    pub fn modify(&mut self, events: &Events, db: usize, key: &[u8], event: Option<Event>) {
        if events.are_used() {
            self.note(events, (db, key), true, Cached::Changes(By::Nobody), event);
        }
    }

    /// The value of a watched `key` was replaced, because its database was exchanged.
    pub fn replace_watched(&mut self, events: &Events, db: usize, key: &[u8]) {
        self.note(events, (db, key), true, Cached::Stays, None);
    }

    /// Moves the cache notification for the change of `key` behind the changes that the command has made since.
    pub fn tell_last(&mut self, events: &Events, key: &[u8]) {
        let is_it = |change: &&mut Change| change.key == key && change.cached != Cached::Stays;
        if let Some(change) = self.list.iter_mut().rev().find(is_it) {
            let cached = std::mem::replace(&mut change.cached, Cached::Stays);
            self.note(events, (0, key), false, cached, None);
        }
    }

    /// The last write of `key` changed only data besides its value, such as the groups of a stream, or only its encoding. As in
    /// Redis, neither watchers nor clients that cache are notified.
    pub fn keep_value(&mut self, key: &[u8]) {
        if let Some(change) = self.list.iter_mut().rev().find(|change| change.key == key) {
            (change.modifies, change.cached) = (false, Cached::Stays);
        }
    }

    /// A database is emptied. As in Redis, clients must drop their whole caches.
    pub fn empty(&mut self, events: &Events) {
        if events.tracking.is_used() {
            self.note(events, (0, b""), false, Cached::AllChange, None);
        }
    }

    /// The connection whose command runs has read `key`, which its client may put into its cache.
    pub fn read(&mut self, events: &Events, key: &[u8]) {
        self.note(events, (0, key), false, Cached::IsRead, None);
    }

    /// The connection whose command runs has read a past value of `key`: its client is notified that it is outdated.
    pub fn read_past(&mut self, key: &[u8]) {
        self.own.push(Taken::Key(key.to_vec(), vec![self.by], 0));
    }

    /// An event that changes nothing, or one more for the last change.
    #[inline]
    pub fn tell(&mut self, events: &Events, db: usize, key: &[u8], event: Event) {
        if events.are_used() {
            self.note(events, (db, key), false, Cached::Stays, Some(event));
        }
    }

    /// Notes a change for those who must be told of it. Most writes end here without: that is what clients that watch or
    /// cache other keys cost.
    #[inline]
    fn note(
        &mut self,
        events: &Events,
        place: (usize, &[u8]),
        modifies: bool,
        cached: Cached,
        event: Option<Event>,
    ) {
        let is_awaited = modifies && events.awaited.may_have(place.1);
        // Nobody can begin to track or to watch the key before the transaction ends: its latch is held. But a read of it
        // may be among the changes already.
        let is_tracked = match cached {
            Cached::Stays => false,
            Cached::Changes(_) if self.list.is_empty() => events.tracking.is_told_of(place.1),
            Cached::Changes(_) | Cached::AllChange | Cached::IsRead => events.tracking.is_used(),
        };
        let watches = &events.watches;
        let is_watched = modifies && watches.is_used() && watches.may_be_told_of(place.1);
        let is_told = is_tracked || is_watched || event.is_some_and(|event| events.is_heard(event));
        if is_awaited || is_told {
            self.push(place, is_awaited, is_told.then_some((modifies, cached, event)));
        }
    }

    #[cold]
    fn push(
        &mut self,
        (db, key): (usize, &[u8]),
        is_awaited: bool,
        told: Option<(bool, Cached, Option<Event>)>,
    ) {
        if is_awaited {
            self.ready.push((db, key.to_vec()));
        }
        if let Some((modifies, cached, event)) = told {
            self.list.push(Change { db, key: key.to_vec(), modifies, cached, event });
        }
    }

    /// The transaction is taken back.
    pub fn forget(&mut self) {
        self.list = Vec::new();
        self.ready = Vec::new();
        self.looks = (0, 0);
    }

    /// True when somebody may wait for what was written.
    #[inline]
    #[must_use]
    pub fn are_awaited(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Keys that may have elements for waiters, in the order of the writes.
    #[inline]
    #[must_use]
    pub fn take_ready(&mut self) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.ready)
    }

    /// A key has a new value without a write, because its database was exchanged.
    pub fn note_ready(&mut self, db: usize, key: Vec<u8>) {
        self.ready.push((db, key));
    }

    /// Notifies watchers of the changes, and updates the tracking table. To be called before the transaction
    /// ends, under its latches.
    #[inline]
    pub fn signal(&mut self, events: &Events) {
        if !self.list.is_empty() {
            self.signal_watchers(events);
            self.track(events);
        }
    }

    #[cold]
    fn signal_watchers(&self, events: &Events) {
        for change in self.list.iter().filter(|change| change.modifies) {
            events.watches.touch(change.db, &change.key);
        }
    }

    /// Processes the changes in command order: values read before the transaction changed them must be forgotten; values
    /// read after that are current.
    fn track(&mut self, events: &Events) {
        let tracking = &events.tracking;
        if !tracking.is_used() {
            return;
        }
        for Change { key, cached, .. } in &self.list {
            match *cached {
                Cached::Stays => {}
                Cached::IsRead => tracking.remember(key, self.by),
                Cached::Changes(by) => {
                    if tracking.has_prefix_of(key) {
                        let by = if by == By::Request { self.by } else { 0 };
                        self.broadcast.insert(key.clone(), by);
                    }
                    let by = if by == By::Nobody { 0 } else { self.by };
                    if let Some(readers) = tracking.take(key) {
                        self.taken.push(Taken::Key(key.clone(), readers, by));
                    }
                }
                Cached::AllChange => {
                    tracking.take_all();
                    self.taken.push(Taken::All);
                }
            }
        }
    }

    /// Notifies clients that cache of the changes, which are visible by now. The connection whose request runs is notified by
    /// [`Changes::tell_own`].
    #[inline]
    pub fn tell_caches(&mut self, events: &Events, post: Post<'_>) {
        if !self.taken.is_empty() {
            events.tracking.tell(post, &self.taken, self.by);
            self.own.append(&mut self.taken);
        }
    }

    /// Notifies the connection whose request has run of its own changes, after its reply.
    #[inline]
    pub fn tell_own(&mut self, events: &Events, post: Post<'_>, own: (&Arc<Session>, &mut Reply)) {
        if !self.own.is_empty() {
            events.tracking.tell_own(post, std::mem::take(&mut self.own), own);
        }
    }

    /// Ends the batch: notifies clients that track by prefix of its changes. `own`: the connection that sent the requests,
    /// and its replies.
    #[inline]
    pub fn end_batch(
        &mut self,
        events: &Events,
        post: Post<'_>,
        own: Option<(&Session, &mut Reply)>,
    ) {
        if !self.broadcast.is_empty() {
            let own = own.map(|(session, out)| (session.id, out));
            events.tracking.broadcast(post, &std::mem::take(&mut self.broadcast), own);
        }
    }

    /// Notifies watchers of the changes so far, which are then not reported again at the end: a client that starts to watch
    /// now is notified of none of them. To be called under the latches of their keys.
    pub fn signal_so_far(&mut self, events: &Events) {
        if !self.list.is_empty() {
            self.signal_watchers(events);
        }
        self.list.iter_mut().for_each(|change| change.modifies = false);
    }

    /// Notifies listeners of the changes, which depend on writes up to `required`.
    #[inline]
    pub fn publish(&mut self, events: &Events, required: Seq) {
        if !self.list.is_empty() {
            self.publish_all(events, required);
        }
    }

    #[cold]
    fn publish_all(&mut self, events: &Events, required: Seq) {
        for Change { db, key, event, .. } in std::mem::take(&mut self.list) {
            let Some(Event { class, name }) = event else { continue };
            let bits = events.switch.bits_for(class);
            if bits & KEYSPACE_BIT != 0 {
                let channel = [format!("__keyspace@{db}__:").as_bytes(), &key].concat();
                events.pubsub.publish(Kind::Channel, &channel, name.as_bytes(), required);
            }
            if bits & KEYEVENT_BIT != 0 {
                let channel = format!("__keyevent@{db}__:{name}");
                events.pubsub.publish(Kind::Channel, channel.as_bytes(), &key, required);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;
    use sexton_config::value::Events as Classes;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn events_are_published_in_order_with_the_write_they_tell_of() {
        let (events, mut changes) = (Events::default(), Changes::default());
        let session = Arc::new(Session::default());
        events.pubsub.subscribe(Kind::Pattern, b"__key*", &session);
        changes.write(&events, 3, b"k", Some(Event::string("set")));
        changes.publish(&events, 5);
        assert_eq!(session.outbox.bytes(), 0, "nothing is on");
        events.switch.set(Classes::parse(b"E$").unwrap());
        changes.write(&events, 3, b"k", Some(Event::generic("del")));
        changes.write(&events, 3, b"k", Some(Event::string("set")));
        assert_eq!(session.outbox.bytes(), 0, "the write has no sequence yet");
        changes.publish(&events, 5);
        let parcel = session.outbox.take();
        let text = String::from_utf8(parcel.bytes).unwrap();
        assert!(text.contains("__keyevent@3__:set") && !text.contains("del"), "{text}");
        assert!(!text.contains("__keyspace"), "{text}");
        assert_eq!(parcel.marks, [(0, 5)]);
    }

    #[test]
    fn watchers_hear_of_changes_alone_and_of_none_that_was_taken_back() {
        let (events, mut changes) = (Events::default(), Changes::default());
        let dirty = Arc::new(AtomicBool::new(false));
        assert!(events.watches.watch(0, b"k", &dirty));
        changes.tell(&events, 0, b"k", Event::MISS);
        changes.signal(&events);
        changes.write(&events, 0, b"k", Some(Event::string("set")));
        changes.forget();
        changes.signal(&events);
        assert!(!dirty.load(Ordering::Relaxed));
        changes.write(&events, 0, b"k", Some(Event::string("set")));
        changes.signal(&events);
        assert!(dirty.load(Ordering::Relaxed));
    }

    #[test]
    fn watchers_do_not_hear_of_what_stands_beside_a_value() {
        let (events, mut changes) = (Events::default(), Changes::default());
        let dirty = Arc::new(AtomicBool::new(false));
        assert!(events.watches.watch(0, b"k", &dirty));
        changes.write(&events, 0, b"k", Some(Event::stream("xgroup-create")));
        changes.keep_value(b"k");
        changes.signal(&events);
        assert!(!dirty.load(Ordering::Relaxed));
        changes.write(&events, 0, b"k", Some(Event::stream("xadd")));
        changes.write(&events, 0, b"k", Some(Event::stream("xgroup-create")));
        changes.keep_value(b"k");
        changes.signal(&events);
        assert!(dirty.load(Ordering::Relaxed), "only the last one");
    }

    #[test]
    fn who_begins_to_watch_hears_of_no_change_before() {
        let (events, mut changes) = (Events::default(), Changes::default());
        let [before, since] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        assert!(events.watches.watch(0, b"k", &before));
        changes.modify(&events, 0, b"k", Some(Event::EXPIRED));
        changes.signal_so_far(&events);
        assert!(events.watches.watch(0, b"k", &since));
        changes.signal(&events);
        assert!(before.load(Ordering::Relaxed) && !since.load(Ordering::Relaxed));
    }

    #[test]
    fn only_keys_that_somebody_waits_for_may_be_ready() {
        let (events, mut changes) = (Events::default(), Changes::default());
        events.awaited.begin();
        events.awaited.add(b"k");
        for (key, count) in [(&b"other"[..], 0), (b"k", 1)] {
            changes.write(&events, 2, key, Some(Event::string("set")));
            let ready = changes.take_ready();
            assert_eq!(ready, vec![(2, key.to_vec()); count], "{key:?}");
        }
        events.awaited.remove(b"k");
        changes.write(&events, 2, b"k", Some(Event::string("set")));
        assert_eq!(changes.take_ready(), []);
    }

    #[test]
    fn a_change_without_a_log_form_is_seen() {
        let (events, mut changes) = (Events::default(), Changes::default());
        changes.write(&events, 0, b"k", Some(Event::string("set")));
        assert!(!changes.are_logged());
        changes.note_logged();
        assert!(changes.are_logged());
        changes.begin_command(Some(0));
        changes.modify(&events, 0, b"k", Some(Event::EXPIRED));
        assert!(changes.are_logged(), "it has a log form of its own");
    }
}
