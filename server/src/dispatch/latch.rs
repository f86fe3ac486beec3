//! Determines the keys of a request, and the latches that it therefore takes.

use super::client::Client;
use super::table::key_positions;
use super::{Args, Class, CommandSpec, Flags};
use crate::number::parse_i64;
use crate::server::Server;
use sexton_engine::Latched;

/// What a request works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// The connection or the server; no latch, no transaction.
    Free,
    /// The snapshot that the connection has open: no latch, no transaction.
    Snapshot,
    /// Its keys, under their latches.
    Keys,
    /// Everything, under all latches.
    All,
}

impl Scope {
    pub(super) fn of(spec: &CommandSpec, args: Args<'_>, client: &Client) -> Self {
        let in_snapshot = client.snapshot_session.is_some();
        match spec.class {
            Class::Local | Class::Survey => Self::Free,
            Class::Keyed | Class::Offload if in_snapshot => Self::Snapshot,
            Class::Offload => Self::Free,
            Class::Keyed | Class::Script => Self::Keys,
            Class::Exclusive if (spec.names_keys)(args) => Self::Keys,
            Class::Exclusive => Self::All,
        }
    }
}

/// The latches of a request; `hashes` receives the hashes of its keys, of which the first are prefetched.
pub(super) fn latch<'h>(
    hashes: &'h mut Vec<u64>,
    server: &Server,
    scope: Scope,
    spec: &'static CommandSpec,
    args: Args<'_>,
) -> Latched<'h> {
    hashes.clear();
    if scope == Scope::All {
        return Latched::All;
    }
    each_key(spec, args, |key| {
        hashes.push(args.hash_of(key).unwrap_or_else(|| server.engine.hash(key)));
    });
    if hashes.len() > 1 {
        server.engine.prefetch_first(hashes);
    }
    Latched::Hashes(hashes)
}

/// Calls `found` with every key of a request.
pub(crate) fn each_key<'a>(
    spec: &'static CommandSpec,
    args: Args<'a>,
    mut found: impl FnMut(&'a [u8]),
) {
    let range = spec.keys;
    if let Some(at) = spec.key_count {
        let behind = args.len().saturating_sub(at + 1);
        let count = if args.len() > at { parse_i64(args.get(at)) } else { None };
        // As the key specification has it: none where there are fewer arguments.
        match count.and_then(|count| usize::try_from(count).ok()) {
            Some(count) if count <= behind => args.from(at + 1).take(count).for_each(found),
            _ => {}
        }
        return;
    }
    if spec.flags.contains(Flags::MOVABLEKEYS) || range.first == 0 {
        for key in key_positions(spec, args).unwrap_or_default() {
            found(args.get(key.index));
        }
        return;
    }
    let count = args.len() as isize;
    let last = if range.last < 0 { count + range.last } else { range.last.min(count - 1) };
    let mut index = range.first;
    while (index as isize) <= last {
        found(args.get(index));
        index += range.step.max(1);
    }
}
