//! Fields that expire: HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT, HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME, HPERSIST.
//!
//! Error texts and their order are those of Valkey 9.1. The log has absolute times: an expired field was already removed
//! before, with an HDEL of its own.

use super::{named_fields, place_of_fields, write};
use crate::commands::expire::Condition;
use crate::commands::string::expiry_options::{ExpiryKind, field_ms};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{HashFields, Hashes};
use crate::keyspace::paged::{FieldSet, Keyed, PagedFields, Stop};
use crate::resp::Reply;

/// The answer for a missing field, or for each field of a missing key.
const NO_FIELD: i64 = -2;
/// For one that never expires.
const NO_TIME: i64 = -1;
const UNCHANGED: i64 = 0;
const CHANGED: i64 = 1;
/// It has expired at once.
const GONE: i64 = 2;

/// Calls `step` for each of these fields of the hash under argument 1; it answers for the field and returns whether it has
/// changed it. If there is no hash, `none` answers for each. One operation if a field is changed, reported as `event`. Returns the
/// changed fields, which the caller logs.
pub(super) fn each_field<'a>(
    ctx: &mut Ctx<'a, '_>,
    (purpose, event): (Purpose, Event),
    names: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    none: impl Fn(&mut Reply),
    step: impl Fn(&mut dyn FieldSet<'a>, &'a [u8], &mut Reply) -> Result<bool, Stop>,
) -> Result<Vec<&'a [u8]>, CommandError> {
    let (key, thresholds) = (ctx.args.get(1), ctx.thresholds());
    let each = |fields: &mut dyn FieldSet<'a>, out: &mut Reply| {
        out.array(names.len());
        let mut changed = Vec::new();
        for name in names.clone() {
            if step(fields, name, out)? {
                changed.push(name);
            }
        }
        Ok::<_, Stop>(changed)
    };
    if let Some(paged) = ctx.paged_for::<Hashes>(purpose, key, names.clone())? {
        let changed = ctx.answer_change(key, &paged, &[event], |pages, hash: &mut Keyed, out| {
            hash.needs_to_change(pages, names.clone())?;
            let changed = each(&mut PagedFields { hash, pages }, out)?;
            Ok((!changed.is_empty()).then_some(changed))
        });
        return Ok(changed.map_or_else(Vec::new, |(changed, _)| changed));
    }
    let changed = ctx.lookup::<Hashes, _>(purpose, key, |hash, out| {
        let Some(hash) = hash else {
            out.array(names.len());
            names.clone().for_each(|_| none(out));
            return None;
        };
        let mut fields = HashFields::of(&hash, names.len());
        // What lies in one record is there.
        let changed = each(&mut fields, out).unwrap_or_default();
        let edit = (!changed.is_empty()).then(|| fields.into_edit(&thresholds))?;
        Some((changed, edit, hash.expire_at_ms()))
    })?;
    let Some((changed, hash, expire_at_ms)) = changed else { return Ok(Vec::new()) };
    write(ctx, key, &hash, expire_at_ms, &[event])?;
    Ok(changed)
}

/// Logs a command with the fields that were changed: `head`, FIELDS, their number, their names.
pub(super) fn log_fields(ctx: &mut Ctx<'_, '_>, head: &[&[u8]], names: &[&[u8]]) {
    let mut digits = itoa::Buffer::new();
    let count: &[&[u8]] = &[b"FIELDS", digits.format(names.len()).as_bytes()];
    ctx.log(ctx.client.db, &[head, count, names].concat());
}

/// Counts and logs fields that a time in the past has removed.
pub(super) fn log_gone(ctx: &mut Ctx<'_, '_>, key: &[u8], names: &[&[u8]]) {
    ctx.server.stats.count_expired_fields(names.len() as u64);
    ctx.log(ctx.client.db, &[&[b"HDEL", key], names].concat());
}

/// Logs when fields expire.
pub(super) fn log_due(ctx: &mut Ctx<'_, '_>, key: &[u8], at_ms: u64, names: &[&[u8]]) {
    let mut digits = itoa::Buffer::new();
    log_fields(ctx, &[b"HPEXPIREAT", key, digits.format(at_ms).as_bytes()], names);
}

/// HEXPIRE key seconds [NX | XX | GT | LT] FIELDS count field [field ...].
pub(super) fn hexpire(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    expire(ctx, ExpiryKind::Ex, "hexpire")
}

/// HPEXPIRE: [`hexpire`] in milliseconds.
pub(super) fn hpexpire(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    expire(ctx, ExpiryKind::Px, "hpexpire")
}

/// HEXPIREAT: at a time.
pub(super) fn hexpireat(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    expire(ctx, ExpiryKind::ExAt, "hexpireat")
}

