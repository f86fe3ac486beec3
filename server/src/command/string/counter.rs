//! Numbers kept as strings.

use crate::command::access::Purpose;
use crate::command::{CommandError, CommandResult, Ctx};
use crate::notify::NotifyClass;
use crate::number::parse_i64;
use crate::value::PLAIN_STRING;
use sexton_engine::Meta;

/// INCR key.
pub(super) fn incr(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    add(ctx, 1)
}

/// DECR key.
pub(super) fn decr(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    add(ctx, -1)
}

/// INCRBY key increment.
pub(super) fn incrby(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let increment = ctx.int_arg(2)?;
    add(ctx, increment)
}

/// DECRBY key decrement.
pub(super) fn decrby(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let increment =
        ctx.int_arg(2)?.checked_neg().ok_or(CommandError::text("ERR decrement would overflow"))?;
    add(ctx, increment)
}

/// One operation, which keeps the expiry; logged as it came.
fn add(ctx: &mut Ctx<'_, '_>, increment: i64) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let (old, expire_at_ms) =
        ctx.inspect_string(Purpose::Write, key, |entry, _| match entry {
            Some(entry) => parse_i64(entry.value())
                .map(|number| (number, entry.meta().expire_at_ms))
                .ok_or(CommandError::NotInteger),
            None => Ok((0, 0)),
        })??;
    let new = old.checked_add(increment).ok_or(CommandError::Overflow)?;
    let mut digits = itoa::Buffer::new();
    ctx.put(db, key, Meta { flags: PLAIN_STRING, expire_at_ms }, digits.format(new).as_bytes());
    ctx.log_request();
    ctx.notify(NotifyClass::String, "incrby", key);
    ctx.out.int(new);
    Ok(())
}
