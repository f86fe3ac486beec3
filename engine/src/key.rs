//! Keys as commands name them, and the form they have inside the tree.

use std::hash::BuildHasher;
use std::sync::LazyLock;

/// The small number that stands for a namespace in memory. Slots are handed out by the engine;
/// a namespace id (never used again, decision N7) stands behind each.
pub type Slot = u8;

/// A sequence number: one per operation, never reused for another that may survive (rule I1).
pub type Seq = u64;

/// Longest key, in bytes. Bounds of tables, blocks and grave runs are whole keys: the manifest names two for each table,
/// and memory holds one for each block.
pub const KEY_MAX_BYTES: usize = 64 << 10;

/// What is said of a key of so many bytes that is not taken.
#[must_use]
pub fn key_too_long(bytes: usize) -> String {
    format!("key of {bytes} bytes, at most {KEY_MAX_BYTES} allowed")
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

/// Hash of a user's key: the one that [`Key::hash`] carries, the same for the life of the process.
/// Its bits 58 to 63 choose the shard, 40 to 55 are the tag in the DRAM table, and the low ones
/// choose the bucket.
///
/// The seed is drawn when the process starts, so that nobody who knows this code can choose keys that
/// meet in one bucket or shard. Nothing on a device depends on it: filters have a hash of their own.
#[inline]
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    static SEEDED: LazyLock<foldhash::fast::RandomState> = LazyLock::new(Default::default);
    SEEDED.hash_one(bytes)
}

/// What the engine stores beside a value and never interprets, except for the expiry time.
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

    /// True when the value has an expiry time at or before `now_ms`.
    #[must_use]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expire_at_ms != 0 && self.expire_at_ms <= now_ms
    }
}

#[cfg(test)]
mod tests {
    use super::hash;
    use std::process::Command;

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
