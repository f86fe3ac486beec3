//! Runs scripts and functions: the threads' interpreters, the limits of a script, and its access to commands.

use crate::auth::Context;
use crate::client_memory::request_max_bytes;
use crate::disk_bound::DISK_FULL;
use crate::dispatch::after::note_slow;
use crate::dispatch::call::{call_in_script, remember_keys};
use crate::dispatch::client::ScriptWants;
use crate::dispatch::load::cold_keys_now;
use crate::dispatch::{
    Args, Class, CommandError, CommandResult, CommandSpec, Ctx, Flags, OUT_OF_MEMORY, SAVE_FAILED,
    busy, each_key,
};
use crate::events::pubsub::Kind;
use crate::resp::{Reply, pack};
use crate::scripting::{
    Answer, Call, Ended, Host, Interpreter, Libraries, Limits, NotKilled, Pace, Program, Running,
    ScriptFlags, Work,
};
use crate::server::Server;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Time limit of a script on a thread that serves other clients.
const SLICE: Duration = Duration::from_millis(2);

/// Most memory of one interpreter, in bytes, where no bound asks for less.
const MEMORY_MAX_BYTES: u64 = 1 << 30;

/// Minimum memory of a script regardless of the bounds, in bytes, without its libraries: part of it is used before anything runs.
const MEMORY_MIN_BYTES: usize = 16 << 20;

/// What cannot be reached any more is freed after a script where an interpreter is larger than this: the next one has at least
/// as much for itself.
const COLLECTED_BYTES: usize = MEMORY_MIN_BYTES / 2;

/// Interpreters that are still larger than this are recreated.
const KEPT_BYTES: usize = 16 << 20;

/// Bytes beyond that which the code of function libraries may take.
const LIBRARIES_KEPT_BYTES: usize = 256 << 20;

/// The interpreter of a thread.
struct Kept {
    interpreter: Interpreter,
    /// The scripts' generation that it has compiled.
    generation: u64,
    /// The libraries of which it may have loaded some.
    libraries: Arc<Libraries>,
    /// Its memory, as it is counted.
    counted: i64,
}

thread_local! {
    static KEPT: RefCell<Option<Box<Kept>>> = const { RefCell::new(None) };
}

fn make_interpreter() -> Result<Interpreter, CommandError> {
    Interpreter::new()
        .map_err(|error| format!("ERR no interpreter for scripts could be made: {error}").into())
}

/// Runs with this thread's interpreter, which is made where there is none.
pub(super) fn with_interpreter<R>(
    ctx: &mut Ctx<'_, '_>,
    run: impl FnOnce(&Interpreter, &mut Ctx<'_, '_>) -> R,
) -> Result<R, CommandError> {
    let scripts = &ctx.server.scripts;
    let generation = scripts.generation();
    let kept = KEPT.with_borrow_mut(Option::take).filter(|kept| {
        let is_new = kept.generation == generation;
        if !is_new {
            scripts.count_interpreter(-kept.counted);
        }
        is_new
    });
    let mut kept = match kept {
        Some(kept) => kept,
        None => {
            let libraries = Arc::default();
            let interpreter = make_interpreter()?;
            Box::new(Kept { interpreter, generation, libraries, counted: 0 })
        }
    };
    let libraries = ctx.server.functions.current();
    if !Arc::ptr_eq(&libraries, &kept.libraries) {
        kept.interpreter.keep_libraries(&libraries);
        kept.libraries = libraries;
    }
    let result = run(&kept.interpreter, ctx);
    let scripts = &ctx.server.scripts;
    let libraries = kept.interpreter.library_bytes().min(LIBRARIES_KEPT_BYTES);
    if kept.interpreter.is_sound() && kept.interpreter.memory_bytes() > COLLECTED_BYTES + libraries
    {
        kept.interpreter.collect();
    }
    if kept.interpreter.memory_bytes() > KEPT_BYTES + libraries || !kept.interpreter.is_sound() {
        scripts.count_interpreter(-kept.counted);
        return Ok(result);
    }
    let bytes = kept.interpreter.memory_bytes() as i64;
    scripts.count_interpreter(bytes - kept.counted);
    kept.counted = bytes;
    KEPT.set(Some(kept));
    Ok(result)
}

pub(super) fn failed(text: Vec<u8>) -> CommandError {
    CommandError::Quoting("", text.into(), "")
}

