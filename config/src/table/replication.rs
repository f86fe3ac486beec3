//! Master and replica links.

use super::{INT_MAX, LONG_MAX, choice, int, memory, optional, special, yes_no};
use crate::directive::Directive;
use crate::kind::Kind;

const DISKLESS_LOAD: &[(&str, u8)] = &[("disabled", 0), ("on-empty-db", 1), ("swapdb", 2)];

pub(super) const TABLE: &[Directive] = &[
    special("replicaof", Kind::ReplicaOf, "no one").alias("slaveof").immutable(),
    optional("masterauth").sensitive(),
    optional("masteruser").sensitive(),
    yes_no("replica-read-only", "yes").alias("slave-read-only"),
    yes_no("replica-serve-stale-data", "yes").alias("slave-serve-stale-data"),
    int("replica-priority", 0, INT_MAX, "100").alias("slave-priority"),
    yes_no("replica-announced", "yes"),
    optional("replica-announce-ip").alias("slave-announce-ip"),
    int("replica-announce-port", 0, 65535, "0").alias("slave-announce-port"),
    yes_no("replica-ignore-maxmemory", "yes").alias("slave-ignore-maxmemory"),
    yes_no("replica-lazy-flush", "no").alias("slave-lazy-flush").no_effect(),
    yes_no("replica-ignore-disk-write-errors", "no").no_effect(),
    int("min-replicas-to-write", 0, INT_MAX, "0").alias("min-slaves-to-write"),
    int("min-replicas-max-lag", 0, INT_MAX, "10").alias("min-slaves-max-lag"),
    memory("repl-backlog-size", 1, LONG_MAX, "1mb"),
    int("repl-backlog-ttl", 0, LONG_MAX, "3600"),
    int("repl-timeout", 1, INT_MAX, "60"),
    int("repl-ping-replica-period", 1, INT_MAX, "10").alias("repl-ping-slave-period"),
    yes_no("repl-disable-tcp-nodelay", "no"),
    yes_no("repl-diskless-sync", "yes").no_effect(),
    int("repl-diskless-sync-delay", 0, INT_MAX, "5").no_effect(),
    int("repl-diskless-sync-max-replicas", 0, INT_MAX, "0").no_effect(),
    choice("repl-diskless-load", DISKLESS_LOAD, "disabled").deny_loading().no_effect(),
];
