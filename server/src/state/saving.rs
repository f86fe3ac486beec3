//! The state of saves: the current one, the last one, and when the next is due.

use crate::observe::now_s;
use parking_lot::{Condvar, Mutex, MutexGuard};
use sexton_config::value::SavePoint;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// After a failed save the next one that a save point starts is this much later
/// (`CONFIG_BGSAVE_RETRY_DELAY`), in seconds.
const RETRY_DELAY_S: u64 = 5;

/// Whether a save may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It has.
    Started,
    /// Another one runs.
    Busy,
}

#[derive(Debug)]
struct Running {
    since: Instant,
    in_background: bool,
}

#[derive(Debug)]
struct State {
    running: Option<Running>,
    /// The saver thread has not taken it up yet.
    wanted: bool,
    last_save_s: u64,
    last_try_s: u64,
    last_ok: bool,
    last_took_s: Option<u64>,
    saves: u64,
    /// Last sequence that the last save contains.
    saved_seq: u64,
    /// Changes up to here are not counted: a requested save will contain them. 0 once that has failed.
    promised_seq: u64,
}

impl State {
    /// False for a while after a save that failed.
    fn may_try(&self, now_s: u64) -> bool {
        self.last_ok || now_s.saturating_sub(self.last_try_s) > RETRY_DELAY_S
    }
}

/// The saves of a server.
#[derive(Debug)]
pub struct Saving {
    state: Mutex<State>,
    changed: Condvar,
    points: Mutex<Vec<SavePoint>>,
    stop_writes: AtomicBool,
    refuses_writes: AtomicBool,
    abort: AtomicBool,
    /// Saves are started until one contains this sequence; 0 for none.
    wanted_from: AtomicU64,
    /// Keys written by the save that runs.
    pub(crate) keys_done: AtomicU64,
    /// Keys there were when it began.
    pub(crate) keys_total: AtomicU64,
    /// The last file had fields that expire.
    pub(crate) field_times: AtomicBool,
}

impl Default for Saving {
    fn default() -> Self {
        let state = State {
            running: None,
            wanted: false,
            last_save_s: now_s(),
            last_try_s: 0,
            last_ok: true,
            last_took_s: None,
            saves: 0,
            saved_seq: 0,
            promised_seq: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            points: Mutex::default(),
            stop_writes: AtomicBool::new(true),
            refuses_writes: AtomicBool::new(false),
            abort: AtomicBool::new(false),
            wanted_from: AtomicU64::new(0),
            keys_done: AtomicU64::new(0),
            keys_total: AtomicU64::new(0),
            field_times: AtomicBool::new(false),
        }
    }
}

/// The figures of INFO persistence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavingView {
    /// A save runs in the background.
    pub in_background: bool,
    /// Seconds it has taken so far.
    pub current_s: Option<u64>,
    /// Keys it has written, and keys there are; 0 when none runs.
    pub keys: (u64, u64),
    /// When the last save that succeeded ended, in seconds since the epoch.
    pub last_save_s: u64,
    /// Whether the last one in the background succeeded.
    pub last_ok: bool,
    /// Seconds it took.
    pub last_took_s: Option<u64>,
    /// Saves that succeeded.
    pub saves: u64,
}

impl Saving {
    /// The save points in force (`save`).
    pub fn set_points(&self, points: &[SavePoint]) {
        *self.points.lock() = points.to_vec();
        self.note_refusal(self.state.lock().last_ok);
    }

    /// `stop-writes-on-bgsave-error`.
    pub fn set_stop_writes(&self, on: bool) {
        self.stop_writes.store(on, Ordering::Relaxed);
        self.note_refusal(self.state.lock().last_ok);
    }

    fn note_refusal(&self, last_ok: bool) {
        let refuses = !last_ok && self.stop_writes.load(Ordering::Relaxed) && self.has_points();
        self.refuses_writes.store(refuses, Ordering::Relaxed);
    }

    /// True when there is any save point: a server that stops saves first.
    #[must_use]
    pub fn has_points(&self) -> bool {
        !self.points.lock().is_empty()
    }

    /// True while writes are refused because the last background save failed.
    #[must_use]
    #[inline]
    pub fn refuses_writes(&self) -> bool {
        self.refuses_writes.load(Ordering::Relaxed)
    }

