//! The current version of the tree, and the steps from one version to the next.

use super::edit::{DeleteMode, MarkEdit, Record, VersionEdit};
use super::export::Export;
use super::file_names::{CHECKPOINT_SUFFIX, GRAVE_RUN_SUFFIX, UNDO_SUFFIX, table_name, undo_name};
use super::files::{Shared, TableWriter, TreeOptions, UndoPlace};
use super::level_iter::LevelIter;
use super::levels::LEVELS;
use super::pick::Job;
use super::place::{LevelPlaces, copy_table, place_dir, remove_unnamed_tables, tables_in_places};
use super::recovered::Recovered;
use super::version::Version;
use super::whole_edits::{rewrite, whole_edits};
use crate::key::Seq;
use crate::table::{
    BlockCache, GraveFile, Place, ReadMode, Table, TableBuilder, TableError, TableOptions,
    TableResult,
};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use sexton_persistence::device::Storage;
use sexton_persistence::manifest::Manifest;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A manifest longer than this is rewritten once most of it is history.
const REWRITE_BYTES_MIN: u64 = 1 << 20;

/// Of what a merge may read ahead, a writer of tables gathers one part of this many.
const CHUNK_SHARE: u64 = 4;

/// The hashes of the keys of one table take, while it is written, at most one part in this many of the same, ...
const HASHES_SHARE: u64 = 2;

/// ... or this much, if that is more.
const HASHES_BYTES_MIN: usize = 512 << 10;

/// Limit on a block that a merge input holds while other inputs are ahead of it, as a multiple of its read-ahead.
const HELD_BLOCK_TIMES: usize = 4;

/// Least size of one read or write, in bytes, however little memory there is.
const TRANSFER_BYTES_MIN: usize = 32 << 10;
/// Rewritten when it is this many times as long as right after the last rewrite.
const REWRITE_GROWTH: u64 = 8;
/// The last level: level sizes are counted from it up, so it always holds most of the data.
const BOTTOM: usize = LEVELS - 1;

#[derive(Debug)]
struct State {
    manifest: Manifest,
    mark: Option<MarkEdit>,
    reserved_seq: Option<Seq>,
    deletes: Option<DeleteMode>,
    /// Spilled graves; no part of a version, because every reader needs all of them.
    graves: Vec<GraveFile>,
    /// Length of the manifest after its last rewrite.
    compact_bytes: u64,
}

/// The list of tables of a store, changed by edits that are durable before they are seen.
#[derive(Debug)]
pub struct VersionSet {
    shared: Arc<Shared>,
    current: ArcSwap<Version>,
    state: Mutex<State>,
    carried: u64,
}

impl VersionSet {
    /// Opens the tree in `dir`, or makes an empty one. Every table is opened and compared with what
    /// the manifest says of it; files that no edit names are removed.
    ///
    /// # Errors
    /// A failing medium, a damaged manifest or table, a table that is missing or is not the one
    /// the manifest names.
    pub fn open(storage: Arc<dyn Storage>, dir: &Path, options: TreeOptions) -> TableResult<Self> {
        Self::open_placed(storage, dir, options, LevelPlaces::default())
    }

    /// Like [`VersionSet::open`], with the tables of some levels in other places. Tables that are not where their level's
    /// should be are moved there first, one by one: a crash or a failure loses nothing.
    ///
    /// # Errors
    /// As for [`VersionSet::open`].
    pub fn open_placed(
        storage: Arc<dyn Storage>,
        dir: &Path,
        options: TreeOptions,
        places: LevelPlaces,
    ) -> TableResult<Self> {
        for place in places.iter().chain([&None]) {
            storage.create_dir_all(&place_dir(dir, place))?;
        }
        let mut manifest = if Manifest::exists(&*storage, dir)? {
            Manifest::open(Arc::clone(&storage), dir)?
        } else {
            must_be_new(&*storage, dir)?;
            Manifest::create(Arc::clone(&storage), dir)?
        };
        let mut recovered = Recovered::replay(&manifest, dir)?;
        let carried = carry_tables(&*storage, dir, &mut manifest, &mut recovered, &places)?;
        let shared = Arc::new(Shared {
            cache: Arc::new(BlockCache::new(options.cache_bytes)),
            merge_read_bytes_max: AtomicU64::new(options.merge_read_bytes_max),
            next_file: AtomicU64::new(1),
            spare: Mutex::default(),
            undo: OnceLock::new(),
            dir: dir.to_path_buf(),
            places,
            options,
            storage,
        });
        let mut edit = VersionEdit::new();
        for (&number, file) in &recovered.files {
            let path = shared.table_path(number, &file.place);
            edit.add(file.level, shared.open_described(&path, &file.place, &file.meta)?);
        }
        let mut graves = Vec::new();
        for (&number, (run, meta)) in &recovered.graves {
            let table = shared.open_described(&shared.graves_path(number), &None, meta)?;
            graves.push(GraveFile { run: *run, table });
        }
        let version =
            Version::default().after(&edit).map_err(|reason| TableError::Edit { reason })?;
        let highest = remove_leftovers(&shared, &recovered)?;
        shared.next_file.store(highest.max(recovered.next_file), Ordering::Release);
        let state = State {
            compact_bytes: manifest.size_bytes(),
            manifest,
            mark: recovered.mark,
            reserved_seq: recovered.reserved_seq,
            deletes: recovered.deletes,
            graves,
        };
        let current = ArcSwap::from_pointee(version);
        Ok(Self { shared, current, state: Mutex::new(state), carried })
    }

