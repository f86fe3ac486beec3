//! How a value is laid out in pages: in the transaction that writes it, or ahead of it.

use super::{Keyed, Paged, Ranked, Streamed, Structure};
use crate::keyspace::collection::{
    Encoding, Field, HashView, ListView, SetView, SortedSetView, StreamView,
};
use crate::value::{PAGED_STRING, RAW_STRING, ValueType};
use sexton_engine::page::long_string::{EDITED_PAGE_BYTES, WRITTEN_PAGE_BYTES};
use sexton_engine::page::{Descriptor, List, ListSizes, LongString, PageError, PageId, Pages};
use sexton_engine::{Engine, Found, HeldPage, Key, Meta, Tx};
use std::collections::HashMap;
use std::ops::Range;

/// A string that was edited stays in one record up to so many times the length of the longest collection in one: an edit copies that.
const EDITED_FACTOR: u64 = 8;

/// The same of one that was written whole: larger ones take a worker milliseconds to copy, and more memory than a piece of a reply.
const WRITTEN_FACTOR: u64 = 512;

/// No shorter string is in pages, whatever the longest collection is: each of them is `raw`.
const STRING_MIN_BYTES: u64 = 64;

/// The longest string that is written whole and lies in one record.
#[must_use]
pub fn written_max_bytes(inline_max_bytes: u64) -> u64 {
    inline_max_bytes.saturating_mul(WRITTEN_FACTOR).max(STRING_MIN_BYTES)
}

/// Writes a value: one operation. A collection of more than `inline_max_bytes`, and a string of several times that, is laid out in
/// pages, where the store keeps some.
pub fn put(tx: &mut Tx<'_>, key: Key<'_>, meta: Meta, value: &[u8], inline_max_bytes: u64) {
    if put_in_pages(tx, key, (meta, value), inline_max_bytes).is_none() {
        if meta.flags & RAW_STRING != 0 || ValueType::of(meta.flags) != Some(ValueType::String) {
            tx.put_edited(key, meta, value);
        } else {
            tx.put(key, meta, value);
        }
    }
}

/// As [`put`], of a string in memory that is edited: these bytes are in place of those in a range of it.
pub fn put_part(
    tx: &mut Tx<'_>,
    key: Key<'_>,
    meta: Meta,
    (range, new): (Range<usize>, &[u8]),
    inline_max_bytes: u64,
) {
    let Found::Live(entry) = tx.find(key) else { return };
    let old = entry.value();
    let len = old.len() - range.len() + new.len();
    if len as u64 <= edited_max_bytes(inline_max_bytes)
        && tx.put_part(key, meta, (range.clone(), new))
    {
        return;
    }
    let Found::Live(entry) = tx.find(key) else { return };
    let old = entry.value();
    let value = [&old[..range.start], new, &old[range.end..]].concat();
    put(tx, key, meta, &value, inline_max_bytes);
}

/// The longest string that is edited and lies in one record.
fn edited_max_bytes(inline_max_bytes: u64) -> u64 {
    inline_max_bytes.saturating_mul(EDITED_FACTOR).max(STRING_MIN_BYTES)
}

/// `None`, and nothing is written, where it must lie in one record.
fn put_in_pages(
    tx: &mut Tx<'_>,
    key: Key<'_>,
    (meta, value): (Meta, &[u8]),
    inline_max_bytes: u64,
) -> Option<()> {
    let encoding = encoding_in_pages(meta, value, inline_max_bytes)?;
    let collection = tx.engine().new_collection().ok()?;
    let mut pages = tx.pages(key, collection);
    let (meta, descriptor) =
        build(&mut pages, (meta, value), Descriptor::new(collection, encoding as u8))?;
    pages.put(meta, &descriptor).ok()
}

/// What OBJECT ENCODING says of a value in pages; `None` where it must lie in one record. What Redis has compact keeps its elements in
/// their order.
fn encoding_in_pages(meta: Meta, value: &[u8], inline_max_bytes: u64) -> Option<Encoding> {
    let value_type = ValueType::of(meta.flags)?;
    let max_bytes = match value_type {
        ValueType::String if meta.flags & RAW_STRING != 0 => edited_max_bytes(inline_max_bytes),
        ValueType::String => written_max_bytes(inline_max_bytes),
        _ => inline_max_bytes,
    };
    if value.len() as u64 <= max_bytes {
        return None;
    }
    let encoding = match value_type {
        // Its own is `raw`.
        ValueType::String => Encoding::Quicklist,
        ValueType::List => ListView::of(meta, value)?.encoding(),
        ValueType::Hash => HashView::of(meta, value)?.encoding(),
        ValueType::Set => SetView::of(meta, value)?.encoding(),
        ValueType::SortedSet => SortedSetView::of(meta, value)?.encoding(),
        // Without entries there is no page.
        ValueType::Stream => {
            StreamView::of(meta, value).filter(|stream| stream.count() > 0)?.encoding()
        }
    };
    (!matches!(encoding, Encoding::Listpack | Encoding::Intset)).then_some(encoding)
}

