//! YCSB's core workloads, and the two that the write-behind thesis adds.

use super::distribution::Distribution;

/// What an operation does. The order is that of the latencies in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Update,
    Insert,
    ReadModifyWrite,
}

/// Kinds of operation, with their names in the report.
pub(crate) const OPERATIONS: [(Operation, &str); 4] = [
    (Operation::Read, "read"),
    (Operation::Update, "update"),
    (Operation::Insert, "insert"),
    (Operation::ReadModifyWrite, "read-modify-write"),
];

/// Shares of the operations, in percent, and which records they go to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    read: u64,
    update: u64,
    insert: u64,
    /// The rest of the hundred reads, modifies and writes.
    pub(crate) distribution: Distribution,
}

impl Workload {
    const fn new(read: u64, update: u64, insert: u64, distribution: Distribution) -> Self {
        Self { read, update, insert, distribution }
    }

    /// The workload of a letter. A to D and F are YCSB's files workloada to workloadf; E scans and is not in
    /// the thesis. G (all inserts) and H (half inserts, half reads) are the thesis' own; it does not say how
    /// H chooses what it reads: zipfian here, as A, B and C.
    pub(crate) fn of(letter: char) -> Option<Self> {
        use Distribution::{Latest, Zipfian};
        Some(match letter {
            'a' => Self::new(50, 50, 0, Zipfian),
            'b' => Self::new(95, 5, 0, Zipfian),
            'c' => Self::new(100, 0, 0, Zipfian),
            'd' => Self::new(95, 0, 5, Latest),
            'f' => Self::new(50, 0, 0, Zipfian),
            'g' => Self::new(0, 0, 100, Zipfian),
            'h' => Self::new(50, 0, 50, Zipfian),
            _ => return None,
        })
    }

    /// What to do at `percent` of [0, 100).
    pub(crate) fn operation(&self, percent: u64) -> Operation {
        if percent < self.read {
            Operation::Read
        } else if percent < self.read + self.update {
            Operation::Update
        } else if percent < self.read + self.update + self.insert {
            Operation::Insert
        } else {
            Operation::ReadModifyWrite
        }
    }

    /// Expected number of inserts among `operations` operations.
    pub(crate) fn inserts(&self, operations: u64) -> u64 {
        operations * self.insert / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(letter: char, operation: Operation) -> usize {
        let workload = Workload::of(letter).expect("known");
        (0..100).filter(|percent| workload.operation(*percent) == operation).count()
    }

    #[test]
    fn shares_are_those_of_ycsb_and_the_thesis() {
        use Operation::{Insert, Read, ReadModifyWrite, Update};
        for (letter, read, update, insert, modify) in [
            ('a', 50, 50, 0, 0),
            ('b', 95, 5, 0, 0),
            ('c', 100, 0, 0, 0),
            ('d', 95, 0, 5, 0),
            ('f', 50, 0, 0, 50),
            ('g', 0, 0, 100, 0),
            ('h', 50, 0, 50, 0),
        ] {
            let shares = [Read, Update, Insert, ReadModifyWrite].map(|o| share(letter, o));
            assert_eq!(shares, [read, update, insert, modify], "{letter}");
        }
        assert!(Workload::of('e').is_none());
        assert_eq!(Workload::of('d').map(|w| w.inserts(1000)), Some(50));
    }
}
