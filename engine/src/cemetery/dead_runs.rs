//! Dead-run hints: stretches of the key space without live keys (N5).
//!
//! A walk at s that passes many dead keys with no live one between them has proved: *no key of
//! [from, to) is alive at d = s*. From then on every version q <= d in that range is dead for every
//! reader at s >= d: if it were the newest such a reader sees, it would have been the newest at d,
//! too, and the grave that covered it then still covers it. A later put has a sequence above d and
//! is never skipped. The proof is about keys and sequences, not about files. It therefore outlives
//! merges, and costs two keys however many dead keys are between them. A table whose keys are all in the
//! range and whose max_seq <= d needs no reading, neither by scans nor by the merge that removes it.

use crate::key::Seq;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Dead keys passed from which on a walk leaves a hint. Tests have few keys, and want many hints.
pub(crate) const RUN_KEYS_MIN: u64 = if cfg!(test) { 2 } else { 64 };

/// Minimum for a walk that has passed over a hint on its way.
pub(crate) const RUN_MORE_KEYS_MIN: u64 = if cfg!(test) { 1 } else { 8 };

/// Hints held at most; the one that saves least goes.
const RUNS_MAX: usize = 4096;

/// One proof: no key in [`from`, `to`) is alive at `d`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadRun {
    /// First engine key.
    pub(crate) from: Box<[u8]>,
    /// First engine key behind it.
    pub(crate) to: Box<[u8]>,
    /// Sequence of the walk that saw it.
    pub(crate) d: Seq,
    /// Dead keys that the walk passed: what the hint saves, for choosing only.
    pub(crate) keys: u64,
}

/// Room for the ends of a run: first key, first key behind.
#[derive(Debug, Default)]
pub(crate) struct Span {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Rest {
    to: Box<[u8]>,
    d: Seq,
    keys: u64,
}

/// Runs by their first key, without overlap.
type Map = BTreeMap<Box<[u8]>, Rest>;

/// The dead runs of a store.
#[derive(Debug, Default)]
pub(crate) struct DeadRuns {
    runs: RwLock<Map>,
    /// As of the last freeze. Where keys are deleted all the time, a run's proof is replaced all the time,
    /// and its d is always above the mark, at which merges and checkpoints work: they find the one
    /// before here.
    sealed: RwLock<Map>,
    /// Number of `runs`, read without the lock. When there is none, none is sealed.
    len: AtomicUsize,
}

/// The run in `runs` that holds `key`, for a reader at `s`.
fn around<'m>(runs: &'m Map, key: &[u8], s: Seq) -> Option<(&'m [u8], &'m Rest)> {
    let before = (Bound::Unbounded, Bound::Included(key));
    let (from, rest) = runs.range::<[u8], _>(before).next_back()?;
    (rest.d <= s && *key < *rest.to).then_some((&**from, rest))
}

impl DeadRuns {
    /// True when there is none: nothing else is asked then.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Number of runs.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// The run that holds `key`, for a reader at `s`: its ends are written to `span`, its d is
    /// returned. Only runs with d <= s answer.
    pub(crate) fn covering(&self, key: &[u8], s: Seq, span: &mut Span) -> Option<Seq> {
        if self.is_empty() {
            return None;
        }
        let mut take = |(from, rest): (&[u8], &Rest)| {
            span.from.clear();
            span.from.extend_from_slice(from);
            span.to.clear();
            span.to.extend_from_slice(&rest.to);
            rest.d
        };
        let found = around(&self.runs.read(), key, s).map(&mut take);
        found.or_else(|| around(&self.sealed.read(), key, s).map(take))
    }

    /// Keeps the current runs for the work at the next mark.
    pub(crate) fn seal(&self) {
        let runs = self.runs.read();
        self.sealed.write().clone_from(&runs);
    }

    /// The run that proves every version of a table dead: it holds both its keys and its sequences
    /// end at or below d, and d <= `now`.
    pub(crate) fn holds(
        &self,
        min_key: &[u8],
        max_key: &[u8],
        max_seq: Seq,
        now: Seq,
    ) -> Option<Seq> {
        let mut span = Span::default();
        let d = self.covering(min_key, now, &mut span)?;
        (max_seq <= d && max_key < span.to.as_slice()).then_some(d)
    }

