//! Reading a file into the store.

use crate::clock::now_ms;
use crate::devices;
use crate::jobs::eviction;
use crate::keyspace::collection::Thresholds;
use crate::keyspace::{NotStored, from_dumped, paged};
use crate::log;
use crate::observe::now_s;
use crate::resp::{command_bytes, write_command};
use crate::scripting::{Libraries, Library};
use crate::server::Server;
use crate::state::loading::Loading;
use sexton_engine::{
    KEY_MAX_BYTES, Key, Latched, Meta, OWN_RECORDS, TxBuf, VALUE_MAX_BYTES, key_too_long,
};
use sexton_persistence::rdb::{self, Input, KeyRecord, Reader, Record, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Keys between two notes of the progress.
const KEYS_A_NOTE: u64 = 256;

/// How long a writer rests that must wait for the log or for a flush.
const PACE: Duration = Duration::from_millis(1);

/// Collections without elements whose keys are named in the log.
const EMPTY_KEYS_NAMED: u64 = 10;

/// What a file brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys that are in the store now.
    pub loaded: u64,
    /// Keys whose time had come.
    pub expired: u64,
    /// Collections without elements, which are not stored.
    pub empty: u64,
}

/// Loads keys into a store. Its logical databases must be those of the files.
pub struct Loader<'s> {
    server: &'s Server,
    buf: TxBuf,
    delay: Duration,
    counts: Counts,
    /// A function library takes the place of one of its name.
    merges: bool,
    /// Bytes of the files before this one.
    bytes_before: u64,
}

impl std::fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl<'s> Loader<'s> {
    /// A loader into the store of `server`.
    #[must_use]
    pub fn new(server: &'s Server) -> Self {
        let delay_us = server.config.options().key_load_delay_us;
        let delay = Duration::from_micros(u64::try_from(delay_us).unwrap_or(0));
        Self {
            server,
            buf: TxBuf::default(),
            delay,
            counts: Counts::default(),
            merges: false,
            bytes_before: 0,
        }
    }

