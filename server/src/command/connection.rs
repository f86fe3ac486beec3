//! Commands about the connection itself.

use super::{Binding, CommandResult, Ctx};

/// PING, ECHO.
pub(super) const COMMANDS: &[Binding] =
    &[Binding::local("ping", ping), Binding::local("echo", echo)];

fn ping(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    match ctx.args.len() {
        1 => ctx.out.simple("PONG"),
        2 => ctx.out.bulk(ctx.args.get(1)),
        _ => return Err(ctx.spec.arity_error()),
    }
    Ok(())
}

fn echo(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.bulk(ctx.args.get(1));
    Ok(())
}
