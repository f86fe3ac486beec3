//! Hashes and sets: keys, with or without values, spread over pages by linear hashing.
//!
//! Invariants: exactly the pages 0 to `pages` - 1 exist; a key is in the page that [`linear::page_of`] selects;
//! `content_bytes` is the sum of all payloads without their heads; `totals` counts keys, and the bytes of keys and
//! values; long values are as [`super::external`] says, due times as [`super::times`] does. How full pages are is no
//! invariant: the page whose split is due may be on a device, and is split by a later write, which asks for it
//! ([`Hash::overdue_splits`]).

use super::bytes::{ELEMENT_MAX_BYTES, HEAD_BYTES};
use super::descriptor::Part;
use super::external::{self, EXTERNAL_MIN_BYTES, Externals, Reference, Stored};
use super::hash_page::{self, HashPage, PageEntry, PageKey, Place};
use super::ints::IntegerText;
use super::linear::{self, Stretch};
use super::store::{Damage, PageEdit, PageError, PageId, Pages, PartKind, at_page};
use super::times::Times;
use super::{Put, Totals, fits};
use std::ops::Range;

/// How full pages get, on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSizes {
    /// A page is split when the pages have more than this many bytes on average.
    pub split_bytes: u64,
    /// The last page is merged when all have fewer.
    pub merge_bytes: u64,
    /// Values of at least this many bytes are stored in pages of their own.
    pub external_bytes: usize,
}

impl Default for HashSizes {
    fn default() -> Self {
        Self { split_bytes: 512, merge_bytes: 160, external_bytes: EXTERNAL_MIN_BYTES }
    }
}

/// A hash or a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hash {
    /// False for a set.
    pub has_values: bool,
    /// Pages, at least one.
    pub pages: u32,
    /// Bytes of all payloads behind their heads.
    pub content_bytes: u64,
    /// Keys, and bytes of keys and values.
    pub totals: Totals,
    /// Long values.
    pub externals: Externals,
    /// `None` while no key is due some day.
    pub times: Option<Times>,
    /// Not on a device.
    pub sizes: HashSizes,
}

/// A key, its value, and when it is due; 0 for never.
pub type NewEntry<'e> = (PageKey<'e>, &'e [u8], u64);

pub(super) fn id(page: u32) -> PageId {
    PageId { part: PartKind::Hash, number: u64::from(page) }
}

/// Where a key is, or would be.
pub(super) struct Found {
    pub(super) page: PageId,
    pub(super) page_bytes: usize,
    pub(super) place: Option<Place>,
    value_bytes: usize,
    external: Option<Reference>,
}

impl Found {
    pub(super) fn due_ms(&self) -> u64 {
        self.place.as_ref().map_or(0, Place::due_ms)
    }
}

