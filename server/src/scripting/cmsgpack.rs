//! The library `cmsgpack`: MessagePack, compatible with lua-cmsgpack 0.4.

use super::OUTPUT_MAX_BYTES;
use super::raise::{Arguments, failure, to_f64};
use mlua::{Lua, MultiValue, Result, Table, Value};

/// Tables that are nested deeper are packed as nil.
const PACK_DEPTH_MAX: usize = 16;

/// Deeper input is refused. Lua's own stack ends the real library's nesting.
const UNPACK_DEPTH_MAX: usize = 1000;

fn is_integer(number: f64) -> bool {
    number.is_finite() && super::raise::c_cast(number) as f64 == number
}

fn pack_integer(number: i64, out: &mut Vec<u8>) {
    if number >= 0 {
        match number {
            0..=0x7f => out.push(number as u8),
            0x80..=0xff => out.extend([0xcc, number as u8]),
            0x100..=0xffff => head(0xcd, &(number as u16).to_be_bytes(), out),
            0x1_0000..=0xffff_ffff => head(0xce, &(number as u32).to_be_bytes(), out),
            _ => head(0xcf, &number.to_be_bytes(), out),
        }
    } else {
        match number {
            -32.. => out.push(number as u8),
            -128.. => out.extend([0xd0, number as u8]),
            -32_768.. => head(0xd1, &(number as i16).to_be_bytes(), out),
            -2_147_483_648.. => head(0xd2, &(number as i32).to_be_bytes(), out),
            _ => head(0xd3, &number.to_be_bytes(), out),
        }
    }
}

fn head(byte: u8, rest: &[u8], out: &mut Vec<u8>) {
    out.push(byte);
    out.extend_from_slice(rest);
}

/// The head of an array or a map: `small` with up to 15 elements, otherwise `long` with 16 bits or the next byte value with 32.
fn pack_count(count: usize, small: u8, long: u8, out: &mut Vec<u8>) {
    match count {
        0..=15 => out.push(small | count as u8),
        16..=0xffff => head(long, &(count as u16).to_be_bytes(), out),
        _ => head(long + 1, &(count as u32).to_be_bytes(), out),
    }
}

fn pack_string(text: &[u8], out: &mut Vec<u8>) {
    match text.len() {
        0..=31 => out.push(0xa0 | text.len() as u8),
        32..=0xff => out.extend([0xd9, text.len() as u8]),
        0x100..=0xffff => head(0xda, &(text.len() as u16).to_be_bytes(), out),
        _ => head(0xdb, &(text.len() as u32).to_be_bytes(), out),
    }
    out.extend_from_slice(text);
}

/// The length of a table that is an array: all its keys are 1 to n.
fn array_len(table: &Table) -> Result<Option<usize>> {
    let (mut count, mut max) = (0_u64, 0_f64);
    for pair in table.pairs::<Value, Value>() {
        match to_f64(&pair?.0) {
            Some(n) if n > 0.0 && n.trunc() == n && n <= f64::from(i32::MAX) => {
                max = max.max(n);
                count += 1;
            }
            _ => return Ok(None),
        }
    }
    Ok((max == count as f64).then_some(count as usize))
}

