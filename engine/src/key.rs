//! Keys as commands name them, and the form they have inside the tree.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::LazyLock;

/// The small number that stands for a namespace in memory. Slots are handed out by the engine;
/// each represents a namespace id (never used again, decision N7).
pub type Slot = u8;

/// Stands for a database where the records are meant that the layer above keeps for itself: they have a namespace of their own, are in
/// no database, and no command on databases reaches them.
pub const OWN_RECORDS: usize = usize::MAX;

/// A sequence number: one per operation, never reused for another that may survive (rule I1).
pub type Seq = u64;

/// Longest key, in bytes. Bounds of tables, blocks and grave runs are whole keys: the manifest names two for each table,
/// and memory holds one for each block.
pub const KEY_MAX_BYTES: usize = 64 << 10;

/// Bytes of such a key that are said of it: its beginning, by which its owner knows it.
const TOLD_BYTES: usize = 40;

/// Error text for a key of `bytes` bytes, which is refused.
pub(crate) fn key_bytes_refused(bytes: usize) -> String {
    format!("key of {bytes} bytes, at most {KEY_MAX_BYTES} allowed")
}

/// Error text for a key that is too long, with the beginning of the key.
#[must_use]
pub fn key_too_long(key: &[u8]) -> String {
    let beginning = key[..key.len().min(TOLD_BYTES)].escape_ascii();
    format!("{}, which begins with '{beginning}'", key_bytes_refused(key.len()))
}

/// Longest value, in bytes: what an entry of a table may hold (engine/FORMAT.md).
pub const VALUE_MAX_BYTES: u64 = 512 << 20;

/// A user's key with its hash, which is computed once a request.
///
/// The hash covers the bytes only, not the namespace, so that it can be computed before the
/// key's latch is held and stays right when databases are swapped.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Namespace slot, as `Engine::slot_of` gave it.
    pub slot: Slot,
    /// The user's bytes, at most 512 MiB.
    pub bytes: &'a [u8],
    /// `Engine::hash(bytes)`.
    pub hash: u64,
}

/// Kind byte of root records: the newest state of a user's key.
pub(crate) const KIND_ROOT: u8 = b'R';

/// Kind byte of the records of a collection's elements. The lowest kind: such records come first in a table.
pub(crate) const KIND_ELEMENT: u8 = b'E';

/// Bytes before the part in the engine key of an element: kind, namespace, collection. The *prefix* of the collection.
pub(crate) const PREFIX_BYTES: usize = 17;

/// No part has this letter: behind a prefix it is above all keys of the collection.
const ABOVE_PARTS: u8 = u8::MAX;

/// The prefix of a collection's elements, which its grave names (E4).
#[inline]
#[must_use]
pub(crate) fn element_head(namespace: u64, cid: u64) -> [u8; PREFIX_BYTES] {
    let mut head = [KIND_ELEMENT; PREFIX_BYTES];
    head[1..HEAD_BYTES].copy_from_slice(&namespace.to_be_bytes());
    head[HEAD_BYTES..].copy_from_slice(&cid.to_be_bytes());
    head
}

/// Kind byte of expiry index records. The highest kind: such records come last in a table.
pub(crate) const KIND_EXPIRY: u8 = b'T';

/// Bytes before the user's key in the engine key of a root record.
pub(crate) const HEAD_BYTES: usize = 9;

/// The head of a root record's engine key.
#[inline]
#[must_use]
pub(crate) fn root_head(namespace: u64) -> [u8; HEAD_BYTES] {
    let mut head = [KIND_ROOT; HEAD_BYTES];
    head[1..].copy_from_slice(&namespace.to_be_bytes());
    head
}