impl Hash {
    /// Makes the pages of a hash with these entries, whose keys differ: from an inline form, or from a load.
    pub fn build<P: Pages>(
        pages: &mut P,
        has_values: bool,
        sizes: HashSizes,
        entries: &[NewEntry<'_>],
        hash: &impl Fn(&[u8]) -> u64,
    ) -> Result<Self, PageError> {
        let mut text = IntegerText::default();
        for (key, value, _) in entries {
            accept(key.bytes(&mut text), value)?;
        }
        Ok(Self::of_entries(pages, has_values, sizes, entries, hash))
    }

    fn of_entries<P: Pages>(
        pages: &mut P,
        has_values: bool,
        sizes: HashSizes,
        entries: &[NewEntry<'_>],
        hash: &impl Fn(&[u8]) -> u64,
    ) -> Self {
        let mut text = IntegerText::default();
        let mut built = Self {
            has_values,
            pages: 1,
            content_bytes: 0,
            totals: Totals::default(),
            externals: Externals::default(),
            times: None,
            sizes,
        };
        let mut stored = Vec::with_capacity(entries.len());
        // Lengths, tag and offset come to five bytes an entry.
        let mut content = 0;
        for (key, value, due_ms) in entries {
            let own = built.externals.plan(value, sizes.external_bytes);
            built.externals.add(pages, own, value);
            let bytes = key.bytes(&mut text);
            built.totals.add(bytes.len() + value.len());
            content += (bytes.len() + own.here().len() + 5) as u64;
            if *due_ms != 0 {
                content += 8;
            }
            stored.push((hash(bytes), (*key, own, *due_ms)));
        }
        // Pages begin as full as they are between two splits.
        let wanted = content.div_ceil((sizes.split_bytes * 3 / 4).max(1)).max(1);
        built.pages = u32::try_from(wanted).unwrap_or(u32::MAX);
        let mut order: Vec<(u32, usize)> = (0_usize..)
            .zip(&stored)
            .map(|(at, (hash, _))| (linear::page_of(*hash, built.pages), at))
            .collect();
        order.sort_unstable();
        let (mut rest, mut times) = (order.as_slice(), Vec::new());
        for page in 0..built.pages {
            let (own, others) = rest.split_at(rest.partition_point(|(of, _)| *of == page));
            rest = others;
            let own: Vec<PageEntry<'_>> = own.iter().map(|(_, at)| stored[*at].1).collect();
            let payload = hash_page::build(&own, has_values, hash);
            built.content_bytes += content_of(&payload);
            pages.add(id(page), &payload);
            times.push(hash_page::earliest_of(&own));
        }
        if times.iter().any(|due_ms| *due_ms != 0) {
            built.times = Some(Times::build(pages, &times));
        }
        built
    }

    /// The hash whose descriptor says this.
    #[must_use]
    pub fn open(
        has_values: bool,
        sizes: HashSizes,
        totals: Totals,
        part: &Part,
        externals: Option<&Part>,
        times: Option<Times>,
    ) -> Self {
        let (pages, content_bytes) = (part.pages.max(1), part.a);
        let externals = Externals::open(externals);
        Self { has_values, pages, content_bytes, totals, externals, times, sizes }
    }

    /// What the descriptor says of the pages, and of long values if there ever were some.
    #[must_use]
    pub fn parts(&self) -> (Part, Option<Part>) {
        let (kind, pages) = (PartKind::Hash, self.pages);
        let part = Part { kind, flags: 0, pages, a: self.content_bytes, b: 0 };
        (part, self.externals.part())
    }

    /// The page of keys with this hash.
    #[must_use]
    pub fn page_of(&self, hash: u64) -> PageId {
        id(linear::page_of(hash, self.pages))
    }

    /// All pages.
    pub fn page_ids(&self) -> impl Iterator<Item = PageId> + use<> {
        Self::ids(0..self.pages)
    }

    /// The pages with these numbers.
    pub fn ids(numbers: Range<u32>) -> impl Iterator<Item = PageId> + use<> {
        numbers.map(id)
    }

    /// A page that is to be walked.
    pub fn page<'p, P: Pages>(
        &self,
        pages: &'p P,
        page: PageId,
    ) -> Result<HashPage<'p>, PageError> {
        HashPage::parse(pages.read(page)?).map_err(at_page(page))
    }

