//! A collection of two pages: the epoch rule (E), and the grave of its prefix.
//!
//! The root's version is the descriptor: (cid, elements, pages). An element is a lane of 16 bits, stored in one page. With
//! three elements the odd ones move to the second page; with one they move back and that page is removed.

use super::{Effect, Grave, Key, OPEN, Rule, Scan, Seq, Skip, Version, Violation, World};
use crate::model::keys::{COLLECTION, PAGES, page_key, page_of, prefix_key};
use std::collections::BTreeMap;

/// Bits of an element in a page.
const LANE_BITS: u64 = 16;

/// What the store keeps of the pages in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    epoch: u64,
    /// In which epoch the block of a page, or of the descriptor, was made.
    blocks: BTreeMap<Key, u64>,
    /// Sequences of the snapshots that may read values.
    values_at: Vec<Seq>,
    /// Records written at the end of the epoch: E3 is broken.
    late: Vec<Version>,
}

impl Pages {
    /// The database was emptied.
    pub(super) fn forget_blocks(&mut self) {
        self.blocks.clear();
    }
}

/// The descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Descriptor {
    cid: u64,
    count: u64,
    pages: u64,
}

impl Descriptor {
    fn of(value: u64) -> Self {
        Self { cid: value >> 8, count: value >> 4 & 15, pages: value & 15 }
    }

    fn value(self) -> u64 {
        self.cid << 8 | self.count << 4 | self.pages
    }
}

fn lane(content: u64, element: u64) -> u64 {
    content >> (LANE_BITS * element) & ((1 << LANE_BITS) - 1)
}

fn with_lane(content: u64, element: u64, value: u64) -> u64 {
    content & !(((1 << LANE_BITS) - 1) << (LANE_BITS * element)) | value << (LANE_BITS * element)
}

fn elements(content: u64) -> u64 {
    (0..4).filter(|&element| lane(content, element) != 0).count() as u64
}

/// The lanes of one page of a collection with `pages` pages.
fn share(content: u64, page: u64, pages: u64) -> u64 {
    let elsewhere = (0..4).filter(|element| pages == 2 && element % 2 != page);
    elsewhere.fold(content, |content, element| with_lane(content, element, 0))
}

impl World {
    /// The descriptor and all lanes, for readers that find versions by `find`.
    fn collection(
        &self,
        find: &dyn Fn(Key) -> Option<Version>,
    ) -> Result<Option<(Descriptor, u64)>, Violation> {
        let Some(root) = find(COLLECTION) else { return Ok(None) };
        let descriptor = Descriptor::of(root.value);
        let mut content: u64 = 0;
        for page in 0..descriptor.pages {
            let found = find(page_key(descriptor.cid, page));
            let Some(found) = found else {
                return Err(format!("page {page} of {descriptor:?} is missing"));
            };
            content = content.wrapping_add(found.value);
        }
        if elements(content) != descriptor.count {
            return Err(format!("{descriptor:?} has lanes {content:x}"));
        }
        Ok(Some((descriptor, content)))
    }

    /// As the memory has it: what E3 would have put is there.
    fn newest_collection(&self) -> Result<Option<(Descriptor, u64)>, Violation> {
        let namespace = self.namespace_at(OPEN);
        self.collection(&|key| {
            let mine = |v: &&Version| (v.namespace, v.key) == (namespace, key);
            let late = self.pages.late.iter().rev().find(mine).copied();
            late.or_else(|| self.look_up(key, OPEN))
        })
    }

    fn compare_collection(
        &self,
        what: &str,
        s: Seq,
        got: Result<Option<(Descriptor, u64)>, Violation>,
    ) -> Result<(), Violation> {
        let got = got.map_err(|violation| format!("{what} at {s}: {violation}"))?;
        let got = got.map(|(_, content)| content);
        let expected = self.spec.value_at(COLLECTION, s).map(|(_, content)| content);
        if got == expected {
            return Ok(());
        }
        Err(format!("{what} at {s} answers {got:x?}, the specification {expected:x?}"))
    }

    /// Reads the newest state of the collection.
    pub(super) fn read_newest_collection(&self) -> Result<(), Violation> {
        self.compare_collection("a read of the collection", OPEN, self.newest_collection())
    }

