//! The wire protocol: requests in, replies out.

mod args;
mod inline;
mod packed_requests;
mod reply;
mod request;
mod scanner;

pub use args::{Args, PackedRequest, pack};
pub use packed_requests::PackedRequests;
pub use reply::{HeldBytes, Reply};
pub use request::{Batch, Limits, ProtocolError, Request};
pub use scanner::Scanner;
pub use sexton_persistence::aof::{command_bytes, write_command};
