//! Which slots of the pool files are free.

use std::sync::Arc;

use super::medium::Region;

/// One pool file.
#[derive(Debug)]
struct PoolFile {
    region: Arc<dyn Region>,
    used: Vec<bool>,
    free: usize,
    /// Where the next search begins: slots are used in turn.
    next: usize,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Slots {
    files: Vec<PoolFile>,
    slot_bytes: u64,
}

/// A row of slots.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) region: Arc<dyn Region>,
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Slots {
    pub(super) fn new(slot_bytes: u64) -> Self {
        Self { files: Vec::new(), slot_bytes }
    }

    /// Adds a file, all of it free.
    pub(super) fn add_file(&mut self, region: Arc<dyn Region>) {
        let slots = (region.len() / self.slot_bytes) as usize;
        self.files.push(PoolFile { region, used: vec![false; slots], free: slots, next: 0 });
    }

    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    /// Bytes of all files.
    pub(super) fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.region.len()).sum()
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.free as u64).sum::<u64>() * self.slot_bytes
    }

    /// Takes `slots` slots in a row.
    pub(super) fn take(&mut self, slots: usize) -> Option<Row> {
        self.files.iter_mut().enumerate().find_map(|(nth, file)| {
            let first = file.find(slots)?;
            file.used[first..first + slots].fill(true);
            file.free -= slots;
            file.next = first + slots;
            Some(Row {
                region: Arc::clone(&file.region),
                file: nth,
                offset: first as u64 * self.slot_bytes,
                len: slots as u64 * self.slot_bytes,
            })
        })
    }

    /// Marks as used what recovery has kept.
    pub(super) fn mark_used(&mut self, file: usize, offset: u64, len: u64) {
        self.set(file, offset, len, true);
    }

    /// They are zeros again, durably (M4).
    pub(super) fn give(&mut self, file: usize, offset: u64, len: u64) {
        self.set(file, offset, len, false);
    }

    fn set(&mut self, file: usize, offset: u64, len: u64, used: bool) {
        let first = (offset / self.slot_bytes) as usize;
        let slots = (len / self.slot_bytes) as usize;
        let file = &mut self.files[file];
        for slot in &mut file.used[first..first + slots] {
            assert_ne!(*slot, used, "a slot is taken or given back twice");
            *slot = used;
        }
        file.free = if used { file.free - slots } else { file.free + slots };
    }
}

impl PoolFile {
    /// First of `slots` free slots in a row, from where the last search ended.
    fn find(&self, slots: usize) -> Option<usize> {
        if self.free < slots {
            return None;
        }
        let row_at = |first: usize| {
            let row = self.used.get(first..first + slots);
            row.is_some_and(|row| row.iter().all(|used| !used))
        };
        (self.next..self.used.len()).chain(0..self.next).find(|first| row_at(*first))
    }
}
