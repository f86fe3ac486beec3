//! The library `struct`: values packed into bytes, compatible with struct 0.2.

use super::raise::{Arguments, bad_argument, failure};
use mlua::{Lua, MultiValue, Result, Table, Value};

/// Largest integer, in bytes.
const INTEGER_MAX_BYTES: usize = 32;

/// Alignment without `!`, and its default with one.
const NATIVE_ALIGN: usize = 8;

/// A format string that is being read.
struct Format<'a> {
    lua: &'a Lua,
    text: Vec<u8>,
    at: usize,
    is_little: bool,
    align: usize,
}

/// One item of a format: its letter, its size in bytes, and what must be skipped before it.
struct Item {
    letter: u8,
    size: usize,
    skip: usize,
}

impl<'a> Format<'a> {
    fn new(lua: &'a Lua, text: Vec<u8>) -> Self {
        Self { lua, text, at: 0, is_little: cfg!(target_endian = "little"), align: 1 }
    }

    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// The number at this place, if there is one.
    fn number(&mut self) -> Result<Option<usize>> {
        if !self.peek().is_ascii_digit() {
            return Ok(None);
        }
        let mut number = 0_usize;
        while self.peek().is_ascii_digit() {
            let digit = usize::from(self.peek() - b'0');
            if number > i32::MAX as usize / 10 || number * 10 > i32::MAX as usize - digit {
                return Err(failure(self.lua, "integral size overflow"));
            }
            number = number * 10 + digit;
            self.at += 1;
        }
        Ok(Some(number))
    }

    fn size_of(&mut self, letter: u8) -> Result<usize> {
        Ok(match letter {
            b'B' | b'b' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'x' => 1,
            b'c' => self.number()?.unwrap_or(1),
            b'i' | b'I' => {
                let size = self.number()?.unwrap_or(4);
                if size > INTEGER_MAX_BYTES {
                    let text =
                        format!("integral size {size} is larger than limit of {INTEGER_MAX_BYTES}");
                    return Err(failure(self.lua, text));
                }
                size
            }
            _ => 0,
        })
    }

    fn control(&mut self, letter: u8) -> Result<()> {
        match letter {
            b' ' => {}
            b'>' => self.is_little = false,
            b'<' => self.is_little = true,
            b'!' => {
                let align = self.number()?.unwrap_or(NATIVE_ALIGN);
                if align == 0 || !align.is_power_of_two() {
                    let text = format!("alignment {align} is not a power of 2");
                    return Err(failure(self.lua, text));
                }
                self.align = align;
            }
            other => {
                let why = format!("invalid format option '{}'", other as char);
                return Err(bad_argument(self.lua, 1, "pack", &why));
            }
        }
        Ok(())
    }

    /// The next format letter with its size and alignment; `total` is the number of preceding bytes.
    fn next(&mut self, total: usize) -> Result<Option<Item>> {
        if self.at >= self.text.len() || self.peek() == 0 {
            return Ok(None);
        }
        let letter = self.peek();
        self.at += 1;
        let size = self.size_of(letter)?;
        let mut skip = 0;
        if size != 0 && letter != b'c' {
            let align = size.min(self.align);
            if align > 1 {
                skip = (align - (total & (align - 1))) & (align - 1);
            }
        }
        Ok(Some(Item { letter, size, skip }))
    }
}

fn integer_bytes(number: f64, size: usize, is_little: bool, out: &mut Vec<u8>) {
    // As C does: a negative number by its signed form, others as unsigned ones.
    let value = if number < 0.0 { super::raise::c_cast(number) as u64 } else { number as u64 };
    let byte = |at: usize| if at < 8 { (value >> (8 * at)) as u8 } else { 0 };
    if is_little {
        out.extend((0..size).map(byte));
    } else {
        out.extend((0..size).rev().map(byte));
    }
}

fn integer_of(bytes: &[u8], is_little: bool, is_signed: bool) -> f64 {
    let mut value = 0_u64;
    let mut add = |byte: &u8| value = value << 8 | u64::from(*byte);
    if is_little {
        bytes.iter().rev().for_each(&mut add)
    } else {
        bytes.iter().for_each(&mut add)
    }
    if !is_signed {
        return value as f64;
    }
    let unused = 64_u32.saturating_sub(8 * bytes.len() as u32);
    if unused == 64 { 0.0 } else { ((value << unused) as i64 >> unused) as f64 }
}

