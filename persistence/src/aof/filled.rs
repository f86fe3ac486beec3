//! How much of a segment is records: the rest is preallocated filler, which need not be read.

use super::annotation::ALIGNMENT_BYTES;
use super::{FILLER, HEADER_BYTES, LogLocation};
use crate::device::{File, Storage, StorageResult};

/// Block size of the search, in bytes: one line of a block is checked, and one block is read whole.
const BLOCK_BYTES: u64 = 64 << 10;

/// Bytes of groups in a segment of `file_bytes`: what is between its header and the filler at its end.
///
/// A full segment costs one short read; others a binary search, twelve reads for 64 MiB. The result is an estimate: a value
/// that is filler itself can make it too small, and a torn tail is counted.
pub(super) fn filled_bytes(file: &dyn File, file_bytes: u64) -> StorageResult<u64> {
    let mut line = [0; ALIGNMENT_BYTES];
    let last_at = file_bytes.checked_sub(ALIGNMENT_BYTES as u64);
    if let Some(at) = last_at {
        file.read_exact_at(&mut line, at)?;
    }
    if line != FILLER {
        return Ok(file_bytes.saturating_sub(HEADER_BYTES as u64));
    }
    let (mut filled, mut filler) = (0, file_bytes.div_ceil(BLOCK_BYTES));
    while filler - filled > 1 {
        let middle = filled + (filler - filled) / 2;
        let at = middle * BLOCK_BYTES;
        let known = (file_bytes - at).min(ALIGNMENT_BYTES as u64) as usize;
        file.read_exact_at(&mut line[..known], at)?;
        match line == FILLER && known == ALIGNMENT_BYTES {
            true => filler = middle,
            false => filled = middle,
        }
    }
    let begin = filled * BLOCK_BYTES;
    let mut block = vec![0; (file_bytes - begin).min(BLOCK_BYTES) as usize];
    file.read_exact_at(&mut block, begin)?;
    while block.ends_with(&FILLER) {
        block.truncate(block.len() - ALIGNMENT_BYTES);
    }
    Ok((begin + block.len() as u64).saturating_sub(HEADER_BYTES as u64))
}

/// About how many bytes of groups the segments of a log have together, before it is known which of them are to be read: some
/// may be below the recovery mark, and a start skips them.
///
/// # Errors
///
/// A failing device.
pub fn record_bytes(storage: &dyn Storage, location: &LogLocation) -> StorageResult<u64> {
    if !storage.exists(&location.dir)? {
        return Ok(0);
    }
    let mut bytes = 0;
    for name in storage.list(&location.dir)? {
        let Some(number) = location.segment_number(&name) else { continue };
        let file = storage.open(&location.segment_path(number))?;
        bytes += filled_bytes(&*file, file.len()?)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::SimStorage;
    use std::path::Path;

    fn segment() -> std::sync::Arc<dyn File> {
        let storage = SimStorage::new();
        storage.create_dir_all(Path::new("/data")).expect("a directory");
        storage.create(Path::new("/data/segment")).expect("a file")
    }

    #[test]
    fn only_what_lies_before_the_filler_is_counted() {
        let file = segment();
        let lines_in_all = 5 * BLOCK_BYTES as usize / ALIGNMENT_BYTES + 3;
        let a_block = BLOCK_BYTES as usize / ALIGNMENT_BYTES;
        for records in [0, 1, 2, a_block - 1, a_block, a_block + 1, 3 * a_block, lines_in_all - 1] {
            let mut bytes = vec![b'x'; HEADER_BYTES + records * ALIGNMENT_BYTES];
            bytes.extend(FILLER.repeat(lines_in_all - records));
            file.set_len(0).expect("emptied");
            file.write_all_at(&bytes, 0).expect("written");
            let filled = filled_bytes(&*file, bytes.len() as u64).expect("read");
            assert_eq!(filled, (records * ALIGNMENT_BYTES) as u64);
        }
    }

    #[test]
    fn a_file_without_filler_or_with_a_torn_line_is_counted_whole() {
        let file = segment();
        for length in [0, 10, HEADER_BYTES, HEADER_BYTES + 7, 3 * BLOCK_BYTES as usize + 9] {
            file.set_len(0).expect("emptied");
            file.write_all_at(&vec![b'x'; length], 0).expect("written");
            let filled = filled_bytes(&*file, length as u64).expect("read");
            assert_eq!(filled, length.saturating_sub(HEADER_BYTES) as u64);
        }
    }
}
