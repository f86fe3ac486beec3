//! One Lua state: made once a thread, used by one script at a time.

use super::raise::{Raised, error_table, translate};
use super::redis_api;
use super::script::Script;
use super::{bit, cjson, cmsgpack, convert, random::Random, struct_lib};
use crate::resp::{Args, Reply};
use mlua::{
    Error, Function, HookTriggers, Lua, LuaOptions, MultiValue, Result, StdLib, Table, Value,
    Variadic, VmState,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Instructions between two looks at the clock.
const HOOK_INSTRUCTIONS: u32 = 10_000;

/// Compiled scripts that an interpreter keeps; with more of them it begins anew.
const COMPILED_MAX: usize = 1000;

/// The source of the sandbox.
const PRELUDE: &str = include_str!("prelude.lua");

/// What became of a command that a script has asked for.
pub enum Answer {
    /// It has run; its reply stands in the buffer.
    Replied,
    /// It was refused before it ran, with this error.
    Refused(Vec<u8>),
    /// The script must end here: nothing of it counts.
    Stopped,
}

/// What a script reaches outside of its interpreter.
pub trait Host {
    /// Runs a command and writes its reply.
    fn call(&mut self, args: Args<'_>, reply: &mut Reply) -> Answer;
}

/// What a script may take.
#[derive(Clone, Default)]
pub struct Limits {
    /// After so long it is stopped; `None`: never.
    pub slice: Option<Duration>,
    /// Set by who kills it.
    pub kill: Option<Arc<AtomicBool>>,
    /// Bytes of memory of the interpreter; 0 for no limit.
    pub memory_max_bytes: usize,
}

/// How a script has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its value is written.
    Returned,
    /// With this error, which a command has counted already where the flag says so.
    Failed(Vec<u8>, bool),
    /// [`Host::call`] has stopped it.
    Stopped,
    /// Its time was over.
    OutOfTime,
}

/// Why the script that runs must end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Host,
    Time,
    Killed,
}

/// What the hook looks at.
struct Watch {
    started: Cell<Instant>,
    slice: Cell<Option<Duration>>,
    kill: RefCell<Option<Arc<AtomicBool>>>,
    stop: Cell<Option<Stop>>,
    /// Each instruction raises an error: the interpreter is of no use any more.
    is_armed: Cell<bool>,
}

impl Watch {
    /// Notes that the script must end, if it must.
    fn look(&self) -> Option<Stop> {
        if self.stop.get().is_none() {
            let killed =
                self.kill.borrow().as_ref().is_some_and(|kill| kill.load(Ordering::Acquire));
            let is_late =
                self.slice.get().is_some_and(|slice| self.started.get().elapsed() > slice);
            self.stop.set(if killed { Some(Stop::Killed) } else { is_late.then_some(Stop::Time) });
        }
        self.stop.get()
    }
}

const KILLED: &[u8] = b"ERR Script killed by user with SCRIPT KILL.";

fn end(stop: Stop) -> Error {
    let text = if stop == Stop::Killed { KILLED } else { b"ERR the script is stopped" };
    Raised::Reply { text: text.to_vec(), is_counted: false }.into_error()
}

/// One Lua state with Redis' sandbox.
pub struct Interpreter {
    lua: Lua,
    run: Function,
    redis: Table,
    globals: Table,
    json: cjson::Shared,
    watch: Rc<Watch>,
    resp3: Rc<Cell<bool>>,
    compiled: RefCell<HashMap<String, Function>>,
    memory_max_bytes: Cell<usize>,
    is_broken: Cell<bool>,
}

