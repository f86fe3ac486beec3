//! SCAN cursors: handles to the last key that was returned (N12).
//!
//! A handle is `nonce << 14 | slot`, below 2^53 so that every client's number type can represent it, and
//! never 0. The table keeps 16,384 handles, or fewer if their keys would take more than 4 MiB. Handles that
//! were already continued from are recycled first, in order of age; then the tips of the scans that were not
//! used for the longest time.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

const SLOT_BITS: u32 = 14;
const NONCE_BITS: u32 = 53 - SLOT_BITS;
/// Maximum size of all keys that handles refer to; a single key may be longer.
const KEYS_MAX_BYTES: usize = 4 << 20;

#[derive(Debug)]
struct Place {
    nonce: u64,
    last_key: Vec<u8>,
    /// The position of this slot in one of the two recycling orders.
    stamp: u64,
    continued: bool,
}

/// The table of handles of one server.
#[derive(Debug)]
pub struct CursorTable {
    places: Vec<Place>,
    /// Slots whose handles were recycled for the length of their keys.
    free: Vec<usize>,
    /// Bytes of all keys.
    key_bytes: usize,
    capacity: usize,
    nonce: u64,
    clock: u64,
    /// Stamp -> slot, of handles that a later one continues.
    continued: BTreeMap<u64, usize>,
    /// Stamp -> slot, of the newest handles of their scans.
    tips: BTreeMap<u64, usize>,
}

impl Default for CursorTable {
    fn default() -> Self {
        // A random start, so that a handle from before a restart is not taken for one of today.
        Self::with_capacity(1 << SLOT_BITS, RandomState::new().hash_one(0))
    }
}

impl CursorTable {
    fn with_capacity(capacity: usize, first_nonce: u64) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            key_bytes: 0,
            capacity,
            nonce: first_nonce & ((1 << NONCE_BITS) - 1),
            clock: 0,
            continued: BTreeMap::new(),
            tips: BTreeMap::new(),
        }
    }

    /// A new handle to `last_key`, which continues the scan of the handle `from` (0: a new scan).
    pub fn store(&mut self, from: u64, last_key: &[u8]) -> u64 {
        if let Some(slot) = self.slot_of(from) {
            self.restamp(slot, true);
        }
        self.nonce = (self.nonce + 1) & ((1 << NONCE_BITS) - 1);
        // A handle must not be 0, whatever its slot.
        self.nonce = self.nonce.max(1);
        self.clock += 1;
        let place = Place {
            nonce: self.nonce,
            last_key: last_key.to_vec(),
            stamp: self.clock,
            continued: false,
        };
        while self.key_bytes + last_key.len() > KEYS_MAX_BYTES && self.recycle() {}
        if self.free.is_empty() && self.places.len() == self.capacity {
            self.recycle();
        }
        self.key_bytes += last_key.len();
        let slot = match self.free.pop() {
            Some(slot) => {
                self.places[slot] = place;
                slot
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        };
        self.tips.insert(self.clock, slot);
        self.nonce << SLOT_BITS | slot as u64
    }

    /// Recycles the next handle; false if there is none.
    fn recycle(&mut self) -> bool {
        let oldest = self.continued.pop_first().or_else(|| self.tips.pop_first());
        let Some((_, slot)) = oldest else { return false };
        let place = &mut self.places[slot];
        self.key_bytes -= std::mem::take(&mut place.last_key).len();
        // No handle has this nonce.
        place.nonce = 0;
        self.free.push(slot);
        true
    }

    /// The last key of a handle; `None` when it was recycled or never given out.
    pub fn last_key(&mut self, handle: u64) -> Option<Vec<u8>> {
        let slot = self.slot_of(handle)?;
        self.restamp(slot, self.places[slot].continued);
        Some(self.places[slot].last_key.clone())
    }

    fn slot_of(&self, handle: u64) -> Option<usize> {
        let slot = (handle & ((1 << SLOT_BITS) - 1)) as usize;
        let nonce = handle >> SLOT_BITS;
        // A recycled place has no nonce, and no handle is its.
        let is_its = |place: &Place| nonce != 0 && place.nonce == nonce;
        self.places.get(slot).is_some_and(is_its).then_some(slot)
    }

    fn restamp(&mut self, slot: usize, continued: bool) {
        self.clock += 1;
        let place = &mut self.places[slot];
        let order = if place.continued { &mut self.continued } else { &mut self.tips };
        order.remove(&place.stamp);
        place.stamp = self.clock;
        place.continued = continued;
        let order = if continued { &mut self.continued } else { &mut self.tips };
        order.insert(self.clock, slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_found_until_recycled() {
        let mut table = CursorTable::with_capacity(2, 0);
        let (a, b) = (table.store(0, b"a"), table.store(0, b"b"));
        assert_eq!(table.last_key(a).as_deref(), Some(&b"a"[..]));
        let c = table.store(0, b"c");
        assert_eq!(table.last_key(b), None, "b was not used for the longest time");
        assert_eq!(table.last_key(a).as_deref(), Some(&b"a"[..]));
        assert_eq!(table.last_key(c).as_deref(), Some(&b"c"[..]));
    }

    #[test]
    fn one_long_scan_does_not_recycle_other_scans() {
        let mut table = CursorTable::with_capacity(4, 0);
        let slow = table.store(0, b"slow");
        let mut fast = 0;
        for step in 0..100_u8 {
            fast = table.store(fast, &[step]);
        }
        assert_eq!(table.last_key(slow).as_deref(), Some(&b"slow"[..]));
        assert_eq!(table.last_key(fast).as_deref(), Some(&[99][..]));
    }

    #[test]
    fn long_keys_take_no_more_than_their_bytes() {
        let mut table = CursorTable::with_capacity(1 << SLOT_BITS, 0);
        let long = vec![b'k'; 100 << 10];
        let handles: Vec<u64> = (0..1000).map(|_| table.store(0, &long)).collect();
        let held: usize = table.places.iter().map(|place| place.last_key.len()).sum();
        assert_eq!(held, table.key_bytes);
        assert!(held <= KEYS_MAX_BYTES && held > KEYS_MAX_BYTES - long.len(), "{held} bytes");
        assert_eq!(table.last_key(handles[0]), None);
        assert_eq!(table.last_key(handles[999]), Some(long));
        let whole = table.store(0, &vec![b'k'; KEYS_MAX_BYTES + 1]);
        assert!(table.last_key(whole).is_some(), "one alone may be longer");
        let short = table.store(whole, b"k");
        assert_eq!((table.last_key(whole), table.key_bytes), (None, 1));
        assert_eq!(table.last_key(short).as_deref(), Some(&b"k"[..]));
    }

    #[test]
    fn a_handle_can_be_asked_twice() {
        let mut table = CursorTable::with_capacity(4, 0);
        let first = table.store(0, b"k");
        table.store(first, b"l");
        assert_eq!(table.last_key(first).as_deref(), Some(&b"k"[..]));
    }

    #[test]
    fn handles_stay_in_range_when_nonces_wrap() {
        let mut table = CursorTable::with_capacity(1 << SLOT_BITS, (1 << NONCE_BITS) - 3);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..6 {
            let handle = table.store(0, b"");
            assert!(handle != 0 && handle < 1 << 53);
            assert!(seen.insert(handle));
        }
        assert_eq!(table.last_key(0), None);
        assert_eq!(table.last_key(u64::MAX), None);
    }
}
