//! The cemetery checkpoint: the graves open as of a sequence, sorted by key, in one file
//! (`engine/FORMAT.md`, "Cemetery checkpoint").

use crate::key::Seq;
use sexton_persistence::checksum::crc32c;
use sexton_persistence::device::{Storage, StorageError};
use std::fmt;
use std::path::Path;

const MAGIC: &[u8; 8] = b"SXGRAVE1";
const BLOCK_BYTES: usize = 256 << 10;
const HEADER_BYTES: u64 = 8 + 8 + 8 + 4;
const BLOCK_HEADER_BYTES: usize = 8;

/// Graves open as of `c`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// The sequence it belongs to.
    pub(crate) c: Seq,
    /// (engine key, d), sorted by key.
    pub(crate) graves: Vec<(Box<[u8]>, Seq)>,
}

/// Why a checkpoint cannot be read. A store without its cemetery would raise its dead, so every one
/// of these refuses to start.
#[derive(Debug)]
pub(crate) enum CheckpointError {
    /// The medium failed.
    Storage(StorageError),
    /// The file is damaged.
    Damaged {
        /// File name.
        file: String,
        /// Byte offset of the damage.
        offset: u64,
        /// What was expected and found.
        what: String,
    },
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::Damaged { file, offset, what } => {
                write!(f, "cemetery checkpoint {file} is damaged at byte {offset}: {what}")
            }
        }
    }
}

impl std::error::Error for CheckpointError {}

impl From<StorageError> for CheckpointError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl Checkpoint {
    /// Writes and syncs the file; returns its length in bytes. The directory entry is the caller's
    /// to sync.
    pub(crate) fn write(&self, storage: &dyn Storage, path: &Path) -> Result<u64, StorageError> {
        let file = storage.create(path)?;
        let mut header = Vec::with_capacity(HEADER_BYTES as usize);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&self.c.to_le_bytes());
        header.extend_from_slice(&(self.graves.len() as u64).to_le_bytes());
        header.extend_from_slice(&crc32c(&header).to_le_bytes());
        file.write_all_at(&header, 0)?;
        let mut offset = HEADER_BYTES;
        let mut block = vec![0; BLOCK_HEADER_BYTES];
        for (i, (key, d)) in self.graves.iter().enumerate() {
            block.extend_from_slice(&(key.len() as u32).to_le_bytes());
            block.extend_from_slice(&d.to_le_bytes());
            block.extend_from_slice(key);
            if block.len() >= BLOCK_BYTES || i + 1 == self.graves.len() {
                let len = (block.len() - BLOCK_HEADER_BYTES) as u32;
                let crc = crc32c(&block[BLOCK_HEADER_BYTES..]);
                block[..4].copy_from_slice(&len.to_le_bytes());
                block[4..8].copy_from_slice(&crc.to_le_bytes());
                file.write_all_at(&block, offset)?;
                offset += block.len() as u64;
                block.truncate(BLOCK_HEADER_BYTES);
            }
        }
        file.sync_data()?;
        Ok(offset)
    }

    /// Reads and checks the file.
    pub(crate) fn read(storage: &dyn Storage, path: &Path) -> Result<Self, CheckpointError> {
        let file = storage.open(path)?;
        let len = file.len()?;
        let damaged = |offset: u64, what: String| CheckpointError::Damaged {
            file: path.display().to_string(),
            offset,
            what,
        };
        if len < HEADER_BYTES {
            return Err(damaged(0, format!("{len} bytes, the header alone has {HEADER_BYTES}")));
        }
        let mut header = [0; HEADER_BYTES as usize];
        file.read_exact_at(&mut header, 0)?;
        if header[..8] != *MAGIC {
            return Err(damaged(0, "not a cemetery checkpoint of a known version".into()));
        }
        let u32_at =
            |b: &[u8], at: usize| u32::from_le_bytes(b[at..at + 4].try_into().expect("4 bytes"));
        let u64_at =
            |b: &[u8], at: usize| u64::from_le_bytes(b[at..at + 8].try_into().expect("8 bytes"));
        check_crc(u32_at(&header, 24), crc32c(&header[..24])).map_err(|what| damaged(24, what))?;
        let (c, count) = (u64_at(&header, 8), u64_at(&header, 16));
        let mut graves = Vec::new();
        let mut offset = HEADER_BYTES;
        let mut block = Vec::new();
        while (graves.len() as u64) < count {
            let mut head = [0; BLOCK_HEADER_BYTES];
            if offset + head.len() as u64 > len {
                return Err(damaged(
                    offset,
                    format!("ends after {} of {count} graves", graves.len()),
                ));
            }
            file.read_exact_at(&mut head, offset)?;
            let block_len = u64::from(u32_at(&head, 0));
            let start = offset + head.len() as u64;
            if block_len == 0 || start + block_len > len {
                return Err(damaged(
                    offset,
                    format!("block of {block_len} bytes in a file of {len}"),
                ));
            }
            block.resize(block_len as usize, 0);
            file.read_exact_at(&mut block, start)?;
            check_crc(u32_at(&head, 4), crc32c(&block)).map_err(|what| damaged(offset, what))?;
            let mut at = 0;
            while at < block.len() {
                let key_len = block.get(at..at + 12).map(|b| u32_at(b, 0) as usize);
                let key = key_len.and_then(|n| block.get(at + 12..at + 12 + n));
                let Some(key) = key else {
                    return Err(damaged(start + at as u64, "grave reaches past its block".into()));
                };
                graves.push((key.into(), u64_at(&block, at + 4)));
                at += 12 + key.len();
            }
            offset = start + block_len;
        }
        if graves.len() as u64 != count || offset != len {
            let what =
                format!("{} graves in {offset} bytes, expected {count} in {len}", graves.len());
            return Err(damaged(offset, what));
        }
        Ok(Self { c, graves })
    }
}

fn check_crc(expected: u32, got: u32) -> Result<(), String> {
    if expected == got {
        return Ok(());
    }
    Err(format!("crc32c {got:08x}, expected {expected:08x}"))
}
