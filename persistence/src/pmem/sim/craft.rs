//! Pools made up piece by piece, with valid checksums, as no writer leaves them: for fuzzing.

use std::path::Path;

use super::{SimMode, SimPmem};
use crate::pmem::chunk::{CHUNK_HEADER_BYTES, ChunkHeader};
use crate::pmem::control::{CONTROL_FILE, ControlState};
use crate::pmem::pool::file_name;
use crate::pmem::record::{List, NewRecord};

/// A pool in the making. What does not fit into its files is left out.
#[derive(Debug)]
pub struct CraftedPool {
    control: ControlState,
    files: Vec<Vec<u8>>,
    /// What the checksums in the last chunk start from.
    seed: u32,
}

impl CraftedPool {
    /// Files of as many slots each.
    #[must_use]
    pub fn new(files: usize, slots: usize, slot_bytes: usize) -> Self {
        let control = ControlState {
            version: 1,
            pool_id: 77,
            slot_bytes: slot_bytes as u64,
            epoch: 1,
            files: files as u32,
            ..ControlState::default()
        };
        Self { control, files: vec![vec![0; slots * slot_bytes]; files], seed: 0 }
    }

    /// The pair (c_p, c_d), and the floor.
    pub fn set_pair(&mut self, complete: u64, reserved: u64, floor: u64) {
        (self.control.complete, self.control.reserved) = (complete, reserved);
        self.control.floor = floor;
    }

    /// A stretch that an earlier recovery gave up.
    pub fn add_void(&mut self, first: u64, last: u64) {
        self.control.add_void(first, last, 0);
    }

    /// The header of a chunk. Answers the offset of its first record.
    pub fn add_chunk(
        &mut self,
        (file, offset): (usize, usize),
        (arena, base, slots): (u64, u64, u32),
        list: List,
    ) -> usize {
        let pool_id = self.control.pool_id;
        let use_number = (1 << 32) + offset as u64 + file as u64;
        let header = ChunkHeader { pool_id, use_number, arena, base, slots, writer: 0, list };
        self.seed = header.seed();
        self.put(file, offset, &header.encode());
        offset + CHUNK_HEADER_BYTES as usize
    }

    /// A record as of the chunk added last. Answers the offset behind it.
    pub fn add_record(
        &mut self,
        (file, offset): (usize, usize),
        first_of_batch: bool,
        record: &NewRecord<'_>,
    ) -> usize {
        let header = record.header(self.seed, first_of_batch);
        let bytes = [&header[..], record.key.0, record.key.1, record.value].concat();
        self.put(file, offset, &bytes);
        offset + record.encoded_len()
    }

    /// Turns bits of a byte.
    pub fn damage(&mut self, file: usize, offset: usize, bits: u8) {
        if let Some(byte) = self.files.get_mut(file).and_then(|bytes| bytes.get_mut(offset)) {
            *byte ^= bits;
        }
    }

    fn put(&mut self, file: usize, offset: usize, bytes: &[u8]) {
        let bytes_of = self.files.get_mut(file);
        if let Some(to) = bytes_of.and_then(|all| all.get_mut(offset..offset + bytes.len())) {
            to.copy_from_slice(bytes);
        }
    }

    /// The pool, in `dir`.
    #[must_use]
    pub fn finish(self, dir: &Path) -> SimPmem {
        let pmem = SimPmem::new(SimMode::Pmem);
        let copy = self.control.encode();
        pmem.put(&dir.join(CONTROL_FILE), [copy, copy].concat());
        for (number, bytes) in (1..).zip(self.files) {
            pmem.put(&dir.join(file_name(number)), bytes);
        }
        pmem
    }
}
