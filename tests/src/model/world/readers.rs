//! Readers: snapshots, iterators over old superversions, Gets in five steps.

use super::{
    DeadRun, KEYS, Key, Rule, RunSkip, Scan, Seq, Skip, SlowGet, SuperVersion, Violation, World,
};

impl World {
    /// Opens a named snapshot.
    pub fn open_snapshot(&mut self) {
        self.snapshots.push(self.visible);
    }

    /// Opens an iterator: one sequence, one superversion (G2).
    pub fn open_iterator(&mut self) {
        let superversion = self.superversion();
        let pinned = self.rules.on(Rule::G2PinWithView);
        self.iterators.push(Scan { s: self.visible, superversion, pinned, values: false });
    }

    /// The sequence of the oldest open snapshot or iterator.
    #[must_use]
    pub fn oldest_reader(&self) -> Option<Seq> {
        let iterators = self.iterators.iter().map(|scan| scan.s);
        self.snapshots.iter().copied().chain(iterators).min()
    }

    /// Closes a snapshot or an iterator.
    pub fn close_reader(&mut self, pick: usize) {
        let readers = self.snapshots.len() + self.iterators.len();
        if readers == 0 {
            return;
        }
        let at = pick % readers;
        if at < self.snapshots.len() {
            self.snapshots.swap_remove(at);
        } else {
            self.iterators.swap_remove(at - self.snapshots.len());
        }
    }

    /// Reads a key at `visible` or at an open snapshot.
    ///
    /// # Errors
    /// A wrong answer.
    pub fn read(&self, key: Key, pick: usize) -> Result<(), Violation> {
        let at = pick % (self.snapshots.len() + 1);
        let s = self.snapshots.get(at).copied().unwrap_or(self.visible);
        self.compare("a read", key, s, self.look_up(key, s))
    }

    /// An iterator reads one key from its superversion and the present cemetery, skips blocks that it
    /// may take for dead, and leaves marks on those it sees dead (N5).
    ///
    /// # Errors
    /// A wrong answer.
    pub fn iterate(&mut self, key: Key, pick: usize) -> Result<(), Violation> {
        if self.iterators.is_empty() {
            return Ok(());
        }
        let at = pick % self.iterators.len();
        if !std::mem::replace(&mut self.iterators[at].pinned, true) {
            return Ok(());
        }
        let Scan { s, ref superversion, .. } = self.iterators[at];
        let skip = if !self.rules.on(Rule::N5SkipByProof) {
            Skip::ByCount
        } else if !self.rules.on(Rule::N5ProofSequence) {
            Skip::ByAnyMark
        } else {
            Skip::ByProof
        };
        let namespace = self.namespace_at(s);
        let runs = RunSkip {
            runs: &self.dead_runs,
            by_sequence: self.rules.on(Rule::N5RunSequence),
            spares_younger: self.rules.on(Rule::N5RunSparesYounger),
        };
        let version = superversion.newest_beside(namespace, key, s, skip, runs);
        let got = Self::above_grave(version, self.grave_at(namespace, key, s));
        self.compare("an iterator's read", key, s, got)?;
        for file in superversion.files.iter().filter(|file| file.is_for(s)) {
            file.mark_dead_blocks(|v| self.grave_at(v.namespace, v.key, s).filter(|&d| d > v.seq));
        }
        let run = self.dead_run_at(key, namespace, s, superversion);
        self.dead_runs.extend(run);
        Ok(())
    }

    /// The longest stretch from `from` on in which the scan finds no key alive. Expired keys are alive
    /// here: the clock is no grave.
    fn dead_run_at(
        &self,
        from: Key,
        namespace: Seq,
        s: Seq,
        superversion: &SuperVersion,
    ) -> Option<DeadRun> {
        let is_dead = |key: Key| {
            let version = superversion.newest(namespace, key, s, Skip::ByProof);
            Self::above_grave(version, self.grave_at(namespace, key, s)).is_none()
        };
        let to = (from..KEYS).take_while(|&key| is_dead(key)).last()?;
        Some(DeadRun { namespace, from, to, d: s })
    }

    /// Starts a Get that takes its steps one by one.
    pub fn start_get(&mut self, key: Key) {
        let get = SlowGet { key, s: None, pinned: false, superversion: None, grave: None };
        self.gets.push(get);
    }

    /// One step of a running Get: sequence, pin (one step to others), superversion, D(k, s), versions.
    ///
    /// # Errors
    /// A wrong answer at the last step.
    pub fn step_get(&mut self, pick: usize) -> Result<(), Violation> {
        if self.gets.is_empty() {
            return Ok(());
        }
        let at = pick % self.gets.len();
        let mut get = self.gets.swap_remove(at);
        let sequence_turn = self.rules.on(Rule::G1SequenceFirst) || get.superversion.is_some();
        match (get.s, &get.superversion, get.grave) {
            (None, ..) if sequence_turn => {
                get.s = Some(self.visible);
                get.pinned = self.rules.on(Rule::G1Pending);
            }
            (Some(_), ..) if !get.pinned => get.pinned = true,
            (_, None, _) => get.superversion = Some(self.superversion()),
            (Some(s), _, None) => {
                get.grave = Some(self.grave_at(self.namespace_at(s), get.key, s));
            }
            (Some(s), Some(superversion), Some(d)) => {
                let namespace = self.namespace_at(s);
                let version = superversion.newest(namespace, get.key, s, Skip::Nothing);
                return self.compare("a get", get.key, s, Self::above_grave(version, d));
            }
            (None, ..) => {
                unreachable!("the sequence is taken at the latest after the superversion")
            }
        }
        self.gets.push(get);
        Ok(())
    }
}
