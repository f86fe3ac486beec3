//! SLOWLOG.

use super::introspect::help;
use crate::dispatch::{Binding, CommandError, CommandResult, Ctx};

/// SLOWLOG and its subcommands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::container("slowlog"),
    Binding::local("slowlog|get", get),
    Binding::local("slowlog|help", help),
    Binding::local("slowlog|len", len),
    Binding::local("slowlog|reset", reset),
];

const DEFAULT_COUNT: usize = 10;

fn get(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let count = match ctx.args.len() {
        2 => DEFAULT_COUNT,
        3 => match ctx.int_arg(2) {
            Ok(-1) => usize::MAX,
            Ok(count @ 0..) => usize::try_from(count).unwrap_or(usize::MAX),
            _ => {
                return Err(CommandError::text("ERR count should be greater than or equal to -1"));
            }
        },
        _ => return Err(ctx.spec.subcommand_error(ctx.args.get(1))),
    };
    let entries = ctx.server.observe.slowlog.newest(count);
    ctx.out.array(entries.len());
    for entry in entries {
        ctx.out.array(6);
        ctx.out.int(entry.id as i64);
        ctx.out.int(entry.time_s as i64);
        ctx.out.int(entry.duration_us as i64);
        ctx.out.array(entry.args.len());
        for arg in &entry.args {
            ctx.out.bulk(arg);
        }
        ctx.out.bulk(entry.client.as_bytes());
        ctx.out.bulk(&entry.name);
    }
    Ok(())
}

fn len(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.int(ctx.server.observe.slowlog.len() as i64);
    Ok(())
}

fn reset(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.server.observe.slowlog.reset();
    ctx.out.ok();
    Ok(())
}