/// Why a script may not begin.
fn refusal(server: &Server, flags: ScriptFlags, read_only: bool) -> Option<CommandError> {
    if flags.is_old {
        return None;
    }
    if read_only && !flags.no_writes {
        return Some(CommandError::text(
            "ERR Can not execute a script with write flag using *_ro command.",
        ));
    }
    if !flags.no_writes && server.saving.refuses_writes() {
        return Some(CommandError::text(SAVE_FAILED));
    }
    if !flags.no_writes
        && let Some(reason) = server.engine.write_refusal()
    {
        return Some(format!("MISCONF Errors writing to the AOF file: {reason}").into());
    }
    if !flags.allow_oom && !flags.no_writes && server.settings.out_of_memory.load(Ordering::Relaxed)
    {
        return Some(CommandError::text(
            "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
        ));
    }
    if !flags.allow_oom && !flags.no_writes && server.disk_bound.is_reached() {
        return Some(CommandError::text(DISK_FULL));
    }
    None
}

/// What runs, and what is known of it.
#[derive(Clone, Copy)]
pub(super) struct Runnable<'r> {
    pub(super) program: Program<'r>,
    pub(super) pace: &'r Pace,
    pub(super) flags: ScriptFlags,
}

/// Runs a program with the `keys` keys and the further arguments of the request.
pub(super) fn run(
    ctx: &mut Ctx<'_, '_>,
    runnable: Runnable<'_>,
    keys: usize,
    read_only: bool,
) -> CommandResult {
    if let Some(error) = refusal(ctx.server, runnable.flags, read_only) {
        return Err(error);
    }
    if runnable.pace.is_long() && !ctx.client.script.is_alone {
        ctx.client.script.wants = Some(ScriptWants::Alone);
        return Ok(());
    }
    let running = ctx.client.script.running.clone();
    if let Some(running) = &running {
        running.works_on(Some(match runnable.program {
            Program::Script(_) => Work::Script,
            Program::Function(_, function) => {
                let request = ctx.args.from(0).map(<[u8]>::to_vec).collect();
                let name = function.name.clone();
                Work::Function(Call { name, request, since: Instant::now() })
            }
        }));
    }
    let ended = with_interpreter(ctx, |interpreter, ctx| {
        run_in(interpreter, ctx, runnable, keys, read_only)
    });
    running.inspect(|running| running.works_on(None));
    let ended = ended?;
    let is_given_up = |running: &Arc<Running>| running.is_given_up.load(Ordering::Acquire);
    if ctx.client.script.running.as_ref().is_some_and(is_given_up) {
        let error = CommandError::text("ERR the server ends, nothing was changed");
        ctx.client.script.wants = Some(ScriptWants::End(error));
        return Ok(());
    }
    match ended {
        Ended::Returned => Ok(()),
        Ended::Failed(text, is_counted) => {
            if is_counted {
                ctx.out.error(&text);
                return Ok(());
            }
            Err(failed(text))
        }
        Ended::Stopped => Ok(()),
        Ended::OutOfTime => {
            runnable.pace.note_long(true);
            ctx.client.script.wants = Some(ScriptWants::Alone);
            Ok(())
        }
    }
}

fn run_in(
    interpreter: &Interpreter,
    ctx: &mut Ctx<'_, '_>,
    runnable: Runnable<'_>,
    keys: usize,
    read_only: bool,
) -> Ended {
    let Runnable { program, pace, flags } = runnable;
    let args = ctx.args;
    let mark = ctx.out.len();
    let is_alone = ctx.client.script.is_alone;
    let started = is_alone.then(Instant::now);
    let limits = Limits {
        started: ctx.client.script.started,
        slice: (!is_alone).then_some(SLICE),
        kill: ctx.client.script.running.as_ref().map(|running| Arc::clone(&running.kill)),
        memory_max_bytes: (request_max_bytes(ctx.server).min(MEMORY_MAX_BYTES) as usize)
            .max(MEMORY_MIN_BYTES + interpreter.library_bytes()),
    };
    // Its commands answer the script, regardless of the client's reply mode.
    let reply_mode = std::mem::take(&mut ctx.client.reply_mode);
    let db = ctx.client.db;
    let logged = ctx.tx().log_bytes();
    let mut out = std::mem::take(ctx.out);
    let is_full = ctx.server.settings.out_of_memory.load(Ordering::Relaxed);
    let refusal = match (is_full, ctx.server.disk_bound.is_reached()) {
        (true, _) => Some(OUT_OF_MEMORY),
        (_, true) => Some(DISK_FULL),
        _ => None,
    };
    ctx.client.script.is_inside = true;
    let mut host = ScriptHost {
        ctx,
        read_only: read_only || flags.no_writes,
        no_room: refusal.filter(|_| !flags.allow_oom),
        writes_logged: 0,
    };
    let ended = interpreter.run(program, (args, 3, keys), &mut host, limits, &mut out);
    let several = host.writes_logged > 1;
    ctx.client.script.is_inside = false;
    *ctx.out = out;
    ctx.client.reply_mode = reply_mode;
    ctx.client.select(db);
    if !matches!(ended, Ended::Returned) {
        ctx.out.truncate(mark);
    }
    if several && logged == 0 && !ctx.client.script.in_transaction {
        ctx.tx().enclose_log(b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n");
    }
    if started.is_some_and(|started| started.elapsed() < SLICE / 2) {
        pace.note_long(false);
    }
    ended
}

/// What a script reaches of the server.
struct ScriptHost<'h, 'a, 'e> {
    ctx: &'h mut Ctx<'a, 'e>,
    read_only: bool,
    /// The error for commands that need room, until the first command that writes.
    no_room: Option<&'static str>,
    /// Commands that have logged something.
    writes_logged: u32,
}