    fn start(&self, in_background: bool) -> Start {
        let mut state = self.state.lock();
        if state.running.is_some() {
            return Start::Busy;
        }
        self.note_start(&mut state, in_background);
        Start::Started
    }

    fn note_start(&self, state: &mut State, in_background: bool) {
        state.running = Some(Running { since: Instant::now(), in_background });
        state.last_try_s = now_s();
        state.wanted = in_background;
        self.keys_done.store(0, Ordering::Relaxed);
        self.keys_total.store(0, Ordering::Relaxed);
        self.abort.store(false, Ordering::Relaxed);
        self.changed.notify_all();
    }

    /// The save of a server that ends begins; any other is called off. The caller ends it with [`Saving::end`].
    pub(crate) fn start_last(&self) {
        let mut state = self.state.lock();
        self.wait_for_end(&mut state);
        self.note_start(&mut state, false);
    }

    /// A save in the foreground begins; the caller ends it with [`Saving::end`].
    pub(crate) fn start_here(&self) -> Start {
        self.start(false)
    }

    /// Hands a save to the saver thread.
    pub fn start_in_background(&self) -> Start {
        self.start(true)
    }

    /// Waits for up to `timeout` until there is a save for the saver thread.
    pub(crate) fn take_wanted(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.wanted {
            self.changed.wait_for(&mut state, timeout);
        }
        std::mem::take(&mut state.wanted)
    }

