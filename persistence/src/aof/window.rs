//! Buffered reading of a segment.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::annotation::{ANNOTATION_MIN_BYTES, Annotation};
use crate::device::{File, StorageResult};

const WINDOW_BYTES: u64 = 1 << 20;

/// A window that slides over a file; it grows to the largest group and no further.
#[derive(Debug)]
pub(super) struct Window {
    file: Arc<dyn File>,
    file_bytes: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    pub(super) fn new(file: Arc<dyn File>, file_bytes: u64) -> Self {
        Self { file, file_bytes, start: 0, bytes: Vec::new() }
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// `len` bytes at `offset`, fewer where the file ends.
    pub(super) fn get(&mut self, offset: u64, len: u64) -> StorageResult<&mut [u8]> {
        let end = offset.saturating_add(len).min(self.file_bytes);
        let offset = offset.min(end);
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            let window = (end - offset).max(WINDOW_BYTES).min(self.file_bytes - offset);
            self.bytes.resize(window as usize, 0);
            self.start = offset;
            if let Err(error) = self.file.read_exact_at(&mut self.bytes, offset) {
                self.bytes.clear();
                return Err(error);
            }
        }
        let from = (offset - self.start) as usize;
        Ok(&mut self.bytes[from..from + (end - offset) as usize])
    }

    /// The annotation and length of the group at `offset`, if it is whole, its checksum holds, and
    /// its epoch is one of `epochs`. Its bytes are then in the window.
    pub(super) fn group(
        &mut self,
        offset: u64,
        epochs: RangeInclusive<u32>,
    ) -> StorageResult<Option<(Annotation, u64)>> {
        let line = self.get(offset, ANNOTATION_MIN_BYTES as u64)?;
        let Some(annotation) =
            Annotation::parse(line).filter(|found| epochs.contains(&found.epoch))
        else {
            return Ok(None);
        };
        let Some(length) = annotation
            .group_bytes()
            .filter(|length| offset.checked_add(*length).is_some_and(|end| end <= self.file_bytes))
        else {
            return Ok(None);
        };
        let valid = Annotation::verify(self.get(offset, length)?);
        if !valid {
            // The check has changed the checksum field: read these bytes again next time.
            self.bytes.clear();
        }
        Ok(valid.then_some((annotation, length)))
    }
}
