//! Collections in pages as others than their writers see them: those of a snapshot, and whole ones.

use super::{Failed, Paged, Stop, damaged, over, whole};
use sexton_engine::page::{PageError, PageId, Pages};
use sexton_engine::{EngineError, Key, Meta, Snapshot, Tx};
use std::collections::HashMap;

/// Pages that were read of a snapshot.
#[derive(Default)]
struct PastPages {
    read: HashMap<PageId, Vec<u8>>,
}

impl Pages for PastPages {
    type Edit<'a>
        = &'a mut Vec<u8>
    where
        Self: 'a;

    fn read(&self, page: PageId) -> Result<&[u8], PageError> {
        self.read.get(&page).map(Vec::as_slice).ok_or(PageError::Missing(page))
    }

    fn edit(&mut self, page: PageId) -> Result<&mut Vec<u8>, PageError> {
        self.read.get_mut(&page).ok_or(PageError::Missing(page))
    }

    fn add(&mut self, page: PageId, payload: &[u8]) {
        self.read.insert(page, payload.to_vec());
    }

    fn remove(&mut self, page: PageId) {
        self.read.remove(&page);
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
    let Some(paged) = Paged::of(meta, value)? else { return Ok(None) };
    let cid = paged.descriptor.collection;
    let mut pages = PastPages::default();
    loop {
        let missing = match whole(&paged, &pages) {
            Ok(value) => return Ok(Some((paged.whole_meta(), value))),
            Err(Stop::Missing(missing)) => missing,
            Err(Stop::Failed(error)) => return Err(damaged(error)),
        };
        for page in missing {
            let content = snapshot.page(db, cid, page.into())?;
            let content = content.ok_or_else(|| damaged(PageError::Absent(page)))?;
            pages.read.insert(page, content);
        }
    }
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
