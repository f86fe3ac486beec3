//! Parts of strings.

use crate::dispatch::{CommandError, CommandResult, Ctx, OUT_OF_MEMORY, Purpose};
use crate::events::Event;
use crate::keyspace::{Strings, Written};

const TOO_LONG: CommandError =
    CommandError::text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

/// Refuses a value of `bytes` that is longer than `max_bytes`, or than memory allows.
pub(in crate::commands) fn check_bytes(
    bytes: u64,
    max_bytes: u64,
    memory_max_bytes: u64,
) -> CommandResult {
    if bytes > max_bytes {
        return Err(TOO_LONG);
    }
    if bytes > memory_max_bytes { Err(CommandError::text(OUT_OF_MEMORY)) } else { Ok(()) }
}

/// APPEND key value. One operation, even for an empty value; logged verbatim.
pub(super) fn append(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key, tail) = (ctx.client.db, ctx.args.get(1), ctx.args.get(2));
    let (max_bytes, memory_max_bytes) = (ctx.string_max_bytes(), ctx.memory_max_bytes());
    let (meta, value) =
        ctx.lookup::<Strings, _>(Purpose::Write, key, |string, _| -> Result<_, CommandError> {
            let Some(string) = string else {
                return Ok((Written::Whole.expiring_at(0), tail.to_vec()));
            };
            let bytes = (string.bytes().len() + tail.len()) as u64;
            check_bytes(bytes, max_bytes, memory_max_bytes)?;
            let meta = Written::Edited.expiring_at(string.expire_at_ms());
            Ok((meta, [string.bytes(), tail].concat()))
        })??;
    ctx.put(db, key, meta, &value, Event::string("append"));
    ctx.log_request();
    ctx.out.int(value.len() as i64);
    Ok(())
}

/// STRLEN key.
pub(super) fn strlen(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    ctx.lookup::<Strings, _>(Purpose::Read, key, |string, out| {
        out.int(string.map_or(0, |string| string.bytes().len() as i64));
    })
}

/// The bytes that GETRANGE's inclusive positions name; negative ones count from the end.
fn slice(value: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let len = value.len() as i64;
    let from_start = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (start, end) = (from_start(start), from_start(end).min(len - 1));
    if start > end { &[] } else { &value[start as usize..=end as usize] }
}

/// GETRANGE key start end, and its old name SUBSTR.
pub(super) fn getrange(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    let (start, end) = (ctx.int_arg(2)?, ctx.int_arg(3)?);
    ctx.lookup::<Strings, _>(Purpose::Read, key, |string, out| {
        out.bulk(string.map_or(&[], |string| slice(string.bytes(), start, end)));
    })
}

/// SETRANGE key offset value. One operation unless the value is empty; logged verbatim.
pub(super) fn setrange(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key, patch) = (ctx.client.db, ctx.args.get(1), ctx.args.get(3));
    let offset = u64::try_from(ctx.int_arg(2)?)
        .map_err(|_| CommandError::text("ERR offset is out of range"))?;
    let (max_bytes, memory_max_bytes) = (ctx.string_max_bytes(), ctx.memory_max_bytes());
    let edited =
        ctx.lookup::<Strings, _>(Purpose::Write, key, |string, out| -> Result<_, CommandError> {
            let old = string.map_or(&[][..], |string| string.bytes());
            if patch.is_empty() {
                out.int(old.len() as i64);
                return Ok(None);
            }
            let bytes = offset.saturating_add(patch.len() as u64);
            check_bytes(bytes, max_bytes, memory_max_bytes)?;
            let (start, end) = (offset as usize, offset as usize + patch.len());
            let mut value = Vec::with_capacity(old.len().max(end));
            value.extend_from_slice(old);
            value.resize(old.len().max(end), 0);
            value[start..end].copy_from_slice(patch);
            Ok(Some((string.map_or(0, |string| string.expire_at_ms()), value)))
        })??;
    let Some((expire_at_ms, value)) = edited else { return Ok(()) };
    let meta = Written::Edited.expiring_at(expire_at_ms);
    ctx.put(db, key, meta, &value, Event::string("setrange"));
    ctx.log_request();
    ctx.out.int(value.len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::slice;

    #[test]
    fn positions_are_cut_to_the_value() {
        let value = b"Hello";
        assert_eq!(slice(value, 0, -1), b"Hello");
        assert_eq!(slice(value, -3, -2), b"ll");
        assert_eq!(slice(value, 1, 100), b"ello");
        assert_eq!(slice(value, -100, 1), b"He");
        assert_eq!(slice(value, -100, -101), b"");
        assert_eq!(slice(value, -101, -100), b"H");
        assert_eq!(slice(value, 5, 5), b"");
        assert_eq!(slice(value, 3, 1), b"");
        assert_eq!(slice(value, i64::MIN, i64::MAX), b"Hello");
        assert_eq!(slice(b"", 0, -1), b"");
    }
}
