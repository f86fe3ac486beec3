//! Numbers kept as strings.

use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::interop::long_double::LongDouble;
use crate::keyspace::{Strings, Written};
use crate::number::parse_i64;

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

/// One operation, which keeps the expiry; logged verbatim.
fn add(ctx: &mut Ctx<'_, '_>, increment: i64) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let (old, expire_at_ms) =
        ctx.lookup::<Strings, _>(Purpose::Write, key, |string, _| match string {
            Some(string) => parse_i64(string.bytes())
                .map(|number| (number, string.expire_at_ms()))
                .ok_or(CommandError::NotInteger),
            None => Ok((0, 0)),
        })??;
    let new = old.checked_add(increment).ok_or(CommandError::Overflow)?;
    let mut digits = itoa::Buffer::new();
    let meta = Written::Whole.expiring_at(expire_at_ms);
    ctx.put(db, key, meta, digits.format(new).as_bytes(), Event::string("incrby"));
    ctx.log_request();
    ctx.out.int(new);
    Ok(())
}

/// INCRBYFLOAT key increment. One operation, which keeps the expiry; logged as the SET of its
/// result.
pub(super) fn incrbyfloat(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let (old, expire_at_ms) = ctx.lookup::<Strings, _>(Purpose::Write, key, |string, _| {
        let expire_at_ms = string.map_or(0, |string| string.expire_at_ms());
        let number = LongDouble::parse(string.map_or(b"0", |string| string.bytes()));
        number.map(|number| (number, expire_at_ms)).ok_or(CommandError::NotFloat)
    })??;
    let increment = LongDouble::parse(ctx.args.get(2)).ok_or(CommandError::NotFloat)?;
    let text = old
        .checked_add(increment)
        .ok_or(CommandError::text("ERR increment would produce NaN or Infinity"))?
        .to_text();
    let meta = Written::Float.expiring_at(expire_at_ms);
    ctx.put(db, key, meta, text.as_bytes(), Event::string("incrbyfloat"));
    ctx.log(db, &[b"SET", key, text.as_bytes(), b"KEEPTTL"]);
    ctx.out.bulk(text.as_bytes());
    Ok(())
}
