//! redis.register_function: the functions that a library registers while it is loaded.

use super::library::{BAD_NAME, Function, flag_bit, is_name};
use super::raise::{Raised, to_bytes};
use mlua::{Error, Lua, MultiValue, Result, Table, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// What a library that is being loaded has registered.
#[derive(Default)]
pub(super) struct Registered {
    /// The registered functions, in order.
    pub(super) functions: Vec<Function>,
    /// Their code, by name in lower case: in any case they are found, so two that differ in it only would be one.
    pub(super) code: HashMap<Vec<u8>, mlua::Function>,
}

/// `None` while no library is being loaded.
pub(super) type Register = Rc<RefCell<Option<Registered>>>;

fn error(text: &str) -> Error {
    Raised::Reply { text: format!("ERR {text}").into_bytes(), is_counted: false }.into_error()
}

/// The arguments, of either form.
#[derive(Default)]
struct Arguments {
    name: Option<Vec<u8>>,
    description: Option<Vec<u8>>,
    callback: Option<mlua::Function>,
    flags: u8,
}

impl Arguments {
    fn by_place(values: &MultiValue) -> Result<Self> {
        let name = to_bytes(&values[0]);
        let name = name
            .ok_or_else(|| error("first argument to redis.register_function must be a string"))?;
        let Value::Function(callback) = &values[1] else {
            return Err(error("second argument to redis.register_function must be a function"));
        };
        Ok(Self { name: Some(name), callback: Some(callback.clone()), ..Self::default() })
    }

    fn by_name(table: &Table) -> Result<Self> {
        let mut arguments = Self::default();
        table.for_each(|key: Value, value: Value| {
            let key = to_bytes(&key).ok_or_else(|| {
                error("named argument key given to redis.register_function is not a string")
            })?;
            let text = |what: &str| {
                to_bytes(&value).ok_or_else(|| {
                    error(&format!(
                        "{what} argument given to redis.register_function must be a string"
                    ))
                })
            };
            match key.to_ascii_lowercase().as_slice() {
                b"function_name" => arguments.name = Some(text("function_name")?),
                b"description" => arguments.description = Some(text("description")?),
                b"callback" => {
                    let Value::Function(callback) = value else {
                        return Err(error(
                            "callback argument given to redis.register_function must be a function",
                        ));
                    };
                    arguments.callback = Some(callback);
                }
                b"flags" => {
                    let Value::Table(flags) = value else {
                        return Err(error(
                            "flags argument to redis.register_function must be a table \
                             representing function flags",
                        ));
                    };
                    arguments.flags = read_flags(&flags)?;
                }
                _ => return Err(error("unknown argument given to redis.register_function")),
            }
            Ok(())
        })?;
        Ok(arguments)
    }
}

fn read_flags(table: &Table) -> Result<u8> {
    let mut flags = 0;
    for at in 1.. {
        match table.raw_get(at)? {
            Value::Nil => break,
            value => {
                let bit = to_bytes(&value).and_then(|name| flag_bit(&name));
                flags |= bit.ok_or_else(|| error("unknown flag given"))?;
            }
        }
    }
    Ok(flags)
}

fn register(register: &RefCell<Option<Registered>>, values: &MultiValue) -> Result<()> {
    let arguments = match values.len() {
        1 => match &values[0] {
            Value::Table(table) => Arguments::by_name(table)?,
            _ => {
                return Err(error(
                    "calling redis.register_function with a single argument is only applicable to \
                     Lua table (representing named arguments).",
                ));
            }
        },
        2 => Arguments::by_place(values)?,
        _ => return Err(error("wrong number of arguments to redis.register_function")),
    };
    let name = arguments
        .name
        .ok_or_else(|| error("redis.register_function must get a function name argument"))?;
    let callback = arguments
        .callback
        .ok_or_else(|| error("redis.register_function must get a callback argument"))?;
    if !is_name(&name) {
        return Err(error(BAD_NAME));
    }
    let mut register = register.borrow_mut();
    let Some(registered) = register.as_mut() else {
        return Err(error("redis.register_function can only be called on FUNCTION LOAD command"));
    };
    let key = name.to_ascii_lowercase();
    if registered.code.contains_key(&key) {
        return Err(error("Function already exists in the library"));
    }
    registered.code.insert(key, callback);
    registered.functions.push(Function::new(name, arguments.description, arguments.flags));
    Ok(())
}

/// The function for the table `redis` of libraries that are being loaded.
pub(super) fn open(lua: &Lua, to: &Register) -> Result<mlua::Function> {
    let to = Rc::clone(to);
    lua.create_function(move |_, values: MultiValue| {
        if to.borrow().is_none() {
            return Err(error(
                "redis.register_function can only be called on FUNCTION LOAD command",
            ));
        }
        register(&to, &values)
    })
}
