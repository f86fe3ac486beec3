//! Bit operations on strings.
//!
//! Bit 0 is the highest bit of the first byte. Every command performs at most one engine operation per key, and is
//! logged verbatim.

mod combine;
mod field;
mod range;
mod single;

use crate::dispatch::table::Binding;
use crate::dispatch::{CommandError, Ctx};
use crate::number::parse_i64;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("setbit", single::setbit),
    Binding::keyed("getbit", single::getbit),
    Binding::keyed("bitcount", range::bitcount),
    Binding::keyed("bitpos", range::bitpos),
    Binding::keyed("bitop", combine::bitop),
    Binding::keyed("bitfield", field::bitfield),
    Binding::keyed("bitfield_ro", field::bitfield_ro),
];

/// The position of a bit, limited to the maximum length of a string. With `field_bits`, `#n` is the position of the n-th
/// field of that many bits.
fn position(ctx: &Ctx<'_, '_>, text: &[u8], field_bits: Option<u32>) -> Result<u64, CommandError> {
    let (digits, unit) = match (text, field_bits) {
        ([b'#', digits @ ..], Some(bits)) => (digits, i64::from(bits)),
        _ => (text, 1),
    };
    parse_i64(digits)
        .and_then(|number| number.checked_mul(unit))
        .and_then(|bit| u64::try_from(bit).ok())
        .filter(|bit| bit / 8 < ctx.string_max_bytes())
        .ok_or(CommandError::text("ERR bit offset is not an integer or out of range"))
}