impl Interpreter {
    /// A state with the sandbox. `knows_command`: whether a request addresses a command of the server.
    ///
    /// # Errors
    /// A mistake in the sandbox, or no memory.
    pub fn new(knows_command: fn(Args<'_>) -> bool) -> Result<Self> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())?;
        let json = cjson::Shared::default();
        let resp3 = Rc::new(Cell::new(false));
        let native = lua.create_table()?;
        let redis = redis_api::open(&lua, Rc::clone(&resp3), knows_command)?;
        native.raw_set("redis", &redis)?;
        native.raw_set("cjson", cjson::open(&lua, &json)?)?;
        native.raw_set("cmsgpack", cmsgpack::open(&lua)?)?;
        native.raw_set("struct", struct_lib::open(&lua)?)?;
        native.raw_set("bit", bit::open(&lua)?)?;
        add_natives(&lua, &native)?;
        let watch = Rc::new(Watch {
            started: Cell::new(Instant::now()),
            slice: Cell::new(None),
            kill: RefCell::default(),
            stop: Cell::new(None),
            is_armed: Cell::new(false),
        });
        let stopping = Rc::clone(&watch);
        let is_stopping = lua.create_function(move |_, ()| Ok(stopping.stop.get().is_some()))?;
        native.raw_set("is_stopping", is_stopping)?;
        let prelude = lua.load(PRELUDE).set_name("=prelude");
        let (run, globals): (Function, Table) = prelude.call(&native)?;
        let watched = Rc::clone(&watch);
        let triggers = HookTriggers::new().every_nth_instruction(HOOK_INSTRUCTIONS);
        lua.set_global_hook(triggers, move |lua, _| {
            let Some(stop) = watched.look() else { return Ok(VmState::Continue) };
            // Whatever catches this error raises it again with its next instruction.
            watched.is_armed.set(true);
            let every = HookTriggers::new().every_nth_instruction(1);
            lua.set_hook(every, move |_, frame| match frame.source().source.as_deref() {
                // It hands the error on.
                Some("=prelude") => Ok(VmState::Continue),
                _ => Err(end(stop)),
            })?;
            Err(end(stop))
        })?;
        Ok(Self {
            lua,
            run,
            redis,
            globals,
            json,
            watch,
            resp3,
            compiled: RefCell::default(),
            memory_max_bytes: Cell::new(0),
            is_broken: Cell::new(false),
        })
    }

    /// Bytes of memory that the state takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.lua.used_memory()
    }

