//! List commands.
//!
//! Every command performs at most one engine operation per key. Its log form, executed on the same state, repeats these
//! operations.

mod change;
mod ends;
mod position;
mod read;
mod transfer;

use crate::blocking::Side;
use crate::dispatch::CommandError;
use crate::dispatch::table::Binding;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("lpush", ends::lpush),
    Binding::keyed("rpush", ends::rpush),
    Binding::keyed("lpushx", ends::lpushx),
    Binding::keyed("rpushx", ends::rpushx),
    Binding::keyed("lpop", ends::lpop),
    Binding::keyed("rpop", ends::rpop),
    Binding::keyed("llen", read::llen),
    Binding::keyed("lindex", read::lindex),
    Binding::keyed("lrange", read::lrange),
    Binding::keyed("lpos", position::lpos),
    Binding::keyed("lset", change::lset),
    Binding::keyed("linsert", change::linsert),
    Binding::keyed("lrem", change::lrem),
    Binding::keyed("ltrim", change::ltrim),
    Binding::keyed("rpoplpush", transfer::rpoplpush),
    Binding::keyed("lmove", transfer::lmove),
    Binding::keyed("brpoplpush", transfer::brpoplpush),
    Binding::keyed("blmove", transfer::blmove),
];

/// `LEFT` or `RIGHT`.
fn side(word: &[u8]) -> Result<Side, CommandError> {
    match word {
        _ if word.eq_ignore_ascii_case(b"LEFT") => Ok(Side::First),
        _ if word.eq_ignore_ascii_case(b"RIGHT") => Ok(Side::Last),
        _ => Err(CommandError::Syntax),
    }
}

/// An index that may count from the end.
fn index_within(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(len as i64)? } else { index };
    usize::try_from(index).ok().filter(|&index| index < len)
}
