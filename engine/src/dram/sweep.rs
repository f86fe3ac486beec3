//! Removal of entries wherever they are: those of dead namespaces, step by step, or at once.

use super::buckets::{LANES, Place};
use super::entry::EntryRef;
use super::table::Table;
use crate::key;

/// How far the pass has come.
#[derive(Default)]
pub(super) struct Cursor {
    bucket: usize,
    /// The slots of the pass, and the resizes begun before it: with others it begins anew.
    of: Option<([u64; 4], u64)>,
}

impl Table {
    /// Removes entries whose slot is marked in `dead`, looking at `buckets` buckets at most; true
    /// when a pass over the whole table is complete. No entry of a dead slot may be added meanwhile.
    pub fn sweep_slots(&mut self, dead: &[bool; 256], buckets: usize) -> bool {
        if self.old.is_some() {
            self.move_buckets(buckets, buckets);
            if self.old.is_some() {
                return false;
            }
        }
        let mut slots = [0_u64; 4];
        for (slot, _) in dead.iter().enumerate().filter(|(_, dead)| **dead) {
            slots[slot / 64] |= 1 << (slot % 64);
        }
        let of = Some((slots, self.resizes));
        if self.sweep.of != of {
            self.sweep.bucket = 0;
            self.sweep.of = of;
        }
        let end = self.sweep.bucket.saturating_add(buckets).min(self.current.buckets());
        for bucket in self.sweep.bucket..end {
            self.current.prefetch_entries((bucket + 4) & (self.current.buckets() - 1));
            for lane in 0..LANES {
                let place = Place { bucket, lane };
                if let Some(entry) = self.current.entry(place)
                    && dead[usize::from(entry.slot())]
                {
                    self.remove_entry(key::hash(entry.key()), entry);
                }
            }
        }
        self.sweep.bucket = end;
        if end < self.current.buckets() {
            return false;
        }
        self.sweep.of = None;
        self.shrink();
        true
    }

    /// Removes every entry that `goes`, in one pass over the whole table.
    pub fn remove_where(&mut self, goes: impl Fn(&EntryRef<'_>) -> bool) {
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
