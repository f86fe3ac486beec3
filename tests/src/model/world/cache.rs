//! The DRAM table as a cache of newest states, and loads of what it misses (N10).

use super::{GraveRun, Key, OPEN, Rule, Seq, Skip, SuperVersion, Version, Violation, World};

/// The newest state of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cached {
    namespace: Seq,
    key: Key,
    version: Version,
}

/// A cold read under way.
#[derive(Clone, Debug)]
pub(super) struct Load {
    namespace: Seq,
    key: Key,
    /// The key was not written since the load began.
    ticket: bool,
    /// The grave runs, taken before the superversion: no pin keeps them.
    runs: Option<Vec<GraveRun>>,
    superversion: Option<SuperVersion>,
    /// What was read: absent, or a version.
    found: Option<Option<Version>>,
}

impl World {
    /// A write leaves its outcome in the table and takes the tickets of loads that now read the past.
    pub(super) fn cache_write(&mut self, namespace: Seq, key: Key, version: Option<Version>) {
        self.cache.retain(|c| (c.namespace, c.key) != (namespace, key));
        self.cache.extend(version.map(|version| Cached { namespace, key, version }));
        let of_key = |load: &&mut Load| (load.namespace, load.key) == (namespace, key);
        self.loads.iter_mut().filter(of_key).for_each(|load| load.ticket = false);
    }

    /// A point read of the newest state: from the table, absent by an open grave, or a load begins.
    ///
    /// # Errors
    /// A wrong answer.
    pub fn point_read(&mut self, key: Key) -> Result<(), Violation> {
        let namespace = self.namespace_at(OPEN);
        let cached = self.cache.iter().find(|c| (c.namespace, c.key) == (namespace, key));
        if let Some(cached) = cached {
            return self.compare("a point read", key, OPEN, Some(cached.version));
        }
        if self.graves.iter().any(|g| g.of(namespace, key) && g.e == OPEN) {
            return self.compare("a point read under a grave", key, OPEN, None);
        }
        let load =
            Load { namespace, key, ticket: true, runs: None, superversion: None, found: None };
        self.loads.push(load);
        Ok(())
    }

    /// One step of a load: grave runs, superversion, look-up below the active memtable (whose keys are all in the
    /// table), fill. Without its ticket the load ends without an answer, and the waiting reader asks again.
    ///
    /// # Errors
    /// A wrong answer.
    pub fn advance_load(&mut self, pick: usize) -> Result<(), Violation> {
        if self.loads.is_empty() {
            return Ok(());
        }
        let at = pick % self.loads.len();
        let mut load = self.loads.swap_remove(at);
        match (&load.superversion, load.found) {
            (None, _) if load.runs.is_none() && self.rules.on(Rule::SpillListFirst) => {
                load.runs = Some(self.grave_runs.clone());
            }
            (None, _) => {
                let mut superversion = self.superversion();
                superversion.memtables.remove(0);
                load.superversion = Some(superversion);
            }
            (Some(superversion), None) => {
                let (namespace, key) = (load.namespace, load.key);
                let version = superversion.newest(namespace, key, OPEN, Skip::Nothing);
                // A grave in memory would have answered before the load began.
                let runs = load.runs.as_ref().unwrap_or(&self.grave_runs);
                let d = self.spilled_at(runs, namespace, key, OPEN);
                load.found = Some(Self::above_grave(version, d));
            }
            (Some(_), Some(version)) => {
                let valid = load.ticket || !self.rules.on(Rule::N10Ticket);
                if !valid || load.namespace != self.namespace_at(OPEN) {
                    return Ok(());
                }
                self.cache_write(load.namespace, load.key, version);
                return self.compare("a loaded read", load.key, OPEN, version);
            }
        }
        self.loads.push(load);
        Ok(())
    }

    /// A point read from start to end.
    ///
    /// # Errors
    /// A wrong answer.
    pub fn load(&mut self, key: Key) -> Result<(), Violation> {
        let before = self.loads.len();
        self.point_read(key)?;
        while self.loads.len() > before {
            self.advance_load(before)?;
        }
        Ok(())
    }

    /// An entry leaves the table, unless it changed in the active memtable, which has no index.
    pub fn evict(&mut self, pick: usize) {
        if self.cache.is_empty() {
            return;
        }
        let at = pick % self.cache.len();
        let seq = self.cache[at].version.put_seq;
        let in_active = self.active.borrow().iter().any(|v| v.put_seq == seq);
        if !in_active || !self.rules.on(Rule::N10PinnedInActive) {
            self.cache.swap_remove(at);
        }
    }
}
