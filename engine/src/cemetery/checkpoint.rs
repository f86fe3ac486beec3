//! The cemetery checkpoint: the graves open as of a sequence, sorted by key, and dead runs, in one file
//! (`engine/FORMAT.md`, "Cemetery checkpoint").

use super::dead_runs::DeadRun;
use crate::key::Seq;
use sexton_persistence::checksum::crc32c;
use sexton_persistence::device::{File, Storage, StorageError};
use std::fmt;
use std::path::Path;

const MAGIC: &[u8; 8] = b"SXGRAVE2";
const BLOCK_BYTES: usize = 256 << 10;
const HEADER_BYTES: usize = 8 + 8 + 8 + 8 + 4;
const BLOCK_HEADER_BYTES: usize = 8;

/// Graves open as of `c`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// The sequence it belongs to.
    pub(crate) c: Seq,
    /// (engine key, d), sorted by key.
    pub(crate) graves: Vec<(Box<[u8]>, Seq)>,
    /// Dead runs with d <= c: a crash that falls back to c leaves them true.
    pub(crate) dead_runs: Vec<DeadRun>,
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
    /// A newer version of Sexton wrote it: the whole text.
    Newer(String),
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::Newer(text) => f.write_str(text),
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
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&self.c.to_le_bytes());
        header.extend_from_slice(&(self.graves.len() as u64).to_le_bytes());
        header.extend_from_slice(&(self.dead_runs.len() as u64).to_le_bytes());
        header.extend_from_slice(&crc32c(&header).to_le_bytes());
        file.write_all_at(&header, 0)?;
        let mut blocks = Blocks { file: &*file, offset: HEADER_BYTES as u64, block: Vec::new() };
        for (key, d) in &self.graves {
            blocks.block.extend_from_slice(&(key.len() as u32).to_le_bytes());
            blocks.block.extend_from_slice(&d.to_le_bytes());
            blocks.block.extend_from_slice(key);
            blocks.close_full(BLOCK_BYTES)?;
        }
        blocks.close_full(1)?;
        for run in &self.dead_runs {
            blocks.block.extend_from_slice(&(run.from.len() as u32).to_le_bytes());
            blocks.block.extend_from_slice(&(run.to.len() as u32).to_le_bytes());
            blocks.block.extend_from_slice(&run.d.to_le_bytes());
            blocks.block.extend_from_slice(&run.keys.to_le_bytes());
            blocks.block.extend_from_slice(&run.from);
            blocks.block.extend_from_slice(&run.to);
            blocks.close_full(BLOCK_BYTES)?;
        }
        blocks.close_full(1)?;
        file.sync_data()?;
        Ok(blocks.offset)
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
        if len < HEADER_BYTES as u64 {
            return Err(damaged(0, format!("{len} bytes, the header alone has {HEADER_BYTES}")));
        }
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0)?;
        if header[..7] == MAGIC[..7] && header[7] > MAGIC[7] {
            let (file, version) = (path.display(), char::from(header[7]));
            return Err(CheckpointError::Newer(format!(
                "{file} has format version {version}: a newer Sexton wrote it, and this one cannot read it"
            )));
        }
        if &header[..8] != MAGIC {
            return Err(damaged(0, "not a cemetery checkpoint of a known version".into()));
        }
        let crc_at = HEADER_BYTES - 4;
        check_crc(u32_at(&header, crc_at), crc32c(&header[..crc_at]))
            .map_err(|what| damaged(crc_at as u64, what))?;
        let (c, count, run_count) = (u64_at(&header, 8), u64_at(&header, 16), u64_at(&header, 24));
        let (mut graves, mut dead_runs) = (Vec::new(), Vec::new());
        let mut offset = HEADER_BYTES as u64;
        let mut block = Vec::new();
        let left = |graves: &Vec<_>, runs: &Vec<_>| {
            (graves.len() as u64) < count || (runs.len() as u64) < run_count
        };
        while left(&graves, &dead_runs) {
            let mut head = [0; BLOCK_HEADER_BYTES];
            let start = offset + head.len() as u64;
            if start > len {
                let what = format!(
                    "ends after {} of {count} graves and {} of {run_count} dead runs",
                    graves.len(),
                    dead_runs.len()
                );
                return Err(damaged(offset, what));
            }
            file.read_exact_at(&mut head, offset)?;
            let block_len = u64::from(u32_at(&head, 0));
            if block_len == 0 || start + block_len > len {
                return Err(damaged(
                    offset,
                    format!("block of {block_len} bytes in a file of {len}"),
                ));
            }
            block.resize(block_len as usize, 0);
            file.read_exact_at(&mut block, start)?;
            check_crc(u32_at(&head, 4), crc32c(&block)).map_err(|what| damaged(offset, what))?;
            let mut rest = block.as_slice();
            while !rest.is_empty() {
                let is_grave = (graves.len() as u64) < count;
                let taken = if is_grave {
                    take_grave(&mut rest).map(|grave| graves.push(grave))
                } else {
                    take_run(&mut rest).map(|run| dead_runs.push(run))
                };
                if taken.is_none() {
                    let at = start + (block.len() - rest.len()) as u64;
                    return Err(damaged(at, "entry reaches past its block".into()));
                }
            }
            offset = start + block_len;
        }
        if (graves.len() as u64, dead_runs.len() as u64, offset) != (count, run_count, len) {
            let what = format!(
                "{} graves and {} dead runs in {offset} bytes, expected {count} and {run_count} in {len}",
                graves.len(),
                dead_runs.len()
            );
            return Err(damaged(offset, what));
        }
        Ok(Self { c, graves, dead_runs })
    }
}