    fn loading(&self) -> &'s Loading {
        &self.server.loading
    }

    /// What has come so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Loads one RDB file, or the one that another file begins with.
    ///
    /// # Errors
    /// A text that names the key, where it is about one: damage, or something this server cannot
    /// store. What was loaded before stays; the caller must not serve it.
    pub fn load<'i>(&mut self, input: Input<'i>) -> Result<Input<'i>, String> {
        let reader = Reader::open(input).map_err(|error| error.to_string())?;
        let mut reader = reader.taking_any_checksum(self.server.observe.skips_checksums());
        let mut db = 0;
        while let Some(record) = reader.next_record().map_err(|error| error.to_string())? {
            match record {
                Record::SelectDb(number) => {
                    let databases = self.server.databases;
                    db = usize::try_from(number).unwrap_or(usize::MAX);
                    if db >= databases {
                        return Err(format!(
                            "database {number}: this server is configured to handle {databases}"
                        ));
                    }
                }
                Record::Key(entry) => self.put(db, *entry)?,
                Record::Function(text) => self.put_library(&text)?,
                Record::ModuleAux(name) => {
                    return Err(format!("data of the module type '{name}'"));
                }
                Record::Aux(name, value) => self.remark(&name, &value),
                Record::ResizeDb { .. } | Record::SlotInfo => {}
            }
            if (self.counts.loaded + self.counts.expired).is_multiple_of(KEYS_A_NOTE) {
                self.note(reader.progress().0);
            }
        }
        self.note(reader.progress().0);
        self.bytes_before += reader.progress().0;
        Ok(reader.into_input())
    }

    /// What the file says about itself goes to the log, as in Redis.
    fn remark(&self, name: &[u8], value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        let number = || text.parse::<u64>().unwrap_or(0);
        match name {
            b"redis-ver" => log::notice(&format!("Loading RDB produced by version {text}")),
            b"ctime" => {
                let age_s = now_s().saturating_sub(number());
                log::notice(&format!("RDB age {age_s} seconds"));
            }
            b"used-mem" => {
                self.loading().note_used_mem(number());
                let megabytes = number() as f64 / f64::from(1 << 20);
                log::notice(&format!("RDB memory usage when created {megabytes:.2} Mb"));
            }
            [b'%', ..] => log::notice(&format!("RDB '{}': {text}", name.escape_ascii())),
            _ => {}
        }
    }

    fn note(&self, bytes: u64) {
        self.loading().note_bytes(self.bytes_before + bytes);
        self.loading().note_keys(self.counts.loaded, self.counts.expired);
    }

    fn put(&mut self, db: usize, entry: KeyRecord) -> Result<(), String> {
        let now_ms = now_ms();
        let expire_at_ms = entry.expire_at_ms.unwrap_or(0);
        if entry.expire_at_ms.is_some_and(|time| time <= now_ms) {
            self.counts.expired += 1;
            return Ok(());
        }
        if entry.key.len() > KEY_MAX_BYTES {
            return Err(format!("database {db}: {}", key_too_long(&entry.key)));
        }
        let thresholds = Thresholds::of(&self.server.config.options());
        let payload = match &entry.value {
            Value::String(_) => None,
            collection => rdb::dump(collection),
        };
        let (flags, value) = match from_dumped(entry.value, &thresholds) {
            Ok(stored) => stored,
            Err(NotStored::Empty) => {
                self.pass_over(&entry.key);
                return Ok(());
            }
            Err(NotStored::Type(name)) => {
                let key = entry.key.escape_ascii();
                return Err(format!(
                    "key '{key}' of database {db} is of type {name}, which this version cannot store"
                ));
            }
            Err(NotStored::Damaged) => {
                let key = entry.key.escape_ascii();
                return Err(format!("key '{key}' of database {db} has a damaged value"));
            }
        };
        if value.len() as u64 > VALUE_MAX_BYTES {
            let (key, bytes) = (entry.key.escape_ascii(), value.len());
            return Err(format!(
                "key '{key}' of database {db} has a value of {bytes} bytes, at most {VALUE_MAX_BYTES} can be stored"
            ));
        }
        self.wait_for_room()?;
        let engine = &self.server.engine;
        let hash = engine.hash(&entry.key);
        let mut tx = engine.begin(Latched::Hashes(&[hash]), &mut self.buf);
        let key = Key { slot: engine.slot_of(db), bytes: &entry.key, hash };
        let inline_max_bytes = self.server.settings.thresholds.inline_bytes();
        paged::put(&mut tx, key, Meta { flags, expire_at_ms }, &value, inline_max_bytes);
        let access = &self.server.eviction.access;
        if let Some(field) = access.restored(entry.idle_s, entry.frequency, now_ms) {
            tx.set_access(key, field);
        }
        let mut digits = itoa::Buffer::new();
        let time = digits.format(expire_at_ms).as_bytes();
        // One command a key, as it is one operation: a collection comes back from the log as a whole, too.
        let command: &[&[u8]] = match (&payload, expire_at_ms) {
            (Some(payload), _) => &[b"RESTORE", &entry.key, time, payload, b"REPLACE", b"ABSTTL"],
            (None, 0) => &[b"SET", &entry.key, &value],
            (None, _) => &[b"SET", &entry.key, &value, b"PXAT", time],
        };
        write_command(tx.log_form(db), command.iter().copied());
        tx.commit();
        engine.kick_log();
        self.counts.loaded += 1;
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        Ok(())
    }

    /// A collection without elements is no key. The log names the first ones, as in Redis.
    fn pass_over(&mut self, key: &[u8]) {
        self.counts.empty += 1;
        if self.counts.empty <= EMPTY_KEYS_NAMED {
            log::notice(&format!("skipping empty key: {}", key.escape_ascii()));
        }
    }

    fn put_library(&mut self, text: &[u8]) -> Result<(), String> {
        let failed = |text: &[u8]| format!("a function library: {}", String::from_utf8_lossy(text));
        let library = Arc::new(Library::new(text, None).map_err(|text| failed(&text))?);
        self.wait_for_room()?;
        let (engine, functions) = (&self.server.engine, &self.server.functions);
        let name = library.name.clone();
        let hash = engine.hash(name.as_bytes());
        let key = Key { slot: engine.slot_of(OWN_RECORDS), bytes: name.as_bytes(), hash };
        let mut tx = engine.begin(Latched::All, &mut self.buf);
        let mut libraries = Libraries::clone(&functions.current());
        libraries.add(library, self.merges).map_err(|not_added| failed(&not_added.text()))?;
        functions.change(libraries);
        tx.put(key, Meta::default(), text);
        tx.log(0, &command_bytes(&[b"FUNCTION", b"LOAD", b"REPLACE", text]));
        functions.keep();
        tx.commit();
        engine.kick_log();
        Ok(())
    }

    /// Waits as any writer would. Policies that delete keys do so here too.
    fn wait_for_room(&mut self) -> Result<(), String> {
        eviction::make_room(self.server, &mut self.buf, 1);
        while self.server.engine.must_wait() {
            std::thread::sleep(PACE);
        }
        if self.server.loading.is_aborted() {
            return Err("the load was called off".into());
        }
        self.server.engine.write_refusal().map_or(Ok(()), Err)
    }
}

/// Loads an RDB file.
///
/// # Errors
/// As [`Loader::load`]; the text begins with the path.
pub fn load_file(server: &Server, path: &Path) -> Result<Counts, String> {
    merge_file(server, path, false)
}

/// [`load_file`], where function libraries that are there may be replaced.
///
/// # Errors
/// As [`Loader::load`]; the text begins with the path.
pub fn merge_file(server: &Server, path: &Path, merges: bool) -> Result<Counts, String> {
    let file = devices::open_to_read(&*server.storage(), path).map_err(|e| e.to_string())?;
    let size = file.len();
    let mut loader = Loader { merges, ..Loader::new(server) };
    loader
        .load(Input::stream(file, size))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(loader.counts())
}
