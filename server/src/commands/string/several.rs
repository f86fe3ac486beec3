//! MGET, MSET, MSETNX.

use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::{StringView, Written};
use crate::value::ValueType;

/// MGET key [key ...]. A key of another type reads as missing.
pub(super) fn mget(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let db = ctx.client.db;
    ctx.out.array(ctx.args.len() - 1);
    for key in ctx.args.from(1) {
        ctx.inspect_whole(Purpose::Read, (db, key), &[ValueType::String], |entry, out| match entry
            .and_then(StringView::of)
        {
            Some(string) => out.bulk(string.bytes()),
            None => out.null(),
        });
    }
    Ok(())
}

/// MSET key value [key value ...]: one operation a pair, logged verbatim.
pub(super) fn mset(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.args.len().is_multiple_of(2) {
        return Err(CommandError::text("ERR wrong number of arguments for 'mset' command"));
    }
    store_pairs(ctx);
    ctx.out.ok();
    Ok(())
}

/// MSETNX key value [key value ...]: all or, when one of the keys exists, none.
pub(super) fn msetnx(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.args.len().is_multiple_of(2) {
        return Err(CommandError::text("ERR wrong number of arguments for 'msetnx' command"));
    }
    let db = ctx.client.db;
    for key in ctx.args.from(1).step_by(2) {
        if ctx.inspect(Purpose::Write, db, key, |entry, _| entry.is_some()) {
            ctx.out.int(0);
            return Ok(());
        }
    }
    store_pairs(ctx);
    ctx.out.int(1);
    Ok(())
}

/// A key named twice is written twice, so replay of the request repeats the operations.
fn store_pairs(ctx: &mut Ctx<'_, '_>) {
    let db = ctx.client.db;
    let meta = Written::Whole.expiring_at(0);
    for (at, key) in ctx.args.from(1).enumerate().step_by(2) {
        let value = ctx.args.get(at + 2);
        ctx.put(db, key, meta, value, Event::string("set"));
    }
    ctx.log_request();
}
