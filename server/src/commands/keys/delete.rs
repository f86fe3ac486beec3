//! DEL, UNLINK, EXISTS, TOUCH, TYPE.

use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::value::ValueType;
use sexton_engine::Key;

/// DEL key [key ...], and UNLINK: deleting is opening a grave, so there is nothing to do lazily.
///
/// One operation a deleted key. Logged as it came: replay finds the same keys, each of them once.
pub(super) fn del(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let db = ctx.client.db;
    let engine = &ctx.server.engine;
    let slot = engine.slot_of(db);
    let (one, many): ([u64; 1], Vec<u64>);
    let hash_of = |key| ctx.args.hash_of(key).unwrap_or_else(|| engine.hash(key));
    let hashes: &[u64] = if ctx.args.len() == 2 {
        one = [hash_of(ctx.args.get(1))];
        &one
    } else {
        many = ctx.args.from(1).map(hash_of).collect();
        &many
    };
    // Expired keys first: their deletions are logged before the request.
    for (at, key) in ctx.args.from(1).enumerate() {
        engine.prefetch_ahead(hashes, at);
        ctx.delete_due(db, Key { slot, bytes: key, hash: hashes[at] });
    }
    let mut deleted = 0;
    for (at, key) in ctx.args.from(1).enumerate() {
        engine.prefetch_ahead(hashes, at);
        let hashed = Key { slot, bytes: key, hash: hashes[at] };
        if ctx.delete_hashed(db, hashed, Event::generic("del")) {
            deleted += 1;
        }
    }
    if deleted != 0 {
        ctx.log_request();
    }
    ctx.out.int(deleted);
    Ok(())
}

/// EXISTS key [key ...]: a key named twice counts twice.
pub(super) fn exists(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    count(ctx, Purpose::Glance)
}

/// TOUCH key [key ...].
pub(super) fn touch(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    count(ctx, Purpose::Touch)
}

fn count(ctx: &mut Ctx<'_, '_>, purpose: Purpose) -> CommandResult {
    let db = ctx.client.db;
    let mut found = 0;
    for key in ctx.args.from(1) {
        found += ctx.inspect(purpose, db, key, |entry, _| i64::from(entry.is_some()));
    }
    ctx.out.int(found);
    Ok(())
}

/// TYPE key.
pub(super) fn type_of(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    ctx.inspect(Purpose::Glance, db, key, |entry, out| {
        let name = match entry {
            Some(entry) => ValueType::of(entry.meta().flags)
                .ok_or(CommandError::text("ERR value of a type that this server does not know"))?
                .name(),
            None => "none",
        };
        out.simple(name);
        Ok(())
    })
}