    /// The value of the key; empty in a set.
    pub fn get<'p, P: Pages>(
        &self,
        pages: &'p P,
        key: &[u8],
        hash: u64,
    ) -> Result<Option<&'p [u8]>, PageError> {
        let id = self.page_of(hash);
        let page = self.page(pages, id)?;
        let place = page.find(key, hash).map_err(at_page(id))?;
        place.map(|place| external::read(pages, page.value(&place))).transpose()
    }

    /// The pages of long values that are not in memory, of entries of the pages with these numbers, which are.
    pub fn missing_values<P: Pages>(
        &self,
        pages: &P,
        numbers: Range<u32>,
    ) -> Result<Vec<PageId>, PageError> {
        let mut missing = Vec::new();
        if self.externals.count == 0 {
            return Ok(missing);
        }
        for id in Self::ids(numbers) {
            for entry in self.page(pages, id)?.entries() {
                let (_, value, _) = entry.map_err(at_page(id))?;
                let page = value.external().map(Reference::page);
                missing.extend(page.filter(|page| !pages.is_in_memory(*page)));
            }
        }
        Ok(missing)
    }

    /// The value of an entry of a page.
    pub fn value<'p, P: Pages>(
        &self,
        pages: &'p P,
        stored: Stored<'p>,
    ) -> Result<&'p [u8], PageError> {
        external::read(pages, stored)
    }

    /// Sets the value of the key, which is never due from now on; a value in a set is empty. `hash_of(key)` is `hash`.
    pub fn put<P: Pages>(
        &mut self,
        pages: &mut P,
        key: (&[u8], u64),
        value: &[u8],
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> Result<Put, PageError> {
        self.put_due(pages, key, (value, Some(0)), hash_of)
    }

    /// Sets the value of the key, and when it is due: 0 for never, `None` for when it was before.
    pub fn put_due<P: Pages>(
        &mut self,
        pages: &mut P,
        (key, hash): (&[u8], u64),
        (value, due_ms): (&[u8], Option<u64>),
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> Result<Put, PageError> {
        accept(key, value)?;
        let mut found = self.find(pages, key, hash)?;
        if found.place.is_some() && !self.has_values {
            // A set says no more of it.
            return Ok(Put::Replaced);
        }
        let due_ms = due_ms.unwrap_or(found.due_ms());
        let retimed = self.retimed(pages, &found, due_ms)?;
        self.needs_for_split(pages)?;
        let stored = if self.has_values {
            self.externals.plan(value, self.sizes.external_bytes)
        } else {
            hash_page::NO_VALUE
        };
        let before = found.page_bytes;
        fits(before, key.len() + stored.here().len() + hash_page::TIMES_MAX_BYTES)?;
        let mut edit = pages.edit(found.page)?;
        if let (Some(place), true) = (&found.place, retimed.is_some()) {
            hash_page::set_due(&mut edit, place, due_ms, hash_of).map_err(at_page(found.page))?;
            let page = HashPage::parse(edit.bytes());
            // It may have been built anew.
            found.place =
                page.and_then(|page| page.find(key, hash)).map_err(at_page(found.page))?;
        }
        match &found.place {
            Some(place) => hash_page::set_value(&mut edit, place, stored, hash_of),
            None => hash_page::insert(&mut edit, key, stored, due_ms, hash_of),
        }
        .map_err(at_page(found.page))?;
        let after = edit.bytes().len();
        drop(edit);
        self.resized(before, after);
        self.externals.add(pages, stored, value);
        let put = if found.place.is_some() {
            self.externals.remove(pages, found.external);
            self.totals.bytes = self.totals.bytes.saturating_sub(found.value_bytes as u64);
            self.totals.bytes += stored.len() as u64;
            Put::Replaced
        } else {
            self.totals.add(key.len() + stored.len());
            Put::New
        };
        self.retime(pages, found.page, retimed)?;
        self.step(pages, hash_of);
        Ok(put)
    }

    /// Removes the key. False if it is not there.
    pub fn remove<P: Pages>(
        &mut self,
        pages: &mut P,
        (key, hash): (&[u8], u64),
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> Result<bool, PageError> {
        let found = self.find(pages, key, hash)?;
        let Some(place) = &found.place else { return Ok(false) };
        let retimed = self.retimed(pages, &found, 0)?;
        let before = found.page_bytes;
        let mut edit = pages.edit(found.page)?;
        hash_page::remove(&mut edit, place).map_err(at_page(found.page))?;
        let after = edit.bytes().len();
        drop(edit);
        self.resized(before, after);
        self.externals.remove(pages, found.external);
        self.totals.remove(key.len() + found.value_bytes);
        self.retime(pages, found.page, retimed)?;
        self.step(pages, hash_of);
        Ok(true)
    }

    pub(super) fn find<P: Pages>(
        &self,
        pages: &P,
        key: &[u8],
        hash: u64,
    ) -> Result<Found, PageError> {
        let page = self.page_of(hash);
        let view = self.page(pages, page)?;
        let place = view.find(key, hash).map_err(at_page(page))?;
        let value = place.as_ref().map_or(hash_page::NO_VALUE, |place| view.value(place));
        let page_bytes = view.payload_bytes();
        Ok(Found { page, page_bytes, value_bytes: value.len(), external: value.external(), place })
    }

    pub(super) fn resized(&mut self, before: usize, after: usize) {
        self.content_bytes =
            self.content_bytes.saturating_add(after as u64).saturating_sub(before as u64);
    }

    /// Answers the entries at the cursor, and the cursor behind them; 0 begins, and ends. What is there from the first
    /// call to the last is answered once, whatever is written in between. After an error, what was answered does not count.
    pub fn scan<P: Pages>(
        &self,
        pages: &P,
        cursor: u64,
        hash_of: &impl Fn(&[u8]) -> u64,
        mut answer: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, PageError> {
        let stretch = Stretch::at(cursor, self.pages);
        let page = id(stretch.page);
        let mut text = IntegerText::default();
        for entry in self.page(pages, page)?.entries() {
            let (key, value, _) = entry.map_err(at_page(page))?;
            let key = key.bytes(&mut text);
            if stretch.holds(hash_of(key)) {
                answer(key, external::read(pages, value)?);
            }
        }
        Ok(stretch.next)
    }

    /// The pages that a scan of about `count` entries from the cursor on misses, those of long values where the page with the entry
    /// is in memory.
    pub fn missing_of_scan<P: Pages>(
        &self,
        pages: &P,
        cursor: u64,
        count: u64,
    ) -> Result<Vec<PageId>, PageError> {
        let mut missing = Vec::new();
        for stretch in linear::scanned(cursor, self.pages, (count, self.totals.elements)) {
            if pages.is_in_memory(id(stretch.page)) {
                missing.extend(self.missing_values(pages, stretch.page..stretch.page + 1)?);
            } else {
                missing.push(id(stretch.page));
            }
        }
        Ok(missing)
    }

    /// A random entry: each is equally likely, except those of pages far above the average. `None` for an empty hash. A
    /// restarted operation must draw equal numbers, or each run may miss another page.
    pub fn random<'p, P: Pages>(
        &self,
        pages: &'p P,
        mut random: impl FnMut() -> u64,
    ) -> Result<Option<PageEntry<'p>>, PageError> {
        if self.totals.elements == 0 {
            return Ok(None);
        }
        let average = self.totals.elements.div_ceil(u64::from(self.pages));
        // A page is accepted with a probability in proportion to its entries; after many refusals any page will do.
        let slots = average.saturating_mul(3).max(1);
        let mut tries = 0_u32;
        loop {
            let page = id((random() % u64::from(self.pages)) as u32);
            let view = self.page(pages, page)?;
            let len = view.len() as u64;
            if len > 0 && (random() % slots < len || tries > 1000) {
                return view.entry((random() % len) as usize).map(Some).map_err(at_page(page));
            }
            tries += 1;
            if tries > 10_000 {
                return Ok(None);
            }
        }
    }

    /// Pages whose splits are overdue, in their order, of at most `most` splits: a write makes one, if the page is in memory,
    /// and nobody else may have asked for it. Whoever writes `most` keys brings them along, lest pages grow without end.
    pub fn overdue_splits(&self, most: usize) -> impl Iterator<Item = PageId> + use<> {
        let wanted = self.content_bytes / self.sizes.split_bytes.max(1);
        let overdue = wanted.min(self.totals.elements).saturating_sub(u64::from(self.pages));
        linear::buddies_of(self.pages, overdue.min(most as u64)).map(id)
    }

    /// Splits or merges one page, if that is due and the pages are in memory.
    pub(super) fn step<P: Pages>(&mut self, pages: &mut P, hash_of: &impl Fn(&[u8]) -> u64) {
        let count = u64::from(self.pages);
        // Long values make no more pages than there are keys.
        let most = self.totals.elements.clamp(1, u64::from(u32::MAX));
        // A page that is damaged or away is left as it is: a later request for its keys reports that.
        if self.content_bytes > count * self.sizes.split_bytes && count < most {
            let _ = self.split(pages, hash_of);
        } else if count > most || count > 1 && self.content_bytes < count * self.sizes.merge_bytes {
            let _ = self.merge(pages, hash_of);
        }
    }

    fn split<P: Pages>(
        &mut self,
        pages: &mut P,
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> Result<(), PageError> {
        let buddy = linear::buddy_of(self.pages);
        let (from, to) = (id(buddy), id(self.pages));
        if !pages.is_in_memory(from) {
            return Err(PageError::Missing(from));
        }
        self.needs_times(pages, buddy)?;
        self.needs_times(pages, self.pages - 1)?;
        let payload = pages.read(from)?;
        let before = payload.len();
        let (mut kept, mut moved) = (Vec::new(), Vec::new());
        let mut text = IntegerText::default();
        for entry in HashPage::parse(payload).map_err(at_page(from))?.entries() {
            let entry = entry.map_err(at_page(from))?;
            let page = linear::page_of(hash_of(entry.0.bytes(&mut text)), self.pages + 1);
            if page == self.pages { moved.push(entry) } else { kept.push(entry) }
        }
        let (kept_ms, moved_ms) = (hash_page::earliest_of(&kept), hash_page::earliest_of(&moved));
        let kept = hash_page::build(&kept, self.has_values, hash_of);
        let moved = hash_page::build(&moved, self.has_values, hash_of);
        pages.edit(from)?.replace(&kept);
        pages.add(to, &moved);
        if let Some(times) = &mut self.times {
            times.set(pages, buddy, self.pages, kept_ms)?;
            times.push(pages, self.pages, moved_ms)?;
        }
        self.pages += 1;
        self.resized(before, kept.len());
        self.content_bytes += content_of(&moved);
        Ok(())
    }

    fn merge<P: Pages>(
        &mut self,
        pages: &mut P,
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> Result<(), PageError> {
        let buddy = linear::buddy_of(self.pages - 1);
        let (from, to) = (id(self.pages - 1), id(buddy));
        if !pages.is_in_memory(from) || !pages.is_in_memory(to) {
            return Err(PageError::Missing(from));
        }
        self.needs_times(pages, buddy)?;
        self.needs_times(pages, self.pages - 1)?;
        let (gone, grown) = (pages.read(from)?, pages.read(to)?);
        let before = gone.len() + grown.len() - HEAD_BYTES;
        fits(gone.len(), grown.len())?;
        let mut entries: Vec<PageEntry<'_>> = Vec::new();
        for (page, payload) in [(to, grown), (from, gone)] {
            for entry in HashPage::parse(payload).map_err(at_page(page))?.entries() {
                entries.push(entry.map_err(at_page(page))?);
            }
        }
        if entries.len() > super::bytes::PAGE_ELEMENTS_MAX {
            return Ok(());
        }
        let due_ms = hash_page::earliest_of(&entries);
        let merged = hash_page::build(&entries, self.has_values, hash_of);
        pages.edit(to)?.replace(&merged);
        pages.remove(from);
        if let Some(times) = &mut self.times {
            times.pop(pages, self.pages)?;
            times.set(pages, buddy, self.pages - 1, due_ms)?;
        }
        self.pages -= 1;
        self.resized(before, merged.len());
        Ok(())
    }

    /// Looks at all pages: whether each key is where it belongs, and the counts are true.
    pub fn check<P: Pages>(
        &self,
        pages: &P,
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> Result<(), PageError> {
        let mut text = IntegerText::default();
        let (mut totals, mut content_bytes) = (Totals::default(), 0);
        let mut externals = Externals { next: self.externals.next, ..Externals::default() };
        let mut times = Vec::new();
        let wrong = |page, at, expected| Err(at_page(page)(Damage { at, expected }));
        for page in self.page_ids() {
            let view = self.page(pages, page)?;
            view.check(hash_of).map_err(at_page(page))?;
            if !view.is_empty() && view.has_values() != self.has_values {
                return wrong(page, 2, "values as in the other pages");
            }
            content_bytes += content_of(pages.read(page)?);
            times.push(view.earliest_ms(None).map_err(at_page(page))?);
            for entry in view.entries() {
                let (key, value, _) = entry.map_err(at_page(page))?;
                let key = key.bytes(&mut text);
                totals.add(key.len() + external::read(pages, value)?.len());
                externals.note(value);
                if self.page_of(hash_of(key)) != page {
                    return wrong(page, 0, "keys whose hash names this page");
                }
            }
        }
        match self.times {
            Some(of_pages) => of_pages.check(pages, &times)?,
            None if times.iter().any(|due_ms| *due_ms != 0) => {
                return wrong(id(0), 0, "blocks of due times");
            }
            None => {}
        }
        if externals != self.externals {
            return wrong(id(0), 0, "as many long values as the descriptor counts");
        }
        if totals != self.totals {
            return wrong(id(0), 0, "as many elements and bytes as the descriptor counts");
        }
        if content_bytes != self.content_bytes {
            return wrong(id(0), 0, "as many bytes of content as the descriptor counts");
        }
        Ok(())
    }
}

fn accept(key: &[u8], value: &[u8]) -> Result<(), PageError> {
    let bytes = key.len().max(value.len());
    if bytes > ELEMENT_MAX_BYTES { Err(PageError::TooLong { bytes }) } else { Ok(()) }
}

fn content_of(payload: &[u8]) -> u64 {
    (payload.len().saturating_sub(HEAD_BYTES)) as u64
}
