//! FUNCTION, FCALL and FCALL_RO. Libraries are data: each is an engine record under its name, outside all databases.

use super::introspect::help;
use super::run_script::{Runnable, failed, kill, run, with_interpreter};
use crate::dispatch::client::ScriptWants;
use crate::dispatch::{Args, Binding, CommandError, CommandResult, Ctx, REPLAY_MS, busy, is_busy};
use crate::interop::glob;
use crate::number::parse_i64;
use crate::scripting::{Libraries, Library, Program};
use sexton_engine::{Meta, OWN_RECORDS};
use sexton_persistence::rdb::{self, RdbError};
use std::sync::Arc;
use std::time::Duration;

/// Time limit for a library to register its functions.
const LOAD_MAX: Duration = Duration::from_millis(500);

pub(super) const COMMANDS: &[Binding] = &[
    Binding::script("fcall", |ctx| fcall(ctx, false)).replicates_when(|server, args| {
        let libraries = server.functions.current();
        let found = libraries.function(args.get(1));
        !found.is_some_and(|(_, function)| function.script_flags().no_writes)
    }),
    Binding::script("fcall_ro", |ctx| fcall(ctx, true)),
    Binding::container("function"),
    Binding::script("function|delete", delete),
    Binding::local("function|dump", dump),
    Binding::script("function|flush", flush),
    Binding::local("function|help", help),
    Binding::local("function|kill", |ctx| kill(ctx, true)),
    Binding::local("function|list", list),
    Binding::script("function|load", load),
    Binding::script("function|restore", restore),
    Binding::local("function|stats", stats),
];

/// True for no argument, or one of SYNC and ASYNC.
pub(super) fn is_flush_mode(ctx: &Ctx<'_, '_>) -> bool {
    match ctx.args.len() {
        2 => true,
        3 => [&b"sync"[..], b"async"].iter().any(|mode| mode.eq_ignore_ascii_case(ctx.args.get(2))),
        _ => false,
    }
}

