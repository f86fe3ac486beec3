//! XADD and XSETID.

use super::find;
use super::id::{parse_new, parse_strict};
use super::trim::{TrimWords, change, damaged, trim_pages};
use crate::dispatch::{Args, CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::stream::{
    HIGHEST, LOWEST, NewEntry, StreamEdit, Trim, id_after, id_text,
};
use crate::keyspace::collection::{Edit, Streams};
use crate::keyspace::paged::{Removed, Streamed, Structure};
use sexton_persistence::rdb::StreamId;

/// Longest entry, in bytes of its fields and values.
const ENTRY_MAX_BYTES: usize = 1 << 30;

const TOO_LARGE: CommandError = CommandError::text("ERR Elements are too large to be stored");

/// The ID of a new entry: `wanted` is the requested one, and whether its second part is to be generated.
fn new_id(
    last: StreamId,
    wanted: Option<(StreamId, bool)>,
    now_ms: u64,
) -> Result<StreamId, CommandError> {
    let id = match wanted {
        None if now_ms > last.ms => Some(StreamId { ms: now_ms, seq: 0 }),
        None => id_after(last),
        Some((id, true)) if id.ms == last.ms => {
            let seq = last.seq.checked_add(1).ok_or(TOO_LARGE)?;
            Some(StreamId { ms: id.ms, seq })
        }
        Some((id, _)) => Some(id),
    };
    id.filter(|&id| id > last).ok_or(CommandError::text(
        "ERR The ID specified in XADD is equal or smaller than the target stream top item",
    ))
}

/// XADD key [NOMKSTREAM] [MAXLEN|MINID [=|~] threshold [LIMIT count]] *|id field value [field value ...].
///
/// One operation, logged with the ID; a rough trim is logged as an exact one to its result.
pub(super) fn xadd(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (args, key) = (ctx.args, ctx.args.get(1));
    let (mut words, mut must_exist, mut at) = (TrimWords::default(), false, 2);
    let mut wanted = None;
    while at < args.len() {
        let word = args.get(at);
        if word == b"*" {
            break;
        }
        match words.take(args, at)? {
            0 if word.eq_ignore_ascii_case(b"NOMKSTREAM") => {
                must_exist = true;
                at += 1;
            }
            0 => {
                wanted = Some(parse_new(word)?);
                break;
            }
            taken => at += taken,
        }
    }
    let trim = words.finish(ctx)?;
    let pairs_at = at + 1;
    if args.len() < pairs_at + 2 || !(args.len() - pairs_at).is_multiple_of(2) {
        return Err(ctx.spec.arity_error());
    }
    if wanted == Some((LOWEST, false)) {
        return Err(CommandError::text("ERR The ID specified in XADD must be greater than 0-0"));
    }
    let bytes: usize = args.from(pairs_at).map(<[u8]>::len).sum();
    if let Some(paged) = ctx.paged::<Streams>(Purpose::Write, key)? {
        let stream = Streamed::open(&paged).map_err(damaged)?;
        let id = next_id(ctx, stream.head.last_id, wanted, bytes)?;
        let (mut trim_here, before) = (trim, ctx.removed_before(Some(&paged)).unwrap_or_default());
        if let Some(trim) = &mut trim_here {
            if ctx.client.may_hand_over {
                trim.nodes_max = stream.nodes_of(ctx.changes_max());
            } else if trim_pages(ctx, (key, &paged), (*trim, true), before)?.is_none() {
                // What is more than one run removes goes before the entry comes.
                return Ok(());
            }
        }
        let (names, values) = pairs(args, pairs_at).unzip();
        let entry = NewEntry { id, names, values };
        let (thresholds, mut is_part) = (ctx.thresholds(), false);
        let done = change(ctx, (key, &paged), Event::stream("xadd"), |pages, stream| {
            stream.add(pages, &entry, &thresholds)?;
            let Some(trim) = trim_here else { return Ok(Some(Removed::Nothing)) };
            let plan = stream.plan(pages, trim)?;
            is_part = plan.is_cut;
            stream.trim(pages, &plan).map(Some)
        })?;
        if is_part {
            ctx.hand_over_changes(u64::MAX);
        }
        let (removed, left) = done.unwrap_or_default();
        log_added(ctx, (id, pairs_at), trim, removed > 0, left);
        return Ok(());
    }
    let found = find(ctx, (Purpose::Write, key), bytes + 64)?;
    if found.is_none() && must_exist {
        ctx.out.null();
        return Ok(());
    }
    let (mut edit, expire_at_ms) = found.unwrap_or_default();
    let id = next_id(ctx, edit.view().last_id(), wanted, bytes)?;
    edit.add(id, pairs(args, pairs_at), &ctx.thresholds());
    let trimmed = trim.is_some_and(|trim| edit.trim(trim) > 0);
    ctx.write_back(key, &edit, expire_at_ms, Event::stream("xadd"))?;
    log_added(ctx, (id, pairs_at), trim, trimmed, edit.len() as u64);
    Ok(())
}

/// The fields and values of a request, from word `at` on.
fn pairs(args: Args<'_>, at: usize) -> impl Iterator<Item = (&[u8], &[u8])> {
    args.from(at).step_by(2).zip(args.from(at + 1).step_by(2))
}

/// The ID of an entry of `bytes` bytes that follows `last`.
fn next_id(
    ctx: &Ctx<'_, '_>,
    last: StreamId,
    wanted: Option<(StreamId, bool)>,
    bytes: usize,
) -> Result<StreamId, CommandError> {
    if last == HIGHEST {
        return Err(CommandError::text(
            "ERR The stream has exhausted the last possible ID, unable to add more items",
        ));
    }
    let id = new_id(last, wanted, super::wall_ms(ctx))?;
    if bytes > ENTRY_MAX_BYTES {
        return Err(TOO_LARGE);
    }
    Ok(id)
}

/// Notifies of an added entry, logs it and answers it. `left`: entries left after a trim.
fn log_added(
    ctx: &mut Ctx<'_, '_>,
    (id, pairs_at): (StreamId, usize),
    trim: Option<Trim>,
    trimmed: bool,
    left: u64,
) {
    let (db, args, key) = (ctx.client.db, ctx.args, ctx.args.get(1));
    if trimmed {
        ctx.tell(key, Event::stream("xtrim"));
    }
    let (id, left) = (id_text(id), left.to_string());
    let mut logged: Vec<&[u8]> = vec![b"XADD", key];
    match trim {
        Some(trim) if trim.is_rough => logged.extend([b"MAXLEN", &b"="[..], left.as_bytes()]),
        // The options as they came.
        Some(_) => logged.extend(args.from(2).take(pairs_at - 3)),
        None => {}
    }
    logged.push(id.as_bytes());
    logged.extend(args.from(pairs_at));
    ctx.log(db, &logged);
    ctx.out.bulk(id.as_bytes());
}

/// XSETID key last-id [ENTRIESADDED entries] [MAXDELETEDID id]. One operation, logged verbatim.
pub(super) fn xsetid(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (args, key) = (ctx.args, ctx.args.get(1));
    let id = parse_strict(args.get(2), 0)?;
    let (mut added, mut deleted, mut at) = (None, LOWEST, 3);
    while at < args.len() {
        let is = |name: &[u8]| args.get(at).eq_ignore_ascii_case(name) && at + 1 < args.len();
        if is(b"ENTRIESADDED") {
            let number = u64::try_from(ctx.int_arg(at + 1)?);
            added =
                Some(number.map_err(|_| CommandError::text("ERR entries_added must be positive"))?);
        } else if is(b"MAXDELETEDID") {
            deleted = parse_strict(args.get(at + 1), 0)?;
            if id < deleted {
                return Err(CommandError::text(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
        } else {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    let event = Event::stream("xsetid");
    let check = |count: u64, last_valid_id: StreamId| {
        if count > 0 && id < last_valid_id {
            return Err(CommandError::text(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        if count > 0 && added.is_some_and(|added| added < count) {
            return Err(CommandError::text(
                "ERR The entries_added specified in XSETID is smaller than the target stream length",
            ));
        }
        Ok(())
    };
    if let Some(paged) = ctx.paged::<Streams>(Purpose::Write, key)? {
        let last = ctx.read_pages(key, &paged, |stream: &Streamed, pages, _| {
            Ok((stream.len(), stream.last_valid_id(pages)?))
        });
        check(last.0, last.1)?;
        ctx.change_pages(key, &paged, event, |_, stream: &mut Streamed| {
            stream.head.last_id = id;
            stream.head.entries_added = added.unwrap_or(stream.head.entries_added);
            if deleted != LOWEST {
                stream.head.max_deleted_id = deleted;
            }
            Ok(Some(()))
        });
    } else {
        let (mut edit, expire_at_ms): (StreamEdit, u64) =
            find(ctx, (Purpose::Write, key), 0)?.ok_or(CommandError::NoSuchKey)?;
        let view = edit.view();
        check(view.count() as u64, view.last_valid_id())?;
        edit.set_last_id(id);
        if let Some(added) = added {
            edit.set_entries_added(added);
        }
        if deleted != LOWEST {
            edit.set_max_deleted_id(deleted);
        }
        ctx.write_back(key, &edit, expire_at_ms, event)?;
    }
    ctx.changes.keep_value(key);
    ctx.log_request();
    ctx.out.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_made_up_go_upwards() {
        let id = |ms, seq| StreamId { ms, seq };
        assert_eq!(new_id(id(5, 9), None, 7), Ok(id(7, 0)));
        assert_eq!(new_id(id(5, 9), None, 5), Ok(id(5, 10)));
        assert_eq!(new_id(id(5, u64::MAX), None, 4), Ok(id(6, 0)));
        assert_eq!(new_id(id(5, 9), Some((id(5, 0), true)), 7), Ok(id(5, 10)));
        assert_eq!(new_id(id(5, 9), Some((id(6, 0), true)), 7), Ok(id(6, 0)));
        assert!(new_id(id(5, 9), Some((id(5, 9), false)), 7).is_err());
        assert_eq!(new_id(id(5, u64::MAX), Some((id(5, 0), true)), 7), Err(TOO_LARGE));
    }
}