    /// What a command finds, compared with what the batch has done before it.
    pub(super) fn check_collection_of_write(
        &self,
        before: &[(Seq, Effect)],
    ) -> Result<(), Violation> {
        let mut spec = self.spec.clone();
        spec.push_batch(before);
        let expected = spec.value_at(COLLECTION, OPEN).map(|(_, content)| content);
        let got = self.newest_collection()?.map(|(_, content)| content);
        if got == expected {
            return Ok(());
        }
        Err(format!("a write reads {got:x?}, the specification says {expected:x?}"))
    }

    /// Reads the collection in its newest state, at a snapshot or by an iterator that sees values.
    ///
    /// # Errors
    /// A wrong answer.
    pub fn read_collection(&self, pick: usize) -> Result<(), Violation> {
        let scans: Vec<&Scan> = self.iterators.iter().filter(|scan| scan.values).collect();
        let of_values = |s: &&Seq| self.pages.values_at.contains(s);
        let snapshots: Vec<Seq> = self.snapshots.iter().filter(of_values).copied().collect();
        let at = pick % (1 + snapshots.len() + scans.len());
        if at == 0 {
            return self.read_newest_collection();
        }
        if let Some(&s) = snapshots.get(at - 1) {
            let got = self.collection(&|key| self.look_up(key, s));
            return self.compare_collection("a snapshot of the collection", s, got);
        }
        let scan = scans[at - 1 - snapshots.len()];
        let (namespace, s) = (self.namespace_at(scan.s), scan.s);
        let got = self.collection(&|key| {
            let version = scan.superversion.newest(namespace, key, s, Skip::Nothing);
            Self::above_grave(version, self.grave_at(namespace, key, s))
        });
        self.compare_collection("an iterator over the collection", s, got)
    }

    /// Opens a snapshot or an iterator that reads values: at a barrier, and after an epoch (E2).
    pub fn open_values(&mut self, iterator: bool) {
        if self.rules.on(Rule::E2BarrierForValues) {
            self.publish_all();
        }
        if self.rules.on(Rule::E2EpochAtSnapshot) {
            self.end_epoch();
        }
        if iterator {
            let superversion = self.superversion();
            self.iterators.push(Scan { s: self.visible, superversion, pinned: true, values: true });
        } else {
            self.pages.values_at.push(self.visible);
            self.open_snapshot();
        }
    }

    /// The memtable has been frozen, and its epoch ends (E2).
    pub(super) fn end_epoch_at_freeze(&mut self) {
        if self.rules.on(Rule::E2EpochAtFreeze) {
            self.end_epoch();
        }
    }

    fn end_epoch(&mut self) {
        self.pages.epoch += 1;
        let late = std::mem::take(&mut self.pages.late);
        self.active.borrow_mut().extend(late);
    }

    /// Writes new content of a page, or of the descriptor: in place in the epoch of its block (E1), otherwise in a new
    /// block, whose record has the time of the first change (E3).
    fn put_page(&mut self, seq: Seq, key: Key, value: u64) {
        let made = self.pages.blocks.get(&key).copied();
        let own_epoch = made == Some(self.pages.epoch);
        if own_epoch || (made.is_some() && !self.rules.on(Rule::E1InPlaceOwnEpoch)) {
            self.change_in_place(key, value);
            return;
        }
        self.pages.blocks.insert(key, self.pages.epoch);
        self.put(seq, key, value);
        if !self.rules.on(Rule::E3RecordFirstTouch) {
            let version = self.active.borrow_mut().pop();
            self.pages.late.extend(version);
        }
    }

    fn change_in_place(&mut self, key: Key, value: u64) {
        let namespace = self.namespace_at(OPEN);
        let mine = |v: &&mut Version| (v.namespace, v.key) == (namespace, key);
        if let Some(version) = self.pages.late.iter_mut().rev().find(mine) {
            version.value = value;
            return;
        }
        let frozen = self.frozen.iter().rev().map(|(_, memtable)| memtable);
        for memtable in std::iter::once(&self.active).chain(frozen) {
            if let Some(version) = memtable.borrow_mut().iter_mut().rev().find(mine) {
                version.value = value;
                return;
            }
        }
    }

