//! Flags with db_bench's names and meanings.

use crate::old_versions::Reread;
use crate::ycsb::Distribution;
use sexton_engine::{Compression, DeleteMode, MemtableKind, SyncPolicy};
use std::path::PathBuf;

/// Answer of `--help`; the flags below it come from the table.
const HELP: &str = "\
flsm-bench: db_bench's benchmarks on the FLSM-tree, without a server

usage: flsm-bench [--flag=value ...]

As in db_bench, --num counts keys PER THREAD: with --threads=4 --benchmarks=fillseq --num=2000000 each
thread writes all 2,000,000 keys, 8,000,000 operations on 2,000,000 keys. --reads and --deletes count
per thread, too. Keys are eight bytes big endian and '0' up to --key_size. Writes go through the log
(RESP commands, the server's own), unless --disable_wal=1.

Times: micros/op is a thread's time for one operation, ops/sec is of all threads by the wall clock. The
--json file has besides the CPU of the whole process for one operation, flush and compaction included.

benchmarks:
  noop            keys and values are made and nothing is done with them: what the bench costs
  fillseq fillrandom overwrite filluniquerandom fillsync updaterandom
  deleteseq deleterandom
  readrandom readmissing readhot readseq readreverse seekrandom
  readwhilewriting seekrandomwhilewriting readrandomwriterandom
  deleteheadinsert put at the tail, delete at the head
  queue           the same with a seek to the head after each: the seek's cost over time
  trap            deletes the first --deletes keys, then reads at the head: before, at once, again,
                  reopened, and once burial has run
  graves          readrandom without graves and with --graves of them
  ycsbload        YCSB's load phase: --num records, of all threads together, on an empty store
  ycsba ycsbb ycsbc ycsbd ycsbf ycsbg ycsbh
                  one run of --operations on them, of all threads together: read 50 update 50; read 95
                  update 5; read 100; read 95 insert 5, latest; read 50 read-modify-write 50; insert
                  100; insert 50 read 50
  mvccundo        the MVCC study: A inserts, opens a snapshot and reads all; B, C and D overwrite all in
                  turn; A reads all again, as --rereads say
  heldsnapshot    --overwrites times as many overwrites as keys, under a snapshot with --held_snapshot=1;
                  then reads of the newest state, and the sizes of tree and undo runs
  getgraves       CPU of a Get beside no graves, --graves, and ten times as many, which a snapshot keeps
  massdelete      fillseq, then all keys are deleted in scattered order: the cemetery's memory meanwhile
  flush waitforcompaction stats reopen
  recover         opens the store as the last process left it, and says how long that took

A memtable that cannot be frozen yet may grow to twice --write_buffer_size before writers wait.

flags, with their defaults:
";

/// Most memtables with a log.
const WRITE_BUFFERS_MAX: usize = 64;

/// What the tool was told to do. Sizes in bytes unless said otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Flags {
    pub(crate) benchmarks: Vec<String>,
    pub(crate) db: PathBuf,
    pub(crate) use_existing_db: bool,
    pub(crate) num: u64,
    /// `None`: as many as `num`.
    reads: Option<u64>,
    deletes: Option<u64>,
    pub(crate) delete_mode: DeleteMode,
    pub(crate) threads: usize,
    pub(crate) key_size: usize,
    pub(crate) value_size: usize,
    sync: bool,
    disable_wal: bool,
    /// In place of `sync` and `disable_wal`.
    mode: Option<SyncPolicy>,
    /// Memtables in persistent memory, and no log.
    pub(crate) write_behind: bool,
    pub(crate) pmem_dir: Option<PathBuf>,
    pub(crate) pmem_size: Option<u64>,
    pub(crate) pmem_profile: Option<String>,
    pub(crate) wal_dir: Option<PathBuf>,
    pub(crate) wal_profile: Option<String>,
    pub(crate) db_profile: Option<String>,
    operations: Option<u64>,
    /// `None`: the workload's own.
    pub(crate) request_distribution: Option<Distribution>,
    pub(crate) cache_size: usize,
    /// `None`: as the engine's default.
    pub(crate) dram_size: Option<usize>,
    pub(crate) write_buffer_size: u64,
    pub(crate) max_write_buffer_number: usize,
    pub(crate) direct_io: bool,
    pub(crate) bloom_bits: u8,
    pub(crate) compression: Compression,
    pub(crate) compression_ratio: f64,
    pub(crate) memtable: MemtableKind,
    pub(crate) histogram: bool,
    pub(crate) seed: u64,
    pub(crate) duration_s: u64,
    pub(crate) seek_nexts: u64,
    pub(crate) read_random_percent: u64,
    pub(crate) write_rate_limit: u64,
    pub(crate) queue_length: u64,
    pub(crate) graves: u64,
    pub(crate) undo_dir: Option<PathBuf>,
    pub(crate) undo_profile: Option<String>,
    pub(crate) rereads: Vec<Reread>,
    pub(crate) overwrites: u64,
    pub(crate) held_snapshot: bool,
    pub(crate) cemetery_max_memory: u64,
    pub(crate) settle_s: u64,
    pub(crate) json: Option<PathBuf>,
    pub(crate) progress: bool,
    /// As given, for the report.
    pub(crate) given: Vec<(String, String)>,
}

