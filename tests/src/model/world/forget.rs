//! Forgetting: graves (F1 to F4), undo runs (N6), dead ids (N7).

use super::{File, Grave, Key, OPEN, Rule, Seq, Source, SweepView, Version, World};
use std::rc::Rc;

impl World {
    /// First half of a sweep: takes a view of the store.
    pub fn look_for_sweep(&mut self) {
        self.sweep = Some(self.view());
    }

    pub(super) fn view(&self) -> SweepView {
        SweepView {
            superversion: self.superversion(),
            last_seq: self.last_seq(),
            oldest_superversion: self.oldest_superversion(),
        }
    }

    /// A sweep, on what its first half saw if there was one.
    pub fn forget(&mut self) {
        self.end_spill();
        if !self.late_undo.is_empty() {
            self.files.append(&mut self.late_undo);
            self.change();
        }
        let readers = self.readers_and(self.visible);
        let now = self.view();
        let mut view = self.sweep.take().unwrap_or_else(|| now.clone());
        if self.rules.on(Rule::F3ViewFirst) {
            view.oldest_superversion = now.oldest_superversion;
        } else {
            view = SweepView { oldest_superversion: view.oldest_superversion, ..now };
        }
        let mut graves = std::mem::take(&mut self.graves);
        graves.retain_mut(|g| {
            if g.e != OPEN {
                let waits = self.options.deadline && self.rules.on(Rule::N17ClosedStay);
                return !self.closed_may_go(g, &readers) || (waits && !self.is_buried(g, &view));
            }
            if g.buried_in == 0 && self.is_buried(g, &view) {
                g.buried_in = view.superversion.number;
            }
            let in_limbo = view.oldest_superversion < g.buried_in;
            g.buried_in == 0 || (self.rules.on(Rule::F3Limbo) && in_limbo)
        });
        self.graves = graves;
        if self.options.thin_graves {
            for key in 0..super::KEYS {
                self.thin_graves(key, &readers);
            }
        }
        self.forget_grave_runs(&view);
        self.forget_undo_runs(&readers);
        self.drop_dead_files(&readers);
        self.forget_dead_ids(&readers);
        if !self.rules.on(Rule::N1OneMark) {
            self.write_checkpoint(self.durable.min(self.visible));
        }
    }

    /// F1.
    fn closed_may_go(&self, g: &Grave, readers: &[Seq]) -> bool {
        let needs = |s: Seq| g.d <= s && s < g.e;
        (!readers.iter().any(|&s| needs(s)) || !self.rules.on(Rule::F1Snapshots))
            && (!self.frozen.iter().any(|&(m, _)| needs(m)) || !self.rules.on(Rule::F1PendingMarks))
            && (g.e <= self.visible || !self.rules.on(Rule::F1Visible))
            && (g.e <= self.durable || !self.rules.on(Rule::F1Durable))
    }

    /// F2. If a version below d was added after the view was taken, it is not in the view, but then neither is d.
    pub(super) fn is_buried(&self, g: &Grave, view: &SweepView) -> bool {
        if g.d > view.last_seq && self.rules.on(Rule::F2ViewAfterGrave) {
            return false;
        }
        let by_range = self.rules.on(Rule::PrefixGraveRange);
        let is_of = |v: &Version| {
            if by_range { g.covers(v.namespace, v.key) } else { g.of(v.namespace, v.key) }
        };
        let superversion = &view.superversion;
        let in_memory = superversion
            .memtables
            .iter()
            .any(|memtable| memtable.borrow().iter().any(|v| is_of(v) && v.seq < g.d));
        if in_memory && self.rules.on(Rule::F2Memtables) {
            return false;
        }
        let counts = |level: usize, undo: bool| {
            (level > 0 || undo || self.rules.on(Rule::F2EveryFile))
                && (!undo || self.rules.on(Rule::N6UndoIsFile))
        };
        let mut holders = superversion.files.iter().filter(|file| {
            counts(file.level, file.undo_through.is_some()) && file.versions.iter().any(is_of)
        });
        holders.all(|file| file.min_seq() > g.d || file.buried_through >= g.d)
    }

