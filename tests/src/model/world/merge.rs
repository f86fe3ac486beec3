//! Freezing, flushing, merging: rules C, D1 to D3, N1, N2, N6.

use super::{File, Grave, Job, Memtable, OPEN, Output, Rc, Rule, Seq, Source, Version, World};
use crate::model::keys::is_element;
use crate::model::store::BOTTOM;

impl World {
    /// Freezes the active memtable at the end of a batch: m is the last sequence.
    pub fn freeze(&mut self) {
        let m = self.last_seq();
        if m == self.frozen.last().map_or(self.disk.mark, |(last, _)| *last) {
            return;
        }
        let memtable = std::mem::take::<Memtable>(&mut self.active);
        self.frozen.push((m, memtable));
        self.end_epoch_at_freeze();
        self.change();
    }

    /// Starts the flush of the oldest frozen memtable; C1 with `now` = m, which must be published.
    pub fn start_flush(&mut self) {
        let Some((m, memtable)) = self.frozen.first().cloned() else { return };
        if self.flush.is_some() || self.visible < m {
            return;
        }
        let now = if self.rules.on(Rule::N2FlushAtMark) { m } else { self.visible };
        let snapshots = self.readers_and(now);
        let oldest_reader = self.readers_and(self.visible)[0];
        let source = Source::Frozen(m, memtable);
        self.flush = Some(Job { source, now, snapshots, oldest_reader, output: None });
    }

    /// Installs the running flush: table, undo run, checkpoint and mark in one manifest edit (N1).
    pub fn install_flush(&mut self) {
        self.consult_graves(true);
        self.end_spill();
        let Some(Job {
            source: Source::Frozen(m, _), now, snapshots, output: Some(output), ..
        }) = self.flush.take()
        else {
            return;
        };
        self.frozen.remove(0);
        self.add_outputs(0, output, now, &snapshots);
        self.disk.mark = m;
        self.disk.namespace = self.namespace_at(m);
        self.disk.dead = self.dead.iter().copied().filter(|(_, d)| *d <= m).collect();
        if self.rules.on(Rule::N1OneMark) {
            self.spill_graves(m);
            self.write_checkpoint(m);
        }
        let youngest = self.frozen.last().map_or(m, |(last, _)| *last);
        let from = if self.rules.on(Rule::D3LogKept) {
            m.min(self.disk.checkpoint_mark)
        } else {
            youngest
        };
        self.disk.log_from = self.disk.log_from.max(from);
        // N2: a flush that covers everything up to m makes it durable, with or without the log.
        self.durable = self.durable.max(m);
    }

    /// D2: the graves open as of `c`, although some may be closed by now.
    pub(super) fn write_checkpoint(&mut self, c: Seq) {
        let belongs = |g: &&Grave| {
            (g.d <= c || !self.rules.on(Rule::D2NothingAbove))
                && (g.e == OPEN || (g.e > c && self.rules.on(Rule::D2OpenAsOf)))
        };
        // Graves buried in the manifest's files are not needed after a crash (D4).
        let elements = self.rules.on(Rule::EGraveInCheckpoint);
        let named = |g: &&Grave| {
            !self.is_spilled(g) && g.buried_in == 0 && (elements || !is_element(g.key))
        };
        let open = self.graves.iter().filter(belongs).filter(named);
        self.disk.checkpoint = open.map(|g| Grave { e: OPEN, buried_in: 0, ..*g }).collect();
        self.disk.checkpoint_mark = c;
        let in_memory = self.options.deadline && self.rules.on(Rule::N17DeadRunsVolatile);
        let lasts = |d: Seq| !in_memory && (d <= c || !self.rules.on(Rule::N5RunThroughMark));
        self.disk.dead_runs = self.dead_runs.iter().copied().filter(|run| lasts(run.d)).collect();
    }

    /// First half of a merge's start (C1): `now` is the mark, so that every grave it uses is durable
    /// (D1) and the state of the mark stays exact (N1).
    pub fn collect_for_merge(&mut self) {
        if self.merge.is_none() {
            let now = self.merge_now();
            self.collected = Some((now, self.readers_and(now)));
        }
    }

    fn merge_now(&self) -> Seq {
        let at_mark = self.rules.on(Rule::N1MergeAtMark) && self.rules.on(Rule::D1DurableGraves);
        if at_mark { self.disk.mark } else { self.visible }
    }

