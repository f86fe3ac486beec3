//! Master and replica links.

use super::{INT_MAX, LONG_MAX, choice, int, memory, optional, special, yes_no};
use crate::directive::Directive;
use crate::kind::Kind;

const DISKLESS_LOAD: &[(&str, u8)] = &[("disabled", 0), ("on-empty-db", 1), ("swapdb", 2)];

const STREAMED: &str =
    "each copy is streamed at once, without a file and without waiting for others";

const NOT_BUILT: &str = "replication is not built yet";

pub(super) const TABLE: &[Directive] = &[
    special("replicaof", Kind::ReplicaOf, "no one").alias("slaveof").immutable().refused(NOT_BUILT),
    optional("masterauth").alias("primaryauth").sensitive().no_effect(NOT_BUILT),
    optional("masteruser").alias("primaryuser").sensitive().no_effect(NOT_BUILT),
    yes_no("replica-read-only", "yes").alias("slave-read-only").no_effect(NOT_BUILT),
    yes_no("replica-serve-stale-data", "yes").alias("slave-serve-stale-data").no_effect(NOT_BUILT),
    int("replica-priority", 0, INT_MAX, "100").alias("slave-priority").no_effect(NOT_BUILT),
    yes_no("replica-announced", "yes").no_effect(NOT_BUILT),
    optional("replica-announce-ip").alias("slave-announce-ip").no_effect(NOT_BUILT),
    int("replica-announce-port", 0, 65535, "0").alias("slave-announce-port").no_effect(NOT_BUILT),
    yes_no("replica-ignore-maxmemory", "yes").alias("slave-ignore-maxmemory").no_effect(NOT_BUILT),
    yes_no("replica-lazy-flush", "no").alias("slave-lazy-flush").no_effect(NOT_BUILT),
    yes_no("replica-ignore-disk-write-errors", "no").no_effect(NOT_BUILT),
    int("min-replicas-to-write", 0, INT_MAX, "0").alias("min-slaves-to-write").refused(NOT_BUILT),
    int("min-replicas-max-lag", 0, INT_MAX, "10").alias("min-slaves-max-lag").no_effect(NOT_BUILT),
    memory("repl-backlog-size", 1, LONG_MAX, "1mb").no_effect(NOT_BUILT),
    int("repl-backlog-ttl", 0, LONG_MAX, "3600").no_effect(NOT_BUILT),
    int("repl-timeout", 1, INT_MAX, "60"),
    int("repl-ping-replica-period", 1, INT_MAX, "10")
        .alias("repl-ping-slave-period")
        .no_effect(NOT_BUILT),
    yes_no("repl-disable-tcp-nodelay", "no").no_effect(NOT_BUILT),
    yes_no("repl-diskless-sync", "yes").no_effect(STREAMED),
    int("repl-diskless-sync-delay", 0, INT_MAX, "5").no_effect(STREAMED),
    int("repl-diskless-sync-max-replicas", 0, INT_MAX, "0").no_effect(STREAMED),
    choice("repl-diskless-load", DISKLESS_LOAD, "disabled").deny_loading().no_effect(NOT_BUILT),
];
