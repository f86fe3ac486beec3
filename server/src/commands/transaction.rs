//! MULTI, DISCARD, WATCH, UNWATCH. The dispatcher queues commands and runs EXEC itself.

use crate::dispatch::{Binding, CommandError, CommandResult, Ctx, Traits};

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::local("multi", multi).with(Traits::CONTROLS_TRANSACTION).with(Traits::NOT_IN_SNAPSHOT),
    Binding::local("exec", exec).with(Traits::CONTROLS_TRANSACTION).with(Traits::RUNS_QUEUED),
    Binding::local("discard", discard).with(Traits::CONTROLS_TRANSACTION),
    Binding::keyed("watch", watch).with(Traits::CONTROLS_TRANSACTION).with(Traits::GATHERS_NAMES),
    Binding::local("unwatch", unwatch),
];

fn multi(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.client.transaction.is_some() {
        return Err(CommandError::text("ERR MULTI calls can not be nested"));
    }
    ctx.client.start_transaction();
    ctx.out.ok();
    Ok(())
}

/// Reached outside of MULTI only: the dispatcher runs transactions.
fn exec(_ctx: &mut Ctx<'_, '_>) -> CommandResult {
    Err(CommandError::text("ERR EXEC without MULTI"))
}

fn discard(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.client.transaction.is_none() {
        return Err(CommandError::text("ERR DISCARD without MULTI"));
    }
    ctx.client.discard_transaction();
    ctx.client.unwatch(ctx.server);
    ctx.out.ok();
    Ok(())
}

/// WATCH key [key ...]: under the latches of the keys.
fn watch(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.client.transaction.is_some() {
        return Err(CommandError::text("ERR WATCH inside MULTI is not allowed"));
    }
    let db = ctx.client.db;
    for key in ctx.args.from(1) {
        let expire_at_ms = ctx.peek(db, key).map_or(0, |entry| entry.meta().expire_at_ms);
        // The look-up may have removed an expired key: that is no change since WATCH.
        ctx.changes.signal_so_far(&ctx.server.events);
        ctx.client.watch(ctx.server, db, key, expire_at_ms);
    }
    ctx.out.ok();
    Ok(())
}

fn unwatch(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.client.unwatch(ctx.server);
    ctx.out.ok();
    Ok(())
}
