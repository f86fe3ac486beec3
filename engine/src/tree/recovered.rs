//! What a manifest says, or some of its records.

use super::edit::{DeleteMode, EDIT_VERSION, MarkEdit, Record, RecordError};
use super::levels::LEVELS;
use crate::key::Seq;
use crate::table::Place;
use crate::table::{TableError, TableMeta, TableResult};
use sexton_persistence::manifest::Manifest;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A table as the manifest describes it.
#[derive(Clone)]
pub(crate) struct RecoveredFile {
    pub(crate) level: usize,
    pub(crate) place: Place,
    pub(crate) meta: TableMeta,
}

/// What the manifest says.
#[derive(Default)]
pub(crate) struct Recovered {
    pub(crate) files: BTreeMap<u64, RecoveredFile>,
    pub(crate) mark: Option<MarkEdit>,
    pub(crate) reserved_seq: Option<Seq>,
    pub(crate) deletes: Option<DeleteMode>,
    /// Files of grave runs by number, each with its run.
    pub(crate) graves: BTreeMap<u64, (u64, TableMeta)>,
    pub(crate) next_file: u64,
    /// Tables and files of grave runs that were taken out; filled by [`of_salvaged`](Self::of_salvaged) only.
    pub(crate) gone: BTreeSet<u64>,
}

impl Recovered {
    pub(crate) fn replay(manifest: &Manifest, dir: &Path) -> TableResult<Self> {
        let mut recovered = Self { next_file: 1, ..Self::default() };
        for (index, bytes) in manifest.replay()?.iter().enumerate() {
            let bad = |what, got: usize| TableError::Corrupt {
                file: dir.join("MANIFEST"),
                offset: got as u64,
                what,
                expected: 0,
                got: index as u64,
            };
            let record = Record::decode(bytes).map_err(|error| match error {
                RecordError::Version(got) => TableError::Version {
                    file: dir.join("MANIFEST"),
                    got: got.into(),
                    supported: EDIT_VERSION.into(),
                },
                RecordError::Malformed(at) => bad("fields of a version edit (record number)", at),
            })?;
            for (level, number) in record.deleted {
                match recovered.files.remove(&number) {
                    Some(found) if found.level == level => {}
                    _ => return Err(bad("edit deletes a table that is not there", level)),
                }
            }
            for (level, meta, place) in record.added {
                debug_assert!(level < LEVELS);
                let file = RecoveredFile { level, place, meta };
                if recovered.files.insert(file.meta.number, file).is_some() {
                    return Err(bad("edit adds a table twice", level));
                }
            }
            for number in record.graves_deleted {
                if recovered.graves.remove(&number).is_none() {
                    return Err(bad("edit deletes a grave run that is not there", index));
                }
            }
            for (run, meta) in record.graves_added {
                if recovered.graves.insert(meta.number, (run, meta)).is_some() {
                    return Err(bad("edit adds a grave run twice", index));
                }
            }
            recovered.mark = record.mark.or(recovered.mark);
            recovered.reserved_seq = record.reserved_seq.max(recovered.reserved_seq);
            recovered.deletes = record.deletes.or(recovered.deletes);
            recovered.next_file = recovered.next_file.max(record.next_file.unwrap_or(0));
        }
        Ok(recovered)
    }

    /// What can be known from some of the records of a manifest, for a rebuild.
    pub(crate) fn of_salvaged(records: &[Vec<u8>]) -> Self {
        let mut recovered = Self { next_file: 1, ..Self::default() };
        for record in records.iter().filter_map(|bytes| Record::decode(bytes).ok()) {
            for (_, number) in record.deleted {
                recovered.files.remove(&number);
                recovered.gone.insert(number);
            }
            for (level, meta, place) in record.added {
                // A table that changes its level is taken out and added in one edit.
                recovered.gone.remove(&meta.number);
                recovered.files.insert(meta.number, RecoveredFile { level, place, meta });
            }
            for number in record.graves_deleted {
                recovered.graves.remove(&number);
                recovered.gone.insert(number);
            }
            for (run, meta) in record.graves_added {
                recovered.graves.insert(meta.number, (run, meta));
            }
            recovered.mark = record.mark.or(recovered.mark);
            recovered.reserved_seq = record.reserved_seq.max(recovered.reserved_seq);
            recovered.deletes = record.deletes.or(recovered.deletes);
        }
        recovered
    }
}
