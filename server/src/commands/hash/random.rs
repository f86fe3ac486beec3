//! HRANDFIELD.

use crate::commands::chance::{self, below};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::keyspace::collection::{HashView, Hashes};
use crate::number::parse_i64;
use crate::resp::Reply;

/// HRANDFIELD key [count [WITHVALUES]]: a negative count draws with repetitions.
pub(super) fn hrandfield(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    if ctx.args.len() == 2 {
        return ctx.lookup::<Hashes, _>(Purpose::Read, key, |hash, out| {
            match hash.and_then(|hash| hash.iter().nth(below(hash.count()))) {
                Some((field, _)) => out.bulk(field),
                None => out.null(),
            }
        });
    }
    let (count, with_values) = options(ctx)?;
    ctx.lookup::<Hashes, _>(Purpose::Read, key, |hash, out| {
        let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        match hash {
            Some(hash) if count < 0 => draw(hash, wanted, with_values, out),
            Some(hash) => sample(hash, wanted, with_values, out),
            None => out.array(0),
        }
    })
}

/// Count, and whether WITHVALUES is given.
fn options(ctx: &Ctx<'_, '_>) -> Result<(i64, bool), CommandError> {
    let count = parse_i64(ctx.args.get(2)).ok_or(CommandError::NotInteger)?;
    if count == i64::MIN {
        return Err(CommandError::text(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    if ctx.args.len() == 3 {
        return Ok((count, false));
    }
    if ctx.args.len() > 4 || !ctx.args.get(3).eq_ignore_ascii_case(b"withvalues") {
        return Err(CommandError::Syntax);
    }
    if count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::text("ERR value is out of range"));
    }
    Ok((count, true))
}

fn head(count: usize, with_values: bool, out: &mut Reply) {
    let is_flat = with_values && !out.is_resp3();
    out.array(if is_flat { count.saturating_mul(2) } else { count });
}

fn write((field, value): (&[u8], &[u8]), with_values: bool, out: &mut Reply) {
    if with_values && out.is_resp3() {
        out.array(2);
    }
    out.bulk(field);
    if with_values {
        out.bulk(value);
    }
}

/// Any field each time.
fn draw(hash: HashView<'_>, wanted: usize, with_values: bool, out: &mut Reply) {
    head(wanted, with_values, out);
    let pairs: Vec<_> = hash.iter().collect();
    for _ in 0..wanted {
        // What does not fit into memory is refused in the end, whatever would follow.
        let Some(pair) = pairs.get(below(pairs.len().max(1))).filter(|_| !out.is_cut()) else {
            return;
        };
        write(*pair, with_values, out);
    }
}

/// Each field at most once.
fn sample(hash: HashView<'_>, wanted: usize, with_values: bool, out: &mut Reply) {
    let count = hash.count();
    head(wanted.min(count), with_values, out);
    chance::sample(hash.iter(), count, wanted).for_each(|pair| write(pair, with_values, out));
}