    /// Ends the current save; with the last sequence it contains if it succeeded.
    pub(crate) fn end(&self, saved_seq: Option<u64>) {
        let mut state = self.state.lock();
        let Some(running) = state.running.take() else { return };
        if let Some(seq) = saved_seq {
            state.saved_seq = seq;
            state.last_save_s = now_s();
            state.saves += 1;
            // A later save requested meanwhile is still made.
            let is_held = |wanted| (wanted <= seq).then_some(0);
            let _ = self.wanted_from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_held);
        }
        let aborted = self.abort.load(Ordering::Relaxed);
        if running.in_background && !aborted {
            state.last_took_s = Some(running.since.elapsed().as_secs());
        }
        // As in Redis, SAVE mends the status too, and a save that was called off does not spoil it.
        if saved_seq.is_some() {
            state.last_ok = true;
        } else if running.in_background && !aborted {
            state.last_ok = false;
        }
        if saved_seq.is_none() && !aborted {
            state.promised_seq = 0;
        }
        self.note_refusal(state.last_ok);
        self.changed.notify_all();
    }

    /// Calls off the save that runs and waits until it has ended.
    pub(crate) fn abort(&self) -> bool {
        let mut state = self.state.lock();
        let was_running = state.running.is_some();
        self.wait_for_end(&mut state);
        was_running
    }

    fn wait_for_end(&self, state: &mut MutexGuard<'_, State>) {
        self.call_off();
        while state.running.is_some() {
            self.changed.wait(state);
        }
    }

    /// Requests a save that contains `seq`. Changes that it will contain no longer count, unless it fails.
    pub fn want_from(&self, seq: u64) {
        self.state.lock().promised_seq = seq;
        self.wanted_from.fetch_max(seq, Ordering::Relaxed);
    }

    /// Hands the save that [`Saving::want_from`] has asked for to the saver thread, unless one runs or the last one has
    /// just failed. True when it has started.
    pub(crate) fn start_wanted(&self) -> bool {
        let is_wanted = self.wanted_from.load(Ordering::Relaxed) != 0;
        is_wanted
            && self.state.lock().may_try(now_s())
            && self.start_in_background() == Start::Started
    }

    /// Cancels the current save.
    pub(crate) fn call_off(&self) {
        self.abort.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Relaxed)
    }

    /// The data has been loaded: everything up to `seq` counts as saved.
    pub fn note_loaded(&self, seq: u64) {
        self.state.lock().saved_seq = seq;
    }

    /// Changes up to `last_seq` that neither a save nor one requested by FLUSHALL contains.
    #[must_use]
    pub fn changes(&self, last_seq: u64) -> u64 {
        let state = self.state.lock();
        last_seq.saturating_sub(state.saved_seq.max(state.promised_seq))
    }

    /// The save point that is due after `changes` changes, if any.
    #[must_use]
    pub fn due_point(&self, changes: u64) -> Option<SavePoint> {
        let state = self.state.lock();
        let now = now_s();
        if state.running.is_some() || !state.may_try(now) {
            return None;
        }
        let age_s = now.saturating_sub(state.last_save_s);
        let is_due = |point: &&SavePoint| {
            changes >= u64::from(point.changes) && changes > 0 && age_s > point.seconds
        };
        self.points.lock().iter().find(is_due).copied()
    }

    /// The figures for INFO and LASTSAVE.
    #[must_use]
    pub fn view(&self) -> SavingView {
        let state = self.state.lock();
        let running = state.running.as_ref();
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        SavingView {
            in_background: running.is_some_and(|running| running.in_background),
            current_s: running.map(|running| running.since.elapsed().as_secs()),
            keys: match running {
                Some(_) => (load(&self.keys_done), load(&self.keys_total)),
                None => (0, 0),
            },
            last_save_s: state.last_save_s,
            last_ok: state.last_ok,
            last_took_s: state.last_took_s,
            saves: state.saves,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_save_at_a_time() {
        let saving = Saving::default();
        assert_eq!(saving.start_in_background(), Start::Started);
        assert_eq!(saving.start_here(), Start::Busy);
        assert!(saving.take_wanted(Duration::ZERO));
        assert!(!saving.take_wanted(Duration::ZERO));
        saving.end(Some(7));
        assert_eq!(saving.start_here(), Start::Started);
        assert!(!saving.take_wanted(Duration::ZERO));
        let view = saving.view();
        assert_eq!((view.saves, saving.changes(9), view.in_background), (1, 2, false));
    }

    #[test]
    fn a_failed_background_save_refuses_writes_until_one_succeeds() {
        let saving = Saving::default();
        let fail = || {
            saving.start_in_background();
            saving.end(None);
        };
        fail();
        assert!(!saving.refuses_writes(), "without save points nobody relies on saves");
        saving.set_points(&[SavePoint { seconds: 1, changes: 1 }]);
        assert!(saving.refuses_writes());
        saving.set_stop_writes(false);
        assert!(!saving.refuses_writes());
        saving.set_stop_writes(true);
        saving.start_here();
        saving.end(Some(1));
        assert!(!saving.refuses_writes());
        fail();
        assert!(saving.refuses_writes());
        assert_eq!(saving.due_point(100), None, "not tried again at once");
    }

    #[test]
    fn a_save_that_is_wanted_starts_again_until_one_holds_what_it_is_wanted_for() {
        let saving = Saving::default();
        assert!(!saving.start_wanted());
        saving.want_from(8);
        saving.start_here();
        assert!(!saving.start_wanted(), "another one runs");
        saving.end(Some(7));
        assert!(saving.start_wanted());
        assert!(saving.take_wanted(Duration::ZERO));
        saving.end(None);
        assert!(!saving.start_wanted(), "not tried again at once");
        saving.state.lock().last_try_s -= RETRY_DELAY_S + 1;
        assert!(saving.start_wanted());
        saving.end(Some(8));
        assert!(!saving.start_wanted());
    }

    #[test]
    fn what_a_wanted_save_will_hold_counts_again_when_it_fails() {
        let saving = Saving::default();
        saving.want_from(8);
        assert_eq!(saving.changes(8), 0, "before it has begun");
        assert!(saving.start_wanted());
        saving.call_off();
        saving.want_from(10);
        saving.end(None);
        assert_eq!(saving.changes(11), 1, "the one that was called off is followed by another");
        assert!(saving.start_wanted());
        saving.end(None);
        assert_eq!(saving.changes(11), 11);
        saving.state.lock().last_try_s -= RETRY_DELAY_S + 1;
        assert!(saving.start_wanted());
        saving.end(Some(10));
        assert_eq!(saving.changes(11), 1);
    }

    #[test]
    fn a_save_point_is_due_by_changes_and_age() {
        let saving = Saving::default();
        let points =
            [SavePoint { seconds: 1000, changes: 1 }, SavePoint { seconds: 10, changes: 50 }];
        saving.set_points(&points);
        saving.state.lock().last_save_s -= 11;
        assert_eq!(saving.due_point(49), None);
        assert_eq!(saving.due_point(50), Some(points[1]));
        saving.state.lock().last_save_s -= 1000;
        assert_eq!(saving.due_point(1), Some(points[0]));
        assert_eq!(saving.due_point(0), None);
    }
}
