//! Numbers kept in fields: HINCRBY, HINCRBYFLOAT.

use super::change;
use crate::dispatch::{CommandError, CommandResult, Ctx};
use crate::events::Event;
use crate::interop::long_double::LongDouble;
use crate::number::parse_i64;

/// Room for the text of most numbers.
const NUMBER_BYTES: usize = 32;

/// HINCRBY key field increment. One operation, logged as it came.
pub(super) fn hincrby(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, field) = (ctx.args.get(1), ctx.args.get(2));
    let increment = ctx.int_arg(3)?;
    let thresholds = ctx.thresholds();
    let mut digits = itoa::Buffer::new();
    let (mut hash, expire_at_ms) = change(ctx, key, field.len() + NUMBER_BYTES)?;
    let old = hash.view().get(field).map_or(Some(0), parse_i64);
    let old = old.ok_or(CommandError::text("ERR hash value is not an integer"))?;
    let new = old.checked_add(increment).ok_or(CommandError::Overflow)?;
    hash.set(field, digits.format(new).as_bytes(), &thresholds);
    ctx.write_back(key, &hash, expire_at_ms, Event::hash("hincrby"))?;
    ctx.log_request();
    ctx.out.int(new);
    Ok(())
}

/// HINCRBYFLOAT key field increment. One operation, logged as the HSET of its outcome.
pub(super) fn hincrbyfloat(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, field) = (ctx.args.get(1), ctx.args.get(2));
    let increment = LongDouble::parse(ctx.args.get(3)).ok_or(CommandError::NotFloat)?;
    if matches!(increment, LongDouble::Infinite { .. }) {
        return Err(CommandError::text("ERR value is NaN or Infinity"));
    }
    let thresholds = ctx.thresholds();
    let (mut hash, expire_at_ms) = change(ctx, key, field.len() + NUMBER_BYTES)?;
    let old = LongDouble::parse(hash.view().get(field).unwrap_or(b"0"));
    let text = old
        .ok_or(CommandError::text("ERR hash value is not a float"))?
        .checked_add(increment)
        .ok_or(CommandError::text("ERR increment would produce NaN or Infinity"))?
        .to_text();
    hash.set(field, text.as_bytes(), &thresholds);
    ctx.write_back(key, &hash, expire_at_ms, Event::hash("hincrbyfloat"))?;
    ctx.log(ctx.client.db, &[b"HSET", key, field, text.as_bytes()]);
    ctx.out.bulk(text.as_bytes());
    Ok(())
}
