//! The network: worker threads that own connections, and the acceptor that distributes them.

mod batch;
#[cfg(test)]
mod batch_tests;
mod connection;
mod early;
mod handed_over;
mod helper;
#[cfg(test)]
mod joined_tests;
mod listener;
mod offload;
mod output;
mod room;
mod sending;
#[cfg(test)]
mod sending_tests;
mod stream;
mod time_slice;
#[cfg(test)]
mod ways;
mod worker;

pub use early::EarlyRules;
pub(crate) use early::UNSEEN_START;
pub use listener::{Endpoints, Listeners, bind_all};
pub use worker::Workers;
