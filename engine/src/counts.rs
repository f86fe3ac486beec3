//! Counts of those who hold a block of memory.

use std::sync::atomic::{AtomicU32, Ordering, fence};

/// How many hold a block. Whoever gives up the last one frees it.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Counts(AtomicU32);

impl Counts {
    /// The first one.
    pub(crate) fn one() -> Self {
        Self(AtomicU32::new(1))
    }

    /// Another one. The caller has one.
    #[inline]
    pub(crate) fn add(&self) {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        assert!(before < u32::MAX / 2, "counts of a value");
    }

    /// Gives one up; true for the last, behind everything that the others have done.
    #[inline]
    #[must_use]
    pub(crate) fn give_up(&self) -> bool {
        let is_last = self.0.fetch_sub(1, Ordering::Release) == 1;
        if is_last {
            fence(Ordering::Acquire);
        }
        is_last
    }

    /// As of now.
    pub(crate) fn number(&self) -> usize {
        self.0.load(Ordering::Relaxed) as usize
    }

    /// True for one alone, behind everything that those who have given theirs up have done.
    pub(crate) fn is_one(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }
}
