//! Properties of a command that the dispatcher needs beyond Redis' flags.

use super::Args;
use crate::server::Server;

/// Traits of a command as a bit set. A binding has them; nothing is special by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits(u32);

impl Traits {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// Runs at once inside MULTI instead of being queued.
    pub const CONTROLS_TRANSACTION: Self = Self(1);
    /// Runs the commands that MULTI has queued.
    pub const RUNS_QUEUED: Self = Self(1 << 1);
    /// Allowed under RESP2 while the connection listens to channels.
    pub const WHILE_SUBSCRIBED: Self = Self(1 << 2);
    /// Runs while CLIENT PAUSE is in force.
    pub const WHILE_PAUSED: Self = Self(1 << 3);
    /// Answers pushes, which CLIENT REPLY does not drop.
    pub const ANSWERS_PUSHES: Self = Self(1 << 4);
    /// The connection keeps the names that it is given.
    pub const GATHERS_NAMES: Self = Self(1 << 5);
    /// Refused like a write while saves fail.
    pub const TELLS_OF_FAILED_SAVES: Self = Self(1 << 6);
    /// May give values to keys named in the request, whatever its flags say.
    pub const MAKES_KEYS: Self = Self(1 << 7);
    /// Its keys are looked up in another database as well, whose number is among the arguments behind the first key.
    pub const NAMES_DATABASE: Self = Self(1 << 8);
    /// Changes settings: a transaction with it excludes those of others.
    pub const CHANGES_SETTINGS: Self = Self(1 << 9);
    /// Walks the key space, and can walk that of a snapshot.
    pub const READS_SNAPSHOTS: Self = Self(1 << 10);
    /// Refused while the connection reads a snapshot.
    pub const NOT_IN_SNAPSHOT: Self = Self(1 << 11);

    /// CLIENT CACHING applies to the next request.
    pub const BEFORE_CACHING: Self = Self(1 << 12);

    /// Detects by itself which of its keys are on a device, when it accesses them: they are not looked up before.
    pub const MISSES_KEYS: Self = Self(1 << 13);

    /// Deletes the keys named in the request, in a time that depends on the request alone: a delete opens a grave, and frees
    /// nothing step by step.
    pub const DELETES: Self = Self(1 << 14);

    /// A large argument becomes a string as it is.
    pub const STORES_STRINGS: Self = Self(1 << 15);

    /// It waits for another server, under its latches: nobody who waits for them is told that a script runs.
    pub const WAITS_OUTSIDE: Self = Self(1 << 16);

    /// Answers from its arguments and its connection alone.
    pub const ANSWERS_ALONE: Self = Self(1 << 17);

    /// Of the offloaded ones: a worker runs it too, and hands it over where it would have to wait.
    pub const TRIES_AT_ONCE: Self = Self(1 << 18);

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True when it has one of these.
    #[must_use]
    pub const fn has(self, trait_: Self) -> bool {
        self.0 & trait_.0 != 0
    }
}

/// What a command does to databases as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDatabases {
    /// Nothing.
    #[default]
    Nothing,
    /// Another one is selected (SELECT).
    Selects,
    /// Two change places (SWAPDB).
    Swaps,
    /// The selected one is emptied (FLUSHDB).
    EmptiesOne,
    /// All are emptied (FLUSHALL).
    EmptiesAll,
}

/// Decides whether a request never reads the old values of its keys.
pub type IsBlind = fn(Args<'_>) -> bool;

/// Decides whether a request works on the keys alone that it names.
pub type NamesKeys = fn(Args<'_>) -> bool;

/// Decides whether a request that does not write is one that Redis' replicas are told of, or that may write once it runs: CLIENT PAUSE
/// WRITE holds it back, and scripts that only read may not run it.
pub type MayReplicate = fn(&Server, Args<'_>) -> bool;

/// Decides whether an argument of a request must be hidden from others.
pub type IsSecret = fn(Args<'_>, usize) -> bool;

/// A command's use of channels, for access rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChannels {
    /// Nothing that needs a right.
    #[default]
    Nothing,
    /// Publishes to the one that is its first argument.
    Publishes,
    /// Listens to those that are its arguments.
    Listens,
    /// Listens to the patterns that are its arguments.
    ListensToPatterns,
}
