//! Commands that move an element from list to list: RPOPLPUSH, LMOVE, and those that wait for one: BRPOPLPUSH, BLMOVE.

use super::side;
use crate::blocking::{Side, Wants};
use crate::commands::pop::{deadline, wait};
use crate::dispatch::{CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{Edit, ListEdit, Lists};

/// RPOPLPUSH source destination.
pub(super) fn rpoplpush(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if !transfer(ctx, Side::Last, Side::First)? {
        ctx.out.null();
    }
    Ok(())
}

/// LMOVE source destination LEFT|RIGHT LEFT|RIGHT.
pub(super) fn lmove(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (from, to) = (side(ctx.args.get(3))?, side(ctx.args.get(4))?);
    if !transfer(ctx, from, to)? {
        ctx.out.null();
    }
    Ok(())
}

/// BRPOPLPUSH source destination timeout.
pub(super) fn brpoplpush(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let deadline = deadline(ctx.args.get(3))?;
    if !transfer(ctx, Side::Last, Side::First)? {
        ctx.out.null();
        wait(ctx, 1..2, Wants::List, deadline);
    }
    Ok(())
}

/// BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout.
pub(super) fn blmove(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (from, to) = (side(ctx.args.get(3))?, side(ctx.args.get(4))?);
    let deadline = deadline(ctx.args.get(5))?;
    if !transfer(ctx, from, to)? {
        ctx.out.null();
        wait(ctx, 1..2, Wants::List, deadline);
    }
    Ok(())
}

/// Moves an element and answers it; false when there is none. One operation for each of the two lists, logged as LMOVE.
fn transfer(
    ctx: &mut Ctx<'_, '_>,
    from: Side,
    to: Side,
) -> Result<bool, crate::dispatch::CommandError> {
    let (source, destination) = (ctx.args.get(1), ctx.args.get(2));
    let found = ctx.lookup::<Lists, _>(Purpose::Write, source, |list, _| {
        list.map(|list| (list.edit(), list.expire_at_ms()))
    })?;
    let Some((mut left, left_expires_ms)) = found else { return Ok(false) };
    let is_same = source == destination;
    let found = if is_same {
        None
    } else {
        ctx.lookup::<Lists, _>(Purpose::Write, destination, |list, _| {
            list.map(|list| (list.edit(), list.expire_at_ms()))
        })?
    };
    let taken = match from {
        Side::First => 0,
        Side::Last => left.len() - 1,
    };
    let element = left.view().iter().nth(taken).unwrap_or_default().to_vec();
    left.remove(taken..taken + 1);
    let popped = Event::list(if from == Side::First { "lpop" } else { "rpop" });
    let pushed = Event::list(if to == Side::First { "lpush" } else { "rpush" });
    let put = |list: &mut ListEdit| match to {
        Side::First => list.insert(0, std::iter::once(element.as_slice())),
        Side::Last => list.push_right(&element),
    };
    if is_same {
        put(&mut left);
        ctx.write_back(source, &left, left_expires_ms, pushed)?;
        ctx.tell(source, popped);
    } else {
        let (mut list, expire_at_ms) = found.unwrap_or_default();
        put(&mut list);
        ctx.write_back(destination, &list, expire_at_ms, pushed)?;
        ctx.write_back(source, &left, left_expires_ms, popped)?;
    }
    let word = |side| if side == Side::First { b"LEFT".as_slice() } else { b"RIGHT" };
    let db = ctx.client.db;
    ctx.log(db, &[b"LMOVE", source, destination, word(from), word(to)]);
    ctx.out.bulk(&element);
    Ok(true)
}
