//! FLUSHDB, FLUSHALL, SWAPDB: one put each database (N7), so SYNC and ASYNC mean the same.

use super::DATABASE_OUT_OF_RANGE;
use crate::command::{CommandError, CommandResult, Ctx, flush_mode_is_known};
use crate::number::parse_i64;
use sexton_engine::Found;

fn check_mode(ctx: &Ctx<'_, '_>) -> CommandResult {
    if flush_mode_is_known(ctx.args) { Ok(()) } else { Err(CommandError::Syntax) }
}

/// Tells those who watch a key of `db` that is about to change: it exists there, or in the database
/// that is to take its place. Watchers of missing keys are left alone, as in Redis.
fn touch_watched(ctx: &mut Ctx<'_, '_>, db: usize, replaced_by: Option<usize>) {
    let watches = &ctx.server.watches;
    if !watches.is_used() {
        return;
    }
    for bytes in watches.keys_of(db) {
        let changes = [Some(db), replaced_by].into_iter().flatten().any(|db| {
            let key = ctx.key_in(db, &bytes);
            !matches!(ctx.tx().find(key), Found::Absent)
        });
        if changes {
            watches.touch(db, &bytes);
        }
    }
}

/// One operation.
fn flush(ctx: &mut Ctx<'_, '_>, db: usize) -> CommandResult {
    touch_watched(ctx, db, None);
    if !ctx.tx().flush_database(db) {
        return Err(CommandError::text(
            "ERR too many emptied databases wait to be swept, try again",
        ));
    }
    ctx.log(db, &[b"FLUSHDB"]);
    Ok(())
}

/// FLUSHDB [ASYNC | SYNC].
pub(super) fn flushdb(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    check_mode(ctx)?;
    let db = ctx.client.db;
    flush(ctx, db)?;
    ctx.out.ok();
    Ok(())
}

/// FLUSHALL [ASYNC | SYNC]. Logged as one FLUSHDB a database, so that the number of operations does
/// not depend on how many databases the replaying server is configured for.
pub(super) fn flushall(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    check_mode(ctx)?;
    for db in 0..ctx.server.databases {
        flush(ctx, db)?;
    }
    ctx.out.ok();
    Ok(())
}

/// SWAPDB index1 index2: one operation, none when both are the same.
pub(super) fn swapdb(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let index = |at: usize, error| {
        parse_i64(ctx.args.get(at))
            .and_then(|number| i32::try_from(number).ok())
            .ok_or(CommandError::text(error))
    };
    let first = index(1, "ERR invalid first DB index")?;
    let second = index(2, "ERR invalid second DB index")?;
    let known = |index: i32| usize::try_from(index).ok().filter(|&db| db < ctx.server.databases);
    let (a, b) = known(first).zip(known(second)).ok_or(DATABASE_OUT_OF_RANGE)?;
    if a != b {
        touch_watched(ctx, a, Some(b));
        touch_watched(ctx, b, Some(a));
        ctx.tx().swap_databases(a, b);
        ctx.log_request();
    }
    ctx.out.ok();
    Ok(())
}
