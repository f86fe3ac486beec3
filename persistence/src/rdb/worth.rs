//! Whether it is worth trying to compress a value, learned from the values before it.

/// Failures in a row after which most values are not tried any more.
const FAILURES_MAX: u32 = 64;

/// After that, one value in this many is tried.
const TRY_ONE_IN: u32 = 16;

/// Values from this size on are always tried, and teach nothing about the others.
const LARGE_BYTES: usize = 4 << 10;

/// What a file has taught so far.
///
/// LZF finds nothing in random bytes or in what is compressed already, and looking for it costs as much as all the
/// rest of saving a small value. The first value that does compress has all that follow tried again.
#[derive(Debug, Default)]
pub(super) struct Worth {
    failures: u32,
    passed_over: u32,
}

impl Worth {
    /// Whether to try a value of `len` bytes.
    pub(super) fn is_tried(&mut self, len: usize) -> bool {
        if self.failures < FAILURES_MAX || len >= LARGE_BYTES {
            return true;
        }
        self.passed_over = (self.passed_over + 1) % TRY_ONE_IN;
        self.passed_over == 0
    }

    /// A value of `len` bytes was tried.
    pub(super) fn note(&mut self, len: usize, compressed: bool) {
        if compressed {
            self.failures = 0;
        } else if len < LARGE_BYTES {
            self.failures = self.failures.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_many_failures_one_in_sixteen_is_tried_until_one_succeeds() {
        let mut worth = Worth::default();
        for _ in 0..FAILURES_MAX {
            assert!(worth.is_tried(100));
            worth.note(100, false);
        }
        let tried = (0..160).filter(|_| worth.is_tried(100)).count();
        assert_eq!(tried, 10);
        assert!(worth.is_tried(LARGE_BYTES));
        worth.note(LARGE_BYTES, true);
        assert!((0..FAILURES_MAX).all(|_| worth.is_tried(100)));
    }
}
