//! The root of a collection in pages, as the last operation of a transaction has left it.
//!
//! Operations that follow one another on a collection each read its descriptor and write it anew. Here it stays decoded, and a block that
//! this transaction has changed already, whose previous bytes are kept, is written over: the operation gets no entry of its own among the
//! staged ones, and nothing to undo.

use super::edits::Held;
use crate::key::Meta;
use crate::page::Descriptor;

/// A root whose block was changed in place by the operation that was staged last. It is that of the key that was found last.
pub(super) struct LeftRoot {
    pub(super) meta: Meta,
    pub(super) descriptor: Descriptor,
    pub(super) block: Held,
    /// Operations that were staged then. With one more it may be another.
    pub(super) staged: usize,
}
