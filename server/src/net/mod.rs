//! The network: worker threads that own connections, and the acceptor that deals them out.

mod batch;
mod connection;
mod descriptors;
mod helper;
mod listener;
mod output_limit;
mod sending;
#[cfg(test)]
mod sending_tests;
mod stream;
mod worker;

pub use descriptors::clients_possible;
pub use listener::{BindError, Endpoints, ListenControl, Listeners};
pub use output_limit::OutputLimit;
pub(crate) use output_limit::{enforce as enforce_output_limit, over_output_limit};
pub use worker::Workers;
