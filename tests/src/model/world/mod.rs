//! The modelled store: its state, and what its parts share.

mod cache;
mod crash;
mod deadline;
mod forget;
mod merge;
mod paged;
mod readers;
mod spill;
mod writes;

use super::keys::{KEYS, Key};
use super::rules::{Rule, Rules};
use super::spec::{Effect, Seq, Spec};
use super::store::{
    DeadRun, Disk, File, Grave, GraveRun, Job, LogRecord, Memtable, OPEN, Output, RunSkip, Skip,
    Source, SuperVersion, Version, newest_spilled,
};
use std::rc::Rc;

pub use writes::Command;

/// A difference between the store and the specification, in words.
pub type Violation = String;

/// Differences between histories, besides their steps.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Versions needed only by older readers are moved to undo runs (N6).
    pub undo_runs: bool,
    /// Graves of one key are thinned out (F4).
    pub thin_graves: bool,
    /// The cemetery is small: flushes spill sealed graves to grave runs.
    pub spills: bool,
    /// Deleted data must be erased from every file within a time (N17).
    pub deadline: bool,
}

/// A scan: one sequence, one superversion (G2).
#[derive(Clone, Debug)]
struct Scan {
    s: Seq,
    superversion: SuperVersion,
    pinned: bool,
    /// It reads pages of collections, too.
    values: bool,
}

/// A sweep between its view of the store and its work.
#[derive(Clone, Debug)]
struct SweepView {
    superversion: SuperVersion,
    /// Last sequence when the view was taken.
    last_seq: Seq,
    oldest_superversion: u64,
}

/// A Get in the middle of its steps (G1).
#[derive(Clone, Debug)]
struct SlowGet {
    key: Key,
    s: Option<Seq>,
    pinned: bool,
    superversion: Option<SuperVersion>,
    grave: Option<Option<Seq>>,
}

/// The store.
pub struct World {
    rules: Rules,
    options: Options,
    spec: Spec,
    next_seq: Seq,
    next_batch: u64,
    visible: Seq,
    durable: Seq,
    log: Vec<LogRecord>,
    segment: u64,
    log_failed: bool,
    active: Memtable,
    /// Oldest first, each with its last sequence m.
    frozen: Vec<(Seq, Memtable)>,
    files: Vec<Rc<File>>,
    graves: Vec<Grave>,
    grave_runs: Vec<GraveRun>,
    /// A spill under way, between the manifest edit and the end.
    spill: Option<spill::Spill>,
    /// Proofs that scans left (N5); those at or below the mark survive a crash with it.
    dead_runs: Vec<DeadRun>,
    /// The last sequence at each tick of the deadline's clock.
    ticks: Vec<Seq>,
    /// Closed graves up to here were lost with the memory.
    closed_lost: Seq,
    /// From which sequence the database is under which namespace id.
    namespaces: Vec<(Seq, Seq)>,
    /// Dead namespace ids with the sequence of their death (N7).
    dead: Vec<(Seq, Seq)>,
    disk: Disk,
    /// Number of the superversion.
    number: u64,
    snapshots: Vec<Seq>,
    iterators: Vec<Scan>,
    gets: Vec<SlowGet>,
    sweep: Option<SweepView>,
    /// The DRAM table.
    cache: Vec<cache::Cached>,
    loads: Vec<cache::Load>,
    flush: Option<Job>,
    merge: Option<Job>,
    /// First half of a merge's start: `now`, or S where C1 is broken.
    collected: Option<(Seq, Vec<Seq>)>,
    /// Undo runs that missed their edit: N6 is broken.
    late_undo: Vec<Rc<File>>,
    pages: paged::Pages,
}

impl World {
    /// An empty store under `rules`.
    #[must_use]
    pub fn new(rules: Rules, options: Options) -> Self {
        Self {
            rules,
            options,
            spec: Spec::default(),
            next_seq: 1,
            next_batch: 1,
            visible: 0,
            durable: 0,
            log: Vec::new(),
            segment: 1,
            log_failed: false,
            active: Memtable::default(),
            frozen: Vec::new(),
            files: Vec::new(),
            graves: Vec::new(),
            grave_runs: Vec::new(),
            spill: None,
            dead_runs: Vec::new(),
            ticks: Vec::new(),
            closed_lost: 0,
            namespaces: vec![(0, 0)],
            dead: Vec::new(),
            disk: Disk::default(),
            number: 1,
            snapshots: Vec::new(),
            iterators: Vec::new(),
            gets: Vec::new(),
            sweep: None,
            cache: Vec::new(),
            loads: Vec::new(),
            flush: None,
            merge: None,
            collected: None,
            late_undo: Vec::new(),
            pages: paged::Pages::default(),
        }
    }

    fn last_seq(&self) -> Seq {
        self.next_seq - 1
    }

