//! Commands that read: SISMEMBER, SMISMEMBER, SCARD, SMEMBERS, SSCAN.

use crate::commands::scan::elements;
use crate::dispatch::{CommandResult, Ctx, Purpose};
use crate::keyspace::collection::{SetView, Sets};
use crate::keyspace::paged::{AllFields, Keyed};
use crate::resp::Reply;
use std::borrow::Cow;

/// Up to this many members are each searched for from the start of the set.
const FEW_MEMBERS: usize = 8;

/// SISMEMBER key member.
pub(super) fn sismember(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, member) = (ctx.args.get(1), ctx.args.get(2));
    if let Some(paged) = ctx.paged::<Sets>(Purpose::Read, key)? {
        ctx.read_pages(key, &paged, |set: &Keyed, pages, out| {
            out.int(i64::from(set.get(pages, member)?.is_some()));
            Ok(())
        });
        return Ok(());
    }
    ctx.lookup::<Sets, _>(Purpose::Read, key, |set, out| {
        out.int(i64::from(set.is_some_and(|set| set.contains(member))));
    })
}

/// SMISMEMBER key member [member ...].
pub(super) fn smismember(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, members) = (ctx.args.get(1), ctx.args.from(2));
    if let Some(paged) = ctx.paged::<Sets>(Purpose::Read, key)? {
        ctx.read_pages(key, &paged, |set: &Keyed, pages, out| {
            out.array(members.len());
            set.each(pages, members.clone(), |member| {
                out.int(i64::from(set.get(pages, member)?.is_some()));
                Ok(())
            })
        });
        return Ok(());
    }
    ctx.lookup::<Sets, _>(Purpose::Read, key, |set, out| {
        out.array(members.len());
        let asked = members.len();
        let Some(set) = set else {
            return members.for_each(|_| out.int(0));
        };
        if asked <= FEW_MEMBERS {
            return members.for_each(|member| out.int(i64::from(set.contains(member))));
        }
        let found = set.found_of(members.clone());
        members.for_each(|member| out.int(i64::from(found.contains(member))));
    })
}

/// SCARD key.
pub(super) fn scard(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    if let Some(paged) = ctx.paged::<Sets>(Purpose::Read, key)? {
        ctx.out.int(paged.count() as i64);
        return Ok(());
    }
    ctx.lookup::<Sets, _>(Purpose::Read, key, |set, out| {
        out.int(set.map_or(0, |set| set.count()) as i64);
    })
}

/// SMEMBERS key.
pub(super) fn smembers(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    if let Some(paged) = ctx.paged::<Sets>(Purpose::Read, key)? {
        let each = |member: &[u8], _: &[u8], out: &mut Reply| out.bulk(member);
        return ctx.answer_in_pieces(key, &paged, &AllFields { head: Reply::set, each });
    }
    ctx.lookup::<Sets, _>(Purpose::Read, key, |set, out| {
        out.set(set.map_or(0, |set| set.count()));
        set.iter().flat_map(SetView::iter).for_each(|member| out.bulk(&member));
    })
}

/// SSCAN key cursor [MATCH pattern] [COUNT count].
pub(super) fn sscan(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    elements::scan::<Sets>(ctx, |set, page, out| {
        let size = (set.count(), set.encoding());
        let write = |member: Cow<'_, [u8]>, out: &mut Reply| out.bulk(&member);
        page.answer::<1, _>(size, set.iter(), |member| member, write, out);
    })
}
