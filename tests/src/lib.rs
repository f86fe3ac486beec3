//! Tests of Sexton that are programs of their own.

#![deny(unsafe_code)]

pub mod load;
pub mod model;
