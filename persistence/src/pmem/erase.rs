//! Erasing: zeros over what is given up (M4, M8, N17).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::chunk::CHUNK_HEADER_BYTES;
use super::medium::{POOL_LANE, Region};
use super::rules::{Rule, kept};
use crate::device::StorageResult;

/// What is to be erased, by file.
#[derive(Debug, Default)]
pub(super) struct Erase {
    files: BTreeMap<usize, OfFile>,
}

#[derive(Debug)]
struct OfFile {
    region: Arc<dyn Region>,
    bodies: Vec<Range<u64>>,
    headers: Vec<Range<u64>>,
}

impl Erase {
    /// Adds a stretch of a file behind a header that stays, or without one.
    pub(super) fn add(&mut self, file: usize, region: &Arc<dyn Region>, stretch: Range<u64>) {
        if stretch.start < stretch.end {
            self.of_file(file, region).bodies.push(stretch);
        }
    }

    /// Adds a chunk that is filled up to `filled`.
    pub(super) fn add_chunk(
        &mut self,
        file: usize,
        region: &Arc<dyn Region>,
        offset: u64,
        filled: u64,
    ) {
        let body = offset + CHUNK_HEADER_BYTES;
        self.add(file, region, body..offset + filled);
        self.of_file(file, region).headers.push(offset..body);
    }

    fn of_file(&mut self, file: usize, region: &Arc<dyn Region>) -> &mut OfFile {
        self.files.entry(file).or_insert_with(|| OfFile {
            region: Arc::clone(region),
            bodies: Vec::new(),
            headers: Vec::new(),
        })
    }

    /// Does it: bodies, a fence, headers, a fence (M8).
    pub(super) fn run(&self) -> StorageResult<()> {
        if !kept(Rule::Erase) {
            return Ok(());
        }
        for file in self.files.values() {
            file.zero(&file.bodies)?;
        }
        for file in self.files.values() {
            file.zero(&file.headers)?;
        }
        Ok(())
    }

    /// How many bytes.
    pub(super) fn bytes(&self) -> u64 {
        let all = self.files.values().flat_map(|file| file.bodies.iter().chain(&file.headers));
        all.map(|stretch| stretch.end - stretch.start).sum()
    }
}

impl OfFile {
    /// Zeros, and a fence.
    fn zero(&self, stretches: &[Range<u64>]) -> StorageResult<()> {
        for stretch in stretches {
            self.region.zero(POOL_LANE, stretch.start, stretch.end - stretch.start);
        }
        if stretches.is_empty() { Ok(()) } else { self.region.fence(POOL_LANE, stretches) }
    }
}
