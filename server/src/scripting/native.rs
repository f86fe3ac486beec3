//! The fast path between a script and its host: KEYS and ARGV, `redis.call` and `redis.pcall`, and simple values as replies,
//! through Lua's own C interface. Through Rust values, each of them would cost closures, references and copies.
//!
//! Lua leaves a C function by `longjmp` when it raises an error or runs out of memory. So no frame here that calls functions
//! that may raise owns anything with a destructor: buffers are kept in [`Shared`], frames hold borrowed bytes and numbers.
//! Panics are caught before they reach Lua's frames, and are resumed behind them.

#![allow(unsafe_code)]

use super::convert::error_text;
use super::host::{Answer, Host};
use super::push::{push_error, push_list, push_reply, text_at};
use super::raise::c_cast;
use super::watch::{Stop, Watch};
use crate::interop::c_numbers::general;
use crate::resp::{Args, Reply};
use mlua::ffi::{
    LUA_ERRMEM, LUA_GCCOLLECT, LUA_GCCOUNT, LUA_GLOBALSINDEX, LUA_REGISTRYINDEX, LUA_TBOOLEAN,
    LUA_TNIL, LUA_TNUMBER, LUA_TSTRING, lua_CFunction, lua_State, lua_error, lua_gc, lua_gettop,
    lua_pcall, lua_pushcclosure, lua_pushinteger, lua_pushlightuserdata, lua_pushvalue,
    lua_rawgeti_, lua_rawset, lua_rawseti_, lua_remove, lua_replace, lua_settop, lua_toboolean,
    lua_tonumber, lua_touserdata, lua_type, lua_upvalueindex, luaL_ref,
};
use mlua::{Error, Function, Lua, Result, Table, Value};
use std::any::Any;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::rc::Rc;

/// Buffers that have grown beyond this are given back after a run, in bytes.
const KEPT_BUFFER_BYTES: usize = 64 << 10;

/// Shorter replies are left to the collector's own pace, in bytes.
const LARGE_REPLY_BYTES: usize = 64 << 10;

/// Arguments of one call are at most so long together, in bytes.
const REQUEST_MAX_BYTES: usize = i32::MAX as usize;

/// Whole Lua numbers below this are written as integers; `%.17g` formats them alike.
const WHOLE_MAX: f64 = 1e15;

/// What the functions of C take from the table that they share: the places in it.
#[derive(Clone, Copy)]
enum Thing {
    Handler = 1,
    /// The table behind the globals of scripts.
    Base,
    /// The globals of scripts, and those of functions.
    Globals,
    LibraryGlobals,
    Keys,
    Argv,
}

/// What a program runs with, and what becomes of it.
struct Job {
    program: c_int,
    is_function: bool,
    /// The request, the place of its first key, and how many keys it has.
    args: Args<'static>,
    first: usize,
    keys: usize,
    out: NonNull<Reply>,
    ended: Cell<Finished>,
}

/// How a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finished {
    /// Its value is written.
    Written,
    /// [`Bridge::take_value`] has its value, which is no simple one.
    Returned,
    /// [`Bridge::take_value`] has the error that it ended with.
    Failed,
}

/// A request that a program makes.
#[derive(Default)]
struct Request {
    bytes: Vec<u8>,
    ranges: Vec<(u32, u32)>,
}

/// What has become of it.
#[derive(Clone, Copy)]
enum Step {
    /// The reply is in its buffer.
    Replied,
    /// The error is in its buffer, and has not been counted.
    Refused,
    Stopped(Stop),
}

/// What the functions of C reach.
struct Shared {
    watch: Rc<Watch>,
    resp3: Rc<Cell<bool>>,
    /// That of the program that runs, while it makes no request.
    host: Cell<Option<NonNull<dyn Host>>>,
    job: Cell<Option<NonNull<Job>>>,
    request: UnsafeCell<Request>,
    reply: UnsafeCell<Reply>,
    error: UnsafeCell<Vec<u8>>,
    panic: Cell<Option<Box<dyn Any + Send>>>,
    /// The bound of the state's memory, in bytes; 0 for none.
    memory_max_bytes: Cell<usize>,
}

