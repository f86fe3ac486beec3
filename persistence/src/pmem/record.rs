//! One record as stored in a chunk (`FORMAT.md`, "Record").

use super::position::PmemPosition;
use crate::checksum::{Crc32c, crc32c};

/// Bytes before the key.
pub const RECORD_HEADER_BYTES: usize = 32;

/// Kind of a record that holds the version of a key.
pub const KIND_PUT: u8 = 1;
/// Kind of a record that says that a key was deleted: an entry of a grave list.
pub const KIND_DELETE: u8 = 2;
/// Highest kind that there may be; those above [`KIND_DELETE`] mean what the engine likes.
pub const KIND_MAX: u8 = 15;

/// The two lists of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// What a memtable holds and a flush writes.
    Versions,
    /// Deletes, and what else is only for recovery.
    Graves,
}

impl List {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Versions, Self::Graves];

    pub(super) fn index(self) -> usize {
        usize::from(self.code()) - 1
    }

    /// Its number in a chunk header.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Versions => 1,
            Self::Graves => 2,
        }
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.code() == code)
    }
}

/// A record to be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRecord<'a> {
    /// Sequence of the operation, above all that this writer has appended to the list.
    pub seq: u64,
    /// [`KIND_PUT`], [`KIND_DELETE`], or up to [`KIND_MAX`] the engine's own.
    pub kind: u8,
    /// The engine's flags.
    pub flags: u8,
    /// The engine's: expiry in milliseconds, or 0.
    pub aux: u64,
    /// The next sequence belongs to this commit, too: recovery keeps both or neither.
    pub more: bool,
    /// The key in two parts (kind and namespace id, then the user's bytes).
    pub key: (&'a [u8], &'a [u8]),
    /// The value.
    pub value: &'a [u8],
}

/// A record as it was read; key and value are borrowed from the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Sequence of the operation.
    pub seq: u64,
    /// As it was given.
    pub kind: u8,
    /// As they were given.
    pub flags: u8,
    /// As it was given.
    pub aux: u64,
    /// The next sequence belongs to this commit, too.
    pub more: bool,
    /// The key, in one piece.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl Record<'_> {
    /// Where it begins. Key and value are borrowed from the mapping, where the key follows the header.
    #[must_use]
    pub fn position(&self) -> PmemPosition {
        PmemPosition::new(self.key.as_ptr().wrapping_sub(RECORD_HEADER_BYTES))
    }
}

/// Room that a record takes, padding included, in bytes.
#[must_use]
pub fn encoded_len(key_len: usize, value_len: usize) -> usize {
    (RECORD_HEADER_BYTES + key_len + value_len).next_multiple_of(8)
}

/// Longest key or value, in bytes: lengths have 32 bits, and a sum of two must not wrap.
pub const LENGTH_MAX: usize = 1 << 30;

const FIRST_OF_BATCH: u8 = 1;
const MORE_OF_COMMIT: u8 = 2;
/// Offset of the checksum in the header.
const CRC_AT: usize = 28;

/// What the checksum of the records of a chunk starts from: other chunks' records are not valid in it.
#[must_use]
pub(super) fn seed(pool_id: u64, use_number: u64) -> u32 {
    let mixed = use_number ^ (use_number >> 32) ^ pool_id ^ (pool_id >> 32);
    (mixed & u64::from(u32::MAX)) as u32
}

impl NewRecord<'_> {
    /// Its length in a chunk.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        encoded_len(self.key.0.len() + self.key.1.len(), self.value.len())
    }

    /// All of the record with its padding, behind what is in `into`. One checksum over one piece: several are
    /// dear for a small record.
    pub(super) fn encode(&self, seed: u32, first_of_batch: bool, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(&self.seeded_header(seed, first_of_batch));
        for part in [self.key.0, self.key.1, self.value] {
            into.extend_from_slice(part);
        }
        let crc = crc32c(&into[start..]);
        into[start + CRC_AT..start + RECORD_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        into.resize(start + self.encoded_len(), 0);
    }

    /// Header with the checksum over all of the record.
    pub(super) fn header(&self, seed: u32, first_of_batch: bool) -> [u8; RECORD_HEADER_BYTES] {
        let mut header = self.seeded_header(seed, first_of_batch);
        let mut crc = Crc32c::new();
        for part in [&header[..], self.key.0, self.key.1, self.value] {
            crc.update(part);
        }
        header[CRC_AT..].copy_from_slice(&crc.finish().to_le_bytes());
        header
    }

    /// Header with the seed in the place of the checksum.
    fn seeded_header(&self, seed: u32, first_of_batch: bool) -> [u8; RECORD_HEADER_BYTES] {
        let mut header = [0; RECORD_HEADER_BYTES];
        header[0..8].copy_from_slice(&self.seq.to_le_bytes());
        header[8..16].copy_from_slice(&self.aux.to_le_bytes());
        let key_len = self.key.0.len() + self.key.1.len();
        header[16..20].copy_from_slice(&(key_len as u32).to_le_bytes());
        header[20..24].copy_from_slice(&(self.value.len() as u32).to_le_bytes());
        header[24] = self.flags;
        header[26] = self.kind;
        header[27] =
            u8::from(first_of_batch) * FIRST_OF_BATCH + u8::from(self.more) * MORE_OF_COMMIT;
        header[CRC_AT..].copy_from_slice(&seed.to_le_bytes());
        header
    }
}

