//! The scan: what is in the chunks, read by several threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

use super::chunk::{CHUNK_HEADER_BYTES, ChunkHeader, Walk};
use super::control::ControlState;
use super::error::{PmemError, PmemResult};
use super::medium::{MEDIA_LINE_BYTES, Readable};
use super::record::Header;
use super::rules::{Rule, kept};
use crate::device::LINE_BYTES;

/// Pieces in which a stretch is read that cannot be read as a whole.
const PIECE_BYTES: usize = 4096;

/// A chunk, or a slot without one, that is to be read.
#[derive(Debug)]
struct Job {
    file: usize,
    offset: u64,
    len: u64,
    header: Option<ChunkHeader>,
}

/// A record in one word, for there are many: its sequence, and whether the next one belongs to its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Noted(u64);

impl Noted {
    fn of(record: &Header) -> Self {
        Self(record.seq << 1 | u64::from(record.more))
    }

    pub(super) fn seq(self) -> u64 {
        self.0 >> 1
    }

    pub(super) fn more(self) -> bool {
        self.0 & 1 == 1
    }
}

/// What is in a chunk, or in a slot without one.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Index of its file.
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) header: Option<ChunkHeader>,
    /// The valid records above the mark and in no void, ascending.
    pub(super) noted: Vec<Noted>,
    /// Offset in the chunk behind the last of the records at or below `end_seq`, or in front of the first.
    pub(super) end: u64,
    /// Bytes of the records above the mark up to `end`.
    pub(super) record_bytes: u64,
    /// Behind `end` there is something other than zeros.
    pub(super) has_rest: bool,
    /// Offsets in the file of the media lines that could not be read.
    pub(super) bad_lines: Vec<u64>,
    /// Where in the file something shows that durable data is missing, and the sequence that shows it: none where
    /// there is a slot without a header.
    pub(super) evidence: Option<(u64, Option<u64>)>,
}

/// What the scan has to know of the pool.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    pub(super) regions: &'a [&'a dyn Readable],
    pub(super) control: &'a ControlState,
    pub(super) mark: u64,
    /// 0 for as many as there are processors.
    pub(super) threads: usize,
}

