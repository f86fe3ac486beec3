//! Walks over the keys that live at one sequence, forward and back (rule G2).
//!
//! A walk merges memtables and tables, takes of each key the newest version that its sequence can
//! see, and leaves out those that a grave covers. It works on engine keys; what a user's iterator
//! adds (databases, the pin that makes it a member of S) is `store::iter`.

mod cursor;
mod live;
mod stretch;

pub(crate) use cursor::Cursor;
pub(crate) use live::{Bounds, LiveWalk};
