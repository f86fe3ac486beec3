//! Segments made ahead of their use.

use super::{Listed, Part, Segment, Segments};
use crate::aof::{FILLER, LogError, LogRoute, SyncPolicy};
use crate::device::{File, IoStyle};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Filler is written in pieces of this size, which stay in a processor's own cache.
const FILL_BYTES: usize = 128 << 10;

/// Segments made ahead on a disk. Each time the list of segments is stored costs three syncs, on a busy disk together
/// longer than a segment lasts: so it is done for several at once, while others are still ready.
const READY_ON_DISK: usize = 4;

impl Segments {
    /// Makes the next segment ready, on a disk the next ones, so that a switch costs a header: the file exists, is
    /// listed, and both are durable. Empty last segments are nothing special to any reader.
    ///
    /// For `always`, and where it is mapped, it is filled with filler lines, so that a sync later finds the length
    /// unchanged and the space allocated. A retired segment that is [clean](Self::clean_spare) is taken before
    /// a new one is made.
    pub(in crate::aof) fn prepare(&self, policy: SyncPolicy) -> Result<(), LogError> {
        let _turn = self.preparing.lock();
        self.prepare_locked(policy)
    }

    pub(super) fn prepare_locked(&self, policy: SyncPolicy) -> Result<(), LogError> {
        // For `always` each is filled.
        let several = self.is_on_disk() && policy != SyncPolicy::Always;
        let wanted = if several { READY_ON_DISK } else { 1 };
        let ready = self.ready.lock().len();
        if ready > wanted / 2 {
            return Ok(());
        }
        let mut made = Vec::new();
        for _ in ready..wanted {
            made.push(self.make_segment(policy)?);
        }
        let mut catalog = self.catalog();
        let listed_before = catalog.listed.len();
        let (previous_seq, used_bytes) = (None, 0);
        catalog.listed.extend(made.iter().map(|segment| Listed {
            number: segment.number,
            previous_seq,
            used_bytes,
            parts: Vec::new(),
        }));
        if let Err(error) = self.store_listing(&catalog) {
            catalog.listed.truncate(listed_before);
            return Err(error);
        }
        drop(catalog);
        self.ready.lock().extend(made);
        Ok(())
    }

    /// A segment that is not listed yet.
    fn make_segment(&self, policy: SyncPolicy) -> Result<Segment, LogError> {
        let (number, spare) = {
            let mut catalog = self.catalog();
            catalog.next_number += 1;
            // Filler must be on the medium before the new name can be: otherwise old groups could be found
            // behind the end of the new segment (N4).
            let clean = catalog.spares.iter().position(|spare| spare.dirty_bytes == 0);
            (catalog.next_number - 1, clean.map(|index| catalog.spares.swap_remove(index)))
        };
        let path = self.location.segment_path(number);
        let file = match spare {
            Some(spare) => {
                self.storage.rename(&self.location.spare_path(spare.number), &path)?;
                self.storage.open(&path)?
            }
            None => self.storage.create(&path)?,
        };
        // Its space is not worth a sync of its own: the first one that covers records makes it durable with them.
        let file = self.reserve(file, policy == SyncPolicy::Always)?;
        if file.style() == IoStyle::DISK {
            self.is_on_disk.store(true, Ordering::Relaxed);
        }
        let parts = self.make_parts(number)?;
        Ok(Segment { number, file, end: 0, parts })
    }

    /// Space for a whole segment in a new or a clean file. Where it `fills`, and where it is mapped, that is filler,
    /// synced by way of the file: a store to the mapping needs no space any more.
    fn reserve(&self, file: Arc<dyn File>, fills: bool) -> Result<Arc<dyn File>, LogError> {
        let maps = self.storage.maps(file.path());
        if fills || maps {
            fill(&*file, file.len()?, self.segment_bytes)?;
            file.sync_data()?;
        } else {
            file.allocate(0, self.segment_bytes)?;
        }
        Ok(if maps { self.storage.open_mapped(file.path())? } else { file })
    }

    /// The parts of a segment that is not listed yet, with durable names (R4).
    fn make_parts(&self, number: u64) -> Result<Vec<Part>, LogError> {
        let make = |route: &LogRoute| -> Result<Part, LogError> {
            let place = self.location.place(&route.name);
            let path = place.join(self.location.part_name(number, &route.name));
            let file = self.reserve(self.storage.create(&path)?, false)?;
            file.sync_data()?;
            self.storage.sync_dir(&place)?;
            Ok(Part { file, end: 0 })
        };
        self.routes.iter().map(make).collect()
    }
}

/// Overwrites `from..to` with filler lines; both are multiples of a line, or `from` is rounded
/// down and `to` up.
pub(super) fn fill(file: &dyn File, from: u64, to: u64) -> Result<(), LogError> {
    let line = FILLER.len() as u64;
    let (mut at, to) = (from - from % line, to.next_multiple_of(line));
    if at >= to {
        return Ok(());
    }
    let filler = FILLER.repeat(FILL_BYTES.min((to - at) as usize) / FILLER.len());
    while at < to {
        let piece = filler.len().min((to - at) as usize);
        file.write_all_at(&filler[..piece], at)?;
        at += piece as u64;
    }
    Ok(())
}