/// The blocks of a file being written.
struct Blocks<'f> {
    file: &'f dyn File,
    offset: u64,
    block: Vec<u8>,
}

impl Blocks<'_> {
    /// Writes the block if it has `bytes` or more.
    fn close_full(&mut self, bytes: usize) -> Result<(), StorageError> {
        if self.block.len() < bytes {
            return Ok(());
        }
        let mut head = [0; BLOCK_HEADER_BYTES];
        head[..4].copy_from_slice(&(self.block.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&crc32c(&self.block).to_le_bytes());
        self.file.write_all_at(&head, self.offset)?;
        self.file.write_all_at(&self.block, self.offset + head.len() as u64)?;
        self.offset += (head.len() + self.block.len()) as u64;
        self.block.clear();
        Ok(())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Takes a grave off the front; `None`, and nothing taken, when it reaches past the end.
fn take_grave(rest: &mut &[u8]) -> Option<(Box<[u8]>, Seq)> {
    let (head, tail) = rest.split_first_chunk::<12>()?;
    let (key, tail) = tail.split_at_checked(u32_at(head, 0) as usize)?;
    *rest = tail;
    Some((key.into(), u64_at(head, 4)))
}

/// Takes a dead run off the front, like `take_grave`.
fn take_run(rest: &mut &[u8]) -> Option<DeadRun> {
    let (head, tail) = rest.split_first_chunk::<24>()?;
    let (from, tail) = tail.split_at_checked(u32_at(head, 0) as usize)?;
    let (to, tail) = tail.split_at_checked(u32_at(head, 4) as usize)?;
    *rest = tail;
    Some(DeadRun { from: from.into(), to: to.into(), d: u64_at(head, 8), keys: u64_at(head, 16) })
}

fn check_crc(expected: u32, got: u32) -> Result<(), String> {
    if expected == got {
        return Ok(());
    }
    Err(format!("crc32c {got:08x}, expected {expected:08x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sexton_persistence::device::sim::SimStorage;

    fn sample(graves: u64, runs: u64) -> Checkpoint {
        let key = |i: u64| Box::from(i.to_be_bytes().repeat(9));
        Checkpoint {
            c: 99,
            graves: (0..graves).map(|i| (key(i), i)).collect(),
            dead_runs: (0..runs)
                .map(|i| DeadRun { from: key(2 * i), to: key(2 * i + 1), d: i, keys: 64 + i })
                .collect(),
        }
    }

    #[test]
    fn graves_and_runs_survive_the_trip_over_many_blocks() {
        let storage = SimStorage::new();
        storage.create_dir_all(Path::new("d")).unwrap();
        for (graves, runs) in [(0, 0), (1, 0), (0, 3), (9000, 5000)] {
            let path = Path::new("d/000001.graves");
            let written = sample(graves, runs);
            written.write(&storage, path).unwrap();
            assert_eq!(Checkpoint::read(&storage, path).unwrap(), written);
        }
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_found() {
        let storage = SimStorage::new();
        storage.create_dir_all(Path::new("d")).unwrap();
        let path = Path::new("d/000001.graves");
        let len = sample(3, 2).write(&storage, path).unwrap();
        let mut bytes = vec![0; len as usize];
        storage.open(path).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        let is_refused = |bytes: &[u8]| {
            storage.create(path).unwrap().write_all_at(bytes, 0).unwrap();
            Checkpoint::read(&storage, path).is_err()
        };
        for at in 0..bytes.len() {
            assert!(is_refused(&bytes[..at]), "cut at {at}");
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(is_refused(&changed), "changed at {at}");
        }
        assert!(!is_refused(&bytes));
    }
}
