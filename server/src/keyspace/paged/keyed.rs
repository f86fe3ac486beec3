//! Hashes and sets in pages.

use super::{Paged, Stop, Structure};
use crate::value::ValueType;
use sexton_engine::page::{
    Descriptor, Hash, HashSizes, PageError, PageId, Pages, PartKind, hash_of,
};

use std::hash::{BuildHasher, RandomState};

/// A key and its value.
pub type Drawn = (Vec<u8>, Vec<u8>);

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
        let hash = Hash::open(has_values, HashSizes::default(), descriptor.totals, part, externals);
        Ok(Self { hash, seed: descriptor.seed })
    }

    fn describe(&self, descriptor: &mut Descriptor) {
        let (part, externals) = self.hash.parts();
        descriptor.totals = self.hash.totals;
        descriptor.seed = self.seed;
        descriptor.set_part(part);
        externals.into_iter().for_each(|part| descriptor.set_part(part));
    }

    fn len(&self) -> u64 {
        self.hash.totals.elements
    }
}

impl Keyed {
    /// One of these entries, whose keys differ; values of a set are empty.
    ///
    /// # Errors
    /// One of them is too long.
    pub fn build<'e, P: Pages>(
        pages: &mut P,
        has_values: bool,
        entries: impl Iterator<Item = (&'e [u8], &'e [u8])>,
    ) -> Result<Self, PageError> {
        // Nobody may guess it.
        let seed = RandomState::new().hash_one(0);
        let entries: Vec<_> = entries
            .map(|(key, value)| (sexton_engine::page::hash_page::PageKey::Bytes(key), value))
            .collect();
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
        let ids = keys.map(|key| self.hash.page_of(hash_of(self.seed, key)));
        let mut missing: Vec<PageId> = ids.filter(|page| !pages.is_in_memory(*page)).collect();
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() { Ok(()) } else { Err(Stop::Missing(missing)) }
    }

    /// All pages are in memory, and those of long values.
    ///
    /// # Errors
    /// Those that are not.
    pub fn needs_all<P: Pages>(&self, pages: &P) -> Result<(), Stop> {
        let missing: Vec<PageId> =
            self.hash.page_ids().filter(|page| !pages.is_in_memory(*page)).collect();
        if !missing.is_empty() {
            return Err(Stop::Missing(missing));
        }
        let missing = self.hash.missing_values(pages)?;
        if missing.is_empty() { Ok(()) } else { Err(Stop::Missing(missing)) }
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

    /// Sets the value of a key; true when it is new.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn put<P: Pages>(
        &mut self,
        pages: &mut P,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, PageError> {
        let seed = self.seed;
        let put = self
            .hash
            .put(pages, (key, hash_of(seed, key)), value, &|key: &[u8]| hash_of(seed, key))?;
        Ok(put == sexton_engine::page::Put::New)
    }

    /// Removes a key; false when it is not there.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn remove<P: Pages>(&mut self, pages: &mut P, key: &[u8]) -> Result<bool, PageError> {
        let seed = self.seed;
        self.hash.remove(pages, (key, hash_of(seed, key)), &|key: &[u8]| hash_of(seed, key))
    }

    /// Shows all keys and values, in an order that means nothing.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn each<P: Pages>(
        &self,
        pages: &P,
        mut show: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), PageError> {
        let mut text = sexton_engine::page::IntegerText::default();
        for id in self.hash.page_ids() {
            for entry in self.hash.page(pages, id)?.entries() {
                let (key, value) =
                    entry.map_err(|damage| PageError::Damaged { page: id, damage })?;
                show(key.bytes(&mut text), self.hash.value(pages, value)?);
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

    /// A key drawn at random, and its value. `draws`: the same numbers when it runs again.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn draw<P: Pages>(&self, pages: &P, mut draws: u64) -> Result<Option<Drawn>, PageError> {
        let next = || {
            draws ^= draws << 13;
            draws ^= draws >> 7;
            draws ^= draws << 17;
            draws >> 3
        };
        let Some((key, value)) = self.hash.random(pages, next)? else { return Ok(None) };
        let mut text = sexton_engine::page::IntegerText::default();
        let key = key.bytes(&mut text).to_vec();
        Ok(Some((key, self.hash.value(pages, value)?.to_vec())))
    }
}
