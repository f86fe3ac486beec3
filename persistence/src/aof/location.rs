//! Names of the log's files.

use std::path::PathBuf;

use super::route::PLACE_PREFIX;

/// Where a log lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLocation {
    /// The directory (`appenddirname` below the data directory).
    pub dir: PathBuf,
    /// Prefix of all file names (`appendfilename`).
    pub file_name: String,
}

impl LogLocation {
    /// File name of a segment.
    pub(super) fn segment_name(&self, number: u64) -> String {
        format!("{}.{number}.incr.aof", self.file_name)
    }

    /// File name of a base.
    pub(super) fn base_name(&self, number: u64) -> String {
        format!("{}.{number}.base.rdb", self.file_name)
    }

    /// Path of a base.
    pub(super) fn base_path(&self, number: u64) -> PathBuf {
        self.dir.join(self.base_name(number))
    }

    /// Where the next base is written until it is whole.
    #[must_use]
    pub fn new_base_path(&self) -> PathBuf {
        self.dir.join(format!("temp-{}.base.rdb", self.file_name))
    }

    /// Where the next AOF manifest is written until it is whole.
    #[must_use]
    pub fn new_manifest_path(&self) -> PathBuf {
        self.dir.join(format!("temp-{}.manifest", self.file_name))
    }

    /// Path of a segment.
    #[must_use]
    pub fn segment_path(&self, number: u64) -> PathBuf {
        self.dir.join(self.segment_name(number))
    }

    /// Path of a retired segment that waits for reuse.
    pub(super) fn spare_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{}.{number}.spare", self.file_name))
    }

    /// True for names of bases, of whatever number, and of one that was never finished.
    pub(super) fn is_base(&self, name: &str) -> bool {
        let rest = name.strip_prefix(&self.file_name).and_then(|rest| rest.strip_prefix('.'));
        let number = rest.and_then(|rest| rest.strip_suffix(".base.rdb"));
        number.is_some_and(|number| number.parse::<u64>().is_ok())
            || self.new_base_path().file_name().is_some_and(|base| *base == *name)
    }

    /// The number in the name of a segment.
    pub(super) fn segment_number(&self, name: &str) -> Option<u64> {
        let rest = name.strip_prefix(&self.file_name)?.strip_prefix('.')?;
        rest.strip_suffix(".incr.aof")?.parse().ok()
    }

    /// The place NAME: the entry of the directory that leads to another device (`aof-route`).
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{PLACE_PREFIX}{name}"))
    }

    /// File name of what a segment has in the place NAME.
    pub(super) fn part_name(&self, number: u64, name: &str) -> String {
        format!("{}.{number}.{PLACE_PREFIX}{name}", self.file_name)
    }

    /// The number of the segment in the name of a part.
    pub(super) fn part_number(&self, name: &str) -> Option<u64> {
        let rest = name.strip_prefix(&self.file_name)?.strip_prefix('.')?;
        let (number, place) = rest.split_once('.')?;
        place.strip_prefix(PLACE_PREFIX)?;
        number.parse().ok()
    }

    /// True for names of segments and spares, of whatever number.
    pub(super) fn is_ours(&self, name: &str) -> bool {
        let rest = name.strip_prefix(&self.file_name).and_then(|rest| rest.strip_prefix('.'));
        let number = rest.and_then(|rest| {
            rest.strip_suffix(".incr.aof").or_else(|| rest.strip_suffix(".spare"))
        });
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    }

    /// Path of the AOF manifest.
    #[must_use]
    pub fn manifest_path(&self) -> PathBuf {
        self.dir.join(format!("{}.manifest", self.file_name))
    }
}
