//! Walks over a range of keys.

use super::DB;
use crate::store::{EngineError, Iter, IterOptions};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// The keys of a range with their values, in order. See [`Db::range`](super::Db::range).
///
/// While it lives, memtables and tables that have been replaced since it began stay.
#[derive(Debug)]
pub struct Range<'db> {
    state: State,
    _db: PhantomData<&'db ()>,
}

/// How far a walk has come.
#[derive(Debug)]
enum State {
    /// Not begun.
    New(Iter),
    /// On the pair that was given last.
    Within(Iter),
    /// It cannot begin.
    Failed(EngineError),
    Ended,
}

/// The least key above `key`.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Range<'_> {
    pub(super) fn new<K: AsRef<[u8]>>(
        range: &impl RangeBounds<K>,
        open: impl FnOnce(&IterOptions) -> Result<Iter, EngineError>,
    ) -> Self {
        let lower = match range.start_bound() {
            Bound::Included(key) => key.as_ref().to_vec(),
            Bound::Excluded(key) => behind(key.as_ref()),
            Bound::Unbounded => Vec::new(),
        };
        let upper = match range.end_bound() {
            Bound::Included(key) => Some(behind(key.as_ref())),
            Bound::Excluded(key) => Some(key.as_ref().to_vec()),
            Bound::Unbounded => None,
        };
        // The options take an empty upper bound for none: below the empty key there is nothing.
        let state = if upper.as_ref().is_some_and(|upper| *upper <= lower) {
            State::Ended
        } else {
            let upper = upper.unwrap_or_default();
            let options = IterOptions { db: DB, lower, upper, ..IterOptions::default() };
            open(&options).map_or_else(State::Failed, State::New)
        };
        Self { state, _db: PhantomData }
    }
}

impl Iterator for Range<'_> {
    /// A key and its value. After an error there are no more.
    type Item = Result<(Vec<u8>, Vec<u8>), EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (iter, moved) = match std::mem::replace(&mut self.state, State::Ended) {
            State::New(mut iter) => {
                let moved = iter.seek_to_first();
                (iter, moved)
            }
            State::Within(mut iter) => {
                let moved = iter.next();
                (iter, moved)
            }
            State::Failed(error) => return Some(Err(error)),
            State::Ended => return None,
        };
        if let Err(error) = moved {
            return Some(Err(error));
        }
        let pair = iter.valid().then(|| (iter.key().to_vec(), iter.value().to_vec()))?;
        self.state = State::Within(iter);
        Some(Ok(pair))
    }
}

impl std::iter::FusedIterator for Range<'_> {}
