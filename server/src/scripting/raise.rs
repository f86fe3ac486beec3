//! Errors raised by library functions, and argument checks with Lua's own messages.
//!
//! An error raised in Rust passes through Lua as a userdata. `pcall`, `xpcall`, `coroutine.resume` and the handler of the
//! script's own errors convert it to what Redis' functions would have raised: a text, or a table with a field `err`.

use crate::interop::c_numbers::general;
use mlua::{Error, Lua, MultiValue, Result, Table, Value};
use std::fmt;

/// What a function of ours raises.
#[derive(Clone, Debug)]
pub(super) enum Raised {
    /// A text, with its place in front where it has one.
    Text(Vec<u8>),
    /// A table as Redis raises it.
    Reply {
        /// Its field `err`: code and words.
        text: Vec<u8>,
        /// True when the command that failed has counted the error.
        is_counted: bool,
    },
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Text(text) | Self::Reply { text, .. }) = self;
        f.write_str(&String::from_utf8_lossy(text))
    }
}

impl std::error::Error for Raised {}

impl Raised {
    pub(super) fn into_error(self) -> Error {
        Error::external(self)
    }

    /// What was raised by one of our functions, found below what mlua has wrapped around it.
    pub(super) fn of(error: &Error) -> Option<&Self> {
        match error {
            Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => {
                Self::of(cause)
            }
            Error::ExternalError(inner) => inner.downcast_ref(),
            _ => None,
        }
    }
}

/// The text of an error that mlua made, without what it adds.
fn plain_text(error: &Error) -> String {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => plain_text(cause),
        Error::MemoryError(_) => "not enough memory".to_owned(),
        Error::RuntimeError(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A table `{err = text}`.
pub(super) fn error_table(lua: &Lua, text: &[u8], is_counted: bool) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("err", lua.create_string(text)?)?;
    if is_counted {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(table)
}

/// The value that Lua code sees for a caught error: our userdata is replaced by the error it represents.
pub(super) fn translate(lua: &Lua, value: Value) -> Result<Value> {
    let Value::Error(error) = &value else { return Ok(value) };
    match Raised::of(error) {
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        Some(Raised::Reply { text, is_counted }) => {
            Ok(Value::Table(error_table(lua, text, *is_counted)?))
        }
        None => Ok(Value::String(lua.create_string(plain_text(error))?)),
    }
}

/// The place of the Lua code that has called the function that runs: `user_script:1: `, or nothing.
fn place(lua: &Lua) -> String {
    let place = lua.inspect_stack(1, |frame| {
        let line = frame.current_line()?;
        Some(format!("{}:{line}: ", frame.source().short_src?))
    });
    place.flatten().unwrap_or_default()
}

/// As luaL_error: the text with the place in front.
pub(super) fn failure(lua: &Lua, text: impl AsRef<[u8]>) -> Error {
    Raised::Text([place(lua).as_bytes(), text.as_ref()].concat()).into_error()
}

/// As luaL_argerror: argument `number` of the function that runs is wrong.
pub(super) fn bad_argument(lua: &Lua, number: usize, function: &str, why: &str) -> Error {
    let called = lua.inspect_stack(0, |frame| frame.names().name.map(std::borrow::Cow::into_owned));
    let name = called.flatten().unwrap_or_else(|| function.to_owned());
    failure(lua, format!("bad argument #{number} to '{name}' ({why})"))
}

/// The arguments of a call.
pub(super) struct Arguments<'a> {
    pub(super) lua: &'a Lua,
    /// The function's name, where Lua knows none.
    pub(super) function: &'static str,
    pub(super) values: MultiValue,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(lua: &'a Lua, function: &'static str, values: MultiValue) -> Self {
        Self { lua, function, values }
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Argument `number`, from 1 on.
    pub(super) fn get(&self, number: usize) -> Option<&Value> {
        self.values.get(number - 1)
    }

    /// True where the argument is missing or nil.
    pub(super) fn is_none(&self, number: usize) -> bool {
        matches!(self.get(number), None | Some(Value::Nil))
    }

    pub(super) fn fail(&self, number: usize, why: &str) -> Error {
        bad_argument(self.lua, number, self.function, why)
    }

    pub(super) fn wrong_type(&self, number: usize, wanted: &str) -> Error {
        let got = self.get(number).map_or("no value", type_name);
        self.fail(number, &format!("{wanted} expected, got {got}"))
    }

    /// luaL_checknumber.
    pub(super) fn number(&self, number: usize) -> Result<f64> {
        let value = self.get(number).and_then(to_number);
        value.ok_or_else(|| self.wrong_type(number, "number"))
    }

    /// luaL_checkinteger: a C cast of the number.
    pub(super) fn integer(&self, number: usize) -> Result<i64> {
        Ok(c_cast(self.number(number)?))
    }

    /// luaL_optinteger.
    pub(super) fn integer_or(&self, number: usize, default: i64) -> Result<i64> {
        if self.is_none(number) { Ok(default) } else { self.integer(number) }
    }

    /// luaL_checklstring: numbers are taken as their texts.
    pub(super) fn bytes(&self, number: usize) -> Result<Vec<u8>> {
        let value = self.get(number).and_then(to_bytes);
        value.ok_or_else(|| self.wrong_type(number, "string"))
    }
}

/// Lua's name of a value's type.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// A number, or a text that reads as one.
pub(super) fn to_number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => {
            let text = text.as_bytes();
            let (number, used) = crate::interop::c_numbers::parse_prefix(&text)?;
            text[used..].iter().all(u8::is_ascii_whitespace).then_some(number)
        }
        _ => None,
    }
}

/// The bytes of a text, or a number's text as Lua writes it.
pub(super) fn to_bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        _ => to_f64(value).map(|number| general(number, 14).into_bytes()),
    }
}

/// The number of a number.
pub(super) fn to_f64(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// As C casts on x86-64: what does not fit is the smallest number.
pub(super) fn c_cast(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}
