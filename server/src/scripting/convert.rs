//! Replies of commands as Lua values, and Lua values as replies, as Redis 7.0 converts them.

use super::raise::{c_cast, to_f64};
use crate::interop::c_numbers::general;
use crate::resp::Reply;
use mlua::{Result, Table, Value};

/// Deeper tables are replaced by an error at this depth; Redis' limit is that of Lua's stack.
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
