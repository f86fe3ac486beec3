//! Replies of commands as Lua values, and Lua values as replies, as Redis 7.0 converts them.

use super::raise::{c_cast, error_table, to_f64};
use crate::interop::c_numbers::general;
use crate::resp::Reply;
use mlua::{Lua, Result, Table, Value};

/// Deeper tables are answered with an error where they would go on; Redis' bound is that of Lua's stack.
const DEPTH_MAX: usize = 1000;

/// How many fields a table has. They are not held together: each takes a place in a stack.
fn len_of(table: &Table) -> Result<usize> {
    let mut len = 0;
    table.for_each(|_: Value, _: Value| {
        len += 1;
        Ok(())
    })?;
    Ok(len)
}

/// A reader of reply bytes that this server wrote itself.
struct Reader<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
}

/// The Lua value of one whole reply.
pub(super) fn to_lua(lua: &Lua, reply: &[u8]) -> Result<Value> {
    Reader { lua, bytes: reply }.value()
}

/// The code and words of an error: `-CODE words` keeps them, others get the code `ERR`.
pub(super) fn error_text(reply: &[u8]) -> Vec<u8> {
    let trim = |text: &[u8]| -> Vec<u8> {
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let start = text.iter().position(|byte| !is_end(byte)).unwrap_or(text.len());
        let end = text.iter().rposition(|byte| !is_end(byte)).map_or(start, |at| at + 1);
        text[start..end].to_vec()
    };
    let reply = reply.split(|&byte| byte == 0).next().unwrap_or_default();
    let Some(text) = reply.strip_prefix(b"-") else {
        return [b"ERR ".to_vec(), trim(reply)].concat();
    };
    let text = trim(text);
    match text.iter().position(|&byte| byte == b' ') {
        Some(at) => [&text[..at], b" ", &trim(&text[at + 1..])].concat(),
        None => [b"ERR ".to_vec(), text].concat(),
    }
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> &'a [u8] {
        let end = self.bytes.windows(2).position(|pair| pair == b"\r\n");
        let (line, rest) = match end {
            Some(end) => (&self.bytes[..end], &self.bytes[end + 2..]),
            None => (self.bytes, &self.bytes[self.bytes.len()..]),
        };
        self.bytes = rest;
        line
    }

    fn count(&mut self) -> i64 {
        number_of(self.line()).unwrap_or(0)
    }

    fn bulk(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.count()).ok()?;
        let bytes = &self.bytes[..len.min(self.bytes.len())];
        self.bytes = self.bytes.get(len + 2..).unwrap_or_default();
        Some(bytes)
    }

    fn array(&mut self, len: i64) -> Result<Value> {
        let table = self.lua.create_table()?;
        for at in 1..=len {
            let value = self.value()?;
            table.raw_set(at, value)?;
        }
        Ok(Value::Table(table))
    }

    /// A table with the one field `name`.
    fn field(&self, name: &str, value: impl mlua::IntoLua) -> Result<Value> {
        let table = self.lua.create_table()?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn value(&mut self) -> Result<Value> {
        let Some((&kind, rest)) = self.bytes.split_first() else { return Ok(Value::Nil) };
        self.bytes = rest;
        match kind {
            b':' => {
                let number = self.count();
                Ok(Value::Number(number as f64))
            }
            b'$' => match self.bulk() {
                Some(bytes) => Ok(Value::String(self.lua.create_string(bytes)?)),
                None => Ok(Value::Boolean(false)),
            },
            b'+' => {
                let text = self.lua.create_string(self.line())?;
                self.field("ok", text)
            }
            b'-' => {
                let text = [b"-", self.line()].concat();
                Ok(Value::Table(error_table(self.lua, &error_text(&text), true)?))
            }
            b'*' | b'>' => match self.count() {
                -1 => Ok(Value::Boolean(false)),
                len => self.array(len),
            },
            b'%' => {
                let (map, len) = (self.lua.create_table()?, self.count());
                for _ in 0..len {
                    let (key, value) = (self.value()?, self.value()?);
                    map.raw_set(key, value)?;
                }
                self.field("map", map)
            }
            // Attributes are not shown: the reply that they belong to follows.
            b'|' => {
                for _ in 0..self.count() {
                    self.value()?;
                    self.value()?;
                }
                self.value()
            }
            b'~' => {
                let (set, len) = (self.lua.create_table()?, self.count());
                for _ in 0..len {
                    set.raw_set(self.value()?, true)?;
                }
                self.field("set", set)
            }
            b'_' => {
                self.line();
                Ok(Value::Nil)
            }
            b'#' => Ok(Value::Boolean(self.line() == b"t")),
            b',' => {
                let number = crate::interop::c_numbers::parse_prefix(self.line())
                    .map_or(0.0, |found| found.0);
                self.field("double", number)
            }
            b'(' => {
                let text = self.lua.create_string(self.line())?;
                self.field("big_number", text)
            }
            b'=' => {
                let bytes = self.bulk().unwrap_or_default();
                let (format, text) = bytes.split_at_checked(4).unwrap_or((b"txt:", bytes));
                let verbatim = self.lua.create_table()?;
                verbatim.raw_set("string", self.lua.create_string(text)?)?;
                verbatim.raw_set("format", self.lua.create_string(&format[..3])?)?;
                self.field("verbatim_string", verbatim)
            }
            _ => Ok(Value::Nil),
        }
    }
}