/// Lays a value out; returns flags and expiry of its root, and what that says.
fn build<P: Pages>(
    pages: &mut P,
    (meta, value): (Meta, &[u8]),
    mut descriptor: Descriptor,
) -> Option<(Meta, Descriptor)> {
    let mut flags = meta.flags;
    if ValueType::of(meta.flags) == Some(ValueType::String) {
        let is_edited = meta.flags & RAW_STRING != 0;
        let page_bytes = if is_edited { EDITED_PAGE_BYTES } else { WRITTEN_PAGE_BYTES };
        LongString::build(pages, value, page_bytes).describe(&mut descriptor);
        flags = PAGED_STRING;
    } else if let Some(list) = ListView::of(meta, value) {
        List::build(pages, ListSizes::default(), list.iter()).ok()?.describe(&mut descriptor);
    } else if let Some(hash) = HashView::of(meta, value) {
        Keyed::build(pages, true, hash.fields()).ok()?.describe(&mut descriptor);
    } else if let Some(set) = SetView::of(meta, value) {
        let members: Vec<_> = set.iter().collect();
        let members = members.iter();
        let members = members.map(|member| Field { name: member, value: &[], due_ms: 0 });
        Keyed::build(pages, false, members).ok()?.describe(&mut descriptor);
    } else if let Some(set) = SortedSetView::of(meta, value) {
        Ranked::build(pages, set.iter()).ok()?.describe(&mut descriptor);
    } else if let Some(stream) = StreamView::of(meta, value) {
        Streamed::build(pages, stream).ok()?.describe(&mut descriptor);
    }
    Some((Meta { flags: flags | Meta::PAGED, ..meta }, descriptor))
}

/// Pages that are nowhere yet.
#[derive(Default)]
struct NewPages(HashMap<PageId, NewPage, foldhash::fast::RandomState>);

enum NewPage {
    /// As it is to be written: most pages do not change once they are there.
    Whole(HeldPage),
    /// One that has changed.
    Edited(Vec<u8>),
}

impl NewPage {
    fn into_held(self) -> HeldPage {
        match self {
            Self::Whole(page) => page,
            Self::Edited(content) => HeldPage::new(&content),
        }
    }
}

impl Pages for NewPages {
    type Edit<'a> = &'a mut Vec<u8>;

    fn read(&self, page: PageId) -> Result<&[u8], PageError> {
        match self.0.get(&page).ok_or(PageError::Absent(page))? {
            NewPage::Whole(page) => Ok(page),
            NewPage::Edited(content) => Ok(content),
        }
    }

    fn edit(&mut self, page: PageId) -> Result<&mut Vec<u8>, PageError> {
        let found = self.0.get_mut(&page).ok_or(PageError::Absent(page))?;
        if let NewPage::Whole(content) = found {
            *found = NewPage::Edited(content.to_vec());
        }
        match found {
            NewPage::Edited(content) => Ok(content),
            NewPage::Whole(_) => Err(PageError::Absent(page)),
        }
    }

    fn add(&mut self, page: PageId, payload: &[u8]) {
        self.0.insert(page, NewPage::Whole(HeldPage::new(payload)));
    }

    fn remove(&mut self, page: PageId) {
        self.0.remove(&page);
    }
}

/// A value that is laid out in pages and was not written yet.
pub struct LaidOut {
    root: Paged,
    pages: LaidOutPages,
}

enum LaidOutPages {
    Few(Vec<(PageId, HeldPage)>),
    /// Ready to become those of a new collection.
    Many(Box<sexton_engine::NewPages>),
}

impl LaidOut {
    /// Lays a value out that is to be written to database `db`; `None` where [`put`] would write it in one record, but that the store
    /// may keep no pages.
    #[must_use]
    pub fn of(
        (engine, db): (&Engine, usize),
        (meta, value): (Meta, &[u8]),
        inline_max_bytes: u64,
    ) -> Option<Self> {
        let encoding = encoding_in_pages(meta, value, inline_max_bytes)?;
        let mut pages = NewPages::default();
        let named_later = Descriptor::new(0, encoding as u8);
        let (meta, descriptor) = build(&mut pages, (meta, value), named_later)?;
        let pages = pages.0.into_iter().map(|(page, content)| (page, content.into_held()));
        let pages = match engine.new_pages(db, pages.collect()) {
            Ok(pages) => LaidOutPages::Many(Box::new(pages)),
            Err(pages) => LaidOutPages::Few(pages),
        };
        Some(Self { root: Paged { meta, descriptor }, pages })
    }

    /// Writes it, as [`put`] would have. Does nothing where the store keeps no pages.
    pub fn put(self, tx: &mut Tx<'_>, key: Key<'_>) {
        let collection = match &self.pages {
            LaidOutPages::Few(_) => tx.engine().new_collection(),
            LaidOutPages::Many(pages) => Ok(pages.collection()),
        };
        let Ok(collection) = collection else { return };
        let root = Descriptor { collection, ..self.root.descriptor }.encoded();
        // It keeps pages: there is a collection.
        let _ = match self.pages {
            LaidOutPages::Few(pages) => {
                tx.put_pages((key, collection), (self.root.meta, &root), pages)
            }
            LaidOutPages::Many(pages) => tx.put_new_pages(key, (self.root.meta, &root), *pages),
        };
    }
}

impl std::fmt::Debug for LaidOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaidOut").field("root", &self.root.meta).finish_non_exhaustive()
    }
}
