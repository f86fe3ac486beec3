//! Keys and values: the layer between the commands and the engine.

mod any;
pub mod collection;
pub mod hyperloglog;
mod load;
mod lookup;
pub mod operand;
pub mod paged;
pub mod pop;
mod remove;
pub mod stream_read;
mod string;
pub mod texts;

pub use any::{AnyView, NotStored, from_dumped};
pub use load::{Pins, load_blocking};
pub use lookup::{Kind, WrongType, expect};
pub use remove::{Extent, Reason, count_removed, remove, remove_due, tell_removed};
pub use string::{StringView, Strings, Written};
