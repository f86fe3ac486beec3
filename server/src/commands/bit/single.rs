//! SETBIT and GETBIT.

use super::position;
use crate::commands::string::Bounds;
use crate::dispatch::{CommandError, CommandResult, Ctx, EditedAs};
use crate::events::Event;
use crate::keyspace::Written;
use crate::keyspace::paged::{Stop, StringBytes, window};

/// The bit at `at`; 0 past the end.
fn bit_at(string: &dyn StringBytes, at: u64) -> Result<u8, Stop> {
    let [byte] = window(string, at / 8)?;
    Ok(byte >> (7 - at % 8) & 1)
}

/// GETBIT key offset.
pub(super) fn getbit(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, at) = (ctx.args.get(1), position(ctx, ctx.args.get(2), None)?);
    ctx.read_string(
        key,
        |_| 0,
        |string, out| {
            out.int(string.map_or(Ok(0), |string| bit_at(string, at))?.into());
            Ok(())
        },
    )
}

/// SETBIT key offset value. No operation if the bit already has this value, unless the string must grow.
pub(super) fn setbit(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, at) = (ctx.args.get(1), position(ctx, ctx.args.get(2), None)?);
    let bit = match crate::number::parse_i64(ctx.args.get(3)) {
        Some(bit @ (0 | 1)) => bit as u8,
        _ => return Err(CommandError::text("ERR bit is not an integer or out of range")),
    };
    let bounds = Bounds::of(ctx);
    ctx.edit_string(key, |string, out| {
        let [byte] = window(string, at / 8)?;
        let mask = 0x80 >> (at % 8);
        let old = u8::from(byte & mask != 0);
        out.int(old.into());
        if at / 8 < string.len_bytes() && old == bit {
            return Ok(Ok(EditedAs::Looked));
        }
        if let Err(error) = bounds.check(string, at / 8 + 1) {
            return Ok(Err(error));
        }
        string.write(at / 8, &[if bit == 1 { byte | mask } else { byte & !mask }])?;
        Ok(Ok(EditedAs::Written(Written::Edited, Some(Event::string("setbit")))))
    })
}

#[cfg(test)]
mod tests {
    use super::bit_at;

    #[test]
    fn the_first_bit_is_the_highest_of_the_first_byte() {
        assert_eq!(
            [0, 1, 7, 8, 15].map(|at| bit_at(&&[0x81, 0x01][..], at).ok()),
            [1, 0, 1, 0, 1].map(Some)
        );
        assert_eq!(bit_at(&&[0xff][..], 8).ok(), Some(0));
        assert_eq!(bit_at(&&[][..], u64::MAX).ok(), Some(0));
    }
}
