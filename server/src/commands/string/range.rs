//! Parts of strings.

use crate::dispatch::{CommandError, CommandResult, Ctx, EditedAs, OUT_OF_MEMORY, Purpose};
use crate::events::Event;
use crate::keyspace::paged::{Slice, StringEdit};
use crate::keyspace::{Strings, Written};
use crate::resp::Reply;
use std::ops::Range;

const TOO_LONG: CommandError =
    CommandError::text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

/// How long an edit may make a string.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct Bounds {
    /// In bytes.
    pub(in crate::commands) max_bytes: u64,
    pub(in crate::commands) memory_max_bytes: u64,
}

impl Bounds {
    /// Those of `proto-max-bulk-len` and of memory (N18).
    pub(in crate::commands) fn of(ctx: &Ctx<'_, '_>) -> Self {
        Self { max_bytes: ctx.string_max_bytes(), memory_max_bytes: ctx.memory_max_bytes() }
    }

    /// Refuses a string that ends at `end`.
    pub(in crate::commands) fn check(self, string: &dyn StringEdit, end: u64) -> CommandResult {
        let len = string.len_bytes().max(end);
        if end > self.max_bytes {
            return Err(TOO_LONG);
        }
        let is_too_much = string.bytes_held(len) > self.memory_max_bytes;
        if is_too_much { Err(CommandError::text(OUT_OF_MEMORY)) } else { Ok(()) }
    }
}

/// APPEND key value. One operation, even for an empty value.
pub(super) fn append(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, tail) = (ctx.args.get(1), ctx.args.get(2));
    let bounds = Bounds::of(ctx);
    ctx.edit_string(key, |string, out| {
        let len = string.len_bytes();
        if let Err(error) = bounds.check(string, len.saturating_add(tail.len() as u64)) {
            return Ok(Err(error));
        }
        let written = if string.is_there() { Written::Edited } else { Written::Whole };
        string.write(len, tail)?;
        out.int(string.len_bytes() as i64);
        Ok(Ok(EditedAs::Written(written, Some(Event::string("append")))))
    })
}

/// STRLEN key.
pub(super) fn strlen(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.read_string(
        ctx.args.get(1),
        |_| 0,
        |string, out| {
            out.int(string.map_or(0, |string| string.len_bytes() as i64));
            Ok(())
        },
    )
}

/// The bytes that GETRANGE's inclusive positions name in a string of so many; negative ones count from the end.
fn slice(len: u64, start: i64, end: i64) -> Range<u64> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let len = len as i64;
    let from_start = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (start, end) = (from_start(start), from_start(end).min(len - 1));
    if start > end { 0..0 } else { start as u64..end as u64 + 1 }
}

/// GET key.
pub(super) fn get(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    reply_slice(ctx, |len| 0..len, Reply::null)
}

/// GETRANGE key start end, and its old name SUBSTR.
pub(super) fn getrange(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (start, end) = (ctx.int_arg(2)?, ctx.int_arg(3)?);
    reply_slice(ctx, |len| slice(len, start, end), |out| out.bulk(b""))
}

/// Answers the bytes of a string that `range` names, or that there is none.
fn reply_slice(
    ctx: &mut Ctx<'_, '_>,
    range: impl Fn(u64) -> Range<u64>,
    none: impl FnOnce(&mut Reply),
) -> CommandResult {
    let key = ctx.args.get(1);
    if let Some(paged) = ctx.paged::<Strings>(Purpose::Read, key)? {
        let range = range(paged.descriptor.totals.bytes);
        if range.is_empty() {
            ctx.out.bulk(b"");
            return Ok(());
        }
        return ctx.answer_in_pieces(key, &paged, &Slice(range));
    }
    ctx.lookup::<Strings, _>(Purpose::Read, key, |string, out| match string {
        Some(string) => {
            let range = range(string.bytes().len() as u64);
            out.bulk(&string.bytes()[range.start as usize..range.end as usize]);
        }
        None => none(out),
    })
}

/// SETRANGE key offset value. One operation unless the value is empty.
pub(super) fn setrange(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, patch) = (ctx.args.get(1), ctx.args.get(3));
    let offset = u64::try_from(ctx.int_arg(2)?)
        .map_err(|_| CommandError::text("ERR offset is out of range"))?;
    let bounds = Bounds::of(ctx);
    ctx.edit_string(key, |string, out| {
        if patch.is_empty() {
            out.int(string.len_bytes() as i64);
            return Ok(Ok(EditedAs::Nothing));
        }
        let end = offset.saturating_add(patch.len() as u64);
        if let Err(error) = bounds.check(string, end) {
            return Ok(Err(error));
        }
        string.write(offset, patch)?;
        out.int(string.len_bytes() as i64);
        Ok(Ok(EditedAs::Written(Written::Edited, Some(Event::string("setrange")))))
    })
}

#[cfg(test)]
mod tests {
    use super::slice;

    #[test]
    fn positions_are_cut_to_the_value() {
        let slice = |start, end| slice(5, start, end);
        assert_eq!(slice(0, -1), 0..5);
        assert_eq!(slice(-3, -2), 2..4);
        assert_eq!(slice(1, 100), 1..5);
        assert_eq!(slice(-100, 1), 0..2);
        assert_eq!(slice(-100, -101), 0..0);
        assert_eq!(slice(-101, -100), 0..1);
        assert_eq!(slice(5, 5), 0..0);
        assert_eq!(slice(3, 1), 0..0);
        assert_eq!(slice(i64::MIN, i64::MAX), 0..5);
        assert_eq!(super::slice(0, 0, -1), 0..0);
    }
}
