//! The frame around a record, and reading a file of frames.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::ManifestError;
use crate::checksum::{Crc32c, crc32c};
use crate::device::File;

/// First bytes of a manifest file; the last one is the version of the format.
const MAGIC: &[u8; 16] = b"SEXTON MANIFEST\x02";
/// Of before a file had a secret.
const MAGIC_1: &[u8; 16] = b"SEXTON MANIFEST\x01";
/// Magic, secret (8), crc of both (4), zeros (4).
const HEADER_BYTES: usize = 32;
/// Length (4), checksum (4), index of the record (8), all little-endian.
const FACTS_BYTES: usize = 16;
/// With the proof (8).
const FRAME_BYTES: usize = FACTS_BYTES + 8;
/// Frames start at multiples of this.
const ALIGNMENT: usize = 8;
/// Larger records are refused; a larger length in a file is not a frame.
pub const RECORD_BYTES_MAX: usize = 1 << 30;
/// What is read at once to look for frames.
const LOOK_BYTES: u64 = 1 << 20;

/// What tells a frame of a file from bytes inside a record, which clients may have written: a number of the file
/// that nobody outside knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secret {
    /// A file of version 1.
    None,
    /// Unreadable with the header: frames are known by their places alone.
    Lost,
    Known(u64),
}

impl Secret {
    fn header_bytes(self) -> usize {
        if self == Self::None { MAGIC_1.len() } else { HEADER_BYTES }
    }

    fn frame_bytes(self) -> usize {
        if self == Self::None { FACTS_BYTES } else { FRAME_BYTES }
    }

    /// The header of a file.
    pub(super) fn header(self) -> Vec<u8> {
        let Self::Known(secret) = self else { return MAGIC_1.to_vec() };
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&secret.to_le_bytes());
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes.resize(HEADER_BYTES, 0);
        bytes
    }

    /// The secret in the header of a file.
    pub(super) fn of(file: &dyn File, length: u64) -> Result<Self, ManifestError> {
        let mut bytes = vec![0; length.min(HEADER_BYTES as u64) as usize];
        file.read_exact_at(&mut bytes, 0)?;
        if bytes.starts_with(MAGIC_1) {
            return Ok(Self::None);
        }
        let secret =
            bytes.get(MAGIC.len()..MAGIC.len() + 8).and_then(|bytes| bytes.try_into().ok());
        let secret = secret.map(|bytes| Self::Known(u64::from_le_bytes(bytes)));
        Ok(secret.filter(|secret| secret.header() == bytes).unwrap_or(Self::Lost))
    }

    /// Whether the frame's first bytes prove that it is one of the file.
    fn proves(self, frame: &[u8]) -> bool {
        let Self::Known(secret) = self else { return true };
        let (facts, proof) = frame.split_at(FACTS_BYTES);
        proof == xxh3_64_with_seed(facts, secret).to_le_bytes()
    }

    /// The frame of a record, padded.
    pub(super) fn encode(self, index: u64, record: &[u8]) -> Result<Vec<u8>, ManifestError> {
        let length = u32::try_from(record.len())
            .ok()
            .filter(|length| *length as usize <= RECORD_BYTES_MAX)
            .ok_or(ManifestError::TooLarge { bytes: record.len() })?;
        let mut bytes = Vec::with_capacity(FRAME_BYTES + record.len() + ALIGNMENT);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&checksum(length, index, record).to_le_bytes());
        bytes.extend_from_slice(&index.to_le_bytes());
        if let Self::Known(secret) = self {
            let proof = xxh3_64_with_seed(&bytes, secret);
            bytes.extend_from_slice(&proof.to_le_bytes());
        }
        bytes.extend_from_slice(record);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        Ok(bytes)
    }
}

fn checksum(length: u32, index: u64, record: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(&length.to_le_bytes());
    crc.update(&index.to_le_bytes());
    crc.update(record);
    crc.finish()
}

/// What a file holds.
pub(super) struct Scan {
    pub(super) secret: Secret,
    /// End of the last valid frame.
    pub(super) end: u64,
    pub(super) records: u64,
    /// Unfinished bytes follow `end`.
    pub(super) torn: bool,
}

/// The version of a header that is whole and newer than this code.
fn newer_version(file: &dyn File, length: u64) -> Result<Option<u8>, ManifestError> {
    let mut bytes = [0; HEADER_BYTES];
    if length < HEADER_BYTES as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut bytes, 0)?;
    let (name, version) = (&MAGIC[..MAGIC.len() - 1], bytes[MAGIC.len() - 1]);
    let checked = MAGIC.len() + 8;
    let is_whole = bytes[checked..checked + 4] == crc32c(&bytes[..checked]).to_le_bytes();
    let is_newer = bytes.starts_with(name) && version > MAGIC[MAGIC.len() - 1];
    Ok((is_newer && is_whole).then_some(version))
}

