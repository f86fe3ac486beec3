//! What becomes of retired segments: kept for reuse, overwritten first (N4), or archived.

use super::make::fill;
use super::{Listed, Segments};
use crate::aof::LogError;
use crate::aof::route::{file_name, parts};
use crate::device::link_or_copy;
use std::path::Path;
use std::sync::atomic::Ordering;

impl Segments {
    /// Gives a segment a name in the archive, which it has only once it is whole there. May be done again.
    pub(super) fn archive(&self, dir: &Path, listed: &Listed) -> Result<(), LogError> {
        // The parts first: a segment in the archive is whole.
        let parts = parts(&*self.storage, &self.location)?;
        for (_, part) in parts.iter().filter(|(of, _)| *of == listed.number) {
            let used = listed.parts.iter().find(|(name, _)| name == file_name(part));
            self.archive_file(dir, part, used.map_or(u64::MAX, |(_, bytes)| *bytes))?;
        }
        self.archive_file(dir, &self.location.segment_path(listed.number), listed.used_bytes)
    }

    fn archive_file(&self, dir: &Path, path: &Path, used_bytes: u64) -> Result<(), LogError> {
        let name = file_name(path);
        let (temporary, target) = (dir.join(format!("temp-{}", name.display())), dir.join(name));
        for left in [&temporary, &target] {
            if self.storage.exists(left)? {
                self.storage.remove(left)?;
            }
        }
        link_or_copy(&*self.storage, path, &temporary)?;
        let file = self.storage.open(&temporary)?;
        if used_bytes < file.len()? {
            // Filler, of which an archive needs none.
            file.set_len(used_bytes)?;
        }
        // With `appendfsync no` it may never have been synced.
        file.sync_data()?;
        self.storage.rename(&temporary, &target)?;
        Ok(())
    }

    /// Keeps at most `max` retired segments from now on. With an archive none is kept.
    pub(in crate::aof) fn set_spares_max(&self, max: usize) -> Result<(), LogError> {
        let max = if self.archive_dir.is_some() { 0 } else { max };
        self.spares_max.store(max, Ordering::Release);
        // None is being overwritten meanwhile.
        let _turn = self.cleaning.lock();
        let mut catalog = self.catalog();
        while catalog.spares.len() > max {
            if let Some(spare) = catalog.spares.pop() {
                self.storage.remove(&self.location.spare_path(spare.number))?;
            }
        }
        Ok(())
    }

    /// Whether segments that are retired from now on are kept for reuse. Those kept before that are not
    /// overwritten yet then go.
    pub(in crate::aof) fn set_recycles(&self, recycles: bool) {
        self.recycles.store(recycles, Ordering::Release);
    }

    /// Overwrites what a retired segment still holds, so that deleted data is gone from the medium
    /// and it can be used again (N4); or removes it, when segments are not recycled any more. False when there
    /// was none.
    pub(in crate::aof) fn clean_spare(&self) -> Result<bool, LogError> {
        let _turn = self.cleaning.lock();
        // One that is dirty nobody else takes.
        let dirty = {
            let mut catalog = self.catalog();
            let Some(index) = catalog.spares.iter().position(|spare| spare.dirty_bytes > 0) else {
                return Ok(false);
            };
            match self.recycles.load(Ordering::Acquire) {
                true => (catalog.spares[index].number, Some(catalog.spares[index].dirty_bytes)),
                false => (catalog.spares.swap_remove(index).number, None),
            }
        };
        let path = self.location.spare_path(dirty.0);
        let (number, Some(dirty_bytes)) = dirty else {
            self.storage.remove(&path)?;
            return Ok(true);
        };
        let file = self.storage.open(&path)?;
        fill(&*file, 0, dirty_bytes)?;
        file.sync_data()?;
        let mut catalog = self.catalog();
        if let Some(spare) = catalog.spares.iter_mut().find(|spare| spare.number == number) {
            spare.dirty_bytes = 0;
        }
        Ok(true)
    }
}
