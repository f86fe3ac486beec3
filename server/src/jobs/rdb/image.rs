//! The content of an RDB file: a snapshot and its auxiliary fields.

use super::save::{SaveError, failed};
use crate::keyspace::AnyView;
use crate::keyspace::paged::PastCollection;
use crate::observe::now_s;
use crate::server::Server;
use sexton_engine::{EngineError, IterOptions, Meta, OWN_RECORDS, Snapshot};
use sexton_persistence::rdb::{FIELD_TIMES_VERSION, Writer};
use std::cell::Cell;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Number of keys after which the engine may release an iterator's resources.
const KEYS_AN_ITERATOR: u64 = 1 << 16;

/// Number of keys between two checks whether the save was cancelled.
const KEYS_A_LOOK: u64 = 256;

/// The parts of the data that a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The function libraries.
    pub(crate) functions: bool,
    /// The keys of all databases.
    pub(crate) keys: bool,
}

impl Parts {
    /// Everything.
    pub(crate) const ALL: Self = Self { functions: true, keys: true };
}

/// One file, which can be written any number of times with identical bytes.
pub(crate) struct Image<'a> {
    server: &'a Server,
    snapshot: &'a Snapshot,
    remarks: Vec<(&'static str, String)>,
    /// Keys of each database, and those of them that expire: what a loader makes room for.
    counts: Vec<(u64, u64)>,
    parts: Parts,
    hide_due_ms: u64,
    /// It has met a hash with fields that expire.
    has_field_times: Cell<bool>,
}

impl<'a> Image<'a> {
    /// All that `snapshot` sees.
    pub(crate) fn of(server: &'a Server, snapshot: &'a Snapshot) -> Self {
        let remarks = vec![
            ("redis-ver", crate::version::REDIS_VERSION.to_owned()),
            ("redis-bits", "64".to_owned()),
            ("ctime", now_s().to_string()),
            ("used-mem", server.used_bytes().to_string()),
            ("aof-base", "0".to_owned()),
            ("sexton-ver", env!("CARGO_PKG_VERSION").to_owned()),
            ("sexton-store", server.store_id()),
        ];
        let count = |db| {
            let (keys, expires, _) = server.engine.count_provisional(db);
            (keys, expires)
        };
        let counts = (0..server.databases).map(count).collect();
        Self {
            server,
            snapshot,
            remarks,
            counts,
            parts: Parts::ALL,
            hide_due_ms: 0,
            has_field_times: Cell::new(false),
        }
    }

    /// It is the base of an append only file.
    pub(crate) fn into_base(mut self) -> Self {
        for (name, text) in &mut self.remarks {
            if *name == "aof-base" {
                "1".clone_into(text);
            }
        }
        self
    }

    /// Only these parts of it.
    pub(crate) fn only(self, parts: Parts) -> Self {
        Self { parts, ..self }
    }

    /// Excludes keys that were due at `now_ms`: a replica keeps expired keys until it is told.
    pub(crate) fn without_due(self, now_ms: u64) -> Self {
        Self { hide_due_ms: now_ms, ..self }
    }

    /// True if some of its keys have expiring fields, which a file of a version below Valkey's cannot represent. Walks over
    /// its keys, but not over their values.
    pub(crate) fn needs_field_times(&self) -> Result<bool, EngineError> {
        for db in 0..if self.parts.keys { self.counts.len() } else { 0 } {
            let options = IterOptions { db, keys_only: true, ..IterOptions::default() };
            let mut iter = self.snapshot.iter(&options)?;
            iter.seek_to_first()?;
            while iter.valid() {
                if iter.meta().has_due_elements() {
                    return Ok(true);
                }
                iter.next()?;
            }
        }
        Ok(false)
    }

    /// Like [`Self::needs_field_times`], but known from a previous write.
    pub(crate) fn has_met_field_times(&self) -> bool {
        self.has_field_times.get()
    }

    /// Writes the file. `note` is called now and then with the number of finished keys, and may end the write. `path` is for errors.
    /// If it ends with [`SaveError::FieldTimes`], it must be written again, with that version.
    pub(crate) fn write<W: Write>(
        &self,
        writer: &mut Writer<W>,
        path: &Path,
        note: impl Fn(u64) -> Result<(), SaveError>,
    ) -> Result<(), SaveError> {
        for (name, text) in &self.remarks {
            writer.aux(name, text).map_err(failed("write", path))?;
        }
        if self.parts.functions {
            self.write_functions(writer, path)?;
        }
        let mut done = 0;
        for db in 0..if self.parts.keys { self.counts.len() } else { 0 } {
            self.write_database(db, &mut done, writer, path, &note)?;
        }
        if self.parts.keys {
            let met = self.has_field_times.get();
            self.server.saving.field_times.store(met, Ordering::Relaxed);
        }
        Ok(())
    }

