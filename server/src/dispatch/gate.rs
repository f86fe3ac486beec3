//! What can be said about a request without its keys.

use super::after::refuse;
use super::client::Client;
use super::latch::each_key;
use super::obstacles::Obstacles;
use super::{Args, Class, CommandError, CommandSpec, Flags, OUT_OF_MEMORY, Table, Traits};
use super::{Executor, Outcome};
use crate::auth::Context;
use crate::client_memory::request_max_bytes;
use crate::disk_bound::DISK_FULL;
use crate::resp::Reply;
use crate::server::Server;
use sexton_engine::{KEY_MAX_BYTES, key_too_long};
use std::time::Duration;

/// The error of writes, and of PING, while `stop-writes-on-bgsave-error` is in force.
pub(crate) const SAVE_FAILED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently \
unable to persist to disk. Commands that may modify the data set are disabled, because this instance \
is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error \
option). Please check the Redis logs for details about the RDB error.";

const NO_AUTH: CommandError = CommandError::text("NOAUTH Authentication required.");
const LOADING: CommandError = CommandError::text("LOADING Redis is loading the dataset in memory");

/// The error for clients that have waited too long for the keys of a script or function.
pub(crate) fn busy(is_function: bool) -> CommandError {
    CommandError::text(if is_function {
        "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
    } else {
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
    })
}

/// True when a script has been running for longer than `busy-reply-threshold`.
pub(crate) fn is_busy(server: &Server) -> bool {
    let threshold_ms = server.setting("busy-reply-threshold").parse().unwrap_or(5000);
    let longest = server.running_scripts.longest();
    longest.is_some_and(|longest| longest > Duration::from_millis(threshold_ms))
}

/// Handles a request whose keys a script holds: it is run again soon, or refused with BUSY.
pub(super) fn wait_or_refuse(
    server: &Server,
    client: &Client,
    out: &mut Reply,
    mark: usize,
) -> Outcome {
    if !is_busy(server) {
        return Outcome::Paced;
    }
    let error = busy(server.running_scripts.oldest_is_function());
    refuse(server, client, out, &error, mark);
    Outcome::Done(0)
}

/// Maximum size of the commands that MULTI queues. Replay uses 32-bit positions in a log group, and the log form may be
/// longer than the request.
const TRANSACTION_MAX_BYTES: u64 = 2 << 30;

/// The dispatcher's decision before it accesses data.
pub(super) enum Verdict {
    Run,
    Queue,
    Exec,
}

/// Why a request is not run.
pub(super) enum Refusal {
    Error(CommandError),
    Later(Outcome),
    /// A browser was tricked into sending a request: do not reply.
    Close,
}

