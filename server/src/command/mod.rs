//! Commands: one declarative table, and one file a command group.
//!
//! A command is a function from its arguments and the values of its keys to a reply and changes.
//! The dispatcher has done everything else before it is called: arity, authentication, latches of
//! all its keys, loading of cold ones.

mod access;
mod acl;
mod client_cmd;
mod clock;
mod config_cmd;
mod connection;
mod context;
mod debug;
pub mod dispatch;
#[cfg(test)]
mod dispatch_tests;
mod dump;
mod error;
mod expire;
mod info;
mod introspect;
mod keys;
mod latency;
mod memory;
mod monitor;
mod past;
mod pubsub;
mod replication;
mod rewrite;
mod save;
mod scan;
mod script;
mod shutdown_cmd;
mod slowlog;
mod snapshot_cmd;
mod sort;
mod string;
pub mod table;
mod transaction;
mod wait;

pub use crate::resp::Args;
pub use access::Purpose;
pub use context::Ctx;
pub use error::{CommandError, CommandResult};
pub use past::Past;
pub use scan::CursorTable;
pub use table::{Binding, CommandSpec, Flags};
pub use wait::LogWait;

/// What a request is answered that memory does not allow.
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// How a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Touches the connection or the server only; no latch, no transaction.
    Local,
    /// Asks about the whole server (INFO, MEMORY STATS): its figures come from all shards, so no latch may be held.
    /// Like `Local` but in a transaction, where it runs when that has been committed.
    Survey,
    /// Works on the keys that its key specification names: they are latched and, where
    /// `reads_values` says so, in memory. `Ctx::tx` is there.
    Keyed,
    /// Needs every latch (FLUSHALL, SWAPDB). `Ctx::tx` is there, under `Latched::All`.
    Exclusive,
    /// Walks the key space and may block on I/O (SCAN, KEYS, DBSIZE, RANDOMKEY): runs on a helper
    /// thread, without a transaction outside MULTI and under `Latched::All` inside.
    Offload,
}

/// Where a command's keys are among its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Index of the first key argument (the command's name is 0); 0 when it has none.
    pub first: usize,
    /// Index of the last one; negative counts from the end.
    pub last: isize,
    /// Distance between keys.
    pub step: usize,
}

/// The code of a command.
pub type Handler = fn(&mut Ctx<'_, '_>) -> CommandResult;

/// The command groups; each file exports its bindings.
static GROUPS: &[&[Binding]] = &[
    acl::COMMANDS,
    client_cmd::COMMANDS,
    clock::COMMANDS,
    config_cmd::COMMANDS,
    connection::COMMANDS,
    debug::COMMANDS,
    dump::COMMANDS,
    expire::COMMANDS,
    info::COMMANDS,
    introspect::COMMANDS,
    keys::COMMANDS,
    latency::COMMANDS,
    memory::COMMANDS,
    monitor::COMMANDS,
    pubsub::COMMANDS,
    replication::COMMANDS,
    rewrite::COMMANDS,
    save::COMMANDS,
    scan::COMMANDS,
    script::COMMANDS,
    shutdown_cmd::COMMANDS,
    slowlog::COMMANDS,
    snapshot_cmd::COMMANDS,
    sort::COMMANDS,
    string::COMMANDS,
    wait::COMMANDS,
    transaction::COMMANDS,
];

/// True when FLUSHDB or FLUSHALL has arguments that it takes.
fn flush_mode_is_known(args: Args<'_>) -> bool {
    let is = |name: &[u8]| args.get(1).eq_ignore_ascii_case(name);
    args.len() == 1 || (args.len() == 2 && (is(b"SYNC") || is(b"ASYNC")))
}

/// The databases that a SWAPDB with these arguments swaps, if it can.
fn swapped_dbs(args: Args<'_>, databases: usize) -> Option<(usize, usize)> {
    let index = |at| {
        let index = (at < args.len()).then(|| crate::number::parse_i64(args.get(at)))??;
        usize::try_from(index).ok().filter(|&db| db < databases)
    };
    index(1).zip(index(2))
}

/// The database that a SELECT with these arguments chooses, if it is one.
fn selected_db(args: Args<'_>, databases: usize) -> Option<usize> {
    let index = crate::number::parse_i64(args.get(1))?;
    usize::try_from(index).ok().filter(|&db| db < databases)
}
