//! The steps after a call: the reply in its final form, statistics, slow log, latency monitor, MONITOR.

use super::call::Called;
use super::client::{Client, ScriptTurn};
use super::{Args, Class, CommandError, CommandResult, CommandSpec, Flags, OUT_OF_MEMORY, Traits};
use crate::client_memory::reply_max_bytes;
use crate::clock::now_ms;
use crate::resp::{PackedRequest, Reply, pack};
use crate::server::Server;
use sexton_engine::Seq;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Statistics, slow log and latency monitor of one execution.
pub(super) fn account(
    worker: usize,
    server: &Server,
    client: &Client,
    spec: &CommandSpec,
    args: Args<'_>,
    started: Instant,
    called: Called,
) {
    let time_us = started.elapsed().as_micros() as u64;
    count(worker, server, client, spec, args, time_us, called);
}

/// The same of one that took `time_us`.
pub(super) fn count(
    worker: usize,
    server: &Server,
    client: &Client,
    spec: &CommandSpec,
    args: Args<'_>,
    time_us: u64,
    called: Called,
) {
    let histogram = server.settings.latency_tracking.load(Ordering::Relaxed);
    spec.stats.record(worker, time_us, called.failed, histogram);
    note_slow(server, client, spec, args, 0, time_us);
}

/// Shorter executions are nothing to the latency monitor, whose unit is the millisecond.
const MONITORED_US: u64 = 1000;

/// True if an execution that took `time_us` concerns the slow log or the latency monitor.
#[inline]
pub(crate) fn is_noted(server: &Server, time_us: u64) -> bool {
    time_us >= MONITORED_US || server.observe.slowlog.is_slow(time_us)
}

/// Reports an execution that took `time_us` to the slow log and to the latency monitor. The time includes `more` further
/// requests that were executed together with this one.
pub(crate) fn note_slow(
    server: &Server,
    client: &Client,
    spec: &CommandSpec,
    args: Args<'_>,
    more: u64,
    time_us: u64,
) {
    let observe = &server.observe;
    if observe.slowlog.is_slow(time_us) && !spec.flags.contains(Flags::SKIP_SLOWLOG) {
        let redacted = redacted(spec, args);
        let args = shown(redacted.as_ref(), args);
        let name = client.session.labels.lock().name.clone();
        let addr = client.session.addr.clone();
        observe.slowlog.push(args, more, now_ms() / 1000, time_us, addr, &name);
    }
    if time_us >= MONITORED_US {
        let fast = spec.flags.contains(Flags::FAST);
        let event = if fast { "fast-command" } else { "command" };
        observe.latency.record(event, now_ms() / 1000, time_us / 1000);
    }
}

/// The request with its secrets redacted; `None` if it has none.
fn redacted(spec: &CommandSpec, args: Args<'_>) -> Option<PackedRequest> {
    let is_secret = |at: usize| (spec.is_secret)(args, at);
    (1..args.len()).any(is_secret).then(|| {
        let shown = |(at, arg)| if is_secret(at) { &b"(redacted)"[..] } else { arg };
        pack(args.from(0).enumerate().map(shown))
    })
}

fn shown<'a>(redacted: Option<&'a PackedRequest>, args: Args<'a>) -> Args<'a> {
    redacted.map_or(args, |(bytes, ranges)| Args::new(bytes, ranges))
}

/// MONITOR sees a request when what it wrote or read is durable.
pub(crate) fn show_monitors(
    server: &Server,
    db: usize,
    client: &Client,
    spec: &CommandSpec,
    args: Args<'_>,
    required: Seq,
) {
    let monitors = &server.observe.monitors;
    // Scripts are shown here, so that they precede their commands.
    let is_hidden = spec.flags.intersects(Flags::SKIP_MONITOR.union(Flags::ADMIN))
        && spec.class != Class::Script;
    if !monitors.is_active() || is_hidden {
        return;
    }
    let now_us =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_micros() as u64);
    let redacted = redacted(spec, args);
    let args = shown(redacted.as_ref(), args);
    monitors.feed(args, (db, &client.session.addr), now_us, required);
}

/// MONITOR sees a command of a script as one of the client `lua`.
fn show_script(server: &Server, db: usize, args: Args<'_>, required: Seq) {
    let now_us =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_micros() as u64);
    server.observe.monitors.feed(args, (db, "lua"), now_us, required);
}

/// Adds the calls of a finished script to the statistics, and its refusals to ACL LOG.
pub(super) fn count_calls(server: &Server, turn: &mut ScriptTurn) {
    let histogram = server.settings.latency_tracking.load(Ordering::Relaxed);
    for (spec, tally) in turn.tallies.drain(..) {
        spec.stats.record_tally(turn.worker, &tally, histogram);
    }
    turn.denials.drain(..).for_each(|denial| server.auth.denials.note(denial, now_ms()));
}

/// Finishes a script once its writes are sequenced: sends its messages, and lines for MONITOR.
pub(super) fn finish(server: &Server, turn: ScriptTurn, required: Seq) {
    for (kind, channel, message) in &turn.messages {
        server.events.pubsub.publish(*kind, channel, message, required);
    }
    for (db, (bytes, ranges)) in &turn.shown {
        show_script(server, *db, Args::new(bytes, ranges), required);
    }
}

/// Turns the output of a command from `mark` on into its reply: an error replaces it, and CLIENT REPLY
/// drops it, unless it is a push (a subscription's confirmation).
pub(super) fn write_outcome(
    server: &Server,
    client: &Client,
    spec: &CommandSpec,
    result: CommandResult,
    out: &mut Reply,
    mark: usize,
) {
    let pushes = spec.traits.has(Traits::ANSWERS_PUSHES);
    match result {
        Ok(()) if pushes => return,
        Ok(()) => {}
        Err(error) => {
            out.truncate(mark);
            write_error(server, out, &error);
        }
    }
    drop_if_muted(client, out, mark);
}

/// CLIENT REPLY OFF or SKIP drops what was answered from `mark` on.
pub(super) fn drop_if_muted(client: &Client, out: &mut Reply, mark: usize) {
    if client.reply_mode.is_muted() {
        out.truncate(mark);
    }
}

/// Answers a request whose reply from `mark` on could not be written whole.
pub(super) fn refuse_cut(
    server: &Server,
    client: &mut Client,
    (out, mark): (&mut Reply, usize),
    required: Seq,
) {
    out.truncate(mark);
    let limit = server.output_limit_of(&client.session);
    let closing_bytes = limit.closing_bytes();
    if closing_bytes <= reply_max_bytes(server) {
        // As in Redis, a connection that is closed for its reply receives nothing of it.
        if !client.reply_mode.is_muted() {
            limit.enforce(&client.session, closing_bytes);
            client.closing = true;
        }
        return;
    }
    // Where something was written an error would not be true: no answer at all.
    client.closing |= required != 0;
    write_error(server, out, &CommandError::text(OUT_OF_MEMORY));
    drop_if_muted(client, out, mark);
}

pub(super) fn write_error(server: &Server, out: &mut Reply, error: &CommandError) {
    let bytes = error.bytes();
    server.observe.traffic.count_error(&bytes);
    out.error(&bytes);
}

/// The error takes the place of all that was answered from `mark` on.
pub(super) fn refuse(
    server: &Server,
    client: &Client,
    out: &mut Reply,
    error: &CommandError,
    mark: usize,
) -> Called {
    out.truncate(mark);
    write_error(server, out, error);
    drop_if_muted(client, out, mark);
    Called { failed: true }
}
