//! Registers as runs.

use super::splice;

const ZEROS_MAX: usize = 64;
const VALUE_MAX: u8 = 32;
const VALUE_LEN_MAX: usize = 4;
/// Number of runs examined around a change, starting with the one before it: these may be merged.
const MERGED_RUNS: usize = 5;

/// Adjacent registers with equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// What they hold.
    pub value: u8,
    /// How many they are.
    pub len: usize,
    /// It takes two bytes: zeros, and possibly many.
    pub is_long: bool,
}

impl Run {
    /// A run of `len` zeros.
    pub(super) fn zeros(len: usize) -> Self {
        Self { value: 0, len, is_long: len > ZEROS_MAX }
    }

    fn values(value: u8, len: usize) -> Self {
        Self { value, len, is_long: false }
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        let len = self.len - 1;
        match self {
            Self { is_long: true, .. } => out.extend([0x40 | (len >> 8) as u8, len as u8]),
            Self { value: 0, .. } => out.push(len as u8),
            Self { value, .. } => out.push(0x80 | (value - 1) << 2 | len as u8),
        }
    }

    /// The run at the beginning of `bytes`. The second byte of one that is cut off counts as 0.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (&first, rest) = bytes.split_first()?;
        let low = usize::from(first & 0x3f);
        Some(match first >> 6 {
            0 => Self { value: 0, len: low + 1, is_long: false },
            1 => {
                let second = usize::from(rest.first().copied().unwrap_or(0));
                Self { value: 0, len: (low << 8 | second) + 1, is_long: true }
            }
            _ => Self::values((first >> 2 & 0x1f) + 1, usize::from(first & 3) + 1),
        })
    }

    fn bytes(self) -> usize {
        if self.is_long { 2 } else { 1 }
    }
}

/// All runs, each with its place.
pub(super) fn runs(bytes: &[u8]) -> impl Iterator<Item = (Run, usize)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let run = Run::read(bytes.get(at..)?)?;
        at += run.bytes();
        Some((run, at - run.bytes()))
    })
}

/// What has become of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    Unchanged,
    Changed,
    /// The sparse encoding cannot represent it.
    TooLarge,
    Damaged,
}

/// Raises a register of the runs of `log`, which begin at `head`.
pub(super) fn raise(
    log: &mut Vec<u8>,
    head: usize,
    index: usize,
    value: u8,
    max_bytes: u64,
) -> Raised {
    if value > VALUE_MAX {
        return Raised::TooLarge;
    }
    let (mut first, mut before, mut found) = (0, head, None);
    for (run, at) in runs(&log[head..]) {
        if index < first + run.len {
            found = Some((run, head + at));
            break;
        }
        first += run.len;
        before = head + at;
    }
    let Some((run, at)) = found else { return Raised::Damaged };
    if run.value >= value {
        return Raised::Unchanged;
    }
    let (left, right) = (index - first, first + run.len - 1 - index);
    let part = |len| if run.value == 0 { Run::zeros(len) } else { Run::values(run.value, len) };
    let mut new = Vec::with_capacity(5);
    if left > 0 {
        part(left).write(&mut new);
    }
    Run::values(value, 1).write(&mut new);
    if right > 0 {
        part(right).write(&mut new);
    }
    if new.len() > run.bytes() && (log.len() + new.len() - run.bytes()) as u64 > max_bytes {
        return Raised::TooLarge;
    }
    let (end, len) = ((at + run.bytes()).min(log.len()), log.len() + new.len() - run.bytes());
    splice(log, at..end, &new);
    // A run that was cut off has its missing byte counted, as in Redis: the last one is cut off again.
    log.truncate(len);
    merge(log, before);
    Raised::Changed
}

/// Merges adjacent runs of equal values, from `at` on.
fn merge(log: &mut Vec<u8>, mut at: usize) {
    for _ in 0..MERGED_RUNS {
        let Some(run) = Run::read(&log[at..]) else { return };
        if run.value > 0
            && let Some(next) = Run::read(&log[at + 1..])
            && next.value == run.value
            && run.len + next.len <= VALUE_LEN_MAX
        {
            let mut merged = Vec::with_capacity(1);
            Run::values(run.value, run.len + next.len).write(&mut merged);
            splice(log, at..at + 2, &merged);
            continue;
        }
        at = (at + run.bytes()).min(log.len());
    }
}

#[cfg(test)]
mod tests {
    use super::super::REGISTERS;
    use super::*;

    fn all_zeros() -> Vec<u8> {
        let mut log = Vec::new();
        Run::zeros(REGISTERS).write(&mut log);
        log
    }

    fn registers(log: &[u8]) -> Vec<u8> {
        runs(log).flat_map(|(run, _)| std::iter::repeat_n(run.value, run.len)).collect()
    }

    #[test]
    fn runs_are_split_and_merged() {
        let mut log = all_zeros();
        assert_eq!(log, [0x7f, 0xff]);
        for index in [100, 101, 103, 102] {
            assert_eq!(raise(&mut log, 0, index, 3, u64::MAX), Raised::Changed);
        }
        assert_eq!(log.len(), 5, "zeros, four values in one run, zeros");
        assert_eq!(raise(&mut log, 0, 101, 2, u64::MAX), Raised::Unchanged);
        assert_eq!(raise(&mut log, 0, 101, 4, u64::MAX), Raised::Changed);
        let found = registers(&log);
        assert_eq!(found.len(), REGISTERS);
        assert_eq!(found[99..105], [0, 3, 4, 3, 3, 0]);
        assert_eq!(raise(&mut log, 0, 1, 33, u64::MAX), Raised::TooLarge);
        assert_eq!(raise(&mut log, 0, 5000, 1, 7), Raised::TooLarge);
        assert_eq!(raise(&mut vec![0], 0, 1, 1, u64::MAX), Raised::Damaged);
    }

    /// The result in redis-server 7.0.15 of `SETRANGE key 16 "J\xab-\x17i"` in an empty HyperLogLog after `PFADD key 14059`.
    #[test]
    fn a_run_that_is_cut_off_stays_cut_off() {
        let mut log = b"J\xab-\x17i".to_vec();
        let (index, value) = (2732 + 46 + 24 + 9943, 1);
        assert_eq!(raise(&mut log, 0, index, value, u64::MAX), Raised::Changed);
        assert_eq!(log, b"J\xab-\x17f\xd6\x80B");
        let mut log = b"\x40".to_vec();
        assert_eq!(raise(&mut log, 0, 0, 1, u64::MAX), Raised::Changed);
        assert_eq!(log, b"", "the run of one register was a byte short");
    }
}
