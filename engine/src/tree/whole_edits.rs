//! The manifest as a whole: the edits that say everything about a tree.

use super::edit::{DeleteMode, MarkEdit, VersionEdit};
use super::version::Version;
use crate::key::Seq;
use crate::table::GraveFile;
use sexton_persistence::manifest::{Manifest, ManifestError};
use std::sync::Arc;

/// An edit of [`whole_edits`] closes with the table that brings its tables' bounds above this, so that no record grows
/// with the tree.
const WHOLE_EDIT_BYTES: usize = if cfg!(test) { 200 } else { 16 << 20 };

/// The manifest anew, in one step.
pub(super) fn rewrite(
    manifest: &mut Manifest,
    whole: &[VersionEdit],
    next_file: u64,
) -> Result<(), ManifestError> {
    let records: Vec<Vec<u8>> = whole.iter().map(|edit| edit.encode(next_file)).collect();
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    manifest.rewrite(&records)
}

/// The edits that say everything.
pub(super) fn whole_edits(
    version: &Version,
    mark: Option<MarkEdit>,
    reserved_seq: Option<Seq>,
    deletes: Option<DeleteMode>,
    graves: &[GraveFile],
) -> Vec<VersionEdit> {
    let graves_added = graves.to_vec();
    let mut last =
        VersionEdit { mark, reserved_seq, deletes, graves_added, ..VersionEdit::default() };
    let (mut whole, mut bytes) = (Vec::new(), 0);
    for (level, table) in version.tables() {
        let p = table.properties();
        bytes += p.min_key.len() + p.max_key.len();
        last.added.push((level, Arc::clone(table)));
        if bytes > WHOLE_EDIT_BYTES {
            whole.push(std::mem::take(&mut last));
            bytes = 0;
        }
    }
    whole.push(last);
    whole
}
