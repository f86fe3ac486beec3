//! Blocked clients: BLPOP and its relatives, XREAD and XREADGROUP.
//!
//! A command that finds nothing registers a [`Waiter`] in the transaction that found nothing, under the latches of its
//! keys, so it misses no change in between. A transaction that has written such a key looks for waiters before it ends and
//! takes out their elements itself, for the oldest waiter first. Nothing can intervene, and in the log the pop follows the
//! push in one group. BLMOVE also needs the latch of its destination, which the writer may not hold, so its connection is
//! woken and runs the command again. All clients that wait for new entries of a stream receive them, in arrival order.
//! When a stream is deleted, clients that read as members of a group are notified.

mod pop;
mod read;
mod waiter;
mod waiters;

pub use pop::{Pop, Side};
pub use read::{Member, Read};
pub use waiter::{State, Waiter, Wants};
pub use waiters::{STREAM_IS_GONE, Waiters};
