//! Commands on several sets: SINTER, SUNION, SDIFF, and those that store or count the result.

use crate::commands::algebra;
use crate::dispatch::{CommandError, CommandResult, Ctx, Operands};
use crate::events::Event;
use crate::keyspace::collection::{Edit, SetEdit};
use crate::keyspace::operand::Members;
use crate::number::parse_i64;
use crate::value::ValueType;
use std::ops::Range;

type Combine = fn(Operands<'_, '_, '_, '_>) -> Result<Members, CommandError>;

/// SINTER key [key ...].
pub(super) fn sinter(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let members = intersection(operands(ctx, 1..ctx.args.len())?)?;
    ctx.out.set(members.len());
    members.names().for_each(|member| ctx.out.bulk(member));
    Ok(())
}

/// SUNION key [key ...].
pub(super) fn sunion(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, union)
}

/// SDIFF key [key ...].
pub(super) fn sdiff(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, algebra::difference)
}

/// SINTERSTORE destination key [key ...].
pub(super) fn sinterstore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    store(ctx, intersection, Event::set("sinterstore"))
}

/// SUNIONSTORE destination key [key ...].
pub(super) fn sunionstore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    store(ctx, union, Event::set("sunionstore"))
}

/// SDIFFSTORE destination key [key ...].
pub(super) fn sdiffstore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    store(ctx, algebra::difference, Event::set("sdiffstore"))
}

/// SINTERCARD numkeys key [key ...] [LIMIT limit].
pub(super) fn sintercard(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    let keys = parse_i64(args.get(1))
        .and_then(|keys| usize::try_from(keys).ok())
        .filter(|&keys| keys > 0)
        .ok_or(CommandError::text("ERR numkeys should be greater than 0"))?;
    if keys > args.len() - 2 {
        return Err(CommandError::text("ERR Number of keys can't be greater than number of args"));
    }
    let (mut at, mut limit) = (2 + keys, 0);
    while at < args.len() {
        if at + 1 == args.len() || !args.get(at).eq_ignore_ascii_case(b"LIMIT") {
            return Err(CommandError::Syntax);
        }
        limit = parse_i64(args.get(at + 1))
            .and_then(|limit| usize::try_from(limit).ok())
            .ok_or(CommandError::text("ERR LIMIT can't be negative"))?;
        at += 2;
    }
    let operands = operands(ctx, 2..2 + keys)?;
    let limit = if limit == 0 { usize::MAX } else { limit };
    let order = algebra::smallest_first(&operands);
    let count = algebra::intersection_len(operands, &order, limit)?;
    ctx.out.int(count as i64);
    Ok(())
}

/// The sets under these arguments.
fn operands<'c, 'a, 'e>(
    ctx: &'c mut Ctx<'a, 'e>,
    keys: Range<usize>,
) -> Result<Operands<'c, 'a, 'e, 'a>, CommandError> {
    let args = ctx.args;
    Operands::of(ctx, keys.map(|at| args.get(at)), &[ValueType::Set])
}

/// The members that are in all sets, in the order of the smallest one.
fn intersection(operands: Operands<'_, '_, '_, '_>) -> Result<Members, CommandError> {
    let order = algebra::smallest_first(&operands);
    algebra::intersection(operands, &order, |_, _, score| score)
}

fn union(operands: Operands<'_, '_, '_, '_>) -> Result<Members, CommandError> {
    let order: Vec<usize> = (0..operands.count()).collect();
    algebra::union(operands, &order, |_, score| score, |score, _| score)
}

/// The members as a new set, whose order is that of Redis if it is a set of integers.
fn made(ctx: &Ctx<'_, '_>, members: &Members) -> Result<SetEdit, CommandError> {
    // They are distinct.
    SetEdit::of_distinct(members.names(), &ctx.thresholds()).ok_or(CommandError::Syntax)
}

fn answer(ctx: &mut Ctx<'_, '_>, combine: Combine) -> CommandResult {
    let members = combine(operands(ctx, 1..ctx.args.len())?)?;
    let set = made(ctx, &members)?;
    ctx.out.set(set.len());
    set.view().iter().for_each(|member| ctx.out.bulk(&member));
    Ok(())
}

fn store(ctx: &mut Ctx<'_, '_>, combine: Combine, event: Event) -> CommandResult {
    let set = ctx.made_of_keys(|ctx| {
        let members = combine(operands(ctx, 2..ctx.args.len())?)?;
        made(ctx, &members)
    })?;
    ctx.store(ctx.args.get(1), set, event)
}
