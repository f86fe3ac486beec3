//! Random choices of commands.

use crate::dispatch::{Args, CommandError};
use crate::number::parse_i64;
use crate::random::random;
use crate::resp::Reply;

/// A random number below `bound`, which is not 0.
pub(in crate::commands) fn below(bound: usize) -> usize {
    ((u128::from(random()) * bound as u128) >> 64) as usize
}

/// Samples `wanted` of `len` items without repetition: each item is taken with the probability of the items still wanted
/// among those that are left.
pub(in crate::commands) fn sample<T>(
    items: impl Iterator<Item = T>,
    len: usize,
    wanted: usize,
) -> impl Iterator<Item = T> {
    let (mut left, mut wanted) = (len, wanted.min(len));
    items.filter(move |_| {
        let is_taken = left > 0 && below(left) < wanted;
        wanted -= usize::from(is_taken);
        left = left.saturating_sub(1);
        is_taken
    })
}

/// `key count [with]` of HRANDFIELD and ZRANDMEMBER: the count, and whether the second half of each pair is requested.
pub(in crate::commands) fn pair_options(
    args: Args<'_>,
    with: &[u8],
) -> Result<(i64, bool), CommandError> {
    let count = parse_i64(args.get(2)).ok_or(CommandError::NotInteger)?;
    if count == i64::MIN {
        return Err(CommandError::text(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    if args.len() == 3 {
        return Ok((count, false));
    }
    if args.len() > 4 || !args.get(3).eq_ignore_ascii_case(with) {
        return Err(CommandError::Syntax);
    }
    if count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::text("ERR value is out of range"));
    }
    Ok((count, true))
}

/// The beginning of an answer of `count` of `len` pairs.
pub(in crate::commands) fn begin_pairs(
    len: usize,
    (count, with_second): (i64, bool),
    out: &mut Reply,
) {
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let in_all = if count < 0 { wanted } else { wanted.min(len) };
    let is_flat = with_second && !out.is_resp3();
    out.array(if is_flat { in_all.saturating_mul(2) } else { in_all });
}

/// One pair of it.
pub(in crate::commands) fn pair(
    first: &[u8],
    with_second: bool,
    second: impl FnOnce(&mut Reply),
    out: &mut Reply,
) {
    if with_second && out.is_resp3() {
        out.array(2);
    }
    out.bulk(first);
    if with_second {
        second(out);
    }
}

/// Answers random ones of `len` pairs: each at most once, or for a negative count any each time.
pub(in crate::commands) fn answer_pairs<'v, T>(
    (pairs, len): (impl Iterator<Item = T>, usize),
    (count, with_second): (i64, bool),
    first: impl Fn(&T) -> &'v [u8],
    second: impl Fn(&T, &mut Reply),
    out: &mut Reply,
) {
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let write = |of: &T, out: &mut Reply| pair(first(of), with_second, |out| second(of, out), out);
    begin_pairs(len, (count, with_second), out);
    if count >= 0 {
        sample(pairs, len, wanted).for_each(|pair| write(&pair, out));
        return;
    }
    let pairs: Vec<T> = pairs.collect();
    for _ in 0..wanted {
        // What does not fit into memory is refused in the end, whatever would follow.
        let Some(pair) = pairs.get(below(pairs.len().max(1))).filter(|_| !out.is_cut()) else {
            return;
        };
        write(pair, out);
    }
}
