//! Commands that change inner elements: LSET, LINSERT, LREM, LTRIM.

use super::index_within;
use crate::commands::positions::range_of;
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{Edit, ListEdit, Lists};
use crate::keyspace::paged::{Sought, needs, needs_to_change};
use sexton_engine::page::End;

/// LSET key index element: one operation, logged verbatim.
pub(super) fn lset(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    if let Some(paged) = ctx.paged::<Lists>(Purpose::Write, key)? {
        let (index, element) = (index_within(ctx.int_arg(2)?, paged.count()), ctx.args.get(3));
        let index = index.ok_or(CommandError::text("ERR index out of range"))? as u64;
        ctx.change_list(key, &paged, Event::list("lset"), |pages, list| {
            needs(list, pages, index..index + 1)?;
            list.set(pages, index, element)?;
            Ok(())
        });
        ctx.log_request();
        ctx.out.ok();
        return Ok(());
    }
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

/// LINSERT key BEFORE|AFTER pivot element: one operation or none, logged verbatim.
pub(super) fn linsert(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let behind = match ctx.args.get(2) {
        word if word.eq_ignore_ascii_case(b"AFTER") => 1,
        word if word.eq_ignore_ascii_case(b"BEFORE") => 0,
        _ => return Err(CommandError::Syntax),
    };
    let (key, pivot, element) = (ctx.args.get(1), ctx.args.get(3), ctx.args.get(4));
    if let Some(paged) = ctx.paged::<Lists>(Purpose::Write, key)? {
        let found = ctx.search_list(key, &paged, &Sought::first(pivot, End::Front, 1))?;
        let Some(index) = found.first().map(|index| index + behind as u64) else {
            ctx.out.int(-1);
            return Ok(());
        };
        let len = ctx.change_list(key, &paged, Event::list("linsert"), |pages, list| {
            needs_to_change(list, pages, &[index.min(list.len() - 1)])?;
            list.insert(pages, index, element)?;
            Ok(())
        });
        ctx.log_request();
        ctx.out.int(len as i64);
        return Ok(());
    }
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

/// LREM key count element: one operation, or none if the element does not exist; logged verbatim.
pub(super) fn lrem(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let count = ctx.int_arg(2)?;
    let (key, element) = (ctx.args.get(1), ctx.args.get(3));
    if let Some(paged) = ctx.paged::<Lists>(Purpose::Write, key)? {
        let from = if count < 0 { End::Back } else { End::Front };
        let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
        let mut removed = ctx.search_list(key, &paged, &Sought::first(element, from, most))?;
        removed.sort_unstable();
        if !removed.is_empty() {
            ctx.change_list(key, &paged, Event::list("lrem"), |pages, list| {
                // A list that loses all elements is deleted as a whole, unread.
                if (removed.len() as u64) < list.len() {
                    needs_to_change(list, pages, &removed)?;
                }
                Ok(list.remove_each(pages, &removed)?)
            });
            ctx.log_request();
        }
        ctx.out.int(removed.len() as i64);
        return Ok(());
    }
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

/// LTRIM key start stop: one operation, logged verbatim even if nothing is removed. Watchers of the key are notified
/// in that case too, as in Redis.
pub(super) fn ltrim(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (first, last) = (ctx.int_arg(2)?, ctx.int_arg(3)?);
    let key = ctx.args.get(1);
    if let Some(paged) = ctx.paged::<Lists>(Purpose::Write, key)? {
        let kept = range_of(first, last, paged.count());
        let (start, end, len) = (kept.start as u64, kept.end as u64, paged.count() as u64);
        ctx.change_list(key, &paged, Event::list("ltrim"), |pages, list| {
            if start < end {
                // A list that loses all elements is deleted as a whole, unread.
                needs(list, pages, 0..start)?;
                needs(list, pages, end..len)?;
            }
            Ok(list.trim(pages, start..end)?)
        });
        ctx.log_request();
        ctx.out.ok();
        return Ok(());
    }
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
