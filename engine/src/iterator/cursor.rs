//! What a walk merges.

use crate::error::TableResult;
use crate::key::{Meta, Seq};
use crate::memtable::{ListSource, RunSource};
use crate::tree::{BackSource, LevelIter, Source};

/// A sorted memtable, one with a skip list, a table of level 0, or a deeper level.
#[allow(
    clippy::large_enum_variant,
    reason = "a merge has a handful, and asks each without a detour"
)]
pub(crate) enum Cursor {
    Run(RunSource),
    List(ListSource),
    Level(LevelIter),
}

macro_rules! either {
    ($cursor:expr, $inner:ident => $answer:expr) => {
        match $cursor {
            Cursor::Run($inner) => $answer,
            Cursor::List($inner) => $answer,
            Cursor::Level($inner) => $answer,
        }
    };
}

impl Source for Cursor {
    #[inline]
    fn valid(&self) -> bool {
        either!(self, inner => inner.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        either!(self, inner => inner.key())
    }

    #[inline]
    fn seq(&self) -> Seq {
        either!(self, inner => inner.seq())
    }

    #[inline]
    fn meta(&self) -> Meta {
        either!(self, inner => inner.meta())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        either!(self, inner => inner.value())
    }

    #[inline]
    fn next(&mut self) -> TableResult<()> {
        either!(self, inner => inner.next())
    }

    #[inline]
    fn next_key(&mut self) -> TableResult<()> {
        either!(self, inner => inner.next_key())
    }

    #[inline]
    fn is_marked_dead(&self, s: Seq) -> bool {
        either!(self, inner => inner.is_marked_dead(s))
    }

    fn mark_dead(&self, s: Seq) {
        either!(self, inner => inner.mark_dead(s));
    }

    fn seek(&mut self, key: &[u8]) -> TableResult<()> {
        either!(self, inner => inner.seek(key))
    }

    fn seek_over(&mut self, key: &[u8], to: &[u8], d: Seq) -> TableResult<()> {
        either!(self, inner => inner.seek_over(key, to, d))
    }

    fn pass_dead(&mut self, to: &[u8], d: Seq) -> TableResult<()> {
        either!(self, inner => inner.pass_dead(to, d))
    }
}

impl BackSource for Cursor {
    #[inline]
    fn prev(&mut self) -> TableResult<()> {
        either!(self, inner => inner.prev())
    }

    fn seek_back(&mut self, key: Option<&[u8]>) -> TableResult<()> {
        either!(self, inner => inner.seek_back(key))
    }

    fn pass_dead_back(&mut self, from: &[u8], d: Seq) -> TableResult<()> {
        either!(self, inner => inner.pass_dead_back(from, d))
    }
}