impl ScriptHost<'_, '_, '_> {
    fn stop(&mut self, wants: ScriptWants) -> Answer {
        self.ctx.client.script.wants = Some(wants);
        Answer::Stopped
    }

    /// Why a script may not call the command, in Redis' order.
    fn refusal(&mut self, spec: &'static CommandSpec, args: Args<'_>) -> Option<Vec<u8>> {
        let (flags, class, name) = (spec.flags, spec.class, spec.name);
        let server = self.ctx.server;
        // Those of this server are for operators; figures come from all shards, whose latches a script may hold.
        let is_apart =
            matches!(class, Class::Survey | Class::Script) || name.starts_with("sexton.");
        let is_denied = flags.contains(Flags::NOSCRIPT)
            && !server.running_scripts.allows_all.load(Ordering::Relaxed);
        if is_denied || is_apart {
            return Some(b"ERR This Redis command is not allowed from script".to_vec());
        }
        if let Err(denied) = self.ctx.client.check_rights(spec, args) {
            // Of a run that counts: it may begin again.
            let in_transaction = self.ctx.client.script.in_transaction;
            let command = if in_transaction { "exec" } else { self.ctx.spec.name };
            self.ctx.client.session.note_command(command);
            let denial = self.ctx.client.denial((spec, args), denied, Context::Lua);
            self.ctx.client.script.denials.push(denial);
            return Some(denied.script_text().as_bytes().to_vec());
        }
        let writes = flags.contains(Flags::WRITE) || (spec.may_replicate)(server, args);
        if self.read_only && writes {
            return Some(b"ERR Write commands are not allowed from read-only scripts.".to_vec());
        }
        if flags.contains(Flags::WRITE) {
            if server.saving.refuses_writes() {
                return Some(SAVE_FAILED.as_bytes().to_vec());
            }
            if let Some(reason) = server.engine.write_refusal() {
                return Some(
                    format!("MISCONF Errors writing to the AOF file: {reason}").into_bytes(),
                );
            }
        }
        if flags.contains(Flags::DENYOOM)
            && let Some(no_room) = self.no_room
        {
            return Some(no_room.as_bytes().to_vec());
        }
        if flags.contains(Flags::WRITE) {
            // As in Redis a script that may have written is not stopped in the middle.
            self.no_room = None;
        }
        None
    }

    /// PUBLISH: the receivers are determined now; the message is sent once the script's writes have their sequence.
    fn publish(&mut self, kind: Kind, args: Args<'_>, reply: &mut Reply) {
        let receivers = self.ctx.server.events.pubsub.receivers(kind, args.get(1));
        reply.int(receivers as i64);
        let message = (kind, args.get(1).to_vec(), args.get(2).to_vec());
        self.ctx.client.script.messages.push(message);
    }
}

