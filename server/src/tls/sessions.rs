//! Resumable TLS sessions: limited in number and time.

use parking_lot::Mutex;
use rustls::server::StoresServerSessions;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// The cache size for `tls-session-cache-size 0`.
const UNBOUNDED: usize = 1 << 20;

/// Sessions by the ticket that the client has.
#[derive(Debug)]
pub(super) struct Sessions {
    state: Mutex<State>,
    max: usize,
    lifetime: Duration,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<Vec<u8>, Vec<u8>>,
    /// When each was stored, oldest first; some may already be removed.
    stored: VecDeque<(Instant, Vec<u8>)>,
}

impl Sessions {
    pub(super) fn new(max: usize, lifetime: Duration) -> Self {
        let max = if max == 0 { UNBOUNDED } else { max };
        Self { state: Mutex::default(), max, lifetime }
    }

    fn put_at(&self, now: Instant, key: Vec<u8>, value: Vec<u8>) {
        let mut state = self.state.lock();
        self.forget(&mut state, now, self.max - 1);
        state.stored.push_back((now, key.clone()));
        state.sessions.insert(key, value);
    }

    fn find_at(&self, now: Instant, key: &[u8], keep: bool) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        self.forget(&mut state, now, self.max);
        if keep { state.sessions.get(key).cloned() } else { state.sessions.remove(key) }
    }

    /// Forgets those that are too old, and the oldest beyond `max`.
    fn forget(&self, state: &mut State, now: Instant, max: usize) {
        let is_old = |stored: Instant| now.duration_since(stored) >= self.lifetime;
        while state.stored.len() > max || state.stored.front().is_some_and(|front| is_old(front.0))
        {
            if let Some((_, key)) = state.stored.pop_front() {
                state.sessions.remove(&key);
            }
        }
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.put_at(Instant::now(), key, value);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.find_at(Instant::now(), key, true)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.find_at(Instant::now(), key, false)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_in_number_and_time() {
        let sessions = Sessions::new(2, Duration::from_secs(10));
        let start = Instant::now();
        for (nth, key) in [b"a", b"b", b"c"].into_iter().enumerate() {
            sessions.put_at(start + Duration::from_secs(nth as u64), key.to_vec(), vec![nth as u8]);
        }
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(sessions.find_at(at(3), b"a", true), None, "there is room for two");
        assert_eq!(sessions.find_at(at(3), b"b", true), Some(vec![1]));
        assert_eq!(sessions.find_at(at(11), b"b", true), None, "too old");
        assert_eq!(sessions.find_at(at(11), b"c", false), Some(vec![2]));
        assert_eq!(sessions.find_at(at(11), b"c", false), None, "taken");
    }
}
