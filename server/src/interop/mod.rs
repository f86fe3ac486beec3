//! What must come out as it does in Redis to the byte: patterns, numbers as C writes them, and long doubles.

pub mod c_numbers;
pub mod glob;
pub mod long_double;