/// What an engine key, the name of a record in memtables and tables, says. The one place that knows how such keys are
/// laid out (engine/FORMAT.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineKey<'a> {
    /// `R | namespace (8) | user's key`.
    Root { namespace: u64, key: &'a [u8] },
    /// `E | namespace (8) | collection (8) | letter of the part | name of the page`.
    Element { namespace: u64, cid: u64, part: u8, page: &'a [u8] },
    /// `T | due time in ms (8) | engine key of the root record`.
    Expiry { due_ms: u64, root: &'a [u8] },
}

impl<'a> EngineKey<'a> {
    /// `None` for what is too short, or of another kind.
    #[inline]
    #[must_use]
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[kind, ref number @ ..], rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let number = u64::from_be_bytes(*number);
        match kind {
            KIND_ROOT => Some(Self::Root { namespace: number, key: rest }),
            KIND_ELEMENT => {
                let (cid, rest) = rest.split_first_chunk()?;
                let (&part, page) = rest.split_first()?;
                Some(Self::Element { namespace: number, cid: u64::from_be_bytes(*cid), part, page })
            }
            KIND_EXPIRY => Some(Self::Expiry { due_ms: number, root: rest }),
            _ => None,
        }
    }

    /// Namespace and user's key of a root record; `None` for other kinds.
    #[inline]
    #[must_use]
    pub(crate) fn parse_root(bytes: &'a [u8]) -> Option<(u64, &'a [u8])> {
        match Self::parse(bytes)? {
            Self::Root { namespace, key } => Some((namespace, key)),
            Self::Expiry { .. } | Self::Element { .. } => None,
        }
    }

    /// Due time and root key of an expiry index record; `None` for other kinds.
    #[inline]
    #[must_use]
    pub(crate) fn parse_expiry(bytes: &'a [u8]) -> Option<(u64, &'a [u8])> {
        match Self::parse(bytes)? {
            Self::Expiry { due_ms, root } => Some((due_ms, root)),
            Self::Root { .. } | Self::Element { .. } => None,
        }
    }

    /// The namespace that a record of any kind belongs to, if its key is long enough to name one.
    #[inline]
    #[must_use]
    pub(crate) fn namespace_of(bytes: &[u8]) -> Option<u64> {
        let root = if Self::is_expiry(bytes) { bytes.get(HEAD_BYTES..)? } else { bytes };
        Some(u64::from_be_bytes(root.get(1..HEAD_BYTES)?.try_into().ok()?))
    }

    /// True for keys of the expiry index.
    #[inline]
    #[must_use]
    pub(crate) fn is_expiry(bytes: &[u8]) -> bool {
        bytes.first() == Some(&KIND_EXPIRY)
    }

    /// True for keys of root records.
    #[inline]
    #[must_use]
    pub(crate) fn is_root(bytes: &[u8]) -> bool {
        bytes.first() == Some(&KIND_ROOT)
    }

    /// True for keys of elements, and for the prefix of a collection.
    #[inline]
    #[must_use]
    pub(crate) fn is_element(bytes: &[u8]) -> bool {
        bytes.first() == Some(&KIND_ELEMENT)
    }

    /// The prefix of the collection that an element belongs to; `None` for other keys, and for a prefix itself.
    #[inline]
    #[must_use]
    pub(crate) fn prefix_of(bytes: &[u8]) -> Option<&[u8]> {
        if !Self::is_element(bytes) || bytes.len() == PREFIX_BYTES {
            return None;
        }
        bytes.get(..PREFIX_BYTES)
    }

    /// A key above all keys of the collection, and below all others that are above them, if this is a prefix.
    #[inline]
    #[must_use]
    pub(crate) fn end_of_prefix(bytes: &[u8]) -> Option<[u8; PREFIX_BYTES + 1]> {
        if !Self::is_element(bytes) {
            return None;
        }
        let prefix: &[u8; PREFIX_BYTES] = bytes.try_into().ok()?;
        let mut end = [ABOVE_PARTS; PREFIX_BYTES + 1];
        end[..PREFIX_BYTES].copy_from_slice(prefix);
        Some(end)
    }

    /// The last key that a grave of `bytes`, or of a key before it, can cover.
    #[must_use]
    pub(crate) fn reach(bytes: &[u8]) -> Cow<'_, [u8]> {
        let prefix = Self::prefix_of(bytes).unwrap_or(bytes);
        Self::end_of_prefix(prefix).map_or(Cow::Borrowed(bytes), |end| Cow::Owned(end.to_vec()))
    }

    /// Puts the key into `out`, in place of what is there.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        out.clear();
        match *self {
            Self::Root { namespace, key } => {
                out.extend_from_slice(&root_head(namespace));
                out.extend_from_slice(key);
            }
            Self::Element { namespace, cid, part, page } => {
                out.extend_from_slice(&element_head(namespace, cid));
                out.push(part);
                out.extend_from_slice(page);
            }
            Self::Expiry { due_ms, root } => {
                out.push(KIND_EXPIRY);
                out.extend_from_slice(&due_ms.to_be_bytes());
                out.extend_from_slice(root);
            }
        }
    }
}

/// Hash of a user's key, which [`Key::hash`] carries; constant for the life of the process.
/// Its bits 58 to 63 choose the shard, 40 to 55 are the tag in the DRAM table, and the low ones
/// choose the bucket.
///
/// The seed is drawn at process start, so that knowing this code does not help to choose keys that
/// collide in one bucket or shard. Nothing on a device depends on it: filters have a hash of their own.
#[inline]
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    static SEEDED: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);
    SEEDED.hash_one(bytes)
}

/// The first eight bytes, big endian, zeros behind a shorter key: words are in the order of their keys.
#[inline]
pub(crate) fn first_word(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(chunk)
        }
    }
}

