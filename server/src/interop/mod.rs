//! Functions whose results must match Redis' byte for byte: patterns, numbers as C writes them, long doubles, and the order of what is equal.

pub mod c_numbers;
pub mod glob;
pub mod long_double;
pub mod partial_sort;
