//! Eviction that lowers what the process holds.
//!
//! Memory comes back by pages, so the hand of the clock goes over pages, not over buckets: of each
//! page it removes the entries that were not used since it last came by, takes one use from the
//! others, and when enough is free it moves what is left to other pages of the class. A page of
//! one class pays for a page of another, so a change of value sizes does not leave the table with
//! pages that nobody can fill. Reading a page also is far cheaper than following bucket words.

use super::entry::{CLOCK_MAX, EntryRef};
use super::table::Table;
use crate::key;

/// Entries a call looks at, at most; halved while nothing may be evicted.
const LOOK_MAX: usize = 8192;
const LOOK_MIN: usize = 64;
/// A large entry costs as much of the above as this many.
const LARGE_LOOK: usize = 8;
/// Pages without a victim after which entries with one use more become victims.
const PATIENCE_PAGES: usize = 4;

/// Where the last call stopped.
pub(super) struct Hand {
    page: usize,
    large: usize,
    look: usize,
    random: u64,
}

impl Default for Hand {
    fn default() -> Self {
        Self { page: 0, large: 0, look: LOOK_MAX, random: 0x9e37_79b9_7f4a_7c15 }
    }
}

/// What [`Table::evict`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Entries removed.
    pub entries: usize,
    /// By how much `bytes()` fell. May be 0 although entries went: their pages still hold others.
    pub bytes: usize,
}

impl Table {
    /// Removes entries that `may_evict` allows, those not used for long first, until `bytes()` has
    /// fallen by `target`. A call does a bounded amount of work and the next one goes on from there.
    pub fn evict(
        &mut self,
        target: usize,
        may_evict: &mut dyn FnMut(&EntryRef<'_>) -> bool,
    ) -> Evicted {
        let held = self.bytes();
        let mut evicted = Evicted::default();
        let mut look = self.eviction.look;
        let (mut page_visits, mut large_visits) = (0, 0);
        let mut fruitless = 0;
        while look > 0 && held.saturating_sub(self.bytes()) < target {
            let level = (fruitless / PATIENCE_PAGES) as u64;
            let pages = self.slab.pages().len();
            let large = self.slab.large_entries().len();
            let visit_large = large_visits < 2 * large * (CLOCK_MAX as usize + 1)
                && self.next_is_large(page_visits >= 2 * pages);
            let (looked, removed) = if visit_large {
                large_visits += 1;
                (LARGE_LOOK, self.visit_large(level, may_evict))
            } else if page_visits < 2 * pages {
                page_visits += 1;
                self.visit_page(level.min(CLOCK_MAX), may_evict)
            } else {
                break;
            };
            look = look.saturating_sub(looked);
            evicted.entries += removed;
            fruitless = if removed > 0 { 0 } else { fruitless + 1 };
        }
        evicted.bytes = held.saturating_sub(self.bytes());
        self.eviction.look = if evicted.entries > 0 || evicted.bytes > 0 {
            LOOK_MAX
        } else {
            (self.eviction.look / 2).max(LOOK_MIN)
        };
        self.shrink();
        evicted
    }

    /// Pages and large entries are visited in proportion to their bytes.
    fn next_is_large(&mut self, pages_done: bool) -> bool {
        let (large, all) = (self.slab.large_bytes(), self.slab.bytes());
        if large == 0 || large == all || pages_done {
            return large > 0;
        }
        let random = &mut self.eviction.random;
        *random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (*random >> 32) as usize % all < large
    }

    fn visit_large(
        &mut self,
        level: u64,
        may_evict: &mut dyn FnMut(&EntryRef<'_>) -> bool,
    ) -> usize {
        let large = self.slab.large_entries();
        let at = self.eviction.large % large.len();
        let entry = large[at];
        if entry.clock() <= level && may_evict(&EntryRef::new(entry)) {
            // The last entry takes its place and was not visited for long if it is an old one, but
            // it is the newest: the hand passes it.
            self.eviction.large = at + 1;
            self.remove_entry(key::hash(entry.key()), entry);
            return 1;
        }
        entry.cool();
        self.eviction.large = at + 1;
        0
    }

    /// Answers the entries looked at and those removed.
    fn visit_page(
        &mut self,
        level: u64,
        may_evict: &mut dyn FnMut(&EntryRef<'_>) -> bool,
    ) -> (usize, usize) {
        let pages = self.slab.pages();
        let at = self.eviction.page % pages.len();
        // The page that fills a gap is the newest one, so the hand goes on in any case.
        self.eviction.page = at + 1;
        let page = pages[at];
        let mut victims = std::mem::take(&mut self.scratch);
        victims.clear();
        let mut looked = 1;
        let mut staying = 0;
        for entry in self.slab.entries(page) {
            looked += 1;
            if entry.clock() <= level && may_evict(&EntryRef::new(entry)) {
                let hash = key::hash(entry.key());
                self.prefetch(hash);
                victims.push((entry, hash));
            } else {
                entry.cool();
                staying += 1;
            }
        }
        let removed = victims.len();
        for (entry, hash) in victims.drain(..) {
            self.remove_entry(hash, entry);
        }
        self.scratch = victims;
        if staying > 0 && self.slab.worth_evacuating(page) {
            looked += staying;
            self.evacuate(page);
        }
        (looked, removed)
    }
}
