//! Look-ups of keys that come in order, in tables that are walked beside them.

use super::iter::{ReadMode, TableIter};
use super::reader::{Scratch, Table};
use crate::error::TableResult;
use crate::key::Seq;
use crate::source::Source;
use std::sync::Arc;

/// Keys that a walk passes before the filter is asked whether going on is worth it. Passing one costs less than a filter
/// that is not in the CPU caches.
const PASSED_MAX: usize = 8;

/// What a walk reads ahead at most, in bytes.
const READ_AHEAD_BYTES_MAX: usize = 64 << 10;

/// Where the last look-ups in some tables have ended. Keys that ascend from one look-up to the next are found by walking on;
/// one that lies before is looked up by itself.
#[derive(Debug, Default)]
pub struct OrderedGets {
    walks: Vec<Walk>,
    scratch: Scratch,
}

/// The walk through one table.
#[derive(Debug)]
struct Walk {
    iter: TableIter,
    /// The walk stands on the first entry at or above this key; `None` before the first look-up.
    from: Option<Vec<u8>>,
}

impl OrderedGets {
    /// The largest sequence at or below `bound` of a version of `key` in `tables`; `hash` is the key's
    /// [`super::key_hash`]. Walks through other tables are given up.
    ///
    /// # Errors
    /// A failed read or a damaged block.
    pub(crate) fn newest_seq<'t>(
        &mut self,
        tables: impl Iterator<Item = &'t Arc<Table>>,
        (key, hash): (&[u8], impl Fn() -> u64),
        bound: Seq,
    ) -> TableResult<Option<Seq>> {
        let (mut newest, mut count) = (None, 0);
        for table in tables {
            let walk = walk_of(&mut self.walks, count, table);
            count += 1;
            let p = table.properties();
            if p.min_seq <= bound && Some(p.max_seq) > newest {
                newest = newest.max(walk.newest_seq((key, &hash), bound, &mut self.scratch)?);
            }
        }
        self.walks.truncate(count);
        Ok(newest)
    }
}

/// The walk through `table`, which is the one at `at` from now on.
fn walk_of<'w>(walks: &'w mut Vec<Walk>, at: usize, table: &Arc<Table>) -> &'w mut Walk {
    let is_of = |walk: &Walk| Arc::ptr_eq(walk.iter.table(), table);
    if !walks.get(at).is_some_and(is_of) {
        match walks.iter().position(is_of) {
            // The tables before have walks of their own already.
            Some(other) => walks.swap(at, other),
            None => {
                let mut iter = table.iter(ReadMode::Cached);
                iter.set_read_ahead(READ_AHEAD_BYTES_MAX);
                walks.insert(at, Walk { iter, from: None });
            }
        }
    }
    &mut walks[at]
}

/// Where a walk has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It was there already.
    Stays,
    /// It stands on the first entry at or above the key.
    Reaches,
    /// It has stopped before the key, which the table has not.
    Stops,
}

impl Walk {
    fn newest_seq(
        &mut self,
        (key, hash): (&[u8], &impl Fn() -> u64),
        bound: Seq,
        scratch: &mut Scratch,
    ) -> TableResult<Option<Seq>> {
        // Taken: where it stands is not known any more when a read fails.
        let from = match self.from.take() {
            Some(mut from) if *key >= *from => {
                let step = self.walk_to(key, hash)?;
                if step != Step::Stays {
                    from.clear();
                    from.extend_from_slice(if step == Step::Stops { self.iter.key() } else { key });
                }
                if step == Step::Stops {
                    self.from = Some(from);
                    return Ok(None);
                }
                from
            }
            None if !self.iter.table().properties().covers(key) => return Ok(None),
            None => {
                self.iter.seek(key)?;
                key.to_vec()
            }
            behind => {
                self.from = behind;
                return get_seq(self.iter.table(), key, (bound, hash), scratch);
            }
        };
        self.from = Some(from);
        if !self.iter.valid() || self.iter.key() != key {
            return Ok(None);
        }
        if self.iter.seq() <= bound {
            return Ok(Some(self.iter.seq()));
        }
        get_seq(self.iter.table(), key, (bound, hash), scratch)
    }

    /// Walks on to the first entry at or above `key`, if that is near or the filter says that it is the key's.
    #[inline]
    fn walk_to(&mut self, key: &[u8], hash: &impl Fn() -> u64) -> TableResult<Step> {
        for passed in 0..=PASSED_MAX {
            if !self.iter.valid() || self.iter.key() >= key {
                return Ok(if passed == 0 { Step::Stays } else { Step::Reaches });
            }
            if passed < PASSED_MAX {
                self.iter.next_key()?;
            }
        }
        if !self.iter.table().may_contain(hash()) {
            return Ok(Step::Stops);
        }
        self.iter.seek(key)?;
        Ok(Step::Reaches)
    }
}

/// A look-up by itself.
fn get_seq(
    table: &Table,
    key: &[u8],
    (bound, hash): (Seq, &impl Fn() -> u64),
    scratch: &mut Scratch,
) -> TableResult<Option<Seq>> {
    if !table.properties().covers(key) || !table.may_contain(hash()) {
        return Ok(None);
    }
    Ok(table.get(key, bound, scratch)?.map(|found| found.seq))
}
