//! What the server holds of its clients' memory, its configuration, its listening sockets and its jobs.
//!
//! Each struct keeps itself right, and knows no [`Server`](crate::server::Server). What is done with it stands in the rooms
//! above: `configuration`, `jobs`, `net`.

pub mod backup;
pub mod client_memory;
pub mod configuration;
pub mod copies;
pub mod eviction;
pub mod listening;
pub mod loading;
pub mod rewriting;
pub mod saving;
