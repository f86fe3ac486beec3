//! Commands that change what is within: LSET, LINSERT, LREM, LTRIM.

use super::index_within;
use crate::commands::positions::range_of;
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{Edit, ListEdit, Lists};

/// LSET key index element: one operation, logged as it came.
pub(super) fn lset(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    let found = ctx.lookup::<Lists, _>(Purpose::Write, key, |list, _| {
        list.map(|list| (list.edit(), list.expire_at_ms()))
    })?;
    let (mut list, expire_at_ms) = found.ok_or(CommandError::text("ERR no such key"))?;
    let index = index_within(ctx.int_arg(2)?, list.len());
    if !index.is_some_and(|index| list.set(index, ctx.args.get(3))) {
        return Err(CommandError::text("ERR index out of range"));
    }
    ctx.write_back(key, &list, expire_at_ms, Event::list("lset"))?;
    ctx.log_request();
    ctx.out.ok();
    Ok(())
}

/// LINSERT key BEFORE|AFTER pivot element: one operation or none, logged as it came.
pub(super) fn linsert(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let behind = match ctx.args.get(2) {
        word if word.eq_ignore_ascii_case(b"AFTER") => 1,
        word if word.eq_ignore_ascii_case(b"BEFORE") => 0,
        _ => return Err(CommandError::Syntax),
    };
    let (key, pivot, element) = (ctx.args.get(1), ctx.args.get(3), ctx.args.get(4));
    let found = ctx.lookup::<Lists, _>(Purpose::Write, key, |list, _| {
        list.map(|list| {
            let index = list.iter().position(|other| other == pivot);
            index.map(|index| (index, list.edit(), list.expire_at_ms()))
        })
    })?;
    match found {
        None => ctx.out.int(0),
        Some(None) => ctx.out.int(-1),
        Some(Some((index, mut list, expire_at_ms))) => {
            list.insert(index + behind, std::iter::once(element));
            ctx.write_back(key, &list, expire_at_ms, Event::list("linsert"))?;
            ctx.log_request();
            ctx.out.int(list.len() as i64);
        }
    }
    Ok(())
}

/// LREM key count element: one operation, or none when it is not there; logged as it came.
pub(super) fn lrem(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let count = ctx.int_arg(2)?;
    let (key, element) = (ctx.args.get(1), ctx.args.get(3));
    let found = ctx.lookup::<Lists, _>(Purpose::Write, key, |list, _| {
        let list = list?;
        let all = list.iter().filter(|other| *other == element).count();
        let most = match count {
            0 => all,
            count => usize::try_from(count.unsigned_abs()).unwrap_or(all).min(all),
        };
        if most == 0 {
            return None;
        }
        let kept_first = if count < 0 { all - most } else { 0 };
        let (mut rest, mut nth) = (ListEdit::default(), 0);
        for other in list.iter() {
            if other == element {
                nth += 1;
                if nth > kept_first && nth <= kept_first + most {
                    continue;
                }
            }
            rest.push_right(other);
        }
        Some((rest, list.expire_at_ms(), most))
    })?;
    let Some((list, expire_at_ms, removed)) = found else {
        ctx.out.int(0);
        return Ok(());
    };
    ctx.write_back(key, &list, expire_at_ms, Event::list("lrem"))?;
    ctx.log_request();
    ctx.out.int(removed as i64);
    Ok(())
}

/// LTRIM key start stop: one operation, logged as it came, also when nothing goes: those who watch the key hear of it as
/// Redis' do.
pub(super) fn ltrim(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (first, last) = (ctx.int_arg(2)?, ctx.int_arg(3)?);
    let key = ctx.args.get(1);
    let found = ctx.lookup::<Lists, _>(Purpose::Write, key, |list, _| {
        list.map(|list| (list.edit(), list.expire_at_ms()))
    })?;
    if let Some((mut list, expire_at_ms)) = found {
        let kept = range_of(first, last, list.len());
        list.remove(kept.end..list.len());
        list.remove(0..kept.start);
        ctx.write_back(key, &list, expire_at_ms, Event::list("ltrim"))?;
        ctx.log_request();
    }
    ctx.out.ok();
    Ok(())
}
