//! Commands that pop from the first non-empty one of several keys, and their blocking forms: LMPOP, ZMPOP, BLPOP and
//! its relatives.

use crate::blocking::{Pop, Side, Waiter, Wants};
use crate::dispatch::{Args, Binding, CommandError, CommandResult, Ctx, Purpose};
use crate::interop::c_numbers;
use crate::keyspace::collection::{Lists, SortedSets};
use crate::keyspace::pop::{Popped, take};
use crate::number::parse_i64;
use crate::resp::Reply;
use crate::value::ValueType;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("lmpop", lmpop),
    Binding::keyed("zmpop", zmpop),
    Binding::keyed("blpop", blpop),
    Binding::keyed("brpop", brpop),
    Binding::keyed("blmpop", blmpop),
    Binding::keyed("bzpopmin", bzpopmin),
    Binding::keyed("bzpopmax", bzpopmax),
    Binding::keyed("bzmpop", bzmpop),
];

/// LMPOP numkeys key [key ...] LEFT|RIGHT [COUNT count].
fn lmpop(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    pop_at_once(ctx, false, [b"LEFT", b"RIGHT"])
}

/// ZMPOP numkeys key [key ...] MIN|MAX [COUNT count].
fn zmpop(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    pop_at_once(ctx, true, [b"MIN", b"MAX"])
}

/// BLPOP key [key ...] timeout.
fn blpop(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    pop_one(ctx, Pop { scored: false, side: Side::First, count: None })
}

/// BRPOP key [key ...] timeout.
fn brpop(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    pop_one(ctx, Pop { scored: false, side: Side::Last, count: None })
}

/// BZPOPMIN key [key ...] timeout.
fn bzpopmin(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    pop_one(ctx, Pop { scored: true, side: Side::First, count: None })
}

/// BZPOPMAX key [key ...] timeout.
fn bzpopmax(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    pop_one(ctx, Pop { scored: true, side: Side::Last, count: None })
}

/// BLMPOP timeout numkeys key [key ...] LEFT|RIGHT [COUNT count].
fn blmpop(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    pop_several(ctx, false, [b"LEFT", b"RIGHT"])
}

/// BZMPOP timeout numkeys key [key ...] MIN|MAX [COUNT count].
fn bzmpop(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    pop_several(ctx, true, [b"MIN", b"MAX"])
}

fn pop_one(ctx: &mut Ctx<'_, '_>, pop: Pop) -> CommandResult {
    let last = ctx.args.len() - 1;
    let deadline = deadline(ctx.args.get(last))?;
    if !pop_first(ctx, 1..last, pop)? {
        wait(ctx, 1..last, Wants::Pop(pop), deadline);
    }
    Ok(())
}

fn pop_at_once(ctx: &mut Ctx<'_, '_>, scored: bool, sides: [&[u8]; 2]) -> CommandResult {
    let (keys, pop) = parse(ctx.args, 1, scored, sides)?;
    pop_first(ctx, keys, pop)?;
    Ok(())
}

fn pop_several(ctx: &mut Ctx<'_, '_>, scored: bool, sides: [&[u8]; 2]) -> CommandResult {
    let (keys, pop) = parse(ctx.args, 2, scored, sides)?;
    let deadline = deadline(ctx.args.get(1))?;
    if !pop_first(ctx, keys.clone(), pop)? {
        wait(ctx, keys, Wants::Pop(pop), deadline);
    }
    Ok(())
}

