//! The append-only log: Redis' multi-part AOF, which is also the engine's write-ahead log.
//!
//! Commits copy their commands into a [`LogBuffer`]. A thread of [`Log`] takes what has gathered,
//! seals it into a group (an annotation that Redis reads as a comment, then the commands) and
//! writes it to the active segment. After a crash [`recover`] yields the groups above the recovery
//! mark, in order, and tells a torn tail from damage. The bytes are in `FORMAT.md`.

mod annotation;
mod buffer;
mod commands;
mod core;
mod device_rate;
mod error;
mod filled;
mod foreign;
mod form;
mod gather;
mod gauge;
mod group;
mod listing;
mod location;
mod log;
mod recover;
mod route;
mod segments;
mod stamp;
mod stats;
mod unsynced;
mod window;
mod write_again;

pub use annotation::{ALIGNMENT_BYTES, Annotation, FILLER, HEADER_BYTES, SegmentHeader};
pub use buffer::{LogBuffer, LogSource, Sealed, SealedBuffers};
pub use commands::Commands;
pub use error::LogError;
pub use filled::record_bytes;
pub use foreign::has_foreign_writes;
pub use form::{command_bytes, write_command, write_header};
pub use gather::{Gathered, gather, segment_starts};
pub use gauge::BufferGauge;
pub use group::{GROUP_TARGET_BYTES, Group, LargeArgument, held_bytes};
pub use location::LogLocation;
pub use log::{Log, LogOptions, SyncPolicy};
pub use recover::{LogTail, RecoveredGroup, Recovery, TailCut, recover, supersede};
pub use route::{LogRoute, RECORD_TAG, ROUTES_MAX};
pub use stamp::{LogClock, log_clock};
pub use stats::LogStats;

#[cfg(test)]
mod tests;