impl Shared {
    /// Frees what nobody can reach where a value of `bytes` might else be refused: when an allocation fails, this version of Lua
    /// raises an error at once, whatever it could collect.
    ///
    /// # Safety
    /// As [`push_text`](super::push::push_text).
    unsafe fn make_room(&self, state: *mut lua_State, bytes: usize) {
        let max_bytes = self.memory_max_bytes.get();
        if bytes < LARGE_REPLY_BYTES || max_bytes == 0 {
            return;
        }
        // SAFETY: as promised by the caller.
        unsafe {
            let used_bytes = (lua_gc(state, LUA_GCCOUNT, 0) as usize) << 10;
            if used_bytes + 2 * bytes > max_bytes {
                lua_gc(state, LUA_GCCOLLECT, 0);
            }
        }
    }

    fn refuse(&self, text: &[u8]) -> Step {
        // SAFETY: nobody holds a part of the buffer while a request is made.
        let error = unsafe { &mut *self.error.get() };
        error.clear();
        error.extend_from_slice(text);
        Step::Refused
    }

    /// Reads the arguments of the call that runs as a request.
    ///
    /// # Safety
    /// `state` runs a function of C.
    unsafe fn read(&self, state: *mut lua_State) -> std::result::Result<(), &'static [u8]> {
        // SAFETY: nobody holds a part of the buffers while a request is made. The texts are those of Lua's stack, which does
        // not change meanwhile; nothing that is called here raises an error, since numbers are not made texts.
        unsafe {
            let Request { bytes, ranges } = &mut *self.request.get();
            bytes.clear();
            ranges.clear();
            let count = lua_gettop(state);
            if count == 0 {
                return Err(b"ERR Please specify at least one argument for this redis lib call");
            }
            let mut digits = itoa::Buffer::new();
            bytes.push(b'*');
            bytes.extend_from_slice(digits.format(count).as_bytes());
            bytes.extend_from_slice(b"\r\n");
            let (mut sum, mut is_too_long) = (0, false);
            for at in 1..=count {
                let mut add = |text: &[u8]| {
                    sum += text.len();
                    if sum > REQUEST_MAX_BYTES || bytes.len() + text.len() > u32::MAX as usize {
                        is_too_long = true;
                        return;
                    }
                    let mut digits = itoa::Buffer::new();
                    bytes.push(b'$');
                    bytes.extend_from_slice(digits.format(text.len()).as_bytes());
                    bytes.extend_from_slice(b"\r\n");
                    let start = bytes.len() as u32;
                    bytes.extend_from_slice(text);
                    ranges.push((start, bytes.len() as u32));
                    bytes.extend_from_slice(b"\r\n");
                };
                match lua_type(state, at) {
                    LUA_TSTRING => add(text_at(state, at)),
                    LUA_TNUMBER => {
                        let number = lua_tonumber(state, at);
                        if number.abs() < WHOLE_MAX
                            && number == number.trunc()
                            && !(number == 0.0 && number.is_sign_negative())
                        {
                            add(digits.format(number as i64).as_bytes());
                        } else {
                            // Not as Lua writes numbers: that loses digits.
                            add(general(number, 17).as_bytes());
                        }
                    }
                    _ => {
                        return Err(
                            b"ERR Lua redis lib command arguments must be strings or integers",
                        );
                    }
                }
            }
            if is_too_long {
                return Err(b"ERR Lua redis lib command arguments are too long");
            }
            Ok(())
        }
    }

    /// Makes the request that the arguments of the call are.
    ///
    /// # Safety
    /// `state` runs a function of C.
    unsafe fn call(&self, state: *mut lua_State) -> Step {
        if let Some(stop) = self.watch.look_without_clock() {
            return Step::Stopped(stop);
        }
        // SAFETY: as promised by the caller.
        if let Err(text) = unsafe { self.read(state) } {
            return self.refuse(text);
        }
        // A command that calls a script again is refused before it gets here.
        let Some(mut host) = self.host.take() else {
            return self.refuse(b"ERR redis.call and redis.pcall belong to a script that runs");
        };
        // SAFETY: the host lives while its program runs, and nobody else has it: it was taken. Nobody holds a part of the
        // buffers while a request is made.
        let answer = unsafe {
            let (request, reply) = (&*self.request.get(), &mut *self.reply.get());
            reply.truncate(0);
            reply.limit(u64::MAX);
            reply.set_resp3(self.resp3.get());
            let whole = Some((0, request.bytes.len() as u32));
            let args = Args::new(&request.bytes, &request.ranges).logged_as(whole);
            let host = host.as_mut();
            catch_unwind(AssertUnwindSafe(|| host.call(args, reply)))
        };
        self.host.set(Some(host));
        match answer {
            Ok(Answer::Replied(until)) => {
                self.watch.note(until);
                Step::Replied
            }
            Ok(Answer::Refused(text)) => self.refuse(&text),
            Ok(Answer::Stopped) => {
                self.watch.stop.set(Some(Stop::Host));
                Step::Stopped(Stop::Host)
            }
            Err(panic) => {
                self.panic.set(Some(panic));
                self.watch.stop.set(Some(Stop::Host));
                Step::Stopped(Stop::Host)
            }
        }
    }

    /// The error that the reply is becomes the one to be raised. True where it is one.
    fn is_error(&self) -> bool {
        // SAFETY: no request is being made, so nobody else has the buffers.
        unsafe {
            let reply = (*self.reply.get()).bytes();
            let is_error = reply.first() == Some(&b'-');
            if is_error {
                *self.error.get() = error_text(reply);
            }
            is_error
        }
    }

    fn give_back_buffers(&self) {
        // SAFETY: no program runs, so nobody has a part of them.
        unsafe {
            let (request, reply) = (&mut *self.request.get(), &mut *self.reply.get());
            if request.bytes.capacity() > KEPT_BUFFER_BYTES
                || request.ranges.capacity() > KEPT_BUFFER_BYTES / size_of::<(u32, u32)>()
            {
                *request = Request::default();
            }
            if reply.buf_mut().capacity() > KEPT_BUFFER_BYTES {
                *reply = Reply::new();
            }
            if (*self.error.get()).capacity() > KEPT_BUFFER_BYTES {
                *self.error.get() = Vec::new();
            }
        }
    }
}

