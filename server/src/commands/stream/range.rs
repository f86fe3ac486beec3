//! XLEN, XRANGE, XREVRANGE.

use super::held::look;
use super::id::{parse_end, parse_start};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::keyspace::collection::Streams;
use crate::keyspace::collection::stream::Span;
use crate::keyspace::paged::Parts;
use crate::keyspace::stream_read::answer_entries;

/// XLEN key.
pub(super) fn xlen(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    if let Some(paged) = ctx.paged::<Streams>(Purpose::Read, key)? {
        ctx.out.int(paged.count() as i64);
        return Ok(());
    }
    ctx.lookup::<Streams, _>(Purpose::Read, key, |stream, out| {
        out.int(stream.map_or(0, |stream| stream.count() as i64));
    })
}

/// XRANGE key start end [COUNT count].
pub(super) fn xrange(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    range(ctx, false)
}

/// XREVRANGE key end start [COUNT count].
pub(super) fn xrevrange(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    range(ctx, true)
}

fn range(ctx: &mut Ctx<'_, '_>, back: bool) -> CommandResult {
    let (args, key) = (ctx.args, ctx.args.get(1));
    let (start_at, end_at) = if back { (3, 2) } else { (2, 3) };
    let (start, end) = (parse_start(args.get(start_at))?, parse_end(args.get(end_at))?);
    let (mut most, mut at) = (None, 4);
    while at < args.len() {
        if at + 1 == args.len() || !args.get(at).eq_ignore_ascii_case(b"COUNT") {
            return Err(CommandError::Syntax);
        }
        let count = ctx.int_arg(at + 1)?;
        most = Some(usize::try_from(count).unwrap_or(0));
        at += 2;
    }
    let span = Span { start, end, most: most.unwrap_or(usize::MAX), is_back: back };
    look(ctx, (Purpose::Read, key), Parts::NONE, &|_| vec![span], |stream, out| {
        match (stream, most) {
            (None, _) => out.array(0),
            (Some(_), Some(0)) => out.null_array(),
            (Some(stream), most) => {
                let most = most.unwrap_or(usize::MAX);
                let entries: Vec<_> = if back {
                    stream.range_back(start, end).take(most).collect()
                } else {
                    stream.range(start, end).take(most).collect()
                };
                answer_entries(&entries, out);
            }
        }
    })
}