    /// Tables that were carried to other places when the tree was opened.
    #[must_use]
    pub fn carried(&self) -> u64 {
        self.carried
    }

    /// True when `job` moves tables to a level without changing their place: then nothing need be
    /// read. Otherwise the data moves, and the job runs as a merge.
    #[must_use]
    pub fn is_mere_move(&self, job: &Job) -> bool {
        let place = self.shared.places.of(job.output_level);
        job.is_move && job.tables().all(|(_, table)| table.place() == place)
    }

    /// The tables as of the last edit.
    #[must_use]
    pub fn current(&self) -> Arc<Version> {
        self.current.load_full()
    }

    /// The state of the last recovery mark; `None` in a tree that never had one.
    #[must_use]
    pub fn recovered_mark(&self) -> Option<MarkEdit> {
        self.state.lock().mark.clone()
    }

    /// The last reservation of sequences (D6), if there was one.
    #[must_use]
    pub fn reserved_seq(&self) -> Option<Seq> {
        self.state.lock().reserved_seq
    }

    /// How deletes are kept, as the manifest says. One that does not say it is older than the choice,
    /// and its store has a cemetery; `None` in a tree that nothing was ever written to.
    #[must_use]
    pub fn deletes(&self) -> Option<DeleteMode> {
        let state = self.state.lock();
        let is_new = state.mark.is_none() && self.current.load().is_empty();
        state.deletes.or((!is_new).then_some(DeleteMode::Cemetery))
    }

    /// Makes every table of the current version durable, whether it was synced when it was written or
    /// not (N3: `CONFIG SET appendonly yes`).
    ///
    /// # Errors
    /// A failing medium.
    pub fn sync_tables(&self) -> TableResult<()> {
        let version = self.current();
        for (_, table) in version.tables() {
            self.shared.storage.open(table.path())?.sync_data()?;
        }
        for file in self.grave_files() {
            self.shared.storage.open(file.table.path())?.sync_data()?;
        }
        self.sync_places(version.tables().map(|(_, table)| table.place()))
    }

