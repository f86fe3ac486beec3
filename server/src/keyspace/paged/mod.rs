//! Collections that lie in pages: their roots, their whole values, and how pages come that are not in memory.
//!
//! A collection above a size lies in pages of its own (engine/DESIGN.md, "Paged collections"); its root says how many elements it
//! has, and where the pages are. Commands that work page by page use what its type has here. All others look at [`whole`], which
//! is the value that the collection would have in one record, and write it back by [`put`].

mod draws;
mod fields;
mod keyed;
mod layout;
mod list;
mod long_string;
mod pieces;
mod ranked;
mod search;
mod snapshot;
mod stream;
mod whole_string;

pub use draws::Draws;
pub use fields::{FieldSet, PagedFields};
pub use keyed::{Drawn, DuePages, Keyed};
pub use layout::{LaidOut, put, put_part, written_max_bytes};
pub use list::{each_of_list, needs, needs_to_change, needs_to_remove};
pub use long_string::{
    PagedString, Slice, StringBytes, StringEdit, copy_string, needs_string, window,
};
pub use pieces::{AllFields, Extent, InPieces};
pub use ranked::Ranked;
pub use search::{ListSearch, Sought, Step, Window};
pub use snapshot::{PastCollection, PastPages, PastString, whole_at, whole_in};
pub use stream::{GroupsAsked, Parts, PendingAsked, PendingSpan, Removed, Streamed};
pub use whole_string::{EditedString, WholeString};

use super::collection::{Edit, Encoding, HashEdit, ListEdit, SetEdit, SortedSetEdit};
use super::pop::Popped;
use crate::blocking::Pop;
use crate::keyspace::Written;
use crate::value::ValueType;
use sexton_engine::page::{Damage, Descriptor, List, PageError, PageId, Pages, PartKind};
use sexton_engine::{EngineError, Entry, Key, Meta, OwnedKey, Tx, TxPages, Want};
use std::collections::BTreeSet;

/// Pages of one collection that are brought into memory in advance.
const LIKELY_PAGES_MAX: usize = 256;

/// A collection in pages, as its root says.
#[derive(Clone, Debug)]
pub struct Paged {
    /// Flags and expiry of the root.
    pub meta: Meta,
    /// The root's value.
    pub descriptor: Descriptor,
}

impl Paged {
    /// `None` for a value that lies whole in its root.
    ///
    /// # Errors
    /// The root says of pages what nothing has written.
    pub fn of(meta: Meta, value: &[u8]) -> Result<Option<Self>, EngineError> {
        if !meta.is_paged() {
            return Ok(None);
        }
        let descriptor = Descriptor::decode(value)
            .map_err(|damage| EngineError::Storage(format!("root of a collection: {damage}")))?;
        Ok(Some(Self { meta, descriptor }))
    }

    /// True of what is copied as if it lay in one record, in at most so many bytes, and is the same whenever it is: no string, which shares
    /// its pages with its copies, and nothing with elements that are due on their own.
    #[must_use]
    pub fn is_copied_whole(&self, max_bytes: u64) -> bool {
        self.value_type() != Some(ValueType::String)
            && !self.meta.has_due_elements()
            && self.descriptor.totals.bytes <= max_bytes
    }

    /// The same of what was found in memory.
    ///
    /// # Errors
    /// As [`Paged::of`].
    pub fn of_entry(entry: Entry<'_>) -> Result<Option<Self>, EngineError> {
        Self::of(entry.meta(), entry.value())
    }

    /// Its type.
    #[must_use]
    pub fn value_type(&self) -> Option<ValueType> {
        ValueType::of(self.meta.flags)
    }

    /// True when the time of an element has come at `now_ms`.
    #[must_use]
    pub fn is_due(&self, now_ms: u64) -> bool {
        let due_ms = self.descriptor.expire_at_ms;
        self.meta.has_due_elements() && due_ms != 0 && due_ms <= now_ms
    }

