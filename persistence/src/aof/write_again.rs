//! Making durable what a start has read (N2).
//!
//! After a failed sync, Linux marks the pages it could not write as clean: they can be read, and a later sync skips
//! them with success. A process that saw the failure never syncs that file again, but the next process does not
//! know of it. We therefore rewrite every group that no header or annotation proves durable, and then sync it.

use std::sync::Arc;

use super::annotation::{HEADER_BYTES, annotation_bytes};
use super::recover::Segment;
use super::route::{Extent, open_part, split_extents};
use super::window::Window;
use super::{LogError, LogLocation};
use crate::device::{File, Storage, StorageResult};

const PIECE_BYTES: u64 = 1 << 20;

/// Writes the groups of `segment` with sequences above `synced_seq` again, in their places, with their records in the
/// parts of other devices; with the header, when no group was synced with it. Syncs nothing.
pub(super) fn write_again(
    storage: &dyn Storage,
    location: &LogLocation,
    segment: &Segment,
    synced_seq: u64,
) -> Result<(), LogError> {
    let Some(header) = segment.header else { return Ok(()) };
    let mut window = Window::new(Arc::clone(&segment.file), segment.bytes);
    let (mut from, mut end) = (0, HEADER_BYTES as u64);
    while let Some((annotation, length)) = window.group(end, header.epoch..=header.epoch)? {
        let is_synced = annotation.last_seq() <= synced_seq;
        if !is_synced {
            let head = annotation_bytes(annotation.command_bytes as usize);
            let (extents, _) = split_extents(&window.get(end, length)?[head..]);
            for extent in &extents {
                write_part_again(storage, location, segment.number, extent)?;
            }
        }
        end += length;
        if is_synced {
            from = end;
        }
    }
    Ok(copy_onto_itself(&*segment.file, from, end)?)
}

fn write_part_again(
    storage: &dyn Storage,
    location: &LogLocation,
    number: u64,
    extent: &Extent,
) -> StorageResult<()> {
    let Some(file) = open_part(storage, location, number, extent)? else { return Ok(()) };
    copy_onto_itself(&*file, extent.offset, extent.offset + extent.bytes)
}

fn copy_onto_itself(file: &dyn File, from: u64, to: u64) -> StorageResult<()> {
    let mut bytes = Vec::new();
    let mut at = from;
    while at < to {
        bytes.resize(PIECE_BYTES.min(to - at) as usize, 0);
        file.read_exact_at(&mut bytes, at)?;
        file.write_all_at(&bytes, at)?;
        at += bytes.len() as u64;
    }
    Ok(())
}