impl Default for Flags {
    fn default() -> Self {
        let benchmarks = ["fillseq", "fillrandom", "overwrite", "readrandom", "readseq"];
        Self {
            benchmarks: benchmarks.map(str::to_owned).to_vec(),
            db: std::env::temp_dir().join("flsm-bench"),
            use_existing_db: false,
            num: 1_000_000,
            reads: None,
            deletes: None,
            delete_mode: DeleteMode::Cemetery,
            threads: 1,
            key_size: 16,
            value_size: 100,
            sync: false,
            disable_wal: false,
            mode: None,
            write_behind: false,
            pmem_dir: None,
            pmem_size: None,
            pmem_profile: None,
            wal_dir: None,
            wal_profile: None,
            db_profile: None,
            operations: None,
            request_distribution: None,
            cache_size: 32 << 20,
            dram_size: None,
            write_buffer_size: 64 << 20,
            max_write_buffer_number: 2,
            direct_io: false,
            bloom_bits: 10,
            compression: Compression::Lz4,
            compression_ratio: 0.5,
            memtable: MemtableKind::Hash,
            histogram: false,
            seed: 0,
            duration_s: 0,
            seek_nexts: 0,
            read_random_percent: 90,
            write_rate_limit: 0,
            queue_length: 1000,
            graves: 1_000_000,
            undo_dir: None,
            undo_profile: None,
            rereads: Reread::ALL.to_vec(),
            overwrites: 20,
            held_snapshot: false,
            cemetery_max_memory: 64 << 20,
            settle_s: 60,
            json: None,
            progress: true,
            given: Vec::new(),
        }
    }
}

