//! Sexton's server: network, commands, and everything Redis clients see.
#![deny(unsafe_code)]

pub mod client;
pub mod command;
pub mod glob;
pub mod notify;
pub mod number;
pub mod resp;
pub mod server;
pub mod value;
