//! The set S: sequences that a running read, an open snapshot or a pending flush still needs.

use crate::key::Seq;
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Stands for the superversion of pins that hold none.
const NO_SUPERVERSION: u64 = u64::MAX;

/// Pinned sequences with the superversion each pin was taken in.
#[derive(Clone, Default)]
pub(in crate::store) struct Pins(Arc<Mutex<BTreeMap<(Seq, u64), usize>>>);

/// One member of S, until it is dropped.
pub(in crate::store) struct Pin {
    pins: Pins,
    seq: Seq,
    superversion: u64,
}

impl Pins {
    /// Adds `seq` to S. Callers hold all latches (or S's rules let nothing slip otherwise).
    pub(in crate::store) fn add(&self, seq: Seq, superversion: u64) -> Pin {
        *self.0.lock().entry((seq, superversion)).or_insert(0) += 1;
        Pin { pins: self.clone(), seq, superversion }
    }

    /// Adds the sequence of a named snapshot, which holds no superversion: its reads pin their own.
    pub(in crate::store) fn add_named(&self, seq: Seq) -> Pin {
        self.add(seq, NO_SUPERVERSION)
    }

    /// Members of S in ascending order, without repeats.
    pub(in crate::store) fn sequences(&self) -> Vec<Seq> {
        let mut all: Vec<Seq> = self.0.lock().keys().map(|&(seq, _)| seq).collect();
        all.dedup();
        all
    }

    /// The oldest superversion that a pin may still be reading; `u64::MAX` without pins.
    pub(in crate::store) fn oldest_superversion(&self) -> u64 {
        self.0.lock().keys().map(|&(_, number)| number).min().unwrap_or(u64::MAX)
    }

    /// Number of pins.
    pub(in crate::store) fn len(&self) -> usize {
        self.0.lock().values().sum()
    }
}

impl Pin {
    pub(in crate::store) fn seq(&self) -> Seq {
        self.seq
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.pins.0.lock();
        let key = (self.seq, self.superversion);
        if let Some(count) = pins.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&key);
            }
        }
    }
}
