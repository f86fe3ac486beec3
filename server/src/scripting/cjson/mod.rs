//! The library `cjson`: JSON, compatible with Lua CJSON 2.1.

mod decode;
mod encode;

use super::raise::Arguments;
use mlua::{Function, Lua, MultiValue, Result, Table, Value};
use std::cell::RefCell;
use std::rc::Rc;

/// What a script may set.
#[derive(Clone, Copy, Debug)]
struct Settings {
    sparse_convert: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_depth_max: i64,
    encode_invalid: Invalid,
    precision: i64,
    keep_buffer: bool,
    decode_depth_max: i64,
    decode_invalid: bool,
}

/// What becomes of numbers that JSON does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1000,
            encode_invalid: Invalid::Refused,
            precision: 14,
            keep_buffer: true,
            decode_depth_max: 1000,
            decode_invalid: true,
        }
    }
}

/// The settings of all libraries that `cjson.new` has made since they were last put back.
#[derive(Clone, Default)]
pub(super) struct Shared(Rc<RefCell<Settings>>);

impl Shared {
    /// A script begins: what earlier ones have set is forgotten.
    pub(super) fn reset(&self) {
        *self.0.borrow_mut() = Settings::default();
    }
}

fn expects(args: &Arguments<'_>, max: usize) -> Result<()> {
    if args.len() <= max { Ok(()) } else { Err(args.fail(max + 1, "found too many arguments")) }
}

/// An integer setting within bounds: set if the argument is given.
fn set_integer(
    args: &Arguments<'_>,
    at: usize,
    (min, max): (i64, i64),
    to: &mut i64,
) -> Result<()> {
    if !args.is_none(at) {
        let value = args.integer(at)?;
        if !(min..=max).contains(&value) {
            return Err(args.fail(at, &format!("expected integer between {min} and {max}")));
        }
        *to = value;
    }
    Ok(())
}

/// A setting that is a boolean or one of the `words`: its place among false, true and those after them.
fn set_option(args: &Arguments<'_>, at: usize, words: &[&str], to: &mut usize) -> Result<()> {
    match args.get(at) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(value)) => *to = usize::from(*value),
        Some(_) => {
            let text = args.bytes(at)?;
            let found = words.iter().position(|word| word.as_bytes() == text);
            let shown = String::from_utf8_lossy(&text);
            *to = found.ok_or_else(|| args.fail(at, &format!("invalid option '{shown}'")))?;
        }
    }
    Ok(())
}

type Setter = fn(&Arguments<'_>, &mut Settings) -> Result<MultiValue>;

fn boolean(value: bool) -> MultiValue {
    MultiValue::from_iter([Value::Boolean(value)])
}

fn number(value: i64) -> Value {
    Value::Number(value as f64)
}

const SETTERS: &[(&str, Setter)] = &[
    ("encode_sparse_array", |args, settings| {
        expects(args, 3)?;
        let mut convert = usize::from(settings.sparse_convert);
        set_option(args, 1, &["off", "on"], &mut convert)?;
        settings.sparse_convert = convert == 1;
        let max = i64::from(i32::MAX);
        set_integer(args, 2, (0, max), &mut settings.sparse_ratio)?;
        set_integer(args, 3, (0, max), &mut settings.sparse_safe)?;
        let shown = [
            Value::Boolean(settings.sparse_convert),
            number(settings.sparse_ratio),
            number(settings.sparse_safe),
        ];
        Ok(MultiValue::from_iter(shown))
    }),
    ("encode_max_depth", |args, settings| {
        expects(args, 1)?;
        set_integer(args, 1, (1, i64::from(i32::MAX)), &mut settings.encode_depth_max)?;
        Ok(MultiValue::from_iter([number(settings.encode_depth_max)]))
    }),
    ("decode_max_depth", |args, settings| {
        expects(args, 1)?;
        set_integer(args, 1, (1, i64::from(i32::MAX)), &mut settings.decode_depth_max)?;
        Ok(MultiValue::from_iter([number(settings.decode_depth_max)]))
    }),
    ("encode_number_precision", |args, settings| {
        expects(args, 1)?;
        set_integer(args, 1, (1, 14), &mut settings.precision)?;
        Ok(MultiValue::from_iter([number(settings.precision)]))
    }),
    ("encode_keep_buffer", |args, settings| {
        expects(args, 1)?;
        let mut keep = usize::from(settings.keep_buffer);
        set_option(args, 1, &["off", "on"], &mut keep)?;
        settings.keep_buffer = keep == 1;
        Ok(boolean(settings.keep_buffer))
    }),
    ("encode_invalid_numbers", |args, settings| {
        expects(args, 1)?;
        let mut place = settings.encode_invalid as usize;
        set_option(args, 1, &["off", "on", "null"], &mut place)?;
        settings.encode_invalid = [Invalid::Refused, Invalid::Written, Invalid::Null][place];
        if settings.encode_invalid == Invalid::Null {
            return Ok(MultiValue::from_iter([Value::String(args.lua.create_string("null")?)]));
        }
        Ok(boolean(place == 1))
    }),
    ("decode_invalid_numbers", |args, settings| {
        expects(args, 1)?;
        let mut place = usize::from(settings.decode_invalid);
        set_option(args, 1, &["off", "on"], &mut place)?;
        settings.decode_invalid = place == 1;
        Ok(boolean(settings.decode_invalid))
    }),
];

fn only_argument(args: &Arguments<'_>) -> Result<()> {
    if args.len() == 1 { Ok(()) } else { Err(args.fail(1, "expected 1 argument")) }
}

/// The table `cjson`.
pub(super) fn open(lua: &Lua, shared: &Shared) -> Result<Table> {
    let table = lua.create_table()?;
    for &(name, setter) in SETTERS {
        let shared = shared.clone();
        let function: Function = lua.create_function(move |lua, values: MultiValue| {
            setter(&Arguments::new(lua, name, values), &mut shared.0.borrow_mut())
        })?;
        table.raw_set(name, function)?;
    }
    let settings = shared.clone();
    let encode = lua.create_function(move |lua, values: MultiValue| {
        let args = Arguments::new(lua, "encode", values);
        only_argument(&args)?;
        let settings = *settings.0.borrow();
        lua.create_string(encode::encode(lua, settings, &args.values[0])?)
    })?;
    table.raw_set("encode", encode)?;
    let settings = shared.clone();
    let decode = lua.create_function(move |lua, values: MultiValue| {
        let args = Arguments::new(lua, "decode", values);
        only_argument(&args)?;
        let settings = *settings.0.borrow();
        decode::decode(lua, settings, &args.bytes(1)?)
    })?;
    table.raw_set("decode", decode)?;
    let maker = shared.clone();
    table.raw_set("new", lua.create_function(move |lua, ()| open(lua, &maker))?)?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}