    /// False when a script was stopped in a way that leaves the state of no use.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.watch.is_armed.get() && !self.is_broken.get()
    }

    /// Compiles a text; the error is Lua's.
    fn compile(&self, body: &[u8]) -> std::result::Result<Function, Vec<u8>> {
        // A compiled chunk is read as a text, and is none.
        let guarded;
        let body = if body.first() == Some(&27) {
            guarded = [b" ", body].concat();
            guarded.as_slice()
        } else {
            body
        };
        let chunk =
            self.lua.load(body).set_name("@user_script").set_environment(self.globals.clone());
        chunk.into_function().map_err(|error| match error {
            Error::SyntaxError { message, .. } => message.into_bytes(),
            other => other.to_string().into_bytes(),
        })
    }

    /// Compiles a script, and keeps it for when it runs.
    ///
    /// # Errors
    /// The whole error that its client gets.
    pub fn compile_script(&self, script: &Script) -> std::result::Result<(), Vec<u8>> {
        self.function_of(script).map(drop)
    }

    fn function_of(&self, script: &Script) -> std::result::Result<Function, Vec<u8>> {
        if let Some(function) = self.compiled.borrow().get(&script.sha) {
            return Ok(function.clone());
        }
        let function = self.compile(script.code()).map_err(|text| {
            [b"ERR Error compiling script (new function): ".as_slice(), &text].concat()
        })?;
        let mut compiled = self.compiled.borrow_mut();
        if compiled.len() >= COMPILED_MAX {
            compiled.clear();
        }
        compiled.insert(script.sha.clone(), function.clone());
        Ok(function)
    }

    /// Runs a script.
    pub fn run<'a>(
        &self,
        script: &Script,
        keys: impl Iterator<Item = &'a [u8]>,
        argv: impl Iterator<Item = &'a [u8]>,
        host: &mut dyn Host,
        limits: Limits,
        out: &mut Reply,
    ) -> Ended {
        self.json.reset();
        self.resp3.set(false);
        self.watch.started.set(Instant::now());
        self.watch.slice.set(limits.slice);
        *self.watch.kill.borrow_mut() = limits.kill;
        self.watch.stop.set(None);
        if self.memory_max_bytes.replace(limits.memory_max_bytes) != limits.memory_max_bytes {
            // Only a state without an allocator of its own refuses this.
            let _ = self.lua.set_memory_limit(limits.memory_max_bytes);
        }
        let mark = out.len();
        let ended = self.run_inside(script, keys, argv, host, out);
        *self.watch.kill.borrow_mut() = None;
        match self.watch.stop.get() {
            Some(Stop::Host) => return Ended::Stopped,
            Some(Stop::Time) => return Ended::OutOfTime,
            Some(Stop::Killed) => {
                // Where there was no place left in the script to raise it, it has none.
                out.truncate(mark);
                return match ended {
                    Ok(Ended::Failed(text, counted)) if text.starts_with(KILLED) => {
                        Ended::Failed(text, counted)
                    }
                    _ => Ended::Failed(KILLED.to_vec(), false),
                };
            }
            None => {}
        }
        ended.unwrap_or_else(|error| {
            out.truncate(mark);
            if matches!(error, Error::MemoryError(_)) {
                let _ = self.lua.gc_collect();
            } else {
                self.is_broken.set(true);
            }
            let text = match translate(&self.lua, Value::Error(Box::new(error))) {
                Ok(Value::String(text)) => text.as_bytes().to_vec(),
                _ => b"not enough memory".to_vec(),
            };
            Ended::Failed([b"ERR ", text.as_slice()].concat(), false)
        })
    }

    fn run_inside<'a>(
        &self,
        script: &Script,
        keys: impl Iterator<Item = &'a [u8]>,
        argv: impl Iterator<Item = &'a [u8]>,
        host: &mut dyn Host,
        out: &mut Reply,
    ) -> Result<Ended> {
        let lua = &self.lua;
        let function = match self.function_of(script) {
            Ok(function) => function,
            Err(text) => return Ok(Ended::Failed(text, false)),
        };
        let list = |texts: &mut dyn Iterator<Item = &'a [u8]>| -> Result<Table> {
            let table = lua.create_table()?;
            for (at, text) in texts.enumerate() {
                table.raw_set(at + 1, lua.create_string(text)?)?;
            }
            Ok(table)
        };
        let (keys, argv) = (list(&mut { keys })?, list(&mut { argv })?);
        let host = RefCell::new(host);
        let (is_fine, value): (bool, Value) = lua.scope(|scope| {
            for (name, raises) in [("call", true), ("pcall", false)] {
                let host = &host;
                let function = scope.create_function(move |lua, args: Variadic<Value>| {
                    self.redis_call(lua, host, &args, raises)
                })?;
                self.redis.raw_set(name, function)?;
            }
            self.run.call((function, keys, argv))
        })?;
        if is_fine {
            convert::write(&value, self.resp3.get(), out)?;
            if let Value::Table(table) = &value
                && let Value::String(text) = table.raw_get("err")?
            {
                // Its reply is an error; who counts errors is told.
                let counted =
                    table.raw_get::<Value>("ignore_error_stats_update")? == Value::Boolean(true);
                return Ok(Ended::Failed(text.as_bytes().to_vec(), counted));
            }
            return Ok(Ended::Returned);
        }
        self.failure(script, &value)
    }

    /// The error that a script has ended with, and where.
    fn failure(&self, script: &Script, value: &Value) -> Result<Ended> {
        let Value::Table(table) = value else {
            // There was no memory for the handler.
            let text = match translate(&self.lua, value.clone())? {
                Value::String(text) => text.as_bytes().to_vec(),
                _ => b"unknown error".to_vec(),
            };
            return Ok(Ended::Failed([b"ERR ", text.as_slice()].concat(), false));
        };
        let text: mlua::LuaString = table.raw_get("err")?;
        let mut text = text.as_bytes().to_vec();
        let (source, line) = (table.raw_get("source")?, table.raw_get("line")?);
        if let (Value::String(source), Value::Integer(line)) = (source, line) {
            let place = format!(" script: {}, on {}:{line}.", script.sha, source.to_string_lossy());
            text.extend_from_slice(place.as_bytes());
        }
        let counted = table.raw_get::<Value>("ignore_error_stats_update")? == Value::Boolean(true);
        Ok(Ended::Failed(text, counted))
    }

    fn redis_call(
        &self,
        lua: &Lua,
        host: &RefCell<&mut dyn Host>,
        args: &[Value],
        raises: bool,
    ) -> Result<Value> {
        if let Some(stop) = self.watch.look() {
            return Err(end(stop));
        }
        let refuse = |text: &[u8], is_counted: bool| {
            if raises {
                Err(Raised::Reply { text: text.to_vec(), is_counted }.into_error())
            } else {
                Ok(Value::Table(error_table(lua, text, is_counted)?))
            }
        };
        let (bytes, ranges) = match redis_api::request(args) {
            Ok(request) => request,
            Err(text) => return refuse(text.as_bytes(), false),
        };
        let mut reply = Reply::new();
        reply.set_resp3(self.resp3.get());
        // A command that calls a script again is refused before it gets here.
        let mut host = host.try_borrow_mut().map_err(|_| Error::RecursiveMutCallback)?;
        match host.call(Args::new(&bytes, &ranges), &mut reply) {
            Answer::Refused(text) => refuse(&text, false),
            Answer::Stopped => {
                self.watch.stop.set(Some(Stop::Host));
                Err(end(Stop::Host))
            }
            Answer::Replied => {
                if raises && reply.bytes().first() == Some(&b'-') {
                    return refuse(&convert::error_text(reply.bytes()), true);
                }
                convert::to_lua(lua, reply.bytes())
            }
        }
    }
}

