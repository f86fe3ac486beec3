//! Sexton's server: network, commands, and everything Redis clients see.
#![deny(unsafe_code)]

pub mod arenas;
pub mod auth;
pub mod blocking;
pub mod boot;
pub mod client;
pub mod client_memory;
pub mod clock;
pub mod commands;
pub mod configuration;
pub mod crash;
pub mod descriptors;
pub mod devices;
pub mod digest;
pub mod disk_bound;
pub mod dispatch;
pub mod events;
pub mod interop;
pub mod jobs;
pub mod keyspace;
pub mod log;
pub mod metrics;
pub mod net;
pub mod number;
pub mod observe;
pub mod oom_score;
pub mod process;
pub mod resp;
pub mod scripting;
pub mod server;
pub mod session;
pub mod shutdown;
pub mod takeover;
pub mod value;
pub mod version;
