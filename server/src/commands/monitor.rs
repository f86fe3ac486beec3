//! MONITOR.

use crate::dispatch::{Binding, CommandResult, Ctx};

/// MONITOR.
pub(super) const COMMANDS: &[Binding] = &[Binding::local("monitor", monitor)];

fn monitor(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.server.observe.monitors.start(&ctx.client.session);
    ctx.out.ok();
    Ok(())
}