    /// Makes the names of files in `places`, and in the tree's own directory, durable.
    fn sync_places<'p>(&self, places: impl Iterator<Item = &'p Place>) -> TableResult<()> {
        let mut places: Vec<_> = places.chain([&None]).collect();
        places.sort_unstable();
        places.dedup();
        for place in places {
            self.shared.storage.sync_dir(&place_dir(&self.shared.dir, place))?;
        }
        Ok(())
    }

    /// A number for a new file, never given out before.
    #[must_use]
    pub fn new_file_number(&self) -> u64 {
        self.shared.next_file.fetch_add(1, Ordering::AcqRel)
    }

    /// From now on files have numbers above this one.
    pub(crate) fn number_files_behind(&self, last: u64) {
        self.shared.next_file.fetch_max(last + 1, Ordering::AcqRel);
    }

    /// Starts a table meant for `level`.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn new_table(&self, level: usize) -> TableResult<TableWriter> {
        self.new_table_as_of(level, level)
    }

    /// Starts a table meant for level 0 that will move to level `moved_to` unread: it is compressed as that level is,
    /// because nobody else will do it. A level in another place gets what it is to have when the data moves.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn new_table_to_move(&self, moved_to: usize) -> TableResult<TableWriter> {
        let places = &self.shared.places;
        let stays = places.of(moved_to) == places.of(0);
        self.new_table_as_of(0, if stays { moved_to } else { 0 })
    }

    /// Starts a table in the place of those of `level`, compressed as those of `looks` are.
    fn new_table_as_of(&self, level: usize, looks: usize) -> TableResult<TableWriter> {
        let number = self.new_file_number();
        let mut options = self.shared.options.table;
        options.compression = match looks {
            0 => self.shared.options.upper_compression,
            BOTTOM => self.shared.options.bottom_compression,
            _ => options.compression,
        };
        let storage = Arc::clone(&self.shared.storage);
        let place = self.shared.places.of(level).clone();
        self.start_table(storage, self.shared.table_path(number, &place), place, number, options)
    }

    /// The files of the grave runs, as of the last edit.
    #[must_use]
    pub fn grave_files(&self) -> Vec<GraveFile> {
        self.state.lock().graves.clone()
    }

    /// Starts a file of a grave run, with this many filter bits per grave.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn new_graves(&self, filter_bits_per_key: u8) -> TableResult<TableWriter> {
        let number = self.new_file_number();
        let options = TableOptions { filter_bits_per_key, ..self.shared.options.table };
        let storage = Arc::clone(&self.shared.storage);
        self.start_table(storage, self.shared.graves_path(number), None, number, options)
    }

    /// From now on undo runs may be made, in `dir` of `storage`, which is emptied of them: none of another
    /// run of the process is of use.
    ///
    /// # Errors
    /// A failing medium.
    pub fn set_undo_place(&self, storage: Arc<dyn Storage>, dir: &Path) -> TableResult<()> {
        storage.create_dir_all(dir)?;
        for name in storage.list(dir)? {
            if name.ends_with(UNDO_SUFFIX) {
                storage.remove(&dir.join(name))?;
            }
        }
        let _ = self.shared.undo.set(UndoPlace { storage, dir: dir.to_path_buf() });
        Ok(())
    }

    /// True when undo runs can be made.
    #[must_use]
    pub fn has_undo_place(&self) -> bool {
        self.shared.undo.get().is_some()
    }

    /// Starts the table of an undo run.
    pub(super) fn new_undo_table(&self) -> TableResult<TableWriter> {
        let Some(undo) = self.shared.undo.get() else {
            return Err(TableError::Edit { reason: "there is no place for undo runs" });
        };
        let number = self.new_file_number();
        let path = undo.dir.join(undo_name(number));
        self.start_table(Arc::clone(&undo.storage), path, None, number, self.shared.options.table)
    }

    fn start_table(
        &self,
        storage: Arc<dyn Storage>,
        path: PathBuf,
        place: Place,
        number: u64,
        mut options: TableOptions,
    ) -> TableResult<TableWriter> {
        let file = if self.shared.options.direct_io {
            storage.create_unbuffered(&path)?
        } else {
            storage.create(&path)?
        };
        let read_max = self.shared.merge_read_bytes_max.load(Ordering::Relaxed);
        let chunk_max = usize::try_from(read_max / CHUNK_SHARE);
        let chunk_max = chunk_max.unwrap_or(usize::MAX).max(TRANSFER_BYTES_MIN);
        options.chunk_bytes = options.chunk_bytes.max(file.style().transfer_bytes).min(chunk_max);
        let hashes_max = usize::try_from(read_max / HASHES_SHARE).unwrap_or(usize::MAX);
        options.hashes_bytes_max = hashes_max.max(HASHES_BYTES_MIN);
        let buffers = self.shared.spare.lock().pop().unwrap_or_default();
        let builder = Some(TableBuilder::new(file, number, options, buffers));
        Ok(TableWriter { builder, storage, path, place, shared: Arc::clone(&self.shared) })
    }

    /// Makes an edit current that changes undo runs only. Nothing becomes durable.
    ///
    /// # Errors
    /// None but a misuse: an edit of the tree.
    pub fn apply_undo(&self, edit: &VersionEdit) -> TableResult<()> {
        if !edit.added.is_empty() || !edit.deleted.is_empty() || edit.mark.is_some() {
            return Err(TableError::Edit { reason: "an edit of the tree must be durable" });
        }
        let _state = self.state.lock();
        let next = self.current.load_full().after(edit);
        self.current.store(Arc::new(next.map_err(|reason| TableError::Edit { reason })?));
        Ok(())
    }

    /// Makes `edit` durable, then current. Tables it takes out are removed from the device when
    /// the last reader lets go of them. On an error the current version has not changed, but the next
    /// start may find either state if the manifest could not be written.
    ///
    /// # Errors
    /// A failing medium, or an edit that does not fit the current version.
    pub fn apply(&self, edit: &VersionEdit) -> TableResult<Arc<Version>> {
        let mut state = self.state.lock();
        let old = self.current.load_full();
        let next = old.after(edit).map_err(|reason| TableError::Edit { reason })?;
        let graves = graves_after(&state.graves, edit)?;
        if !edit.added.is_empty() || !edit.graves_added.is_empty() {
            self.sync_places(edit.added.iter().map(|(_, table)| table.place()))?;
        }
        let next_file = self.shared.next_file.load(Ordering::Acquire);
        let mark = edit.mark.clone().or_else(|| state.mark.clone());
        let reserved_seq = edit.reserved_seq.max(state.reserved_seq);
        let deletes = edit.deletes.or(state.deletes);
        let size = state.manifest.size_bytes();
        let is_long = size > REWRITE_BYTES_MIN && size > state.compact_bytes * REWRITE_GROWTH;
        // After a failed append the end of the manifest is unknown: a whole new one decides.
        if is_long || state.manifest.append(&edit.encode(next_file)).is_err() {
            let whole = whole_edits(&next, mark.clone(), reserved_seq, deletes, &graves);
            if let Err(error) = rewrite(&mut state.manifest, &whole, next_file) {
                // The next start may find the edit or not: its tables must be there then. If it
                // does not name them, it removes them.
                edit.added.iter().for_each(|(_, table)| table.keep());
                edit.graves_added.iter().for_each(|file| file.table.keep());
                return Err(error.into());
            }
            state.compact_bytes = state.manifest.size_bytes();
        }
        state.mark = mark;
        state.reserved_seq = reserved_seq;
        state.deletes = deletes;
        let next = Arc::new(next);
        for (_, table) in &edit.added {
            table.keep();
        }
        edit.graves_added.iter().for_each(|file| file.table.keep());
        for file in &state.graves {
            if edit.graves_deleted.contains(&file.table.number()) {
                file.table.remove_when_unused(Arc::clone(&self.shared.storage));
            }
        }
        state.graves = graves;
        for (level, number) in &edit.deleted {
            let stays = edit.added.iter().any(|(_, table)| table.number() == *number);
            let table = old.level(*level).iter().find(|table| table.number() == *number);
            if let Some(table) = table.filter(|_| !stays) {
                table.remove_when_unused(Arc::clone(&self.shared.storage));
            }
        }
        self.current.store(Arc::clone(&next));
        Ok(next)
    }

    /// The tables, with the edits that make a manifest of them and of the mark: what a copy of the
    /// tree needs. The tables' files stay while the version is held; the checkpoint that the mark names
    /// is the caller's to keep.
    #[must_use]
    pub fn export(&self) -> Export {
        let state = self.state.lock();
        let version = self.current.load_full();
        let next_file = self.shared.next_file.load(Ordering::Acquire);
        let mark = state.mark.clone();
        let graves = state.graves.clone();
        let whole = whole_edits(&version, mark.clone(), state.reserved_seq, state.deletes, &graves);
        let records = whole.iter().map(|edit| edit.encode_in_one_place(next_file)).collect();
        Export { records, version, mark, graves }
    }

    /// Writes the manifest anew without its history, which names keys of tables that are gone (N17).
    ///
    /// # Errors
    /// A failing medium; the manifest is the old one then.
    pub fn rewrite_manifest(&self) -> TableResult<()> {
        let mut state = self.state.lock();
        let now = self.current.load_full();
        let (mark, reserved) = (state.mark.clone(), state.reserved_seq);
        let whole = whole_edits(&now, mark, reserved, state.deletes, &state.graves);
        let next_file = self.shared.next_file.load(Ordering::Acquire);
        rewrite(&mut state.manifest, &whole, next_file)?;
        state.compact_bytes = state.manifest.size_bytes();
        Ok(())
    }

    /// Look-ups in the block cache that found their block, and those that did not.
    #[must_use]
    pub fn cache_hits_and_misses(&self) -> (u64, u64) {
        self.shared.cache.hits_and_misses()
    }

    /// Bytes held by the block cache.
    #[must_use]
    pub fn cache_bytes(&self) -> u64 {
        self.shared.cache.bytes()
    }

    /// Changes the bound of the block cache; what is above it leaves at once.
    pub fn set_cache_bytes(&self, bytes: u64) {
        self.shared.cache.set_capacity(bytes);
    }

    /// Changes what merges that begin from now on read ahead of all their inputs together.
    pub fn set_merge_read_bytes_max(&self, bytes: u64) {
        self.shared.merge_read_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that each of `inputs` inputs of a merge may read ahead.
    pub(crate) fn read_ahead_of(&self, inputs: usize) -> usize {
        let read_max = self.shared.merge_read_bytes_max.load(Ordering::Relaxed);
        let share = read_max / inputs.max(1) as u64;
        usize::try_from(share).unwrap_or(usize::MAX).max(TRANSFER_BYTES_MIN)
    }

    /// Size in bytes of the largest block that each of `inputs` inputs of a merge may hold while others are ahead of it.
    /// Together they hold at most a multiple of their read-ahead, however large values are.
    pub(super) fn held_block_of(&self, inputs: usize) -> usize {
        self.read_ahead_of(inputs).saturating_mul(HELD_BLOCK_TIMES)
    }

    /// An iterator over `tables`, as one of `inputs` inputs of a merge that share its memory limit. A version's value must be
    /// loaded before it is read.
    pub(super) fn merge_input(&self, tables: Arc<[Arc<Table>]>, inputs: usize) -> LevelIter {
        LevelIter::new(tables, ReadMode::Sequential)
            .reading_ahead(Some(self.read_ahead_of(inputs)))
            .holding_blocks(self.held_block_of(inputs))
    }

    /// The block cache shared by all tables.
    #[must_use]
    pub fn cache(&self) -> &BlockCache {
        &self.shared.cache
    }
}