/// What a header says, before anything of it was checked but the lengths.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) seq: u64,
    pub(super) first_of_batch: bool,
    pub(super) more: bool,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) aux: u64,
    key_len: usize,
    value_len: usize,
    crc: u32,
}

impl Header {
    /// Reads the header at the start of `bytes`; `None` when there can be no record here: nothing but
    /// the lengths and the fixed values decides.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let header = Self::parse(bytes.first_chunk()?)?;
        (header.len() <= bytes.len()).then_some(header)
    }

    fn parse(header: &[u8; RECORD_HEADER_BYTES]) -> Option<Self> {
        let u64_at =
            |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap_or_default());
        let u32_at =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap_or_default());
        let (kind, bits) = (header[26], header[27]);
        let read = Self {
            seq: u64_at(0),
            first_of_batch: bits & FIRST_OF_BATCH != 0,
            more: bits & MORE_OF_COMMIT != 0,
            kind,
            flags: header[24],
            aux: u64_at(8),
            key_len: u32_at(16) as usize,
            value_len: u32_at(20) as usize,
            crc: u32_at(CRC_AT),
        };
        let sane = (1..=super::control::SEQ_MAX).contains(&read.seq)
            && (1..=KIND_MAX).contains(&kind)
            && header[25] == 0
            && bits & !(FIRST_OF_BATCH | MORE_OF_COMMIT) == 0
            && read.key_len <= LENGTH_MAX
            && read.value_len <= LENGTH_MAX;
        sane.then_some(read)
    }

    /// Length of the record.
    pub(super) fn len(&self) -> usize {
        encoded_len(self.key_len, self.value_len)
    }

    /// True when the checksum of the record at the start of `bytes` is right, and its padding zero.
    pub(super) fn verify(&self, bytes: &[u8], seed: u32) -> bool {
        let body_end = RECORD_HEADER_BYTES + self.key_len + self.value_len;
        let mut crc = Crc32c::new();
        crc.update(&bytes[..CRC_AT]);
        crc.update(&seed.to_le_bytes());
        crc.update(&bytes[RECORD_HEADER_BYTES..body_end]);
        crc.finish() == self.crc && bytes[body_end..self.len()].iter().all(|byte| *byte == 0)
    }

    /// The record whose header this is, at the start of `bytes`.
    pub(super) fn record<'a>(&self, bytes: &'a [u8]) -> Record<'a> {
        let (key, rest) = bytes[RECORD_HEADER_BYTES..].split_at(self.key_len);
        Record {
            seq: self.seq,
            kind: self.kind,
            flags: self.flags,
            aux: self.aux,
            more: self.more,
            key,
            value: &rest[..self.value_len],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_in_one_piece_is_the_same_as_in_parts() {
        let mut batch = vec![7; 10];
        for (key_len, value_len) in [(0, 0), (9, 0), (17, 1), (25, 64), (300, 1000)] {
            let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
            let key = key.split_at(key_len / 3);
            let record = NewRecord {
                seq: 5,
                kind: KIND_PUT,
                flags: 2,
                aux: 9,
                more: true,
                key,
                value: &value,
            };
            let start = batch.len();
            record.encode(77, true, &mut batch);
            let whole = &batch[start..];
            let mut parts = [&record.header(77, true)[..], key.0, key.1, &value].concat();
            parts.resize(record.encoded_len(), 0);
            assert_eq!(whole, parts);
            let header = Header::read(whole).expect("a record");
            assert!(header.verify(whole, 77) && !header.verify(whole, 78));
        }
    }
}