fn key_count(args: Args<'_>) -> Result<usize, CommandError> {
    let count = parse_i64(args.get(2));
    let count = count.ok_or(CommandError::text("ERR Bad number of keys provided"))?;
    if count > args.len() as i64 - 3 {
        return Err(CommandError::text("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| CommandError::text("ERR Number of keys can't be negative"))
}

fn fcall(ctx: &mut Ctx<'_, '_>, read_only: bool) -> CommandResult {
    let libraries = ctx.server.functions.current();
    let Some((library, function)) = libraries.function(ctx.args.get(1)) else {
        return Err(CommandError::text("ERR Function not found"));
    };
    let keys = key_count(ctx.args)?;
    let program = Program::Function(library, function);
    let runnable = Runnable { program, pace: &function.pace, flags: function.script_flags() };
    run(ctx, runnable, keys, read_only)
}

/// True if the request may change libraries now: under all latches, on a thread that may wait for a device and for a
/// slow library. Otherwise it requests such a run.
fn may_change(ctx: &mut Ctx<'_, '_>) -> bool {
    let may = ctx.client.script.is_alone && ctx.tx().holds_all();
    if !may {
        ctx.client.script.wants = Some(ScriptWants::AllLatches);
    }
    may
}

/// Stores the request's changes: one operation for each library that was added, replaced or deleted. Then the request is
/// logged verbatim.
fn store(ctx: &mut Ctx<'_, '_>, before: &Libraries, after: Libraries) -> CommandResult {
    let gone: Vec<_> = before.all().filter(|old| after.get(&old.name).is_none()).collect();
    let key = |name: &'_ str| name.as_bytes().to_vec();
    for old in &gone {
        let name = key(&old.name);
        let record = ctx.key_in(OWN_RECORDS, &name);
        // Before the first change.
        ctx.tx().bring_in(record).map_err(|error| CommandError::from(format!("ERR {error}")))?;
    }
    for old in gone {
        let name = key(&old.name);
        let record = ctx.key_in(OWN_RECORDS, &name);
        ctx.tx().delete(record);
    }
    for new in after.all() {
        if before.get(&new.name).is_some_and(|old| Arc::ptr_eq(old, new)) {
            continue;
        }
        let name = key(&new.name);
        let record = ctx.key_in(OWN_RECORDS, &name);
        ctx.tx().put(record, Meta::default(), new.text());
    }
    ctx.log_request();
    ctx.server.functions.change(after);
    Ok(())
}

/// Parses a library of a request. During replay there is no time limit: the limit applied when the request was logged.
fn read_library(ctx: &mut Ctx<'_, '_>, code: &[u8]) -> Result<Arc<Library>, CommandError> {
    let library = if ctx.now_ms == REPLAY_MS {
        // On a thread with a stack of its own size.
        Library::new(code, None)
    } else {
        with_interpreter(ctx, |interpreter, _| Library::tried_in(interpreter, code, LOAD_MAX))?
    };
    library.map(Arc::new).map_err(failed)
}

fn load(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let last = ctx.args.len() - 1;
    let options = ctx.args.from(2).take(last - 2);
    let mut replaces = false;
    for option in options {
        if !option.eq_ignore_ascii_case(b"replace") {
            return Err(CommandError::quoting("ERR Unknown option given: ", option, ""));
        }
        replaces = true;
    }
    let code = ctx.args.get(last);
    let name = Library::name_of(code).map_err(failed)?;
    if !may_change(ctx) {
        return Ok(());
    }
    let before = ctx.server.functions.current();
    let mut after = Libraries::clone(&before);
    // What Redis says first.
    if before.get(&name).is_some() && !replaces {
        return Err(format!("ERR Library '{name}' already exists").into());
    }
    let library = read_library(ctx, code)?;
    after.add(library, replaces).map_err(|error| failed(error.text()))?;
    store(ctx, &before, after)?;
    ctx.out.bulk(name.as_bytes());
    Ok(())
}

fn delete(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if !may_change(ctx) {
        return Ok(());
    }
    let before = ctx.server.functions.current();
    let mut after = Libraries::clone(&before);
    if !std::str::from_utf8(ctx.args.get(2)).is_ok_and(|name| after.remove(name)) {
        return Err(CommandError::text("ERR Library not found"));
    }
    store(ctx, &before, after)?;
    ctx.out.ok();
    Ok(())
}

fn flush(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.args.len() > 3 {
        return Err(ctx.spec.subcommand_error(ctx.args.get(1)));
    }
    if !is_flush_mode(ctx) {
        return Err(CommandError::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    if !may_change(ctx) {
        return Ok(());
    }
    let before = ctx.server.functions.current();
    store(ctx, &before, Libraries::default())?;
    ctx.out.ok();
    Ok(())
}

/// How FUNCTION RESTORE treats the existing libraries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Flush,
    Append,
    Replace,
}

fn restore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.args.len() > 4 {
        return Err(ctx.spec.subcommand_error(ctx.args.get(1)));
    }
    let policy = match ctx.args.from(3).next().map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"append") => Policy::Append,
        Some(b"flush") => Policy::Flush,
        Some(b"replace") => Policy::Replace,
        Some(_) => {
            return Err(CommandError::text(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    let (body, _) = rdb::check_payload(ctx.args.get(2))
        .map_err(|_| CommandError::text("ERR DUMP payload version or checksum are wrong"))?;
    if !may_change(ctx) {
        return Ok(());
    }
    let unpacked_max = ctx.memory_max_bytes();
    let texts = rdb::read_functions(body, unpacked_max).map_err(|error| {
        CommandError::text(match error {
            RdbError::Unsupported { .. } => "ERR Pre-GA function format not supported",
            RdbError::NoFunction { .. } => "ERR given type is not a function",
            _ => "ERR failed loading functions from the given payload",
        })
    })?;
    let before = ctx.server.functions.current();
    let mut after = match policy {
        Policy::Flush => Libraries::default(),
        Policy::Append | Policy::Replace => Libraries::clone(&before),
    };
    let mut restored = Libraries::default();
    for text in texts {
        let library = read_library(ctx, &text)?;
        restored.add(library, false).map_err(|error| failed(error.text()))?;
    }
    for library in restored.all() {
        if policy != Policy::Replace && after.get(&library.name).is_some() {
            return Err(format!("ERR Library {} already exists", library.name).into());
        }
        after.remove(&library.name);
    }
    for library in restored.all() {
        after.add(Arc::clone(library), false).map_err(|error| failed(error.text()))?;
    }
    store(ctx, &before, after)?;
    ctx.out.ok();
    Ok(())
}

fn dump(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let libraries = ctx.server.functions.current();
    ctx.out.bulk(&rdb::dump_functions(libraries.all().map(|library| library.text())));
    Ok(())
}

fn list(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (mut pattern, mut with_code) = (None, false);
    let mut args = ctx.args.from(2);
    while let Some(arg) = args.next() {
        if !with_code && arg.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if pattern.is_none() && arg.eq_ignore_ascii_case(b"libraryname") {
            let name = args.next();
            pattern =
                Some(name.ok_or(CommandError::text("ERR library name argument was not given"))?);
        } else {
            return Err(CommandError::quoting("ERR Unknown argument ", arg, ""));
        }
    }
    let libraries = ctx.server.functions.current();
    let is_shown = |library: &&Arc<Library>| {
        pattern.is_none_or(|pattern| {
            let pattern: Vec<u8> = pattern.to_ascii_lowercase();
            glob::matches(&pattern, library.name.to_ascii_lowercase().as_bytes())
        })
    };
    let shown: Vec<_> = libraries.all().filter(is_shown).collect();
    let out = &mut *ctx.out;
    out.array(shown.len());
    for library in shown {
        out.map(3 + usize::from(with_code));
        out.bulk(b"library_name");
        out.bulk(library.name.as_bytes());
        out.bulk(b"engine");
        out.bulk(b"LUA");
        out.bulk(b"functions");
        out.array(library.functions.len());
        for function in library.functions.values() {
            out.map(3);
            out.bulk(b"name");
            out.bulk(&function.name);
            out.bulk(b"description");
            match &function.description {
                Some(text) => out.bulk(text),
                None => out.null(),
            }
            out.bulk(b"flags");
            out.set(function.flag_names().count());
            function.flag_names().for_each(|name| out.simple(name));
        }
        if with_code {
            out.bulk(b"library_code");
            out.bulk(library.text());
        }
    }
    Ok(())
}

fn stats(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let running = &ctx.server.running_scripts;
    let call = running.oldest_call();
    if call.is_none() && is_busy(ctx.server) {
        return Err(busy(false));
    }
    let (libraries, functions, _) = ctx.server.functions.current().size();
    let out = &mut *ctx.out;
    out.map(2);
    out.bulk(b"running_script");
    match call {
        None => out.null(),
        Some(call) => {
            out.map(3);
            out.bulk(b"name");
            out.bulk(&call.name);
            out.bulk(b"command");
            out.array(call.request.len());
            call.request.iter().for_each(|arg| out.bulk(arg));
            out.bulk(b"duration_ms");
            out.int(call.since.elapsed().as_millis() as i64);
        }
    }
    out.bulk(b"engines");
    out.map(1);
    out.bulk(b"LUA");
    out.map(2);
    out.bulk(b"libraries_count");
    out.int(libraries as i64);
    out.bulk(b"functions_count");
    out.int(functions as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use crate::dispatch::client::Client;
    use crate::dispatch::{Args, Executor, Outcome};
    use crate::resp::{Reply, command_bytes, pack};
    use crate::scripting::Functions;
    use crate::server::Server;
    use sexton_engine::Engine;

    const NOW_MS: u64 = 1_000_000;

    fn server() -> Server {
        Server::new(Engine::in_memory(2).expect("a store in memory opens"), 2)
    }

    fn run(
        server: &Server,
        executor: &mut Executor,
        client: &mut Client,
        request: &[&[u8]],
    ) -> String {
        let (buf, ranges) = pack(request.iter().copied());
        let mut out = Reply::new();
        let outcome = executor.execute(server, client, Args::new(&buf, &ranges), &mut out, NOW_MS);
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        String::from_utf8_lossy(out.bytes()).into_owned()
    }

    fn names(functions: &Functions) -> Vec<String> {
        functions.current().all().map(|library| library.name.clone()).collect()
    }

    fn library(name: &str, answer: u8) -> Vec<u8> {
        format!(
            "#!lua name={name}\nredis.register_function('{name}', function() return {answer} end)"
        )
        .into_bytes()
    }

    #[test]
    fn libraries_come_back_from_the_log_and_from_the_store() {
        let server = server();
        let mut client = Client { authenticated: true, ..Client::default() };
        let mut executor = Executor::new(table::table(), 0, true);
        let (a, b, a_again) = (library("a", 1), library("b", 2), library("a", 3));
        let requests: &[&[&[u8]]] = &[
            &[b"FUNCTION", b"LOAD", &a],
            &[b"FUNCTION", b"LOAD", &b],
            &[b"FUNCTION", b"LOAD", b"REPLACE", &a_again],
            &[b"FUNCTION", b"DELETE", b"b"],
        ];
        for request in requests {
            assert!(!run(&server, &mut executor, &mut client, request).starts_with('-'));
        }
        assert_eq!(run(&server, &mut executor, &mut client, &[b"FCALL", b"A", b"0"]), ":3\r\n");
        assert!(
            run(&server, &mut executor, &mut client, &[b"FCALL", b"b", b"0"]).starts_with("-ERR")
        );
        let from_store = Functions::default();
        from_store.read(&server.engine).expect("the store is read");
        assert_eq!(
            (names(&from_store), names(&server.functions)),
            (vec!["a".into()], vec!["a".into()])
        );

        let again = super::tests::server();
        let mut replayer = Executor::new(table::table(), 0, false);
        for request in requests {
            replayer
                .replay(&again, &mut Client::default(), &command_bytes(request))
                .expect("replays");
        }
        assert_eq!(names(&again.functions), ["a"]);
        assert_eq!(again.functions.current().get("a").map(|a| a.text().to_vec()), Some(a_again));
        let dumped = command_bytes(&[b"FUNCTION", b"FLUSH"]);
        replayer.replay(&again, &mut Client::default(), &dumped).expect("replays");
        from_store.read(&again.engine).expect("the store is read");
        assert!(names(&from_store).is_empty() && names(&again.functions).is_empty());
    }

    #[test]
    fn a_transaction_calls_what_it_has_loaded() {
        let server = server();
        let mut client = Client { authenticated: true, ..Client::default() };
        let mut executor = Executor::new(table::table(), 0, true);
        let a = library("a", 1);
        let requests: &[&[&[u8]]] = &[
            &[b"MULTI"],
            &[b"FUNCTION", b"LOAD", &a],
            &[b"FCALL", b"a", b"0"],
            &[b"FUNCTION", b"DELETE", b"a"],
            &[b"FCALL", b"a", b"0"],
        ];
        for request in requests {
            run(&server, &mut executor, &mut client, request);
        }
        let reply = run(&server, &mut executor, &mut client, &[b"EXEC"]);
        assert_eq!(reply, "*4\r\n$1\r\na\r\n:1\r\n+OK\r\n-ERR Function not found\r\n");
        assert!(names(&server.functions).is_empty());
    }

    #[test]
    fn a_thread_that_serves_others_changes_no_library() {
        let server = server();
        let mut client = Client { authenticated: true, ..Client::default() };
        let mut executor = Executor::new(table::table(), 0, false);
        let a = library("a", 1);
        let (buf, ranges) = pack([&b"FUNCTION"[..], b"LOAD", &a].into_iter());
        let mut out = Reply::new();
        let args = Args::new(&buf, &ranges);
        let outcome = executor.execute(&server, &mut client, args, &mut out, NOW_MS);
        assert!(matches!(outcome, Outcome::Offload) && out.is_empty(), "{outcome:?}");
        assert!(names(&server.functions).is_empty());
    }
}