    /// Second half: S is collected and inputs are picked: one file at its own level (burial, C5), or
    /// two levels.
    pub fn start_merge(&mut self, pick: usize) {
        let Some((mut now, before)) = self.collected.take() else { return };
        let tree: Vec<&Rc<File>> = self.files.iter().filter(|f| f.undo_through.is_none()).collect();
        if tree.is_empty() {
            return;
        }
        let (single, rest) = (pick.is_multiple_of(2), pick / 2);
        let (inputs, level): (Vec<_>, _) = if single {
            let file = tree[rest % tree.len()];
            (vec![Rc::clone(file)], file.level)
        } else {
            let level = rest % (BOTTOM + 1);
            let of_levels = tree.iter().filter(|f| f.level == level || f.level == level + 1);
            (of_levels.map(|file| Rc::clone(file)).collect(), (level + 1).min(BOTTOM))
        };
        if inputs.is_empty() {
            return;
        }
        let mut snapshots = self.readers_and(now);
        if !self.rules.on(Rule::C1NowFirst) {
            now = self.merge_now();
            snapshots = before;
            snapshots.push(now);
            snapshots.sort_unstable();
        }
        let source = Source::Files(inputs, level);
        let oldest_reader = self.readers_and(self.visible)[0];
        self.merge = Some(Job { source, now, snapshots, oldest_reader, output: None });
    }

    /// The running merge or flush reads its inputs and the cemetery.
    pub fn consult_graves(&mut self, flush: bool) {
        let running = if flush { &self.flush } else { &self.merge };
        let Some(job) = running.as_ref().filter(|job| job.output.is_none()) else { return };
        let versions: Vec<Version> = match &job.source {
            Source::Frozen(_, memtable) => self.with_descriptors(memtable.borrow().clone()),
            Source::Files(files, _) => files.iter().flat_map(|f| f.versions.clone()).collect(),
        };
        let mut output = self.separate(&versions, job);
        if let Source::Files(_, BOTTOM) = job.source
            && !self.rules.on(Rule::C4NoZeroing)
        {
            let first = job.snapshots[0];
            output.kept.iter_mut().filter(|v| v.seq <= first).for_each(|v| v.seq = 0);
        }
        let running = if flush { &mut self.flush } else { &mut self.merge };
        if let Some(job) = running {
            job.output = Some(output);
        }
    }

    /// Rule C2 with its two outputs (N6), and N7 for records of dead ids.
    fn separate(&self, versions: &[Version], job: &Job) -> Output {
        let (now, snapshots) = (job.now, &job.snapshots);
        let mut output = Output::default();
        for v in versions {
            let newest_at = |s: Seq| {
                let mine = versions.iter().filter(|o| (o.namespace, o.key) == (v.namespace, v.key));
                mine.map(|o| o.seq).filter(|&seq| seq <= s).max() == Some(v.seq)
            };
            let death = self.death_of(v, job);
            let needs = |s: Seq| {
                // Graves above `now` are ignored: no reader that was asked for can need that.
                let d = self.grave_for_merge(v, s.min(now));
                let died = death.is_some_and(|death| s >= death);
                newest_at(s) && d.is_none_or(|d| d < v.seq) && !died
            };
            if self.is_of_dropped_id(v, job) {
                continue;
            }
            if !self.rules.on(Rule::X3ExpiryIsDelete) && self.spec.is_expired(v.put_seq) {
                continue;
            }
            if v.seq > now || needs(now) {
                output.kept.push(*v);
                continue;
            }
            let older = snapshots.iter().copied().filter(|&s| needs(s)).max();
            match older.filter(|_| self.rules.on(Rule::C2Snapshots)) {
                Some(s) if self.options.undo_runs => {
                    output.undo.push(*v);
                    output.undo_through = output.undo_through.max(s);
                }
                Some(_) => output.kept.push(*v),
                None => {
                    let used = self.grave_for_merge(v, now);
                    output.grave_used = output.grave_used.max(used.unwrap_or(0));
                }
            }
        }
        output
    }

