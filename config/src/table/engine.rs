//! Sexton's own directives: threads, memtable, tree, cemetery, undo runs, devices.

use super::persistence::is_base_name;
use super::{INT_MAX, LONG_MAX, choice, int, memory, optional, special, text, yes_no};
use crate::directive::Directive;
use crate::kind::Kind;

const COMPRESSION: &[(&str, u8)] = &[("none", 0), ("lz4", 1), ("zstd", 2)];
const MEMTABLE: &[(&str, u8)] = &[("hash", 0), ("skiplist", 1)];
const DELETES: &[(&str, u8)] = &[("cemetery", 0), ("tombstones", 1)];
const PERSISTENCE_MODE: &[(&str, u8)] = &[("log", 0), ("wbl", 1)];
const UNDO_FULL: &[(&str, u8)] = &[("refuse-snapshots", 0), ("expire-oldest", 1)];
const EXPORTS: &[(&str, u8)] = &[("report", 0), ("rewrite", 1)];
const TLS_USER: &[(&str, u8)] = &[("off", 0), ("CN", 1), ("URI", 2)];
const NOT_BUILT: &str = "not built yet";

pub(super) const TABLE: &[Directive] = &[
    int("worker-threads", 0, 1024, "0")
        .immutable()
        .doc("Threads that serve connections; 0 means one less than the cores, at least 1."),
    int("cold-read-threads", 1, 1024, "2")
        .immutable()
        .doc("Threads that read keys from the device for commands that miss the DRAM table."),
    memory("memtable-bytes", 1 << 16, 1 << 40, "64mb")
        .immutable()
        .doc("Bytes of a memtable before it is frozen; at most a thirty-second part of maxmemory. Without maxmemory, values that memory has anyway count a quarter."),
    int("max-write-buffer-number", 0, 64, "0").immutable().doc(
        "Memtables that there may be with persistence-mode log, the active one included, at least 2: when all \
            are full, writers wait for a flush. 0 for 2; with level 0 on a device of kind hdd and without \
            maxmemory for as many as 2gb holds, or an eighth of the machine's memory. With wbl \
            memtable-pool-bytes is the bound.",
    ),
    choice("memtable", MEMTABLE, "hash").immutable().doc(
        "How memtables find and order their records: hash, sorted when needed; or skiplist, as they \
            are written, for comparison.",
    ),
    memory("resident-value-max", 0, LONG_MAX, "0").refused(NOT_BUILT).doc(
        "Values above this many bytes are worked on by element records, not loaded; 0 \
            means a sixteenth of maxmemory (rule N18).",
    ),
    memory("block-cache-bytes", 0, 1 << 50, "32mb")
        .immutable()
        .doc("Bytes of decompressed table blocks kept in DRAM."),
    int("filter-bits-per-key", 0, 64, "10")
        .immutable()
        .doc("Bits of the Bloom filter per key; 0 writes tables without filter."),
    choice("compression-upper", COMPRESSION, "none")
        .immutable()
        .doc("Block compression of the first level, whose tables are rewritten soon."),
    choice("compression", COMPRESSION, "lz4")
        .immutable()
        .doc("Block compression of the levels between the first and the last."),
    choice("compression-bottom", COMPRESSION, "lz4")
        .immutable()
        .doc("Block compression of the last level, which holds most of the data."),
    choice("deletes", DELETES, "cemetery").immutable().doc(
        "How deletes are kept, fixed when a store is made: cemetery keeps them beside the tree; \
            tombstones makes an ordinary LSM-tree of the same engine, for comparison.",
    ),
    yes_no("share-values", "yes").immutable().doc(
        "Whether a long value lies in memory once, for memtable and table, where no log keeps it.",
    ),
    yes_no("tree-direct-io", "yes").immutable().doc(
        "Whether flushes and compactions read and write past the page cache: syncs of the log then do \
            not wait for tables; with no, what was just written is read from memory.",
    ),
    int("compaction-threads", 0, 64, "0").immutable().doc(
        "Threads that share one large compaction; 0 means half of the cores, at most 4.",
    ),
    memory("compaction-rate-limit", 0, 1 << 50, "0").immutable().doc(
        "Bytes that compactions may write per second; 0 means no bound. Flushes have none.",
    ),
    memory("collection-inline-max", 0, 1 << 30, "2kb").doc(
        "Longest collection that lies whole in the record of its key; a longer one lies in pages, and \
            a command on it touches those that it needs.",
    ),
    memory("cemetery-max-memory", 1 << 16, 1 << 40, "64mb")
        .doc("Bytes of graves kept in DRAM before they spill to grave runs on the device."),
    int("delete-persist-seconds", 0, INT_MAX, "0").doc(
        "Seconds after which a deleted key must be gone from every file of the store (rule N17); 0 \
            means no limit.",
    ),
    choice("delete-persist-exports", EXPORTS, "report")
        .refused(NOT_BUILT)
        .doc("What happens to dump.rdb and other exports older than delete-persist-seconds."),
    memory("aof-buffer-limit", 1 << 16, 1 << 40, "64mb")
        .immutable()
        .doc("Bytes of log not yet written at which writers wait (rule N14)."),
    memory("aof-segment-bytes", 0, 1 << 40, "0")
        .immutable()
        .doc("Bytes of a log segment; 0 means a quarter more than those of a memtable. At least 1 MB."),
    optional("aof-archive-dir").immutable().doc(
        "Directory, relative to dir, where log segments that the store needs no more are kept for \
            point-in-time recovery; empty means they are used again or removed.",
    ),
    choice("persistence-mode", PERSISTENCE_MODE, "log").immutable().doc(
        "log writes ahead to the append only file; wbl keeps the memtable in persistent memory \
            instead, and needs memtable-device.",
    ),
    special("device", Kind::Devices, "\"\"")
        .immutable()
        .doc("NAME kind hdd|ssd|nvme|pmem path DIR [emulate PROFILE]; one line a device."),
    optional("device-profiles")
        .immutable()
        .doc("File with profiles of emulated devices, in the form of profiles.conf."),
    optional("aof-device")
        .immutable()
        .doc("Device of the append only file; empty means dir."),
    optional("rdb-device")
        .immutable()
        .doc("Device of dbfilename; empty means dir."),
    special("tree-device", Kind::LevelDevices, "\"\"").immutable().doc(
        "[LEVELS] NAME: device of the tables of these levels (0-1, 3; 0 is the newest, 6 the last); without \
            LEVELS that of the tree itself and of all other levels; empty means dir.",
    ),
    optional("undo-device").immutable().doc(
        "Device of versions that only open snapshots need (undo runs), wiped at start; empty means dir.",
    ),
    optional("memtable-device").immutable().doc(
        "Device of kind pmem that the memtables lie on, for persistence-mode wbl.",
    ),
    memory("memtable-pool-bytes", 0, 1 << 50, "0").immutable().doc(
        "Bytes of the memtable device that memtables may take, those that wait for their flush \
            included; 0 means 1 GB, or eight times memtable-bytes where that is more.",
    ),
    special("aof-route", Kind::SizeRoutes, "\"\"").immutable().doc(
        "BYTES NAME ...: log records with an argument of at least BYTES bytes go to the device NAME; empty \
            means all go to aof-device.",
    ),
    memory("undo-max-bytes", 0, LONG_MAX, "0")
        .doc("Bytes of versions that only open snapshots need, on the device; 0 means no limit."),
    choice("undo-full", UNDO_FULL, "refuse-snapshots").doc(
        "What happens at undo-max-bytes: refuse-snapshots opens no more, and what the open ones need \
            stays among the newest data; expire-oldest ends the oldest ones.",
    ),
    memory("disk-max-bytes", 0, LONG_MAX, "0").doc(
        "Bytes that tables, log and old versions may take on all devices together; from there on commands that need \
            room are answered with an error, and reads and deletes go on. 0 means no limit.",
    ),
    int("snapshots-max", 1, 1 << 20, "1024")
        .immutable()
        .doc("Snapshots that may be open at once, those of sessions and of background work."),
    int("snapshot-max-age", 0, INT_MAX, "3600").doc(
        "Seconds after which the snapshot of a session (SEXTON.SNAPSHOT OPEN) ends by itself; 0 \
            means never.",
    ),
    choice("tls-auth-clients-user", TLS_USER, "off").doc(
        "What of a client's certificate names its user, as in Valkey: CN, the common name of its subject; URI, the \
            first of its URIs that is a user; off, nothing.",
    ),
    int("metrics-port", 0, 65535, "0").immutable().doc(
        "Port of the Prometheus text, of /health and /ready, and of a status page, over HTTP (docs/monitoring.md); \
            0 means off.",
    ),
    special("metrics-bind", Kind::Bind, "127.0.0.1 -::1").immutable().doc(
        "Addresses that metrics-port listens on, as bind has them. Nobody is asked for a password there.",
    ),
    // Redis has these two from 8.10 on.
    text("backupdirname", backup_dirname, "backupdir")
        .immutable()
        .doc("Directory in dir that BACKUP makes a complete store in."),
    int("backup-sealed-ttl", 0, INT_MAX, "0").doc(
        "Seconds after which a backup that is sealed is removed by itself; 0 means never.",
    ),
];

fn backup_dirname(name: &[u8]) -> Result<(), &'static str> {
    match name {
        b"" | b"." | b".." => Err("backupdirname must be the name of a directory"),
        name if is_base_name(name) => Ok(()),
        _ => Err("backupdirname can't be a path, just a dirname"),
    }
}
