//! Clients that wait for a key to have something: BLPOP and its relatives, XREAD and XREADGROUP.
//!
//! A command that finds nothing registers a [`Waiter`] in the transaction in which it found nothing, under the latches of
//! its keys, so no change is missed in between. A transaction that has written such a key looks for waiters before it
//! ends, and takes out what they wait for itself, the oldest waiter first: nobody can come in between, and the log has the
//! pop behind the push, in the same group. BLMOVE also needs the latch of its destination, which the writer may not have:
//! its connection is woken and runs the command again. All who wait for new entries of a stream get them, in the order in
//! which they came; a stream that is gone is told to those who read as members of a group.

mod pop;
mod read;
mod waiter;
mod waiters;

pub use pop::{Pop, Side};
pub use read::{Member, Read};
pub use waiter::{State, Waiter, Wants};
pub use waiters::{STREAM_IS_GONE, Waiters};
