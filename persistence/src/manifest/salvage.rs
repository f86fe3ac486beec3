//! Reading what is left of a manifest that cannot be opened.

use super::frame::{FrameReader, Secret};
use super::{ManifestError, file_path, parse_name};
use crate::device::Storage;
use std::path::Path;

/// Records of a manifest, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Those whose frames are valid.
    pub records: Vec<Vec<u8>>,
    /// None is missing between the first and the last of them.
    pub is_whole: bool,
}

/// Everything valid in the newest manifest file of `dir` that has anything valid, whatever `CURRENT` says.
/// Changes nothing.
///
/// # Errors
///
/// A failing device.
pub fn salvage(storage: &dyn Storage, dir: &Path) -> Result<Salvaged, ManifestError> {
    let names = storage.list(dir)?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| parse_name(name)).collect();
    numbers.sort_unstable();
    for number in numbers.into_iter().rev() {
        let file = storage.open(&file_path(dir, number))?;
        let length = file.len()?;
        let secret = Secret::of(&*file, length)?;
        let mut reader = FrameReader::new(&*file, length, secret);
        let mut found = Salvaged { is_whole: true, ..Salvaged::default() };
        if secret == Secret::Lost {
            // A frame elsewhere than behind the one before cannot be told from what clients have written.
            while let Some(record) = reader.next_record()? {
                found.records.push(record);
            }
            found.is_whole = reader.offset() == length;
        }
        let (mut at, mut expected) = (reader.offset(), 0);
        while secret != Secret::Lost
            && let Some((index, end, record)) = reader.find(at, expected)?
        {
            found.is_whole &= index == expected;
            found.records.push(record);
            (at, expected) = (end, index + 1);
        }
        if !found.records.is_empty() {
            return Ok(found);
        }
    }
    Ok(Salvaged::default())
}
