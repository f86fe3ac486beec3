//! State about the clients' memory, the configuration, the listening sockets and the jobs.
//!
//! Each struct maintains its own invariants and does not know [`Server`](crate::server::Server). The code that uses them is
//! in the rooms above: `configuration`, `jobs`, `net`.

pub mod backup;
pub mod client_memory;
pub mod configuration;
pub mod copies;
pub mod eviction;
pub mod listening;
pub mod loading;
pub mod rewriting;
pub mod saving;
pub mod targets;
