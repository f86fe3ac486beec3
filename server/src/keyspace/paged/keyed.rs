//! Hashes and sets in pages.

use super::{Paged, Stop, Structure, none_of};
use crate::keyspace::collection::Field;
use crate::value::{EXPIRING_HASH, ValueType};
use sexton_engine::Meta;
use sexton_engine::page::hash_page::PageKey;
use sexton_engine::page::{
    Descriptor, Hash, HashSizes, PageError, PageId, Pages, PartKind, Times, hash_of,
};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// A key and its value.
pub type Drawn = (Vec<u8>, Vec<u8>);

/// Pages that are looked at for a key that is not due.
const PAGES_LOOKED_AT: usize = 64;

/// Pages of one operation that removes what is due.
#[derive(Clone, Copy, Debug)]
pub struct DuePages {
    /// So many must be in memory before it begins.
    pub in_memory: usize,
    /// At most of so many keys are removed.
    pub removed: usize,
}

/// A hash or a set, with the seed of its own.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// Its pages.
    pub hash: Hash,
    seed: u64,
}

impl Structure for Keyed {
    fn open(paged: &Paged) -> Result<Self, PageError> {
        let has_values = paged.value_type() == Some(ValueType::Hash);
        let descriptor = &paged.descriptor;
        let Some(part) = descriptor.part(PartKind::Hash) else {
            return Err(super::without(PartKind::Hash));
        };
        let externals = descriptor.part(PartKind::External);
        let times = Times::open(descriptor.part(PartKind::Times), descriptor.expire_at_ms);
        let (sizes, totals) = (HashSizes::default(), descriptor.totals);
        let hash = Hash::open(has_values, sizes, totals, part, externals, times);
        Ok(Self { hash, seed: descriptor.seed })
    }

    fn describe(&self, descriptor: &mut Descriptor) {
        let (part, externals) = self.hash.parts();
        descriptor.totals = self.hash.totals;
        descriptor.seed = self.seed;
        descriptor.set_part(part);
        externals.into_iter().for_each(|part| descriptor.set_part(part));
        descriptor.expire_at_ms = self.hash.earliest_ms();
        match self.hash.times {
            Some(_) => descriptor.set_part(Times::part(self.hash.pages)),
            None => descriptor.drop_part(PartKind::Times),
        }
    }

    fn meta(&self, meta: Meta) -> Meta {
        if !self.hash.has_values {
            return meta;
        }
        let has_times = self.hash.times.is_some();
        let flags = if has_times { EXPIRING_HASH } else { ValueType::Hash as u8 };
        Meta { flags: flags | meta.flags & Meta::PAGED, ..meta }
    }

    fn len(&self) -> u64 {
        self.hash.totals.elements
    }
}

fn missing_of<P: Pages>(pages: &P, ids: impl Iterator<Item = PageId>) -> Result<(), Stop> {
    let mut missing: Vec<PageId> = ids.filter(|page| !pages.is_in_memory(*page)).collect();
    missing.sort_unstable();
    missing.dedup();
    none_of(missing)
}

