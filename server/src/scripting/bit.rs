//! The library `bit`: 32-bit operations, compatible with BitOp 1.0.

use super::raise::Arguments;
use mlua::{Function, Lua, MultiValue, Result, Table};

/// The low 32 bits of a number that was rounded to an integer.
fn bits_of(number: f64) -> u32 {
    // As BitOp does: the sum has the number's low bits at the end of its mantissa.
    (number + 6_755_399_441_055_744.0).to_bits() as u32
}

fn function(
    lua: &Lua,
    name: &'static str,
    run: impl Fn(&Arguments<'_>) -> Result<u32> + 'static,
) -> Result<Function> {
    lua.create_function(move |lua, values: MultiValue| {
        let bits = run(&Arguments::new(lua, name, values))?;
        Ok(f64::from(bits as i32))
    })
}

/// The table `bit`.
pub(super) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    type One = (&'static str, fn(u32) -> u32);
    let ones: [One; 3] = [("tobit", |a| a), ("bnot", |a| !a), ("bswap", u32::swap_bytes)];
    for (name, run) in ones {
        table.raw_set(name, function(lua, name, move |args| Ok(run(bits_of(args.number(1)?))))?)?;
    }
    type Two = (&'static str, fn(u32, u32) -> u32);
    let several: [Two; 3] = [("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];
    for (name, run) in several {
        let run = function(lua, name, move |args| {
            let mut bits = bits_of(args.number(1)?);
            for number in 2..=args.len() {
                bits = run(bits, bits_of(args.number(number)?));
            }
            Ok(bits)
        })?;
        table.raw_set(name, run)?;
    }
    let shifts: [Two; 5] = [
        ("lshift", |a, n| a << (n & 31)),
        ("rshift", |a, n| a >> (n & 31)),
        ("arshift", |a, n| ((a as i32) >> (n & 31)) as u32),
        ("rol", |a, n| a.rotate_left(n & 31)),
        ("ror", |a, n| a.rotate_right(n & 31)),
    ];
    for (name, run) in shifts {
        let run = function(lua, name, move |args| {
            let bits = bits_of(args.number(1)?);
            Ok(run(bits, bits_of(args.number(2)?)))
        })?;
        table.raw_set(name, run)?;
    }
    let tohex = lua.create_function(|lua, values: MultiValue| {
        let args = Arguments::new(lua, "tohex", values);
        let bits = bits_of(args.number(1)?);
        let count = if args.is_none(2) { 8 } else { bits_of(args.number(2)?) as i32 };
        let len = count.unsigned_abs().min(8) as usize;
        let text = if count < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
        Ok(text[8 - len..].to_owned())
    })?;
    table.raw_set("tohex", tohex)?;
    Ok(table)
}
