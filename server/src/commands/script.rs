//! FUNCTION and MODULE, as a server without libraries and modules answers them.

use super::introspect::help;
use crate::dispatch::{Binding, CommandError, CommandResult, Ctx};

/// What clients call at start, and what empties caches that are empty.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::container("function"),
    Binding::local("function|flush", function_flush),
    Binding::local("function|help", help),
    Binding::local("function|list", function_list),
    Binding::local("function|stats", function_stats),
    Binding::container("module"),
    Binding::local("module|help", help),
    Binding::local("module|list", module_list),
];

/// True for no argument, or one of SYNC and ASYNC.
pub(super) fn is_flush_mode(ctx: &Ctx<'_, '_>) -> bool {
    match ctx.args.len() {
        2 => true,
        3 => [&b"sync"[..], b"async"].iter().any(|mode| mode.eq_ignore_ascii_case(ctx.args.get(2))),
        _ => false,
    }
}

fn function_flush(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.args.len() > 3 {
        return Err(ctx.spec.subcommand_error(ctx.args.get(1)));
    }
    if !is_flush_mode(ctx) {
        return Err(CommandError::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    ctx.out.ok();
    Ok(())
}

fn function_list(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let mut args = ctx.args.from(2);
    while let Some(arg) = args.next() {
        if arg.eq_ignore_ascii_case(b"withcode") {
            continue;
        }
        if !arg.eq_ignore_ascii_case(b"libraryname") {
            return Err(CommandError::quoting("ERR Unknown argument ", arg, ""));
        }
        if args.next().is_none() {
            return Err(CommandError::text("ERR library name argument was not given"));
        }
    }
    ctx.out.array(0);
    Ok(())
}

fn function_stats(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let out = &mut *ctx.out;
    out.map(2);
    out.bulk(b"running_script");
    out.null();
    out.bulk(b"engines");
    out.map(1);
    out.bulk(b"LUA");
    out.map(2);
    out.bulk(b"libraries_count");
    out.int(0);
    out.bulk(b"functions_count");
    out.int(0);
    Ok(())
}

fn module_list(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.array(0);
    Ok(())
}
