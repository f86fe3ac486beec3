//! BITFIELD and BITFIELD_RO: integers of any width at any bit offset of a string.

use super::position;
use crate::commands::string::Bounds;
use crate::dispatch::{CommandError, CommandResult, Ctx, EditedAs};
use crate::events::Event;
use crate::keyspace::Written;
use crate::keyspace::paged::{Stop, StringBytes, StringEdit, window};
use crate::number::parse_i64;
use crate::resp::Reply;
use std::ops::Range;

/// Bytes that a field of 64 bits may touch.
const WINDOW_BYTES: usize = 9;
const WINDOW_BITS: u32 = 8 * WINDOW_BYTES as u32;

/// An integer's place and form.
#[derive(Clone, Copy, Debug)]
struct Field {
    at: u64,
    bits: u32,
    signed: bool,
}

/// What happens where a number does not fit.
#[derive(Clone, Copy, Debug)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Get,
    Set(i64, Overflow),
    Increment(i64, Overflow),
}

impl Field {
    /// `i16`, `u8`: a sign and a number of bits.
    fn form(text: &[u8]) -> Result<(bool, u32), CommandError> {
        let form = match text {
            [b'i', digits @ ..] => parse_i64(digits).map(|bits| (true, bits, 64)),
            [b'u', digits @ ..] => parse_i64(digits).map(|bits| (false, bits, 63)),
            _ => None,
        };
        form.filter(|&(_, bits, bits_max)| (1..=bits_max).contains(&bits))
            .map(|(signed, bits, _)| (signed, bits as u32))
            .ok_or(CommandError::text(
                "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
            ))
    }

    fn mask(self) -> u128 {
        (1 << self.bits) - 1
    }

    /// The bytes that it touches.
    fn place(self) -> Range<u64> {
        self.at / 8..(self.at + u64::from(self.bits)).div_ceil(8)
    }

    /// The bytes from its first one on as one number, padded with zeros past the end; and the field's distance from the
    /// lower end.
    fn window(self, string: &dyn StringBytes) -> Result<(u128, u32), Stop> {
        let bytes: [u8; WINDOW_BYTES] = window(string, self.at / 8)?;
        let window = bytes.iter().fold(0, |window, &byte| window << 8 | u128::from(byte));
        Ok((window, WINDOW_BITS - (self.at % 8) as u32 - self.bits))
    }

    /// The number that these bits are.
    fn number(self, bits: u128) -> i128 {
        let bits = bits & self.mask();
        let negative = self.signed && bits >> (self.bits - 1) == 1;
        if negative { bits as i128 - (1 << self.bits) } else { bits as i128 }
    }

    fn get(self, string: &dyn StringBytes) -> Result<i128, Stop> {
        let (window, shift) = self.window(string)?;
        Ok(self.number(window >> shift))
    }

    /// Writes the lower bits of `number`.
    fn set(self, string: &mut dyn StringEdit, number: i128) -> Result<(), Stop> {
        let (window, shift) = self.window(string)?;
        let window = window & !(self.mask() << shift) | (number as u128 & self.mask()) << shift;
        let (bytes, place) = (window.to_be_bytes(), self.place());
        let touched = &bytes[bytes.len() - WINDOW_BYTES..][..(place.end - place.start) as usize];
        string.write(place.start, touched)
    }

    /// The highest number that it can hold.
    fn high(self) -> i128 {
        if self.signed { (1 << (self.bits - 1)) - 1 } else { (1 << self.bits) - 1 }
    }

    /// `number` adapted to the field; `None` if it overflows and must not be truncated.
    fn fitting(self, number: i128, overflow: Overflow) -> Option<i128> {
        let high = self.high();
        let low = if self.signed { -high - 1 } else { 0 };
        match overflow {
            _ if (low..=high).contains(&number) => Some(number),
            Overflow::Wrap => Some(self.number(number as u128)),
            Overflow::Saturate => Some(number.clamp(low, high)),
            Overflow::Fail => None,
        }
    }
}

/// The operations of a request, in order.
fn parse(ctx: &Ctx<'_, '_>) -> Result<Vec<(Field, Action)>, CommandError> {
    let (args, mut operations, mut overflow, mut at) = (ctx.args, Vec::new(), Overflow::Wrap, 2);
    while at < args.len() {
        let (word, left) = (args.get(at), args.len() - at - 1);
        let is = |name: &[u8], operands: usize| word.eq_ignore_ascii_case(name) && left >= operands;
        if is(b"OVERFLOW", 1) {
            overflow = match args.get(at + 1) {
                word if word.eq_ignore_ascii_case(b"WRAP") => Overflow::Wrap,
                word if word.eq_ignore_ascii_case(b"SAT") => Overflow::Saturate,
                word if word.eq_ignore_ascii_case(b"FAIL") => Overflow::Fail,
                _ => return Err(CommandError::text("ERR Invalid OVERFLOW type specified")),
            };
            at += 2;
            continue;
        }
        let (gets, sets, increments) = (is(b"GET", 2), is(b"SET", 3), is(b"INCRBY", 3));
        if !(gets || sets || increments) {
            return Err(CommandError::Syntax);
        }
        let (signed, bits) = Field::form(args.get(at + 1))?;
        let field = Field { at: position(ctx, args.get(at + 2), Some(bits))?, bits, signed };
        let action = if gets {
            Action::Get
        } else if sets {
            Action::Set(ctx.int_arg(at + 3)?, overflow)
        } else {
            Action::Increment(ctx.int_arg(at + 3)?, overflow)
        };
        operations.push((field, action));
        at += if gets { 3 } else { 4 };
    }
    Ok(operations)
}

