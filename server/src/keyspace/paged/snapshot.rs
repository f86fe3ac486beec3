//! Collections in pages as others than their writers see them: those of the past, and whole ones.

use super::long_string::each_of_string;
use super::{
    Extent, Failed, Keyed, Paged, Ranked, Stop, StringBytes, Structure, damaged, each_of_list,
    over, whole,
};
use crate::keyspace::collection::Field;
use crate::value::ValueType;
use sexton_engine::page::{List, LongString, PageError, PageId, Pages, PartKind};
use sexton_engine::{EngineError, HeldPage, Key, Meta, PageName, Snapshot, Tx};
use sexton_persistence::rdb::{CollectionKind, Element};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

/// Pages that are read at once.
const PAGES_TOGETHER: usize = 256;

/// Pages of the past, which stay as they were.
#[derive(Default)]
pub struct PastPages {
    read: HashMap<PageId, HeldPage, foldhash::fast::RandomState>,
    /// Those of a string, by their numbers.
    held: Vec<HeldPage>,
}

impl Pages for PastPages {
    type Edit<'a>
        = Vec<u8>
    where
        Self: 'a;

    fn read(&self, page: PageId) -> Result<&[u8], PageError> {
        let found = match self.held.get(page.number as usize) {
            Some(held) => Some(held),
            None => self.read.get(&page),
        };
        found.map(|held| &**held).ok_or(PageError::Missing(page))
    }

    /// What is changed of the past is forgotten.
    fn edit(&mut self, page: PageId) -> Result<Vec<u8>, PageError> {
        self.read(page).map(<[u8]>::to_vec)
    }

    fn add(&mut self, _: PageId, _: &[u8]) {}

    fn remove(&mut self, _: PageId) {}
}

/// Bytes of a string that are read together.
const STRING_STEP_BYTES: u64 = 1 << 20;

/// A string of the past, of which little is in memory at a time, unless it is held.
pub struct PastString<'c> {
    collection: RefCell<&'c mut PastCollection>,
    failed: RefCell<Option<EngineError>>,
}

impl<'c> PastString<'c> {
    /// The string that a collection in pages is.
    #[must_use]
    pub fn new(collection: &'c mut PastCollection) -> Self {
        Self { collection: RefCell::new(collection), failed: RefCell::default() }
    }

    /// Why it could not be read, where that was so.
    #[must_use]
    pub fn into_failure(self) -> Option<EngineError> {
        self.failed.into_inner()
    }
}

impl StringBytes for PastString<'_> {
    fn len_bytes(&self) -> u64 {
        self.collection.borrow().paged.descriptor.totals.bytes
    }

    /// What cannot be read may be missed behind bytes that were shown.
    fn each(&self, range: Range<u64>, show: &mut dyn FnMut(&[u8])) -> Result<(), Stop> {
        let (mut at, end) = (range.start, range.end.min(self.len_bytes()));
        while at < end {
            let part = at..end.min(at + STRING_STEP_BYTES);
            at = part.end;
            let shown = self.collection.borrow_mut().over(|paged, pages| {
                each_of_string(
                    &<LongString as Structure>::open(paged)?,
                    pages,
                    part.clone(),
                    &mut *show,
                )
            });
            if let Err(error) = shown {
                *self.failed.borrow_mut() = Some(error);
                return Err(PageError::Absent(PageId { part: PartKind::Bytes, number: 0 }).into());
            }
        }
        Ok(())
    }
}

/// Where a collection of the past is.
enum Source {
    /// In this snapshot of the store; its database.
    Snapshot(Snapshot, usize),
    /// All of its pages are held.
    Memory,
}

/// A collection in pages as it was once. What is not held is read of a snapshot when it is needed, which may block: not for a worker
/// thread.
pub struct PastCollection {
    source: Source,
    /// Its root.
    pub paged: Paged,
    pages: PastPages,
}

impl PastCollection {
    /// The collection of database `db` with this root; `None` for a value that lies whole in it.
    ///
    /// # Errors
    /// The root says of pages what nothing has written.
    pub fn open(
        snapshot: &Snapshot,
        db: usize,
        meta: Meta,
        value: &[u8],
    ) -> Result<Option<Self>, EngineError> {
        let paged = Paged::of(meta, value)?;
        let source = Source::Snapshot(snapshot.clone(), db);
        Ok(paged.map(|paged| Self { source, paged, pages: PastPages::default() }))
    }

    /// The string in pages that a key has now, if all of it is in memory; its pages stay there as long as this exists.
    pub fn hold(tx: &mut Tx<'_>, key: Key<'_>, paged: Paged) -> Option<Self> {
        let (cid, string) =
            (paged.descriptor.collection, LongString::open(&paged.descriptor).ok()?);
        let mut held = Vec::with_capacity(string.pages() as usize);
        for page in string.page_ids() {
            held.push(tx.hold_page(key, cid, page.into())?);
        }
        let pages = PastPages { held, ..PastPages::default() };
        Some(Self { source: Source::Memory, paged, pages })
    }

