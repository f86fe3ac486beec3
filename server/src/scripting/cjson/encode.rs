//! Lua values as JSON.

use super::{Invalid, Settings};
use crate::interop::c_numbers::general;
use crate::scripting::OUTPUT_MAX_BYTES;
use crate::scripting::raise::{failure, to_f64, type_name};
use mlua::{Error, Lua, Result, Table, Value};

/// Deeper nesting is refused, whatever the script allows: the stack of the thread is bounded.
const DEPTH_MAX: i64 = 1000;

struct Encoder<'a> {
    lua: &'a Lua,
    settings: Settings,
    out: Vec<u8>,
}

/// `value` as JSON.
pub(super) fn encode(lua: &Lua, settings: Settings, value: &Value) -> Result<Vec<u8>> {
    let mut encoder = Encoder { lua, settings, out: Vec::new() };
    encoder.value(value, 0)?;
    Ok(encoder.out)
}

impl Encoder<'_> {
    fn refuse(&self, what: &str, why: &str) -> Error {
        failure(self.lua, format!("Cannot serialise {what}: {why}"))
    }

    fn value(&mut self, value: &Value, depth: i64) -> Result<()> {
        if self.out.len() > OUTPUT_MAX_BYTES {
            return Err(Error::MemoryError(String::new()));
        }
        match value {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Boolean(value) => self.raw(if *value { "true" } else { "false" }),
            Value::Nil => self.raw("null"),
            value if value.is_null() => self.raw("null"),
            Value::Table(table) => return self.table(table, depth + 1),
            value => match to_f64(value) {
                Some(number) => return self.number(number),
                None => return Err(self.refuse(type_name(value), "type not supported")),
            },
        }
        Ok(())
    }

    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, number: f64) -> Result<()> {
        if !number.is_finite() {
            match self.settings.encode_invalid {
                Invalid::Refused => return Err(self.refuse("number", "must not be NaN or Inf")),
                Invalid::Null => {
                    self.raw("null");
                    return Ok(());
                }
                Invalid::Written if number.is_nan() => {
                    self.raw("nan");
                    return Ok(());
                }
                Invalid::Written => {}
            }
        }
        let text = general(number, self.settings.precision as usize);
        self.raw(&text);
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for &byte in text {
            match byte {
                b'"' => self.raw("\\\""),
                b'\\' => self.raw("\\\\"),
                b'/' => self.raw("\\/"),
                8 => self.raw("\\b"),
                b'\t' => self.raw("\\t"),
                b'\n' => self.raw("\\n"),
                12 => self.raw("\\f"),
                b'\r' => self.raw("\\r"),
                0..=31 | 127 => {
                    let escape = format!("\\u{byte:04x}");
                    self.raw(&escape);
                }
                _ => self.out.push(byte),
            }
        }
        self.out.push(b'"');
    }

    /// The length of a table that is to be an array: of one with whole keys from 1 on only. `None` for an object.
    fn array_len(&self, table: &Table) -> Result<Option<i64>> {
        let (mut max, mut items) = (0_i64, 0_i64);
        for pair in table.pairs::<Value, Value>() {
            match to_f64(&pair?.0) {
                Some(key) if key.floor() == key && key >= 1.0 => {
                    max = max.max((key as i64).min(i64::from(i32::MAX)));
                    items += 1;
                }
                _ => return Ok(None),
            }
        }
        let Settings { sparse_ratio, sparse_safe, sparse_convert, .. } = self.settings;
        if sparse_ratio > 0 && max > items.saturating_mul(sparse_ratio) && max > sparse_safe {
            if !sparse_convert {
                return Err(self.refuse("table", "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok((max > 0).then_some(max))
    }

    fn table(&mut self, table: &Table, depth: i64) -> Result<()> {
        if depth > self.settings.encode_depth_max.min(DEPTH_MAX) {
            let text = format!("Cannot serialise, excessive depth ({depth})");
            return Err(failure(self.lua, text));
        }
        match self.array_len(table)? {
            Some(len) => self.array(table, len, depth),
            None => self.object(table, depth),
        }
    }

    fn array(&mut self, table: &Table, len: i64, depth: i64) -> Result<()> {
        self.out.push(b'[');
        for at in 1..=len {
            if at > 1 {
                self.out.push(b',');
            }
            self.value(&table.raw_get(at)?, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: i64) -> Result<()> {
        self.out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match &key {
                Value::String(text) => self.string(&text.as_bytes()),
                key => match to_f64(key) {
                    Some(number) => {
                        self.out.push(b'"');
                        self.number(number)?;
                        self.out.push(b'"');
                    }
                    None => {
                        let why = "table key must be a number or string";
                        return Err(self.refuse(type_name(key), why));
                    }
                },
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }
}