    /// Writes the pages whose content differs, and the descriptor.
    fn put_collection(
        &mut self,
        seq: Seq,
        before: Option<(Descriptor, u64)>,
        content: u64,
    ) -> Effect {
        let count = elements(content);
        let (old, was) = before.unwrap_or((Descriptor { cid: seq, count: 0, pages: 0 }, 0));
        let pages = match (old.pages, count) {
            (0 | 1, 3..) => 2,
            (2, 2..) => 2,
            _ => 1,
        };
        for page in 0..PAGES.min(pages) {
            let new = share(content, page, pages);
            if page >= old.pages || share(was, page, old.pages) != new {
                self.put_page(seq, page_key(old.cid, page), new);
            }
        }
        for page in pages..old.pages {
            self.bury_element(seq, page_key(old.cid, page));
        }
        let descriptor = Descriptor { cid: old.cid, count, pages };
        self.put_page(seq, COLLECTION, descriptor.value());
        Effect::Put(COLLECTION, content)
    }

    /// Writes a grave of a page or a prefix; its block is removed, so that a recreated page has a record of its own.
    fn bury_element(&mut self, seq: Seq, key: Key) {
        let namespace = self.namespace_at(OPEN);
        self.pages.blocks.remove(&key);
        self.pages.late.retain(|v| v.key != key);
        self.graves.push(Grave { namespace, key, d: seq, e: OPEN, buried_in: 0 });
    }

    pub(super) fn add_element(&mut self, seq: Seq, element: u64) -> Effect {
        let before = self.newest_collection().unwrap_or_default();
        let content = before.map_or(0, |(_, content)| content);
        let value = lane(content, element) + 1;
        self.put_collection(seq, before, with_lane(content, element, value))
    }

    pub(super) fn remove_element(&mut self, seq: Seq, element: u64) -> Option<Effect> {
        let before = self.newest_collection().unwrap_or_default();
        let (_, content) = before.filter(|(_, content)| lane(*content, element) != 0)?;
        let rest = with_lane(content, element, 0);
        if rest == 0 {
            return self.delete_collection(seq);
        }
        Some(self.put_collection(seq, before, rest))
    }

    /// The grave of the root, and that of its prefix: whatever there are of pages.
    pub(super) fn delete_collection(&mut self, seq: Seq) -> Option<Effect> {
        let (descriptor, _) = self.newest_collection().unwrap_or_default()?;
        self.bury_element(seq, COLLECTION);
        for page in 0..PAGES {
            self.pages.blocks.remove(&page_key(descriptor.cid, page));
        }
        self.pages.late.clear();
        self.bury_element(seq, prefix_key(descriptor.cid));
        Some(Effect::Delete(COLLECTION))
    }

    /// D(k, s) as a merge asks for it.
    pub(super) fn grave_for_merge(&self, v: &Version, s: Seq) -> Option<Seq> {
        if self.rules.on(Rule::PrefixGrave) || page_of(v.key).is_none() {
            return self.grave_at(v.namespace, v.key, s);
        }
        let spilled = self.grave_runs.iter().flat_map(|run| &run.graves);
        let all = self.graves.iter().chain(spilled);
        all.filter(|g| g.of(v.namespace, v.key) && g.d <= s).map(|g| g.d).max()
    }

    /// What a flush reads of its memtable.
    pub(super) fn with_descriptors(&self, mut versions: Vec<Version>) -> Vec<Version> {
        if !self.rules.on(Rule::CountInMark)
            && let Some(root) = self.look_up(COLLECTION, OPEN)
        {
            let same = |v: &&mut Version| {
                v.key == COLLECTION
                    && v.namespace == root.namespace
                    && Descriptor::of(v.value).cid == Descriptor::of(root.value).cid
            };
            versions.iter_mut().filter(same).for_each(|v| v.value = root.value);
        }
        versions
    }

    /// I4 for pages, which are not read once their collection is deleted: a page whose newest version is not covered by a grave
    /// belongs to the living collection.
    ///
    /// # Errors
    /// A page that nothing will ever bury.
    pub fn check_pages(&self) -> Result<(), Violation> {
        let namespace = self.namespace_at(OPEN);
        let alive = self.newest_collection()?.map(|(descriptor, _)| descriptor);
        let superversion = self.superversion();
        let memtables = superversion.memtables.iter().flat_map(|m| m.borrow().clone());
        let files = superversion.files.iter().filter(|file| file.is_for(OPEN));
        let files = files.flat_map(|file| file.versions.clone());
        for v in memtables.chain(files).filter(|v| v.namespace == namespace) {
            let Some((cid, page)) = page_of(v.key) else { continue };
            let is_of = |d: Descriptor| d.cid == cid && page < d.pages;
            if !alive.is_some_and(is_of) && self.look_up(v.key, OPEN).is_some() {
                return Err(format!("page {page} of {cid} lives, the collection is {alive:?}"));
            }
        }
        Ok(())
    }
}
