//! Functions whose results must match Redis' byte for byte: patterns, numbers as C writes them, and long doubles.

pub mod c_numbers;
pub mod glob;
pub mod long_double;