    fn write_functions<W: Write>(
        &self,
        writer: &mut Writer<W>,
        path: &Path,
    ) -> Result<(), SaveError> {
        let own = IterOptions { db: OWN_RECORDS, ..IterOptions::default() };
        let mut libraries = self.snapshot.iter(&own)?;
        libraries.seek_to_first()?;
        while libraries.valid() {
            writer.function(libraries.value()).map_err(failed("write", path))?;
            libraries.next()?;
        }
        Ok(())
    }

    fn write_database<W: Write>(
        &self,
        db: usize,
        done: &mut u64,
        writer: &mut Writer<W>,
        path: &Path,
        note: &impl Fn(u64) -> Result<(), SaveError>,
    ) -> Result<(), SaveError> {
        let failed = failed("write", path);
        let delay_us = self.server.config.options().rdb_key_save_delay_us;
        let delay = Duration::from_micros(u64::try_from(delay_us).unwrap_or(0));
        let from = |lower: Vec<u8>| -> Result<_, EngineError> {
            let hide_due_ms = self.hide_due_ms;
            let mut iter = self.snapshot.iter(&IterOptions {
                db,
                lower,
                hide_due_ms,
                ..IterOptions::default()
            })?;
            iter.seek_to_first()?;
            Ok(iter)
        };
        let mut iter = from(Vec::new())?;
        if iter.valid() {
            let (keys, expires) = self.counts[db];
            writer.select_db(db as u64, keys, expires).map_err(failed)?;
        }
        let mut in_iter: u64 = 0;
        while iter.valid() {
            self.write_key(db, (iter.key(), iter.meta(), iter.value()), writer, failed)?;
            *done += 1;
            in_iter += 1;
            if in_iter == KEYS_AN_ITERATOR {
                // The old one holds memtables and tables that have been replaced since.
                let mut lower = iter.key().to_vec();
                lower.push(0);
                iter = from(lower)?;
                in_iter = 0;
            } else {
                iter.next()?;
            }
            if done.is_multiple_of(KEYS_A_LOOK) || !delay.is_zero() {
                note(*done)?;
            }
            if !delay.is_zero() {
                std::thread::sleep(delay);
            }
        }
        Ok(())
    }

    /// Writes a key with its value; a collection in pages element by element.
    fn write_key<W: Write>(
        &self,
        db: usize,
        (key, meta, value): (&[u8], Meta, &[u8]),
        writer: &mut Writer<W>,
        failed: impl Fn(io::Error) -> SaveError + Copy,
    ) -> Result<(), SaveError> {
        if meta.has_due_elements() {
            self.has_field_times.set(true);
            self.server.saving.field_times.store(true, Ordering::Relaxed);
            if writer.version() < FIELD_TIMES_VERSION {
                return Err(SaveError::FieldTimes);
            }
        }
        let past = PastCollection::open(self.snapshot, db, meta, value)?;
        if let Some(mut past) = past {
            if let Some(kind) = past.kind() {
                let count = past.paged.count() as u64;
                writer.collection(key, meta.expire_at_ms, kind, count).map_err(failed)?;
                return past.each_element(|element| writer.element(element).map_err(failed));
            }
            let value = past.whole()?;
            return write_whole((key, past.paged.whole_meta(), &value), writer, failed);
        }
        write_whole((key, meta, value), writer, failed)
    }
}

/// Writes a key whose value is in memory.
fn write_whole<W: Write>(
    (key, meta, value): (&[u8], Meta, &[u8]),
    writer: &mut Writer<W>,
    failed: impl Fn(io::Error) -> SaveError + Copy,
) -> Result<(), SaveError> {
    match AnyView::of(meta, value) {
        Some(AnyView::String(string)) => {
            writer.string(key, meta.expire_at_ms, string).map_err(failed)
        }
        Some(view) => writer.value(key, meta.expire_at_ms, &view.to_dumped()).map_err(failed),
        None => {
            let key = key.escape_ascii();
            Err(SaveError::Type(format!("key '{key}' is of an unknown type")))
        }
    }
}
