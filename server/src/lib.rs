//! Sexton's server: network, commands, and everything Redis clients see.
#![deny(unsafe_code)]

pub mod auth;
pub mod client;
pub mod client_memory;
pub mod clock;
pub mod command;
pub mod configuration;
pub mod crash;
pub mod cron;
pub mod devices;
pub mod eviction;
pub mod glob;
pub mod log;
pub mod long_double;
pub mod net;
pub mod notify;
pub mod number;
pub mod observe;
pub mod oom_score;
pub mod outbox;
pub mod output_limit;
pub mod process;
pub mod pubsub;
pub mod rdb;
pub mod resp;
pub mod rewrite;
pub mod server;
pub mod session;
pub mod sha1;
pub mod sha256;
mod sha_blocks;
pub mod shutdown;
pub mod takeover;
pub mod value;
pub mod version;
pub mod watch;
