//! Commands on several sets: SINTER, SUNION, SDIFF, and those that store or count the result.

use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{Edit, SetEdit, Sets};
use crate::number::parse_i64;
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

type Members<'s> = Vec<Cow<'s, [u8]>>;
type Combine = for<'s> fn(&'s [Option<SetEdit>], usize) -> Members<'s>;

/// SINTER key [key ...].
pub(super) fn sinter(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let sources = sources(ctx, 1..ctx.args.len())?;
    let members = intersection(&sources, usize::MAX);
    ctx.out.set(members.len());
    members.iter().for_each(|member| ctx.out.bulk(member));
    Ok(())
}

/// SUNION key [key ...].
pub(super) fn sunion(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, union)
}

/// SDIFF key [key ...].
pub(super) fn sdiff(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, difference)
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
    store(ctx, difference, Event::set("sdiffstore"))
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
    let sources = sources(ctx, 2..2 + keys)?;
    let limit = if limit == 0 { usize::MAX } else { limit };
    let count = intersection(&sources, limit).len();
    ctx.out.int(count as i64);
    Ok(())
}

/// Copies of the sets under these arguments; `None` where there is none.
fn sources(
    ctx: &mut Ctx<'_, '_>,
    keys: Range<usize>,
) -> Result<Vec<Option<SetEdit>>, CommandError> {
    keys.map(|at| {
        let key = ctx.args.get(at);
        ctx.lookup::<Sets, _>(Purpose::Read, key, |set, _| set.map(|set| set.edit()))
    })
    .collect()
}

/// At most `limit` members that are in all sets, in the order of the smallest one.
fn intersection(sources: &[Option<SetEdit>], limit: usize) -> Members<'_> {
    let Some(mut sets) = sources.iter().map(Option::as_ref).collect::<Option<Vec<&SetEdit>>>()
    else {
        return Vec::new();
    };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return Vec::new() };
    let others: Vec<HashSet<Cow<'_, [u8]>>> =
        others.iter().map(|set| set.view().iter().collect()).collect();
    let members = smallest.view().iter();
    members.filter(|member| others.iter().all(|set| set.contains(member))).take(limit).collect()
}

fn union(sources: &[Option<SetEdit>], _: usize) -> Members<'_> {
    let mut seen = HashSet::new();
    let sets = sources.iter().flatten();
    sets.flat_map(|set| set.view().iter()).filter(|member| seen.insert(member.clone())).collect()
}

fn difference(sources: &[Option<SetEdit>], _: usize) -> Members<'_> {
    let Some((Some(first), others)) = sources.split_first() else { return Vec::new() };
    let others: HashSet<_> = others.iter().flatten().flat_map(|set| set.view().iter()).collect();
    first.view().iter().filter(|member| !others.contains(member)).collect()
}

/// The members as a new set, whose order is that of Redis if it is a set of integers.
fn made(ctx: &Ctx<'_, '_>, members: &Members<'_>) -> Result<SetEdit, CommandError> {
    let members = members.iter().map(|member| member.as_ref());
    // They are distinct.
    SetEdit::of_distinct(members, &ctx.thresholds()).ok_or(CommandError::Syntax)
}

fn answer(ctx: &mut Ctx<'_, '_>, combine: Combine) -> CommandResult {
    let sources = sources(ctx, 1..ctx.args.len())?;
    let set = made(ctx, &combine(&sources, usize::MAX))?;
    ctx.out.set(set.len());
    set.view().iter().for_each(|member| ctx.out.bulk(&member));
    Ok(())
}

/// One operation, logged verbatim; an empty result deletes the destination.
fn store(ctx: &mut Ctx<'_, '_>, combine: Combine, event: Event) -> CommandResult {
    let (db, destination) = (ctx.client.db, ctx.args.get(1));
    let sources = sources(ctx, 2..ctx.args.len())?;
    let set = made(ctx, &combine(&sources, usize::MAX))?;
    let was = ctx.peek(db, destination).is_some();
    if !set.is_empty() {
        ctx.check_size(&set)?;
        ctx.put_anew(db, destination, SetEdit::expiring_at(0), set.bytes(), event);
        ctx.log_request();
    } else if was {
        ctx.delete(db, destination, Event::generic("del"));
        ctx.log_request();
    }
    ctx.out.int(set.len() as i64);
    Ok(())
}