impl Host for ScriptHost<'_, '_, '_> {
    fn may(&self, args: Args<'_>) -> Option<bool> {
        let spec = self.ctx.table.lookup(args).ok()?;
        Some(self.ctx.client.check_rights(spec, args).is_ok())
    }

    fn call(&mut self, args: Args<'_>, reply: &mut Reply) -> Answer {
        let (server, table) = (self.ctx.server, self.ctx.table);
        let refuse = |text: &[u8]| Answer::Refused(text.to_vec());
        let Ok(spec) = table.lookup(args) else {
            return refuse(b"ERR Unknown Redis command called from script");
        };
        if !spec.accepts(args.len()) {
            self.ctx.client.script.tally(spec).reject();
            return refuse(b"ERR Wrong number of args calling Redis command from script");
        }
        if let Some(text) = self.refusal(spec, args) {
            self.ctx.client.script.tally(spec).reject();
            return Answer::Refused(text);
        }
        if let Some(error) = crate::dispatch::too_long_key(spec, args) {
            self.ctx.client.script.tally(spec).reject();
            return Answer::Refused(error.bytes());
        }
        let Some(tx) = self.ctx.tx.as_deref_mut() else {
            return refuse(b"ERR This Redis command is not allowed from script");
        };
        let mut args = args;
        match spec.class {
            Class::Keyed => {
                let mut first = None;
                let mut missing = Vec::new();
                each_key(spec, args, |key| {
                    let hash = server.engine.hash(key);
                    first.get_or_insert((key, hash));
                    if !tx.holds(hash) {
                        missing.push(hash);
                    }
                });
                if !missing.is_empty() {
                    return self.stop(ScriptWants::Latches(missing));
                }
                if let Some((key, hash)) = first
                    && std::ptr::eq(key, args.get(1))
                {
                    args = args.hashed(hash);
                }
                let turn = &self.ctx.client.script;
                if !turn.reads_cold && !tx.is_part_committed() {
                    let cold = cold_keys_now(server, self.ctx.client.db, spec, args, tx);
                    if !cold.is_empty() {
                        return self.stop(ScriptWants::Cold(cold));
                    }
                }
            }
            // They walk over everything, and may wait.
            Class::Exclusive | Class::Offload => {
                if !(tx.holds_all() && self.ctx.client.script.is_alone) {
                    return self.stop(ScriptWants::AllLatches);
                }
            }
            Class::Local | Class::Survey | Class::Script => {}
        }
        let begun = Instant::now();
        let (logged, db) = (tx.log_bytes(), self.ctx.client.db);
        let now_ms = self.ctx.now_ms;
        let called = match spec.name {
            "publish" | "spublish" => {
                let kind = if spec.name == "publish" { Kind::Channel } else { Kind::Shard };
                self.publish(kind, args, reply);
                Ok(crate::dispatch::call::Called { failed: false })
            }
            _ => {
                let tx = (spec.class != Class::Local).then_some(tx);
                let client = &mut *self.ctx.client;
                let changes = &mut *self.ctx.changes;
                let mut ctx =
                    Ctx { server, client, table, args, spec, out: reply, tx, changes, now_ms };
                // Alone it keeps nobody waiting.
                ctx.client.may_hand_over = !ctx.client.script.is_alone;
                let called = call_in_script(&mut ctx);
                ctx.client.may_hand_over = false;
                called
            }
        };
        if std::mem::take(&mut self.ctx.client.is_heavy) && called.is_err() {
            return self.stop(ScriptWants::Alone);
        }
        // As in Redis the keys that the script declares, whichever it reads.
        if spec.flags.contains(Flags::READONLY) {
            remember_keys(self.ctx);
        }
        let called = match called {
            Ok(called) => called,
            Err(error) => return self.stop(ScriptWants::End(error)),
        };
        let ended = Instant::now();
        let time_us = ended.saturating_duration_since(begun).as_micros() as u64;
        self.ctx.client.script.tally(spec).record(time_us, called.failed);
        note_slow(server, self.ctx.client, spec, args, 0, time_us);
        let tx = self.ctx.tx();
        let (wrote, operations) = (tx.log_bytes() > logged, tx.operations());
        self.writes_logged += u32::from(wrote);
        let turn = &mut self.ctx.client.script;
        if operations > 0 && !turn.has_written {
            turn.has_written = true;
            if let Some(running) = &turn.running {
                running.has_written.store(true, Ordering::Release);
            }
        }
        if server.observe.monitors.is_active()
            && !spec.flags.intersects(Flags::SKIP_MONITOR.union(Flags::ADMIN))
        {
            turn.shown.push((db, pack(args.from(0))));
        }
        Answer::Replied(ended)
    }
}

/// SCRIPT KILL and FUNCTION KILL: each answers for the other kind as Redis does.
pub(super) fn kill(ctx: &mut Ctx<'_, '_>, functions: bool) -> CommandResult {
    let text = match ctx.server.running_scripts.kill(functions) {
        Ok(()) => {
            ctx.out.ok();
            return Ok(());
        }
        Err(NotKilled::NothingRuns) => "NOTBUSY No scripts in execution right now.",
        Err(NotKilled::HasWritten) => {
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the \
             script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
        }
        Err(NotKilled::OtherKind) => return Err(busy(!functions)),
    };
    Err(CommandError::text(text))
}
