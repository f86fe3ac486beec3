//! The databases that a command works on, as far as its arguments determine them.

use crate::number::parse_i64;
use crate::resp::Args;

/// True when FLUSHDB or FLUSHALL has arguments that it takes.
pub(crate) fn flush_mode_is_known(args: Args<'_>) -> bool {
    let is = |name: &[u8]| args.get(1).eq_ignore_ascii_case(name);
    args.len() == 1 || (args.len() == 2 && (is(b"SYNC") || is(b"ASYNC")))
}

/// The databases that a SWAPDB with these arguments swaps, if it can.
pub(crate) fn swapped_dbs(args: Args<'_>, databases: usize) -> Option<(usize, usize)> {
    let index = |at| {
        let index = (at < args.len()).then(|| parse_i64(args.get(at)))??;
        usize::try_from(index).ok().filter(|&db| db < databases)
    };
    index(1).zip(index(2))
}

/// The database that a SELECT with these arguments chooses, if it is one.
pub(crate) fn selected_db(args: Args<'_>, databases: usize) -> Option<usize> {
    let index = parse_i64(args.get(1))?;
    usize::try_from(index).ok().filter(|&db| db < databases)
}
