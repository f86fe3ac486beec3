//! Numbers kept in fields: HINCRBY, HINCRBYFLOAT.

use super::change;
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::interop::long_double::LongDouble;
use crate::keyspace::collection::Hashes;
use crate::keyspace::paged::{Keyed, Paged};
use crate::number::parse_i64;

/// Room for the text of most numbers.
const NUMBER_BYTES: usize = 32;

/// A hash in pages, and the value of a field of it.
struct Found {
    paged: Paged,
    old: Option<Vec<u8>>,
}

/// `None` if the key holds no paged hash.
fn of_pages(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    field: &[u8],
) -> Result<Option<Found>, CommandError> {
    let found = ctx.paged_for::<Hashes>(Purpose::Write, key, std::iter::once(field))?;
    let Some(paged) = found else { return Ok(None) };
    let old = ctx.read_pages(key, &paged, |hash: &Keyed, pages, _| {
        Ok(hash.get(pages, field)?.map(<[u8]>::to_vec))
    });
    Ok(Some(Found { paged, old }))
}

fn put(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    paged: &Paged,
    (field, value): (&[u8], &[u8]),
    event: Event,
) {
    ctx.change_pages(key, paged, event, |pages, hash: &mut Keyed| {
        hash.put_due(pages, field, value, None)?;
        Ok(Some(()))
    });
}

/// HINCRBY key field increment. One operation, logged verbatim.
pub(super) fn hincrby(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, field) = (ctx.args.get(1), ctx.args.get(2));
    let increment = ctx.int_arg(3)?;
    let thresholds = ctx.thresholds();
    let mut digits = itoa::Buffer::new();
    if let Some(Found { paged, old }) = of_pages(ctx, key, field)? {
        let old = old.as_deref().map_or(Some(0), parse_i64);
        let old = old.ok_or(CommandError::text("ERR hash value is not an integer"))?;
        let new = old.checked_add(increment).ok_or(CommandError::Overflow)?;
        put(ctx, key, &paged, (field, digits.format(new).as_bytes()), Event::hash("hincrby"));
        ctx.log_request();
        ctx.out.int(new);
        return Ok(());
    }
    let (mut hash, expire_at_ms) = change(ctx, key, field.len() + NUMBER_BYTES)?;
    let old = hash.view().get(field).map_or(Some(0), parse_i64);
    let old = old.ok_or(CommandError::text("ERR hash value is not an integer"))?;
    let new = old.checked_add(increment).ok_or(CommandError::Overflow)?;
    hash.set_value(field, digits.format(new).as_bytes(), &thresholds);
    ctx.write_back(key, &hash, expire_at_ms, Event::hash("hincrby"))?;
    ctx.log_request();
    ctx.out.int(new);
    Ok(())
}

/// HINCRBYFLOAT key field increment. One operation, logged as the HSET of its result, or as HSETEX
/// if fields expire.
pub(super) fn hincrbyfloat(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, field) = (ctx.args.get(1), ctx.args.get(2));
    let increment = LongDouble::parse(ctx.args.get(3)).ok_or(CommandError::NotFloat)?;
    if matches!(increment, LongDouble::Infinite { .. }) {
        return Err(CommandError::text("ERR value is NaN or Infinity"));
    }
    let sum = |old: Option<&[u8]>| {
        let old = LongDouble::parse(old.unwrap_or(b"0"));
        let sum = old
            .ok_or(CommandError::text("ERR hash value is not a float"))?
            .checked_add(increment)
            .ok_or(CommandError::text("ERR increment would produce NaN or Infinity"))?;
        Ok::<_, CommandError>(sum.to_text())
    };
    let event = Event::hash("hincrbyfloat");
    let (text, expires) = if let Some(Found { paged, old }) = of_pages(ctx, key, field)? {
        let text = sum(old.as_deref())?;
        put(ctx, key, &paged, (field, text.as_bytes()), event);
        (text, paged.meta.has_due_elements())
    } else {
        let thresholds = ctx.thresholds();
        let (mut hash, expire_at_ms) = change(ctx, key, field.len() + NUMBER_BYTES)?;
        let text = sum(hash.view().get(field))?;
        hash.set_value(field, text.as_bytes(), &thresholds);
        ctx.write_back(key, &hash, expire_at_ms, event)?;
        (text, hash.has_times())
    };
    let db = ctx.client.db;
    if expires {
        // HSET would take the due time away.
        ctx.log(db, &[b"HSETEX", key, b"KEEPTTL", b"FIELDS", b"1", field, text.as_bytes()]);
    } else {
        ctx.log(db, &[b"HSET", key, field, text.as_bytes()]);
    }
    ctx.out.bulk(text.as_bytes());
    Ok(())
}
