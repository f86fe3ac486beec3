//! The table `redis`, except for `call`, `pcall` and `acl_check_cmd`, which belong to the running script.

use super::convert::error_text;
use super::raise::{Arguments, Raised, c_cast, error_table, failure, to_bytes, to_f64, to_number};
use super::random::Random;
use super::register::{self, Register};
use crate::digest;
use crate::interop::c_numbers::general;
use crate::log;
use crate::resp::{Args, pack};
use crate::version::{REDIS_VERSION, REDIS_VERSION_NUMBER};
use mlua::{Error, Lua, MultiValue, Result, Table, Value};
use std::cell::Cell;
use std::rc::Rc;

/// A request in one buffer, with the places of its arguments.
type Request = (Vec<u8>, Vec<(u32, u32)>);

/// The arguments of redis.call as a request.
pub(super) fn request(args: &[Value]) -> std::result::Result<Request, &'static str> {
    if args.is_empty() {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    let texts: Option<Vec<Vec<u8>>> = args
        .iter()
        .map(|value| match value {
            Value::String(text) => Some(text.as_bytes().to_vec()),
            // Not as Lua writes numbers: that loses digits.
            value => to_f64(value).map(|number| general(number, 17).into_bytes()),
        })
        .collect();
    let texts = texts.ok_or("ERR Lua redis lib command arguments must be strings or integers")?;
    if texts.iter().map(Vec::len).sum::<usize>() > i32::MAX as usize {
        return Err("ERR Lua redis lib command arguments are too long");
    }
    Ok(pack(texts.iter().map(Vec::as_slice)))
}

fn error(text: &str) -> Error {
    Raised::Reply { text: text.as_bytes().to_vec(), is_counted: false }.into_error()
}

fn sha1hex(lua: &Lua, values: MultiValue) -> Result<mlua::LuaString> {
    if values.len() != 1 {
        return Err(error("ERR wrong number of arguments"));
    }
    let bytes = to_bytes(&values[0]).unwrap_or_default();
    lua.create_string(digest::hex(&digest::sha1(&bytes)))
}

fn error_reply(lua: &Lua, values: MultiValue) -> Result<Table> {
    let text = match (values.len(), values.front()) {
        (1, Some(Value::String(text))) => text.as_bytes().to_vec(),
        _ => return error_table(lua, b"ERR wrong number or type of arguments", false),
    };
    let text = [b"-", text.strip_prefix(b"-").unwrap_or(&text)].concat();
    error_table(lua, &error_text(&text), false)
}

fn status_reply(lua: &Lua, values: MultiValue) -> Result<Table> {
    let (1, Some(Value::String(text))) = (values.len(), values.front()) else {
        return error_table(lua, b"ERR wrong number or type of arguments", false);
    };
    let table = lua.create_table()?;
    table.raw_set("ok", text)?;
    Ok(table)
}

fn write_log(values: &MultiValue) -> Result<()> {
    if values.len() < 2 {
        return Err(error("ERR redis.log() requires two arguments or more."));
    }
    let Some(level) = to_f64(&values[0]) else {
        return Err(error("ERR First argument must be a number (log level)."));
    };
    let texts: Vec<Vec<u8>> = values.iter().skip(1).filter_map(to_bytes).collect();
    let text = String::from_utf8_lossy(&texts.join(&b' ')).into_owned();
    match c_cast(level) {
        0 => log::line(log::Level::Debug, &text),
        1 => log::verbose(|| text),
        2 => log::notice(&text),
        3 => log::warning(&text),
        _ => return Err(error("ERR Invalid debug level.")),
    }
    Ok(())
}

fn set_resp(resp3: &Cell<bool>, values: &MultiValue) -> Result<()> {
    if values.len() != 1 {
        return Err(error("ERR redis.setresp() requires one argument."));
    }
    match to_number(&values[0]).map(c_cast) {
        Some(version @ (2 | 3)) => resp3.set(version == 3),
        _ => return Err(error("ERR RESP version must be 2 or 3.")),
    }
    Ok(())
}

