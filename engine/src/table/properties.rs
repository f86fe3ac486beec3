//! What is known of a table without reading its data.

use super::format::{get_u32, get_u64};
use crate::key::{EngineKey, Meta, Seq};
use std::sync::Arc;

/// Facts about a table, kept in the table and in the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Versions.
    pub entries: u64,
    /// Distinct keys.
    pub distinct_keys: u64,
    /// Smallest sequence of a version.
    pub min_seq: Seq,
    /// Largest sequence of a version.
    pub max_seq: Seq,
    /// Every grave at or below was applied in full when the table was written (rule C3).
    pub buried_through: Seq,
    /// Versions that carry an expiry time.
    pub expiring: u64,
    /// Earliest expiry, 0 when there is none.
    pub min_expire_ms: u64,
    /// Latest expiry, 0 when there is none.
    pub max_expire_ms: u64,
    /// Bytes of all keys before prefix compression.
    pub key_bytes: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
    /// Bytes of the data blocks in the file.
    pub data_bytes: u64,
    /// Smallest namespace id of a key; above `max_namespace` when no key has one.
    pub min_namespace: u64,
    /// Largest namespace id of a key.
    pub max_namespace: u64,
    /// Versions that are tombstones (`deletes = tombstones`).
    pub tombstones: u64,
    /// Smallest key.
    pub min_key: Box<[u8]>,
    /// Largest key.
    pub max_key: Box<[u8]>,
}

/// What the list of tables keeps about one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// File number, never used again.
    pub number: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// The table's properties.
    pub properties: Arc<Properties>,
}

/// Number of counters.
const NUMBERS: usize = 14;

impl Default for Properties {
    fn default() -> Self {
        Self {
            entries: 0,
            distinct_keys: 0,
            min_seq: Seq::MAX,
            max_seq: 0,
            buried_through: 0,
            expiring: 0,
            min_expire_ms: 0,
            max_expire_ms: 0,
            key_bytes: 0,
            value_bytes: 0,
            data_bytes: 0,
            min_namespace: u64::MAX,
            max_namespace: 0,
            tombstones: 0,
            min_key: Box::default(),
            max_key: Box::default(),
        }
    }
}

impl Properties {
    /// Counts one version. Key bounds and distinct keys are the builder's business.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], seq: Seq, meta: Meta, value_len: usize) {
        self.entries += 1;
        self.min_seq = self.min_seq.min(seq);
        self.max_seq = self.max_seq.max(seq);
        self.key_bytes += key.len() as u64;
        self.value_bytes += value_len as u64;
        if meta.expire_at_ms != 0 {
            let at = meta.expire_at_ms;
            self.min_expire_ms = if self.expiring == 0 { at } else { self.min_expire_ms.min(at) };
            self.max_expire_ms = self.max_expire_ms.max(at);
            self.expiring += 1;
        }
        self.tombstones += u64::from(meta.is_tombstone());
        if let Some(id) = EngineKey::namespace_of(key) {
            self.min_namespace = self.min_namespace.min(id);
            self.max_namespace = self.max_namespace.max(id);
        }
    }

    /// True when `key` is between the smallest and the largest key.
    #[must_use]
    #[inline]
    pub fn covers(&self, key: &[u8]) -> bool {
        *self.min_key <= *key && *key <= *self.max_key
    }

    /// True when no grave of `d` has anything to kill here: all is younger, or was written under it (C3, F2(b)).
    #[must_use]
    #[inline]
    pub fn is_past(&self, d: Seq) -> bool {
        self.min_seq > d || self.buried_through >= d
    }

    /// True when the table may hold records of a namespace that died at `d` (N7). Of its keys only the range is
    /// asked.
    #[must_use]
    pub fn may_hold_namespace(&self, id: u64, d: Seq) -> bool {
        self.min_namespace <= id && id <= self.max_namespace && !self.is_past(d)
    }

    /// True when some key could be in both this table and the closed range.
    #[must_use]
    pub fn overlaps(&self, min_key: &[u8], max_key: &[u8]) -> bool {
        *self.min_key <= *max_key && *min_key <= *self.max_key
    }

    /// Appends the encoded form.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for field in self.numbers() {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&(self.min_key.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.max_key.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.min_key);
        out.extend_from_slice(&self.max_key);
    }

    fn numbers(&self) -> [u64; NUMBERS] {
        [
            self.entries,
            self.distinct_keys,
            self.min_seq,
            self.max_seq,
            self.buried_through,
            self.expiring,
            self.min_expire_ms,
            self.max_expire_ms,
            self.key_bytes,
            self.value_bytes,
            self.data_bytes,
            self.min_namespace,
            self.max_namespace,
            self.tombstones,
        ]
    }

    /// Reads the encoded form, which must fill `bytes`; `None` when it does not fit.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut n = [0u64; NUMBERS];
        for (i, field) in n.iter_mut().enumerate() {
            *field = get_u64(bytes, i * 8)?;
        }
        let min_len = get_u32(bytes, NUMBERS * 8)? as usize;
        let max_len = get_u32(bytes, NUMBERS * 8 + 4)? as usize;
        let keys = bytes.get(NUMBERS * 8 + 8..)?;
        if keys.len() != min_len.checked_add(max_len)? {
            return None;
        }
        let (min_key, max_key) = keys.split_at(min_len);
        let sound = min_key <= max_key
            && n[2] <= n[3]
            && n[0] > 0
            && n[1] > 0
            && n[1] <= n[0]
            && n[13] <= n[0];
        sound.then(|| Self {
            entries: n[0],
            distinct_keys: n[1],
            min_seq: n[2],
            max_seq: n[3],
            buried_through: n[4],
            expiring: n[5],
            min_expire_ms: n[6],
            max_expire_ms: n[7],
            key_bytes: n[8],
            value_bytes: n[9],
            data_bytes: n[10],
            min_namespace: n[11],
            max_namespace: n[12],
            tombstones: n[13],
            min_key: min_key.into(),
            max_key: max_key.into(),
        })
    }
}
