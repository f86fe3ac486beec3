//! Figures that are expensive to determine.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// A figure as it was lately: whoever asks again within a while gets the same answer.
#[derive(Debug)]
pub(super) struct Lately<T> {
    found: Mutex<Option<(Instant, T)>>,
    holds_for: Duration,
}

impl<T: Copy> Lately<T> {
    /// One whose answers hold for so long.
    pub(super) const fn new(holds_for: Duration) -> Self {
        Self { found: Mutex::new(None), holds_for }
    }

    /// The figure, which `find` determines unless it is known. Nobody is kept waiting while it does.
    pub(super) fn get(&self, find: impl FnOnce() -> T) -> T {
        let found = *self.found.lock();
        match found {
            Some((at, figure)) if at.elapsed() < self.holds_for => figure,
            _ => self.note(find()),
        }
    }

    /// It was determined just now.
    pub(super) fn note(&self, figure: T) -> T {
        *self.found.lock() = Some((Instant::now(), figure));
        figure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_its_time_and_no_longer() {
        let lately = Lately::new(Duration::from_secs(3600));
        assert_eq!(lately.get(|| 1), 1);
        assert_eq!(lately.get(|| 2), 1);
        assert_eq!((lately.note(3), lately.get(|| 4)), (3, 3));
        let never = Lately::new(Duration::ZERO);
        assert_eq!((never.get(|| 1), never.get(|| 2)), (1, 2));
    }
}
