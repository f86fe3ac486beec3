//! Commands that read: LLEN, LINDEX, LRANGE.

use super::index_within;
use crate::commands::positions::range_of;
use crate::dispatch::{CommandResult, Ctx, Purpose};
use crate::keyspace::collection::Lists;
use crate::keyspace::paged::{InPieces, Stop, each_of_list, needs};
use crate::resp::Reply;
use sexton_engine::page::{List, Pages};
use std::ops::Range;

/// LLEN key.
pub(super) fn llen(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    if let Some(paged) = ctx.paged::<Lists>(Purpose::Read, key)? {
        ctx.out.int(paged.count() as i64);
        return Ok(());
    }
    ctx.lookup::<Lists, _>(Purpose::Read, key, |list, out| {
        out.int(list.map_or(0, |list| list.count()) as i64);
    })?;
    Ok(())
}

/// LINDEX key index.
pub(super) fn lindex(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, args) = (ctx.args.get(1), ctx.args);
    if let Some(paged) = ctx.paged::<Lists>(Purpose::Read, key)? {
        let Some(index) = index_within(ctx.int_arg(2)?, paged.count()) else {
            ctx.out.null();
            return Ok(());
        };
        let index = index as u64;
        ctx.read_list(key, &paged, |list, pages, out| {
            needs(list, pages, index..index + 1)?;
            match list.get(pages, index)? {
                Some(element) => out.bulk(element),
                None => out.null(),
            }
            Ok(())
        });
        return Ok(());
    }
    ctx.lookup::<Lists, _>(Purpose::Read, key, |list, out| {
        let Some(list) = list else {
            out.null();
            return Ok(());
        };
        let index = crate::number::parse_i64(args.get(2))
            .ok_or(crate::dispatch::CommandError::NotInteger)?;
        let index = index_within(index, list.count());
        match index.and_then(|index| list.iter().nth(index)) {
            Some(element) => out.bulk(element),
            None => out.null(),
        }
        Ok(())
    })?
}

/// The elements with these indexes.
struct Slice(Range<u64>);

impl InPieces<List> for Slice {
    fn begin<P: Pages>(
        &self,
        _: &List,
        _: &P,
        _: u64,
        out: &mut Reply,
    ) -> Result<Range<u64>, Stop> {
        out.array((self.0.end - self.0.start) as usize);
        Ok(self.0.clone())
    }

    fn write<P: Pages>(
        &self,
        list: &List,
        pages: &P,
        part: Range<u64>,
        out: &mut Reply,
    ) -> Result<(), Stop> {
        each_of_list(list, pages, part, |element| out.bulk(element))
    }
}

/// LRANGE key start stop.
pub(super) fn lrange(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (first, last) = (ctx.int_arg(2)?, ctx.int_arg(3)?);
    let key = ctx.args.get(1);
    if let Some(paged) = ctx.paged::<Lists>(Purpose::Read, key)? {
        let range = range_of(first, last, paged.count());
        let range = Slice(range.start as u64..range.end as u64);
        return ctx.answer_in_pieces(key, &paged, &range);
    }
    ctx.lookup::<Lists, _>(Purpose::Read, key, |list, out| {
        let range = range_of(first, last, list.map_or(0, |list| list.count()));
        out.array(range.len());
        if let Some(list) = list {
            list.iter().skip(range.start).take(range.len()).for_each(|element| out.bulk(element));
        }
    })?;
    Ok(())
}