/// The files of the grave runs after an edit.
fn graves_after(before: &[GraveFile], edit: &VersionEdit) -> TableResult<Vec<GraveFile>> {
    let is_gone = |file: &&GraveFile| edit.graves_deleted.contains(&file.table.number());
    if before.iter().filter(is_gone).count() != edit.graves_deleted.len() {
        return Err(TableError::Edit { reason: "an edit deletes a grave run that is not there" });
    }
    let stays = before.iter().filter(|file| !is_gone(file));
    Ok(stays.chain(&edit.graves_added).cloned().collect())
}

/// Carries each table to the place of its level: copied, synced, one edit, and only then removed.
/// Answers how many.
fn carry_tables(
    storage: &dyn Storage,
    dir: &Path,
    manifest: &mut Manifest,
    recovered: &mut Recovered,
    places: &LevelPlaces,
) -> TableResult<u64> {
    let mut carried = 0;
    for (&number, file) in &mut recovered.files {
        let wanted = places.of(file.level);
        if file.place == *wanted {
            continue;
        }
        copy_table(storage, dir, number, (&file.place, wanted))?;
        let record = Record {
            deleted: vec![(file.level, number)],
            added: vec![(file.level, file.meta.clone(), wanted.clone())],
            ..Record::default()
        };
        manifest.append(&record.encode())?;
        storage.remove(&place_dir(dir, &file.place).join(table_name(number)))?;
        file.place = wanted.clone();
        carried += 1;
    }
    Ok(carried)
}

