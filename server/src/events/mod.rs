//! What others hear of commands and changes: key-space events, channels, watched keys, MONITOR.

mod monitor;
pub mod notify;
pub mod pubsub;
pub mod watch;

pub use monitor::Monitors;
