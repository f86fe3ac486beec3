//! One Lua state: created once per thread, used by one script at a time.

use super::host::{Ended, Host, Limits, Program};
use super::libraries::Libraries;
use super::library::{Function as LibraryFunction, Library};
use super::native::{Bridge, Finished, Sandbox};
use super::raise::translate;
use super::redis_api;
use super::register::{Register, Registered};
use super::script::{Script, Sha};
use super::watch::{KILLED, Stop, Watch};
use super::{PROGRAM_MAX_BYTES, bit, cjson, cmsgpack, convert, random::Random, struct_lib, unpack};
use crate::resp::{Args, Reply};
use mlua::{
    Error, Function, HookTriggers, Lua, LuaOptions, MultiValue, Result, StdLib, Table, Value,
    Variadic, VmState,
};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use std::rc::Rc;
use std::time::Instant;

/// Instructions between two reads of the clock.
const HOOK_INSTRUCTIONS: u32 = 10_000;

/// Maximum number of compiled scripts of an interpreter; beyond it the interpreter is recreated.
const COMPILED_MAX: usize = 1000;

/// The error for a script that does not fit into memory.
const NO_MEMORY: &[u8] = b"ERR not enough memory";

/// The source of the sandbox.
const PRELUDE: &str = include_str!("prelude.lua");

/// One Lua state with Redis' sandbox.
pub struct Interpreter {
    lua: Lua,
    bridge: Bridge,
    load_library: Function,
    globals: Table,
    library_globals: Table,
    json: cjson::Shared,
    watch: Rc<Watch>,
    resp3: Rc<Cell<bool>>,
    /// The number that the bridge has of each script that was compiled.
    compiled: RefCell<HashMap<Sha, c_int>>,
    /// The bridge's numbers of the functions of loaded libraries, by library ID and function name.
    libraries: RefCell<HashMap<u64, HashMap<Vec<u8>, c_int>>>,
    /// Memory that the libraries have taken when they were loaded.
    library_bytes: Cell<usize>,
    register: Register,
    /// Log messages of a library being loaded are dropped: they were logged when it was first loaded.
    is_quiet: Rc<Cell<bool>>,
    /// The collector rests: a parser runs, or has run out of memory.
    is_resting: Rc<Cell<bool>>,
    is_broken: Cell<bool>,
}

