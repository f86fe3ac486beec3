//! WAIT and WAITAOF: how many replicas have this connection's writes, and whether this server's log has them.

use crate::dispatch::{Binding, CommandError, CommandResult, Ctx, LogWait};
use crate::number::parse_i64;
use sexton_engine::SyncPolicy;
use std::time::{Duration, Instant};

/// The group's commands.
pub(super) const COMMANDS: &[Binding] =
    &[Binding::local("wait", wait), Binding::local("waitaof", wait_aof)];

/// `WAITAOF numlocal numreplicas timeout`. Blocks until all earlier writes are durable, at most `timeout` ms (0: no limit),
/// but not inside a script. Until then it stores its state in the client, and the dispatcher asks again. There are no
/// replicas: requesting some always waits for the timeout.
fn wait_aof(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let wait = match ctx.client.log_wait.take() {
        Some(wait) => wait,
        None => begin_wait(ctx)?,
    };
    // A script waits for nothing, as in Redis: it holds latches, and its own writes have no place in the log yet.
    if ctx.client.script.is_inside || wait.is_over(ctx.server, Instant::now()) {
        wait.answer(ctx.server, ctx.out);
    } else {
        ctx.client.log_wait = Some(wait);
    }
    Ok(())
}

fn begin_wait(ctx: &mut Ctx<'_, '_>) -> Result<LogWait, CommandError> {
    let number = |index| parse_i64(ctx.args.get(index));
    let local = number(1)
        .filter(|local| (0..=1).contains(local))
        .ok_or(CommandError::text("ERR value is out of range, must be between 0 and 1"))?;
    let replicas = number(2)
        .filter(|replicas| (0..=i64::from(i32::MAX)).contains(replicas))
        .ok_or(CommandError::text("ERR value is out of range, must be positive"))?;
    let timeout_ms =
        number(3).ok_or(CommandError::text("ERR timeout is not an integer or out of range"))?;
    let timeout_ms =
        u64::try_from(timeout_ms).map_err(|_| CommandError::text("ERR timeout is negative"))?;
    let logged = ctx.server.engine.sync_policy() != SyncPolicy::Off;
    if local == 1 && !logged {
        return Err(CommandError::text(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    ctx.server.engine.kick_log();
    Ok(LogWait {
        seq: ctx.server.engine.last_seq(),
        for_local: local == 1,
        for_replicas: replicas > 0,
        deadline: (timeout_ms > 0)
            .then(|| Instant::now().checked_add(Duration::from_millis(timeout_ms)))
            .flatten(),
    })
}

/// WAIT numreplicas timeout. There are no replicas, and none can connect while the command would block,
/// so it answers 0 at once. Writes of this connection are durable by the time their own replies are sent
/// (N13): this reply follows them.
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