fn pack_value(value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    // A table may occur in another one many times.
    if out.len() > OUTPUT_MAX_BYTES {
        return Err(mlua::Error::MemoryError(String::new()));
    }
    match value {
        Value::String(text) => pack_string(&text.as_bytes(), out),
        Value::Boolean(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => pack_integer(*number, out),
        Value::Number(number) if is_integer(*number) => pack_integer(*number as i64, out),
        Value::Number(number) => {
            let short = *number as f32;
            if f64::from(short) == *number {
                head(0xca, &short.to_be_bytes(), out);
            } else {
                head(0xcb, &number.to_be_bytes(), out);
            }
        }
        Value::Table(table) if depth < PACK_DEPTH_MAX => match array_len(table)? {
            Some(len) => {
                pack_count(len, 0x90, 0xdc, out);
                for at in 1..=len {
                    pack_value(&table.get(at)?, depth + 1, out)?;
                }
            }
            None => {
                // Their number is known at the end: to hold all of them takes a place in a stack each.
                let (begin, mut pairs, mut head) = (out.len(), 0, Vec::new());
                table.for_each(|key: Value, value: Value| {
                    pairs += 1;
                    pack_value(&key, depth + 1, out)?;
                    pack_value(&value, depth + 1, out)
                })?;
                pack_count(pairs, 0x80, 0xde, &mut head);
                out.splice(begin..begin, head);
            }
        },
        _ => out.push(0xc0),
    }
    Ok(())
}

fn pack(lua: &Lua, values: MultiValue) -> Result<mlua::LuaString> {
    let args = Arguments::new(lua, "pack", values);
    if args.len() == 0 {
        return Err(args.fail(0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for value in &args.values {
        pack_value(value, 0, &mut out)?;
    }
    lua.create_string(out)
}

/// Why input cannot be unpacked.
enum Bad {
    End,
    Format,
    Depth,
    Lua(mlua::Error),
}

impl From<mlua::Error> for Bad {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

struct Input<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> std::result::Result<&'a [u8], Bad> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(Bad::End)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> std::result::Result<[u8; N], Bad> {
        self.take(N)?.try_into().map_err(|_| Bad::End)
    }

    fn string(&mut self, len: usize) -> std::result::Result<Value, Bad> {
        Ok(Value::String(self.lua.create_string(self.take(len)?)?))
    }

    fn array(&mut self, len: usize, depth: usize) -> std::result::Result<Value, Bad> {
        let table = self.lua.create_table()?;
        for at in 1..=len {
            let value = self.value(depth + 1)?;
            table.raw_set(at, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: usize) -> std::result::Result<Value, Bad> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            if matches!(key, Value::Nil) {
                return Err(failure(self.lua, "table index is nil").into());
            }
            if matches!(key, Value::Number(number) if number.is_nan()) {
                return Err(failure(self.lua, "table index is NaN").into());
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }

    fn value(&mut self, depth: usize) -> std::result::Result<Value, Bad> {
        if depth > UNPACK_DEPTH_MAX {
            return Err(Bad::Depth);
        }
        let kind = self.take(1)?[0];
        let number = |number: f64| Ok(Value::Number(number));
        match kind {
            0x00..=0x7f => number(f64::from(kind)),
            0xe0..=0xff => number(f64::from(kind as i8)),
            0x80..=0x8f => self.map(usize::from(kind & 0xf), depth),
            0x90..=0x9f => self.array(usize::from(kind & 0xf), depth),
            0xa0..=0xbf => self.string(usize::from(kind & 0x1f)),
            0xc0 => Ok(Value::Nil),
            0xc2 => Ok(Value::Boolean(false)),
            0xc3 => Ok(Value::Boolean(true)),
            0xca => number(f64::from(f32::from_be_bytes(self.number()?))),
            0xcb => number(f64::from_be_bytes(self.number()?)),
            0xcc => number(f64::from(self.take(1)?[0])),
            0xcd => number(f64::from(u16::from_be_bytes(self.number()?))),
            0xce => number(f64::from(u32::from_be_bytes(self.number()?))),
            0xcf => number(u64::from_be_bytes(self.number()?) as f64),
            0xd0 => number(f64::from(i8::from_be_bytes(self.number()?))),
            0xd1 => number(f64::from(i16::from_be_bytes(self.number()?))),
            0xd2 => number(f64::from(i32::from_be_bytes(self.number()?))),
            0xd3 => number(i64::from_be_bytes(self.number()?) as f64),
            0xd9 => {
                let len = usize::from(self.take(1)?[0]);
                self.string(len)
            }
            0xda => {
                let len = usize::from(u16::from_be_bytes(self.number()?));
                self.string(len)
            }
            0xdb => {
                let len = u32::from_be_bytes(self.number()?) as usize;
                self.string(len)
            }
            0xdc => {
                let len = usize::from(u16::from_be_bytes(self.number()?));
                self.array(len, depth)
            }
            0xdd => {
                let len = u32::from_be_bytes(self.number()?) as usize;
                self.array(len, depth)
            }
            0xde => {
                let len = usize::from(u16::from_be_bytes(self.number()?));
                self.map(len, depth)
            }
            0xdf => {
                let len = u32::from_be_bytes(self.number()?) as usize;
                self.map(len, depth)
            }
            _ => Err(Bad::Format),
        }
    }
}

/// Unpacks up to `limit` values from `offset` on; with `tells_end`, the position of the next one is returned first.
fn unpack_from(
    args: &Arguments<'_>,
    limit: i64,
    offset: i64,
    tells_end: bool,
) -> Result<MultiValue> {
    let lua = args.lua;
    let data = args.bytes(1)?;
    if offset < 0 || limit < 0 {
        let len = data.len();
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {len}.");
        return Err(failure(lua, text));
    }
    if offset as usize > data.len() {
        let text = format!("Start offset {offset} greater than input length {}.", data.len());
        return Err(failure(lua, text));
    }
    let mut input = Input { lua, bytes: &data[offset as usize..] };
    let mut found = Vec::new();
    while !input.bytes.is_empty() && (found.len() as i64) < limit {
        match input.value(0) {
            Ok(value) => found.push(value),
            Err(Bad::End) => return Err(failure(lua, "Missing bytes in input.")),
            Err(Bad::Format) => return Err(failure(lua, "Bad data format in input.")),
            Err(Bad::Depth) => {
                let text = "stack overflow (in function mp_decode_to_lua_array)";
                return Err(failure(lua, text));
            }
            Err(Bad::Lua(error)) => return Err(error),
        }
    }
    if tells_end {
        let left = input.bytes.len();
        let end = if left == 0 { -1.0 } else { (data.len() - left) as f64 };
        found.insert(0, Value::Number(end));
    }
    Ok(MultiValue::from_vec(found))
}

/// The table `cmsgpack`.
pub(super) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    let unpack = lua.create_function(|lua, values: MultiValue| {
        unpack_from(&Arguments::new(lua, "unpack", values), i64::from(i32::MAX), 0, false)
    })?;
    table.raw_set("unpack", unpack)?;
    let one = lua.create_function(|lua, values: MultiValue| {
        let args = Arguments::new(lua, "unpack_one", values);
        let offset = args.integer_or(2, 0)?;
        unpack_from(&args, 1, offset, true)
    })?;
    table.raw_set("unpack_one", one)?;
    let limited = lua.create_function(|lua, values: MultiValue| {
        let args = Arguments::new(lua, "unpack_limit", values);
        let (limit, offset) = (args.integer(2)?, args.integer_or(3, 0)?);
        let all = limit == 0 && offset == 0;
        unpack_from(&args, if all { i64::from(i32::MAX) } else { limit }, offset, !all)
    })?;
    table.raw_set("unpack_limit", limited)?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.raw_set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.raw_set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    Ok(table)
}
