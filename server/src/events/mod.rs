//! Notifications of commands and changes: key-space events, channels, watched keys, client-side caches, MONITOR.

pub mod changed_keys;
mod changes;
mod marks;
mod monitor;
pub mod notify;
pub mod pubsub;
pub mod tracking;
pub mod watch;

pub use changes::Changes;
pub use monitor::Monitors;
pub use notify::Event;

use notify::EventSwitch;
use pubsub::PubSub;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracking::Tracking;
use watch::WatchRegistry;

/// The registries of clients that are notified of changes and messages.
#[derive(Debug, Default)]
pub struct Events {
    /// `notify-keyspace-events`.
    pub switch: EventSwitch,
    /// Watched keys.
    pub watches: WatchRegistry,
    /// Caches of clients.
    pub tracking: Tracking,
    /// The subscribers of each channel.
    pub pubsub: PubSub,
    /// Clients that wait for keys to have something.
    pub waiting: Arc<AtomicUsize>,
}

impl Events {
    /// True while any client watches, caches, or listens to anything.
    #[inline]
    fn are_used(&self) -> bool {
        self.watches.is_used()
            || self.pubsub.is_used()
            || self.tracking.is_used()
            || self.are_waiting()
    }

    /// True while any client waits for a key to have something.
    #[inline]
    fn are_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// True while any client may listen to such events.
    fn is_heard(&self, event: Event) -> bool {
        self.pubsub.is_used() && self.switch.bits_for(event.class) != 0
    }
}
