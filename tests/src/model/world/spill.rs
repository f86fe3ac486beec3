//! Spilled graves: how they leave memory, how readers find them afterwards, and when they are deleted.

use super::{Grave, GraveRun, Key, OPEN, Rule, Seq, SweepView, World, newest_spilled};

/// A spill whose manifest edit is made; others act before it ends.
#[derive(Clone, Debug)]
pub(super) struct Spill {
    m: Seq,
    run: GraveRun,
}

impl World {
    /// D(k, s) among the graves of `runs`.
    pub(super) fn spilled_at(
        &self,
        runs: &[GraveRun],
        namespace: Seq,
        key: Key,
        s: Seq,
    ) -> Option<Seq> {
        let d = newest_spilled(runs, namespace, key, s);
        if self.rules.on(Rule::SpillCompares) { d } else { d.map(|_| OPEN) }
    }

    /// The flush that moves the mark to `m` also writes some generations as a run, in its edit. Graves in limbo (F3) are
    /// of no use to a run.
    pub(super) fn spill_graves(&mut self, m: Seq) {
        if !self.options.spills || !m.is_multiple_of(2) {
            return;
        }
        let sealed =
            |g: &&Grave| (g.d <= m || !self.rules.on(Rule::SpillThroughMark)) && g.buried_in == 0;
        let sealed = self.graves.iter().filter(sealed);
        let graves: Vec<Grave> = sealed.map(|g| Grave { e: OPEN, ..*g }).collect();
        if graves.is_empty() {
            return;
        }
        let run = GraveRun { number: self.next_run(), graves, retired_in: 0 };
        if self.rules.on(Rule::SpillOneEdit) {
            self.disk.grave_runs.push(run.clone());
        }
        if self.rules.on(Rule::SpillRunFirst) {
            self.grave_runs.push(run.clone());
        } else {
            self.graves.retain(|g| g.d > m || g.buried_in != 0);
        }
        self.spill = Some(Spill { m, run });
    }

    fn next_run(&self) -> u64 {
        let all = self.grave_runs.iter().chain(&self.disk.grave_runs);
        all.map(|run| run.number).max().unwrap_or(0) + 1
    }

    /// True for a grave that the running spill has in its run: the checkpoint leaves it out.
    pub(super) fn is_spilled(&self, g: &Grave) -> bool {
        let found = |spill: &Spill| {
            spill.run.graves.iter().any(|held| held.of(g.namespace, g.key) && held.d == g.d)
        };
        self.spill.as_ref().is_some_and(found)
    }

    /// The end of a spill: what is in the run leaves memory.
    pub(super) fn end_spill(&mut self) {
        let Some(Spill { m, run }) = self.spill.take() else { return };
        if !self.rules.on(Rule::SpillOneEdit) {
            self.disk.grave_runs.push(run.clone());
        }
        if self.rules.on(Rule::SpillRunFirst) {
            self.graves.retain(|g| g.d > m || g.buried_in != 0);
        } else {
            self.grave_runs.push(run);
        }
    }

    /// A run is deleted when F2 holds for all its graves: from the manifest at once, from memory when no
    /// reader has an older superversion (F3).
    pub(super) fn forget_grave_runs(&mut self, view: &SweepView) {
        let mut runs = std::mem::take(&mut self.grave_runs);
        for run in runs.iter_mut().filter(|run| run.retired_in == 0) {
            let buried = |g: &Grave| self.is_buried(g, view);
            let all = run.graves.iter().all(buried);
            let some = !self.rules.on(Rule::SpillAllBuried) && run.graves.iter().any(buried);
            if all || some {
                run.retired_in = view.superversion.number;
                self.disk.grave_runs.retain(|held| held.number != run.number);
            }
        }
        let limbo = self.rules.on(Rule::SpillLimbo);
        runs.retain(|run| {
            run.retired_in == 0 || (limbo && view.oldest_superversion < run.retired_in)
        });
        self.grave_runs = runs;
    }

    /// Merges the runs into one, without buried graves and without graves that no reader sees (F4).
    pub fn merge_grave_runs(&mut self) {
        self.end_spill();
        let view = self.view();
        let readers = self.readers_and(self.disk.mark);
        let in_use = |run: &&GraveRun| run.retired_in == 0;
        let all: Vec<Grave> =
            self.grave_runs.iter().filter(in_use).flat_map(|run| run.graves.clone()).collect();
        if all.is_empty() {
            return;
        }
        let of_key = |g: &Grave, s: Seq| {
            let same = all.iter().filter(|o| o.of(g.namespace, g.key));
            same.map(|o| o.d).filter(|&d| d <= s).max()
        };
        let is_needed = |g: &Grave| {
            of_key(g, OPEN) == Some(g.d)
                || (self.rules.on(Rule::F4RunReaders)
                    && readers.iter().any(|&s| of_key(g, s) == Some(g.d)))
        };
        let mut graves: Vec<Grave> = Vec::new();
        for g in &all {
            if is_needed(g) && !self.is_buried(g, &view) && !graves.contains(g) {
                graves.push(*g);
            }
        }
        let merged = GraveRun { number: self.next_run(), graves, retired_in: 0 };
        let limbo = self.rules.on(Rule::SpillLimbo);
        for run in &mut self.grave_runs {
            if run.retired_in == 0 {
                run.retired_in = view.superversion.number;
            }
        }
        self.grave_runs.retain(|run| limbo && view.oldest_superversion < run.retired_in);
        self.disk.grave_runs.clear();
        if !merged.graves.is_empty() {
            self.disk.grave_runs.push(merged.clone());
            self.grave_runs.push(merged);
        }
    }
}
