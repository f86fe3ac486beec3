//! SETBIT and GETBIT.

use super::{bytes_of, note_edited, position};
use crate::commands::string::check_bytes;
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::{Strings, Written};

/// The bit at `at`; 0 past the end.
fn bit_at(bytes: &[u8], at: u64) -> u8 {
    bytes.get((at / 8) as usize).map_or(0, |byte| byte >> (7 - at % 8) & 1)
}

/// GETBIT key offset.
pub(super) fn getbit(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, at) = (ctx.args.get(1), position(ctx, ctx.args.get(2), None)?);
    ctx.lookup::<Strings, _>(Purpose::Read, key, |string, out| {
        out.int(i64::from(bit_at(bytes_of(string), at)));
    })
}

/// SETBIT key offset value. No operation if the bit already has this value, unless the string must grow.
pub(super) fn setbit(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let at = position(ctx, ctx.args.get(2), None)?;
    let bit = match crate::number::parse_i64(ctx.args.get(3)) {
        Some(bit @ (0 | 1)) => bit as u8,
        _ => return Err(CommandError::text("ERR bit is not an integer or out of range")),
    };
    let (byte, mask) = ((at / 8) as usize, 0x80 >> (at % 8));
    let (max_bytes, memory_max_bytes) = (ctx.string_max_bytes(), ctx.memory_max_bytes());
    let looked =
        ctx.lookup::<Strings, _>(Purpose::Write, key, |string, _| -> Result<_, CommandError> {
            let (old, old_bytes) = (bit_at(bytes_of(string), at), bytes_of(string));
            let meta = string.map(|string| string.meta());
            if byte < old_bytes.len() && old == bit {
                return Ok((old, meta, None));
            }
            let bytes = old_bytes.len().max(byte + 1);
            check_bytes(bytes as u64, max_bytes, memory_max_bytes)?;
            let mut value = Vec::with_capacity(bytes);
            value.extend_from_slice(old_bytes);
            value.resize(bytes, 0);
            value[byte] = if bit == 1 { value[byte] | mask } else { value[byte] & !mask };
            Ok((old, meta, Some(value)))
        })??;
    match looked {
        (_, meta, Some(value)) => {
            let expire_at_ms = meta.map_or(0, |meta| meta.expire_at_ms);
            let meta = Written::Edited.expiring_at(expire_at_ms);
            ctx.put(db, key, meta, &value, Event::string("setbit"));
            ctx.log_request();
        }
        (_, Some(meta), None) => note_edited(ctx, key, meta),
        (_, None, None) => {}
    }
    ctx.out.int(i64::from(looked.0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::bit_at;

    #[test]
    fn the_first_bit_is_the_highest_of_the_first_byte() {
        assert_eq!([0, 1, 7, 8, 15].map(|at| bit_at(&[0x81, 0x01], at)), [1, 0, 1, 0, 1]);
        assert_eq!(bit_at(&[0xff], 8), 0);
        assert_eq!(bit_at(&[], u64::MAX), 0);
    }
}
