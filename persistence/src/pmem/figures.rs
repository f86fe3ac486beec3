//! What a pool has done, for INFO.

use std::sync::atomic::{AtomicU64, Ordering};

use super::medium::PmemKind;

/// Figures of a pool since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PmemFigures {
    /// Kind of medium that it is on.
    pub kind: PmemKind,
    /// Bytes of all pool files.
    pub file_bytes: u64,
    /// Bytes that they may have.
    pub max_bytes: u64,
    /// Bytes of slots that belong to an arena, those of retired ones included.
    pub used_bytes: u64,
    /// Bytes of slots of retired arenas, which wait to be erased.
    pub retired_bytes: u64,
    /// Records appended.
    pub records: u64,
    /// Bytes of these records.
    pub record_bytes: u64,
    /// Fences of writers: batches.
    pub fences: u64,
    /// Bytes of media lines that the batches touched: what the medium had to write for them.
    pub media_bytes: u64,
    /// Bytes erased.
    pub erased_bytes: u64,
    /// Media lines that could not be read when the pool was opened.
    pub bad_lines: u64,
    /// c_p as it is on the medium.
    pub complete_seq: u64,
    /// c_d as it is on the medium.
    pub reserved_seq: u64,
    /// Highest sequence that is durable with all before it.
    pub durable_seq: u64,
}

/// Counts of one writer, which alone changes them: no locked instruction, and a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct WriterCounters {
    records: AtomicU64,
    record_bytes: AtomicU64,
    fences: AtomicU64,
    media_bytes: AtomicU64,
}

fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl WriterCounters {
    pub(super) fn count_record(&self, bytes: u64) {
        add(&self.records, 1);
        add(&self.record_bytes, bytes);
    }

    pub(super) fn count_fence(&self) {
        add(&self.fences, 1);
    }

    pub(super) fn count_media(&self, bytes: u64) {
        add(&self.media_bytes, bytes);
    }

    /// Adds its counts to the figures of the pool.
    pub(super) fn add_to(&self, figures: &mut PmemFigures) {
        figures.records += self.records.load(Ordering::Relaxed);
        figures.record_bytes += self.record_bytes.load(Ordering::Relaxed);
        figures.fences += self.fences.load(Ordering::Relaxed);
        figures.media_bytes += self.media_bytes.load(Ordering::Relaxed);
    }
}
