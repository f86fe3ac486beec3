//! HyperLogLogs: strings that estimate the number of distinct elements.
//!
//! Every command performs at most one engine operation, and is logged verbatim.

use crate::dispatch::table::Binding;
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::hyperloglog::{HyperLogLog, NotHyperLogLog, REGISTERS, cardinality};
use crate::keyspace::{Strings, Written};
use std::fmt::Write as _;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("pfadd", pfadd),
    Binding::keyed("pfcount", pfcount).replicates_when(|_, _| true),
    Binding::keyed("pfmerge", pfmerge),
    Binding::keyed("pfdebug", pfdebug),
    Binding::local("pfselftest", pfselftest),
];

/// Elements that PFSELFTEST counts, and the error that it lets pass: five standard errors.
const SELF_TEST_ELEMENTS: u64 = 50_000;
const SELF_TEST_ERROR: f64 = 5.0 * 1.04 / 128.0;

impl From<NotHyperLogLog> for CommandError {
    fn from(reason: NotHyperLogLog) -> Self {
        Self::text(match reason {
            NotHyperLogLog::Other => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            NotHyperLogLog::Damaged => "INVALIDOBJ Corrupted HLL object detected",
        })
    }
}

/// A copy of the key's value, with its expiry.
fn find(
    ctx: &mut Ctx<'_, '_>,
    purpose: Purpose,
    key: &[u8],
) -> Result<Option<(HyperLogLog, u64)>, CommandError> {
    ctx.lookup::<Strings, _>(purpose, key, |string, _| {
        let Some(string) = string else { return Ok(None) };
        let log = HyperLogLog::of(string.bytes())?;
        Ok(Some((log, string.expire_at_ms())))
    })?
}

/// Raises `registers` to the key's where these are larger; answers whether it has a dense one.
fn merge_into(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    registers: &mut [u8; REGISTERS],
) -> Result<bool, CommandError> {
    let merged = ctx.lookup::<Strings, _>(Purpose::Read, key, |string, _| {
        string.map(|string| HyperLogLog::merge_into(string.bytes(), registers)).transpose()
    })??;
    Ok(merged.unwrap_or(false))
}

fn store(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    log: &HyperLogLog,
    expire_at_ms: u64,
    event: Option<Event>,
) {
    let db = ctx.client.db;
    ctx.put(db, key, Written::Edited.expiring_at(expire_at_ms), log.bytes(), event);
    ctx.log_request();
}

/// PFADD key [element ...]. As in Redis, elements before one that finds corrupt data remain added, and are logged separately;
/// nobody is notified of them.
fn pfadd(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, args, key) = (ctx.client.db, ctx.args, ctx.args.get(1));
    let sparse_max_bytes = ctx.thresholds().hyperloglog_sparse_bytes;
    let found = ctx.lookup::<Strings, _>(Purpose::Write, key, |string, _| {
        let Some(string) = string else { return Ok((false, None)) };
        let has_seen = HyperLogLog::has_seen(string.bytes(), args.from(2));
        let log = (!has_seen).then(|| HyperLogLog::of(string.bytes())).transpose()?;
        Ok::<_, NotHyperLogLog>((true, log.map(|log| (log, string.expire_at_ms()))))
    })??;
    let (is_there, found) = found;
    if is_there && found.is_none() {
        ctx.out.int(0);
        return Ok(());
    }
    let mut changed = !is_there;
    let (mut log, expire_at_ms) = found.unwrap_or_default();
    let meta = Written::Edited.expiring_at(expire_at_ms);
    for (seen, element) in args.from(2).enumerate() {
        match log.add(element, sparse_max_bytes) {
            Ok(more) => changed |= more,
            Err(damaged) => {
                if changed {
                    ctx.put(db, key, meta, log.bytes(), None);
                    let logged: Vec<_> =
                        [b"PFADD", key].into_iter().chain(args.from(2).take(seen)).collect();
                    ctx.log(db, &logged);
                }
                return Err(damaged.into());
            }
        }
    }
    if changed {
        log.forget_cardinality();
        store(ctx, key, &log, expire_at_ms, Some(Event::string("pfadd")));
    }
    ctx.out.int(i64::from(changed));
    Ok(())
}