/// Parses `numkeys key [key ...] side [COUNT count]` from `at` on: the positions of the keys, and the requested elements.
fn parse(
    args: Args<'_>,
    at: usize,
    scored: bool,
    sides: [&[u8]; 2],
) -> Result<(Range<usize>, Pop), CommandError> {
    let first = at + 1;
    let keys = parse_i64(args.get(at))
        .and_then(|keys| usize::try_from(keys).ok())
        .filter(|&keys| keys > 0)
        .ok_or(CommandError::text("ERR numkeys should be greater than 0"))?;
    let side_at =
        keys.checked_add(first).filter(|&at| at < args.len()).ok_or(CommandError::Syntax)?;
    let side = match sides.iter().position(|side| side.eq_ignore_ascii_case(args.get(side_at))) {
        Some(0) => Side::First,
        Some(_) => Side::Last,
        None => return Err(CommandError::Syntax),
    };
    let mut count = None;
    let mut at = side_at + 1;
    while at < args.len() {
        if count.is_some() || at + 1 == args.len() || !args.get(at).eq_ignore_ascii_case(b"COUNT") {
            return Err(CommandError::Syntax);
        }
        let number = parse_i64(args.get(at + 1)).and_then(|number| u64::try_from(number).ok());
        let positive = number.filter(|&number| number > 0);
        count = Some(positive.ok_or(CommandError::text("ERR count should be greater than 0"))?);
        at += 2;
    }
    Ok((first..side_at, Pop { scored, side, count: Some(count.unwrap_or(1)) }))
}

/// Pops from the first non-empty key; false if all are empty. One operation, logged as the pop of one key.
fn pop_first(ctx: &mut Ctx<'_, '_>, keys: Range<usize>, pop: Pop) -> Result<bool, CommandError> {
    let db = ctx.client.db;
    for at in keys {
        let key = ctx.args.get(at);
        let paged = if pop.scored {
            ctx.paged::<SortedSets>(Purpose::Write, key)?
        } else {
            ctx.paged::<Lists>(Purpose::Write, key)?
        };
        if let Some(paged) = paged {
            let popped = ctx.take_of_pages(key, &paged, pop);
            log_and_answer(ctx, key, &popped);
            return Ok(true);
        }
        let wanted = [if pop.scored { ValueType::SortedSet } else { ValueType::List }];
        let popped =
            ctx.inspect_whole(Purpose::Write, (db, key), &wanted, |entry, _| match entry {
                None => Ok(None),
                Some(entry) => take(entry, pop).map(Some).ok_or(CommandError::WrongType),
            })?;
        if let Some(popped) = popped {
            ctx.write_rest(key, &popped);
            log_and_answer(ctx, key, &popped);
            return Ok(true);
        }
    }
    ctx.out.null_array();
    Ok(false)
}

fn log_and_answer(ctx: &mut Ctx<'_, '_>, key: &[u8], popped: &Popped) {
    let (db, logged) = (ctx.client.db, popped.logged(key));
    ctx.log(db, &logged.iter().map(Vec::as_slice).collect::<Vec<_>>());
    popped.answer(key, ctx.out);
}

/// Makes the client wait for these keys; the reply so far is what it receives on a timeout. The caller of the handler
/// decides: nothing waits in a transaction or a script.
pub(super) fn wait(
    ctx: &mut Ctx<'_, '_>,
    keys: Range<usize>,
    wants: Wants,
    deadline: Option<Instant>,
) {
    let names = keys.map(|at| ctx.args.get(at).to_vec()).collect();
    let session = std::sync::Arc::clone(&ctx.client.session);
    let mut waiter = Waiter::new(session, ctx.client.db, names, wants);
    waiter.resp3 = ctx.out.is_resp3();
    let mut nothing = Reply::new();
    nothing.set_resp3(waiter.resp3);
    nothing.null_array();
    waiter.nothing = nothing.bytes().to_vec();
    waiter.deadline = deadline;
    ctx.client.would_wait = Some(Box::new(waiter));
}

/// When a blocking command times out; `None`: never. `text`: seconds, 0 for ever.
pub(super) fn deadline(text: &[u8]) -> Result<Option<Instant>, CommandError> {
    let begins_blank = text.first().is_some_and(u8::is_ascii_whitespace);
    let (seconds, _) = c_numbers::parse_prefix(text)
        .filter(|&(number, used)| used == text.len() && !number.is_nan() && !begins_blank)
        .ok_or(CommandError::text("ERR timeout is not a float or out of range"))?;
    let ms = (seconds * 1000.0).ceil();
    // Redis casts to a signed number, and calls negative what is too large for one.
    if ms < 0.0 || ms >= i64::MAX as f64 {
        return Err(CommandError::text("ERR timeout is negative"));
    }
    // A time that the clock of this machine cannot say is for ever.
    let wait = Duration::from_millis(ms as u64);
    Ok(if ms == 0.0 { None } else { Instant::now().checked_add(wait) })
}
