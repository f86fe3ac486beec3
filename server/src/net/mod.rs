//! The network: worker threads that own connections, and the acceptor that deals them out.

mod batch;
#[cfg(test)]
mod batch_tests;
mod connection;
mod early;
mod helper;
mod listen_control;
mod listener;
mod room;
mod sending;
#[cfg(test)]
mod sending_tests;
mod stream;
mod tls;
mod worker;

pub use early::EarlyRules;
pub(crate) use early::UNSEEN_START;
pub use listen_control::{BindError, ListenControl};
pub use listener::{Endpoints, Listeners, bind_all};
pub use worker::Workers;
