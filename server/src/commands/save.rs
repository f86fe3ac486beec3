//! SAVE, BGSAVE, LASTSAVE.

use crate::dispatch::{Binding, CommandError, CommandResult, Ctx};
use crate::jobs::rdb::{self, SaveError};
use crate::state::saving::Start;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::offload("save", save),
    Binding::local("bgsave", bgsave),
    Binding::local("lastsave", last_save),
];

const BUSY: CommandError = CommandError::text("ERR Background save already in progress");

/// SAVE: unlike in Redis, other clients continue meanwhile.
fn save(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    match rdb::save(ctx.server) {
        Ok(()) => {
            ctx.out.ok();
            Ok(())
        }
        Err(SaveError::Busy) => Err(BUSY),
        // Redis' reply is as short: the log has the reason.
        Err(error) => Err(format!("ERR {error}").into()),
    }
}

/// `BGSAVE [SCHEDULE]`: nothing here keeps a save from starting except another one.
fn bgsave(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    match args.len() {
        1 => {}
        2 if args.get(1).eq_ignore_ascii_case(b"schedule") => {}
        _ => return Err(CommandError::Syntax),
    }
    match ctx.server.saving.start_in_background() {
        Start::Started => {
            ctx.out.simple("Background saving started");
            Ok(())
        }
        Start::Busy => Err(BUSY),
    }
}

/// LASTSAVE: seconds since the epoch.
fn last_save(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.int(ctx.server.saving.view().last_save_s as i64);
    Ok(())
}
