//! Commands that change inner elements: LSET, LINSERT, LREM, LTRIM.

use super::index_within;
use crate::commands::positions::range_of;
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{Edit, ListEdit, Lists};
use crate::keyspace::paged::{Paged, Sought, needs, needs_to_change, needs_to_remove};
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
    let paged = ctx.paged::<Lists>(Purpose::Write, key)?;
    let Ok(before) = ctx.removed_before(paged.as_ref()) else {
        ctx.out.ok();
        return Ok(());
    };
    if let Some(paged) = paged {
        let len = paged.count() as u64;
        let ends = before.rest.unwrap_or_else(|| {
            let kept = range_of(first, last, paged.count());
            let start = if kept.is_empty() { len } else { kept.start as u64 };
            [start, len.saturating_sub(start.max(kept.end as u64))]
        });
        if trim_ends(ctx, key, &paged, ends, before.rest.is_none()) {
            ctx.out.ok();
        }
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

/// Removes so many elements from the front and from the back of a paged list: one operation. False if more are to go in the next one.
/// `verbatim`: the request says the same.
fn trim_ends(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    paged: &Paged,
    [front, back]: [u64; 2],
    verbatim: bool,
) -> bool {
    let (db, len) = (ctx.client.db, paged.count() as u64);
    // A list that loses all elements is deleted as a whole, unread.
    let goes_whole = front.saturating_add(back) >= len;
    let most = if goes_whole { u64::MAX } else { ctx.removed_max(paged) };
    let from_back = back.min(most);
    let from_front = front.min(most - from_back);
    let rest = [front - from_front, back - from_back];
    if rest != [0, 0] {
        ctx.hand_over_changes(front + back);
    }
    ctx.change_list(key, paged, Event::list("ltrim"), |pages, list| {
        if goes_whole {
            return Ok(list.trim(pages, 0..0)?);
        }
        needs_to_remove(list, pages, 0..from_front)?;
        needs_to_remove(list, pages, len - from_back..len)?;
        Ok(list.trim(pages, from_front..len - from_back)?)
    });
    if verbatim && rest == [0, 0] {
        ctx.log_request();
    } else {
        let (start, stop) = match goes_whole {
            true => ("1".to_owned(), "0".to_owned()),
            false => (from_front.to_string(), format!("-{}", from_back + 1)),
        };
        ctx.log(db, &[b"LTRIM", key, start.as_bytes(), stop.as_bytes()]);
    }
    if rest != [0, 0] {
        ctx.removes_more(from_front + from_back, rest);
    }
    rest == [0, 0]
}
