//! Removal of entries wherever they are: those of dead namespaces, step by step, or at once.

use super::buckets::{LANES, Place};
use super::entry::EntryRef;
use super::table::Table;
use crate::key;

/// How far a pass over the table has come.
#[derive(Debug, Default)]
pub struct SweepPass {
    bucket: usize,
    /// The resizes begun before it: after another one it begins anew.
    resizes: Option<u64>,
}

/// The pass of [`Table::sweep_slots`], and the slots it is for: with others it begins anew.
#[derive(Default)]
pub(super) struct Cursor {
    slots: [u64; 4],
    pass: SweepPass,
}

impl Table {
    /// Removes entries whose slot is marked in `dead`, looking at `buckets` buckets at most; true
    /// when a pass over the whole table is complete. No entry of a dead slot may be added meanwhile.
    pub fn sweep_slots(&mut self, dead: &[bool; 256], buckets: usize) -> bool {
        let mut slots = [0_u64; 4];
        for (slot, _) in dead.iter().enumerate().filter(|(_, dead)| **dead) {
            slots[slot / 64] |= 1 << (slot % 64);
        }
        let mut cursor = std::mem::take(&mut self.sweep);
        if cursor.slots != slots {
            cursor = Cursor { slots, pass: SweepPass::default() };
        }
        let is_over =
            self.sweep_entries(&mut cursor.pass, buckets, |entry| dead[usize::from(entry.slot())]);
        self.sweep = cursor;
        is_over
    }

    /// Removes entries for which `goes` is true, which must not change within the whole `pass`, visiting at most `buckets`
    /// buckets; true when a pass over the whole table is complete. No such entry may be added meanwhile.
    pub fn sweep_entries(
        &mut self,
        pass: &mut SweepPass,
        buckets: usize,
        mut goes: impl FnMut(&EntryRef<'_>) -> bool,
    ) -> bool {
        if self.old.is_some() {
            self.move_buckets(buckets, buckets);
            if self.old.is_some() {
                return false;
            }
        }
        if pass.resizes != Some(self.resizes) {
            *pass = SweepPass { bucket: 0, resizes: Some(self.resizes) };
        }
        let end = pass.bucket.saturating_add(buckets).min(self.current.buckets());
        for bucket in pass.bucket..end {
            self.current.prefetch_entries((bucket + 4) & (self.current.buckets() - 1));
            for lane in 0..LANES {
                let place = Place { bucket, lane };
                if let Some(entry) = self.current.entry(place)
                    && goes(&EntryRef::new(entry))
                {
                    self.remove_entry(key::hash(entry.key()), entry);
                }
            }
        }
        pass.bucket = end;
        if end < self.current.buckets() {
            return false;
        }
        *pass = SweepPass::default();
        self.shrink();
        true
    }

    /// Removes every entry that `goes`, in one pass over the whole table.
    pub fn remove_where(&mut self, mut goes: impl FnMut(&EntryRef<'_>) -> bool) {
        self.move_buckets(usize::MAX, usize::MAX);
        for bucket in 0..self.current.buckets() {
            self.current.prefetch_entries((bucket + 4) & (self.current.buckets() - 1));
            for lane in 0..LANES {
                if let Some(entry) = self.current.entry(Place { bucket, lane })
                    && goes(&EntryRef::new(entry))
                {
                    self.remove_entry(key::hash(entry.key()), entry);
                }
            }
        }
        self.shrink();
    }
}