    /// Adds a proof. Runs inside it that are not younger go; older ones that reach out of it are cut to
    /// what it does not cover. Where a younger one is in the way nothing changes.
    pub(crate) fn add(&self, run: DeadRun) {
        if run.from >= run.to {
            return;
        }
        let mut runs = self.runs.write();
        let mut touched = Vec::new();
        let below_end = (Bound::Unbounded, Bound::Excluded(&*run.to));
        for (from, rest) in runs.range::<[u8], _>(below_end).rev() {
            if rest.to <= run.from {
                break;
            }
            if rest.d > run.d {
                return;
            }
            touched.push(from.clone());
        }
        let mut keys = run.keys;
        for from in touched {
            let Some(old) = runs.remove(&from) else { continue };
            let (sticks_out_left, sticks_out_right) = (from < run.from, old.to > run.to);
            if !sticks_out_left && !sticks_out_right {
                keys = keys.saturating_add(old.keys);
                continue;
            }
            // How many of its keys lie where is not known; half is as good as any share.
            let rest = Rest { keys: old.keys / 2, ..old.clone() };
            if sticks_out_right {
                runs.insert(run.to.clone(), rest.clone());
            }
            if sticks_out_left {
                runs.insert(from, Rest { to: run.from.clone(), ..rest });
            }
        }
        runs.insert(run.from, Rest { to: run.to, d: run.d, keys });
        while runs.len() > RUNS_MAX {
            let least = runs.iter().min_by_key(|(_, rest)| rest.keys);
            let Some(from) = least.map(|(from, _)| from.clone()) else { break };
            runs.remove(&from);
        }
        self.len.store(runs.len(), Ordering::Release);
    }

    /// The runs with d <= `m`, which a crash that falls back to m does not make untrue.
    pub(crate) fn through(&self, m: Seq) -> Vec<DeadRun> {
        let through_m = Self::default();
        for runs in [&self.sealed, &self.runs] {
            for (from, rest) in runs.read().iter().filter(|(_, rest)| rest.d <= m) {
                let Rest { to, d, keys } = rest.clone();
                through_m.add(DeadRun { from: from.clone(), to, d, keys });
            }
        }
        let runs = through_m.runs.into_inner();
        runs.into_iter().map(|(from, Rest { to, d, keys })| DeadRun { from, to, d, keys }).collect()
    }

    /// Where the last run before `key` starts, one that does not reach it.
    pub(crate) fn start_before(&self, key: &[u8]) -> Option<Vec<u8>> {
        let runs = self.runs.read();
        let before = (Bound::Unbounded, Bound::Included(key));
        let (from, rest) = runs.range::<[u8], _>(before).next_back()?;
        (*rest.to <= *key).then(|| from.to_vec())
    }

    /// Forgets runs for which `stays` answers false: there is nothing in them any more.
    pub(crate) fn retain(&self, mut stays: impl FnMut(&[u8], &[u8], Seq) -> bool) {
        let mut runs = self.runs.write();
        runs.retain(|from, rest| stays(from, &rest.to, rest.d));
        let mut sealed = self.sealed.write();
        sealed.retain(|from, rest| stays(from, &rest.to, rest.d));
        if runs.is_empty() {
            sealed.clear();
        }
        self.len.store(runs.len(), Ordering::Release);
    }

