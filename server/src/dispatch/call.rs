//! Runs the handler inside a given transaction: the part that single requests, EXEC, scripts and replay share.

use super::after::{refuse, write_outcome};
use super::guard::error_of;
use super::latch::each_key;
use super::long_reply::{LongReply, OpenReply};
use super::past::{Past, PastKeys};
use super::snapshot_session::{required_by, snapshot_error};
use super::{Class, CommandError, CommandResult, Ctx, Flags};
use crate::client_memory::load_max_bytes;
use sexton_engine::{EngineError, Seq};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Called {
    /// The reply is an error.
    pub(crate) failed: bool,
}

/// Runs the handler of `ctx` inside the transaction of `ctx`, under latches that the caller holds, on keys that the
/// caller has loaded. What the handler has written from `mark` on is its reply, or an error. The caller checks arity and
/// rights beforehand, commits, does the accounting, and shows the call to monitors. Keys that the handler reads are remembered for
/// a client that tracks.
///
/// # Errors
/// The handler could not continue: the whole transaction must be rolled back, and the client receives this error.
#[inline]
pub(crate) fn call(ctx: &mut Ctx<'_, '_>, mark: usize) -> Result<Called, CommandError> {
    ctx.changes.begin_command(Some(ctx.client.id));
    let called = run(ctx, mark)?;
    if ctx.client.session.tracking.is_on() {
        note_reads(ctx);
    }
    Ok(called)
}

/// Like [`call`], but for a single request. If it needs pages that are on a device, it ends with
/// [`Client::missed`](crate::dispatch::client::Client::missed) set, and runs again once they are in memory. `on_worker`: others wait for
/// this thread, so that a request which takes long ends with [`Client::is_heavy`](crate::dispatch::client::Client::is_heavy) set, and runs
/// on a helper thread.
///
/// # Errors
/// Those of [`call`], and that it has missed something.
#[inline]
pub(super) fn call_missing(
    ctx: &mut Ctx<'_, '_>,
    mark: usize,
    on_worker: bool,
) -> Result<Called, CommandError> {
    (ctx.client.may_miss, ctx.client.may_hand_over) = (true, on_worker);
    let called = call(ctx, mark);
    (ctx.client.may_miss, ctx.client.may_hand_over) = (false, false);
    called
}

/// Remembers the keys of a reading command, effective when the transaction ends. Past values must not remain in a client's
/// cache.
#[cold]
fn note_reads(ctx: &mut Ctx<'_, '_>) {
    let names_keys = matches!(ctx.spec.class, Class::Keyed | Class::Exclusive);
    if !names_keys || !ctx.spec.flags.contains(Flags::READONLY) {
        return;
    }
    if ctx.tx.is_none() {
        each_key(ctx.spec, ctx.args, |key| ctx.changes.read_past(key));
        return;
    }
    remember_keys(ctx);
}

/// Remembers the keys that the request of `ctx` names, for a client that tracks what it reads.
pub(crate) fn remember_keys(ctx: &mut Ctx<'_, '_>) {
    if ctx.client.session.tracking.mode().remembers_reads() {
        each_key(ctx.spec, ctx.args, |key| ctx.changes.read(&ctx.server.events, key));
    }
}

/// Like [`call`], but for a command that a script runs.
///
/// # Errors
/// Those of [`call`].
pub(crate) fn call_in_script(ctx: &mut Ctx<'_, '_>) -> Result<Called, CommandError> {
    ctx.changes.begin_command(None);
    run(ctx, 0)
}

fn run(ctx: &mut Ctx<'_, '_>, mark: usize) -> Result<Called, CommandError> {
    ctx.client.would_wait = None;
    let result = run_guarded(ctx).inspect_err(|_| ctx.changes.forget())?;
    let called = Called { failed: result.is_err() };
    write_outcome(ctx.server, ctx.client, ctx.spec, result, ctx.out, mark);
    Ok(called)
}

/// Runs the handler for the first piece of a long reply; returns the write that the reply waits for.
pub(super) fn answer_long(
    ctx: &mut Ctx<'_, '_>,
    long: Result<OpenReply, EngineError>,
    mark: usize,
) -> (Called, Seq) {
    let required = long.as_ref().map_or(0, |open| open.required);
    // The reply as a whole is not bounded.
    ctx.out.limit(u64::MAX);
    // Its key was remembered when the reply was found to be long, and again when it was held.
    ctx.changes.begin_command(Some(ctx.client.id));
    let called = long.map_err(snapshot_error).and_then(|open| {
        ctx.client.long_reply = LongReply::Open(Box::new(open));
        run(ctx, mark)
    });
    let called =
        called.unwrap_or_else(|error| refuse(ctx.server, ctx.client, ctx.out, &error, mark));
    if called.failed {
        ctx.client.long_reply = LongReply::None;
    }
    (called, required)
}

/// Runs the handler of a command that reads its keys as they were; returns the write that the reply waits for. May block.
pub(super) fn answer_from_the_past(
    ctx: &mut Ctx<'_, '_>,
    past: PastKeys,
    mark: usize,
) -> (Called, Seq) {
    let required = past.required;
    // Its keys were remembered when they were read.
    ctx.changes.begin_command(Some(ctx.client.id));
    ctx.client.past = Past::Open(Box::new(past));
    let called = run(ctx, mark);
    ctx.client.past = Past::None;
    let called =
        called.unwrap_or_else(|error| refuse(ctx.server, ctx.client, ctx.out, &error, mark));
    (called, required)
}

/// Runs the handler on the connection's open snapshot; returns the sequence that the reply waits for.
pub(super) fn read_snapshot(ctx: &mut Ctx<'_, '_>, mark: usize) -> (Called, Seq) {
    let Some(snapshot) = ctx.client.snapshot_session.as_deref_mut() else {
        return (Called { failed: true }, 0);
    };
    ctx.now_ms = snapshot.now_ms();
    let mut keys = Vec::new();
    if ctx.spec.class == Class::Keyed {
        each_key(ctx.spec, ctx.args, |key| keys.push(key));
    }
    let required = required_by(ctx.server, snapshot.snapshot());
    let max_bytes = load_max_bytes(ctx.server);
    let fetched = snapshot.fetch(ctx.client.db, keys.into_iter(), max_bytes);
    let called = fetched.and_then(|()| call(ctx, mark));
    if let Some(snapshot) = ctx.client.snapshot_session.as_deref_mut() {
        snapshot.release();
    }
    let called =
        called.unwrap_or_else(|error| refuse(ctx.server, ctx.client, ctx.out, &error, mark));
    (called, required)
}

/// Runs a command. `Err`: it could not continue, and its writes and those of its transaction must be rolled back; contains
/// the error for the client.
pub(super) fn run_guarded(ctx: &mut Ctx<'_, '_>) -> Result<CommandResult, CommandError> {
    let run = ctx.spec.run;
    // What a command works on is taken back, or belongs to the connection alone.
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let result = run(ctx);
        debug_assert!(ctx.changes.are_logged(), "a change without its log form");
        result
    }));
    caught.map_err(|payload| error_of(ctx.spec.name, payload))
}
