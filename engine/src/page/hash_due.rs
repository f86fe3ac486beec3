//! Keys of a hash that are due one day.

use super::hash::{Found, Hash, id};
use super::hash_page::{self, PageEntry};
use super::ints::IntegerText;
use super::linear;
use super::store::{PageEdit, PageError, PageId, Pages, at_page};
use super::times::{Times, earlier};
use super::{external, fits};

impl Hash {
    /// When the first of its keys is due; 0 if none ever is.
    #[must_use]
    pub fn earliest_ms(&self) -> u64 {
        self.times.map_or(0, |times| times.earliest_ms)
    }

    /// The value of the key, and when that is due; 0 for never.
    pub fn get_due<'p, P: Pages>(
        &self,
        pages: &'p P,
        key: &[u8],
        hash: u64,
    ) -> Result<Option<(&'p [u8], u64)>, PageError> {
        let page = self.page_of(hash);
        let view = self.page(pages, page)?;
        let Some(place) = view.find(key, hash).map_err(at_page(page))? else { return Ok(None) };
        Ok(Some((external::read(pages, view.value(&place))?, place.due_ms())))
    }

    /// When the key is due, 0 for never, if it is there.
    pub fn due_ms<P: Pages>(
        &self,
        pages: &P,
        key: &[u8],
        hash: u64,
    ) -> Result<Option<u64>, PageError> {
        let found = self.find(pages, key, hash)?;
        Ok(found.place.is_some().then(|| found.due_ms()))
    }

    /// Says when the key is due; 0 for never. False if it is not there.
    pub fn set_due<P: Pages>(
        &mut self,
        pages: &mut P,
        (key, hash): (&[u8], u64),
        due_ms: u64,
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> Result<bool, PageError> {
        let found = self.find(pages, key, hash)?;
        let Some(place) = &found.place else { return Ok(false) };
        let retimed = self.retimed(pages, &found, due_ms)?;
        if retimed.is_none() {
            return Ok(true);
        }
        self.needs_for_split(pages)?;
        fits(found.page_bytes, hash_page::TIMES_MAX_BYTES)?;
        let mut edit = pages.edit(found.page)?;
        hash_page::set_due(&mut edit, place, due_ms, hash_of).map_err(at_page(found.page))?;
        let after = edit.bytes().len();
        drop(edit);
        self.resized(found.page_bytes, after);
        self.retime(pages, found.page, retimed)?;
        self.step(pages, hash_of);
        Ok(true)
    }

    /// At most this many pages with keys due at `now_ms`, for [`remove_due`](Self::remove_due). Incomplete where blocks of due
    /// times are not in memory; those are added to `missing`.
    pub fn due_pages<P: Pages>(
        &self,
        pages: &P,
        (now_ms, most): (u64, usize),
        missing: &mut Vec<PageId>,
    ) -> Result<Vec<PageId>, PageError> {
        let Some(times) = &self.times else { return Ok(Vec::new()) };
        let due = times.due(pages, self.pages, (now_ms, most), missing)?;
        Ok(due.into_iter().map(id).collect())
    }

    /// The blocks that a change of due times in a page needs; none where no key is due one day.
    pub fn blocks_over(&self, page: PageId) -> impl Iterator<Item = PageId> + use<> {
        let count = self.pages;
        let blocks = self.times.map(|_| Times::over(page.number as u32, count));
        blocks.into_iter().flatten()
    }

    /// Removes the keys of a page that are due at `now_ms`, and shows them.
    pub fn remove_due<P: Pages>(
        &mut self,
        pages: &mut P,
        page: PageId,
        now_ms: u64,
        hash_of: &impl Fn(&[u8]) -> u64,
        mut show: impl FnMut(&[u8]),
    ) -> Result<(), PageError> {
        let number = page.number as u32;
        if number >= self.pages || self.times.is_none() {
            // An earlier step has merged it into another.
            return Ok(());
        }
        self.needs_times(pages, number)?;
        let view = self.page(pages, page)?;
        let before = view.payload_bytes();
        let (mut kept, mut gone): (Vec<PageEntry<'_>>, Vec<_>) = (Vec::new(), Vec::new());
        let mut text = IntegerText::default();
        for entry in view.entries() {
            let (key, value, due_ms) = entry.map_err(at_page(page))?;
            if due_ms == 0 || due_ms > now_ms {
                kept.push((key, value, due_ms));
                continue;
            }
            let key = key.bytes(&mut text);
            show(key);
            gone.push((key.len() + value.len(), value.external()));
        }
        let due_ms = hash_page::earliest_of(&kept);
        if !gone.is_empty() {
            let payload = hash_page::build(&kept, self.has_values, hash_of);
            pages.edit(page)?.replace(&payload);
            self.resized(before, payload.len());
        }
        // Also where none was due, as only damage makes it: the same page is not found again.
        self.retime(pages, page, Some(due_ms))?;
        for (bytes, external) in gone {
            self.externals.remove(pages, external);
            self.totals.remove(bytes);
            self.step(pages, hash_of);
        }
        Ok(())
    }

    /// When the first key of the page of `found` is due once that one is due at `due_ms`, where this may be another time
    /// than before; then the blocks that say so are in memory.
    pub(super) fn retimed<P: Pages>(
        &self,
        pages: &P,
        found: &Found,
        due_ms: u64,
    ) -> Result<Option<u64>, PageError> {
        if found.due_ms() == due_ms {
            return Ok(None);
        }
        self.needs_times(pages, found.page.number as u32)?;
        let view = self.page(pages, found.page)?;
        let others_ms = view.earliest_ms(found.place.as_ref()).map_err(at_page(found.page))?;
        Ok(Some(earlier(others_ms, due_ms)))
    }

    /// Says what [`retimed`](Self::retimed) has found.
    pub(super) fn retime<P: Pages>(
        &mut self,
        pages: &mut P,
        page: PageId,
        due_ms: Option<u64>,
    ) -> Result<(), PageError> {
        let Some(due_ms) = due_ms else { return Ok(()) };
        let page = page.number as u32;
        match &mut self.times {
            Some(times) => times.set(pages, page, self.pages, due_ms)?,
            None if due_ms == 0 => {}
            None => {
                let mut of_pages = vec![0; self.pages as usize];
                of_pages[page as usize] = due_ms;
                self.times = Some(Times::build(pages, &of_pages));
            }
        }
        if self.times.is_some_and(|times| times.earliest_ms == 0) {
            Times::remove_all(pages, self.pages);
            self.times = None;
        }
        Ok(())
    }

    /// The blocks that say when the first key of a page is due are in memory.
    pub(super) fn needs_times<P: Pages>(&self, pages: &P, page: u32) -> Result<(), PageError> {
        if self.times.is_some() { Times::needs(pages, page, self.pages) } else { Ok(()) }
    }

    /// Nobody else asks for blocks of pages whose keys are never due. Without them no page could be split: a write asks for them
    /// when pages are much too full.
    pub(super) fn needs_for_split<P: Pages>(&self, pages: &P) -> Result<(), PageError> {
        let bytes = u64::from(self.pages) * self.sizes.split_bytes;
        if self.times.is_none() || self.content_bytes <= 2 * bytes {
            return Ok(());
        }
        self.needs_times(pages, linear::buddy_of(self.pages))?;
        self.needs_times(pages, self.pages - 1)
    }
}