/// HPEXPIREAT: at a time in milliseconds.
pub(super) fn hpexpireat(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    expire(ctx, ExpiryKind::PxAt, "hpexpireat")
}

/// One operation if a field is changed; a time in the past removes the fields, logged as HDEL.
fn expire(ctx: &mut Ctx<'_, '_>, kind: ExpiryKind, command: &'static str) -> CommandResult {
    let (key, args) = (ctx.args.get(1), ctx.args);
    let place = place_of_fields(args, 3);
    let condition = match place {
        Some(place) => Condition::parse(args.from(3).take(place - 3))?,
        None => Condition::default(),
    };
    let names = named_fields(args, place, 1)?;
    let at_ms = field_ms(kind, args.get(2), ctx.now_ms, command)?;
    let is_past = at_ms <= ctx.now_ms;
    let none = |out: &mut Reply| out.int(NO_FIELD);
    let event = if is_past { Event::hash("hexpired") } else { Event::hash("hexpire") };
    let how = (Purpose::Write, event);
    let names = each_field(ctx, how, names, none, |fields, name, out| {
        let Some((_, due_ms)) = fields.get(name)? else {
            out.int(NO_FIELD);
            return Ok(false);
        };
        let old = (due_ms != 0).then_some(due_ms as i64);
        if !condition.allows(old, at_ms as i64) {
            out.int(UNCHANGED);
            return Ok(false);
        }
        if is_past {
            fields.remove(name)?;
        } else {
            fields.set_due(name, at_ms)?;
        }
        out.int(if is_past { GONE } else { CHANGED });
        Ok(true)
    })?;
    if names.is_empty() {
        return Ok(());
    }
    if is_past {
        log_gone(ctx, key, &names);
    } else {
        log_due(ctx, key, at_ms, &names);
    }
    Ok(())
}

/// HPERSIST key FIELDS count field [field ...]: one operation where a field has had a time.
pub(super) fn hpersist(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, args) = (ctx.args.get(1), ctx.args);
    let names = super::fields_behind_key(args)?;
    let none = |out: &mut Reply| out.int(NO_FIELD);
    let how = (Purpose::Write, Event::hash("hpersist"));
    let names = each_field(ctx, how, names, none, |fields, name, out| {
        let answer = match fields.get(name)? {
            None => NO_FIELD,
            Some((_, 0)) => NO_TIME,
            Some(_) => {
                fields.set_due(name, 0)?;
                CHANGED
            }
        };
        out.int(answer);
        Ok(answer == CHANGED)
    })?;
    if !names.is_empty() {
        log_fields(ctx, &[b"HPERSIST", key], &names);
    }
    Ok(())
}

/// HTTL key FIELDS count field [field ...].
pub(super) fn httl(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let origin_ms = ctx.now_ms;
    tell(ctx, true, origin_ms)
}

/// HPTTL: [`httl`] in milliseconds.
pub(super) fn hpttl(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let origin_ms = ctx.now_ms;
    tell(ctx, false, origin_ms)
}

/// HEXPIRETIME: the time itself.
pub(super) fn hexpiretime(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    tell(ctx, true, 0)
}

/// HPEXPIRETIME: the time itself in milliseconds.
pub(super) fn hpexpiretime(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    tell(ctx, false, 0)
}

/// Seconds are rounded to the nearest.
fn tell(ctx: &mut Ctx<'_, '_>, in_seconds: bool, origin_ms: u64) -> CommandResult {
    // Here alone a number that does not fit is called a syntax error.
    let names = match super::fields_behind_key(ctx.args) {
        Err(error) if error == super::WRONG_COUNT => return Err(CommandError::Syntax),
        names => names?,
    };
    let key = ctx.args.get(1);
    let answer = |due_ms: Option<u64>| match due_ms {
        None => NO_FIELD,
        Some(0) => NO_TIME,
        Some(due_ms) => {
            let ms = due_ms.saturating_sub(origin_ms) as i64;
            if in_seconds { ms.saturating_add(500) / 1000 } else { ms }
        }
    };
    if let Some(paged) = ctx.paged_for::<Hashes>(Purpose::Read, key, names.clone())? {
        ctx.read_pages(key, &paged, |hash: &Keyed, pages, out| {
            out.array(names.len());
            hash.each(pages, names.clone(), |name| {
                out.int(answer(hash.due_ms(pages, name)?));
                Ok(())
            })
        });
        return Ok(());
    }
    ctx.lookup::<Hashes, _>(Purpose::Read, key, |hash, out| {
        out.array(names.len());
        let Some(hash) = hash else { return names.for_each(|_| out.int(NO_FIELD)) };
        let fields = HashFields::of(&hash, names.len());
        names.for_each(|name| out.int(answer(fields.get(name).map(|field| field.due_ms))));
    })
}