impl Interpreter {
    /// A state with the sandbox.
    ///
    /// # Errors
    /// A mistake in the sandbox, or no memory.
    pub fn new() -> Result<Self> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::new())?;
        let json = cjson::Shared::default();
        let resp3 = Rc::new(Cell::new(false));
        let native = lua.create_table()?;
        let redis = redis_api::open(&lua, Rc::clone(&resp3))?;
        native.raw_set("redis", &redis)?;
        let (register, is_quiet) = (Register::default(), Rc::default());
        let redis_of_functions = redis_api::of_functions(&lua, &redis)?;
        native.raw_set("redis_of_functions", &redis_of_functions)?;
        let redis_of_libraries = redis_api::of_libraries(&lua, &register, &is_quiet)?;
        native.raw_set("redis_of_libraries", redis_of_libraries)?;
        native.raw_set("cjson", cjson::open(&lua, &json)?)?;
        native.raw_set("cmsgpack", cmsgpack::open(&lua)?)?;
        native.raw_set("struct", struct_lib::open(&lua)?)?;
        native.raw_set("bit", bit::open(&lua)?)?;
        let is_resting = Rc::default();
        add_natives(&lua, &native, &is_resting)?;
        let watch = Rc::new(Watch::new());
        let stopping = Rc::clone(&watch);
        let is_stopping = lua.create_function(move |_, ()| Ok(stopping.stop.get().is_some()))?;
        native.raw_set("is_stopping", is_stopping)?;
        let prelude = lua.load(PRELUDE).set_name("=prelude");
        let (handler, load_library, base, globals, library_globals) = prelude.call(&native)?;
        let sandbox = Sandbox {
            handler: &handler,
            base: &base,
            globals: &globals,
            library_globals: &library_globals,
        };
        let bridge = Bridge::new(&lua, &sandbox, Rc::clone(&watch), Rc::clone(&resp3))?;
        let rights = bridge.rights();
        let may = lua.create_function(move |_, args: Variadic<Value>| {
            redis_api::check_rights(&args, &rights)
        })?;
        for table in [&redis, &redis_of_functions] {
            table.raw_set("call", &bridge.call)?;
            table.raw_set("pcall", &bridge.pcall)?;
            table.raw_set("acl_check_cmd", &may)?;
        }
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
                _ => Err(stop.into_error()),
            })?;
            Err(stop.into_error())
        })?;
        Ok(Self {
            lua,
            bridge,
            load_library,
            globals,
            library_globals,
            json,
            watch,
            resp3,
            compiled: RefCell::default(),
            libraries: RefCell::default(),
            library_bytes: Cell::new(0),
            register,
            is_quiet,
            is_resting,
            is_broken: Cell::new(false),
        })
    }

    /// Bytes of memory that the state takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.lua.used_memory()
    }

    /// Frees what no program can reach.
    pub fn collect(&self) {
        // What would have to be raised within is not of interest: the memory is looked at.
        let _ = self.lua.gc_collect();
    }

    /// False when a script was stopped in a way that leaves the state of no use.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.watch.is_armed.get() && !self.is_broken.get()
    }

    /// The part of it that is for the code of libraries.
    #[must_use]
    pub fn library_bytes(&self) -> usize {
        self.library_bytes.get()
    }

    /// Compiles a text; the error is Lua's. The garbage collector is stopped meanwhile: the parser holds objects that the collector
    /// does not know to be in use.
    fn compile(
        &self,
        body: &[u8],
        name: &str,
        globals: &Table,
    ) -> std::result::Result<Function, Vec<u8>> {
        if body.len() > PROGRAM_MAX_BYTES {
            return Err(format!("more than {PROGRAM_MAX_BYTES} bytes").into_bytes());
        }
        // A compiled chunk is read as a text, and is none.
        let guarded;
        let body = if body.first() == Some(&27) {
            guarded = [b" ", body].concat();
            guarded.as_slice()
        } else {
            body
        };
        let chunk = self.lua.load(body).set_name(name).set_environment(globals.clone());
        self.lua.gc_stop();
        let function = chunk.into_function();
        self.lua.gc_restart();
        function.map_err(|error| match error {
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

    fn function_of(&self, script: &Script) -> std::result::Result<c_int, Vec<u8>> {
        if let Some(number) = self.compiled.borrow().get(&script.sha) {
            return Ok(*number);
        }
        let function =
            self.compile(script.code(), "@user_script", &self.globals).map_err(|text| {
                [b"ERR Error compiling script (new function): ".as_slice(), &text].concat()
            })?;
        let mut compiled = self.compiled.borrow_mut();
        if compiled.len() >= COMPILED_MAX {
            compiled.drain().for_each(|(_, number)| self.bridge.remove_program(number));
        }
        let number = self.bridge.add_program(function).map_err(|_| NO_MEMORY.to_vec())?;
        compiled.insert(script.sha, number);
        Ok(number)
    }

    /// Runs the text of a library, which must not be loaded yet; answers what functions it has registered.
    ///
    /// # Errors
    /// The complete error text for the client that loads the library.
    pub(super) fn try_library(
        &self,
        library: &Library,
        limits: Limits,
    ) -> std::result::Result<Vec<LibraryFunction>, Vec<u8>> {
        self.begin(limits);
        let registered = self.load(library, false);
        match registered.map_err(|error| error.to_string().into_bytes()).flatten() {
            _ if self.watch.stop.get().is_some() => {
                Err(b"ERR Error registering functions: ERR FUNCTION LOAD timeout".to_vec())
            }
            other => other.map(|registered| registered.functions),
        }
    }

    /// Loads a library; the inner error is the whole one that a client gets.
    fn load(
        &self,
        library: &Library,
        is_quiet: bool,
    ) -> Result<std::result::Result<Registered, Vec<u8>>> {
        let compiled = self.compile(library.code(), "@user_function", &self.library_globals);
        let function = match compiled {
            Ok(function) => function,
            Err(text) => return Ok(Err([b"ERR Error compiling function: ", &*text].concat())),
        };
        *self.register.borrow_mut() = Some(Registered::default());
        self.is_quiet.set(is_quiet);
        let called: Result<(bool, Value)> = self.load_library.call(function);
        let registered = self.register.borrow_mut().take().unwrap_or_default();
        let (is_fine, value) = called?;
        if is_fine {
            return Ok(Ok(registered));
        }
        let text = match &value {
            Value::Table(table) => table.raw_get::<mlua::LuaString>("err")?.as_bytes().to_vec(),
            _ => b"ERR not enough memory".to_vec(),
        };
        Ok(Err([b"ERR Error registering functions: ", &*text].concat()))
    }

    /// Forgets the libraries that are not among these.
    pub fn keep_libraries(&self, libraries: &Libraries) {
        if self.libraries.borrow().is_empty() {
            return;
        }
        let ids: HashSet<u64> = libraries.all().map(|library| library.id).collect();
        self.libraries.borrow_mut().retain(|id, code| {
            let stays = ids.contains(id);
            if !stays {
                code.values().for_each(|&number| self.bridge.remove_program(number));
            }
            stays
        });
    }

    /// A function of a library, which is loaded if it was not yet; the inner error is the whole one that a client gets.
    fn function_of_library(
        &self,
        library: &Library,
        function: &LibraryFunction,
    ) -> Result<std::result::Result<c_int, Vec<u8>>> {
        let name = function.name.to_ascii_lowercase();
        let known = self.libraries.borrow().get(&library.id).map(|code| code.get(&name).copied());
        let code = match known {
            Some(code) => code,
            None => {
                let before = self.lua.used_memory();
                let registered = match self.load(library, true)? {
                    Ok(registered) => registered,
                    Err(text) => return Ok(Err(text)),
                };
                let grown = self.lua.used_memory().saturating_sub(before);
                self.library_bytes.set(self.library_bytes.get() + grown);
                let mut numbers = HashMap::new();
                for (name, function) in registered.code {
                    numbers.insert(name, self.bridge.add_program(function)?);
                }
                let number = numbers.get(&name).copied();
                self.libraries.borrow_mut().insert(library.id, numbers);
                number
            }
        };
        // One that chance decided about when the library came.
        Ok(code.ok_or_else(|| b"ERR Function not found".to_vec()))
    }

    /// Begins to watch what runs.
    fn begin(&self, limits: Limits) {
        if self.is_resting.replace(false) {
            self.lua.gc_restart();
        }
        self.json.reset();
        self.resp3.set(false);
        self.watch.begin(limits.started, limits.slice, limits.kill);
        if self.bridge.set_memory_max(limits.memory_max_bytes) {
            // Only a state without an allocator of its own refuses this.
            let _ = self.lua.set_memory_limit(limits.memory_max_bytes);
        }
    }

    /// Runs a script or a function. The request has `keys` keys from the argument `first` on, followed by the other arguments.
    pub fn run(
        &self,
        program: Program<'_>,
        (args, first, keys): (Args<'_>, usize, usize),
        host: &mut dyn Host,
        limits: Limits,
        out: &mut Reply,
    ) -> Ended {
        self.begin(limits);
        let mark = out.len();
        let ended = self.run_inside(program, (args, first, keys), host, out);
        self.watch.end();
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

    fn run_inside(
        &self,
        program: Program<'_>,
        request: (Args<'_>, usize, usize),
        host: &mut dyn Host,
        out: &mut Reply,
    ) -> Result<Ended> {
        let (number, is_function) = match program {
            Program::Script(script) => (self.function_of(script), false),
            Program::Function(library, function) => {
                (self.function_of_library(library, function)?, true)
            }
        };
        let number = match number {
            Ok(number) => number,
            Err(text) => return Ok(Ended::Failed(text, false)),
        };
        match self.bridge.run((number, is_function), request, host, out)? {
            Finished::Written => return Ok(Ended::Returned),
            Finished::Failed => return self.failure(program, &self.bridge.take_value()?),
            Finished::Returned => {}
        }
        let value = self.bridge.take_value()?;
        convert::write(&value, self.resp3.get(), out)?;
        if let Value::Table(table) = &value
            && let Value::String(text) = table.raw_get("err")?
        {
            // Its reply is an error; the caller is told whether it was counted already.
            let counted =
                table.raw_get::<Value>("ignore_error_stats_update")? == Value::Boolean(true);
            return Ok(Ended::Failed(text.as_bytes().to_vec(), counted));
        }
        Ok(Ended::Returned)
    }

    /// The error that a script has ended with, and where.
    fn failure(&self, program: Program<'_>, value: &Value) -> Result<Ended> {
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
            let place =
                format!(" script: {}, on {}:{line}.", program.name(), source.to_string_lossy());
            text.extend_from_slice(place.as_bytes());
        }
        let counted = table.raw_get::<Value>("ignore_error_stats_update")? == Value::Boolean(true);
        Ok(Ended::Failed(text, counted))
    }
}

/// What the prelude takes from Rust.
fn add_natives(lua: &Lua, native: &Table, is_resting: &Rc<Cell<bool>>) -> Result<()> {
    native.raw_set("program_max", PROGRAM_MAX_BYTES)?;
    let resting = Rc::clone(is_resting);
    let rest = lua.create_function(move |lua, ()| {
        resting.set(true);
        lua.gc_stop();
        Ok(())
    })?;
    native.raw_set("rest_collector", rest)?;
    let resting = Rc::clone(is_resting);
    let wake = lua.create_function(move |lua, ()| {
        resting.set(false);
        lua.gc_restart();
        Ok(())
    })?;
    native.raw_set("wake_collector", wake)?;
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
    native.raw_set("unpack", unpack::open(lua)?)?;
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