/// Reads the whole file. A bad frame is the torn end of the file, unless a valid frame of a later
/// record is behind it: every append is synced before the next, so that is damage.
pub(super) fn scan(file: &dyn File) -> Result<Scan, ManifestError> {
    let length = file.len()?;
    let secret = Secret::of(file, length)?;
    let mut reader = FrameReader::new(file, length, secret);
    if secret == Secret::Lost {
        // Never the effect of a crash: the header is synced before CURRENT names the file.
        reader.offset = 0;
        if let Some(version) = newer_version(file, length)? {
            return Err(ManifestError::Newer { file: file.path().to_path_buf(), version });
        }
        return Err(reader.damaged("no manifest of this version"));
    }
    while reader.next_record()?.is_some() {}
    let (end, records) = (reader.offset, reader.index);
    if reader.find(end + ALIGNMENT as u64, records + 1)?.is_some() {
        return Err(reader.damaged("a bad record is followed by a valid one"));
    }
    Ok(Scan { secret, end, records, torn: length > end })
}

/// A frame: its index, where it ends, and its record.
pub(super) type Frame = (u64, u64, Vec<u8>);

/// Walks over the frames of a file.
pub(super) struct FrameReader<'a> {
    file: &'a dyn File,
    limit: u64,
    secret: Secret,
    offset: u64,
    index: u64,
    /// Bytes of records that [`find`](Self::find) has read in vain.
    read_in_vain: u64,
}

impl<'a> FrameReader<'a> {
    pub(super) fn new(file: &'a dyn File, limit: u64, secret: Secret) -> Self {
        let offset = secret.header_bytes() as u64;
        Self { file, limit, secret, offset, index: 0, read_in_vain: 0 }
    }

    /// Where the next frame is expected.
    pub(super) fn offset(&self) -> u64 {
        self.offset
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

    /// The first valid frame at or behind `from` with an index of at least `least`. Reads every byte once: a record
    /// only behind a frame that is proven, or in a file of version 1 as long as few of them are not valid.
    pub(super) fn find(&mut self, from: u64, least: u64) -> Result<Option<Frame>, ManifestError> {
        let frame_bytes = self.secret.frame_bytes() as u64;
        let mut bytes = Vec::new();
        let mut at = from;
        while at + frame_bytes <= self.limit {
            bytes.resize(LOOK_BYTES.min(self.limit - at) as usize, 0);
            self.file.read_exact_at(&mut bytes, at)?;
            let mut inside = 0;
            while let Some(frame) = bytes.get(inside..inside + frame_bytes as usize) {
                let here = at + inside as u64;
                let fits = self.facts(here, frame).is_some_and(|(index, _)| {
                    index >= least && index - least <= (self.limit - here) / frame_bytes
                });
                if fits && self.secret.proves(frame) {
                    if let Some(found) = self.frame_at(here)? {
                        return Ok(Some(found));
                    }
                    self.read_in_vain += self.facts(here, frame).map_or(0, |(_, end)| end - here);
                    if self.read_in_vain > 4 * self.limit {
                        return Err(self.damaged("too much behind a bad record looks like one"));
                    }
                }
                inside += ALIGNMENT;
            }
            at += inside as u64;
        }
        Ok(None)
    }

    /// Index and end of the frame at `at` with these first bytes, if it can be one.
    fn facts(&self, at: u64, frame: &[u8]) -> Option<(u64, u64)> {
        let (length, rest) = frame.split_first_chunk()?;
        let (_, rest) = rest.split_first_chunk::<4>()?;
        let (index, _) = rest.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        let end = at + (self.secret.frame_bytes() + length).next_multiple_of(ALIGNMENT) as u64;
        let fits = length <= RECORD_BYTES_MAX && end <= self.limit;
        fits.then_some((u64::from_le_bytes(*index), end))
    }

    /// Index, end and content of the frame at `at`, if it is valid and whole.
    fn frame_at(&self, at: u64) -> Result<Option<Frame>, ManifestError> {
        let frame_bytes = self.secret.frame_bytes();
        if self.limit.saturating_sub(at) < frame_bytes as u64 {
            return Ok(None);
        }
        let mut frame = [0; FRAME_BYTES];
        let frame = &mut frame[..frame_bytes];
        self.file.read_exact_at(frame, at)?;
        let Some((index, end)) = self.facts(at, frame).filter(|_| self.secret.proves(frame)) else {
            return Ok(None);
        };
        let [a, b, c, d, e, f, g, h, ..] = *frame else { return Ok(None) };
        let length = u32::from_le_bytes([a, b, c, d]);
        let mut record = vec![0; (end - at) as usize - frame_bytes];
        self.file.read_exact_at(&mut record, at + frame_bytes as u64)?;
        // No checksum covers the padding: it is known instead, so that no changed byte goes unseen.
        let is_padded = record.drain(length as usize..).all(|byte| byte == 0);
        let valid = checksum(length, index, &record) == u32::from_le_bytes([e, f, g, h]);
        Ok((valid && is_padded).then_some((index, end, record)))
    }

    pub(super) fn damaged(&self, reason: &'static str) -> ManifestError {
        ManifestError::Damaged { file: self.file.path().to_path_buf(), offset: self.offset, reason }
    }
}
