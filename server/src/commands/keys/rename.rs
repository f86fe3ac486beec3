//! RENAME, RENAMENX, COPY, MOVE: a root record under another name.
//!
//! All of them are logged verbatim: replay on the same state performs the same operations.

use super::database_arg;
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::value::ValueType;
use sexton_engine::Meta;

const SAME_OBJECT: CommandError =
    CommandError::text("ERR source and destination objects are the same");

/// Flags, expiry and root record of a key.
fn root_of(ctx: &mut Ctx<'_, '_>, db: usize, key: &[u8]) -> Option<(Meta, Vec<u8>)> {
    ctx.inspect_whole(Purpose::Write, (db, key), &ValueType::ALL, |entry, _| {
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
        Some(root_of(ctx, db, source).ok_or(CommandError::NoSuchKey)?)
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
    let root = ctx.inspect_whole(Purpose::Read, (db, source), &ValueType::ALL, |entry, _| {
        entry.map(|entry| (entry.meta(), entry.value().to_vec()))
    });
    let copied = match root {
        Some((meta, value)) if !exists(ctx, target_db, target) || replace => {
            ctx.put_anew(target_db, target, meta, &value, Event::generic("copy_to"));
            ctx.log_request();
            1
        }
        _ => 0,
    };
    ctx.out.int(copied);
    Ok(())
}

/// MOVE key db: two operations, the copy in the other database and the deletion here.
pub(super) fn move_key(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let target_db = database_arg(ctx.args, 2, ctx.server.databases)?;
    if target_db == db {
        return Err(SAME_OBJECT);
    }
    let moved = match root_of(ctx, db, key) {
        Some((meta, value)) if !exists(ctx, target_db, key) => {
            ctx.put(target_db, key, meta, &value, None);
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
