//! Commands that add and remove members: SADD, SREM, SMOVE.

use crate::dispatch::{CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{SetEdit, Sets};

/// SADD key member [member ...]: one operation, or none when all are there; logged as it came.
pub(super) fn sadd(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, thresholds) = (ctx.args.get(1), ctx.thresholds());
    let members = ctx.args.from(2);
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

/// SREM key member [member ...]: one operation, or none when no member is there; logged as it came.
pub(super) fn srem(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, members) = (ctx.args.get(1), ctx.args.from(2));
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

/// SMOVE source destination member: one operation for each of the two sets that changes, logged as it came.
pub(super) fn smove(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (source, destination, member) = (ctx.args.get(1), ctx.args.get(2), ctx.args.get(3));
    let found = ctx.lookup::<Sets, _>(Purpose::Write, source, |set, _| {
        set.map(|set| (set.contains(member), set.edit(), set.expire_at_ms()))
    })?;
    let Some((is_there, mut left, left_expires_ms)) = found else {
        ctx.out.int(0);
        return Ok(());
    };
    let (mut set, expire_at_ms): (SetEdit, u64) =
        ctx.lookup::<Sets, _>(Purpose::Write, destination, |set, _| {
            set.map_or_else(Default::default, |set| (set.edit(), set.expire_at_ms()))
        })?;
    if is_there && source != destination {
        let thresholds = ctx.thresholds();
        let is_new = set.add(member, &thresholds);
        left.remove(member);
        ctx.check_size(&set)?;
        ctx.write_back(source, &left, left_expires_ms, Event::set("srem"))?;
        if is_new {
            ctx.write_back(destination, &set, expire_at_ms, Event::set("sadd"))?;
        }
        ctx.log_request();
    }
    ctx.out.int(i64::from(is_there));
    Ok(())
}