    /// Elements.
    #[must_use]
    pub fn count(&self) -> usize {
        self.descriptor.totals.elements as usize
    }

    /// What OBJECT ENCODING answers for a collection.
    #[must_use]
    pub fn encoding(&self) -> Option<Encoding> {
        let is_string = self.value_type() == Some(ValueType::String);
        Encoding::of(self.descriptor.encoding).filter(|_| !is_string)
    }

    /// The pages that a command with these words behind its key probably works on: those of the elements that are so called, the
    /// ends of a list, the end of a stream and the names of its groups, and the top of an order.
    #[must_use]
    pub fn likely_pages<'w>(&self, words: impl Iterator<Item = &'w [u8]>) -> Vec<PageId> {
        if self.value_type() == Some(ValueType::List) {
            let Ok(list) = <List as Structure>::open(self) else { return Vec::new() };
            return list.end_ids().collect();
        }
        if self.value_type() == Some(ValueType::Stream) {
            let Ok(stream) = Streamed::open(self) else { return Vec::new() };
            return stream.likely_ids().collect();
        }
        let Some(by_name) = self.by_name() else { return Vec::new() };
        let named = words.take(LIKELY_PAGES_MAX).map(|word| by_name.page_of(word));
        match &by_name {
            ByName::Keyed(_) => named.collect(),
            ByName::Ranked(set) => named.chain(set.top_ids()).collect(),
        }
    }

    /// Where its elements are by their names; `None` of a type without names, and of a root that says what nothing has written.
    #[must_use]
    pub fn by_name(&self) -> Option<ByName> {
        match self.value_type()? {
            ValueType::Hash | ValueType::Set => Keyed::open(self).ok().map(ByName::Keyed),
            ValueType::SortedSet => Ranked::open(self).ok().map(ByName::Ranked),
            ValueType::List | ValueType::Stream | ValueType::String => None,
        }
    }

    /// Flags and expiry of the same collection in one record.
    #[must_use]
    pub fn whole_meta(&self) -> Meta {
        let flags = if self.value_type() == Some(ValueType::String) {
            Written::Edited.expiring_at(0).flags
        } else {
            self.meta.flags & !Meta::PAGED
        };
        Meta { flags, ..self.meta }
    }
}

/// A collection whose elements are looked up by their names.
pub enum ByName {
    /// A hash or a set.
    Keyed(Keyed),
    /// A sorted set.
    Ranked(Ranked),
}

impl ByName {
    /// The page that shows whether there is an element of this name, and what with it.
    #[must_use]
    pub fn page_of(&self, name: &[u8]) -> PageId {
        match self {
            Self::Keyed(keyed) => keyed.page_of(name),
            Self::Ranked(ranked) => ranked.page_of(name),
        }
    }
}

/// Why an operation on pages could not be done yet.
#[derive(Debug)]
pub enum Stop {
    /// These are not in memory: it runs again with them.
    Missing(Vec<PageId>),
    /// One of them is nowhere, or damaged.
    Failed(PageError),
}

impl Stop {
    /// The pages that these looks miss, one of which has missed one.
    fn of_looks<T>(looks: impl Iterator<Item = Result<T, PageError>>, missed: PageError) -> Self {
        if !matches!(missed, PageError::Missing(_)) {
            return missed.into();
        }
        needs_looks(looks).err().unwrap_or_else(|| missed.into())
    }

    /// The pages that `all` tells, of which one was missed.
    fn of_missing(missed: PageError, all: impl FnOnce() -> Result<Vec<PageId>, PageError>) -> Self {
        if !matches!(missed, PageError::Missing(_)) {
            return missed.into();
        }
        match all() {
            Ok(missing) => {
                let looks = missing.into_iter().map(|page| Err::<(), _>(PageError::Missing(page)));
                Self::of_looks(looks, missed)
            }
            Err(error) => error.into(),
        }
    }

