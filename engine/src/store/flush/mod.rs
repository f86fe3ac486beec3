//! The way of memtables into the tree: freezing, the queue, the flush itself, and publication.

pub(in crate::store) mod flusher;
pub(in crate::store) mod freeze;
pub(in crate::store) mod frozen;
pub(in crate::store) mod job;
pub(in crate::store) mod publication;
