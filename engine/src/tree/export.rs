//! The files of a tree, for a copy of it.

use super::edit::MarkEdit;
use super::file_names::{graves_name, table_name};
use super::version::Version;
use crate::table::GraveFile;
use crate::table::TableResult;
use sexton_persistence::device::Storage;
use sexton_persistence::manifest::Manifest;
use std::path::Path;
use std::sync::Arc;

/// See [`VersionSet::export`](super::VersionSet::export).
#[derive(Debug)]
pub struct Export {
    /// The tables.
    pub version: Arc<Version>,
    /// The recovery mark they belong to.
    pub mark: Option<MarkEdit>,
    pub(super) graves: Vec<GraveFile>,
    pub(super) records: Vec<Vec<u8>>,
}

impl Export {
    /// Paths of the files of tables and grave runs, each with the name that the copy has for it.
    pub fn files(&self) -> impl Iterator<Item = (&Path, String)> {
        let tables =
            self.version.tables().map(|(_, table)| (table.path(), table_name(table.number())));
        let graves = self.graves.iter().map(|file| &file.table);
        tables.chain(graves.map(|table| (table.path(), graves_name(table.number()))))
    }

    /// Makes a manifest for them in `dir`, which contains them all; durable when it returns.
    ///
    /// # Errors
    /// A failing medium.
    pub fn write_manifest(&self, storage: Arc<dyn Storage>, dir: &Path) -> TableResult<()> {
        let mut manifest = Manifest::create(storage, dir)?;
        for record in &self.records {
            manifest.append(record)?;
        }
        Ok(())
    }
}
