//! CONFIG.

use super::introspect::help;
use crate::commands::table;
use crate::configuration;
use crate::dispatch::{Args, Binding, CommandError, CommandResult, Ctx, Traits};
use sexton_config::SetBy;

/// CONFIG and its subcommands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::container("config"),
    Binding::local("config|get", get),
    Binding::local("config|help", help),
    Binding::local("config|resetstat", reset_statistics),
    Binding::local("config|rewrite", rewrite),
    // A change of `appendonly` waits for the log.
    Binding::offload("config|set", set).with(Traits::CHANGES_SETTINGS).secret_where(is_sensitive),
];

/// `CONFIG GET pattern [pattern ...]`: each directive once, whatever patterns match it.
fn get(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let patterns: Vec<&[u8]> = ctx.args.from(2).collect();
    let found = ctx.server.config.get(&patterns);
    ctx.out.map(found.len());
    for (name, text) in found {
        ctx.out.bulk(&name);
        ctx.out.bulk(&text);
    }
    Ok(())
}

/// True for the value of a directive that contains a password.
fn is_sensitive(args: Args<'_>, at: usize) -> bool {
    let is_value = at >= 3 && !at.is_multiple_of(2);
    is_value && sexton_config::table::find(args.get(at - 1)).is_some_and(|row| row.sensitive)
}

/// `CONFIG SET directive value [directive value ...]`: all of them or none.
fn set(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if !ctx.args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    let words: Vec<&[u8]> = ctx.args.from(2).collect();
    let pairs: Vec<(&[u8], &[u8])> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let durability = |name: &[u8]| {
        [&b"appendonly"[..], b"appendfsync"].iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    if ctx.tx.is_some() && pairs.iter().any(|(name, _)| durability(name)) {
        // The change waits for writes that the transaction's latches hold back.
        return Err(CommandError::text(
            "ERR appendonly and appendfsync cannot be changed inside a transaction",
        ));
    }
    let by =
        SetBy { local: ctx.client.session.is_local(), loading: ctx.server.loading.is_active() };
    let server = ctx.server;
    server
        .config
        .set(&pairs, by, |config, name| configuration::apply(server, config, name))
        .map_err(|error| CommandError::from(error.to_string()))?;
    if ctx.tx.is_none() {
        server.engine.apply_memory_bound();
    }
    ctx.out.ok();
    Ok(())
}

fn rewrite(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    // With an ACL file, users are not listed here; existing lines are removed.
    let users = match ctx.server.setting("aclfile").is_empty() {
        true => ctx.server.auth.lines(ctx.table.catalog()),
        false => Vec::new(),
    };
    ctx.server.config.rewrite(&users).map_err(CommandError::from)?;
    ctx.out.ok();
    Ok(())
}

fn reset_statistics(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.server.observe.expired_late_ms.reset();
    let (gone, waiting) = ctx.server.engine.collections_gone();
    ctx.server.stats.reset(gone - waiting);
    ctx.server.observe.traffic.reset();
    for spec in table::all_with_subcommands() {
        spec.stats.reset();
    }
    ctx.out.ok();
    Ok(())
}
