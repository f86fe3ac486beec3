//! Everything of Sexton that touches media or time: devices, the append-only log, persistent memory, the manifest,
//! checksums and the RDB codec. It knows nothing of key order, levels or commands.
//!
//! The bytes on the medium are described in `FORMAT.md` beside this crate.
#![deny(unsafe_code)]

pub mod aof;
pub mod checksum;
pub mod device;
pub mod manifest;
pub mod pmem;
mod random;
pub mod rdb;
