//! Reads: superversions and their readers, loads of keys that are not in memory, snapshots, iterators, scans.

pub(in crate::store) mod cold;
mod cold_pages;
pub(in crate::store) mod cold_queue;
pub(in crate::store) mod iter;
pub(in crate::store) mod load;
mod load_request;
mod newest;
pub(in crate::store) mod open_snapshots;
pub(in crate::store) mod pins;
pub(in crate::store) mod random_key;
pub(in crate::store) mod reads;
pub(in crate::store) mod scan;
pub(in crate::store) mod snapshot;
pub(in crate::store) mod superversion;
pub(in crate::store) mod undo;
pub(in crate::store) mod undo_bound;
pub(in crate::store) mod view;
pub(in crate::store) mod views;

pub use load_request::LoadPin;
