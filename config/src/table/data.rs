//! Memory, eviction, expiry, encodings of values.

use super::{INT_MAX, LONG_MAX, ULONG_MAX, choice, int, memory, special, yes_no};
use crate::directive::Directive;
use crate::kind::Kind;

const POLICIES: &[(&str, u8)] = &[
    ("volatile-lru", 0),
    ("volatile-lfu", 1),
    ("volatile-random", 2),
    ("volatile-ttl", 3),
    ("allkeys-lru", 4),
    ("allkeys-lfu", 5),
    ("allkeys-random", 6),
    ("noeviction", 7),
];
const SANITIZE: &[(&str, u8)] = &[("no", 0), ("yes", 1), ("clients", 2)];
const FREED_BY_COMPACTION: &str = "what a deleted key holds is freed beside its deletion";
const OWN_ENCODING: &str = "lists and sets are kept in a form of their own here";
const OWN_WAY: &str = "memory and expiry work in another way here";
/// Of directives that weaken checks which are always made.
const ALWAYS_CHECKED: &str = "payloads and files are always checked as with `yes`";
const NO_DEFRAG_SETTINGS: &str = "active defragmentation is not built";
const NO_DEFRAG: &str = "Active defragmentation cannot be enabled: it requires a Redis server \
    compiled with a modified Jemalloc like the one shipped by default with the Redis source \
    distribution";

pub(super) const TABLE: &[Directive] = &[
    int("databases", 1, 128, "16")
        .immutable()
        .doc("At most 128 (Redis: no bound): a database costs one byte of a namespace slot."),
    special("maxmemory", Kind::AutoMemory { max: ULONG_MAX }, "0").doc(
        "Bytes of memory of the whole process, 0 for no bound; auto is 0.8 of what the machine has, or of \
            the limit of the control group, whichever is less.",
    ),
    choice("maxmemory-policy", POLICIES, "noeviction"),
    int("maxmemory-samples", 1, INT_MAX, "5"),
    int("maxmemory-eviction-tenacity", 0, 100, "10").no_effect(OWN_WAY),
    int("lfu-log-factor", 0, INT_MAX, "10"),
    int("lfu-decay-time", 0, INT_MAX, "1"),
    int("active-expire-effort", 1, 10, "1").no_effect(OWN_WAY),
    yes_no("lazyfree-lazy-eviction", "no").no_effect(FREED_BY_COMPACTION),
    yes_no("lazyfree-lazy-expire", "no").no_effect(FREED_BY_COMPACTION),
    yes_no("lazyfree-lazy-server-del", "no").no_effect(FREED_BY_COMPACTION),
    yes_no("lazyfree-lazy-user-del", "no").no_effect(FREED_BY_COMPACTION),
    yes_no("lazyfree-lazy-user-flush", "no").no_effect(FREED_BY_COMPACTION),
    int("hash-max-listpack-entries", 0, LONG_MAX, "512")
        .alias("hash-max-ziplist-entries"),
    memory("hash-max-listpack-value", 0, LONG_MAX, "64")
        .alias("hash-max-ziplist-value"),
    int("list-max-listpack-size", i32::MIN as i128, INT_MAX, "-2")
        .alias("list-max-ziplist-size")
        .no_effect(OWN_ENCODING),
    int("list-compress-depth", 0, INT_MAX, "0").no_effect(OWN_ENCODING),
    int("set-max-intset-entries", 0, LONG_MAX, "512"),
    int("set-max-listpack-entries", 0, LONG_MAX, "128").no_effect(OWN_ENCODING),
    memory("set-max-listpack-value", 0, LONG_MAX, "64").no_effect(OWN_ENCODING),
    int("zset-max-listpack-entries", 0, LONG_MAX, "128")
        .alias("zset-max-ziplist-entries"),
    memory("zset-max-listpack-value", 0, LONG_MAX, "64")
        .alias("zset-max-ziplist-value"),
    memory("hll-sparse-max-bytes", 0, LONG_MAX, "3000"),
    memory("stream-node-max-bytes", 0, LONG_MAX, "4096"),
    int("stream-node-max-entries", 0, LONG_MAX, "100"),
    choice("sanitize-dump-payload", SANITIZE, "no").no_effect(ALWAYS_CHECKED),
    yes_no("activerehashing", "yes").no_effect(OWN_WAY),
    yes_no("jemalloc-bg-thread", "yes").no_effect(OWN_WAY),
    yes_no("activedefrag", "no").refused(NO_DEFRAG),
    int("active-defrag-cycle-min", 1, 99, "1").no_effect(NO_DEFRAG_SETTINGS),
    int("active-defrag-cycle-max", 1, 99, "25").no_effect(NO_DEFRAG_SETTINGS),
    int("active-defrag-threshold-lower", 0, 1000, "10").no_effect(NO_DEFRAG_SETTINGS),
    int("active-defrag-threshold-upper", 0, 1000, "100").no_effect(NO_DEFRAG_SETTINGS),
    int("active-defrag-max-scan-fields", 1, LONG_MAX, "1000").no_effect(NO_DEFRAG_SETTINGS),
    memory("active-defrag-ignore-bytes", 1, LONG_MAX, "100mb").no_effect(NO_DEFRAG_SETTINGS),
];