/// Names, defaults and one line about each flag.
const TABLE: &[(&str, &str, &str)] = &[
    ("benchmarks", "fillseq,fillrandom,overwrite,readrandom,readseq", "run in this order"),
    ("db", "TMPDIR/flsm-bench", "directory of the store; emptied first"),
    ("use_existing_db", "0", "keep what is in it"),
    ("num", "1000000", "keys, per thread"),
    ("reads", "-1", "reads per thread; -1: as --num"),
    (
        "deletes",
        "-1",
        "deletes per thread; -1: as --num. Also cemetery | tombstones, as --delete_mode",
    ),
    (
        "delete_mode",
        "cemetery",
        "how deletes are kept: cemetery | tombstones (an ordinary LSM-tree)",
    ),
    ("threads", "1", ""),
    ("key_size", "16", ""),
    ("value_size", "100", ""),
    ("sync", "0", "each write waits until it is durable"),
    ("disable_wal", "0", "no log: the store is empty at the next start"),
    ("mode", "", "none | no | everysec | always | wbl, in place of --sync and --disable_wal"),
    (
        "pmem_dir",
        "DB/pmem",
        "directory of the memtables with --mode=wbl; pool files in it go first",
    ),
    ("pmem_size", "-1", "what they may take; -1: 1 GB, or eight times --write_buffer_size"),
    (
        "pmem_profile",
        "",
        "any memory counts as persistent, with the bandwidth of this device: optane-pmem",
    ),
    ("wal_dir", "", "directory of the log, on another device; emptied first"),
    ("wal_profile", "", "the log has the delays of this device (config/profiles.conf)"),
    ("db_profile", "", "the tables have, and the log too without --wal_profile"),
    ("operations", "-1", "of a YCSB run, all threads; -1: as --num"),
    ("request_distribution", "", "uniform | zipfian | latest, in place of the workload's own"),
    ("cache_size", "33554432", "cache of table blocks"),
    ("dram_size", "-1", "bound of the DRAM table; -1: twice --write_buffer_size; 0: none"),
    ("write_buffer_size", "67108864", "size of a memtable"),
    (
        "max_write_buffer_number",
        "2",
        "memtables at most, the active one included; not with --mode=wbl",
    ),
    (
        "use_direct_io_for_flush_and_compaction",
        "0",
        "tables are written and merged past the page cache",
    ),
    ("bloom_bits", "10", "filter bits a key; 0: no filter"),
    ("compression_type", "lz4", "lz4 | zstd (last level, lz4 above) | none"),
    ("compression_ratio", "0.5", "share that compression leaves of a value"),
    ("memtable", "hash", "hash | skiplist"),
    ("histogram", "0", "time each operation"),
    ("seed", "0", "of keys and values; 0: a fixed one"),
    ("duration", "0", "seconds for benchmarks with random keys; 0: by count"),
    ("seek_nexts", "0", "steps after each seek"),
    ("readwritepercent", "90", "reads of readrandomwriterandom, in percent"),
    ("benchmark_write_rate_limit", "0", "bytes/s of the writer of ...whilewriting; 0: none"),
    ("queue_length", "1000", "entries in the queue"),
    ("graves", "1000000", "keys that `graves` deletes, and a tenth of what `getgraves` does"),
    ("undo_dir", "DB", "undo runs lie below it, on another device; those there go first"),
    (
        "undo_profile",
        "",
        "profile of the device that undo runs are emulated on; disk: a device without delays of its own; \
            none: that of the tables",
    ),
    (
        "rereads",
        "ahead,block,single,batch",
        "how A reads again: a scan, with and without read-ahead; --reads gets in random order, one by \
            one and in one ordered batch",
    ),
    ("overwrites", "20", "writes of heldsnapshot, as a multiple of --num"),
    ("held_snapshot", "0", "heldsnapshot opens one before it overwrites"),
    (
        "cemetery_max_memory",
        "67108864",
        "bytes of graves before they spill to the device; 0: no bound",
    ),
    ("settle", "60", "seconds that waitforcompaction and trap wait at most"),
    ("json", "", "file for the figures"),
    ("progress_reports", "1", "progress on standard error"),
];

/// What the command line asks for.
pub(crate) enum Request {
    Help(String),
    Run(Box<Flags>),
}

/// Sizes above these are refused: a typing error should not fill a device.
const KEY_SIZE_MAX: usize = 1 << 16;
const VALUE_SIZE_MAX: usize = 64 << 20;
const THREADS_MAX: usize = 1024;

