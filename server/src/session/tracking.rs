//! The CLIENT TRACKING state of a connection, as other threads see it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Options of CLIENT TRACKING as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackingMode(u32);

impl TrackingMode {
    /// Off.
    pub const NONE: Self = Self(0);
    /// It is on.
    pub const ON: Self = Self(1);
    /// It is notified of all keys with its prefixes, and its reads are not remembered.
    pub const BCAST: Self = Self(1 << 1);
    /// Only reads after CLIENT CACHING YES are remembered.
    pub const OPTIN: Self = Self(1 << 2);
    /// Reads after CLIENT CACHING NO are not remembered.
    pub const OPTOUT: Self = Self(1 << 3);
    /// It is not notified of its own changes.
    pub const NOLOOP: Self = Self(1 << 4);
    /// CLIENT CACHING was called for the request that follows.
    pub const CACHING: Self = Self(1 << 5);
    /// Its redirection target is gone.
    pub const BROKEN_REDIRECT: Self = Self(1 << 6);

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True when it has one of these.
    #[must_use]
    #[inline]
    pub const fn has(self, mode: Self) -> bool {
        self.0 & mode.0 != 0
    }

    /// True while keys that are read must be remembered.
    #[must_use]
    #[inline]
    pub const fn remembers_reads(self) -> bool {
        let chosen = self.has(Self::CACHING);
        self.has(Self::ON)
            && !self.has(Self::BCAST)
            && (chosen || !self.has(Self::OPTIN))
            && !(chosen && self.has(Self::OPTOUT))
    }
}

/// What CLIENT TRACKING has asked for.
#[derive(Debug, Default)]
pub struct TrackingState {
    mode: AtomicU32,
    /// The redirection target of this connection; 0 for none.
    redirect: AtomicU64,
}

impl TrackingState {
    /// The options: one word, which is 0 for a connection that does not track.
    #[must_use]
    #[inline]
    pub fn mode(&self) -> TrackingMode {
        TrackingMode(self.mode.load(Ordering::Relaxed))
    }

    /// True after CLIENT TRACKING ON.
    #[must_use]
    #[inline]
    pub fn is_on(&self) -> bool {
        self.mode().has(TrackingMode::ON)
    }

    /// The redirection target of this connection.
    #[must_use]
    pub fn redirect(&self) -> Option<u64> {
        Some(self.redirect.load(Ordering::Relaxed)).filter(|&id| id != 0)
    }

    /// CLIENT TRACKING: these options from now on.
    pub fn set(&self, mode: TrackingMode, redirect: u64) {
        self.redirect.store(redirect, Ordering::Relaxed);
        self.mode.store(mode.0, Ordering::Relaxed);
    }

    /// Adds an option.
    pub fn add(&self, mode: TrackingMode) {
        self.mode.fetch_or(mode.0, Ordering::Relaxed);
    }

    /// The request after CLIENT CACHING has run.
    pub fn end_caching(&self) {
        self.mode.fetch_and(!TrackingMode::CACHING.0, Ordering::Relaxed);
    }

    /// What CLIENT LIST shows as `redir`.
    #[must_use]
    pub fn shown_redirect(&self) -> i64 {
        if self.is_on() { self.redirect.load(Ordering::Relaxed) as i64 } else { -1 }
    }
}