    /// True if nothing of it has to be read.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.source, Source::Memory)
    }

    /// Runs an operation on its pages until none is missing, and forgets them; but for those that say where the elements of a list
    /// are: they are small, and every range needs all of them.
    ///
    /// # Errors
    /// Pages that cannot be read.
    pub fn over<T>(
        &mut self,
        mut operation: impl FnMut(&Paged, &PastPages) -> Result<T, Stop>,
    ) -> Result<T, EngineError> {
        let cid = self.paged.descriptor.collection;
        loop {
            let missing = match operation(&self.paged, &self.pages) {
                Ok(done) if self.is_held() => return Ok(done),
                Ok(done) => {
                    let is_list = self.paged.value_type() == Some(ValueType::List);
                    let stays = |page: &PageId| is_list && page.part == PartKind::Counts;
                    self.pages.read.retain(|page, _| stays(page));
                    return Ok(done);
                }
                Err(Stop::Missing(missing)) => missing,
                Err(Stop::Failed(error)) => return Err(damaged(error)),
            };
            for part in missing.chunks(PAGES_TOGETHER) {
                let names: Vec<_> = part.iter().map(|page| PageName::from(*page)).collect();
                let contents = match &self.source {
                    Source::Snapshot(snapshot, db) => snapshot.pages(*db, cid, &names)?,
                    Source::Memory => vec![None; names.len()],
                };
                for (page, content) in part.iter().zip(contents) {
                    let content = content.ok_or_else(|| damaged(PageError::Absent(*page)))?;
                    self.pages.read.insert(*page, HeldPage::from(content));
                }
            }
        }
    }

    /// The value that it would have in one record.
    ///
    /// # Errors
    /// Pages that cannot be read.
    pub fn whole(&mut self) -> Result<Vec<u8>, EngineError> {
        self.over(whole)
    }

    /// How an RDB file holds it; `None` for a stream, whose parts are not written one by one.
    #[must_use]
    pub fn kind(&self) -> Option<CollectionKind> {
        Some(match self.paged.value_type()? {
            ValueType::List => CollectionKind::List,
            ValueType::Set => CollectionKind::Set,
            ValueType::SortedSet => CollectionKind::SortedSet,
            ValueType::Hash if self.paged.meta.has_due_elements() => CollectionKind::ExpiringHash,
            ValueType::Hash => CollectionKind::Hash,
            ValueType::Stream | ValueType::String => return None,
        })
    }

    /// Shows all its elements until that fails, in an order that is the same every time; few of them are in memory together.
    ///
    /// # Errors
    /// Pages that cannot be read or do not have as many elements as the root says, and what has failed.
    pub fn each_element<E: From<EngineError>>(
        &mut self,
        mut show: impl FnMut(Element<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(kind) = self.kind() else { return Ok(()) };
        let (mut shown, mut failed) = (0, None);
        // True as long as nothing has failed.
        let mut show = |element: Element<'_>| {
            if failed.is_none() {
                shown += 1;
                failed = show(element).err();
            }
            failed.is_none()
        };
        let walked = match kind {
            CollectionKind::List => self.walk(List::len, |list: &List, pages, part| {
                let mut goes_on = true;
                each_of_list(list, pages, part, |item| goes_on = show(Element::Item(item)))?;
                Ok(goes_on)
            }),
            CollectionKind::SortedSet => self.walk(Ranked::len, |set: &Ranked, pages, part| {
                for scored in set.range(pages, part)? {
                    let (score, member) = scored?;
                    if !show(Element::Scored(member, score)) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }),
            CollectionKind::Set | CollectionKind::Hash | CollectionKind::ExpiringHash => {
                let pages = |keyed: &Keyed| u64::from(keyed.hash.pages);
                self.walk(pages, |keyed: &Keyed, pages, part| {
                    let numbers = part.start as u32..part.end as u32;
                    let mut goes_on = true;
                    keyed.each_field(pages, numbers, |Field { name, value, due_ms }| {
                        goes_on = show(match kind {
                            CollectionKind::Set => Element::Item(name),
                            CollectionKind::Hash => Element::Field(name, value),
                            _ => Element::Timed(name, value, due_ms),
                        });
                    })?;
                    Ok(goes_on)
                })
            }
        };
        match failed {
            Some(failed) => return Err(failed),
            None => walked?,
        }
        let counted = self.paged.descriptor.totals.elements;
        if shown != counted {
            let text = format!("a collection of {counted} elements has {shown}");
            return Err(EngineError::Storage(text).into());
        }
        Ok(())
    }

    /// Visits all positions in order, a few at a time, until it does not go on.
    fn walk<S: Structure>(
        &mut self,
        positions: impl FnOnce(&S) -> u64,
        mut visit: impl FnMut(&S, &PastPages, Range<u64>) -> Result<bool, Stop>,
    ) -> Result<(), EngineError> {
        let structure = S::open(&self.paged).map_err(damaged)?;
        let positions = positions(&structure);
        let step = Extent::of(&self.paged, positions).step();
        for from in (0..positions).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            let part = from..positions.min(from.saturating_add(step));
            if !self.over(|_, pages| visit(&structure, pages, part.clone()))? {
                break;
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for PastCollection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pages = self.pages.read.len() + self.pages.held.len();
        f.debug_struct("PastCollection").field("pages", &pages).finish_non_exhaustive()
    }
}

/// Flags, expiry and value of a key of database `db` that a snapshot saw, a collection in pages as if it lay in one record; `None`
/// for what lies in one.
///
/// # Errors
/// Pages that cannot be read.
pub fn whole_at(
    snapshot: &Snapshot,
    db: usize,
    meta: Meta,
    value: &[u8],
) -> Result<Option<(Meta, Vec<u8>)>, EngineError> {
    let Some(mut past) = PastCollection::open(snapshot, db, meta, value)? else { return Ok(None) };
    let value = past.whole()?;
    Ok(Some((past.paged.whole_meta(), value)))
}

/// The same of a key that lives and is in memory, for who holds its latch.
///
/// # Errors
/// [`Failed`].
pub fn whole_in(
    tx: &mut Tx<'_>,
    key: Key<'_>,
    paged: &Paged,
    reads_here: bool,
) -> Result<(Meta, Vec<u8>), Failed> {
    let cid = paged.descriptor.collection;
    let value = over(tx, key, cid, reads_here, |pages| whole(paged, &pages))?;
    Ok((paged.whole_meta(), value))
}