/// # Safety
/// `state` runs a function of C that was made in [`Bridge::new`].
unsafe fn shared<'s>(state: *mut lua_State) -> &'s Shared {
    // SAFETY: its first value is that pointer; the bridge keeps it while the state lives.
    unsafe { &*lua_touserdata(state, lua_upvalueindex(1)).cast::<Shared>() }
}

/// `redis.call` and `redis.pcall`.
///
/// # Safety
/// As [`shared`].
unsafe fn answer(state: *mut lua_State, raises: bool) -> c_int {
    // SAFETY: Lua leaves each function of C twenty places. What is borrowed lies in the buffers, which do not change until the
    // next request is made.
    unsafe {
        let shared = shared(state);
        let step = shared.call(state);
        // The arguments lie in a buffer: their places are free for the reply.
        lua_settop(state, 0);
        let is_counted = match step {
            Step::Stopped(stop) => {
                push_error(state, stop.text(), false);
                lua_error(state);
            }
            Step::Refused => false,
            Step::Replied if shared.is_error() => true,
            Step::Replied => {
                let reply = (*shared.reply.get()).bytes();
                shared.make_room(state, reply.len());
                push_reply(state, reply, shared.error.get());
                return 1;
            }
        };
        push_error(state, &*shared.error.get(), is_counted);
        if raises {
            lua_error(state);
        }
        1
    }
}

/// # Safety
/// Lua calls it, as it was made in [`Bridge::new`].
unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { answer(state, true) }
}

/// # Safety
/// As [`call`].
unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { answer(state, false) }
}