impl Scan<'_> {
    /// How many threads it takes.
    pub(super) fn threads(&self) -> usize {
        match self.threads {
            0 => thread::available_parallelism().map_or(1, NonZeroUsize::get),
            threads => threads,
        }
    }

    /// Reads everything. In the order of files and offsets.
    pub(super) fn run(&self) -> PmemResult<Vec<Found>> {
        let mut jobs = Vec::new();
        for (file, region) in self.regions.iter().enumerate() {
            self.find_jobs(file, *region, &mut jobs)?;
        }
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(jobs.len())));
        let work = || {
            let mut buffer = Vec::new();
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let read = self.read_chunk(job, u64::MAX, &mut buffer);
                found.lock().push(read);
            }
        };
        match self.threads().min(jobs.len()) {
            // On this very thread: tests switch rules off for one.
            0 | 1 => work(),
            threads => thread::scope(|scope| {
                (0..threads).for_each(|_| drop(scope.spawn(work)));
            }),
        }
        let mut found = found.into_inner();
        found.sort_unstable_by_key(|found: &Found| (found.file, found.offset));
        Ok(found)
    }

    /// Reads a chunk again, up to the last record at or below `end_seq`.
    pub(super) fn read_again(&self, found: &Found, end_seq: u64) -> Found {
        let Found { file, offset, len, header, .. } = *found;
        self.read_chunk(&Job { file, offset, len, header }, end_seq, &mut Vec::new())
    }

    /// Goes from chunk to chunk of a file by the headers.
    fn find_jobs(&self, file: usize, region: &dyn Readable, jobs: &mut Vec<Job>) -> PmemResult<()> {
        let slot_bytes = self.control.slot_bytes;
        if region.is_empty() || !region.len().is_multiple_of(slot_bytes) {
            return Err(PmemError::Refused {
                path: region.path().to_path_buf(),
                message: format!("{} bytes, not a multiple of {slot_bytes}", region.len()),
            });
        }
        let mut offset = 0;
        while offset < region.len() {
            let mut line = [0; CHUNK_HEADER_BYTES as usize];
            let header = region.read(offset, &mut line).ok();
            let header = header.and_then(|()| ChunkHeader::decode(&line, self.control.pool_id));
            let len = header.map_or(1, |header| u64::from(header.slots)) * slot_bytes;
            let (header, len) =
                if len <= region.len() - offset { (header, len) } else { (None, slot_bytes) };
            jobs.push(Job { file, offset, len, header });
            offset += len;
        }
        Ok(())
    }

    fn read_chunk(&self, job: &Job, end_seq: u64, buffer: &mut Vec<u8>) -> Found {
        let &Job { file, offset, len, header } = job;
        let region = self.regions[file];
        let bad_lines = read_around_errors(region, offset, len as usize, buffer);
        let mut found = Found {
            file,
            offset,
            len,
            header,
            noted: Vec::new(),
            end: 0,
            record_bytes: 0,
            has_rest: false,
            bad_lines,
            evidence: None,
        };
        let bytes = &buffer[..];
        let Some(header) = header else {
            found.has_rest = !is_zero(bytes);
            // M8: behind a header line that was torn there is nothing yet. Most slots without a header are empty,
            // which `is_zero` sees many times faster than a look at each byte.
            let rest = &bytes[CHUNK_HEADER_BYTES as usize..];
            if found.has_rest
                && let Some(at) = rest.iter().position(|b| *b != 0)
            {
                found.evidence = Some((offset + CHUNK_HEADER_BYTES + at as u64, None));
            }
            return found;
        };
        let (mut before, seed) = (header.base, header.seed());
        let mut walk = Walk::new(bytes, CHUNK_HEADER_BYTES);
        found.end = CHUNK_HEADER_BYTES;
        while let Some((rest, record)) =
            walk.next_if(|record, rest| is_valid(record, rest, before, seed))
        {
            before = record.seq;
            // What was given up once stays given up, and all behind it in the chunk.
            if record.seq > end_seq || self.control.is_void(record.seq) {
                break;
            }
            found.end = walk.at() as u64;
            if record.seq > self.mark {
                found.noted.push(Noted::of(&record));
                found.record_bytes += record.len().min(rest.len()) as u64;
            }
        }
        let end = found.end as usize;
        found.has_rest = !is_zero(&bytes[end..]);
        if found.has_rest && end_seq == u64::MAX {
            found.evidence = self.evidence_behind(bytes, walk.at(), before, seed);
            if let Some((at, _)) = &mut found.evidence {
                *at += offset;
            }
        }
        found
    }

    /// A batch behind the end of the walk shows that a fence had passed over what cannot be read there.
    fn evidence_behind(
        &self,
        bytes: &[u8],
        end: usize,
        before: u64,
        seed: u32,
    ) -> Option<(u64, Option<u64>)> {
        let first_line = end.next_multiple_of(LINE_BYTES as usize);
        (first_line..bytes.len()).step_by(LINE_BYTES as usize).find_map(|at| {
            let rest = &bytes[at..];
            let record = Header::read(rest)?;
            let shows = record.first_of_batch
                && record.seq > self.mark.max(self.control.floor)
                && !self.control.is_void(record.seq)
                && is_valid(&record, rest, before, seed);
            shows.then_some((end as u64, Some(record.seq)))
        })
    }
}

fn is_valid(record: &Header, rest: &[u8], before: u64, seed: u32) -> bool {
    record.seq > before && (!kept(Rule::Checksum) || record.verify(rest, seed))
}

fn is_zero(bytes: &[u8]) -> bool {
    // Compared with itself, one byte further on: by blocks, as memcmp does it.
    bytes.is_empty() || (bytes[0] == 0 && bytes[1..] == bytes[..bytes.len() - 1])
}

/// Reads `len` bytes at `offset` into `buffer`; media lines that cannot be read become zeros. Answers
/// their offsets in the file.
fn read_around_errors(
    region: &dyn Readable,
    offset: u64,
    len: usize,
    buffer: &mut Vec<u8>,
) -> Vec<u64> {
    buffer.resize(len, 0);
    let mut bad_lines = Vec::new();
    if region.read(offset, buffer).is_ok() {
        return bad_lines;
    }
    for (nth, piece) in buffer.chunks_mut(PIECE_BYTES).enumerate() {
        let at = offset + (nth * PIECE_BYTES) as u64;
        if region.read(at, piece).is_ok() {
            continue;
        }
        for (nth, line) in piece.chunks_mut(MEDIA_LINE_BYTES as usize).enumerate() {
            let at = at + nth as u64 * MEDIA_LINE_BYTES;
            if region.read(at, line).is_err() {
                line.fill(0);
                bad_lines.push(at);
            }
        }
    }
    bad_lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_told_from_a_single_other_byte_anywhere() {
        assert!(is_zero(&[]) && is_zero(&[0]) && !is_zero(&[1]));
        for len in [2, 7, 8, 9, 300] {
            assert!(is_zero(&vec![0; len]));
            for at in 0..len {
                let mut bytes = vec![0; len];
                bytes[at] = 3;
                assert!(!is_zero(&bytes), "byte {at} of {len}");
            }
            assert!(!is_zero(&vec![3; len]));
        }
    }
}
