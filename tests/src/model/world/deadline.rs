//! The delete deadline (N17): what the store does at each tick of its clock, and what must be erased then.

use super::{File, Rule, Seq, Version, Violation, World};
use crate::model::keys::{COLLECTION, Key, page_of};

/// Ticks after which a deleted key must be in no file.
const LIMIT: usize = 8;

/// Ticks after which a delete is worked on.
const WAIT: usize = LIMIT / 4;

/// Ticks after which readers end.
const READERS: usize = LIMIT / 2;

impl World {
    /// A tick: rotates old data, buries, forgets, and rewrites what names keys. Then everything is searched
    /// for deletes older than the limit.
    ///
    /// # Errors
    /// A file that contains data deleted that long ago.
    pub fn tick(&mut self) -> Result<(), Violation> {
        self.ticks.push(self.last_seq());
        let overdue = self.seq_of_age(WAIT);
        self.end_old_readers();
        if self.rules.on(Rule::N17Rotate) && overdue > self.disk.mark {
            self.publish_all();
            self.freeze();
            while !self.frozen.is_empty() {
                self.start_flush();
                self.install_flush();
            }
        }
        self.install_merge();
        if self.rules.on(Rule::N17Bury) {
            self.bury_overdue(overdue);
        }
        self.forget();
        self.scrub();
        self.check_gone()
    }

    /// The last sequence `age` ticks ago.
    fn seq_of_age(&self, age: usize) -> Seq {
        let at = self.ticks.len().checked_sub(age + 1);
        at.map_or(0, |at| self.ticks[at])
    }

    fn end_old_readers(&mut self) {
        if self.rules.on(Rule::N17EndReaders) {
            let old = self.seq_of_age(READERS);
            self.snapshots.retain(|&s| s >= old);
            self.iterators.retain(|scan| scan.s >= old);
            self.gets.retain(|get| get.s.is_none_or(|s| s >= old));
        }
    }

    /// Rewrites, at its own level (C5), each table that contains dead versions of that age or delays the burial of graves of that age.
    fn bury_overdue(&mut self, overdue: Seq) {
        let holds_up = |world: &Self, file: &File, v: &Version| {
            // F2(b): whatever its own age, a version of the key keeps the grave.
            let stands = |d: Seq| file.min_seq() <= d && file.buried_through < d;
            world.grave_at(v.namespace, v.key, overdue).is_some_and(stands)
                || world.dead.iter().any(|&(id, d)| id == v.namespace && d <= overdue)
        };
        let tree = self.files.iter().filter(|file| file.undo_through.is_none());
        let mut left = tree.count();
        let mut at = 0;
        while at < left {
            let mut tree = self.files.iter().filter(|file| file.undo_through.is_none());
            let file = tree.nth(at);
            if file.is_some_and(|file| file.versions.iter().any(|v| holds_up(self, file, v))) {
                // Rewritten tables are appended to the list, and are not examined again.
                self.collected = None;
                self.collect_for_merge();
                self.start_merge(2 * at);
                self.install_merge();
                left -= 1;
            } else {
                at += 1;
            }
        }
    }

    /// Rewrites checkpoint and grave runs without the forgotten graves. The checkpoint remains that of the
    /// mark.
    fn scrub(&mut self) {
        let died_above = self.dead.iter().any(|&(_, d)| d > self.disk.mark);
        if !died_above && self.rules.on(Rule::N17Scrub) && self.rules.on(Rule::N1OneMark) {
            self.write_checkpoint(self.disk.mark);
        }
        self.merge_grave_runs();
    }

    /// No file names what was deleted longer than the limit ago.
    fn check_gone(&self) -> Result<(), Violation> {
        let through = self.seq_of_age(LIMIT);
        let late = |what: &str, key: Key, seq: Seq| {
            Err(format!("{what} holds key {key} at {seq}, deletes up to {through} are overdue"))
        };
        // A page is removed with its collection.
        let of = |key: Key| page_of(key).map_or(key, |_| COLLECTION);
        let deletes = |key: Key, from: Seq| self.spec.deleted_between(of(key), from, through);
        for file in &self.disk.files {
            for v in &file.versions {
                let lost = |d: Seq| {
                    // The grave was closed when a crash took it: the version waits for a merge.
                    self.spec.put_between(v.key, d, self.closed_lost)
                };
                if deletes(v.key, v.put_seq).is_some_and(|d| !lost(d)) {
                    return late("a table", v.key, v.put_seq);
                }
            }
        }
        let spilled = self.disk.grave_runs.iter().flat_map(|run| &run.graves);
        for g in self.disk.checkpoint.iter().chain(spilled) {
            // The name of a key that was put again is no secret.
            let is_page = page_of(g.key).is_some();
            if g.d <= through && !is_page && !self.spec.put_between(g.key, g.d, Seq::MAX) {
                return late("the cemetery", g.key, g.d);
            }
        }
        for run in &self.disk.dead_runs {
            if run.d <= through {
                return late("a dead run", run.from, run.d);
            }
        }
        match self.log.iter().find(|r| r.seq > self.disk.log_from && r.seq <= through) {
            Some(record) => Err(format!("the log holds {:?}, overdue", record.command)),
            None => Ok(()),
        }
    }
}
