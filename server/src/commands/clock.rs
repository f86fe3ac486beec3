//! TIME, LOLWUT.

use crate::dispatch::{Binding, CommandResult, Ctx};
use std::time::{SystemTime, UNIX_EPOCH};

/// Small commands about the server.
pub(super) const COMMANDS: &[Binding] =
    &[Binding::local("time", time), Binding::local("lolwut", lolwut)];

fn time(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    ctx.out.array(2);
    ctx.out.bulk(now.as_secs().to_string().as_bytes());
    ctx.out.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(())
}

fn lolwut(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.args.len() > 2 && ctx.args.get(1).eq_ignore_ascii_case(b"version") {
        ctx.int_arg(2)?;
    }
    let art = "    _.---._\n  .'       '.\n  |  R.I.P.  |\n  |          |\n  |  DEL k   |\n\
               __|__________|__\n";
    let text = format!("{art}Sexton ver. {}\n", env!("CARGO_PKG_VERSION"));
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}