impl Flags {
    /// Reads the command line.
    ///
    /// # Errors
    /// An unknown flag, or a value that is none of its values.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Request, String> {
        let mut flags = Self::default();
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            let Some(flag) = argument.strip_prefix("--") else {
                return Err(format!("not a flag: {argument} (see --help)"));
            };
            if flag == "help" {
                return Ok(Request::Help(Self::help()));
            }
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                None => match arguments.next_if(|next| !next.starts_with("--")) {
                    Some(value) => (flag.to_owned(), value),
                    None => (flag.to_owned(), "1".to_owned()),
                },
            };
            let name = name.replace('-', "_");
            flags.set(&name, &value).map_err(|what| format!("--{name}={value}: {what}"))?;
            flags.given.push((name, value));
        }
        flags.check()?;
        Ok(Request::Run(Box::new(flags)))
    }

    fn help() -> String {
        let line = |(name, default, text): &(&str, &str, &str)| {
            format!("  --{:<36} {text}\n", format!("{name}={default}"))
        };
        HELP.to_owned() + &TABLE.iter().map(line).collect::<String>()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "benchmarks" => {
                self.benchmarks =
                    value.split(',').filter(|b| !b.is_empty()).map(str::to_owned).collect();
            }
            "db" => self.db = value.into(),
            "use_existing_db" => self.use_existing_db = switch(value)?,
            "num" => self.num = number(value)?,
            "reads" => self.reads = count(value)?,
            "deletes" => match value {
                "cemetery" | "tombstones" => return self.set("delete_mode", value),
                _ => self.deletes = count(value)?,
            },
            "delete_mode" => {
                self.delete_mode = match value {
                    "cemetery" => DeleteMode::Cemetery,
                    "tombstones" => DeleteMode::Tombstones,
                    _ => return Err("cemetery or tombstones".into()),
                }
            }
            "threads" => self.threads = number(value)?,
            "key_size" => self.key_size = number(value)?,
            "value_size" => self.value_size = number(value)?,
            "sync" => self.sync = switch(value)?,
            "disable_wal" => self.disable_wal = switch(value)?,
            "mode" => {
                self.write_behind = value == "wbl";
                self.mode = match value {
                    "" => None,
                    "none" => Some(SyncPolicy::Off),
                    "no" => Some(SyncPolicy::No),
                    "everysec" => Some(SyncPolicy::EverySec),
                    // Without a log each write is durable at its fence.
                    "always" | "wbl" => Some(SyncPolicy::Always),
                    _ => return Err("none, no, everysec, always or wbl".into()),
                }
            }
            "pmem_dir" => self.pmem_dir = (!value.is_empty()).then(|| value.into()),
            "pmem_size" => self.pmem_size = count(value)?,
            "pmem_profile" => self.pmem_profile = (!value.is_empty()).then(|| value.into()),
            "wal_dir" => self.wal_dir = (!value.is_empty()).then(|| value.into()),
            "wal_profile" => self.wal_profile = (!value.is_empty()).then(|| value.into()),
            "db_profile" => self.db_profile = (!value.is_empty()).then(|| value.into()),
            "operations" => self.operations = count(value)?,
            "request_distribution" => {
                self.request_distribution = match value {
                    "" => None,
                    "uniform" => Some(Distribution::Uniform),
                    "zipfian" => Some(Distribution::Zipfian),
                    "latest" => Some(Distribution::Latest),
                    _ => return Err("uniform, zipfian or latest".into()),
                }
            }
            "cache_size" => self.cache_size = number(value)?,
            "dram_size" => {
                self.dram_size = if value == "-1" { None } else { Some(number(value)?) };
            }
            "write_buffer_size" => self.write_buffer_size = number(value)?,
            "max_write_buffer_number" => self.max_write_buffer_number = number(value)?,
            "use_direct_io_for_flush_and_compaction" => self.direct_io = switch(value)?,
            "bloom_bits" => self.bloom_bits = number(value)?,
            "compression_type" => {
                self.compression = match value {
                    "lz4" => Compression::Lz4,
                    "zstd" => Compression::Zstd,
                    "none" => Compression::None,
                    _ => return Err("lz4, zstd or none".into()),
                }
            }
            "compression_ratio" => self.compression_ratio = number(value)?,
            "memtable" | "memtablerep" => {
                self.memtable = match value {
                    "hash" => MemtableKind::Hash,
                    "skiplist" | "skip_list" => MemtableKind::SkipList,
                    _ => return Err("hash or skiplist".into()),
                }
            }
            "histogram" => self.histogram = switch(value)?,
            "seed" => self.seed = number(value)?,
            "duration" => self.duration_s = number(value)?,
            "seek_nexts" => self.seek_nexts = number(value)?,
            "readwritepercent" => self.read_random_percent = number(value)?,
            "benchmark_write_rate_limit" => self.write_rate_limit = number(value)?,
            "queue_length" => self.queue_length = number(value)?,
            "graves" => self.graves = number(value)?,
            "undo_dir" => self.undo_dir = (!value.is_empty()).then(|| value.into()),
            "undo_profile" => self.undo_profile = (!value.is_empty()).then(|| value.to_owned()),
            "rereads" => {
                let each = value.split(',').filter(|name| !name.is_empty());
                self.rereads = each.map(Reread::parse).collect::<Result<_, _>>()?;
            }
            "overwrites" => self.overwrites = number(value)?,
            "held_snapshot" => self.held_snapshot = switch(value)?,
            "cemetery_max_memory" => self.cemetery_max_memory = number(value)?,
            "settle" => self.settle_s = number(value)?,
            "json" => self.json = (!value.is_empty()).then(|| value.into()),
            "progress_reports" => self.progress = switch(value)?,
            _ => return Err("no such flag".into()),
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let limits = [
            ("key_size", self.key_size, 1, KEY_SIZE_MAX),
            ("value_size", self.value_size, 0, VALUE_SIZE_MAX),
            ("threads", self.threads, 1, THREADS_MAX),
            ("num", usize::from(self.num > 0), 1, 1),
            ("queue_length", usize::from(self.queue_length > 0), 1, 1),
            ("readwritepercent", self.read_random_percent as usize, 0, 100),
            ("write_buffer_size", self.write_buffer_size as usize, 1 << 16, 1 << 34),
            ("max_write_buffer_number", self.max_write_buffer_number, 2, WRITE_BUFFERS_MAX),
        ];
        for (name, value, min, max) in limits {
            if value < min || value > max {
                return Err(format!("--{name} must be between {min} and {max}"));
            }
        }
        if !(0.0..=1.0).contains(&self.compression_ratio) {
            return Err("--compression_ratio must be between 0 and 1".into());
        }
        Ok(())
    }

    /// Reads of one thread.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.unwrap_or(self.num)
    }

    /// Operations of a YCSB run, of all threads.
    pub(crate) fn operations(&self) -> u64 {
        self.operations.unwrap_or(self.num)
    }

    /// How the log is synced.
    pub(crate) fn sync_policy(&self) -> SyncPolicy {
        self.mode.unwrap_or(match (self.disable_wal, self.sync) {
            (true, _) => SyncPolicy::Off,
            (false, true) => SyncPolicy::Always,
            (false, false) => SyncPolicy::No,
        })
    }

    /// Deletes of one thread.
    pub(crate) fn deletes(&self) -> u64 {
        self.deletes.unwrap_or(self.num)
    }
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| "not a number of its range".to_owned())
}

