//! BGREWRITEAOF.

use crate::dispatch::{Binding, CommandError, CommandResult, Ctx};
use sexton_engine::SyncPolicy;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[Binding::local("bgrewriteaof", bgrewriteaof)];

/// BGREWRITEAOF. A background save is no obstacle: both read snapshots.
fn bgrewriteaof(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.server.engine.is_write_behind() {
        return Err(CommandError::text(
            "ERR There is no append only file with persistence-mode wbl: BGSAVE saves the data",
        ));
    }
    if ctx.server.engine.sync_policy() == SyncPolicy::Off {
        return Err(CommandError::text(
            "ERR There is no append only file with appendonly no: BGSAVE saves the data",
        ));
    }
    if !ctx.server.config.options().aof_routes.is_empty() {
        // Rule R5.
        return Err(CommandError::text(
            "ERR With aof-route the append only file lies on several devices, which no other server can put \
             together: BGSAVE saves the data",
        ));
    }
    if !ctx.server.rewriting.start() {
        return Err(CommandError::text(
            "ERR Background append only file rewriting already in progress",
        ));
    }
    ctx.out.simple("Background append only file rewriting started");
    Ok(())
}