    /// F4: of the graves of a key those stay that some reader or mark needs, and the unpublished.
    fn thin_graves(&mut self, key: Key, readers: &[Seq]) {
        let namespace = self.namespace_at(OPEN);
        let all = self.graves.iter().filter(|g| g.of(namespace, key)).map(|g| g.d);
        let all: Vec<Seq> = all.collect();
        let newest_at = |s: Seq| all.iter().copied().filter(|&d| d <= s).max();
        let mut needed: Vec<Seq> = readers.iter().copied().filter_map(newest_at).collect();
        if self.rules.on(Rule::F4Marks) {
            let marks = self.frozen.iter().map(|(m, _)| *m).chain([self.disk.mark]);
            needed.extend(marks.filter_map(newest_at));
        }
        let young = |d: Seq| d > self.visible && self.rules.on(Rule::F4AboveVisible);
        let stays = |g: &Grave| !g.of(namespace, key) || needed.contains(&g.d) || young(g.d);
        let kept = self.graves.iter().copied().filter(stays).collect();
        self.graves = kept;
    }

    /// N5: a file of which a dead run proves every version dead leaves the tree unread.
    fn drop_dead_files(&mut self, readers: &[Seq]) {
        // A running merge has its inputs for itself.
        let in_merge = |file: &Rc<File>| {
            self.merge.as_ref().is_some_and(|job| match &job.source {
                Source::Files(files, _) => files.iter().any(|f| Rc::ptr_eq(f, file)),
                Source::Frozen(..) => false,
            })
        };
        let may_use = |d: Seq| {
            (d <= self.disk.mark || !self.rules.on(Rule::N5RunDropMark))
                && (d <= readers[0] || !self.rules.on(Rule::N5RunDropReaders))
        };
        let is_dead = |file: &Rc<File>| {
            file.undo_through.is_none()
                && self.dead_runs.iter().any(|run| {
                    may_use(run.d) && file.versions.iter().all(|v| run.holds(v) && v.seq <= run.d)
                })
        };
        let stays = |file: &Rc<File>| !is_dead(file) || in_merge(file);
        let kept: Vec<_> = self.files.iter().filter(|file| stays(file)).cloned().collect();
        if kept.len() != self.files.len() {
            self.files = kept;
            self.disk.files = self.files.clone();
            self.change();
        }
    }

    /// N6: an undo run is deleted once no reader at or below its last one is left.
    fn forget_undo_runs(&mut self, readers: &[Seq]) {
        let before = self.files.len();
        let stays = self.rules.on(Rule::N6UndoStays);
        self.files
            .retain(|file| file.undo_through.is_none_or(|through| stays && readers[0] <= through));
        if self.files.len() != before {
            self.disk.files = self.files.clone();
            self.change();
        }
    }

    /// N7: the graves of a dead id are removed with it, the id itself once nothing can contain its records.
    fn forget_dead_ids(&mut self, readers: &[Seq]) {
        let gone: Vec<Seq> = self
            .dead
            .iter()
            .filter(|(_, d)| *d <= self.durable && *d <= readers[0])
            .filter(|(_, d)| self.frozen.iter().all(|(m, _)| m >= d))
            .map(|(id, _)| *id)
            .collect();
        self.graves.retain(|g| !gone.contains(&g.namespace));
        let superversion = self.superversion();
        self.dead.retain(|&(id, d)| {
            let in_memory = superversion
                .memtables
                .iter()
                .any(|memtable| memtable.borrow().iter().any(|v| v.seq <= d));
            let mut holders =
                self.files.iter().filter(|f| f.versions.iter().any(|v| v.namespace == id));
            in_memory || holders.any(|file| file.buried_through < d)
        });
    }
}
