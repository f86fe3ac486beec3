//! Commands that add and remove members: SADD, SREM, SMOVE.

use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{SetEdit, Sets};
use crate::keyspace::paged::{Keyed, Paged};

/// SADD key member [member ...]: one operation, or none if all members exist; logged verbatim.
pub(super) fn sadd(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, thresholds) = (ctx.args.get(1), ctx.thresholds());
    let members = ctx.args.from(2);
    if let Some(paged) = ctx.paged::<Sets>(Purpose::Write, key)? {
        let done = ctx.change_pages(key, &paged, Event::set("sadd"), |pages, set: &mut Keyed| {
            let mut added = 0;
            set.change_each(pages, members.clone(), |set, pages, member| {
                added += i64::from(set.put(pages, member, b"")?);
                Ok(())
            })?;
            Ok((added > 0).then_some(added))
        });
        if done.is_some() {
            ctx.log_request();
        }
        ctx.out.int(done.map_or(0, |(added, _)| added));
        return Ok(());
    }
    let (mut set, expire_at_ms) = ctx.lookup::<Sets, _>(Purpose::Write, key, |set, _| {
        set.map_or_else(Default::default, |set| (set.edit(), set.expire_at_ms()))
    })?;
    let added = set.add_all(members, &thresholds);
    if added > 0 {
        ctx.write_back(key, &set, expire_at_ms, Event::set("sadd"))?;
        ctx.log_request();
    }
    ctx.out.int(added as i64);
    Ok(())
}

/// SREM key member [member ...]: one operation, or none if no member exists; logged verbatim.
pub(super) fn srem(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, members) = (ctx.args.get(1), ctx.args.from(2));
    if let Some(paged) = ctx.paged::<Sets>(Purpose::Write, key)? {
        let done = ctx.change_pages(key, &paged, Event::set("srem"), |pages, set: &mut Keyed| {
            let mut removed = 0;
            set.change_each(pages, members.clone(), |set, pages, member| {
                removed += i64::from(set.remove(pages, member)?);
                Ok(())
            })?;
            Ok((removed > 0).then_some(removed))
        });
        if done.is_some() {
            ctx.log_request();
        }
        ctx.out.int(done.map_or(0, |(removed, _)| removed));
        return Ok(());
    }
    let found = ctx.lookup::<Sets, _>(Purpose::Write, key, |set, _| {
        set.map(|set| (set.edit(), set.expire_at_ms()))
    })?;
    let Some((mut set, expire_at_ms)) = found else {
        ctx.out.int(0);
        return Ok(());
    };
    let removed = set.remove_all(members);
    if removed > 0 {
        ctx.write_back(key, &set, expire_at_ms, Event::set("srem"))?;
        ctx.log_request();
    }
    ctx.out.int(removed as i64);
    Ok(())
}

/// A set that a key holds.
enum Held {
    /// In its root, with its expiry.
    Whole(SetEdit, u64),
    /// In pages.
    Paged(Paged),
}

impl Held {
    fn contains(&self, ctx: &mut Ctx<'_, '_>, key: &[u8], member: &[u8]) -> bool {
        match self {
            Self::Whole(set, _) => set.view().contains(member),
            Self::Paged(paged) => ctx.read_pages(key, paged, |set: &Keyed, pages, _| {
                Ok(set.get(pages, member)?.is_some())
            }),
        }
    }
}

fn find(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> Result<Option<Held>, CommandError> {
    if let Some(paged) = ctx.paged::<Sets>(Purpose::Write, key)? {
        return Ok(Some(Held::Paged(paged)));
    }
    ctx.lookup::<Sets, _>(Purpose::Write, key, |set, _| {
        set.map(|set| Held::Whole(set.edit(), set.expire_at_ms()))
    })
}

/// SMOVE source destination member: one operation for each of the two sets that changes, logged verbatim.
pub(super) fn smove(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (source, destination, member) = (ctx.args.get(1), ctx.args.get(2), ctx.args.get(3));
    let Some(left) = find(ctx, source)? else {
        ctx.out.int(0);
        return Ok(());
    };
    let set = find(ctx, destination)?.unwrap_or_else(|| Held::Whole(SetEdit::default(), 0));
    let is_there = left.contains(ctx, source, member);
    if is_there && source != destination {
        let thresholds = ctx.thresholds();
        let is_new = !set.contains(ctx, destination, member);
        let mut added = set;
        if let Held::Whole(set, _) = &mut added {
            set.add(member, &thresholds);
            ctx.check_size(set)?;
        }
        match left {
            Held::Whole(mut left, expire_at_ms) => {
                left.remove(member);
                ctx.write_back(source, &left, expire_at_ms, Event::set("srem"))?;
            }
            Held::Paged(paged) => {
                ctx.change_pages(source, &paged, Event::set("srem"), |pages, set: &mut Keyed| {
                    Ok(Some(set.remove(pages, member)?))
                });
            }
        }
        match added {
            _ if !is_new => {}
            Held::Whole(set, expire_at_ms) => {
                ctx.write_back(destination, &set, expire_at_ms, Event::set("sadd"))?;
            }
            Held::Paged(paged) => {
                let event = Event::set("sadd");
                ctx.change_pages(destination, &paged, event, |pages, set: &mut Keyed| {
                    Ok(Some(set.put(pages, member, b"")?))
                });
            }
        }
        ctx.log_request();
    }
    ctx.out.int(i64::from(is_there));
    Ok(())
}
