//! Commands that walk the key space: SCAN, KEYS, RANDOMKEY, DBSIZE.
//!
//! They see the newest state in key order, regardless of what is in memory. Inside MULTI they run under all
//! latches, otherwise on a helper thread without any. They change nothing: an expired key is
//! left out, and the expiry cycle deletes it.

pub(super) mod elements;

use crate::dispatch::{Args, Binding, CommandError, CommandResult, Ctx, Traits};
use crate::interop::glob;
use crate::number::parse_i64;
use crate::random::random;
use crate::value::ValueType;
use sexton_engine::{EngineError, ScanItem, ScanRange};

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::offload("scan", scan).with(Traits::READS_SNAPSHOTS),
    Binding::offload("keys", keys).with(Traits::READS_SNAPSHOTS),
    Binding::offload("randomkey", randomkey).with(Traits::READS_SNAPSHOTS),
    Binding::offload("dbsize", dbsize).with(Traits::READS_SNAPSHOTS.and(Traits::TRIES_AT_ONCE)),
];

const DEFAULT_COUNT: usize = 10;

const CURSOR_EXPIRED: CommandError = CommandError::text("ERR SCAN cursor expired, restart with 0");

fn storage_error(error: EngineError) -> CommandError {
    format!("ERR storage: {error}").into()
}

/// Passes the live, unexpired keys of a range to `visit`, without their values, until it returns
/// false.
fn walk(
    ctx: &mut Ctx<'_, '_>,
    range: ScanRange,
    mut visit: impl FnMut(ScanItem) -> bool,
) -> CommandResult {
    if let Some(past) = &ctx.client.snapshot_session {
        return past.walk(&range, &mut visit);
    }
    let now_ms = ctx.now_ms;
    let range = ScanRange { keys_only: true, ..range };
    let mut visit = |item: ScanItem| item.meta.is_expired(now_ms) || visit(item);
    if let Some(tx) = ctx.tx.as_deref_mut() {
        return tx.scan(&range, &mut visit).map_err(storage_error);
    }
    for item in ctx.server.engine.scan(&range).map_err(storage_error)? {
        if !visit(item.map_err(storage_error)?) {
            break;
        }
    }
    Ok(())
}

/// Options of SCAN.
struct Options<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// Those of SCAN.
    fn of_keys(args: Args<'a>) -> Result<Self, CommandError> {
        Self::parse(args, 2, true)
    }

    /// Those of HSCAN, SSCAN and ZSCAN, which have no TYPE.
    fn of_elements(args: Args<'a>) -> Result<Self, CommandError> {
        Self::parse(args, 3, false)
    }

    fn parse(args: Args<'a>, first: usize, has_type: bool) -> Result<Self, CommandError> {
        let mut options = Self { count: DEFAULT_COUNT, pattern: None, type_name: None };
        let mut at = first;
        while at < args.len() {
            if at + 1 == args.len() {
                return Err(CommandError::Syntax);
            }
            let value = args.get(at + 1);
            match args.get(at).to_ascii_uppercase().as_slice() {
                b"COUNT" => {
                    let count = parse_i64(value).ok_or(CommandError::NotInteger)?;
                    if count < 1 {
                        return Err(CommandError::Syntax);
                    }
                    options.count = count as usize;
                }
                b"MATCH" => options.pattern = Some(value),
                b"TYPE" if has_type => options.type_name = Some(value),
                _ => return Err(CommandError::Syntax),
            }
            at += 2;
        }
        Ok(options)
    }

    fn takes(&self, item: &ScanItem) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, &item.key))
            && self.type_name.is_none_or(|wanted| {
                ValueType::of(item.meta.flags)
                    .is_some_and(|t| t.name().as_bytes().eq_ignore_ascii_case(wanted))
            })
    }
}