    fn namespace_at(&self, s: Seq) -> Seq {
        self.namespaces.iter().rev().find(|(from, _)| *from <= s).map_or(0, |&(_, id)| id)
    }

    fn superversion(&self) -> SuperVersion {
        let frozen = self.frozen.iter().map(|(_, memtable)| Rc::clone(memtable));
        let memtables = std::iter::once(Rc::clone(&self.active)).chain(frozen).collect();
        SuperVersion { number: self.number, memtables, files: self.files.clone() }
    }

    /// D(k, s).
    fn grave_at(&self, namespace: Seq, key: Key, s: Seq) -> Option<Seq> {
        let mine = self.graves.iter().filter(|g| g.covers(namespace, key));
        if self.rules.on(Rule::GraveSequence) {
            let held = mine.map(|g| g.d).filter(|&d| d <= s).max();
            held.max(self.spilled_at(&self.grave_runs, namespace, key, s))
        } else {
            mine.filter(|g| g.e == OPEN).map(|_| OPEN).max()
        }
    }

    /// The meaning of a version under a grave, before the clock is asked.
    fn above_grave(version: Option<Version>, d: Option<Seq>) -> Option<Version> {
        version.filter(|v| d.is_none_or(|d| v.seq > d))
    }

    /// The version of `key` that is alive at `s` in the current superversion.
    fn look_up(&self, key: Key, s: Seq) -> Option<Version> {
        let namespace = self.namespace_at(s);
        let version = self.superversion().newest(namespace, key, s, Skip::Nothing);
        Self::above_grave(version, self.grave_at(namespace, key, s))
    }

    fn compare(&self, what: &str, key: Key, s: Seq, got: Option<Version>) -> Result<(), Violation> {
        let got = got.filter(|v| !self.spec.is_expired(v.put_seq)).map(|v| (v.put_seq, v.value));
        let expected = self.spec.value_at(key, s);
        if got == expected {
            return Ok(());
        }
        let s = if s == OPEN { "the newest state".to_owned() } else { format!("sequence {s}") };
        Err(format!(
            "{what} of key {key} at {s} answers {got:?}, the specification {expected:?} \
             (sequence of the put, value)"
        ))
    }

    /// S: snapshots, iterators, pins of running Gets, `visible`, and `now`; ascending.
    fn readers_and(&self, now: Seq) -> Vec<Seq> {
        let mut all = self.snapshots.clone();
        all.extend(self.iterators.iter().filter(|scan| scan.pinned).map(|scan| scan.s));
        if self.rules.on(Rule::PinsCount) {
            all.extend(self.gets.iter().filter(|get| get.pinned).filter_map(|get| get.s));
        }
        all.extend([self.visible, now]);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// A new superversion.
    fn change(&mut self) {
        self.number += 1;
    }

    /// The oldest superversion that a pinned reader uses; the highest number without any.
    fn oldest_superversion(&self) -> u64 {
        let pinned = self.iterators.iter().filter(|scan| scan.pinned);
        let iterators = pinned.map(|scan| scan.superversion.number);
        let gets = self.gets.iter().filter_map(|get| Some(get.superversion.as_ref()?.number));
        iterators.chain(gets).min().unwrap_or(u64::MAX)
    }

    /// True while there is an undo run.
    #[must_use]
    pub fn has_undo_run(&self) -> bool {
        self.files.iter().any(|file| file.undo_through.is_some())
    }

    /// One line for traces.
    #[must_use]
    pub fn describe(&self) -> String {
        use std::fmt::Write;
        let list = |versions: &[Version]| {
            let all = versions.iter().map(|v| format!("{}@{}", v.key, v.seq));
            all.collect::<Vec<_>>().join(" ")
        };
        let mut text = format!(
            "visible {} durable {} last {} mark {} active [{}]",
            self.visible,
            self.durable,
            self.last_seq(),
            self.disk.mark,
            list(&self.active.borrow()),
        );
        for (m, memtable) in &self.frozen {
            let _ = write!(text, " frozen {m} [{}]", list(&memtable.borrow()));
        }
        for file in &self.files {
            let name = match file.undo_through {
                Some(through) => format!("undo<={through}"),
                None => format!("L{}", file.level),
            };
            let _ =
                write!(text, " {name} buried {} [{}]", file.buried_through, list(&file.versions));
        }
        for g in &self.graves {
            let e = if g.e == OPEN { String::new() } else { g.e.to_string() };
            let _ = write!(text, " grave {}({},{e})", g.key, g.d);
        }
        for run in &self.grave_runs {
            let graves = run.graves.iter().map(|g| format!("{}@{}", g.key, g.d));
            let graves = graves.collect::<Vec<_>>().join(" ");
            let _ = write!(text, " run {} retired {} [{graves}]", run.number, run.retired_in);
        }
        text
    }
}
