//! Writing a grave run.

use crate::key::{Meta, Seq};
use crate::store::engine::Engine;
use crate::table::{Table, TableResult};
use crate::tree::{GraveFile, TableWriter, VersionSet};
use std::sync::Arc;

/// Writes one run, cut into files.
pub(super) struct RunWriter<'a> {
    versions: &'a VersionSet,
    filter_bits: u8,
    file_bytes: u64,
    sync: bool,
    writer: Option<TableWriter>,
    tables: Vec<Arc<Table>>,
    last_key: Vec<u8>,
    /// Graves added.
    pub(super) graves: u64,
}

impl<'a> RunWriter<'a> {
    pub(super) fn new(engine: &'a Engine, sync: bool) -> Self {
        let inner = engine.inner();
        Self {
            versions: &inner.versions,
            filter_bits: inner.options.filter_bits_per_key,
            file_bytes: inner.compaction_options().output_bytes,
            sync,
            writer: None,
            tables: Vec::new(),
            last_key: Vec::new(),
            graves: 0,
        }
    }

    /// Adds a grave: keys ascending, the graves of a key newest first.
    pub(super) fn add(&mut self, key: &[u8], d: Seq) -> TableResult<()> {
        let full = self.writer.as_ref().is_some_and(|w| w.is_full(self.file_bytes));
        if full && self.last_key != key {
            self.close()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(self.versions.new_graves(self.filter_bits)?),
        };
        writer.add(key, d, Meta::tombstone(), b"")?;
        self.graves += 1;
        if writer.is_full(self.file_bytes) {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        Ok(())
    }

    fn close(&mut self) -> TableResult<()> {
        if let Some(writer) = self.writer.take() {
            self.tables.push(writer.finish(0, self.sync)?);
        }
        Ok(())
    }

    /// The files, named after the first of them.
    pub(super) fn finish(mut self) -> TableResult<Vec<GraveFile>> {
        self.close()?;
        let run = self.tables.first().map_or(0, |table| table.number());
        Ok(self.tables.into_iter().map(|table| GraveFile { run, table }).collect())
    }
}
