//! What a walk knows of the dead keys it passes: the current stretch without a live key, and the
//! dead runs that let it skip ahead without reading (N5).

use crate::cemetery::{DeadRun, DeadRuns, RUN_KEYS_MIN, RUN_MORE_KEYS_MIN, Span};
use crate::key::Seq;
use std::sync::Arc;

/// Inside a run that no source could skip, the run is looked up again after this many dead keys.
const ASK_EVERY: u64 = 16;

/// Dead keys between two live ones.
#[derive(Default)]
pub(super) struct Stretch {
    runs: Option<Arc<DeadRuns>>,
    /// Where it begins, in the direction of the walk: the key after which, or from which on, all was dead.
    edge: Vec<u8>,
    open: bool,
    /// Dead keys passed one by one.
    keys: u64,
    /// Some were passed over by a run.
    passed: bool,
    pub(super) span: Span,
}

impl Stretch {
    pub(super) fn with(runs: Arc<DeadRuns>) -> Self {
        Self { runs: Some(runs), ..Self::default() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// A stretch begins at `edge`, unless one has begun. A walk forward begins at the first key in question,
    /// a walk back at the first one behind.
    pub(super) fn open(&mut self, edge: &[u8]) {
        if !self.open && self.runs.is_some() {
            self.open = true;
            self.keys = 0;
            self.passed = false;
            self.edge.clear();
            self.edge.extend_from_slice(edge);
        }
    }

    /// The walk has seen `key` dead. Answers the d of a run around it, whose ends are in `span`, when it
    /// is time to ask.
    pub(super) fn note_dead(&mut self, key: &[u8], s: Seq) -> Option<Seq> {
        self.keys += 1;
        if self.keys % ASK_EVERY == 1 { self.run_around(key, s) } else { None }
    }

    /// The d of a run around `key`, whose ends are in `span`.
    pub(super) fn run_around(&mut self, key: &[u8], s: Seq) -> Option<Seq> {
        let d = self.runs.as_ref()?.covering(key, s, &mut self.span)?;
        self.passed = true;
        Some(d)
    }

    /// A stretch that goes on behind a run is worth a new proof in its place sooner: it costs no more
    /// runs, and without it every walk would go through these keys.
    fn is_worth_a_run(&self) -> bool {
        let keys_min = if self.passed { RUN_MORE_KEYS_MIN } else { RUN_KEYS_MIN };
        self.keys >= keys_min
    }

    /// The stretch ends before `to`: the next live key, or where the walk ends.
    pub(super) fn close_forward(&mut self, to: &[u8], s: Seq) {
        if std::mem::take(&mut self.open) && self.is_worth_a_run() {
            self.leave(self.edge.as_slice().into(), to.into(), s);
        }
    }

    /// The stretch of a walk back ends at `from`, the first key in it.
    pub(super) fn close_back(&mut self, from: &[u8], s: Seq) {
        if std::mem::take(&mut self.open) && self.is_worth_a_run() {
            self.leave(from.into(), self.edge.as_slice().into(), s);
        }
    }

    /// The walk goes elsewhere: what was seen so far is not a stretch up to a known end.
    pub(super) fn drop_open(&mut self) {
        self.open = false;
    }

    fn leave(&self, from: Box<[u8]>, to: Box<[u8]>, d: Seq) {
        if let Some(runs) = &self.runs {
            runs.add(DeadRun { from, to, d, keys: self.keys });
        }
    }
}
