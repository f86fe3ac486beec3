//! What must come out as it does in Redis to the byte: patterns and long doubles.

pub mod glob;
pub mod long_double;
