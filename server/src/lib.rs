//! Sexton's server: network, commands, and everything Redis clients see.
#![deny(unsafe_code)]

pub mod client;
pub mod command;
pub mod number;
pub mod resp;
pub mod server;