/// The hash of a user's key for a hash table that holds keys of one shard only. Such a table tells the items of a group
/// apart by the seven uppermost bits, of which six are the number of the shard: without others in them half of all items
/// would be looked at.
#[inline]
#[must_use]
pub(crate) fn hash_in_shard(hash: u64) -> u64 {
    hash ^ hash << 7
}

/// What the engine stores beside a value and never interprets, except for the expiry time, [`Meta::is_paged`] and
/// [`Meta::has_due_elements`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Type and encoding bits of the layer above; the low five bits are stored.
    pub flags: u8,
    /// Absolute expiry in milliseconds since the epoch; 0 stands for none.
    pub expire_at_ms: u64,
}

impl Meta {
    /// The flags of the layer above.
    pub(crate) const FLAGS_MASK: u8 = 0x1f;
    /// Set beside the type of a collection, 1 to 6 or [`Meta::DUE_ELEMENTS`], whose value is the descriptor of its pages.
    pub const PAGED: u8 = 0x10;
    /// The type whose values say when the first of their elements is due, in eight bytes, little endian.
    pub const DUE_ELEMENTS: u8 = 7;
    /// Where they say so: a value that is stored whole in its record, and the descriptor of pages.
    const ELEMENTS_DUE_AT: usize = 6;
    const PAGED_ELEMENTS_DUE_AT: usize = 28;
    /// Set beside the flags of a tombstone: the record says that its key has no value
    /// (`deletes = tombstones` only, engine/DESIGN.md, "Paper mode").
    const TOMBSTONE: u8 = 0x80;

    /// What a tombstone carries.
    #[must_use]
    pub(crate) fn tombstone() -> Self {
        Self { flags: Self::TOMBSTONE, expire_at_ms: 0 }
    }

    /// True for a tombstone.
    #[must_use]
    #[inline]
    pub fn is_tombstone(&self) -> bool {
        self.flags & Self::TOMBSTONE != 0
    }

    /// True when the value is the descriptor of a collection that is stored in pages.
    #[must_use]
    #[inline]
    pub fn is_paged(&self) -> bool {
        self.flags & Self::PAGED != 0 && matches!(self.flags & 0xf, 1..=6 | Self::DUE_ELEMENTS)
    }

    /// True when elements of the value may have due times of their own, the earliest of which is in it
    /// ([`Meta::due_ms`]).
    #[must_use]
    #[inline]
    pub fn has_due_elements(&self) -> bool {
        self.flags & 0xf == Self::DUE_ELEMENTS && self.flags & Self::TOMBSTONE == 0
    }

    /// True for a key that may be due some day: it has an expiry, or its value elements with due times.
    #[must_use]
    #[inline]
    pub fn may_be_due(&self) -> bool {
        self.expire_at_ms != 0 || self.has_due_elements()
    }

    /// When a key with this value must be looked at: at its expiry, or when the first of its elements is due; 0 for
    /// never.
    #[must_use]
    #[inline]
    pub fn due_ms(&self, value: &[u8]) -> u64 {
        if !self.has_due_elements() {
            return self.expire_at_ms;
        }
        let at = if self.is_paged() { Self::PAGED_ELEMENTS_DUE_AT } else { Self::ELEMENTS_DUE_AT };
        let elements_ms = value
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        match (self.expire_at_ms, elements_ms) {
            (0, ms) | (ms, 0) => ms,
            (key_ms, elements_ms) => key_ms.min(elements_ms),
        }
    }

    /// True when the time of the key, or of an element of it, has come at `now_ms`.
    #[must_use]
    #[inline]
    pub fn is_due(&self, value: &[u8], now_ms: u64) -> bool {
        let due_ms = self.due_ms(value);
        due_ms != 0 && due_ms <= now_ms
    }

    /// True when the value has an expiry time at or before `now_ms`.
    #[must_use]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expire_at_ms != 0 && self.expire_at_ms <= now_ms
    }
}

#[cfg(test)]
mod tests {
    use super::{EngineKey, element_head, hash};
    use std::process::Command;

    #[test]
    fn engine_keys_are_parsed_as_they_are_encoded() {
        let mut root = Vec::new();
        for (namespace, key) in [(0, &b""[..]), (7, b"key"), (u64::MAX, b"\0\xff")] {
            let parsed = EngineKey::Root { namespace, key };
            parsed.encode_into(&mut root);
            assert_eq!(EngineKey::parse(&root), Some(parsed));
            assert_eq!(EngineKey::parse_root(&root), Some((namespace, key)));
            assert_eq!(EngineKey::namespace_of(&root), Some(namespace));
            let mut expiry = vec![1, 2, 3];
            let parsed = EngineKey::Expiry { due_ms: 1 << 40, root: &root };
            parsed.encode_into(&mut expiry);
            assert_eq!(EngineKey::parse(&expiry), Some(parsed));
            assert_eq!(EngineKey::parse_root(&expiry), None);
            assert_eq!(EngineKey::namespace_of(&expiry), Some(namespace), "that of its root");
            assert!(root < expiry, "the index comes last");
        }
        for strange in [&b""[..], b"R1234567", b"T12345678", b"X12345678key"] {
            assert_eq!(EngineKey::parse_root(strange), None);
        }
        assert_eq!(EngineKey::namespace_of(b"T12345678"), None, "it names no root");
    }

