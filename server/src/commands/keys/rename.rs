//! RENAME, RENAMENX, COPY, MOVE: a root record under another name.
//!
//! All of them are logged verbatim: replay on the same state performs the same operations.

use super::database_arg;
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::paged::{LaidOut, Paged};
use crate::value::ValueType;
use sexton_engine::Meta;

const SAME_OBJECT: CommandError =
    CommandError::text("ERR source and destination objects are the same");

/// Flags, expiry and root record of a key.
fn root_of(
    ctx: &mut Ctx<'_, '_>,
    purpose: Purpose,
    db: usize,
    key: &[u8],
) -> Option<(Meta, Vec<u8>)> {
    ctx.inspect_whole(purpose, (db, key), &ValueType::ALL, |entry, _| {
        entry.map(|entry| (entry.meta(), entry.value().to_vec()))
    })
}

fn exists(ctx: &mut Ctx<'_, '_>, db: usize, key: &[u8]) -> bool {
    ctx.inspect(Purpose::Write, db, key, |entry, _| entry.is_some())
}

/// RENAME key newkey.
pub(super) fn rename(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    rename_unless(ctx, false)?;
    ctx.out.ok();
    Ok(())
}

/// RENAMENX key newkey.
pub(super) fn renamenx(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let renamed = rename_unless(ctx, true)?;
    ctx.out.int(i64::from(renamed));
    Ok(())
}

/// Two operations: the new name, then the deletion of the old one. None when the names are equal.
fn rename_unless(ctx: &mut Ctx<'_, '_>, keep_existing: bool) -> Result<bool, CommandError> {
    let (db, source, target) = (ctx.client.db, ctx.args.get(1), ctx.args.get(2));
    if source == target {
        return if exists(ctx, db, source) { Ok(false) } else { Err(CommandError::NoSuchKey) };
    }
    let event = Event::generic("rename_from");
    let root = if ctx.can_rename_paged(source, target) {
        None
    } else {
        Some(root_of(ctx, Purpose::Write, db, source).ok_or(CommandError::NoSuchKey)?)
    };
    if exists(ctx, db, target) && keep_existing {
        return Ok(false);
    }
    // Redis notifies of the new name last.
    match root {
        Some((meta, value)) => {
            ctx.put_anew(db, target, meta, &value, None);
            ctx.delete(db, source, event);
        }
        None => ctx.rename_paged(source, target, event),
    }
    ctx.changes.tell_last(&ctx.server.events, target);
    ctx.tell(target, Event::generic("rename_to"));
    ctx.log_request();
    Ok(true)
}

/// A value to be given to another key.
enum Value {
    Whole(Meta, Vec<u8>),
    /// A string in pages, which share their memory.
    InPages(Paged),
    /// A copy that was made ahead.
    LaidOut(Box<LaidOut>),
}

/// The value of a key of the client's database, which is to be in database `target_db`; of a large collection a copy that is made ahead,
/// if `may_copy`.
fn value_of(
    ctx: &mut Ctx<'_, '_>,
    purpose: Purpose,
    (key, target_db): (&[u8], usize),
    may_copy: impl FnOnce(&mut Ctx<'_, '_>) -> bool,
) -> Option<Value> {
    if let Some(copy) = ctx.copied_ahead((key, target_db), may_copy) {
        return Some(Value::LaidOut(Box::new(copy)));
    }
    if let Some(paged) = ctx.string_to_copy(purpose, key) {
        return Some(Value::InPages(paged));
    }
    let whole = root_of(ctx, purpose, ctx.client.db, key);
    whole.map(|(meta, value)| Value::Whole(meta, value))
}

/// One operation.
fn put_copy(
    ctx: &mut Ctx<'_, '_>,
    (source, value): (&[u8], Value),
    (db, target): (usize, &[u8]),
    event: impl Into<Option<Event>>,
) {
    match value {
        Value::Whole(meta, value) => ctx.put(db, target, meta, &value, event),
        Value::InPages(paged) => ctx.copy_string((source, &paged), (db, target), event),
        Value::LaidOut(pages) => ctx.put_laid_out(db, target, *pages, event),
    }
}

/// COPY source destination [DB number] [REPLACE]: one operation.
pub(super) fn copy(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, source, target) = (ctx.client.db, ctx.args.get(1), ctx.args.get(2));
    let (mut target_db, mut replace) = (db, false);
    let mut at = 3;
    while at < ctx.args.len() {
        let option = ctx.args.get(at);
        if option.eq_ignore_ascii_case(b"REPLACE") {
            replace = true;
        } else if option.eq_ignore_ascii_case(b"DB") && at + 1 < ctx.args.len() {
            at += 1;
            target_db = database_arg(ctx.args, at, ctx.server.databases)?;
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    if target_db == db && source == target {
        return Err(SAME_OBJECT);
    }
    let value = value_of(ctx, Purpose::Read, (source, target_db), |ctx| {
        replace || !exists(ctx, target_db, target)
    });
    let may_copy = value.is_some() && (!exists(ctx, target_db, target) || replace);
    if let Some(value) = value.filter(|_| may_copy) {
        ctx.tell_replaced(target_db, target);
        put_copy(ctx, (source, value), (target_db, target), Event::generic("copy_to"));
        ctx.log_request();
    }
    ctx.out.int(i64::from(may_copy));
    Ok(())
}

/// MOVE key db: two operations, the copy in the other database and the deletion here.
pub(super) fn move_key(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let target_db = database_arg(ctx.args, 2, ctx.server.databases)?;
    if target_db == db {
        return Err(SAME_OBJECT);
    }
    let value = value_of(ctx, Purpose::Write, (key, target_db), |ctx| !exists(ctx, target_db, key));
    let moved = match value {
        Some(value) if !exists(ctx, target_db, key) => {
            put_copy(ctx, (key, value), (target_db, key), None);
            ctx.delete(db, key, Event::generic("move_from"));
            ctx.changes.tell(&ctx.server.events, target_db, key, Event::generic("move_to"));
            ctx.log_request();
            1
        }
        _ => 0,
    };
    ctx.out.int(moved);
    Ok(())
}
