//! Key-space notifications: what commands call where Redis calls `notifyKeyspaceEvent`.
//!
//! Events are gathered by the thread that runs the command and published by [`release`] when the sequence
//! of the write is known: like its reply they wait for the log (N13).

use crate::events::pubsub::Kind;
use crate::server::Server;
use sexton_config::value::Events;
use sexton_engine::Seq;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

/// The class of an event, one letter of `notify-keyspace-events` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NotifyClass {
    /// Commands of every type (DEL, EXPIRE, RENAME...).
    Generic = b'g',
    /// String commands.
    String = b'$',
    /// A key was deleted because its time had come.
    Expired = b'x',
    /// A key was deleted to make room.
    Evicted = b'e',
    /// A key was created.
    New = b'n',
    /// A key that was looked for did not exist.
    Miss = b'm',
}

/// All classes; the position is the bit in [`EventSwitch`].
const CLASSES: [NotifyClass; 6] = [
    NotifyClass::Generic,
    NotifyClass::String,
    NotifyClass::Expired,
    NotifyClass::Evicted,
    NotifyClass::New,
    NotifyClass::Miss,
];
const KEYSPACE_BIT: u32 = 1 << 30;
const KEYEVENT_BIT: u32 = 1 << 31;

/// Which events are published.
#[derive(Debug, Default)]
pub struct EventSwitch {
    bits: AtomicU32,
}

impl EventSwitch {
    /// Takes the classes of `notify-keyspace-events`.
    pub fn set(&self, events: Events) {
        let mut bits = 0;
        if !events.is_off() {
            for (bit, class) in CLASSES.iter().enumerate() {
                bits |= u32::from(events.contains(*class as u8)) << bit;
            }
            bits |= if events.contains(b'K') { KEYSPACE_BIT } else { 0 };
            bits |= if events.contains(b'E') { KEYEVENT_BIT } else { 0 };
        }
        self.bits.store(bits, Ordering::Relaxed);
    }

    fn bits_for(&self, class: NotifyClass) -> u32 {
        let bits = self.bits.load(Ordering::Relaxed);
        let at = CLASSES.iter().position(|known| *known == class).unwrap_or_default();
        if bits >> at & 1 == 1 { bits } else { 0 }
    }

    /// True when writers must know whether there was a value before (`n`), or readers must say that
    /// there was none (`m`).
    #[must_use]
    #[inline]
    pub fn needs_old_values(&self) -> bool {
        let bits = self.bits.load(Ordering::Relaxed);
        bits & (1 << NEW_BIT | 1 << MISS_BIT) != 0
    }
}

const NEW_BIT: u32 = 4;
const MISS_BIT: u32 = 5;

struct Event {
    bits: u32,
    name: &'static str,
    key: Vec<u8>,
    db: usize,
}

thread_local! {
    static GATHERED: RefCell<Vec<Event>> = const { RefCell::new(Vec::new()) };
}

/// Announces `event` on `key` of database `db`, for the next [`release`] of this thread.
#[inline]
pub fn notify(server: &Server, class: NotifyClass, event: &'static str, key: &[u8], db: usize) {
    let bits = server.settings.events.bits_for(class);
    if bits != 0 && server.pubsub.is_used() {
        gather(Event { bits, name: event, key: key.to_vec(), db });
    }
}

#[cold]
fn gather(event: Event) {
    GATHERED.with_borrow_mut(|events| events.push(event));
}

/// Drops what this thread has gathered: the writes that it tells of were taken back.
pub fn forget() {
    drop(GATHERED.take());
}

/// Publishes what this thread has gathered: it tells of writes up to `required`.
pub fn release(server: &Server, required: Seq) {
    if !server.pubsub.is_used() && GATHERED.with_borrow(Vec::is_empty) {
        return;
    }
    for Event { bits, name, key, db } in GATHERED.take() {
        if bits & KEYSPACE_BIT != 0 {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), &key].concat();
            server.pubsub.publish(server, Kind::Channel, &channel, name.as_bytes(), required);
        }
        if bits & KEYEVENT_BIT != 0 {
            let channel = format!("__keyevent@{db}__:{name}");
            server.pubsub.publish(server, Kind::Channel, channel.as_bytes(), &key, required);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;
    use sexton_engine::Engine;
    use std::sync::Arc;

    #[test]
    fn events_are_published_in_order_with_the_write_they_tell_of() {
        let server = Server::new(Engine::in_memory(16).expect("a store in memory opens"), 16);
        let session = Arc::new(Session::default());
        server.pubsub.subscribe(Kind::Pattern, b"__key*", &session);
        notify(&server, NotifyClass::String, "set", b"k", 3);
        release(&server, 5);
        assert_eq!(session.outbox.bytes(), 0, "nothing is on");
        server.settings.events.set(Events::parse(b"E$").unwrap());
        notify(&server, NotifyClass::Generic, "del", b"k", 3);
        notify(&server, NotifyClass::String, "set", b"k", 3);
        assert_eq!(session.outbox.bytes(), 0, "the write has no sequence yet");
        release(&server, 5);
        let parcel = session.outbox.take();
        let text = String::from_utf8(parcel.bytes).unwrap();
        assert!(text.contains("__keyevent@3__:set") && !text.contains("del"), "{text}");
        assert!(!text.contains("__keyspace"), "{text}");
        assert_eq!(parcel.marks, [(0, 5)]);
    }

    #[test]
    fn letters_switch_classes() {
        let switch = EventSwitch::default();
        assert_eq!(CLASSES[NEW_BIT as usize], NotifyClass::New);
        assert_eq!(CLASSES[MISS_BIT as usize], NotifyClass::Miss);
        switch.set(Events::parse(b"KEA").unwrap());
        assert!(switch.bits_for(NotifyClass::Evicted) != 0);
        assert!(!switch.needs_old_values(), "A stands for neither m nor n");
        switch.set(Events::parse(b"Knx").unwrap());
        assert!(switch.needs_old_values());
        assert_eq!(switch.bits_for(NotifyClass::Generic), 0);
        switch.set(Events::parse(b"gx").unwrap());
        assert_eq!(switch.bits_for(NotifyClass::Generic), 0, "neither K nor E");
    }
}
