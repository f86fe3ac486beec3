//! FLUSHDB, FLUSHALL, SWAPDB: one put per database (N7), so SYNC and ASYNC do not differ.

use super::DATABASE_OUT_OF_RANGE;
use crate::dispatch::{CommandError, CommandResult, Ctx, REPLAY_MS, bring_in, flush_mode_is_known};
use crate::number::parse_i64;
use sexton_engine::{Found, SyncPolicy};

fn check_mode(ctx: &Ctx<'_, '_>) -> CommandResult {
    if flush_mode_is_known(ctx.args) { Ok(()) } else { Err(CommandError::Syntax) }
}

/// Whether `db` has a living key of this name, in memory or on a device.
fn is_alive(ctx: &mut Ctx<'_, '_>, db: usize, bytes: &[u8]) -> bool {
    let now_ms = ctx.now_ms;
    let key = ctx.key_in(db, bytes);
    let tx = ctx.tx();
    if matches!(tx.find(key), Found::Cold) {
        bring_in(tx, key);
    }
    matches!(tx.find(key), Found::Live(entry) if !entry.meta().is_expired(now_ms))
}

/// Notifies watchers of keys of `db` that are about to change: keys that exist there, or in the database that replaces
/// it. Watchers of keys that are missing or expired in both are not notified, as in Redis.
fn touch_watched(ctx: &mut Ctx<'_, '_>, db: usize, replaced_by: Option<usize>) {
    let watches = &ctx.server.events.watches;
    if !watches.is_used() {
        return;
    }
    watches.touch_all();
    for bytes in watches.keys_of(db) {
        if is_alive(ctx, db, &bytes)
            || replaced_by.is_some_and(|other| is_alive(ctx, other, &bytes))
        {
            ctx.changes.replace_watched(&ctx.server.events, db, &bytes);
        }
    }
}

/// One operation; none for an empty database, so that there is nothing to drop for it. Replay repeats the logged
/// operations.
fn flush(ctx: &mut Ctx<'_, '_>, db: usize) -> CommandResult {
    touch_watched(ctx, db, None);
    if ctx.now_ms != REPLAY_MS && ctx.tx().is_database_empty(db) {
        return Ok(());
    }
    if !ctx.tx().flush_database(db) {
        return Err(CommandError::text(
            "ERR too many emptied databases wait to be swept, try again",
        ));
    }
    ctx.log(db, &[b"FLUSHDB"]);
    note_waited_for(ctx, db);
    Ok(())
}

/// FLUSHDB [ASYNC | SYNC].
pub(super) fn flushdb(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    check_mode(ctx)?;
    let db = ctx.client.db;
    ctx.changes.empty(&ctx.server.events);
    flush(ctx, db)?;
    ctx.out.ok();
    Ok(())
}

/// FLUSHALL [ASYNC | SYNC]. Logged as one FLUSHDB per database, so that the number of operations does
/// not depend on the replaying server's number of databases. A running save is cancelled.
pub(super) fn flushall(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    check_mode(ctx)?;
    ctx.changes.empty(&ctx.server.events);
    for db in 0..ctx.server.databases {
        flush(ctx, db)?;
    }
    // As in Redis: it would bring back, at the next start that loads it, what has just been deleted.
    let server = ctx.server;
    server.saving.call_off();
    // All latches are held: the operations of this transaction get the next sequences.
    let last_seq = server.engine.last_seq() + u64::from(ctx.tx().operations());
    if server.engine.sync_policy() == SyncPolicy::Off
        && server.saving.has_points()
        && server.saving.changes(last_seq) > 0
    {
        // So would the last dump, which is the truth without a log (N3).
        server.saving.want_from(last_seq);
    }
    ctx.out.ok();
    Ok(())
}

/// Keys that clients wait for may have gained or lost a value.
fn note_waited_for(ctx: &mut Ctx<'_, '_>, db: usize) {
    for key in ctx.server.blocking.keys_of(db) {
        ctx.changes.note_ready(db, key);
    }
}

/// SWAPDB index1 index2: one operation, or none if the indexes are equal.
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
        [a, b].into_iter().for_each(|db| note_waited_for(ctx, db));
    }
    ctx.out.ok();
    Ok(())
}
