//! Notifications of commands and changes: key-space events, channels, watched keys, client-side caches, MONITOR.

mod awaited;
pub mod changed_keys;
mod changes;
mod marks;
mod monitor;
pub mod notify;
pub mod pubsub;
pub mod tracking;
pub mod watch;

pub use awaited::AwaitedKeys;
pub use changes::Changes;
pub use monitor::Monitors;
pub use notify::Event;

use notify::EventSwitch;
use pubsub::PubSub;
use std::sync::Arc;
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
    pub awaited: Arc<AwaitedKeys>,
}

impl Events {
    /// True while any client watches, caches, or listens to anything.
    #[inline]
    fn are_used(&self) -> bool {
        self.watches.is_used()
            || self.pubsub.is_used()
            || self.tracking.is_used()
            || self.awaited.are_there()
    }

    /// True while any client may listen to such events.
    fn is_heard(&self, event: Event) -> bool {
        self.pubsub.is_used() && self.switch.bits_for(event.class) != 0
    }
}
