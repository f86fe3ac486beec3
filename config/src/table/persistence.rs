//! Directory, snapshots, append only file.

use super::{INT_MAX, LONG_MAX, choice, int, memory, special, text, yes_no};
use crate::directive::Directive;
use crate::kind::Kind;

const NO_REPLICATION: &str = "replication is not built yet";
const NO_REWRITE: &str = "the log is never rewritten as a whole";
const LOADS_BESIDE: &str = "clients are served by other threads than the one that loads";
const FSYNC: &[(&str, u8)] = &[("everysec", 1), ("always", 2), ("no", 0)];

pub(super) const TABLE: &[Directive] = &[
    special("dir", Kind::Dir, ".")
        .protected()
        .deny_loading()
        .doc("Created when missing; relative paths of other directives start here."),
    text("dbfilename", db_filename, "dump.rdb").protected(),
    text("import", super::anything, "").immutable().hidden().doc(
        "RDB file or log of a Redis server to load in place of the store; for the command line.",
    ),
    special("save", Kind::Save, "3600 1 300 100 60 10000"),
    yes_no("stop-writes-on-bgsave-error", "yes"),
    yes_no("rdbcompression", "yes"),
    yes_no("rdbchecksum", "yes").immutable(),
    yes_no("rdb-del-sync-files", "no").no_effect(NO_REPLICATION),
    yes_no("rdb-save-incremental-fsync", "yes"),
    int("rdb-key-save-delay", i32::MIN as i128, INT_MAX, "0").hidden(),
    int("key-load-delay", i32::MIN as i128, INT_MAX, "0").hidden(),
    int("loading-process-events-interval-bytes", 1024, INT_MAX, "2097152").hidden().no_effect(LOADS_BESIDE),
    yes_no("appendonly", "yes")
        .deny_loading()
        .doc("Our default is yes: engine files and log are the truth."),
    text("appendfilename", append_filename, "appendonly.aof").immutable(),
    text("appenddirname", append_dirname, "appendonlydir").immutable(),
    choice("appendfsync", FSYNC, "everysec"),
    yes_no("no-appendfsync-on-rewrite", "no").no_effect(NO_REWRITE),
    int("auto-aof-rewrite-percentage", 0, INT_MAX, "100").doc(
        "Growth of the log behind its base at which BGREWRITEAOF repeats itself; 0 gives the base up \
            instead. Without a base, nothing is rewritten.",
    ),
    memory("auto-aof-rewrite-min-size", 0, LONG_MAX, "64mb"),
    yes_no("aof-load-truncated", "yes"),
    yes_no("aof-use-rdb-preamble", "yes").no_effect(NO_REWRITE),
    yes_no("aof-timestamp-enabled", "no"),
    yes_no("aof-rewrite-incremental-fsync", "yes").no_effect(NO_REWRITE),
    yes_no("aof-disable-auto-gc", "no").no_effect(NO_REWRITE),
];

pub(super) fn is_base_name(name: &[u8]) -> bool {
    !name.iter().any(|b| matches!(b, b'/' | b'\\'))
}

fn db_filename(name: &[u8]) -> Result<(), &'static str> {
    if is_base_name(name) { Ok(()) } else { Err("dbfilename can't be a path, just a filename") }
}

fn append_filename(name: &[u8]) -> Result<(), &'static str> {
    match name {
        b"" => Err("appendfilename can't be empty"),
        name if is_base_name(name) => Ok(()),
        _ => Err("appendfilename can't be a path, just a filename"),
    }
}

fn append_dirname(name: &[u8]) -> Result<(), &'static str> {
    match name {
        b"" => Err("appenddirname can't be empty"),
        name if is_base_name(name) => Ok(()),
        _ => Err("appenddirname can't be a path, just a dirname"),
    }
}