    /// Where pages are missing, those of `also` that are not in memory either come along with them.
    fn along_with<P: Pages>(mut self, pages: &P, also: impl Iterator<Item = PageId>) -> Self {
        if let Self::Missing(missing) = &mut self {
            missing.extend(also.filter(|page| !pages.is_in_memory(*page)));
        }
        self
    }
}

/// None of these pages is missing.
///
/// # Errors
/// Those that are.
fn none_of(missing: Vec<PageId>) -> Result<(), Stop> {
    if missing.is_empty() { Ok(()) } else { Err(Stop::Missing(missing)) }
}

/// What these looks need is in memory: they are all made until one is not, and made again.
///
/// # Errors
/// The pages that they have missed, all at once.
fn needs_looks<T>(looks: impl Iterator<Item = Result<T, PageError>>) -> Result<(), Stop> {
    let mut missing = BTreeSet::new();
    for look in looks {
        match look {
            Ok(_) => {}
            Err(PageError::Missing(page)) => {
                missing.insert(page);
                if page.part == PartKind::Nodes {
                    // Whoever reads a node mostly reads its counts.
                    missing.insert(PageId { part: PartKind::Counts, ..page });
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    none_of(missing.into_iter().collect())
}

impl From<PageError> for Stop {
    fn from(error: PageError) -> Self {
        match error {
            // Whoever reads a node mostly reads its counts.
            PageError::Missing(page) if page.part == PartKind::Nodes => {
                Self::Missing(vec![page, PageId { part: PartKind::Counts, ..page }])
            }
            PageError::Missing(page) => Self::Missing(vec![page]),
            other => Self::Failed(other),
        }
    }
}

/// Why a request could not go on.
#[derive(Debug)]
pub enum Failed {
    /// These must be brought into memory first, without the latch.
    Away(Vec<Want>),
    /// What it needs cannot be read.
    Storage(EngineError),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Away(wants) => write!(f, "{} pages of a collection are away", wants.len()),
            Self::Storage(error) => write!(f, "{error}"),
        }
    }
}

impl From<PageError> for Failed {
    fn from(error: PageError) -> Self {
        Self::Storage(damaged(error))
    }
}

fn damaged(error: PageError) -> EngineError {
    EngineError::Storage(format!("a collection: {error}"))
}

fn without(part: PartKind) -> PageError {
    let damage = Damage { at: 0, expected: "a descriptor that fits its parts" };
    PageError::Damaged { page: PageId { part, number: 0 }, damage }
}

/// What lies in pages, as its root describes it.
pub trait Structure: Sized {
    /// What a root describes.
    ///
    /// # Errors
    /// The root contradicts itself.
    fn open(paged: &Paged) -> Result<Self, PageError>;

    /// Says in a descriptor what it has become.
    fn describe(&self, descriptor: &mut Descriptor);

    /// Flags and expiry of the root of what it has become, which had these.
    fn meta(&self, meta: Meta) -> Meta {
        meta
    }

    /// Elements.
    fn len(&self) -> u64;

    /// True without elements: the key is to be deleted.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Paged {
    /// Says what the collection has become.
    pub fn becomes(&mut self, structure: &impl Structure) {
        structure.describe(&mut self.descriptor);
    }
}

/// Changes a collection, in one operation; answers how many elements are left of it. One that has become empty is not written: its key must
/// be deleted. `None`, and nothing is written, where the operation says so.
///
/// # Errors
/// [`Failed`]; nothing was changed.
pub fn change<S: Structure, T>(
    tx: &mut Tx<'_>,
    key: Key<'_>,
    paged: &Paged,
    reads_here: bool,
    mut operation: impl FnMut(&mut TxPages<'_, '_, '_>, &mut S) -> Result<Option<T>, Stop>,
) -> Result<Option<(T, u64)>, Failed> {
    over(tx, key, paged.descriptor.collection, reads_here, |mut pages| {
        let mut structure = S::open(paged)?;
        let Some(done) = operation(&mut pages, &mut structure)? else { return Ok(None) };
        if !structure.is_empty() {
            let mut descriptor = paged.descriptor.clone();
            structure.describe(&mut descriptor);
            // The store keeps pages: it has those of this collection.
            let put = pages.put(structure.meta(paged.meta), &descriptor);
            put.map_err(|_| PageError::TooLong { bytes: descriptor.encoded_len() })?;
        }
        Ok(Some((done, structure.len())))
    })
}

/// Runs an operation on the pages of a collection until none is missing. `reads_here`: pages on a device are read under the latch, by
/// those who cannot begin again.
///
/// # Errors
/// [`Failed`]; nothing was changed.
pub fn over<T>(
    tx: &mut Tx<'_>,
    key: Key<'_>,
    cid: u64,
    reads_here: bool,
    mut operation: impl FnMut(TxPages<'_, '_, '_>) -> Result<T, Stop>,
) -> Result<T, Failed> {
    loop {
        let missing = match operation(tx.pages(key, cid)) {
            Ok(done) => return Ok(done),
            Err(Stop::Missing(missing)) => missing,
            Err(Stop::Failed(error)) => return Err(error.into()),
        };
        let mut away = Vec::new();
        for page in missing {
            if tx.pages(key, cid).bring(page)? {
                continue;
            }
            if !reads_here {
                away.push(page);
            } else if !tx.bring_in_page(key, cid, page.into()).map_err(Failed::Storage)? {
                return Err(PageError::Absent(page).into());
            }
        }
        if !away.is_empty() {
            let root = OwnedKey { slot: key.slot, bytes: key.bytes.to_vec(), hash: key.hash };
            let wants = away.into_iter().map(|page| Want::page_of(&root, cid, page.into()));
            return Err(Failed::Away(wants.collect()));
        }
    }
}

/// Takes elements out of a list or a sorted set, as [`take`](super::pop::take) does of one that lies whole in its root; but here they
/// are gone: one operation, unless nothing is wanted or nothing is left, whose key must be deleted.
///
/// # Errors
/// [`Failed`]; nothing was changed.
pub fn take(
    tx: &mut Tx<'_>,
    key: Key<'_>,
    paged: &Paged,
    pop: Pop,
    reads_here: bool,
) -> Result<Popped, Failed> {
    if pop.scored {
        ranked::take(tx, key, paged, pop, reads_here)
    } else {
        list::take(tx, key, paged, pop, reads_here)
    }
}

/// The value that a collection would have in one record.
///
/// # Errors
/// [`Stop`].
pub fn whole<P: Pages>(paged: &Paged, pages: &P) -> Result<Vec<u8>, Stop> {
    match paged.value_type() {
        Some(ValueType::Hash) => {
            let keyed = Keyed::open(paged)?;
            let mut edit = HashEdit::expiring(keyed.hash.earliest_ms());
            keyed.each_field(pages, 0..keyed.hash.pages, |field| edit.push_field(field))?;
            Ok(edit.into_bytes())
        }
        Some(ValueType::Set) => {
            let keyed = Keyed::open(paged)?;
            let mut edit = SetEdit::of_any_size();
            keyed.each_field(pages, 0..keyed.hash.pages, |field| edit.push(field.name))?;
            Ok(edit.bytes().to_vec())
        }
        Some(ValueType::SortedSet) => {
            let set = Ranked::open(paged)?;
            let mut edit = SortedSetEdit::of_any_size();
            for member in set.range(pages, 0..set.len())? {
                let (score, member) = member?;
                edit.push_behind(score, member);
            }
            Ok(edit.into_bytes())
        }
        Some(ValueType::Stream) => Ok(Streamed::open(paged)?.whole(pages)?.bytes().to_vec()),
        Some(ValueType::String) => long_string::whole(&Structure::open(paged)?, pages),
        _ => {
            let list = <List as Structure>::open(paged)?;
            let mut edit = ListEdit::default();
            each_of_list(&list, pages, 0..list.len(), |element| edit.push_right(element))?;
            Ok(edit.bytes().to_vec())
        }
    }
}
