//! Eviction that lowers the memory of the process.
//!
//! Memory is freed by pages, so the hand of the clock visits pages, not buckets. From each
//! page it removes the entries that were not used since its last visit, and takes one use from the
//! others. When enough is free it moves the remaining entries to other pages of the class. A page of
//! one class pays for a page of another, so a change of value sizes does not leave the table with
//! pages that cannot be filled. Reading a page is also far cheaper than following bucket words.

use super::entry::{CLOCK_MAX, EntryRef};
use super::table::Table;
use crate::key;

/// Entries a call looks at, at most; halved while nothing may be evicted.
const LOOK_MAX: usize = 8192;
const LOOK_MIN: usize = 64;
/// A large entry costs as much of the above as this many.
const LARGE_LOOK: usize = 8;
/// Visits without a victim, though some might go, after which entries with one use more become victims.
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

/// One page or large entry.
#[derive(Default)]
struct Visit {
    looked: usize,
    removed: usize,
    /// Entries that might go and were used lately.
    spared: usize,
}

/// Visits of a call to `items` pages or large entries: two turns, and enough of few that one whose
/// entries are all in use gives some up.
fn turns(items: usize) -> usize {
    (2 * items).max(PATIENCE_PAGES * (CLOCK_MAX as usize + 1))
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
        let mut nothing_may_go = true;
        while look > 0 && held.saturating_sub(self.bytes()) < target {
            let level = (fruitless / PATIENCE_PAGES) as u64;
            let pages = self.slab.pages().len();
            let large = self.slab.large_entries().len();
            let pages_done = pages == 0 || page_visits >= turns(pages);
            let visit_large =
                large > 0 && large_visits < turns(large) && self.next_is_large(pages_done);
            let visit = if visit_large {
                large_visits += 1;
                self.visit_large(level, may_evict)
            } else if !pages_done {
                page_visits += 1;
                self.visit_page(level, may_evict)
            } else {
                break;
            };
            look = look.saturating_sub(visit.looked);
            evicted.entries += visit.removed;
            if visit.removed > 0 {
                fruitless = 0;
            } else if visit.spared > 0 {
                fruitless += 1;
                nothing_may_go = false;
            }
        }
        evicted.bytes = held.saturating_sub(self.bytes());
        self.eviction.look = if nothing_may_go && evicted == Evicted::default() {
            (self.eviction.look / 2).max(LOOK_MIN)
        } else {
            LOOK_MAX
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
    ) -> Visit {
        let large = self.slab.large_entries();
        let at = self.eviction.large % large.len();
        let entry = large[at];
        // The entry that fills a gap is the newest one, so the hand goes on in any case.
        self.eviction.large = at + 1;
        let mut visit = Visit { looked: LARGE_LOOK, ..Visit::default() };
        if !may_evict(&EntryRef::new(entry)) {
            return visit;
        }
        if entry.clock() <= level {
            visit.removed = 1;
            self.remove_entry(key::hash(entry.key()), entry);
        } else {
            visit.spared = 1;
            entry.cool();
        }
        visit
    }

    fn visit_page(
        &mut self,
        level: u64,
        may_evict: &mut dyn FnMut(&EntryRef<'_>) -> bool,
    ) -> Visit {
        let pages = self.slab.pages();
        let at = self.eviction.page % pages.len();
        // The page that fills a gap is the newest one, so the hand goes on in any case.
        self.eviction.page = at + 1;
        let page = pages[at];
        let mut victims = std::mem::take(&mut self.scratch);
        victims.clear();
        let mut visit = Visit { looked: 1, ..Visit::default() };
        for entry in self.slab.entries(page) {
            visit.looked += 1;
            if !may_evict(&EntryRef::new(entry)) {
                continue;
            }
            if entry.clock() <= level {
                let hash = key::hash(entry.key());
                self.prefetch(hash);
                victims.push((entry, hash));
            } else {
                visit.spared += 1;
                entry.cool();
            }
        }
        visit.removed = victims.len();
        let staying = visit.looked - 1 - visit.removed;
        for (entry, hash) in victims.drain(..) {
            self.remove_entry(hash, entry);
        }
        self.scratch = victims;
        if staying > 0 && self.slab.worth_evacuating(page) {
            visit.looked += staying;
            self.evacuate(page);
        }
        visit
    }
}