    /// Memory held, estimated.
    pub(crate) fn bytes(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        let bytes = |runs: &Map| -> usize {
            runs.iter().map(|(from, rest)| from.len() + rest.to.len() + 96).sum()
        };
        bytes(&self.runs.read()) + bytes(&self.sealed.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(from: &[u8], to: &[u8], d: Seq) -> DeadRun {
        DeadRun { from: from.into(), to: to.into(), d, keys: 100 }
    }

    fn end(runs: &DeadRuns, key: &[u8], s: Seq) -> Option<(Vec<u8>, Seq)> {
        let mut span = Span::default();
        runs.covering(key, s, &mut span).map(|d| (span.to, d))
    }

    #[test]
    fn covers_from_its_first_key_to_before_its_end_for_readers_from_d_on() {
        let runs = DeadRuns::default();
        runs.add(run(b"c", b"g", 10));
        assert_eq!(end(&runs, b"c", 10), Some((b"g".to_vec(), 10)));
        assert_eq!(end(&runs, b"fzz", 11), Some((b"g".to_vec(), 10)));
        assert_eq!(end(&runs, b"c", 9), None, "a reader below d may see keys alive");
        assert_eq!(end(&runs, b"g", 10), None);
        assert_eq!(end(&runs, b"b", 10), None);
    }

    #[test]
    fn a_younger_proof_replaces_what_it_covers_and_cuts_the_rest() {
        let runs = DeadRuns::default();
        runs.add(run(b"a", b"e", 5));
        runs.add(run(b"f", b"h", 6));
        runs.add(run(b"k", b"p", 7));
        runs.add(run(b"c", b"m", 9));
        assert_eq!(end(&runs, b"a", 9), Some((b"c".to_vec(), 5)));
        assert_eq!(end(&runs, b"g", 9), Some((b"m".to_vec(), 9)));
        assert_eq!(end(&runs, b"n", 9), Some((b"p".to_vec(), 7)));
        assert_eq!(runs.len(), 3);
        runs.add(run(b"d", b"e", 8));
        assert_eq!(end(&runs, b"d", 9), Some((b"m".to_vec(), 9)), "the older proof adds nothing");
        runs.add(run(b"g", b"h", 20));
        assert_eq!(end(&runs, b"c", 20), Some((b"g".to_vec(), 9)), "cut in two");
        assert_eq!(end(&runs, b"h", 20), Some((b"m".to_vec(), 9)));
    }

    #[test]
    fn a_table_is_dead_only_inside_one_run_and_below_its_sequence() {
        let runs = DeadRuns::default();
        runs.add(run(b"c", b"g", 10));
        assert_eq!(runs.holds(b"c", b"f", 10, 10), Some(10));
        assert_eq!(runs.holds(b"c", b"f", 11, 20), None, "a version younger than the proof");
        assert_eq!(runs.holds(b"c", b"g", 9, 20), None, "the end is not in it");
        assert_eq!(runs.holds(b"b", b"f", 9, 20), None);
        assert_eq!(runs.holds(b"c", b"f", 9, 9), None, "now is below the proof");
    }

    #[test]
    fn a_proof_that_is_renewed_all_the_time_is_kept_as_of_the_last_freeze() {
        let runs = DeadRuns::default();
        runs.add(run(b"c", b"g", 10));
        runs.seal();
        runs.add(run(b"c", b"m", 20));
        assert_eq!(end(&runs, b"d", 20), Some((b"m".to_vec(), 20)));
        assert_eq!(end(&runs, b"d", 19), Some((b"g".to_vec(), 10)));
        assert_eq!(end(&runs, b"h", 19), None);
        assert_eq!(runs.holds(b"c", b"f", 9, 15), Some(10));
        let ends = |m| runs.through(m).into_iter().map(|run| (run.to, run.d)).collect::<Vec<_>>();
        assert_eq!(ends(15), [((*b"g").into(), 10)]);
        assert_eq!(ends(20), [((*b"m").into(), 20)]);
        runs.retain(|_, _, _| false);
        assert_eq!(end(&runs, b"d", 20), None);
        assert_eq!(runs.bytes(), 0);
    }

    #[test]
    fn what_saves_least_goes_when_there_are_too_many() {
        let runs = DeadRuns::default();
        for i in 0..=RUNS_MAX as u32 {
            let (from, to) = ((2 * i).to_be_bytes(), (2 * i + 1).to_be_bytes());
            let keys = if i == 77 { 1 } else { 100 };
            runs.add(DeadRun { from: from.into(), to: to.into(), d: 1, keys });
        }
        assert_eq!(runs.len(), RUNS_MAX);
        assert_eq!(end(&runs, &154_u32.to_be_bytes(), 1), None);
        assert!(end(&runs, &156_u32.to_be_bytes(), 1).is_some());
        assert_eq!(runs.through(0), Vec::new());
        assert_eq!(runs.through(1).len(), RUNS_MAX);
    }
}
