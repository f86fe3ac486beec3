//! Walks over the keys that live at one sequence, forward and back (rule G2).
//!
//! A walk merges memtables and tables, takes for each key the newest version that its sequence can
//! see, and omits those that a grave covers. It works on engine keys; `store::iter` adds what a user's
//! iterator needs (databases, the pin that makes it a member of S).

mod cursor;
mod live;
mod stretch;

pub(crate) use cursor::Cursor;
pub(crate) use live::{Bounds, LiveWalk};