impl Executor {
    /// All checks of a request that need no keys, in Redis' order.
    pub(super) fn gate(
        &self,
        server: &Server,
        client: &Client,
        args: Args<'_>,
    ) -> Result<(&'static CommandSpec, Verdict), Refusal> {
        let found =
            if self.replaying { self.table.lookup_own(args) } else { self.table.lookup(args) };
        let spec = match found {
            Ok(spec) => spec,
            Err(error) => {
                return Err(if is_of_a_browser(args) {
                    Refusal::Close
                } else {
                    Refusal::Error(error)
                });
            }
        };
        let refuse = |error: CommandError| {
            spec.stats.reject(self.worker);
            Err(Refusal::Error(error))
        };
        if !spec.accepts(args.len()) {
            return refuse(spec.arity_error());
        }
        if self.replaying {
            return Ok((spec, Verdict::Run));
        }
        let mut word = Obstacles::of(server, client);
        if word.has(Obstacles::NOT_AUTHENTICATED) && !spec.flags.contains(Flags::NO_AUTH) {
            return refuse(NO_AUTH);
        }
        if word.has(Obstacles::IN_SNAPSHOT)
            && let Some(error) = past_refuses(spec)
        {
            return refuse(error);
        }
        if let Some(error) = too_long_key(spec, args) {
            return refuse(error);
        }
        let in_transaction = word.has(Obstacles::IN_TRANSACTION);
        if in_transaction && spec.flags.contains(Flags::NO_MULTI) {
            return refuse(CommandError::text("ERR Command not allowed inside a transaction"));
        }
        if let Err(denied) = client.check_rights(spec, args) {
            let context = if in_transaction { Context::Multi } else { Context::TopLevel };
            client.note_denied(server, (spec, args), denied, context);
            return refuse(format!("NOPERM {}", denied.text(spec.name)).into());
        }
        let exec = in_transaction && spec.traits.has(Traits::RUNS_QUEUED);
        let queued_flag = |flag| {
            let transaction = client.transaction.as_ref().filter(|_| exec);
            transaction.is_some_and(|transaction| transaction.contents.flags.contains(flag))
        };
        let writes = spec.flags.contains(Flags::WRITE) || queued_flag(Flags::WRITE);
        let needs_memory = spec.flags.contains(Flags::DENYOOM) || queued_flag(Flags::DENYOOM);
        let tells_of_saves = spec.traits.has(Traits::TELLS_OF_FAILED_SAVES);
        if writes || needs_memory || tells_of_saves {
            word = word.and(Obstacles::of_writes(server));
        }
        if needs_memory && (word.has(Obstacles::OUT_OF_MEMORY) || is_too_large(server, args)) {
            return refuse(CommandError::text(OUT_OF_MEMORY));
        }
        if needs_memory && word.has(Obstacles::DISK_FULL) {
            return refuse(CommandError::text(DISK_FULL));
        }
        if in_transaction && is_beyond_a_group(client, spec, args) {
            return refuse(CommandError::text("ERR transaction exceeds 2147483648 bytes"));
        }
        if holds_too_much(server, client, spec, in_transaction, args) {
            return refuse(CommandError::text(OUT_OF_MEMORY));
        }
        if word.has(Obstacles::LOADING) && !spec.flags.contains(Flags::LOADING) {
            return refuse(LOADING);
        }
        if (writes || tells_of_saves) && word.has(Obstacles::SAVE_FAILED) {
            return refuse(CommandError::text(SAVE_FAILED));
        }
        if writes
            && word.has(Obstacles::REFUSED)
            && let Some(reason) = server.engine.write_refusal()
        {
            return refuse(format!("MISCONF Errors writing to the AOF file: {reason}").into());
        }
        if word.has(Obstacles::ONLY_LISTENS) && !spec.traits.has(Traits::WHILE_SUBSCRIBED) {
            return refuse(
                format!(
                    "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                     RESET are allowed in this context",
                    spec.name
                )
                .into(),
            );
        }
        if word.has(Obstacles::PAUSED) && !spec.traits.has(Traits::WHILE_PAUSED) {
            let is_held = writes || may_replicate(server, client, (spec, args), exec);
            if let Some(until) = server.sessions.paused_until(is_held) {
                return Err(Refusal::Later(Outcome::Paused(until)));
            }
        }
        if in_transaction && !spec.traits.has(Traits::CONTROLS_TRANSACTION) {
            return Ok((spec, Verdict::Queue));
        }
        let may_write = spec.class == Class::Script && !spec.flags.contains(Flags::READONLY);
        let is_paced =
            (writes && word.has(Obstacles::PACED)) || (may_write && server.engine.must_wait());
        if is_paced {
            return Err(Refusal::Later(Outcome::Paced));
        }
        if exec {
            return Ok((spec, Verdict::Exec));
        }
        // Its figures come from all shards.
        if spec.class == Class::Survey && server.running_scripts.is_any() {
            if is_busy(server) {
                return refuse(busy(server.running_scripts.oldest_is_function()));
            }
            return Err(Refusal::Later(Outcome::Paced));
        }
        let reads_past = client.snapshot_session.is_some();
        let blocks = match spec.class {
            Class::Offload => reads_past || !tries_at_once(server, spec),
            Class::Keyed => reads_past,
            _ => false,
        };
        if blocks && !self.may_block {
            return Err(Refusal::Later(Outcome::Offload));
        }
        Ok((spec, Verdict::Run))
    }
}

/// Whether the request, or a queued one where `exec`, is held back like a write while writes pause.
#[cold]
fn may_replicate(
    server: &Server,
    client: &Client,
    (spec, args): (&'static CommandSpec, Args<'_>),
    exec: bool,
) -> bool {
    let transaction = client.transaction.as_ref().filter(|_| exec);
    let mut queued = transaction.into_iter().flat_map(|transaction| transaction.queued());
    (spec.may_replicate)(server, args)
        || queued.any(|queued| (queued.spec.may_replicate)(server, queued.args))
}

/// Whether a worker may try to answer what else belongs on a helper thread. It waits for latches, which scripts hold for long.
fn tries_at_once(server: &Server, spec: &CommandSpec) -> bool {
    spec.traits.has(Traits::TRIES_AT_ONCE) && !server.running_scripts.is_any()
}

