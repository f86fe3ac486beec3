//! The end of a transaction: its place in the order of writes, or nothing of it.

use super::CommandError;
use super::after::refuse;
use super::call::Called;
use super::latch::Scope;
use crate::client::Client;
use crate::events::Changes;
use crate::log;
use crate::resp::Reply;
use crate::server::Server;
use sexton_engine::{Seq, SyncPolicy, Tx};

/// Tells watchers and commits; the reply waits for the sequence that it answers (N13). One that has written nothing may have read what
/// is not durable yet: with `appendfsync always` its reply waits for the last write of its keys.
pub(super) fn commit(
    server: &Server,
    tx: Tx<'_>,
    changes: &Changes,
    scope: Scope,
    hashes: &[u64],
) -> Seq {
    let engine = &server.engine;
    changes.signal(&server.events);
    let required = tx.commit().last_seq;
    if required != 0 || engine.sync_policy() != SyncPolicy::Always {
        return required;
    }
    match scope {
        Scope::Keys => hashes.iter().map(|&hash| engine.last_write(hash)).max().unwrap_or(0),
        _ => engine.last_seq(),
    }
}

/// Why a request that writes nothing cannot be told of writes up to `required`: they are not durable, and nobody knows
/// whether they will be (N2). An error, where the reply would be held for ever and its connection closed.
fn untellable(server: &Server, required: Seq) -> Option<CommandError> {
    let engine = &server.engine;
    if required == 0 || engine.given_up_through() < required || engine.durable() >= required {
        return None;
    }
    let reason = engine.write_refusal().unwrap_or_else(|| "the log has failed".to_owned());
    Some(
        format!(
            "MISCONF The answer depends on writes that may be lost. Errors writing to the AOF file: {reason}"
        )
        .into(),
    )
}

/// What follows a commit: listeners hear of the changes, and a reply (from `mark` on) that wrote nothing and would tell of
/// writes that may be lost becomes an error. `required`: the sequence that the reply waits for by its own account. Answers
/// what the call is now, and the sequence that the reply waits for with what [`Client::hold_reply`] was told.
pub(super) fn publish(
    server: &Server,
    client: &mut Client,
    changes: &mut Changes,
    (out, mark): (&mut Reply, usize),
    has_written: bool,
    (called, required): (Called, Seq),
) -> (Called, Seq) {
    let required = required.max(client.take_hold());
    changes.publish(&server.events, required);
    match untellable(server, required) {
        Some(error) if !has_written => (refuse(server, client, out, &error, mark), 0),
        _ => (called, required),
    }
}

/// Takes back what a transaction has written. Where a part of it has its place in the order of writes already, that
/// cannot be done: the process ends, and the next start finds the state without any of it.
pub(super) fn take_back(tx: Tx<'_>, changes: &mut Changes, name: &str) {
    if tx.is_part_committed() {
        log::warning(&format!(
            "A transaction failed in '{name}' behind an operation on a whole database and cannot be taken back: the \
             process ends, and the next start leaves it out"
        ));
        std::process::abort();
    }
    drop(tx);
    changes.forget();
}
