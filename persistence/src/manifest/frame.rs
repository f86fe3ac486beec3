//! The frame around a record, and reading a file of frames.

use super::ManifestError;
use crate::checksum::Crc32c;
use crate::device::File;

/// First bytes of a manifest file; the last one is the version of the format.
pub(super) const HEADER: &[u8; 16] = b"SEXTON MANIFEST\x01";
/// Length (4), checksum (4), index of the record (8), all little-endian.
const FRAME_BYTES: usize = 16;
/// Frames start at multiples of this.
pub(super) const ALIGNMENT: usize = 8;
/// Larger records are refused; a larger length in a file is not a frame.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

fn checksum(length: u32, index: u64, record: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(&length.to_le_bytes());
    crc.update(&index.to_le_bytes());
    crc.update(record);
    crc.finish()
}

/// The frame of a record, padded.
pub(super) fn encode(index: u64, record: &[u8]) -> Result<Vec<u8>, ManifestError> {
    let length = u32::try_from(record.len())
        .ok()
        .filter(|length| *length as usize <= RECORD_BYTES_MAX)
        .ok_or(ManifestError::TooLarge { bytes: record.len() })?;
    let mut bytes = Vec::with_capacity(FRAME_BYTES + record.len() + ALIGNMENT);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&checksum(length, index, record).to_le_bytes());
    bytes.extend_from_slice(&index.to_le_bytes());
    bytes.extend_from_slice(record);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    Ok(bytes)
}

/// What a file holds.
pub(super) struct Scan {
    /// End of the last valid frame.
    pub(super) end: u64,
    pub(super) records: u64,
    /// Something unfinished lies behind `end`.
    pub(super) torn: bool,
}

/// Reads the whole file. A bad frame is the torn end of the file, unless a valid frame of a later
/// record lies behind it: every append is synced before the next, so that is damage.
pub(super) fn scan(file: &dyn File) -> Result<Scan, ManifestError> {
    let length = file.len()?;
    let mut header = [0; HEADER.len()];
    if length >= HEADER.len() as u64 {
        file.read_exact_at(&mut header, 0)?;
    }
    let mut reader = FrameReader::new(file, length);
    if header != *HEADER {
        // Never the effect of a crash: the header is synced before CURRENT names the file.
        reader.offset = 0;
        return Err(reader.damaged("no manifest of this version"));
    }
    while reader.next_record()?.is_some() {}
    let (end, records) = (reader.offset, reader.index);
    let mut at = end + ALIGNMENT as u64;
    while at < length {
        if let Some((index, _, _)) = reader.frame_at(at)?
            && index > records
        {
            return Err(reader.damaged("a bad record is followed by a valid one"));
        }
        at += ALIGNMENT as u64;
    }
    Ok(Scan { end, records, torn: length > end })
}

/// Walks over the frames of a file.
pub(super) struct FrameReader<'a> {
    file: &'a dyn File,
    limit: u64,
    offset: u64,
    index: u64,
}

impl<'a> FrameReader<'a> {
    pub(super) fn new(file: &'a dyn File, limit: u64) -> Self {
        Self { file, limit, offset: HEADER.len() as u64, index: 0 }
    }

    /// The next record; `None` at the end or at a frame that is not valid.
    pub(super) fn next_record(&mut self) -> Result<Option<Vec<u8>>, ManifestError> {
        match self.frame_at(self.offset)? {
            Some((index, end, record)) if index == self.index => {
                self.offset = end;
                self.index += 1;
                Ok(Some(record))
            }
            _ => Ok(None),
        }
    }

    /// Index, end and content of the frame at `at`, if it is valid and whole.
    pub(super) fn frame_at(&self, at: u64) -> Result<Option<(u64, u64, Vec<u8>)>, ManifestError> {
        if self.limit.saturating_sub(at) < FRAME_BYTES as u64 {
            return Ok(None);
        }
        let mut frame = [0; FRAME_BYTES];
        self.file.read_exact_at(&mut frame, at)?;
        let [a, b, c, d, e, f, g, h, index @ ..] = frame;
        let length = u32::from_le_bytes([a, b, c, d]);
        let end = at + (FRAME_BYTES + length as usize).next_multiple_of(ALIGNMENT) as u64;
        if length as usize > RECORD_BYTES_MAX || end > self.limit {
            return Ok(None);
        }
        let mut record = vec![0; (end - at) as usize - FRAME_BYTES];
        self.file.read_exact_at(&mut record, at + FRAME_BYTES as u64)?;
        // No checksum covers the padding: it is known instead, so that no changed byte goes unseen.
        let is_padded = record.drain(length as usize..).all(|byte| byte == 0);
        let index = u64::from_le_bytes(index);
        let valid = checksum(length, index, &record) == u32::from_le_bytes([e, f, g, h]);
        Ok((valid && is_padded).then_some((index, end, record)))
    }

    pub(super) fn damaged(&self, reason: &'static str) -> ManifestError {
        ManifestError::Damaged { file: self.file.path().to_path_buf(), offset: self.offset, reason }
    }
}
