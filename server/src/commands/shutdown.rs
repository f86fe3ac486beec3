//! SHUTDOWN.

use crate::dispatch::{Binding, CommandError, CommandResult, Ctx, busy, is_busy};
use crate::jobs::rdb;
use crate::server::Server;
use crate::shutdown::ShutdownRequest;
use std::time::{Duration, Instant};

/// Interval of the looks whether scripts have ended.
const LOOK: Duration = Duration::from_millis(5);

/// SHUTDOWN.
pub(super) const COMMANDS: &[Binding] = &[Binding::offload("shutdown", shutdown)];

/// `SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]`
///
/// A granted request gets no reply: the connection ends with the server. Without SAVE and NOSAVE the save points decide
/// whether there is a last save. The log and the files are closed properly
/// in any case.
fn shutdown(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let mut request = ShutdownRequest::default();
    let (mut save, mut no_save, mut abort) = (false, false, false);
    for option in ctx.args.from(1) {
        match option.to_ascii_lowercase().as_slice() {
            b"nosave" => no_save = true,
            b"save" => save = true,
            b"now" => request.now = true,
            b"force" => request.force = true,
            b"abort" => abort = true,
            _ => return Err(CommandError::Syntax),
        }
    }
    if (abort && ctx.args.len() > 2) || (save && no_save) {
        return Err(CommandError::Syntax);
    }
    if abort {
        if !ctx.server.shutdown.abort() {
            return Err(CommandError::text("ERR No shutdown in progress."));
        }
        ctx.server.running_scripts.go_on();
        ctx.out.ok();
        return Ok(());
    }
    ctx.server.running_scripts.hurry();
    if no_save {
        // Their writes are lost with them, as in Redis.
        ctx.server.running_scripts.give_up();
    } else if !scripts_have_ended(ctx.server) {
        ctx.server.running_scripts.need_not_hurry();
        return Err(busy(ctx.server.running_scripts.oldest_is_function()));
    }
    let wanted = (save || no_save).then_some(save);
    if rdb::save_before_exit(ctx.server, wanted).is_err() && !request.force {
        ctx.server.running_scripts.need_not_hurry();
        return Err(CommandError::text("ERR Errors trying to SHUTDOWN. Check logs."));
    }
    ctx.server.running_scripts.give_up();
    ctx.server.shutdown.request(request);
    ctx.client.closing = true;
    Ok(())
}

/// Waits for the scripts that run now, which a save would wait for. False when one runs for longer than
/// `busy-reply-threshold`.
fn scripts_have_ended(server: &Server) -> bool {
    let begun = Instant::now();
    // What has begun since may go on: the next look would meet others again.
    while server.running_scripts.longest().is_some_and(|longest| longest >= begun.elapsed()) {
        if is_busy(server) {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}
