//! What the tests of structures share: pages in memory, some of which may be away, and numbers that look random.

mod groups;
mod hash;
mod list;
mod long_string;
mod sorted;
mod stream;

use super::store::{PageEdit, PageError, PageId, Pages, PartKind};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// xorshift64*.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 16) % n.max(1) as u64) as usize
    }

    pub(super) fn is_one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A hash that spreads, for keys of tests.
pub(super) fn hash(key: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in key {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 29)
}

/// Pages in memory. Some can be sent away, and come back when they are asked for.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) pages: BTreeMap<PageId, Vec<u8>>,
    pub(super) away: BTreeSet<PageId>,
    /// Something was changed since [`Memory::begin`]: from then on nothing may be missing.
    changed: Cell<bool>,
    /// A page was damaged: what it names may be nowhere.
    is_damaged: bool,
}

impl Memory {
    /// An operation begins.
    pub(super) fn begin(&self) {
        self.changed.set(false);
    }

    /// Runs the operation until no page is missing. One that finds a page missing must not have changed anything.
    pub(super) fn run<T>(
        &mut self,
        mut operation: impl FnMut(&mut Self) -> Result<T, PageError>,
    ) -> Result<T, PageError> {
        for _ in 0..10_000 {
            self.begin();
            match operation(self) {
                Err(PageError::Missing(page)) => {
                    assert!(!self.changed.get(), "{page} was missed after a change");
                    assert!(self.away.remove(&page), "{page} is missed, and not away");
                }
                done => return done,
            }
        }
        panic!("pages are missed without end");
    }

    pub(super) fn send_away(&mut self, random: &mut Random, one_in: usize) {
        let gone = self.pages.keys().filter(|_| random.is_one_in(one_in));
        self.away.extend(gone.copied());
    }

    /// How many pages of a part there are.
    pub(super) fn count(&self, part: PartKind) -> usize {
        self.pages.keys().filter(|page| page.part == part).count()
    }

    /// Flips a bit of a page.
    pub(super) fn damage(&mut self, random: &mut Random) {
        self.is_damaged = true;
        let number = random.below(self.pages.len());
        let Some(payload) = self.pages.values_mut().nth(number) else { return };
        match random.below(8) {
            0 => {
                let len = random.below(payload.len() + 1);
                payload.truncate(len);
            }
            1 => payload.push(random.next() as u8),
            _ if payload.is_empty() => {}
            // Heads say most, so they are hit most.
            kind => {
                let len = if kind < 5 { payload.len().min(12) } else { payload.len() };
                let at = random.below(len);
                payload[at] ^= 1 << random.below(8);
            }
        }
    }
}

impl Pages for Memory {
    type Edit<'a> = &'a mut Vec<u8>;

    fn read(&self, page: PageId) -> Result<&[u8], PageError> {
        if self.away.contains(&page) {
            return Err(PageError::Missing(page));
        }
        match self.pages.get(&page) {
            Some(payload) => Ok(payload),
            // What names it was damaged.
            None if self.is_damaged => Err(PageError::Absent(page)),
            None => panic!("{page} is not there"),
        }
    }

    fn edit(&mut self, page: PageId) -> Result<&mut Vec<u8>, PageError> {
        self.read(page)?;
        self.changed.set(true);
        Ok(self.pages.get_mut(&page).expect("a page that was read"))
    }

    fn add(&mut self, page: PageId, payload: &[u8]) {
        self.changed.set(true);
        let was_there = self.pages.insert(page, payload.to_vec()).is_some();
        assert!(!was_there || self.is_damaged, "{page} is there already");
        self.away.remove(&page);
    }

    fn remove(&mut self, page: PageId) {
        self.changed.set(true);
        let unread = matches!(
            page.part,
            PartKind::External | PartKind::Times | PartKind::Pending | PartKind::PendingOf
        );
        let may_be_away = unread || self.is_damaged;
        assert!(!self.away.remove(&page) || may_be_away, "{page} is away");
        let was_there = self.pages.remove(&page).is_some();
        assert!(was_there || may_be_away, "{page} is not there");
    }
}

/// An owner that hears of edits only: what it holds must stay what the edits say.
pub(super) struct Replayed {
    payload: Vec<u8>,
    copy: Vec<u8>,
}

impl Replayed {
    pub(super) fn new(payload: &[u8]) -> Self {
        Self { payload: payload.to_vec(), copy: payload.to_vec() }
    }
}

impl PageEdit for Replayed {
    fn bytes(&self) -> &[u8] {
        assert_eq!(self.payload, self.copy);
        &self.payload
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.payload.write(at, bytes);
        self.copy[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn splice(&mut self, range: std::ops::Range<usize>, bytes: &[u8]) {
        PageEdit::splice(&mut self.payload, range.clone(), bytes);
        let tail = self.copy.split_off(range.end);
        self.copy.truncate(range.start);
        self.copy.extend_from_slice(bytes);
        self.copy.extend_from_slice(&tail);
    }
}
