//! What can be said about a request without its keys.

use super::latch::each_key;
use super::{Args, Class, CommandError, CommandSpec, Flags, OUT_OF_MEMORY, SnapshotSession};
use super::{Executor, Outcome};
use crate::client::Client;
use crate::client_memory::request_max_bytes;
use crate::server::Server;
use sexton_engine::{KEY_MAX_BYTES, key_too_long};
use std::sync::atomic::Ordering;

/// What writes, and PING, answer while `stop-writes-on-bgsave-error` is in force.
const SAVE_FAILED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently \
unable to persist to disk. Commands that may modify the data set are disabled, because this instance \
is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error \
option). Please check the Redis logs for details about the RDB error.";

/// What a subscriber may run under RESP2.
const SUBSCRIBER_COMMANDS: [&str; 9] = [
    "ping",
    "quit",
    "reset",
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "unsubscribe",
    "punsubscribe",
    "sunsubscribe",
];

/// Most bytes that MULTI queues. Replay knows positions in a group of the log as 32 bits, and what is logged may be
/// longer than what was asked for.
const TRANSACTION_MAX_BYTES: u64 = 2 << 30;

/// What the dispatcher decides before it touches data.
pub(super) enum Verdict {
    Run,
    Queue,
    Exec,
}

/// Why a request is not run.
pub(super) enum Refusal {
    Error(CommandError),
    Later(Outcome),
    /// A browser was made to speak to us: say nothing.
    Close,
}

impl Executor {
    /// Everything that can be said about a request without its keys, in Redis' order.
    pub(super) fn gate(
        &self,
        server: &Server,
        client: &Client,
        args: Args<'_>,
    ) -> Result<(&'static CommandSpec, Verdict), Refusal> {
        let spec = match self.table.lookup(args) {
            Ok(spec) => spec,
            Err(error) => {
                let name = args.get(0);
                let browser =
                    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:");
                return Err(if browser { Refusal::Close } else { Refusal::Error(error) });
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
        if !client.authenticated && !spec.flags.contains(Flags::NO_AUTH) {
            return refuse(CommandError::text("NOAUTH Authentication required."));
        }
        if client.snapshot_session.is_some()
            && let Some(error) = SnapshotSession::refuses(spec)
        {
            return refuse(error);
        }
        if let Some(error) = too_long_key(spec, args) {
            return refuse(error);
        }
        let in_transaction = client.transaction.is_some();
        if in_transaction && spec.flags.contains(Flags::NO_MULTI) {
            return refuse(CommandError::text("ERR Command not allowed inside a transaction"));
        }
        let exec = in_transaction && spec.name == "exec";
        let queued_flag = |flag| {
            exec && client.transaction.as_ref().is_some_and(|transaction| {
                transaction.queued.iter().any(|queued| queued.spec.flags.contains(flag))
            })
        };
        let writes = spec.flags.contains(Flags::WRITE) || queued_flag(Flags::WRITE);
        let needs_memory = spec.flags.contains(Flags::DENYOOM) || queued_flag(Flags::DENYOOM);
        if needs_memory
            && (server.settings.out_of_memory.load(Ordering::Relaxed) || is_too_large(server, args))
        {
            return refuse(CommandError::text(OUT_OF_MEMORY));
        }
        if in_transaction && is_beyond_a_group(client, spec, args) {
            return refuse(CommandError::text("ERR transaction exceeds 2147483648 bytes"));
        }
        if holds_too_much(server, client, spec, in_transaction, args) {
            return refuse(CommandError::text(OUT_OF_MEMORY));
        }
        if server.loading.is_active() && !spec.flags.contains(Flags::LOADING) {
            return refuse(CommandError::text("LOADING Redis is loading the dataset in memory"));
        }
        if (writes || spec.name == "ping") && server.saving.refuses_writes() {
            return refuse(CommandError::text(SAVE_FAILED));
        }
        if writes && let Some(reason) = server.engine.write_refusal() {
            return refuse(format!("MISCONF Errors writing to the AOF file: {reason}").into());
        }
        if client.only_listens() && !SUBSCRIBER_COMMANDS.contains(&spec.name) {
            return refuse(
                format!(
                    "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                     RESET are allowed in this context",
                    spec.name
                )
                .into(),
            );
        }
        if in_transaction
            && !matches!(spec.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
        {
            return Ok((spec, Verdict::Queue));
        }
        let pausable = !spec.name.starts_with("client|");
        let may_replicate = spec.flags.contains(Flags::MAY_REPLICATE);
        if pausable && let Some(until) = server.sessions.paused_until(writes || may_replicate) {
            return Err(Refusal::Later(Outcome::Paused(until)));
        }
        if writes && server.engine.must_wait() {
            return Err(Refusal::Later(Outcome::Paced));
        }
        if exec {
            return Ok((spec, Verdict::Exec));
        }
        let blocks = spec.class == Class::Offload
            || (spec.class == Class::Keyed && client.snapshot_session.is_some());
        if blocks && !self.may_block {
            return Err(Refusal::Later(Outcome::Offload));
        }
        Ok((spec, Verdict::Run))
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
    let queues = !matches!(spec.name, "exec" | "discard" | "multi" | "quit" | "reset");
    queues && client.queued_bytes() as u64 + request_bytes(args) > TRANSACTION_MAX_BYTES
}

/// True for a request that makes the connection hold more than a request may have of the memory bound: queued
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
    match spec.name {
        "exec" | "discard" | "multi" | "quit" | "reset" => false,
        "watch" | "subscribe" | "psubscribe" | "ssubscribe" => {
            client.name_bytes() as u64 + request_bytes(args) > max
        }
        _ => in_transaction && client.queued_bytes() as u64 + request_bytes(args) > max,
    }
}

/// What a request is refused with that would make a key longer than the engine takes. Where no such key can be made
/// there is none either, and the request finds that out by itself.
pub fn too_long_key(spec: &'static CommandSpec, args: Args<'_>) -> Option<CommandError> {
    let makes_keys =
        spec.flags.contains(Flags::DENYOOM) || matches!(spec.name, "rename" | "renamenx");
    if !makes_keys || args.from(1).all(|arg| arg.len() <= KEY_MAX_BYTES) {
        return None;
    }
    let mut longest = 0;
    each_key(spec, args, |key| longest = longest.max(key.len()));
    (longest > KEY_MAX_BYTES).then(|| format!("ERR {}", key_too_long(longest)).into())
}
