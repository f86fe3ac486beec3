//! Fields that expire: HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT, HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME, HPERSIST.
//!
//! Texts and order of errors are those of Valkey 9.1. The log has absolute times: a field whose time had come was removed
//! by then, with an HDEL of its own.

use super::{named_fields, place_of_fields, write};
use crate::commands::expire::Condition;
use crate::commands::string::expiry_options::{ExpiryKind, field_ms};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{HashEdit, HashFields, Hashes};

/// What is answered for a field that is not there, or for each field of a key that is not.
const NO_FIELD: i64 = -2;
/// For one that never expires.
const NO_TIME: i64 = -1;
const UNCHANGED: i64 = 0;
const CHANGED: i64 = 1;
/// It has expired at once.
const GONE: i64 = 2;

/// What a command does to a hash.
struct Outcome<'a> {
    answers: Vec<i64>,
    /// The fields that it has changed, what becomes of the hash, and when its key expires.
    changed: Option<(Vec<&'a [u8]>, HashEdit, u64)>,
}

impl Outcome<'_> {
    fn reply(&self, ctx: &mut Ctx<'_, '_>) {
        ctx.out.array(self.answers.len());
        self.answers.iter().for_each(|&answer| ctx.out.int(answer));
    }
}

/// Looks at the hash under argument 1, and lets `step` answer for each of these fields: what it answers, and whether it
/// has changed it.
fn each_field<'a>(
    ctx: &mut Ctx<'a, '_>,
    names: impl ExactSizeIterator<Item = &'a [u8]>,
    step: impl Fn(&mut HashFields<'_>, &'a [u8]) -> (i64, bool),
) -> Result<Outcome<'a>, CommandError> {
    let (key, thresholds) = (ctx.args.get(1), ctx.thresholds());
    ctx.lookup::<Hashes, _>(Purpose::Write, key, |hash, _| {
        let Some(hash) = hash else {
            return Outcome { answers: vec![NO_FIELD; names.len()], changed: None };
        };
        let (mut fields, mut changed) = (HashFields::of(&hash, names.len()), Vec::new());
        let mut answers = Vec::with_capacity(names.len());
        for name in names {
            let (answer, has_changed) = step(&mut fields, name);
            answers.push(answer);
            if has_changed {
                changed.push(name);
            }
        }
        let changed = (!changed.is_empty())
            .then(|| (changed, fields.into_edit(&thresholds), hash.expire_at_ms()));
        Outcome { answers, changed }
    })
}

/// Logs a command with the fields that were changed: `head`, FIELDS, their number, their names.
pub(super) fn log_fields(ctx: &mut Ctx<'_, '_>, head: &[&[u8]], names: &[&[u8]]) {
    let mut digits = itoa::Buffer::new();
    let count: &[&[u8]] = &[b"FIELDS", digits.format(names.len()).as_bytes()];
    ctx.log(ctx.client.db, &[head, count, names].concat());
}

/// HEXPIRE key seconds [NX | XX | GT | LT] FIELDS count field [field ...].
pub(super) fn hexpire(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    expire(ctx, ExpiryKind::Ex, "hexpire")
}

/// HPEXPIRE: the same in milliseconds.
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

/// One operation where a field is changed; a time that has come removes them, logged as HDEL.
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
    let outcome = each_field(ctx, names, |fields, name| {
        let Some(field) = fields.get(name) else { return (NO_FIELD, false) };
        let old = (field.due_ms != 0).then_some(field.due_ms as i64);
        if !condition.allows(old, at_ms as i64) {
            return (UNCHANGED, false);
        }
        if is_past {
            fields.remove(name);
            return (GONE, true);
        }
        fields.set_due(name, at_ms);
        (CHANGED, true)
    })?;
    if let Some((names, hash, expire_at_ms)) = &outcome.changed {
        let event = if is_past { Event::hash("hexpired") } else { Event::hash("hexpire") };
        write(ctx, key, hash, *expire_at_ms, &[event])?;
        if is_past {
            ctx.server.stats.count_expired_fields(names.len() as u64);
            ctx.log(ctx.client.db, &[&[b"HDEL", key], names.as_slice()].concat());
        } else {
            let mut digits = itoa::Buffer::new();
            let at = digits.format(at_ms).as_bytes();
            log_fields(ctx, &[b"HPEXPIREAT", key, at], names);
        }
    }
    outcome.reply(ctx);
    Ok(())
}

/// HPERSIST key FIELDS count field [field ...]: one operation where a field has had a time.
pub(super) fn hpersist(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, args) = (ctx.args.get(1), ctx.args);
    let names = super::fields_behind_key(args)?;
    let outcome = each_field(ctx, names, |fields, name| match fields.get(name) {
        None => (NO_FIELD, false),
        Some(field) if field.due_ms == 0 => (NO_TIME, false),
        Some(_) => {
            fields.set_due(name, 0);
            (CHANGED, true)
        }
    })?;
    if let Some((names, hash, expire_at_ms)) = &outcome.changed {
        write(ctx, key, hash, *expire_at_ms, &[Event::hash("hpersist")])?;
        log_fields(ctx, &[b"HPERSIST", key], names);
    }
    outcome.reply(ctx);
    Ok(())
}

/// HTTL key FIELDS count field [field ...].
pub(super) fn httl(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let origin_ms = ctx.now_ms;
    tell(ctx, true, origin_ms)
}

/// HPTTL: the same in milliseconds.
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
    ctx.lookup::<Hashes, _>(Purpose::Read, ctx.args.get(1), |hash, out| {
        out.array(names.len());
        let Some(hash) = hash else { return names.for_each(|_| out.int(NO_FIELD)) };
        let fields = HashFields::of(&hash, names.len());
        for name in names {
            out.int(match fields.get(name) {
                None => NO_FIELD,
                Some(field) if field.due_ms == 0 => NO_TIME,
                Some(field) => {
                    let ms = field.due_ms.saturating_sub(origin_ms) as i64;
                    if in_seconds { ms.saturating_add(500) / 1000 } else { ms }
                }
            });
        }
    })
}