/// Without `CURRENT` nothing says which tables count, and opening would remove them all.
fn must_be_new(storage: &dyn Storage, dir: &Path) -> TableResult<()> {
    let tables = tables_in_places(storage, dir)?.len();
    if tables == 0 {
        return Ok(());
    }
    Err(TableError::Corrupt {
        file: dir.join("CURRENT"),
        offset: 0,
        what: "missing, although there are tables (number of tables)",
        expected: 0,
        got: tables as u64,
    })
}

/// Removes tables and checkpoints that nothing names; answers a number above every file's.
fn remove_leftovers(shared: &Shared, recovered: &Recovered) -> TableResult<u64> {
    let checkpoint = recovered.mark.as_ref().and_then(|mark| mark.checkpoint.as_deref());
    let mut highest = remove_unnamed_tables(&*shared.storage, &shared.dir, |number, place| {
        recovered.files.get(&number).is_some_and(|file| file.place == *place)
    })?;
    for name in shared.storage.list(&shared.dir)? {
        let stem = |suffix| name.strip_suffix(suffix).and_then(|stem| stem.parse::<u64>().ok());
        let (number, is_named) = if let Some(number) = stem(GRAVE_RUN_SUFFIX) {
            (number, recovered.graves.contains_key(&number))
        } else if let Some(number) = stem(CHECKPOINT_SUFFIX) {
            (number, Some(name.as_str()) == checkpoint)
        } else {
            continue;
        };
        highest = highest.max(number + 1);
        if !is_named {
            shared.storage.remove(&shared.dir.join(&name))?;
        }
    }
    Ok(highest)
}
