//! A walk over a run, as merges want it.

use super::run::Run;
use crate::error::TableResult;
use crate::key::{Meta, Seq};
use crate::source::{BackSource, Source};
use std::sync::Arc;

/// A cursor on a run.
pub(crate) struct RunSource {
    run: Arc<Run>,
    at: usize,
}

impl RunSource {
    /// A walk, not positioned yet.
    #[must_use]
    pub(crate) fn new(run: Arc<Run>) -> Self {
        let at = run.len();
        Self { run, at }
    }
}

impl Source for RunSource {
    fn valid(&self) -> bool {
        self.at < self.run.len()
    }

    fn key(&self) -> &[u8] {
        self.run.record(self.at).key
    }

    fn seq(&self) -> Seq {
        self.run.record(self.at).seq
    }

    fn meta(&self) -> Meta {
        self.run.record(self.at).meta
    }

    fn value(&self) -> &[u8] {
        self.run.record(self.at).value()
    }

    fn next(&mut self) -> TableResult<()> {
        self.at += 1;
        self.run.prefetch_behind(self.at);
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> TableResult<()> {
        self.at = self.run.lower_bound(key, Seq::MAX);
        Ok(())
    }

    fn next_key(&mut self) -> TableResult<()> {
        if self.valid() {
            self.at = self.run.next_key(self.at);
            self.run.prefetch_behind(self.at);
        }
        Ok(())
    }

    fn pass_dead(&mut self, to: &[u8], d: Seq) -> TableResult<()> {
        let end = self.run.lower_bound(to, Seq::MAX);
        if self.at < end {
            self.at = self.run.first_younger(self.at..end, d);
        }
        Ok(())
    }
}

impl BackSource for RunSource {
    fn prev(&mut self) -> TableResult<()> {
        self.at = self.at.checked_sub(1).unwrap_or(self.run.len());
        Ok(())
    }

    fn seek_back(&mut self, key: Option<&[u8]>) -> TableResult<()> {
        self.at = key.map_or(self.run.len(), |key| self.run.lower_bound(key, Seq::MAX));
        self.prev()
    }

    fn pass_dead_back(&mut self, from: &[u8], d: Seq) -> TableResult<()> {
        if self.run.max_seq() <= d { self.seek_back(Some(from)) } else { Ok(()) }
    }
}
