//! WAIT: how many replicas have what this connection wrote.

use super::{Binding, CommandError, CommandResult, Ctx};
use crate::number::parse_i64;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[Binding::local("wait", wait)];

/// WAIT numreplicas timeout. There are no replicas, and none can come while the command would block,
/// so it answers 0 at once. Writes of this connection are durable by the time their own replies left
/// (N13): this reply stands behind them.
fn wait(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.int_arg(1)?;
    let timeout_ms = parse_i64(ctx.args.get(2))
        .ok_or(CommandError::text("ERR timeout is not an integer or out of range"))?;
    if timeout_ms < 0 {
        return Err(CommandError::text("ERR timeout is negative"));
    }
    ctx.out.int(0);
    Ok(())
}
