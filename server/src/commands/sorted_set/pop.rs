//! ZPOPMIN and ZPOPMAX.

use crate::blocking::{Pop, Side};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::keyspace::collection::SortedSets;
use crate::keyspace::pop::take;
use crate::number::parse_i64;
use crate::value::ValueType;

/// ZPOPMIN key [count].
pub(super) fn zpopmin(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    pop(ctx, Side::First)
}

/// ZPOPMAX key [count].
pub(super) fn zpopmax(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    pop(ctx, Side::Last)
}

/// One operation, or none if the set is empty; logged verbatim.
fn pop(ctx: &mut Ctx<'_, '_>, side: Side) -> CommandResult {
    let count = match ctx.args.len() {
        2 => None,
        3 => Some(
            parse_i64(ctx.args.get(2))
                .and_then(|count| u64::try_from(count).ok())
                .ok_or(CommandError::text("ERR value is out of range, must be positive"))?,
        ),
        _ => return Err(CommandError::Syntax),
    };
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let pop = Pop { scored: true, side, count };
    if let Some(paged) = ctx.paged::<SortedSets>(Purpose::Write, key)? {
        let popped = ctx.take_of_pages(key, &paged, pop);
        if count == Some(0) {
            ctx.out.array(0);
            return Ok(());
        }
        ctx.log_request();
        popped.answer_pairs(ctx.out);
        return Ok(());
    }
    let found = ctx.inspect_whole(
        Purpose::Write,
        (db, key),
        &[ValueType::SortedSet],
        |entry, _| match entry {
            None => Ok(None),
            Some(entry) => take(entry, pop).map(Some).ok_or(CommandError::WrongType),
        },
    )?;
    match found {
        Some(popped) if count != Some(0) => {
            ctx.write_rest(key, &popped);
            ctx.log_request();
            popped.answer_pairs(ctx.out);
        }
        _ => ctx.out.array(0),
    }
    Ok(())
}
