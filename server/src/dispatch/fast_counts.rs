//! An executor's state for the short path: the plain commands, and the counters.

use super::{CommandSpec, Table};

/// Requests of the short way since the last [`Executor::settle`](super::Executor::settle).
#[derive(Default)]
pub(super) struct FastCounts {
    pub(super) gets: u64,
    pub(super) sets: u64,
    pub(super) hits: u64,
    /// Others, by command: calls, and how many of them failed.
    pub(super) others: Vec<(&'static CommandSpec, u64, u64)>,
    /// Those that have run in a transaction with others, which has not ended.
    pub(super) joined: Vec<&'static CommandSpec>,
}

impl FastCounts {
    pub(super) fn count(&mut self, spec: &'static CommandSpec, failed: bool) {
        let failed = u64::from(failed);
        match self.others.iter_mut().rev().find(|(known, ..)| std::ptr::eq(*known, spec)) {
            Some((_, calls, failures)) => {
                *calls += 1;
                *failures += failed;
            }
            None => self.others.push((spec, 1, failed)),
        }
    }

    /// The transaction has ended, and none of these requests has failed.
    pub(super) fn count_joined(&mut self) {
        while let Some(spec) = self.joined.pop() {
            self.count(spec, false);
        }
    }
}

/// The rows of the commands that have the short way.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainSpecs {
    pub(super) get: &'static CommandSpec,
    pub(super) set: &'static CommandSpec,
}

impl PlainSpecs {
    pub(super) fn of(table: &'static Table) -> Option<Self> {
        // The batch knows them by these names.
        let find = |name: &[u8]| table.find(name).filter(|spec| !spec.is_renamed());
        Some(Self { get: find(b"get")?, set: find(b"set")? })
    }
}