/// A cursor as Redis parses it: decimal, an optional sign, nothing after it.
fn parse_cursor(text: &[u8]) -> Result<u64, CommandError> {
    const INVALID: CommandError = CommandError::text("ERR invalid cursor");
    let (negative, digits) = match text {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(INVALID);
    }
    let number = digits
        .iter()
        .try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .ok_or(INVALID)?;
    Ok(if negative { number.wrapping_neg() } else { number })
}

/// SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]: examines `count` keys.
fn scan(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let cursor = parse_cursor(ctx.args.get(1))?;
    let options = Options::of_keys(ctx.args)?;
    let server = ctx.server;
    let mut range = ScanRange { db: ctx.client.db, ..ScanRange::default() };
    range.prefix = options.pattern.map(glob::literal_prefix).unwrap_or_default();
    if cursor != 0 {
        range.from = server.cursors.lock().last_key(cursor).ok_or(CURSOR_EXPIRED)?;
        range.after = true;
    }
    let mut found = Vec::new();
    let mut last_key = Vec::new();
    let mut more = false;
    let mut looked_at = 0;
    walk(ctx, range, |item| {
        if looked_at == options.count {
            more = true;
            return false;
        }
        looked_at += 1;
        last_key.clone_from(&item.key);
        if options.takes(&item) {
            found.push(item.key);
        }
        true
    })?;
    let next = if more { server.cursors.lock().store(cursor, &last_key) } else { 0 };
    ctx.out.array(2);
    ctx.out.bulk(itoa::Buffer::new().format(next).as_bytes());
    ctx.out.array(found.len());
    for key in &found {
        ctx.out.bulk(key);
    }
    Ok(())
}

/// KEYS pattern, in key order.
fn keys(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let pattern = ctx.args.get(1);
    let prefix = glob::literal_prefix(pattern);
    let range = ScanRange { db: ctx.client.db, prefix, ..ScanRange::default() };
    let mut found = Vec::new();
    walk(ctx, range, |item| {
        if glob::matches(pattern, &item.key) {
            found.push(item.key);
        }
        true
    })?;
    ctx.out.array(found.len());
    for key in &found {
        ctx.out.bulk(key);
    }
    Ok(())
}

/// RANDOMKEY: one of the keys that have not expired, approximately uniformly distributed.
fn randomkey(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, now_ms) = (ctx.client.db, ctx.now_ms);
    let drawn = match (&ctx.client.snapshot_session, ctx.tx.as_deref_mut()) {
        (Some(past), _) => past.random_key(db, &mut random)?,
        (_, Some(tx)) => tx.random_key(db, now_ms, &mut random).map_err(storage_error)?,
        _ => ctx.server.engine.random_key(db, now_ms, &mut random).map_err(storage_error)?,
    };
    match drawn {
        Some(key) => ctx.out.bulk(&key),
        None => ctx.out.null(),
    }
    Ok(())
}

/// DBSIZE: exact (N9). As in Redis, keys that are due but not deleted yet count.
fn dbsize(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, may_wait) = (ctx.client.db, ctx.may_wait());
    let keys = match (&mut ctx.client.snapshot_session, ctx.tx.as_deref_mut()) {
        (Some(past), _) => past.count(db)?,
        (_, Some(tx)) => tx.count(db).map_err(storage_error)?,
        _ if may_wait => ctx.server.engine.count(db).map_err(storage_error)?,
        _ => match ctx.server.engine.count_at_once(db) {
            Some(keys) => keys,
            None => ctx.hand_over_wait(),
        },
    };
    ctx.out.int(keys as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::parse_cursor;

    #[test]
    fn cursors_are_read_as_redis_reads_them() {
        assert_eq!(parse_cursor(b"0"), Ok(0));
        assert_eq!(parse_cursor(b"+17"), Ok(17));
        assert_eq!(parse_cursor(b"-1"), Ok(u64::MAX));
        assert_eq!(parse_cursor(b"18446744073709551615"), Ok(u64::MAX));
        for wrong in [&b"18446744073709551616"[..], b"x", b"1x", b" 1", b"-"] {
            assert!(parse_cursor(wrong).is_err(), "{wrong:?}");
        }
    }
}
