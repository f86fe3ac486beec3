//! The keys and their values, between the commands and the engine.

mod load;
mod remove;

pub use load::load_blocking;
pub use remove::{Reason, remove};
