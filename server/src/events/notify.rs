//! Key-space notifications: their classes, and which of them are published.

use sexton_config::value::Events;
use std::sync::atomic::{AtomicU32, Ordering};

/// The class of an event, one letter of `notify-keyspace-events` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NotifyClass {
    /// Commands of every type (DEL, EXPIRE, RENAME...).
    Generic = b'g',
    /// String commands.
    String = b'$',
    /// List commands.
    List = b'l',
    /// Set commands.
    Set = b's',
    /// Sorted set commands.
    SortedSet = b'z',
    /// Hash commands.
    Hash = b'h',
    /// Stream commands.
    Stream = b't',
    /// A key was deleted because it had expired.
    Expired = b'x',
    /// A key was deleted to make room.
    Evicted = b'e',
    /// A key was created.
    New = b'n',
    /// A key that was looked for did not exist.
    Miss = b'm',
}

/// All classes; the position is the bit in [`EventSwitch`].
const CLASSES: [NotifyClass; 11] = [
    NotifyClass::Generic,
    NotifyClass::String,
    NotifyClass::Expired,
    NotifyClass::Evicted,
    NotifyClass::New,
    NotifyClass::Miss,
    NotifyClass::List,
    NotifyClass::Set,
    NotifyClass::SortedSet,
    NotifyClass::Hash,
    NotifyClass::Stream,
];
pub(super) const KEYSPACE_BIT: u32 = 1 << 30;
pub(super) const KEYEVENT_BIT: u32 = 1 << 31;

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

    pub(super) fn bits_for(&self, class: NotifyClass) -> u32 {
        let bits = self.bits.load(Ordering::Relaxed);
        let at = CLASSES.iter().position(|known| *known == class).unwrap_or_default();
        if bits >> at & 1 == 1 { bits } else { 0 }
    }

    /// True if writers must know whether a value existed before (`n`), or readers must report that
    /// none existed (`m`).
    #[must_use]
    #[inline]
    pub fn needs_old_values(&self) -> bool {
        let bits = self.bits.load(Ordering::Relaxed);
        bits & (1 << NEW_BIT | 1 << MISS_BIT) != 0
    }
}

const NEW_BIT: u32 = 4;
const MISS_BIT: u32 = 5;

/// An event on a key: its class, and the text for listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub(super) class: NotifyClass,
    pub(super) name: &'static str,
}

impl Event {
    /// A key was deleted because it had expired.
    pub const EXPIRED: Self = Self { class: NotifyClass::Expired, name: "expired" };
    /// Fields of a hash were removed because they had expired: as in Valkey this is no event of hashes.
    pub const FIELDS_EXPIRED: Self = Self { class: NotifyClass::Expired, name: "hexpired" };
    /// A key was deleted to make room.
    pub const EVICTED: Self = Self { class: NotifyClass::Evicted, name: "evicted" };
    /// A key was created.
    pub const NEW: Self = Self { class: NotifyClass::New, name: "new" };
    /// A key that was looked for did not exist.
    pub const MISS: Self = Self { class: NotifyClass::Miss, name: "keymiss" };

    /// One of a command of every type.
    #[must_use]
    pub const fn generic(name: &'static str) -> Self {
        Self { class: NotifyClass::Generic, name }
    }

    /// One of a string command.
    #[must_use]
    pub const fn string(name: &'static str) -> Self {
        Self { class: NotifyClass::String, name }
    }

    /// One of a list command.
    #[must_use]
    pub const fn list(name: &'static str) -> Self {
        Self { class: NotifyClass::List, name }
    }

    /// One of a set command.
    #[must_use]
    pub const fn set(name: &'static str) -> Self {
        Self { class: NotifyClass::Set, name }
    }

    /// One of a sorted set command.
    #[must_use]
    pub const fn sorted_set(name: &'static str) -> Self {
        Self { class: NotifyClass::SortedSet, name }
    }

    /// One of a hash command.
    #[must_use]
    pub const fn hash(name: &'static str) -> Self {
        Self { class: NotifyClass::Hash, name }
    }

    /// One of a stream command.
    #[must_use]
    pub const fn stream(name: &'static str) -> Self {
        Self { class: NotifyClass::Stream, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