impl Keyed {
    /// One of these fields, whose names differ; values of a set are empty.
    ///
    /// # Errors
    /// One of them is too long.
    pub fn build<'e, P: Pages>(
        pages: &mut P,
        has_values: bool,
        fields: impl Iterator<Item = Field<'e>>,
    ) -> Result<Self, PageError> {
        // Nobody may guess it.
        let seed = RandomState::new().hash_one(0);
        let entries: Vec<_> =
            fields.map(|field| (PageKey::Bytes(field.name), field.value, field.due_ms)).collect();
        let hash =
            Hash::build(pages, has_values, HashSizes::default(), &entries, &|key: &[u8]| {
                hash_of(seed, key)
            })?;
        Ok(Self { hash, seed })
    }

    /// The page of a key.
    #[must_use]
    pub fn page_of(&self, key: &[u8]) -> PageId {
        self.hash.page_of(hash_of(self.seed, key))
    }

    /// The pages of these keys are all in memory.
    ///
    /// # Errors
    /// Those that are not.
    pub fn needs<'k, P: Pages>(
        &self,
        pages: &P,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<(), Stop> {
        missing_of(pages, keys.map(|key| self.page_of(key)))
    }

    /// Looks at these keys, one after the other.
    ///
    /// # Errors
    /// Where a page is missing, all that they miss.
    pub fn each<'k, P: Pages>(
        &self,
        pages: &P,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        look: impl FnMut(&'k [u8]) -> Result<(), PageError>,
    ) -> Result<(), Stop> {
        keys.clone().try_for_each(look).or_else(|missed| {
            self.needs(pages, keys)?;
            Err(missed.into())
        })
    }

    /// As [`Self::needs`] for keys that are to be changed: what says when they are due is in memory, too.
    ///
    /// # Errors
    /// The pages that are not, and those that these changes split, if splits are overdue.
    pub fn needs_to_change<'k, P: Pages>(
        &self,
        pages: &P,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<(), Stop> {
        let mut changes = 0;
        let with_blocks = |page| std::iter::once(page).chain(self.hash.blocks_over(page));
        let ids = keys.map(|key| self.page_of(key)).inspect(|_| changes += 1);
        let needed = missing_of(pages, ids.flat_map(with_blocks));
        needed.map_err(|stop| {
            stop.along_with(pages, self.hash.overdue_splits(changes).flat_map(with_blocks))
        })
    }

    /// Changes these keys, one after the other.
    ///
    /// # Errors
    /// Where a page is missing, all that these changes miss: what was changed before is to be given up.
    pub fn change_each<'k, P: Pages>(
        &mut self,
        pages: &mut P,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        mut change: impl FnMut(&mut Self, &mut P, &'k [u8]) -> Result<(), PageError>,
    ) -> Result<(), Stop> {
        let changed = keys.clone().try_for_each(|key| change(self, pages, key));
        changed.or_else(|missed| {
            if matches!(missed, PageError::Missing(_)) {
                self.needs_to_change(pages, keys)?;
            }
            Err(missed.into())
        })
    }

    /// The value of a key; empty in a set.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn get<'p, P: Pages>(
        &self,
        pages: &'p P,
        key: &[u8],
    ) -> Result<Option<&'p [u8]>, PageError> {
        self.hash.get(pages, key, hash_of(self.seed, key))
    }

    /// The value of a key, and when it is due; 0 for never.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn get_due<'p, P: Pages>(
        &self,
        pages: &'p P,
        key: &[u8],
    ) -> Result<Option<(&'p [u8], u64)>, PageError> {
        self.hash.get_due(pages, key, hash_of(self.seed, key))
    }

    /// When a key is due, 0 for never, if it is there.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn due_ms<P: Pages>(&self, pages: &P, key: &[u8]) -> Result<Option<u64>, PageError> {
        self.hash.due_ms(pages, key, hash_of(self.seed, key))
    }

    /// Sets the value of a key, which is never due from now on; true when it is new.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn put<P: Pages>(
        &mut self,
        pages: &mut P,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, PageError> {
        self.put_due(pages, key, value, Some(0))
    }

    /// Sets the value of a key, and when it is due: 0 for never, `None` for when it was before; true when it is new.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn put_due<P: Pages>(
        &mut self,
        pages: &mut P,
        key: &[u8],
        value: &[u8],
        due_ms: Option<u64>,
    ) -> Result<bool, PageError> {
        let seed = self.seed;
        let (keyed, value) = ((key, hash_of(seed, key)), (value, due_ms));
        let put = self.hash.put_due(pages, keyed, value, &|key: &[u8]| hash_of(seed, key))?;
        Ok(put == sexton_engine::page::Put::New)
    }

    /// Says when a key is due, 0 for never; false when it is not there.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn set_due<P: Pages>(
        &mut self,
        pages: &mut P,
        key: &[u8],
        due_ms: u64,
    ) -> Result<bool, PageError> {
        let seed = self.seed;
        let keyed = (key, hash_of(seed, key));
        self.hash.set_due(pages, keyed, due_ms, &|key: &[u8]| hash_of(seed, key))
    }

    /// Removes the keys that are due at `now_ms`, those of at most so many pages; true when there are some. All pages with
    /// such keys are in memory.
    ///
    /// # Errors
    /// Those that are not.
    pub fn remove_due<P: Pages>(
        &mut self,
        pages: &mut P,
        (now_ms, most): (u64, DuePages),
        mut show: impl FnMut(&[u8]),
    ) -> Result<bool, Stop> {
        let seed = self.seed;
        let mut missing = Vec::new();
        let mut due = self.hash.due_pages(pages, (now_ms, most.in_memory), &mut missing)?;
        missing.extend(due.iter().copied().filter(|page| !pages.is_in_memory(*page)));
        if !missing.is_empty() {
            return Err(Stop::Missing(missing));
        }
        due.truncate(most.removed);
        for page in &due {
            let hash_of = |key: &[u8]| hash_of(seed, key);
            self.hash.remove_due(pages, *page, now_ms, &hash_of, &mut show)?;
        }
        Ok(!due.is_empty())
    }

    /// Removes a key; false when it is not there.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn remove<P: Pages>(&mut self, pages: &mut P, key: &[u8]) -> Result<bool, PageError> {
        let seed = self.seed;
        self.hash.remove(pages, (key, hash_of(seed, key)), &|key: &[u8]| hash_of(seed, key))
    }

    /// True if one of a few pages that are in memory has a key that is not due at `now_ms`.
    pub fn has_field_left<P: Pages>(&self, pages: &P, now_ms: u64) -> bool {
        let few = self.hash.page_ids().take(PAGES_LOOKED_AT);
        few.filter_map(|page| self.hash.page(pages, page).ok()).any(|page| {
            let mut times = page.entries().map_while(Result::ok).map(|(.., due_ms)| due_ms);
            times.any(|due_ms| due_ms == 0 || due_ms > now_ms)
        })
    }

    /// Shows what is in the pages with these numbers, in an order that means nothing.
    ///
    /// # Errors
    /// The pages that are not in memory, those of long values included, before the first is shown.
    pub fn each_field<P: Pages>(
        &self,
        pages: &P,
        numbers: Range<u32>,
        mut show: impl FnMut(Field<'_>),
    ) -> Result<(), Stop> {
        missing_of(pages, Hash::ids(numbers.clone()))?;
        missing_of(pages, self.hash.missing_values(pages, numbers.clone())?.into_iter())?;
        let mut text = sexton_engine::page::IntegerText::default();
        for id in Hash::ids(numbers) {
            for entry in self.hash.page(pages, id)?.entries() {
                let (key, value, due_ms) =
                    entry.map_err(|damage| PageError::Damaged { page: id, damage })?;
                let value = self.hash.value(pages, value)?;
                show(Field { name: key.bytes(&mut text), value, due_ms });
            }
        }
        Ok(())
    }

    /// Shows what is at a cursor, and answers the next one; 0 begins, and ends.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn scan<P: Pages>(
        &self,
        pages: &P,
        cursor: u64,
        show: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, PageError> {
        let seed = self.seed;
        self.hash.scan(pages, cursor, &|key: &[u8]| hash_of(seed, key), show)
    }

    /// All pages that a scan of about `count` keys from the cursor on misses, where it has missed one there.
    pub fn missing_of_scan<P: Pages>(
        &self,
        pages: &P,
        (cursor, count): (u64, u64),
        missed: PageError,
    ) -> Stop {
        Stop::of_missing(missed, || self.hash.missing_of_scan(pages, cursor, count))
    }
}