fn ordered<const N: usize>(mut bytes: [u8; N], is_little: bool) -> [u8; N] {
    if !is_little {
        bytes.reverse();
    }
    bytes
}

fn pack(lua: &Lua, values: MultiValue) -> Result<mlua::LuaString> {
    let args = Arguments::new(lua, "pack", values);
    let mut format = Format::new(lua, args.bytes(1)?);
    let mut out = Vec::new();
    let mut number = 2;
    while let Some(item) = format.next(out.len())? {
        out.resize(out.len() + item.skip, 0);
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                integer_bytes(args.number(number)?, item.size, format.is_little, &mut out);
                number += 1;
            }
            b'x' => out.push(0),
            b'f' => {
                let bytes = (args.number(number)? as f32).to_le_bytes();
                out.extend(ordered(bytes, format.is_little));
                number += 1;
            }
            b'd' => {
                let bytes = args.number(number)?.to_le_bytes();
                out.extend(ordered(bytes, format.is_little));
                number += 1;
            }
            b'c' | b's' => {
                let text = args.bytes(number)?;
                let size = if item.size == 0 { text.len() } else { item.size };
                if text.len() < size {
                    return Err(args.fail(number, "string too short"));
                }
                out.extend_from_slice(&text[..size]);
                if item.letter == b's' {
                    out.push(0);
                }
                number += 1;
            }
            other => format.control(other)?,
        }
    }
    lua.create_string(out)
}

fn unpack(lua: &Lua, values: MultiValue) -> Result<MultiValue> {
    let args = Arguments::new(lua, "unpack", values);
    let mut format = Format::new(lua, args.bytes(1)?);
    let data = args.bytes(2)?;
    let start = args.integer_or(3, 1)?;
    if start <= 0 {
        return Err(args.fail(3, "offset must be 1 or greater"));
    }
    let mut at = (start - 1) as usize;
    let mut found: Vec<Value> = Vec::new();
    let too_short = || args.fail(2, "data string too short");
    while let Some(item) = format.next(at)? {
        at = at.saturating_add(item.skip);
        let mut size = item.size;
        if size > data.len() || at > data.len() - size {
            return Err(too_short());
        }
        let bytes = &data[at..at + size];
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let is_signed = item.letter.is_ascii_lowercase();
                found.push(Value::Number(integer_of(bytes, format.is_little, is_signed)));
            }
            b'x' => {}
            b'f' => {
                let bytes = ordered(bytes.try_into().unwrap_or_default(), format.is_little);
                found.push(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            b'd' => {
                let bytes = ordered(bytes.try_into().unwrap_or_default(), format.is_little);
                found.push(Value::Number(f64::from_le_bytes(bytes)));
            }
            b'c' => {
                if size == 0 {
                    let Some(Value::Number(before)) = found.pop() else {
                        return Err(failure(lua, "format 'c0' needs a previous size"));
                    };
                    let wanted = before as usize;
                    if before < 0.0 || wanted > data.len() || at > data.len() - wanted {
                        return Err(too_short());
                    }
                    size = wanted;
                }
                found.push(Value::String(lua.create_string(&data[at..at + size])?));
            }
            b's' => {
                let Some(len) = data[at..].iter().position(|&byte| byte == 0) else {
                    return Err(failure(lua, "unfinished string in data"));
                };
                found.push(Value::String(lua.create_string(&data[at..at + len])?));
                size = len + 1;
            }
            other => format.control(other)?,
        }
        at += size;
    }
    found.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_vec(found))
}

fn size(lua: &Lua, values: MultiValue) -> Result<f64> {
    let args = Arguments::new(lua, "size", values);
    let mut format = Format::new(lua, args.bytes(1)?);
    let mut total = 0_usize;
    while let Some(item) = format.next(total)? {
        total = total.saturating_add(item.skip);
        match item.letter {
            b's' => return Err(args.fail(1, "option 's' has no fixed size")),
            b'c' if item.size == 0 => {
                return Err(args.fail(1, "option 'c0' has no fixed size"));
            }
            letter if !letter.is_ascii_alphanumeric() => format.control(letter)?,
            letter if item.size == 0 && !matches!(letter, b'i' | b'I') => format.control(letter)?,
            _ => {}
        }
        total = total.saturating_add(item.size);
    }
    Ok(total as f64)
}

/// The table `struct`.
pub(super) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    table.raw_set("unpack", lua.create_function(unpack)?)?;
    table.raw_set("size", lua.create_function(size)?)?;
    Ok(table)
}