    #[test]
    fn elements_come_before_roots_and_belong_to_their_prefix() {
        let (mut key, mut root) = (Vec::new(), Vec::new());
        EngineKey::Root { namespace: 0, key: b"" }.encode_into(&mut root);
        for (cid, part, page) in [(0, b'h', &[0; 4][..]), (7, b's', &[9; 8]), (u64::MAX, b'x', b"")]
        {
            let parsed = EngineKey::Element { namespace: 5, cid, part, page };
            parsed.encode_into(&mut key);
            assert_eq!(EngineKey::parse(&key), Some(parsed));
            assert_eq!(EngineKey::parse_root(&key), None);
            assert_eq!(EngineKey::namespace_of(&key), Some(5));
            assert!(key < root && EngineKey::is_element(&key));
            let prefix = element_head(5, cid);
            assert_eq!(EngineKey::prefix_of(&key), Some(&prefix[..]));
            assert_eq!(EngineKey::prefix_of(&prefix), None);
            assert_eq!(EngineKey::end_of_prefix(&key), None);
            let end = EngineKey::end_of_prefix(&prefix).unwrap();
            assert!(prefix[..] < key[..] && key[..] < end[..]);
            assert!(cid == u64::MAX || end[..] < element_head(5, cid + 1)[..]);
            assert_eq!(*EngineKey::reach(&key), end[..]);
            assert_eq!(*EngineKey::reach(&prefix), end[..]);
        }
        assert_eq!(*EngineKey::reach(&root), root[..]);
        assert_eq!(EngineKey::parse(&element_head(5, 1)), None, "a prefix names no record");
    }

    #[test]
    fn a_value_is_due_with_its_key_or_with_the_first_of_its_elements() {
        let value = |ms: u64| [&[1, 2, 3, 0, 0, 0][..], &ms.to_le_bytes(), b"rest"].concat();
        for (flags, key_ms, elements_ms, due_ms) in [
            (4, 0, 50, 0),
            (4, 70, 50, 70),
            (7, 0, 50, 50),
            (7, 70, 50, 50),
            (7, 30, 50, 30),
            (7, 30, 0, 30),
            (7, 0, 0, 0),
        ] {
            let meta = super::Meta { flags, expire_at_ms: key_ms };
            assert_eq!(meta.due_ms(&value(elements_ms)), due_ms, "{meta:?} {elements_ms}");
            assert!(!meta.is_due(&value(elements_ms), due_ms.saturating_sub(1)));
            assert_eq!(meta.is_due(&value(elements_ms), due_ms), due_ms != 0);
        }
        let meta = super::Meta { flags: 7, expire_at_ms: 9 };
        assert_eq!(meta.due_ms(b"short"), 9, "a value that is not there");
        let paged = super::Meta { flags: 7 | super::Meta::PAGED, expire_at_ms: 0 };
        assert!(paged.is_paged() && paged.may_be_due() && !meta.is_paged());
        let descriptor = crate::page::Descriptor {
            encoding: 2,
            flags: 0,
            collection: 1,
            totals: crate::page::Totals { elements: 2, bytes: 3 },
            expire_at_ms: 50,
            seed: 4,
            parts: Default::default(),
            tail: Vec::new(),
        };
        assert_eq!(paged.due_ms(&descriptor.encoded()), 50);
    }

    /// Says its hash to whoever runs this test alone.
    #[test]
    fn the_hash_stays_the_same_for_the_life_of_the_process() {
        let first = hash(b"key");
        println!("hash of this process: {first:016x}");
        assert_eq!(std::thread::spawn(|| hash(b"key")).join().unwrap(), first);
        assert_ne!(hash(b"kez"), first);
    }

    #[test]
    fn the_seed_is_another_one_in_every_process() {
        let said = || {
            let test = "key::tests::the_hash_stays_the_same_for_the_life_of_the_process";
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", test, "--nocapture"])
                .output()
                .unwrap();
            let text = String::from_utf8(child.stdout).unwrap();
            text.lines().find(|line| line.contains("hash of this process")).unwrap().to_owned()
        };
        assert_ne!(said(), said());
    }
}
