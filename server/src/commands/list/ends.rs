//! Commands that work on the ends: LPUSH, RPUSH, LPUSHX, RPUSHX, LPOP, RPOP.

use crate::blocking::{Pop, Side};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{Edit, ListEdit, Lists};
use crate::keyspace::pop::take;
use crate::number::parse_i64;
use crate::value::ValueType;
use sexton_engine::page::End;

/// LPUSH key element [element ...].
pub(super) fn lpush(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    push(ctx, Side::First, false)
}

/// RPUSH key element [element ...].
pub(super) fn rpush(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    push(ctx, Side::Last, false)
}

/// LPUSHX key element [element ...].
pub(super) fn lpushx(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    push(ctx, Side::First, true)
}

/// RPUSHX key element [element ...].
pub(super) fn rpushx(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    push(ctx, Side::Last, true)
}

/// One operation, logged verbatim.
fn push(ctx: &mut Ctx<'_, '_>, side: Side, must_exist: bool) -> CommandResult {
    let (key, args) = (ctx.args.get(1), ctx.args);
    if let Some(paged) = ctx.paged::<Lists>(Purpose::Write, key)? {
        let (end, event) = match side {
            Side::First => (End::Front, Event::list("lpush")),
            Side::Last => (End::Back, Event::list("rpush")),
        };
        let len = ctx.change_list(key, &paged, event, |pages, list| {
            for element in args.from(2) {
                list.push(pages, end, element)?;
            }
            Ok(())
        });
        ctx.log_request();
        ctx.out.int(len as i64);
        return Ok(());
    }
    let found = ctx.lookup::<Lists, _>(Purpose::Write, key, |list, _| {
        list.map(|list| (list.edit(), list.expire_at_ms()))
    })?;
    let Some((mut list, expire_at_ms)) =
        found.or_else(|| (!must_exist).then(|| (ListEdit::default(), 0)))
    else {
        ctx.out.int(0);
        return Ok(());
    };
    let event = match side {
        Side::First => {
            list.insert(0, (2..args.len()).rev().map(|at| args.get(at)));
            Event::list("lpush")
        }
        Side::Last => {
            args.from(2).for_each(|element| list.push_right(element));
            Event::list("rpush")
        }
    };
    ctx.write_back(key, &list, expire_at_ms, event)?;
    ctx.log_request();
    ctx.out.int(list.len() as i64);
    Ok(())
}

/// LPOP key [count].
pub(super) fn lpop(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    pop(ctx, Side::First, "ERR wrong number of arguments for 'lpop' command")
}

/// RPOP key [count].
pub(super) fn rpop(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    pop(ctx, Side::Last, "ERR wrong number of arguments for 'rpop' command")
}

/// One operation, logged verbatim.
fn pop(ctx: &mut Ctx<'_, '_>, side: Side, wrong_arity: &'static str) -> CommandResult {
    if ctx.args.len() > 3 {
        return Err(CommandError::text(wrong_arity));
    }
    let count = match ctx.args.len() {
        3 => Some(
            parse_i64(ctx.args.get(2))
                .and_then(|count| u64::try_from(count).ok())
                .ok_or(CommandError::text("ERR value is out of range, must be positive"))?,
        ),
        _ => None,
    };
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let wanted = Pop { scored: false, side, count };
    if let Some(paged) = ctx.paged::<Lists>(Purpose::Write, key)? {
        let popped = ctx.take_of_pages(key, &paged, wanted);
        if count != Some(0) {
            ctx.log_request();
        }
        popped.answer_elements(ctx.out);
        return Ok(());
    }
    let found =
        ctx.inspect_whole(Purpose::Write, (db, key), &[ValueType::List], |entry, _| match entry {
            None => Ok(None),
            Some(entry) => take(entry, wanted).map(Some).ok_or(CommandError::WrongType),
        })?;
    match (found, count) {
        (None, None) => ctx.out.null(),
        (None, Some(_)) => ctx.out.null_array(),
        (Some(_), Some(0)) => ctx.out.array(0),
        (Some(popped), _) => {
            ctx.write_rest(key, &popped);
            ctx.log_request();
            popped.answer_elements(ctx.out);
        }
    }
    Ok(())
}
