//! Files as streams: what is written or read from one end to the other.

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::{File, StorageError, StorageResult};

/// What the system said, without path and operation: whoever handles a stream knows both.
fn bare(error: StorageError) -> io::Error {
    match error.source.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.source.to_string()),
    }
}

/// Writes a file from its start on.
///
/// With a piece size the medium is told to begin with each piece as soon as it is complete, and the piece
/// before it is waited for: the sync at the end then finds at most two pieces to do, however long the
/// file, and the writer waits only where the medium is slower than it.
#[derive(Debug)]
pub struct FileWriter {
    file: Arc<dyn File>,
    written_bytes: u64,
    /// 0 leaves it all to the sync.
    piece_bytes: u64,
    /// Start of the piece being filled; all before has been begun.
    piece_at: u64,
    /// Start of the piece before it.
    begun_at: u64,
}

impl FileWriter {
    /// A writer to a new file, in pieces of `piece_bytes`; 0 for none.
    #[must_use]
    pub fn new(file: Arc<dyn File>, piece_bytes: u64) -> Self {
        Self { file, written_bytes: 0, piece_bytes, piece_at: 0, begun_at: 0 }
    }

    /// Makes the file durable; gives its length.
    ///
    /// # Errors
    /// The medium fails: what was written may be lost.
    pub fn finish(self) -> StorageResult<u64> {
        self.file.sync_data()?;
        Ok(self.written_bytes)
    }

    fn begin_piece(&mut self) -> StorageResult<()> {
        self.file.start_writeback(self.piece_at, self.written_bytes - self.piece_at)?;
        if self.begun_at < self.piece_at {
            self.file.finish_writeback(self.begun_at, self.piece_at - self.begun_at)?;
        }
        self.begun_at = self.piece_at;
        self.piece_at = self.written_bytes;
        Ok(())
    }
}

impl Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(bytes, self.written_bytes).map_err(bare)?;
        self.written_bytes += bytes.len() as u64;
        if self.piece_bytes > 0 && self.written_bytes - self.piece_at >= self.piece_bytes {
            self.begin_piece().map_err(bare)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a file from its start to the length it had when it was opened.
#[derive(Debug)]
pub struct FileReader {
    file: Arc<dyn File>,
    at: u64,
    len: u64,
    /// End of what the medium was asked for ahead.
    asked: u64,
}

/// How far ahead the medium is asked for what comes next.
const AHEAD_BYTES: u64 = 4 << 20;

impl FileReader {
    /// A reader of a file.
    ///
    /// # Errors
    /// Its length cannot be read.
    pub fn new(file: Arc<dyn File>) -> StorageResult<Self> {
        let len = file.len()?;
        Ok(Self { file, at: 0, len, asked: 0 })
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when the file has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Goes back to the start.
    pub fn rewind(&mut self) {
        self.at = 0;
    }
}

impl Read for FileReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.len - self.at).unwrap_or(usize::MAX);
        let count = buf.len().min(left);
        if count == 0 {
            return Ok(0);
        }
        // Half of what was asked for is there to be used while the next half comes.
        if self.asked < self.len && self.at + AHEAD_BYTES / 2 >= self.asked {
            let ahead = AHEAD_BYTES.min(self.len - self.asked);
            self.file.prefetch(self.asked, ahead).map_err(bare)?;
            self.asked += ahead;
        }
        self.file.read_exact_at(&mut buf[..count], self.at).map_err(bare)?;
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Storage;
    use crate::device::sim::{SimFaults, SimStorage};
    use std::path::Path;

    #[test]
    fn what_is_written_is_read_and_survives() {
        let sim = SimStorage::new();
        sim.create_dir_all(Path::new("/")).unwrap();
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let path = Path::new("/stream");
        for piece_bytes in [0, 1, 4096, 70_000] {
            let mut writer = FileWriter::new(sim.create(path).unwrap(), piece_bytes);
            bytes.chunks(777).for_each(|part| writer.write_all(part).unwrap());
            assert_eq!(writer.finish().unwrap(), 100_000);
            let mut reader = FileReader::new(sim.open(path).unwrap()).unwrap();
            let mut read = Vec::new();
            (&mut reader).take(5).read_to_end(&mut read).unwrap();
            reader.rewind();
            read.clear();
            assert_eq!(reader.read_to_end(&mut read).unwrap() as u64, reader.len());
            assert!(read == bytes, "pieces of {piece_bytes}");
        }
        assert_eq!(sim.counters().writebacks, 129 + 129 / 6 + 1);
    }

    #[test]
    fn failures_say_what_the_system_said() {
        let sim = SimStorage::new();
        sim.create_dir_all(Path::new("/")).unwrap();
        let file = sim.create(Path::new("/stream")).unwrap();
        sim.set_faults(SimFaults { fail_write: Some(2), ..SimFaults::default() });
        let mut writer = FileWriter::new(file, 0);
        writer.write_all(b"one").unwrap();
        let error = writer.write_all(b"two").unwrap_err();
        assert!(!error.to_string().contains("/stream"), "{error}");
        assert_eq!(writer.written_bytes, 3);
    }
}
