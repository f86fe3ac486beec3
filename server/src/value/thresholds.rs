//! Where collections change their encoding.

use sexton_config::Options;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Sizes up to which a collection has its compact encoding.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// `hash-max-listpack-entries`.
    pub hash_entries: u64,
    /// `hash-max-listpack-value`, in bytes.
    pub hash_value_bytes: u64,
    /// `set-max-intset-entries`.
    pub intset_entries: u64,
    /// `zset-max-listpack-entries`.
    pub sorted_set_entries: u64,
    /// `zset-max-listpack-value`, in bytes.
    pub sorted_set_value_bytes: u64,
    /// `hll-sparse-max-bytes`.
    pub hyperloglog_sparse_bytes: u64,
    /// `stream-node-max-bytes`; 0 for no limit.
    pub stream_node_bytes: u64,
    /// `stream-node-max-entries`; 0 for no limit.
    pub stream_node_entries: u64,
    /// `collection-inline-max`: a longer collection is stored in pages.
    pub inline_bytes: u64,
}

impl Thresholds {
    /// Those of the configuration.
    #[must_use]
    pub fn of(options: &Options) -> Self {
        Self {
            hash_entries: options.hash_max_listpack_entries,
            hash_value_bytes: options.hash_max_listpack_value_bytes,
            intset_entries: options.set_max_intset_entries,
            sorted_set_entries: options.zset_max_listpack_entries,
            sorted_set_value_bytes: options.zset_max_listpack_value_bytes,
            hyperloglog_sparse_bytes: options.hll_sparse_max_bytes,
            stream_node_bytes: options.stream_node_max_bytes,
            stream_node_entries: options.stream_node_max_entries,
            inline_bytes: options.collection_inline_max_bytes,
        }
    }
}

/// Thresholds that every write reads and CONFIG SET changes. Those of one write may be old and new ones.
#[derive(Debug)]
pub struct SharedThresholds {
    hash_entries: AtomicU64,
    hash_value_bytes: AtomicU64,
    intset_entries: AtomicU64,
    sorted_set_entries: AtomicU64,
    sorted_set_value_bytes: AtomicU64,
    hyperloglog_sparse_bytes: AtomicU64,
    stream_node_bytes: AtomicU64,
    stream_node_entries: AtomicU64,
    inline_bytes: AtomicU64,
}

impl SharedThresholds {
    /// The current thresholds.
    #[must_use]
    pub fn now(&self) -> Thresholds {
        Thresholds {
            hash_entries: self.hash_entries.load(Relaxed),
            hash_value_bytes: self.hash_value_bytes.load(Relaxed),
            intset_entries: self.intset_entries.load(Relaxed),
            sorted_set_entries: self.sorted_set_entries.load(Relaxed),
            sorted_set_value_bytes: self.sorted_set_value_bytes.load(Relaxed),
            hyperloglog_sparse_bytes: self.hyperloglog_sparse_bytes.load(Relaxed),
            stream_node_bytes: self.stream_node_bytes.load(Relaxed),
            stream_node_entries: self.stream_node_entries.load(Relaxed),
            inline_bytes: self.inline_bytes(),
        }
    }

    /// Longest collection in one record, in bytes.
    #[inline]
    #[must_use]
    pub fn inline_bytes(&self) -> u64 {
        self.inline_bytes.load(Relaxed)
    }

    /// Replaces the thresholds.
    pub fn set(&self, thresholds: Thresholds) {
        self.hash_entries.store(thresholds.hash_entries, Relaxed);
        self.hash_value_bytes.store(thresholds.hash_value_bytes, Relaxed);
        self.intset_entries.store(thresholds.intset_entries, Relaxed);
        self.sorted_set_entries.store(thresholds.sorted_set_entries, Relaxed);
        self.sorted_set_value_bytes.store(thresholds.sorted_set_value_bytes, Relaxed);
        self.hyperloglog_sparse_bytes.store(thresholds.hyperloglog_sparse_bytes, Relaxed);
        self.stream_node_bytes.store(thresholds.stream_node_bytes, Relaxed);
        self.stream_node_entries.store(thresholds.stream_node_entries, Relaxed);
        self.inline_bytes.store(thresholds.inline_bytes, Relaxed);
    }
}

impl Default for SharedThresholds {
    /// The defaults of the configuration.
    fn default() -> Self {
        Self {
            hash_entries: AtomicU64::new(512),
            hash_value_bytes: AtomicU64::new(64),
            intset_entries: AtomicU64::new(512),
            sorted_set_entries: AtomicU64::new(128),
            sorted_set_value_bytes: AtomicU64::new(64),
            hyperloglog_sparse_bytes: AtomicU64::new(3000),
            stream_node_bytes: AtomicU64::new(4096),
            stream_node_entries: AtomicU64::new(100),
            inline_bytes: AtomicU64::new(2048),
        }
    }
}