/// A browser was made to send an HTTP request.
fn is_of_a_browser(args: Args<'_>) -> bool {
    let name = args.get(0);
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// The decision on a request while there is no store to run it on.
pub(crate) enum Early {
    /// It is refused, as by a server that loads.
    Refused(CommandError),
    /// A server that loads would run it: it waits until there is one.
    Waits,
    /// The connection is closed.
    Close,
}

/// Like [`Executor::check`], but for an unauthenticated client before the server exists.
pub(crate) fn check_early(table: &Table, args: Args<'_>, requires_password: bool) -> Early {
    let spec = match table.lookup(args) {
        Ok(spec) => spec,
        Err(_) if is_of_a_browser(args) => return Early::Close,
        Err(error) => return Early::Refused(error),
    };
    if !spec.accepts(args.len()) {
        Early::Refused(spec.arity_error())
    } else if requires_password && !spec.flags.contains(Flags::NO_AUTH) {
        Early::Refused(NO_AUTH)
    } else if spec.flags.contains(Flags::LOADING) {
        Early::Waits
    } else {
        Early::Refused(LOADING)
    }
}

fn request_bytes(args: Args<'_>) -> u64 {
    args.from(1).map(|arg| arg.len() as u64).sum()
}

/// True for a request that is larger than what one may have of the memory bound (N18).
fn is_too_large(server: &Server, args: Args<'_>) -> bool {
    let max = request_max_bytes(server);
    max != u64::MAX && request_bytes(args) > max
}

/// True for a command that makes its transaction larger than one group of the log may be.
fn is_beyond_a_group(client: &Client, spec: &CommandSpec, args: Args<'_>) -> bool {
    let queues = !spec.traits.has(Traits::CONTROLS_TRANSACTION);
    queues && client.queued_bytes() as u64 + request_bytes(args) > TRANSACTION_MAX_BYTES
}

/// True for a request that makes the connection use more than a request's share of the memory bound: queued
/// commands, watched keys, channels.
fn holds_too_much(
    server: &Server,
    client: &Client,
    spec: &CommandSpec,
    in_transaction: bool,
    args: Args<'_>,
) -> bool {
    let max = request_max_bytes(server);
    if max == u64::MAX {
        return false;
    }
    if spec.traits.has(Traits::GATHERS_NAMES) {
        return client.name_bytes() as u64 + request_bytes(args) > max;
    }
    let queues = in_transaction && !spec.traits.has(Traits::CONTROLS_TRANSACTION);
    queues && client.queued_bytes() as u64 + request_bytes(args) > max
}

/// The error for a request that would create a key longer than the engine's maximum. A request that cannot create the
/// key gets no error here, and detects the length itself.
pub fn too_long_key(spec: &'static CommandSpec, args: Args<'_>) -> Option<CommandError> {
    let makes_keys = spec.flags.contains(Flags::DENYOOM) || spec.traits.has(Traits::MAKES_KEYS);
    if !makes_keys || args.from(1).all(|arg| arg.len() <= KEY_MAX_BYTES) {
        return None;
    }
    let mut refused = None;
    each_key(spec, args, |key| {
        if refused.is_none() && key.len() > KEY_MAX_BYTES {
            refused = Some(format!("ERR {}", key_too_long(key)).into());
        }
    });
    refused
}

const WRITE_INTO_PAST: CommandError = CommandError::text(
    "SNAPSHOT this connection reads the past and cannot write; SEXTON.SNAPSHOT CLOSE ends that",
);
const NOT_IN_PAST: CommandError =
    CommandError::text("SNAPSHOT this command cannot read the past; SEXTON.SNAPSHOT CLOSE ends it");

/// Why a command cannot run in the past, if it cannot.
fn past_refuses(spec: &CommandSpec) -> Option<CommandError> {
    if spec.flags.contains(Flags::WRITE) || spec.class == Class::Exclusive {
        return Some(WRITE_INTO_PAST);
    }
    let supported = match spec.class {
        Class::Keyed => spec.flags.contains(Flags::READONLY),
        Class::Offload => spec.traits.has(Traits::READS_SNAPSHOTS),
        // It may write, and touch what it does not name.
        Class::Script => false,
        // All reads see one instant anyhow.
        _ => !spec.traits.has(Traits::NOT_IN_SNAPSHOT),
    };
    (!supported).then_some(NOT_IN_PAST)
}
