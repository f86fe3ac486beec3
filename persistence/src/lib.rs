//! Everything of Sexton that touches media or time: devices, the append-only log, the manifest,
//! checksums and the RDB codec. Knows nothing of key order, levels or commands.
#![deny(unsafe_code)]

pub mod device;
