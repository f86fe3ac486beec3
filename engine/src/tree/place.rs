//! Places: directories beside the tree's own, for the tables of some levels (`tree-device LEVELS NAME`).
//!
//! The place NAME is the entry `on-NAME` of the tree's directory: a directory, or a link to one on another
//! device. The manifest records each table's place. The location of a place is given by the entry alone,
//! so a device may be mounted elsewhere without the manifest knowing.

use super::file_names::{TABLE_SUFFIX, table_name};
use super::levels::LEVELS;
use crate::error::TableResult;
use crate::table::Place;
use sexton_persistence::device::{Storage, StorageError, copy_file};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the entries of places in the tree's directory begin with.
pub const PLACE_PREFIX: &str = "on-";

/// The directory of a place of the tree in `tree`.
#[must_use]
pub fn place_dir(tree: &Path, place: &Place) -> PathBuf {
    match place {
        Some(name) => tree.join(format!("{PLACE_PREFIX}{name}")),
        None => tree.to_path_buf(),
    }
}

/// Endings of the entries that are there while the server carries a place to another device; no place's name
/// has them.
const CARRIED: [&str; 2] = [".moved", ".old"];

/// The places that are there, the tree's own directory first.
///
/// # Errors
/// A failing medium.
pub fn places_of(storage: &dyn Storage, tree: &Path) -> Result<Vec<Place>, StorageError> {
    let mut places = vec![None];
    for entry in storage.list(tree)? {
        let Some(name) = entry.strip_prefix(PLACE_PREFIX) else { continue };
        // Such a copy may have been announced, and not be there yet.
        let is_carried = CARRIED.iter().any(|ending| name.ends_with(ending));
        if !is_carried || storage.exists(&tree.join(&entry))? {
            places.push(Some(Arc::from(name)));
        }
    }
    Ok(places)
}

/// Where the tables of each level are made; by default in the tree's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelPlaces([Place; LEVELS]);

impl LevelPlaces {
    /// Puts the tables of `levels` in the place `name`.
    #[must_use]
    pub fn with(mut self, levels: RangeInclusive<usize>, name: &str) -> Self {
        let name: Arc<str> = Arc::from(name);
        levels.filter(|&level| level < LEVELS).for_each(|level| {
            self.0[level] = Some(Arc::clone(&name));
        });
        self
    }

    /// The place of a level.
    #[must_use]
    pub fn of(&self, level: usize) -> &Place {
        self.0.get(level).unwrap_or(&None)
    }

    /// All places.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Place> {
        self.0.iter()
    }
}

/// Copies table `number` between two places, durably.
pub(super) fn copy_table(
    storage: &dyn Storage,
    tree: &Path,
    number: u64,
    (from, to): (&Place, &Place),
) -> Result<(), StorageError> {
    let name = table_name(number);
    let to_dir = place_dir(tree, to);
    copy_file(storage, &place_dir(tree, from).join(&name), &to_dir.join(&name))?;
    storage.sync_dir(&to_dir)
}

/// Tables that are there, with their places.
///
/// # Errors
/// A failing medium.
pub(crate) fn tables_in_places(
    storage: &dyn Storage,
    tree: &Path,
) -> Result<Vec<(u64, Place)>, StorageError> {
    let mut tables = Vec::new();
    for place in places_of(storage, tree)? {
        for name in storage.list(&place_dir(tree, &place))? {
            let stem = name.strip_suffix(TABLE_SUFFIX);
            if let Some(number) = stem.and_then(|stem| stem.parse().ok()) {
                tables.push((number, place.clone()));
            }
        }
    }
    Ok(tables)
}

/// Removes tables that nothing names where they are, in all places; answers a number above every table's.
pub(super) fn remove_unnamed_tables(
    storage: &dyn Storage,
    tree: &Path,
    is_named: impl Fn(u64, &Place) -> bool,
) -> TableResult<u64> {
    let mut highest = 0;
    for (number, place) in tables_in_places(storage, tree)? {
        highest = highest.max(number + 1);
        if !is_named(number, &place) {
            storage.remove(&place_dir(tree, &place).join(table_name(number)))?;
        }
    }
    Ok(highest)
}
