//! Collections as sequences of small pages: the pure data structures, which know pages and positions and nothing else.

mod store;

pub use store::{Damage, PageEdit, PageError, PageId, Pages, PartKind};
