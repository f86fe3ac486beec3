//! Names of collections: numbers that are never given out again, so that a grave of one can never cover another (E4).

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names that one file number stands for.
const NAMES_BITS: u32 = 32;

/// The names that are left of those reserved last.
///
/// A number of a file stands for names of its own. Numbers of files rise with each edit of the manifest, so what a table, a checkpoint
/// or a grave run holds of a collection has a smaller one than whatever is named after the next start. Names of which
/// nothing but the log has heard may come again: replay names anew what it makes anew.
#[derive(Debug, Default)]
pub(in crate::store) struct Collections {
    left: Mutex<std::ops::Range<u64>>,
    /// There may be pages.
    are_there: AtomicBool,
}

impl Collections {
    /// The next name; `reserve` answers a number of a file that nothing else has.
    pub(in crate::store) fn next(&self, reserve: impl FnOnce() -> u64) -> u64 {
        self.note();
        let mut left = self.left.lock();
        if left.is_empty() {
            let number = reserve();
            *left = number << NAMES_BITS..(number + 1) << NAMES_BITS;
        }
        left.start += 1;
        left.start - 1
    }

    /// There may be pages from now on.
    pub(in crate::store) fn note(&self) {
        self.are_there.store(true, Ordering::Release);
    }

    /// False while no collection of this store has ever lain in pages, as far as this process knows.
    #[inline]
    pub(in crate::store) fn are_there(&self) -> bool {
        self.are_there.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_number_stands_for_many_names_and_no_name_comes_twice() {
        let names = Collections::default();
        let first = names.next(|| 7);
        assert_eq!(first, 7 << 32);
        assert_eq!(names.next(|| unreachable!("there are names left")), first + 1);
        *names.left.lock() = 0..0;
        assert!(names.next(|| 8) > first + u64::from(u32::MAX));
    }
}
