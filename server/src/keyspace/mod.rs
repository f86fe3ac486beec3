//! The keys and their values, between the commands and the engine.

mod load;

pub use load::load_blocking;