/// Runs the program of the job.
///
/// # Safety
/// Lua calls it, as it was made in [`Bridge::new`], while there is a job.
unsafe extern "C-unwind" fn enter(state: *mut lua_State) -> c_int {
    // SAFETY: the job lives until this function has ended. Lua leaves each function of C twenty places, of which no more than eight
    // are taken.
    unsafe {
        let shared = shared(state);
        let Some(job) = shared.job.get() else { return 0 };
        let job = job.as_ref();
        let thing = |thing: Thing| lua_rawgeti_(state, lua_upvalueindex(2), thing as c_int);
        let (keys, argv) =
            (job.args.from(job.first).take(job.keys), job.args.from(job.first + job.keys));
        thing(Thing::Handler);
        let arguments = if job.is_function {
            thing(Thing::LibraryGlobals);
            lua_replace(state, LUA_GLOBALSINDEX);
            lua_rawgeti_(state, lua_upvalueindex(3), job.program);
            push_list(state, keys);
            push_list(state, argv);
            2
        } else {
            thing(Thing::Globals);
            lua_replace(state, LUA_GLOBALSINDEX);
            thing(Thing::Base);
            thing(Thing::Keys);
            push_list(state, keys);
            lua_rawset(state, 2);
            thing(Thing::Argv);
            push_list(state, argv);
            lua_rawset(state, 2);
            lua_rawgeti_(state, lua_upvalueindex(3), job.program);
            0
        };
        let is_fine = lua_pcall(state, arguments, 1, 1) == 0;
        let resp3 = shared.resp3.get();
        // SAFETY: the buffer lives as long as the job, and nobody else has it.
        let out = &mut *job.out.as_ptr();
        let ended = match lua_type(state, -1) {
            _ if !is_fine => Finished::Failed,
            LUA_TSTRING => {
                out.bulk(text_at(state, -1));
                Finished::Written
            }
            LUA_TNUMBER => {
                out.int(c_cast(lua_tonumber(state, -1)));
                Finished::Written
            }
            LUA_TNIL => {
                out.null();
                Finished::Written
            }
            LUA_TBOOLEAN => {
                match lua_toboolean(state, -1) != 0 {
                    value if resp3 => out.boolean(value),
                    true => out.int(1),
                    false => out.null(),
                }
                Finished::Written
            }
            _ => Finished::Returned,
        };
        if ended != Finished::Written {
            lua_rawseti_(state, lua_upvalueindex(4), 1);
        }
        job.ended.set(ended);
        0
    }
}

/// The functions of C of one Lua state.
pub(super) struct Bridge {
    shared: Rc<Shared>,
    /// The state itself, and the number of [`enter`] in its registry.
    state: *mut lua_State,
    entry: c_int,
    programs: Table,
    free: RefCell<Vec<c_int>>,
    count: Cell<c_int>,
    value: Table,
    /// `redis.call` and `redis.pcall`.
    pub(super) call: Function,
    pub(super) pcall: Function,
}

/// What a program can reach, as the sandbox has made it.
pub(super) struct Sandbox<'s> {
    /// What handles its errors.
    pub(super) handler: &'s Function,
    /// The table behind the globals of scripts.
    pub(super) base: &'s Table,
    /// The globals of scripts.
    pub(super) globals: &'s Table,
    /// The globals of functions.
    pub(super) library_globals: &'s Table,
}

impl Bridge {
    /// Makes the functions. It must live as long as the state.
    pub(super) fn new(
        lua: &Lua,
        sandbox: &Sandbox<'_>,
        watch: Rc<Watch>,
        resp3: Rc<Cell<bool>>,
    ) -> Result<Self> {
        let (things, programs, value) =
            (lua.create_table()?, lua.create_table()?, lua.create_table()?);
        things.raw_set(Thing::Handler as c_int, sandbox.handler)?;
        things.raw_set(Thing::Base as c_int, sandbox.base)?;
        things.raw_set(Thing::Globals as c_int, sandbox.globals)?;
        things.raw_set(Thing::LibraryGlobals as c_int, sandbox.library_globals)?;
        things.raw_set(Thing::Keys as c_int, "KEYS")?;
        things.raw_set(Thing::Argv as c_int, "ARGV")?;
        let shared = Rc::new(Shared {
            watch,
            resp3,
            host: Cell::new(None),
            job: Cell::new(None),
            request: UnsafeCell::default(),
            reply: UnsafeCell::default(),
            error: UnsafeCell::default(),
            panic: Cell::new(None),
            memory_max_bytes: Cell::new(0),
        });
        let pointer = Rc::as_ptr(&shared).cast_mut().cast();
        let mut main = std::ptr::null_mut();
        let values = (things, &programs, &value);
        // SAFETY: it runs protected, in a function of C with these three values, and answers three others. Nothing in it wants to be
        // dropped.
        let (call, pcall, entry) = unsafe {
            lua.exec_raw::<(Function, Function, c_int)>(values, |state| {
                main = state;
                for function in [call as lua_CFunction, pcall] {
                    lua_pushlightuserdata(state, pointer);
                    lua_pushcclosure(state, function, 1);
                }
                lua_pushlightuserdata(state, pointer);
                for at in 1..=3 {
                    lua_pushvalue(state, at);
                }
                lua_pushcclosure(state, enter, 4);
                let entry = luaL_ref(state, LUA_REGISTRYINDEX);
                lua_pushinteger(state, entry as _);
                for _ in 0..3 {
                    lua_remove(state, 1);
                }
            })
        }?;
        Ok(Self {
            shared,
            state: main,
            entry,
            programs,
            free: RefCell::default(),
            count: Cell::new(0),
            value,
            call,
            pcall,
        })
    }

