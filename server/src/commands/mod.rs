//! The handlers of all commands, one file or folder per family.
//!
//! A command is a function from its arguments and the values of its keys to a reply and changes.
//! The dispatcher does everything else before it calls the handler: arity check, authentication, latches
//! of all keys, loading of cold ones.

mod acl;
mod algebra;
mod backup;
mod bit;
mod chance;
mod client;
mod clock;
mod config;
mod connection;
mod debug;
mod dump;
mod eval;
mod expire;
mod full_copy;
mod function;
mod geo;
mod hash;
mod hyperloglog;
pub mod info;
mod introspect;
mod keys;
mod latency;
mod list;
mod memory;
mod migrate;
mod module;
mod monitor;
mod pop;
mod positions;
mod pubsub;
mod replication;
mod rewrite;
mod run_script;
mod save;
mod scan;
mod set;
mod shutdown;
mod slowlog;
mod snapshot;
mod sort;
mod sorted_set;
mod stream;
mod string;
pub mod table;
mod tracking;
mod transaction;
mod wait;

use crate::dispatch::Binding;

/// The command groups; each file exports its bindings.
pub(crate) static GROUPS: &[&[Binding]] = &[
    acl::COMMANDS,
    backup::COMMANDS,
    bit::COMMANDS,
    client::COMMANDS,
    clock::COMMANDS,
    config::COMMANDS,
    connection::COMMANDS,
    debug::COMMANDS,
    dump::COMMANDS,
    migrate::COMMANDS,
    eval::COMMANDS,
    expire::COMMANDS,
    full_copy::COMMANDS,
    geo::COMMANDS,
    hash::COMMANDS,
    hyperloglog::COMMANDS,
    info::COMMANDS,
    introspect::COMMANDS,
    keys::COMMANDS,
    latency::COMMANDS,
    list::COMMANDS,
    memory::COMMANDS,
    monitor::COMMANDS,
    pop::COMMANDS,
    pubsub::COMMANDS,
    replication::COMMANDS,
    rewrite::COMMANDS,
    save::COMMANDS,
    scan::COMMANDS,
    function::COMMANDS,
    module::COMMANDS,
    set::COMMANDS,
    shutdown::COMMANDS,
    slowlog::COMMANDS,
    snapshot::COMMANDS,
    sort::COMMANDS,
    sorted_set::COMMANDS,
    stream::COMMANDS,
    string::COMMANDS,
    wait::COMMANDS,
    transaction::COMMANDS,
];