    /// N7: the id died before every reader, and the mark from which replay starts is past its death.
    fn is_of_dropped_id(&self, v: &Version, job: &Job) -> bool {
        self.dead.iter().any(|&(id, d)| {
            let safe = d <= job.now
                || !self.rules.on(Rule::N7DeadIdDurable)
                || (d <= self.durable && !self.rules.on(Rule::N7DeadIdMark));
            let unread = d <= job.oldest_reader || !self.rules.on(Rule::N7DeadIdReaders);
            id == v.namespace && safe && unread
        })
    }

    /// N7: the death of the version's id, which is a grave for all its keys: an output that claims `now`
    /// must not contain versions that died before.
    fn death_of(&self, v: &Version, job: &Job) -> Option<Seq> {
        let dead = self.dead.iter().find(|&&(id, d)| id == v.namespace && d <= job.now);
        dead.map(|&(_, d)| d).filter(|_| self.rules.on(Rule::N7DeathIsGrave))
    }

    /// Installs the running merge.
    pub fn install_merge(&mut self) {
        self.consult_graves(false);
        let Some(job) = self.merge.take() else { return };
        let used = job.output.as_ref().map_or(0, |output| output.grave_used);
        if !self.rules.on(Rule::N1MergeAtMark) && used > self.durable {
            self.merge = Some(job);
            return;
        }
        let Job { source: Source::Files(inputs, level), now, mut snapshots, output, .. } = job
        else {
            return;
        };
        let Some(output) = output else { return };
        if !self.rules.on(Rule::C3ClaimAtStart) {
            snapshots = self.readers_and(self.merge_now());
        }
        self.files.retain(|file| !inputs.iter().any(|input| Rc::ptr_eq(input, file)));
        self.add_outputs(level, output, now, &snapshots);
    }

    /// Merges the undo runs into one with the versions that readers still need (N6). Its inputs and its output serve only
    /// past reads, so it may be one step: no reader that could see another state arrives meanwhile.
    pub fn merge_undo_runs(&mut self) {
        let is_undo = |file: &&Rc<File>| file.undo_through.is_some();
        let runs: Vec<Rc<File>> = self.files.iter().filter(is_undo).cloned().collect();
        let Some(last) = runs.iter().filter_map(|run| run.undo_through).max() else { return };
        if runs.len() < 2 {
            return;
        }
        let readers = self.readers_and(self.visible);
        let versions: Vec<Version> = runs.iter().flat_map(|run| run.versions.clone()).collect();
        let (mut kept, mut through) = (Vec::new(), 0);
        for v in &versions {
            let mine = || versions.iter().filter(|o| (o.namespace, o.key) == (v.namespace, v.key));
            let sees = |s: Seq| {
                let newest = mine().map(|o| o.seq).filter(|&seq| seq <= s).max();
                newest == Some(v.seq) && self.grave_at(v.namespace, v.key, s) < Some(v.seq)
            };
            // Readers above the last sequence of the runs read none of them.
            if let Some(s) = readers.iter().copied().filter(|&s| s <= last && sees(s)).max() {
                kept.push(*v);
                through = through.max(s);
            }
        }
        self.files.retain(|file| file.undo_through.is_none());
        if !kept.is_empty() {
            let claim = if self.rules.on(Rule::N6UndoClaim) { readers[0] } else { self.visible };
            self.files.push(Rc::new(File::undo_run(kept, claim, through)));
        }
        self.disk.files = self.files.clone();
        self.change();
    }

    /// Adds the outputs of C2 to the tree and to the manifest, in one edit. With undo runs the tree
    /// contains nothing that is dead at `now`, and records that (N6).
    fn add_outputs(&mut self, level: usize, output: Output, now: Seq, snapshots: &[Seq]) {
        let oldest = snapshots[0];
        let claims_now = self.options.undo_runs && self.rules.on(Rule::C3ClaimAtStart);
        let claim =
            if claims_now || !self.rules.on(Rule::C3ClaimMinSnapshot) { now } else { oldest };
        if !output.kept.is_empty() {
            self.files.push(Rc::new(File::new(level, output.kept, claim)));
        }
        if !output.undo.is_empty() {
            let claim = if self.rules.on(Rule::N6UndoClaim) { oldest } else { now };
            let run = Rc::new(File::undo_run(output.undo, claim, output.undo_through));
            if self.rules.on(Rule::N6OneEdit) {
                self.files.push(run);
            } else {
                self.late_undo.push(run);
            }
        }
        self.disk.files = self.files.clone();
        self.change();
    }
}
