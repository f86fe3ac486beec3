//! What the files of a tree have in common: how its tables are stored, opened and written.

use super::file_names::{graves_name, table_name};
use super::place::{LevelPlaces, place_dir};
use crate::key::{Meta, Seq};
use crate::table::{
    BlockCache, BuilderBuffers, Compression, Place, Table, TableBuilder, TableError, TableMeta,
    TableOptions, TableResult,
};
use parking_lot::Mutex;
use sexton_persistence::device::Storage;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// Sets of builder memory kept for the next table.
const SPARE_BUFFERS: usize = 2;

/// How a tree stores its tables.
#[derive(Clone, Copy, Debug)]
pub struct TreeOptions {
    /// Block size, compression and write size of tables.
    pub table: TableOptions,
    /// Compression of the tables of level 0, which are rewritten soon; `table` has that of the others.
    pub upper_compression: Compression,
    /// Compression of the tables of the last level, which hold most of the data and stay longest.
    pub bottom_compression: Compression,
    /// Flushes and compactions read and write past the page cache. It then keeps what readers asked for,
    /// and a sync of the log does not wait for tables; without, what was just written is read from memory.
    pub direct_io: bool,
    /// Bound of the block cache, in bytes.
    pub cache_bytes: u64,
    /// What a merge reads ahead of all its inputs together, in bytes; a writer of tables gathers a quarter of it at most.
    /// Blocks that its inputs hold have four times that: larger ones are read again when their value is written.
    pub merge_read_bytes_max: u64,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            table: TableOptions::default(),
            upper_compression: Compression::None,
            bottom_compression: Compression::Lz4,
            direct_io: true,
            cache_bytes: 32 << 20,
            merge_read_bytes_max: u64::MAX,
        }
    }
}

/// What a [`VersionSet`](super::VersionSet) and the tables that are written for it know of the tree.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) dir: PathBuf,
    pub(super) places: LevelPlaces,
    pub(super) options: TreeOptions,
    pub(super) cache: Arc<BlockCache>,
    /// See [`TreeOptions::merge_read_bytes_max`]; it follows the memory bound.
    pub(super) merge_read_bytes_max: AtomicU64,
    pub(super) next_file: AtomicU64,
    pub(super) spare: Mutex<Vec<BuilderBuffers>>,
    /// Where undo runs are made; without, there are none.
    pub(super) undo: OnceLock<UndoPlace>,
}

/// The device of the undo runs, which need not be the tree's (N6).
#[derive(Debug)]
pub(super) struct UndoPlace {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) dir: PathBuf,
}

impl Shared {
    pub(super) fn table_path(&self, number: u64, place: &Place) -> PathBuf {
        place_dir(&self.dir, place).join(table_name(number))
    }

    pub(super) fn graves_path(&self, number: u64) -> PathBuf {
        self.dir.join(graves_name(number))
    }

    /// Opens the table of an edit and compares it with what the edit says.
    pub(super) fn open_described(
        &self,
        path: &Path,
        place: &Place,
        meta: &TableMeta,
    ) -> TableResult<Arc<Table>> {
        let table = self.open_table_on(&*self.storage, path, meta.number)?.at(place.clone());
        if table.meta() != meta {
            return Err(TableError::Corrupt {
                file: path.to_path_buf(),
                offset: 0,
                what: "not the table that the manifest describes (lengths)",
                expected: meta.file_bytes,
                got: table.file_bytes(),
            });
        }
        Ok(Arc::new(table))
    }

    fn open_table_on(&self, storage: &dyn Storage, path: &Path, number: u64) -> TableResult<Table> {
        let file = if self.options.direct_io {
            storage.open_unbuffered(path)?
        } else {
            storage.open(path)?
        };
        Table::open(file, number, Some(Arc::clone(&self.cache)))
    }
}

/// A table being written for the tree. Dropped unfinished, it removes its file.
#[derive(Debug)]
pub struct TableWriter {
    pub(super) builder: Option<TableBuilder>,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) path: PathBuf,
    pub(super) place: Place,
    pub(super) shared: Arc<Shared>,
}

impl TableWriter {
    /// Adds a version: see [`TableBuilder::add`].
    ///
    /// # Errors
    /// As for [`TableBuilder::add`].
    #[inline]
    pub fn add(&mut self, key: &[u8], seq: Seq, meta: Meta, value: &[u8]) -> TableResult<()> {
        match &mut self.builder {
            Some(builder) => builder.add(key, seq, meta, value),
            None => Err(TableError::Cancelled),
        }
    }

    /// Bytes of data so far.
    #[must_use]
    #[inline]
    pub fn data_bytes(&self) -> u64 {
        self.builder.as_ref().map_or(0, TableBuilder::data_bytes)
    }

    /// See [`TableBuilder::is_full`].
    #[must_use]
    #[inline]
    pub fn is_full(&self, bytes: u64) -> bool {
        self.builder.as_ref().is_some_and(|builder| builder.is_full(bytes))
    }

    /// Ends the table, with the claim of rule C3, and opens it. Its file goes with the last reference
    /// unless an edit makes it part of the tree.
    ///
    /// # Errors
    /// A failing medium, or a table without versions.
    pub fn finish(mut self, buried_through: Seq, sync: bool) -> TableResult<Arc<Table>> {
        let Some(builder) = self.builder.take() else { return Err(TableError::Cancelled) };
        let number = builder.number();
        let finished = builder.finish(buried_through, sync).and_then(|(_, buffers)| {
            let mut spare = self.shared.spare.lock();
            if spare.len() < SPARE_BUFFERS {
                spare.push(buffers);
            }
            self.shared.open_table_on(&*self.storage, &self.path, number)
        });
        if finished.is_err() {
            let _ = self.storage.remove(&self.path);
        }
        let table = Arc::new(finished?.at(self.place.clone()));
        table.remove_when_unused(Arc::clone(&self.storage));
        Ok(table)
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        if self.builder.is_some() {
            // Nothing names it; the next start would remove it too.
            let _ = self.storage.remove(&self.path);
        }
    }
}
