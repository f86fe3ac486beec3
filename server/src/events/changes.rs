//! What a transaction has changed, in order, and what others hear of it.
//!
//! Handlers append; nobody is told before the transaction ends. Watchers are told under its latches, so that no EXEC can
//! run between the change and the news of it. Listeners are told when the sequence of the write is known: like the reply,
//! messages wait for the log (N13).

use super::Events;
use super::notify::{Event, KEYEVENT_BIT, KEYSPACE_BIT};
use super::pubsub::Kind;
use sexton_engine::Seq;

/// One change, or an event without one.
#[derive(Debug)]
struct Change {
    db: usize,
    key: Vec<u8>,
    /// The value or its expiry is another one now.
    modifies: bool,
    event: Option<Event>,
}

/// The changes of one transaction. While nobody watches or listens, they are only counted.
#[derive(Debug, Default)]
pub struct Changes {
    list: Vec<Change>,
    /// Keys that were written while somebody waited for one, with their databases.
    ready: Vec<(usize, Vec<u8>)>,
    /// Changes and log forms of the command that runs.
    written: u32,
    logged: u32,
}

impl Changes {
    /// A command begins.
    #[inline]
    pub fn begin_command(&mut self) {
        (self.written, self.logged) = (0, 0);
    }

    /// False when the command that runs has changed something and has logged nothing: the next start would refuse
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

    /// `key` was written by the command that runs.
    #[inline]
    pub fn write(&mut self, events: &Events, db: usize, key: &[u8], event: Option<Event>) {
        self.written += 1;
        self.modify(events, db, key, event);
    }

    /// `key` is another one now, by something that has a log form of its own.
    #[inline]
    pub fn modify(&mut self, events: &Events, db: usize, key: &[u8], event: Option<Event>) {
        if events.are_used() {
            self.push(events, db, key, true, event);
        }
    }

    /// An event that changes nothing, or one more for the last change.
    #[inline]
    pub fn tell(&mut self, events: &Events, db: usize, key: &[u8], event: Event) {
        if events.are_used() {
            self.push(events, db, key, false, Some(event));
        }
    }

    #[cold]
    fn push(
        &mut self,
        events: &Events,
        db: usize,
        key: &[u8],
        modifies: bool,
        event: Option<Event>,
    ) {
        if modifies && events.are_waiting() {
            self.ready.push((db, key.to_vec()));
        }
        let is_heard = event.is_some_and(|event| events.is_heard(event));
        if is_heard || (modifies && events.watches.is_used()) {
            self.list.push(Change { db, key: key.to_vec(), modifies, event });
        }
    }

    /// The transaction is taken back.
    pub fn forget(&mut self) {
        self.list = Vec::new();
        self.ready = Vec::new();
    }

    /// Keys that may have what somebody waits for, in the order in which they were written.
    #[inline]
    #[must_use]
    pub fn take_ready(&mut self) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.ready)
    }

    /// A key that nobody has written has something else now: its database is another one.
    pub fn note_ready(&mut self, db: usize, key: Vec<u8>) {
        self.ready.push((db, key));
    }

    /// Watchers hear of the changes. To be called before the transaction ends, under its latches.
    #[inline]
    pub fn signal(&self, events: &Events) {
        if !self.list.is_empty() {
            self.signal_all(events);
        }
    }

    #[cold]
    fn signal_all(&self, events: &Events) {
        for change in self.list.iter().filter(|change| change.modifies) {
            events.watches.touch(change.db, &change.key);
        }
    }

    /// Watchers hear of the changes so far, and not once more at the end: who begins to watch now hears of none of them.
    /// To be called under the latches of their keys.
    pub fn signal_so_far(&mut self, events: &Events) {
        self.signal(events);
        self.list.iter_mut().for_each(|change| change.modifies = false);
    }

    /// Listeners hear of the changes, which tell of writes up to `required`.
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
    fn a_change_without_a_log_form_is_seen() {
        let (events, mut changes) = (Events::default(), Changes::default());
        changes.write(&events, 0, b"k", Some(Event::string("set")));
        assert!(!changes.are_logged());
        changes.note_logged();
        assert!(changes.are_logged());
        changes.begin_command();
        changes.modify(&events, 0, b"k", Some(Event::EXPIRED));
        assert!(changes.are_logged(), "it has a log form of its own");
    }
}