/// PFCOUNT key [key ...]. The cardinality of a single key is cached in it, which counts as a change of the key; a snapshot
/// session caches nothing.
fn pfcount(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.args.len() > 2 {
        let mut registers = [0; REGISTERS];
        for key in ctx.args.from(1) {
            merge_into(ctx, key, &mut registers)?;
        }
        ctx.out.int(cardinality(&registers) as i64);
        return Ok(());
    }
    let key = ctx.args.get(1);
    let found = ctx.lookup::<Strings, _>(Purpose::Read, key, |string, _| {
        let Some(string) = string else { return Ok((Some(0), None)) };
        let known = HyperLogLog::known_cardinality(string.bytes())?;
        let log = known.is_none().then(|| HyperLogLog::of(string.bytes())).transpose()?;
        Ok::<_, NotHyperLogLog>((known, log.map(|log| (log, string.expire_at_ms()))))
    })??;
    let (mut cardinality, log) = found;
    if let Some((mut log, expire_at_ms)) = log {
        let counted = log.count()?;
        log.set_cardinality(counted);
        if ctx.client.snapshot_session.is_none() {
            store(ctx, key, &log, expire_at_ms, None);
        }
        cardinality = Some(counted);
    }
    ctx.out.int(cardinality.unwrap_or(0) as i64);
    Ok(())
}

/// PFMERGE destination [source ...]: dense if one of them is.
fn pfmerge(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let destination = ctx.args.get(1);
    let sparse_max_bytes = ctx.thresholds().hyperloglog_sparse_bytes;
    let (mut registers, mut is_dense) = ([0; REGISTERS], false);
    for key in ctx.args.from(1) {
        is_dense |= merge_into(ctx, key, &mut registers)?;
    }
    let (mut merged, expire_at_ms) = find(ctx, Purpose::Write, destination)?.unwrap_or_default();
    if is_dense {
        merged.set_dense(&registers);
    } else {
        merged.raise_all(&registers, sparse_max_bytes)?;
    }
    merged.forget_cardinality();
    store(ctx, destination, &merged, expire_at_ms, Some(Event::string("pfadd")));
    ctx.out.ok();
    Ok(())
}

/// PFDEBUG GETREG|DECODE|ENCODING|TODENSE key.
fn pfdebug(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (word, key) = (ctx.args.get(1), ctx.args.get(2));
    let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
    let Some((mut log, expire_at_ms)) = find(ctx, Purpose::Write, key)? else {
        return Err(CommandError::text("ERR The specified key does not exist"));
    };
    let was_sparse = log.is_sparse();
    if is(b"GETREG") || is(b"TODENSE") {
        log.make_dense()?;
        if was_sparse {
            store(ctx, key, &log, expire_at_ms, None);
            ctx.changes.keep_value(key);
        }
        if is(b"TODENSE") {
            ctx.out.int(i64::from(was_sparse));
        } else {
            ctx.out.array(REGISTERS);
            log.dense_registers().for_each(|register| ctx.out.int(i64::from(register)));
        }
    } else if is(b"DECODE") {
        if !was_sparse {
            return Err(CommandError::text("ERR HLL encoding is not sparse"));
        }
        ctx.out.bulk(runs_text(&log).as_bytes());
    } else if is(b"ENCODING") {
        ctx.out.simple(if was_sparse { "sparse" } else { "dense" });
    } else {
        return Err(CommandError::quoting("ERR Unknown PFDEBUG subcommand '", word, "'"));
    }
    Ok(())
}

/// The runs of a sparse one, as PFDEBUG DECODE shows them.
fn runs_text(log: &HyperLogLog) -> String {
    let mut text = String::new();
    for run in log.runs() {
        let blank = if text.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = match run.value {
            0 => write!(text, "{blank}{}:{}", if run.is_long { 'Z' } else { 'z' }, run.len),
            value => write!(text, "{blank}v:{value},{}", run.len),
        };
    }
    text
}

/// PFSELFTEST: counts numbers in both forms.
fn pfselftest(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let sparse_max_bytes = ctx.thresholds().hyperloglog_sparse_bytes;
    let (mut log, mut dense) = (HyperLogLog::default(), HyperLogLog::default());
    dense.make_dense()?;
    for number in 1..=SELF_TEST_ELEMENTS {
        let element = number.to_le_bytes();
        let changed = log.add(&element, sparse_max_bytes)?;
        let is_checked = number.is_power_of_two() || number == SELF_TEST_ELEMENTS;
        if changed != dense.add(&element, sparse_max_bytes)? {
            return Err(format!("ERR TESTFAILED dense and sparse differ at {number}").into());
        }
        let counted = if is_checked { log.count()? } else { number };
        if counted.abs_diff(number) as f64 > (SELF_TEST_ERROR * number as f64).ceil() {
            return Err(format!("ERR TESTFAILED counted {counted} of {number}").into());
        }
    }
    ctx.out.ok();
    Ok(())
}