/// A number of operations; below zero: the default.
fn count(value: &str) -> Result<Option<u64>, String> {
    if value.starts_with('-') { Ok(None) } else { Ok(Some(number(value)?)) }
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err("0 or 1".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Flags, String> {
        match Flags::parse(line.split_whitespace().map(str::to_owned))? {
            Request::Run(flags) => Ok(*flags),
            Request::Help(_) => Err("help".into()),
        }
    }

    #[test]
    fn flags_are_read_as_db_bench_reads_them() {
        let flags = parse("--benchmarks=fillseq,deleteseq --num=7 --deletes=3 --threads 4 --sync");
        let flags = flags.expect("valid");
        assert_eq!(flags.benchmarks, ["fillseq", "deleteseq"]);
        assert_eq!((flags.num, flags.reads(), flags.deletes()), (7, 7, 3));
        assert_eq!((flags.threads, flags.sync_policy()), (4, SyncPolicy::Always));
        assert_eq!(parse("--deletes=-1 --num=9").expect("valid").deletes(), 9);
    }

    #[test]
    fn deletes_is_a_number_or_how_they_are_kept() {
        let flags = parse("--deletes=tombstones --num=5").expect("valid");
        assert_eq!((flags.delete_mode, flags.deletes()), (DeleteMode::Tombstones, 5));
    }

    #[test]
    fn wrong_flags_are_refused() {
        for line in [
            "--nonsense=1",
            "--num=x",
            "--num=0",
            "--sync=2",
            "fillseq",
            "--bloom_bits=300",
            "--threads=0",
            "--compression_ratio=2",
            "--memtable=tree",
            "--mode=wbl2",
            "--request_distribution=hot",
            "--rereads=twice",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_flag_of_the_table_is_known() {
        for (name, _, _) in TABLE {
            let known = Flags::default().set(name, "1").err();
            assert_ne!(known.as_deref(), Some("no such flag"), "{name}");
        }
    }
}
