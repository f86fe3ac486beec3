//! Crash and recovery: which part of the log was written, and its replay by re-execution (N1).

use super::{Command, LogRecord, OPEN, Rc, Rule, Seq, Violation, World};
use crate::model::KEYS;
use std::collections::BTreeSet;

impl World {
    /// Loses memory and a random part of the log that was not synced; recovers and compares.
    ///
    /// # Errors
    /// Less than what was durable, a replay that does not fit, or a state that is no prefix.
    pub fn crash(&mut self, pick: u64) -> Result<(), Violation> {
        let acknowledged = self.durable;
        let above = self.last_seq().saturating_sub(acknowledged);
        let written = acknowledged + pick % (above + 1);
        let records = self.readable(written);
        let mut next = Self::new(self.rules, self.options);
        next.spec = std::mem::take(&mut self.spec);
        next.next_batch = self.next_batch;
        next.ticks = std::mem::take(&mut self.ticks);
        next.segment = self.segment + 1;
        next.recover_manifest(&self.disk);
        let r = next.replay(&records)?;
        if r < acknowledged {
            return Err(format!("recovered up to {r}, but {acknowledged} was durable"));
        }
        next.next_seq = r + 1;
        next.visible = r;
        next.durable = r;
        next.log = records.into_iter().filter(|record| record.seq <= r).collect();
        // D5: no snapshot survives a crash, so closed graves are removed at once, except those open as of the mark:
        // the next replay begins there, too, and the checkpoint may be rewritten until then (N17).
        let mark = next.disk.mark;
        let stays = |e: Seq| e == OPEN || (e > mark && next.rules.on(Rule::D5OpenAtMark));
        next.graves.retain(|g| stays(g.e));
        next.spec.truncate(r);
        // Sequences above r are given out again: what they name is younger than the clock says.
        next.ticks.iter_mut().for_each(|seq| *seq = r.min(*seq));
        next.closed_lost = r;
        *self = next;
        for key in 0..KEYS {
            self.compare("after a crash a read", key, OPEN, self.look_up(key, OPEN))?;
        }
        self.read_newest_collection()?;
        self.check_pages()
    }

    /// The records that a reader of the log gets: after a hole nothing of a segment is readable (N8), and
    /// groups are read as a whole.
    fn readable(&self, written: Seq) -> Vec<LogRecord> {
        let mut torn = BTreeSet::new();
        let mut broken = BTreeSet::new();
        for record in &self.log {
            if record.lost || record.seq > written {
                torn.insert(record.segment);
                broken.insert(record.batch);
            }
        }
        let mut behind = BTreeSet::new();
        let mut readable = Vec::new();
        for record in &self.log {
            let lost = record.lost
                || record.seq > written
                || (self.rules.on(Rule::BatchWhole) && broken.contains(&record.batch));
            if lost && torn.contains(&record.segment) {
                behind.insert(record.segment);
            }
            if !behind.contains(&record.segment) && record.seq > self.disk.log_from {
                readable.push(*record);
            }
        }
        readable
    }

    fn recover_manifest(&mut self, disk: &super::Disk) {
        self.disk = disk.clone();
        let tree = disk.files.iter().filter(|file| file.undo_through.is_none());
        self.files = tree.map(|file| Rc::new(file.reopened())).collect();
        self.disk.files = self.files.clone();
        self.graves = disk.checkpoint.clone();
        self.grave_runs = disk.grave_runs.clone();
        self.dead_runs = disk.dead_runs.clone();
        self.namespaces = vec![(0, disk.namespace)];
        self.dead = disk.dead.clone();
    }

    /// Replays from the mark; answers R. A hole between records ends it.
    fn replay(&mut self, records: &[LogRecord]) -> Result<Seq, Violation> {
        let mark = self.disk.mark;
        let from = mark.min(self.disk.checkpoint_mark);
        let mut r = from;
        for record in records.iter().filter(|record| record.seq > from) {
            if record.seq != r + 1 {
                break;
            }
            r = record.seq;
            if self.rules.on(Rule::N1OneMark) {
                self.replay_exactly(record)?;
            } else {
                self.replay_with_two_marks(record);
            }
        }
        Ok(r.max(mark))
    }

    /// Runs the command again; it must do what it did.
    fn replay_exactly(&mut self, record: &LogRecord) -> Result<(), Violation> {
        let expired = |key| self.look_up(key, OPEN).filter(|v| self.spec.is_expired(v.put_seq));
        let hidden = match record.command {
            Command::Delete(key) | Command::Copy(key, _) if self.clock_in_replay() => expired(key),
            _ => None,
        };
        if hidden.is_none() && self.apply(record.seq, record.command).is_some() {
            return Ok(());
        }
        Err(format!("replay of {:?} at {} finds nothing to do", record.command, record.seq))
    }

    fn clock_in_replay(&self) -> bool {
        !self.rules.on(Rule::N1ReplayWithoutClock)
    }

    /// Rule D5 as it was before N1: puts above the tree's mark, deletes above the checkpoint's.
    fn replay_with_two_marks(&mut self, record: &LogRecord) {
        let seq = record.seq;
        let (mark, checkpoint) = (self.disk.mark, self.disk.checkpoint_mark);
        match record.command {
            Command::Delete(_) if seq <= checkpoint => {}
            Command::Flush | Command::Add(_) | Command::Remove(_) if seq <= mark => {}
            Command::Put(key, _) | Command::Increment(key) | Command::Copy(_, key)
                if seq <= mark =>
            {
                let namespace = self.namespace_at(OPEN);
                let open = self.graves.iter_mut().filter(|g| g.of(namespace, key) && g.e == OPEN);
                open.filter(|g| g.d < seq).for_each(|g| g.e = seq);
            }
            command => {
                self.apply(seq, command);
            }
        }
    }
}