/// What the prelude takes from Rust.
fn add_natives(lua: &Lua, native: &Table) -> Result<()> {
    native.raw_set("translate", lua.create_function(translate)?)?;
    native.raw_set("place", lua.create_function(|lua, ()| place(lua))?)?;
    let begun = Instant::now();
    native
        .raw_set("clock", lua.create_function(move |_, ()| Ok(begun.elapsed().as_secs_f64()))?)?;
    let random = Rc::new(Random::new());
    let seeded = Rc::clone(&random);
    native.raw_set(
        "random",
        lua.create_function(move |lua, values: MultiValue| {
            redis_api::random(lua, &random, values)
        })?,
    )?;
    native.raw_set(
        "randomseed",
        lua.create_function(move |lua, values: MultiValue| {
            redis_api::random_seed(lua, &seeded, values)
        })?,
    )?;
    let collect = lua.create_function(|lua, what: Option<mlua::LuaString>| {
        let what = what.map(|what| what.to_string_lossy());
        match what.as_deref() {
            Some("count") => return Ok(lua.used_memory() as f64 / 1024.0),
            // Others would outlive the script.
            None | Some("collect" | "step") => lua.gc_collect()?,
            Some(_) => {}
        }
        Ok(0.0)
    })?;
    native.raw_set("collectgarbage", collect)
}

/// Source and line of the script's code that has raised the error that is handled.
fn place(lua: &Lua) -> Result<(Option<String>, Option<i64>)> {
    let mut may_be_native = true;
    for level in 2..32 {
        let frame = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let name = source.source.map(std::borrow::Cow::into_owned).unwrap_or_default();
            (source.what == "C", name, frame.current_line())
        });
        match frame {
            None => break,
            Some((true, ..)) if may_be_native => may_be_native = false,
            Some((false, name, _)) if name == "=prelude" => {}
            Some((_, name, Some(line))) => return Ok((Some(name), Some(line as i64))),
            Some(_) => {}
        }
    }
    Ok((None, None))
}
