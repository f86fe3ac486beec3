//! One client that waits.

use super::pop::Pop;
use super::read::Read;
use crate::session::Session;
use crate::value::ValueType;
use parking_lot::Mutex;
use sexton_engine::Seq;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Instant;

/// How far a waiter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// It waits.
    Waiting = 0,
    /// A transaction has popped elements for it, and will send them.
    Claimed = 1,
    /// The answer is there.
    Answered = 2,
    /// The wait has ended: by timeout, disconnect, or CLIENT UNBLOCK.
    Over = 3,
}

/// What it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Pop elements, by the waiter itself or on its behalf.
    Pop(Pop),
    /// To run its command again when a list is there.
    List,
    /// To read what is new in streams.
    Read(Read),
}

/// A client that waits for one of some keys.
#[derive(Debug)]
pub struct Waiter {
    /// Its connection.
    pub session: Arc<Session>,
    /// Its database.
    pub db: usize,
    /// The keys, as it has named them.
    pub keys: Vec<Vec<u8>>,
    /// What it waits for.
    pub wants: Wants,
    /// Whether it is answered in RESP3.
    pub resp3: bool,
    /// The reply after a timeout.
    pub nothing: Vec<u8>,
    /// When it times out; `None`: never.
    pub deadline: Option<Instant>,
    state: AtomicU8,
    /// It is to run its command again.
    woken: AtomicBool,
    /// It was to, at least once.
    was_woken: AtomicBool,
    answer: Mutex<Option<(Vec<u8>, Seq)>>,
}

impl Waiter {
    /// One that waits.
    #[must_use]
    pub fn new(session: Arc<Session>, db: usize, keys: Vec<Vec<u8>>, wants: Wants) -> Self {
        Self {
            session,
            db,
            keys,
            wants,
            resp3: false,
            nothing: Vec::new(),
            deadline: None,
            state: AtomicU8::new(State::Waiting as u8),
            woken: AtomicBool::new(false),
            was_woken: AtomicBool::new(false),
            answer: Mutex::new(None),
        }
    }

    /// True if it may pop from a value of this type, or of an unknown one.
    #[must_use]
    pub fn fits(&self, kind: Option<ValueType>) -> bool {
        match (&self.wants, kind) {
            (Wants::Read(_), _) => false,
            (_, None) => true,
            (Wants::Pop(Pop { scored: true, .. }), Some(kind)) => kind == ValueType::SortedSet,
            (_, Some(kind)) => kind == ValueType::List,
        }
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Waiting,
            1 => State::Claimed,
            2 => State::Answered,
            _ => State::Over,
        }
    }

    fn leaves_waiting_for(&self, state: State) -> bool {
        let (from, to) = (State::Waiting as u8, state as u8);
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// A transaction takes something out for it; false when it does not wait any more.
    #[must_use]
    pub fn claim(&self) -> bool {
        self.leaves_waiting_for(State::Claimed)
    }

    /// Ends the wait; false if elements were already popped for it, or it has already ended.
    pub fn give_up(&self) -> bool {
        self.leaves_waiting_for(State::Over)
    }

    /// The transaction that has [claimed](Self::claim) it is sequenced: `reply` depends on writes up to `required`.
    pub fn answer(&self, reply: Vec<u8>, required: Seq) {
        *self.answer.lock() = Some((reply, required));
        self.state.store(State::Answered as u8, Ordering::Release);
        self.session.wake_task();
    }

    /// CLIENT UNBLOCK: ends the wait with this reply. False if it no longer waited.
    pub fn unblock(&self, reply: Vec<u8>) -> bool {
        let mut answer = self.answer.lock();
        if !self.give_up() {
            return false;
        }
        *answer = Some((reply, 0));
        drop(answer);
        self.session.wake_task();
        true
    }

    /// The answer, once.
    pub fn take_answer(&self) -> Option<(Vec<u8>, Seq)> {
        self.answer.lock().take()
    }

    /// Its connection runs its command again.
    pub fn wake(&self) {
        self.was_woken.store(true, Ordering::Release);
        self.woken.store(true, Ordering::Release);
        self.session.wake_task();
    }

    /// True when its connection was to run its command again.
    #[must_use]
    pub fn was_woken(&self) -> bool {
        self.was_woken.load(Ordering::Acquire)
    }

    /// True when its connection has something to do.
    #[must_use]
    pub fn is_called(&self) -> bool {
        self.woken.load(Ordering::Acquire) || matches!(self.state(), State::Answered | State::Over)
    }

    /// Its connection runs its command again: from now on others can wake it once more.
    pub fn begin_again(&self) {
        self.woken.store(false, Ordering::Release);
    }
}
