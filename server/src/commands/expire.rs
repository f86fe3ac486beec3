//! Expiry times. The engine stores only absolute milliseconds; the log records them as PEXPIREAT.

use crate::dispatch::{Binding, CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::number::parse_i64;
use sexton_engine::Meta;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("expire", expire),
    Binding::keyed("pexpire", pexpire),
    Binding::keyed("expireat", expireat),
    Binding::keyed("pexpireat", pexpireat),
    Binding::keyed("ttl", ttl),
    Binding::keyed("pttl", pttl),
    Binding::keyed("expiretime", expiretime),
    Binding::keyed("pexpiretime", pexpiretime),
    Binding::keyed("persist", persist),
];

/// Unit of a time argument or reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

/// When an expiry may be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Condition {
    /// The one that these options name.
    pub(super) fn parse<'a>(options: impl Iterator<Item = &'a [u8]>) -> Result<Self, CommandError> {
        let mut condition = Self::default();
        for option in options {
            match option.to_ascii_uppercase().as_slice() {
                b"NX" => condition.nx = true,
                b"XX" => condition.xx = true,
                b"GT" => condition.gt = true,
                b"LT" => condition.lt = true,
                _ => return Err(CommandError::quoting("ERR Unsupported option ", option, "")),
            }
        }
        if condition.nx && (condition.xx || condition.gt || condition.lt) {
            return Err(CommandError::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if condition.gt && condition.lt {
            return Err(CommandError::text(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok(condition)
    }

    /// True when an expiry of `old` (ms, `None` is never) may become `new`.
    pub(super) fn allows(self, old: Option<i64>, new: i64) -> bool {
        match old {
            None => !self.xx && !self.gt,
            Some(old) => !self.nx && (!self.gt || new > old) && (!self.lt || new < old),
        }
    }
}

fn expire(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let origin_ms = ctx.now_ms as i64;
    change(ctx, Unit::Seconds, origin_ms, "expire")
}

fn pexpire(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let origin_ms = ctx.now_ms as i64;
    change(ctx, Unit::Milliseconds, origin_ms, "pexpire")
}

fn expireat(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    change(ctx, Unit::Seconds, 0, "expireat")
}

fn pexpireat(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    change(ctx, Unit::Milliseconds, 0, "pexpireat")
}

/// EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT key time [NX | XX | GT | LT]: one operation if the answer
/// is 1. A time in the past deletes the key, and is logged as DEL.
fn change(
    ctx: &mut Ctx<'_, '_>,
    unit: Unit,
    origin_ms: i64,
    command: &'static str,
) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let condition = Condition::parse(ctx.args.from(3))?;
    let given = parse_i64(ctx.args.get(2)).ok_or(CommandError::NotInteger)?;
    let factor = if unit == Unit::Seconds { 1000 } else { 1 };
    let expire_at_ms = given
        .checked_mul(factor)
        .and_then(|ms| ms.checked_add(origin_ms))
        .ok_or(CommandError::InvalidExpire(command))?;
    let meta = ctx.inspect(Purpose::Write, db, key, |entry, _| entry.map(|entry| entry.meta()));
    let Some(meta) = meta else {
        ctx.out.int(0);
        return Ok(());
    };
    let old = (meta.expire_at_ms != 0).then_some(meta.expire_at_ms as i64);
    if !condition.allows(old, expire_at_ms) {
        ctx.out.int(0);
        return Ok(());
    }
    if expire_at_ms <= ctx.now_ms as i64 {
        ctx.delete(db, key, Event::generic("del"));
        ctx.log(db, &[b"DEL", key]);
    } else {
        let meta = Meta { expire_at_ms: expire_at_ms as u64, ..meta };
        ctx.set_meta(db, key, meta, Event::generic("expire"));
        let mut digits = itoa::Buffer::new();
        ctx.log(db, &[b"PEXPIREAT", key, digits.format(expire_at_ms).as_bytes()]);
    }
    ctx.out.int(1);
    Ok(())
}

fn ttl(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let origin_ms = ctx.now_ms;
    tell(ctx, Unit::Seconds, origin_ms)
}

fn pttl(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let origin_ms = ctx.now_ms;
    tell(ctx, Unit::Milliseconds, origin_ms)
}

fn expiretime(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    tell(ctx, Unit::Seconds, 0)
}

fn pexpiretime(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    tell(ctx, Unit::Milliseconds, 0)
}

/// TTL, PTTL, EXPIRETIME, PEXPIRETIME key: -2 without the key, -1 without an expiry; seconds are
/// rounded to the nearest.
fn tell(ctx: &mut Ctx<'_, '_>, unit: Unit, origin_ms: u64) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    ctx.inspect(Purpose::Glance, db, key, |entry, out| {
        let answer = match entry.map(|entry| entry.meta().expire_at_ms) {
            None => -2,
            Some(0) => -1,
            Some(expire_at_ms) => {
                let ms = expire_at_ms.saturating_sub(origin_ms) as i64;
                if unit == Unit::Seconds { ms.saturating_add(500) / 1000 } else { ms }
            }
        };
        out.int(answer);
    });
    Ok(())
}

/// PERSIST key: one operation when the answer is 1, logged verbatim.
fn persist(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let meta = ctx.inspect(Purpose::Write, db, key, |entry, _| entry.map(|entry| entry.meta()));
    match meta {
        Some(meta) if meta.expire_at_ms != 0 => {
            ctx.set_meta(db, key, Meta { expire_at_ms: 0, ..meta }, Event::generic("persist"));
            ctx.log_request();
            ctx.out.int(1);
        }
        _ => ctx.out.int(0),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Condition;

    #[test]
    fn conditions_treat_no_expiry_as_never() {
        let gt = Condition { gt: true, ..Condition::default() };
        let lt = Condition { lt: true, ..Condition::default() };
        let nx = Condition { nx: true, ..Condition::default() };
        let xx = Condition { xx: true, ..Condition::default() };
        assert!(!gt.allows(None, 5) && gt.allows(Some(4), 5) && !gt.allows(Some(5), 5));
        assert!(lt.allows(None, 5) && lt.allows(Some(6), 5) && !lt.allows(Some(5), 5));
        assert!(nx.allows(None, 5) && !nx.allows(Some(6), 5));
        assert!(!xx.allows(None, 5) && xx.allows(Some(6), 5));
    }
}
