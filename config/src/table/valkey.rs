//! Directives of Valkey 8.1 and 9.1 that Redis 7.0 does not have: its configuration files start the server.

use super::{INT_MAX, LONG_MAX, ULONG_MAX, choice, int, memory, optional, text, yes_no};
use crate::directive::Directive;

const NO_CLUSTER: &str = "cluster mode is not built";
const NO_LARGE_LOG: &str = "there is no log of large requests and replies";
const NO_RDMA: &str = "RDMA is not built";
const ONE_FORMAT: &str = "the log has one format";

const SAVE_BEHAVIOR: &[(&str, u8)] = &[("sync", 0), ("best-effort", 1)];
const LOG_FORMATS: &[(&str, u8)] = &[("legacy", 0), ("logfmt", 1), ("json", 2)];
const TIMESTAMPS: &[(&str, u8)] = &[("legacy", 0), ("iso8601", 1), ("milliseconds", 2)];
const VERSION_CHECK: &[(&str, u8)] = &[("strict", 0), ("relaxed", 1)];

/// Valkey's names of directives of Redis that only a start sets.
pub(super) const OTHER_NAMES: [&str; 4] =
    ["server-cpulist", "bio-cpulist", "aof-rewrite-cpulist", "bgsave-cpulist"];

pub(super) const TABLE: &[Directive] = &[
    int("commandlog-reply-larger-than", -1, LONG_MAX, "1048576").no_effect(NO_LARGE_LOG),
    int("commandlog-request-larger-than", -1, LONG_MAX, "1048576").no_effect(NO_LARGE_LOG),
    int("commandlog-large-reply-max-len", 0, LONG_MAX, "128").no_effect(NO_LARGE_LOG),
    int("commandlog-large-request-max-len", 0, LONG_MAX, "128").no_effect(NO_LARGE_LOG),
    yes_no("hide-user-data-from-log", "yes")
        .no_effect("the log names keys where a file is refused for them, and shows no values"),
    choice("log-format", LOG_FORMATS, "legacy").no_effect(ONE_FORMAT),
    choice("log-timestamp-format", TIMESTAMPS, "legacy").no_effect(ONE_FORMAT),
    text("availability-zone", super::anything, "").no_effect("clients are not told of zones"),
    yes_no("extended-redis-compatibility", "no")
        .no_effect("the server answers as Redis in any case"),
    yes_no("import-mode", "no").refused("keys that are due go while data is copied in, too"),
    optional("hash-seed").immutable().no_effect("cursors do not depend on a seed"),
    int("prefetch-batch-max-size", 0, 128, "16")
        .no_effect("all requests of a batch are prefetched"),
    int("active-defrag-cycle-us", 0, 100_000, "500")
        .no_effect("active defragmentation is not built"),
    choice("rdb-version-check", VERSION_CHECK, "strict")
        .refused("files of unknown versions are not read"),
    yes_no("dual-channel-replication-enabled", "no")
        .no_effect("each copy has a thread and a snapshot of its own"),
    yes_no("mptcp", "no").immutable().refused("multipath TCP is not built"),
    yes_no("repl-mptcp", "no").immutable().refused("multipath TCP is not built"),
    int("tls-auto-reload-interval", 0, INT_MAX, "0")
        .refused("certificates are read again at SIGHUP and at CONFIG SET"),
    optional("unixsocketgroup").immutable().refused("the socket keeps the group of the server"),
    int("rdma-port", 0, 65535, "0").refused(NO_RDMA),
    optional("rdma-bind").no_effect(NO_RDMA),
    int("rdma-rx-size", 64 << 10, 16 << 20, "1048576").immutable().no_effect(NO_RDMA),
    int("rdma-completion-vector", -1, 1024, "-1").immutable().no_effect(NO_RDMA),
    optional("cluster-announce-client-ipv4").no_effect(NO_CLUSTER),
    optional("cluster-announce-client-ipv6").no_effect(NO_CLUSTER),
    int("cluster-announce-client-port", 0, 65535, "0").no_effect(NO_CLUSTER),
    int("cluster-announce-client-tls-port", 0, 65535, "0").no_effect(NO_CLUSTER),
    optional("cluster-announce-human-nodename").no_effect(NO_CLUSTER),
    int("cluster-blacklist-ttl", 0, ULONG_MAX, "60").no_effect(NO_CLUSTER),
    choice("cluster-config-save-behavior", SAVE_BEHAVIOR, "sync").no_effect(NO_CLUSTER),
    int("cluster-databases", 1, INT_MAX, "1").immutable().no_effect(NO_CLUSTER),
    int("cluster-manual-failover-timeout", 1, INT_MAX, "5000").no_effect(NO_CLUSTER),
    int("cluster-slot-migration-log-max-len", 0, LONG_MAX, "1000").no_effect(NO_CLUSTER),
    yes_no("cluster-slot-stats-enabled", "no").no_effect(NO_CLUSTER),
    // For Valkey's own tests.
    yes_no("enable-debug-assert", "no").hidden().no_effect("DEBUG ASSERT is not built"),
    memory("slot-migration-max-failover-repl-bytes", -1, LONG_MAX, "0").no_effect(NO_CLUSTER),
];