/// Runs one operation on a string that is long enough, and answers it. Returns whether the string has changed; `None` if
/// nothing was written.
fn run(
    string: &mut dyn StringEdit,
    (field, action): (Field, Action),
    out: &mut Reply,
) -> Result<Option<bool>, Stop> {
    let old = field.get(string)?;
    let (wanted, overflow) = match action {
        Action::Get => {
            out.int(old as i64);
            return Ok(None);
        }
        // As in Redis a negative number is a very large one where the field has no sign.
        Action::Set(number, overflow) if !field.signed => (i128::from(number as u64), overflow),
        // Its check overflows for what is far below: that is cut to the highest number.
        Action::Set(number, Overflow::Saturate)
            if field.bits < 64 && (field.high() as i64).checked_sub(number).is_none() =>
        {
            (field.high(), Overflow::Saturate)
        }
        Action::Set(number, overflow) => (i128::from(number), overflow),
        Action::Increment(by, overflow) => (old + i128::from(by), overflow),
    };
    let Some(new) = field.fitting(wanted, overflow) else {
        out.null();
        return Ok(None);
    };
    out.int(if matches!(action, Action::Set(..)) { old } else { new } as i64);
    field.set(string, new)?;
    Ok(Some(new != old))
}

fn read(ctx: &mut Ctx<'_, '_>, operations: &[(Field, Action)]) -> CommandResult {
    ctx.read_string(
        ctx.args.get(1),
        |_| 0,
        |string, out| {
            out.array(operations.len());
            for (field, _) in operations {
                out.int(string.map_or(Ok(0), |string| field.get(string))? as i64);
            }
            Ok(())
        },
    )
}

/// BITFIELD_RO key [GET form offset ...].
pub(super) fn bitfield_ro(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let operations = parse(ctx)?;
    if operations.iter().any(|(_, action)| !matches!(action, Action::Get)) {
        return Err(CommandError::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read(ctx, &operations)
}

/// BITFIELD key [GET form offset | [OVERFLOW WRAP|SAT|FAIL] SET form offset value | INCRBY form offset increment ...].
///
/// A string that must grow for a write grows even if none of the writes takes place.
pub(super) fn bitfield(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let operations = parse(ctx)?;
    let writes = operations.iter().filter(|(_, action)| !matches!(action, Action::Get));
    let Some(end) = writes.map(|(field, _)| field.place().end).max() else {
        return read(ctx, &operations);
    };
    // The last field may be up to 8 bytes past the longest string.
    let bounds = Bounds { max_bytes: sexton_engine::VALUE_MAX_BYTES, ..Bounds::of(ctx) };
    ctx.edit_string(ctx.args.get(1), |string, out| {
        if let Err(error) = bounds.check(string, end) {
            return Ok(Err(error));
        }
        let has_grown = end > string.len_bytes();
        let windows =
            operations.iter().map(|(field, _)| field.at / 8..field.at / 8 + WINDOW_BYTES as u64);
        string.needs(&mut windows.chain(std::iter::once(end - 1..end)))?;
        if has_grown {
            string.write(end - 1, &[0])?;
        }
        out.array(operations.len());
        let mut is_told = false;
        for &operation in &operations {
            let changed = run(string, operation, out)?;
            is_told |= changed.is_some_and(|changed| changed || has_grown);
        }
        Ok(Ok(if has_grown || is_told {
            EditedAs::Written(Written::Edited, is_told.then(|| Event::string("setbit")))
        } else {
            EditedAs::Looked
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::paged::{EditedString, WholeString};

    fn field(at: u64, bits: u32, signed: bool) -> Field {
        Field { at, bits, signed }
    }

    #[test]
    fn numbers_of_every_width_come_back_and_leave_their_neighbours_alone() {
        for signed in [false, true] {
            for bits in 1..=(if signed { 64 } else { 63 }) {
                for at in [0, 1, 7, 8, 13, 63, 65] {
                    let field = field(at, bits, signed);
                    for pattern in [0, 1, u128::MAX, 0x5555_5555_5555_5555, 1 << (bits - 1)] {
                        let number = field.number(pattern);
                        let old = &[0xa5; 17][..];
                        let mut string = WholeString::new(Some(old));
                        field.set(&mut string, number).expect("all of it is there");
                        assert_eq!(field.get(&string).ok(), Some(number), "{field:?}");
                        let number = field.get(&old).expect("all of it is there");
                        field.set(&mut string, number).expect("all of it is there");
                        let whole = match string.into_edited() {
                            EditedString::Whole(whole) => whole,
                            part => panic!("{part:?} of two writes"),
                        };
                        assert_eq!(whole, old, "{field:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_wrapped_cut_or_refused() {
        let (byte, signed) = (field(0, 8, false), field(0, 8, true));
        assert_eq!(byte.fitting(255, Overflow::Fail), Some(255));
        assert_eq!(byte.fitting(257, Overflow::Wrap), Some(1));
        assert_eq!(byte.fitting(-1, Overflow::Wrap), Some(255));
        assert_eq!(byte.fitting(-1, Overflow::Saturate), Some(0));
        assert_eq!(byte.fitting(256, Overflow::Fail), None);
        assert_eq!(signed.fitting(128, Overflow::Wrap), Some(-128));
        assert_eq!(signed.fitting(128, Overflow::Saturate), Some(127));
        assert_eq!(signed.fitting(-129, Overflow::Wrap), Some(127));
        assert_eq!(signed.fitting(-129, Overflow::Saturate), Some(-128));
        let widest = field(0, 64, true);
        let number = i128::from(i64::MAX) + 1;
        assert_eq!(widest.fitting(number, Overflow::Wrap), Some(i128::from(i64::MIN)));
        assert_eq!(field(0, 63, false).fitting(number, Overflow::Wrap), Some(0));
    }
}