    /// Notes the bound of the state's memory, in bytes; false if it is that already.
    pub(super) fn set_memory_max(&self, bytes: usize) -> bool {
        self.shared.memory_max_bytes.replace(bytes) != bytes
    }

    /// Keeps a program; answers its number.
    pub(super) fn add_program(&self, function: Function) -> Result<c_int> {
        let free = self.free.borrow_mut().pop();
        let number = free.unwrap_or_else(|| self.count.get() + 1);
        self.count.set(self.count.get().max(number));
        self.programs.raw_set(number, function)?;
        Ok(number)
    }

    /// Forgets it.
    pub(super) fn remove_program(&self, number: c_int) {
        // A field that is there takes no memory to be emptied.
        if self.programs.raw_set(number, Value::Nil).is_ok() {
            self.free.borrow_mut().push(number);
        }
    }

    /// What asks the host of the program that runs whether its user may do something.
    pub(super) fn rights(&self) -> impl Fn(Args<'_>) -> Option<bool> + use<> {
        let shared = Rc::clone(&self.shared);
        move |args| {
            let host = shared.host.get()?;
            // SAFETY: the host lives while its program runs. Nobody changes it meanwhile: it makes no request.
            unsafe { host.as_ref() }.may(args)
        }
    }

    /// Runs a program with the keys of the request from `first` on, and the arguments after them.
    ///
    /// # Errors
    /// Out of memory for the keys and arguments.
    pub(super) fn run(
        &self,
        (program, is_function): (c_int, bool),
        (args, first, keys): (Args<'_>, usize, usize),
        host: &mut dyn Host,
        out: &mut Reply,
    ) -> Result<Finished> {
        // SAFETY: the lifetimes are those of this call, at whose end nobody has the pointers any more.
        let (host, args) = unsafe {
            let host: NonNull<dyn Host + '_> = NonNull::from(host);
            let host = std::mem::transmute::<NonNull<dyn Host + '_>, NonNull<dyn Host>>(host);
            (host, std::mem::transmute::<Args<'_>, Args<'static>>(args))
        };
        let ended = Cell::new(Finished::Failed);
        let job = Job { program, is_function, args, first, keys, out: NonNull::from(out), ended };
        let shared = &*self.shared;
        shared.host.set(Some(host));
        shared.job.set(Some(NonNull::from(&job)));
        // SAFETY: the state is that of this bridge, and nobody else uses it: a program that runs runs no other. What may raise an error
        // runs within the protected call, and the stack is as before behind it.
        let (status, text) = unsafe {
            lua_rawgeti_(self.state, LUA_REGISTRYINDEX, self.entry);
            let status = lua_pcall(self.state, 0, 0, 0);
            let mut text = String::new();
            if status != 0 {
                if lua_type(self.state, -1) == LUA_TSTRING {
                    text = String::from_utf8_lossy(text_at(self.state, -1)).into_owned();
                }
                lua_settop(self.state, -2);
            }
            (status, text)
        };
        shared.host.set(None);
        shared.job.set(None);
        shared.give_back_buffers();
        if let Some(panic) = shared.panic.take() {
            resume_unwind(panic);
        }
        match status {
            0 => Ok(job.ended.get()),
            LUA_ERRMEM => Err(Error::MemoryError(text)),
            _ => Err(Error::RuntimeError(text)),
        }
    }

    /// The value, or the error, that the last program has ended with.
    pub(super) fn take_value(&self) -> Result<Value> {
        let value = self.value.raw_get(1)?;
        self.value.raw_set(1, Value::Nil)?;
        Ok(value)
    }
}