/// Accepted, and without effect: what is logged is what was written.
fn set_repl(_: &Lua, values: MultiValue) -> Result<()> {
    if values.len() != 1 {
        return Err(error("ERR redis.set_repl() requires two arguments."));
    }
    if !(0..=3).contains(&to_number(&values[0]).map_or(0, c_cast)) {
        return Err(error(
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ));
    }
    Ok(())
}

/// redis.acl_check_cmd.
pub(super) fn check_rights(
    args: &[Value],
    may: impl FnOnce(Args<'_>) -> Option<bool>,
) -> Result<bool> {
    let (bytes, ranges) = request(args).map_err(error)?;
    may(Args::new(&bytes, &ranges))
        .ok_or_else(|| error("ERR Invalid command passed to redis.acl_check_cmd()"))
}

/// The table `redis` without what asks the script's host.
pub(super) fn open(lua: &Lua, resp3: Rc<Cell<bool>>) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    table.raw_set("error_reply", lua.create_function(error_reply)?)?;
    table.raw_set("status_reply", lua.create_function(status_reply)?)?;
    table.raw_set("log", lua.create_function(|_, values: MultiValue| write_log(&values))?)?;
    table.raw_set("set_repl", lua.create_function(set_repl)?)?;
    let setter = lua.create_function(move |_, values: MultiValue| set_resp(&resp3, &values))?;
    table.raw_set("setresp", setter)?;
    // There is no debugger.
    table.raw_set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    table.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    table.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    for (name, value) in
        [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)]
    {
        table.raw_set(name, f64::from(value))?;
    }
    add_constants(&table)?;
    Ok(table)
}

/// What libraries see of it, too, while they are loaded.
fn add_constants(table: &Table) -> Result<()> {
    for (name, value) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REDIS_VERSION_NUM", REDIS_VERSION_NUMBER),
    ] {
        table.raw_set(name, f64::from(value))?;
    }
    table.raw_set("REDIS_VERSION", REDIS_VERSION)
}

/// The table `redis` of functions without `call` and `pcall`: that of scripts, without what was for scripts alone.
pub(super) fn of_functions(lua: &Lua, of_scripts: &Table) -> Result<Table> {
    let table = lua.create_table()?;
    of_scripts.for_each(|name: Value, value: Value| table.raw_set(name, value))?;
    for name in ["breakpoint", "debug", "replicate_commands"] {
        table.raw_set(name, Value::Nil)?;
    }
    Ok(table)
}

/// The table `redis` of libraries that are being loaded. What they log is dropped while `is_quiet`.
pub(super) fn of_libraries(
    lua: &Lua,
    register: &Register,
    is_quiet: &Rc<Cell<bool>>,
) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("register_function", register::open(lua, register)?)?;
    let is_quiet = Rc::clone(is_quiet);
    let log = lua.create_function(
        move |_, values: MultiValue| {
            if is_quiet.get() { Ok(()) } else { write_log(&values) }
        },
    )?;
    table.raw_set("log", log)?;
    add_constants(&table)?;
    Ok(table)
}

/// math.random.
pub(super) fn random(lua: &Lua, random: &Random, values: MultiValue) -> Result<f64> {
    let args = Arguments::new(lua, "random", values);
    let fraction = random.fraction();
    let (low, high) = match args.len() {
        0 => return Ok(fraction),
        1 => (1, args.integer(1)? as i32),
        2 => (args.integer(1)? as i32, args.integer(2)? as i32),
        _ => return Err(failure(lua, "wrong number of arguments")),
    };
    if low > high {
        return Err(args.fail(args.len(), "interval is empty"));
    }
    let count = f64::from(high.wrapping_sub(low).wrapping_add(1));
    Ok((fraction * count).floor() + f64::from(low))
}

/// math.randomseed.
pub(super) fn random_seed(lua: &Lua, random: &Random, values: MultiValue) -> Result<()> {
    let args = Arguments::new(lua, "randomseed", values);
    random.seed(args.integer(1)? as i32);
    Ok(())
}