fn number_of(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Writes a script's value as the reply of its command. `resp3`: what the script has chosen with redis.setresp.
pub(super) fn write(value: &Value, resp3: bool, out: &mut Reply) -> Result<()> {
    Writer { resp3, out }.value(value, 0)
}

struct Writer<'a> {
    resp3: bool,
    out: &'a mut Reply,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            self.out.error(b"ERR reached lua stack limit");
            return Ok(());
        }
        match value {
            Value::String(text) => self.out.bulk(&text.as_bytes()),
            Value::Boolean(value) if self.resp3 => self.out.boolean(*value),
            Value::Boolean(true) => self.out.int(1),
            Value::Boolean(false) => self.out.null(),
            Value::Table(table) => return self.table(table, depth),
            value => match to_f64(value) {
                Some(number) => self.out.int(c_cast(number)),
                None => self.out.null(),
            },
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<()> {
        if let Value::String(text) = table.raw_get("err")? {
            self.out.error(&text.as_bytes());
            return Ok(());
        }
        if let Value::String(text) = table.raw_get("ok")? {
            let text = c_string(&text.as_bytes());
            self.out.raw(&[b"+".as_slice(), &one_line(&text), b"\r\n"].concat());
            return Ok(());
        }
        if let Some(number) = to_f64(&table.raw_get("double")?) {
            self.out.double(&general(number, 17));
            return Ok(());
        }
        if let Value::Table(map) = table.raw_get("map")? {
            self.out.map(len_of(&map)?);
            return map.for_each(|key: Value, value: Value| {
                self.value(&key, depth + 1)?;
                self.value(&value, depth + 1)
            });
        }
        if let Value::Table(set) = table.raw_get("set")? {
            self.out.set(len_of(&set)?);
            return set.for_each(|key: Value, _: Value| self.value(&key, depth + 1));
        }
        if let Value::String(text) = table.raw_get("big_number")? {
            let text = one_line(&text.as_bytes());
            if self.out.is_resp3() {
                self.out.raw(&[b"(".as_slice(), &text, b"\r\n"].concat());
            } else {
                self.out.bulk(&text);
            }
            return Ok(());
        }
        if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
            && let Value::String(format) = verbatim.raw_get("format")?
            && let Value::String(text) = verbatim.raw_get("string")?
        {
            let mut format = format.as_bytes().to_vec();
            format.resize(3, b' ');
            self.out.verbatim(&String::from_utf8_lossy(&format), &text.as_bytes());
            return Ok(());
        }
        let mut values = Vec::new();
        loop {
            match table.raw_get(values.len() + 1)? {
                Value::Nil => break,
                value => values.push(value),
            }
        }
        self.out.array(values.len());
        for value in values {
            // What does not fit is not sent: no need to go on.
            if self.out.is_cut() {
                break;
            }
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }
}

/// Up to the first NUL, as C reads it.
fn c_string(text: &[u8]) -> Vec<u8> {
    text.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
}

fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_their_code_or_get_one() {
        for (reply, text) in [
            (&b"-WRONGTYPE no\r\n"[..], &b"WRONGTYPE no"[..]),
            (b"-FOO", b"ERR FOO"),
            (b"words here", b"ERR words here"),
            (b"-", b"ERR "),
            (b"-A b\0c", b"A b"),
        ] {
            assert_eq!(error_text(reply), text);
        }
    }
}
