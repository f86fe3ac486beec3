//! SEXTON.SNAPSHOT and SEXTON.CHECKPOINT.

use crate::clock::now_ms;
use crate::dispatch::{Binding, CommandError, CommandResult, Ctx, SnapshotSession, snapshot_error};
use crate::number::parse_i64;
use sexton_engine::{SnapshotInfo, SnapshotOptions};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::container("sexton.snapshot"),
    Binding::local("sexton.snapshot|open", open),
    Binding::local("sexton.snapshot|close", close),
    Binding::local("sexton.snapshot|list", list),
    Binding::local("sexton.snapshot|info", info),
    Binding::offload("sexton.checkpoint", checkpoint),
];

/// SEXTON.SNAPSHOT OPEN [TIMEOUT milliseconds]: from now on the connection reads this instant. Returns
/// its sequence. `snapshot-max-age` bounds the timeout, and is the default.
fn open(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let mut timeout_ms = match ctx.args.len() {
        2 => 0,
        4 if ctx.args.get(2).eq_ignore_ascii_case(b"timeout") => {
            let timeout = parse_i64(ctx.args.get(3)).ok_or(CommandError::NotInteger)?;
            u64::try_from(timeout).ok().filter(|&ms| ms > 0).ok_or_else(|| {
                CommandError::text("ERR timeout must be a positive number of milliseconds")
            })?
        }
        _ => return Err(CommandError::Syntax),
    };
    if ctx.client.snapshot_session.is_some() {
        return Err(CommandError::text("ERR this connection has a snapshot already"));
    }
    if ctx.client.transaction.is_some() {
        return Err(CommandError::text("ERR Command not allowed inside a transaction"));
    }
    let max_ms = ctx.server.settings.snapshot_max_age_s.load(Ordering::Relaxed) * 1000;
    if max_ms != 0 {
        timeout_ms = if timeout_ms == 0 { max_ms } else { timeout_ms.min(max_ms) };
    }
    let name = format!("client-{}", ctx.client.id);
    let snapshot = ctx.server.engine.snapshot(SnapshotOptions { name, timeout_ms });
    let snapshot = snapshot.map_err(snapshot_error)?;
    let seq = snapshot.seq();
    *ctx.client.session.snapshot.lock() = Some(snapshot.watch());
    // The clock is stopped with the data; it is read after the instant, so nothing written before the instant
    // expires later than it did.
    ctx.client.snapshot_session = Some(Box::new(SnapshotSession::new(snapshot, now_ms())));
    ctx.out.int(seq as i64);
    Ok(())
}

/// SEXTON.SNAPSHOT CLOSE: the connection reads the newest state again.
fn close(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if !ctx.client.close_snapshot_session() {
        return Err(CommandError::text("ERR this connection has no snapshot"));
    }
    ctx.out.ok();
    Ok(())
}

/// SEXTON.SNAPSHOT LIST: all open snapshots of the store, oldest first.
fn list(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let snapshots = ctx.server.engine.snapshots();
    ctx.out.array(snapshots.len());
    for snapshot in &snapshots {
        show(ctx, snapshot);
    }
    Ok(())
}

/// SEXTON.SNAPSHOT INFO: the connection's own.
fn info(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let Some(past) = &ctx.client.snapshot_session else {
        return Err(CommandError::text("ERR this connection has no snapshot"));
    };
    let info = past.snapshot().info();
    show(ctx, &info);
    Ok(())
}

fn show(ctx: &mut Ctx<'_, '_>, info: &SnapshotInfo) {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    ctx.out.map(6);
    ctx.out.bulk(b"id");
    ctx.out.int(number(info.id));
    ctx.out.bulk(b"name");
    ctx.out.bulk(info.name.as_bytes());
    let figures = [
        ("sequence", info.seq),
        ("age-ms", info.age_ms),
        ("timeout-ms", info.timeout_ms),
        ("held-bytes", info.held_bytes),
    ];
    for (name, figure) in figures {
        ctx.out.bulk(name.as_bytes());
        ctx.out.int(number(figure));
    }
}

/// SEXTON.CHECKPOINT directory: creates the directory, and a complete store in it. Returns the sequence of its last
/// write.
fn checkpoint(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.tx.is_some() {
        return Err(CommandError::text("ERR Command not allowed inside a transaction"));
    }
    // It makes files wherever the process may: as much as setting `dir` does.
    let permission = ctx.server.setting("enable-protected-configs");
    let is_local = ctx.client.session.is_local();
    if permission != "yes" && !(permission == "local" && is_local) {
        return Err(CommandError::text(
            "ERR SEXTON.CHECKPOINT command not allowed. If the enable-protected-configs option is set to \
             \"local\", you can run it from a local connection, otherwise you need to set this option in the \
             configuration file, and then restart the server.",
        ));
    }
    let dir = Path::new(std::ffi::OsStr::from_bytes(ctx.args.get(1)));
    let report = ctx.server.engine.checkpoint(dir);
    let report = report.map_err(|error| CommandError::from(format!("ERR {error}")))?;
    ctx.out.int(report.seq as i64);
    Ok(())
}
