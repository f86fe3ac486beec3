//! EVAL, EVALSHA and their read-only forms, and SCRIPT.

use super::introspect::help;
use super::run_script::{Runnable, failed, kill, run, with_interpreter};
use crate::dispatch::{Args, Binding, CommandError, CommandResult, Ctx};
use crate::number::parse_i64;
use crate::scripting::{Program, Script, Sha};
use crate::server::Server;
use std::sync::Arc;

pub(super) const COMMANDS: &[Binding] = &[
    Binding::script("eval", |ctx| eval(ctx, false)).replicates_when(|_, args| {
        let declared = Script::flags_of(args.get(1));
        !declared.is_ok_and(|flags| flags.no_writes)
    }),
    Binding::script("eval_ro", |ctx| eval(ctx, true)),
    Binding::script("evalsha", |ctx| evalsha(ctx, false)).replicates_when(|server, args| {
        let script = by_name(server, args);
        !script.is_some_and(|script| script.flags.no_writes)
    }),
    Binding::script("evalsha_ro", |ctx| evalsha(ctx, true)),
    Binding::container("script"),
    Binding::local("script|debug", debug),
    Binding::local("script|exists", exists),
    Binding::local("script|flush", flush),
    Binding::local("script|help", help),
    Binding::local("script|kill", |ctx| kill(ctx, false)),
    Binding::local("script|load", load),
];

/// The number of keys.
fn key_count(args: Args<'_>) -> Result<usize, CommandError> {
    let count = parse_i64(args.get(2)).ok_or(CommandError::NotInteger)?;
    if count > args.len() as i64 - 3 {
        return Err(CommandError::text("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| CommandError::text("ERR Number of keys can't be negative"))
}

fn runnable(script: &Script) -> Runnable<'_> {
    Runnable { program: Program::Script(script), pace: &script.pace, flags: script.flags }
}

fn eval(ctx: &mut Ctx<'_, '_>, read_only: bool) -> CommandResult {
    let keys = key_count(ctx.args)?;
    let body = ctx.args.get(1);
    let (script, is_new) = match ctx.server.scripts.get(Sha::of(body)) {
        Some(script) => (script, false),
        None => (Arc::new(Script::new(body).map_err(failed)?), true),
    };
    if is_new {
        let compiled = with_interpreter(ctx, |interpreter, _| interpreter.compile_script(&script));
        compiled?.map_err(failed)?;
        ctx.server.scripts.add(Arc::clone(&script), false);
    }
    run(ctx, runnable(&script), keys, read_only)
}

/// The script that a request names.
fn by_name(server: &Server, args: Args<'_>) -> Option<Arc<Script>> {
    server.scripts.get(Sha::read_any_case(args.get(1))?)
}

fn evalsha(ctx: &mut Ctx<'_, '_>, read_only: bool) -> CommandResult {
    let Some(script) = by_name(ctx.server, ctx.args) else {
        return Err(CommandError::text("NOSCRIPT No matching script. Please use EVAL."));
    };
    let keys = key_count(ctx.args)?;
    run(ctx, runnable(&script), keys, read_only)
}

fn debug(_: &mut Ctx<'_, '_>) -> CommandResult {
    Err(CommandError::text("ERR SCRIPT DEBUG is not supported: there is no debugger of scripts"))
}

fn exists(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.array(ctx.args.len() - 2);
    for sha in ctx.args.from(2) {
        // As in Redis, the name is searched as it was written.
        let known = Sha::read(sha).is_some_and(|sha| ctx.server.scripts.get(sha).is_some());
        ctx.out.int(i64::from(known));
    }
    Ok(())
}

fn flush(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if !super::function::is_flush_mode(ctx) {
        return Err(CommandError::text("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    ctx.server.scripts.flush();
    ctx.out.ok();
    Ok(())
}

fn load(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let script = Arc::new(Script::new(ctx.args.get(2)).map_err(failed)?);
    with_interpreter(ctx, |interpreter, _| interpreter.compile_script(&script))?.map_err(failed)?;
    let sha = script.sha;
    if !ctx.server.scripts.add(script, true) {
        return Err(CommandError::text("OOM the scripts that were loaded take too much memory"));
    }
    ctx.out.bulk(sha.as_str().as_bytes());
    Ok(())
}
