//! Obstacles between a request and its handler: the single list of conditions. The gate explains them; the short
//! path of plain GETs and SETs requires that none is present.

use super::client::Client;
use crate::server::Server;
use crate::session::TrackingMode;
use std::sync::atomic::Ordering;

/// The modes of CLIENT TRACKING in which CLIENT CACHING has an effect.
const CHOICES: TrackingMode = TrackingMode::OPTIN.and(TrackingMode::OPTOUT);

/// Conditions of a client and of the server under which requests are refused, postponed, or need more than their
/// handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Obstacles(u32);

impl Obstacles {
    /// AUTH has not succeeded yet.
    pub(super) const NOT_AUTHENTICATED: Self = Self(1);
    /// The connection reads a snapshot.
    pub(super) const IN_SNAPSHOT: Self = Self(1 << 1);
    /// MULTI queues commands.
    pub(super) const IN_TRANSACTION: Self = Self(1 << 2);
    /// RESP2, and the connection listens to channels.
    pub(super) const ONLY_LISTENS: Self = Self(1 << 3);
    /// CLIENT PAUSE is in force for some requests.
    pub(super) const PAUSED: Self = Self(1 << 4);
    /// The data is being loaded.
    pub(super) const LOADING: Self = Self(1 << 5);
    /// Replies are dropped, now or at the next request.
    const MUTED: Self = Self(1 << 6);
    /// Key-space events ask whether there was a value before.
    const OLD_VALUES: Self = Self(1 << 7);
    /// MONITOR looks on.
    const MONITORED: Self = Self(1 << 8);
    /// The log has failed: values that were read may not be sent.
    const UNTELLABLE: Self = Self(1 << 9);
    /// Memory is full and nothing can be evicted.
    pub(super) const OUT_OF_MEMORY: Self = Self(1 << 10);
    /// A save has failed, and writes are refused until one succeeds.
    pub(super) const SAVE_FAILED: Self = Self(1 << 11);
    /// The engine takes no writes.
    pub(super) const REFUSED: Self = Self(1 << 12);
    /// Writers must wait for the log or for flushes (N14).
    pub(super) const PACED: Self = Self(1 << 13);

    /// The keys of the next request could not be loaded: the gate's caller refuses it.
    const LOAD_REFUSED: Self = Self(1 << 14);

    /// Whether a read is remembered depends on CLIENT CACHING.
    const CHOOSES_CACHING: Self = Self(1 << 15);
    /// A user has changed since the client's rights were looked up.
    const STALE_RIGHTS: Self = Self(1 << 16);
    /// Files take as much as `disk-max-bytes` allows.
    pub(super) const DISK_FULL: Self = Self(1 << 17);
    /// The next request runs again, and will mostly miss pages again.
    const SEARCHES: Self = Self(1 << 18);

    /// The conditions for every request of the client that the gate explains.
    #[inline]
    pub(super) fn of(server: &Server, client: &Client) -> Self {
        Self::NONE
            .when(client.must_authenticate(server), Self::NOT_AUTHENTICATED)
            .when(client.snapshot_session.is_some(), Self::IN_SNAPSHOT)
            .when(client.transaction.is_some(), Self::IN_TRANSACTION)
            .when(client.only_listens(), Self::ONLY_LISTENS)
            .when(server.sessions.is_paused(), Self::PAUSED)
            .when(server.loading.is_active(), Self::LOADING)
    }

    /// The conditions that pass the gate: the long path then does more than run the handler.
    #[inline]
    pub(super) fn behind_the_gate(server: &Server, client: &Client) -> Self {
        let engine = &server.engine;
        // Almost always none; the durable sequence need not be known then.
        let given_up = engine.given_up_through();
        Self::NONE
            .when(!client.reply_mode.is_on(), Self::MUTED)
            .when(client.load_refused, Self::LOAD_REFUSED)
            .when(client.search.is_some(), Self::SEARCHES)
            .when(client.session.tracking.mode().has(CHOICES), Self::CHOOSES_CACHING)
            .when(!client.identity.is_current(&server.auth), Self::STALE_RIGHTS)
            .when(server.events.switch.needs_old_values(), Self::OLD_VALUES)
            .when(server.observe.monitors.is_active(), Self::MONITORED)
            .when(given_up != 0 && given_up > engine.durable(), Self::UNTELLABLE)
    }

    /// Those that concern writes.
    #[inline]
    pub(super) fn of_writes(server: &Server) -> Self {
        let out_of_memory = server.settings.out_of_memory.load(Ordering::Relaxed);
        Self::NONE
            .when(out_of_memory, Self::OUT_OF_MEMORY)
            .when(server.disk_bound.is_reached(), Self::DISK_FULL)
            .when(server.saving.refuses_writes(), Self::SAVE_FAILED)
            .when(server.engine.write_refusal().is_some(), Self::REFUSED)
            .when(server.engine.must_wait(), Self::PACED)
    }

    const NONE: Self = Self(0);

    #[inline]
    const fn when(self, holds: bool, obstacle: Self) -> Self {
        Self(self.0 | if holds { obstacle.0 } else { 0 })
    }

    /// Those of both.
    #[inline]
    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True when one of these is there.
    #[inline]
    pub(super) const fn has(self, obstacle: Self) -> bool {
        self.0 & obstacle.0 != 0
    }

    /// True if there is no obstacle.
    #[inline]
    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
