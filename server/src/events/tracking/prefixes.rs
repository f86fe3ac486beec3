//! The prefixes of keys that connections follow (CLIENT TRACKING with BCAST).

use crate::session::Session;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The connections that follow each prefix.
pub(super) type Prefixes = BTreeMap<Vec<u8>, Vec<Arc<Session>>>;

/// All prefixes. Most keys that nobody follows are known by their first byte.
#[derive(Debug, Default)]
pub(super) struct PrefixTable {
    known: Mutex<Prefixes>,
    count: AtomicUsize,
    /// A bit for each byte that a followed key may begin with.
    first_bytes: [AtomicU64; 4],
}

impl PrefixTable {
    /// Number of prefixes.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// All of them.
    pub(super) fn lock(&self) -> MutexGuard<'_, Prefixes> {
        self.known.lock()
    }

    /// `session` follows these from now on.
    pub(super) fn add(&self, session: &Arc<Session>, prefixes: &[&[u8]]) {
        let mut known = self.known.lock();
        for prefix in prefixes {
            known.entry(prefix.to_vec()).or_default().push(Arc::clone(session));
        }
        self.sum_up(&known);
    }

    /// `session` follows these no more.
    pub(super) fn remove<'p>(
        &self,
        session: &Session,
        prefixes: impl IntoIterator<Item = &'p Vec<u8>>,
    ) {
        let mut known = self.known.lock();
        for prefix in prefixes {
            let Some(listeners) = known.get_mut(prefix) else { continue };
            listeners.retain(|listener| listener.id != session.id);
            if listeners.is_empty() {
                known.remove(prefix);
            }
        }
        self.sum_up(&known);
    }

    fn sum_up(&self, known: &Prefixes) {
        let mut bits = [0; 4];
        for prefix in known.keys() {
            match prefix.first() {
                Some(&byte) => bits[usize::from(byte) / 64] |= 1 << (byte % 64),
                None => bits = [u64::MAX; 4],
            }
        }
        for (word, bits) in self.first_bytes.iter().zip(bits) {
            word.store(bits, Ordering::Relaxed);
        }
        self.count.store(known.len(), Ordering::Relaxed);
    }

    /// True if someone follows a prefix of `key`.
    #[inline]
    pub(super) fn has_prefix_of(&self, key: &[u8]) -> bool {
        let may_be = key.first().is_none_or(|byte| {
            let word = self.first_bytes[usize::from(byte / 64)].load(Ordering::Relaxed);
            word & (1 << (byte % 64)) != 0
        });
        may_be && longest_prefix_of(&self.known.lock(), key).is_some()
    }
}

/// The longest of `known` that `key` begins with.
fn longest_prefix_of<'p>(known: &'p Prefixes, key: &[u8]) -> Option<&'p [u8]> {
    let mut rest = key;
    loop {
        // The longest prefix of `rest` is this one, or one of what both have in common.
        let upto = (Bound::Unbounded, Bound::Included(rest));
        let (last, _) = known.range::<[u8], _>(upto).next_back()?;
        let common = last.iter().zip(rest).take_while(|(a, b)| a == b).count();
        if common == last.len() {
            return Some(last);
        }
        rest = &rest[..common];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_followed_if_one_of_its_prefixes_is() {
        let table = PrefixTable::default();
        let session = Arc::new(Session::default());
        let prefixes: [&[u8]; 6] = [b"a", b"abc", b"abd:e", b"user:", b"user:1:x", b"\xff"];
        table.add(&session, &prefixes);
        let texts = ["", "a", "ab", "abd", "abd:f", "b", "use", "user:", "user:1:y", "user;", "x"];
        for text in texts.map(str::as_bytes).into_iter().chain([b"\xff\0".as_slice()]) {
            let expected = prefixes.iter().any(|prefix| text.starts_with(prefix));
            assert_eq!(table.has_prefix_of(text), expected, "{text:?}");
        }
        table.add(&session, &[b""]);
        assert!(table.has_prefix_of(b"") && table.has_prefix_of(b"x"));
        table.remove(&session, [&Vec::new(), &b"a".to_vec()]);
        assert!(!table.has_prefix_of(b"") && !table.has_prefix_of(b"ab"));
        assert!(table.has_prefix_of(b"abcd"));
        table.remove(&session, &prefixes.map(<[u8]>::to_vec));
        assert!(table.len() == 0 && !table.has_prefix_of(b"abcd"));
    }
}
