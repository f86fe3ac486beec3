//! Background work that no client waits for: periodic tasks, eviction, saves and bases of the log.

pub mod backup;
pub mod copy;
pub mod cron;
pub mod eviction;
pub mod rdb;
mod removed;
pub mod rewrite;
