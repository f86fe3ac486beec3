//! Command flags as a bit set, so that the dispatcher can test several at once, and the rights that key flags require.

use crate::auth::KeyRights;

/// Redis' command flags, named as COMMAND prints them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

macro_rules! flags {
    ($($(#[$doc:meta])* $constant:ident = $bit:literal, $name:literal;)*) => {
        impl Flags {
            $($(#[$doc])* pub const $constant: Self = Self(1 << $bit);)*

            const NAMES: &'static [(&'static str, Self)] = &[$(($name, Self::$constant)),*];
        }
    };
}

flags! {
    /// May change data.
    WRITE = 0, "write";
    /// Only reads data.
    READONLY = 1, "readonly";
    /// Refused while memory is over its limit and nothing can be evicted.
    DENYOOM = 2, "denyoom";
    /// For operators, not for applications.
    ADMIN = 3, "admin";
    /// Publish and subscribe.
    PUBSUB = 4, "pubsub";
    /// Not allowed in scripts.
    NOSCRIPT = 5, "noscript";
    /// May make the client wait for data.
    BLOCKING = 6, "blocking";
    /// Allowed while the data is being loaded.
    LOADING = 7, "loading";
    /// Allowed on a replica that lost its master.
    STALE = 8, "stale";
    /// Not shown to MONITOR.
    SKIP_MONITOR = 9, "skip_monitor";
    /// Not written to the slow log.
    SKIP_SLOWLOG = 10, "skip_slowlog";
    /// Implies ASKING in cluster mode.
    ASKING = 11, "asking";
    /// Takes O(1) or O(log N).
    FAST = 12, "fast";
    /// Allowed before authentication.
    NO_AUTH = 13, "no_auth";
    /// Refused from replica links.
    NO_ASYNC_LOADING = 15, "no_async_loading";
    /// Refused inside MULTI.
    NO_MULTI = 16, "no_multi";
    /// Keys are not at fixed positions.
    MOVABLEKEYS = 17, "movablekeys";
    /// Allowed while a script runs for too long.
    ALLOW_BUSY = 18, "allow_busy";
    /// Its keys may name no key at all.
    NO_MANDATORY_KEYS = 19, "no_mandatory_keys";
}

impl Flags {
    /// The flag of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, flag)| *flag)
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True when every flag of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True when any flag of `other` is set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The key permissions that a user needs for a command with these key flags (`RW access update`).
pub(crate) fn key_rights(flags: &str) -> KeyRights {
    flags.split(' ').fold(KeyRights::NONE, |rights, flag| match flag {
        "access" => rights.and(KeyRights::READ),
        "update" | "insert" | "delete" => rights.and(KeyRights::WRITE),
        _ => rights,
    })
}
