//! Looking at a pool that nobody has open, without changing it: for `sexton-check`. Needs no libpmem.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::control::{CONTROL_FILE, ControlState};
use super::error::{PmemError, PmemResult};
use super::medium::Readable;
use super::pool::file_name;
use super::record::List;
use super::run::Run;
use super::scan::Scan;
use crate::device::{File, Storage, StorageResult};

/// What a pool holds, and what is wrong with it.
#[derive(Debug, Clone, Default)]
pub struct Inspection {
    /// What a start would refuse (N8).
    pub damage: Vec<PmemError>,
    /// Number of pool files.
    pub files: u64,
    /// Bytes of all pool files.
    pub file_bytes: u64,
    /// Size of a slot, in bytes.
    pub slot_bytes: u64,
    /// Chunks with a valid header.
    pub chunks: u64,
    /// Memtables that the records above the mark belong to.
    pub arenas: u64,
    /// Valid records above the mark up to R in the lists of versions.
    pub versions: u64,
    /// Valid records above the mark up to R in the lists of graves.
    pub graves: u64,
    /// Bytes of the valid records above the mark.
    pub record_bytes: u64,
    /// R: the last sequence that is there with all before it.
    pub last_seq: u64,
    /// Valid records above R, which the next start gives up.
    pub given_up: u64,
    /// Chunks or free slots in which something is behind the last valid record: a torn batch, or an erasing that
    /// was cut short. The next start erases it.
    pub torn: u64,
    /// c_p: every sequence up to it is complete or in a void.
    pub complete_seq: u64,
    /// c_d: no sequence above was ever handed out.
    pub reserved_seq: u64,
    /// Stretches of sequences that starts have given up.
    pub voids: u64,
    /// How many times it was opened.
    pub epoch: u32,
    /// Media lines that cannot be read.
    pub bad_lines: u64,
}

/// Reads the pool in `dir`, with `mark` as in the manifest.
///
/// # Errors
/// The directory cannot be listed, or there is no pool in it, or one that does not belong together. Damage is no
/// error: it is in the answer.
pub fn inspect(storage: &Arc<dyn Storage>, dir: &Path, mark: u64) -> PmemResult<Inspection> {
    let control_path = dir.join(CONTROL_FILE);
    let control = ControlState::read(&PoolFile::open(storage, &control_path)?)?;
    let control = control.ok_or_else(|| PmemError::Damaged {
        path: control_path,
        offset: 0,
        message: "neither copy is valid".to_owned(),
    })?;
    let open = |number: usize| PoolFile::open(storage, &dir.join(file_name(number)));
    let files = (1..=control.files as usize).map(open).collect::<StorageResult<Vec<_>>>()?;
    let readable: Vec<&dyn Readable> = files.iter().map(|file| file as _).collect();
    let scan = Scan { regions: &readable, control: &control, mark, threads: 0 };
    let found = scan.run()?;
    let run = Run::find(&found, &control, mark);
    let mut seen = Inspection {
        damage: run.damage(&found, &readable, &control),
        files: files.len() as u64,
        file_bytes: files.iter().map(|file| file.len).sum(),
        slot_bytes: control.slot_bytes,
        last_seq: run.last_seq,
        complete_seq: control.complete,
        reserved_seq: control.reserved,
        voids: control.voids.len() as u64,
        epoch: control.epoch,
        ..Inspection::default()
    };
    let mut arenas = BTreeSet::new();
    for found in &found {
        seen.bad_lines += found.bad_lines.len() as u64;
        seen.torn += u64::from(found.has_rest);
        let Some(header) = found.header else { continue };
        seen.chunks += 1;
        seen.record_bytes += found.record_bytes;
        let kept = found.noted.partition_point(|noted| noted.seq() <= run.last_seq) as u64;
        seen.given_up += found.noted.len() as u64 - kept;
        match header.list {
            List::Versions => seen.versions += kept,
            List::Graves => seen.graves += kept,
        }
        if kept > 0 {
            arenas.insert(header.arena);
        }
    }
    seen.arenas = arenas.len() as u64;
    Ok(seen)
}

/// A file of the pool, not mapped.
#[derive(Debug)]
struct PoolFile {
    file: Arc<dyn File>,
    len: u64,
}

impl PoolFile {
    fn open(storage: &Arc<dyn Storage>, path: &Path) -> StorageResult<Self> {
        let file = storage.open(path)?;
        Ok(Self { len: file.len()?, file })
    }
}

impl Readable for PoolFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> StorageResult<()> {
        self.file.read_exact_at(buf, offset)
    }
}
