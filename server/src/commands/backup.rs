//! BACKUP, as Redis 8.10 has it.

use crate::dispatch::{Binding, CommandError, CommandResult, Ctx};
use crate::jobs::backup;
use std::os::unix::ffi::OsStrExt;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::container("backup"),
    Binding::offload("backup|start", start),
    Binding::offload("backup|seal", seal),
    Binding::offload("backup|abort", abort),
    Binding::offload("backup|cleanup", cleanup),
    Binding::offload("backup|list", list),
    Binding::local("backup|status", status),
];

fn answer(ctx: &mut Ctx<'_, '_>, done: Result<(), String>) -> CommandResult {
    done.map_err(|error| CommandError::from(format!("ERR {error}")))?;
    ctx.out.ok();
    Ok(())
}

/// BACKUP START: answers when the base is there.
fn start(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let done = backup::start(ctx.server);
    answer(ctx, done)
}

fn seal(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let done = backup::seal(ctx.server);
    answer(ctx, done)
}

fn abort(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let done = backup::abort(ctx.server);
    answer(ctx, done)
}

fn cleanup(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let done = backup::cleanup(ctx.server);
    answer(ctx, done)
}

fn list(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let files = backup::files(ctx.server);
    let files = files.map_err(|error| CommandError::from(format!("ERR {error}")))?;
    ctx.out.array(files.len());
    files.iter().for_each(|file| ctx.out.bulk(file.as_os_str().as_bytes()));
    Ok(())
}

fn status(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let view = ctx.server.backup.view();
    ctx.out.map(4);
    for (name, text) in [
        ("state", view.state.name().to_owned()),
        ("error", view.error),
        ("start_time", view.started_s.to_string()),
        ("end_time", view.ended_s.to_string()),
    ] {
        ctx.out.bulk(name.as_bytes());
        ctx.out.bulk(text.as_bytes());
    }
    Ok(())
}
