//! One put record as stored in a memtable's arena.
//!
//! ```text
//! offset  0  seq            u64
//!         8  expire_at_ms   u64   0 = none
//!        16  key length     u32   engine key: kind, namespace id, user key
//!        20  value length   u32
//!        24  flags          u8
//!        25  height         u8    links of its tower in a skip list, 0 without; with 128: the value is shared, and
//!                                 the record holds the address of its block; then 6 bytes of zero
//!        32  tower: height * 8 bytes
//!            key, value, padding to a multiple of 8
//! ```
//! Little-endian. Records in persistent memory differ only in the bytes from 26 on (kind, commit, checksum:
//! `persistence/FORMAT.md`, "Record"), which memtables never read; there a height other than 0 is rejected.

#![allow(unsafe_code)]

use crate::key::{Meta, Seq};
use crate::shared_value::{self, ADDRESS_BYTES, SharedValue};

/// With a height: the value is stored elsewhere.
const SHARED: u8 = 0x80;

/// Bytes before the key.
pub(crate) const HEADER_BYTES: usize = 32;

/// Fields of a record, borrowed from its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Sequence of the put.
    pub(crate) seq: Seq,
    /// Flags and expiry.
    pub(crate) meta: Meta,
    /// Engine key.
    pub(crate) key: &'a [u8],
    stored: Stored<'a>,
}

/// Location of a record's value. A caller that asks only for keys does not read blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored<'a> {
    Here(&'a [u8]),
    Shared([u8; ADDRESS_BYTES]),
}

impl<'a> Record<'a> {
    /// Value.
    #[inline]
    pub(crate) fn value(&self) -> &'a [u8] {
        match self.stored {
            Stored::Here(value) => value,
            // SAFETY: the memtable that the record lies in, which `'a` borrows, holds a count of it. It does not change
            // any more: records are read as far as a barrier has shown them, which has ended the epoch of the block (E2).
            Stored::Shared(address) => unsafe { shared_value::bytes_at(address) },
        }
    }
}

/// Room a record takes, padding included.
#[must_use]
pub(crate) fn encoded_len(key_len: usize, value_len: usize) -> usize {
    (HEADER_BYTES + key_len + value_len).next_multiple_of(8)
}

/// Writes a record whose key is given in two parts (kind and namespace id, then the user's bytes)
/// into `out`, which is exactly `encoded_len` bytes.
pub(crate) fn encode(out: &mut [u8], seq: Seq, meta: Meta, key: (&[u8], &[u8]), value: &[u8]) {
    let key_len = key.0.len() + key.1.len();
    debug_assert_eq!(out.len(), encoded_len(key_len, value.len()));
    let (header, rest) = out.split_at_mut(HEADER_BYTES);
    header.copy_from_slice(&header_of(seq, meta, key_len, value.len()));
    let (head, rest) = rest.split_at_mut(key.0.len());
    head.copy_from_slice(key.0);
    let (tail, rest) = rest.split_at_mut(key.1.len());
    tail.copy_from_slice(key.1);
    rest[..value.len()].copy_from_slice(value);
}

#[inline]
fn header_of(seq: Seq, meta: Meta, key_len: usize, value_len: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0..8].copy_from_slice(&seq.to_le_bytes());
    header[8..16].copy_from_slice(&meta.expire_at_ms.to_le_bytes());
    header[16..20].copy_from_slice(&(key_len as u32).to_le_bytes());
    header[20..24].copy_from_slice(&(value_len as u32).to_le_bytes());
    header[24..32].copy_from_slice(&u64::from(meta.flags).to_le_bytes());
    header
}

/// Puts the same record behind what is in `out`, without its sequence; answers its length.
pub(crate) fn append(out: &mut Vec<u8>, meta: Meta, key: (&[u8], &[u8]), value: &[u8]) -> usize {
    let key_len = key.0.len() + key.1.len();
    let (at, len) = (out.len(), encoded_len(key_len, value.len()));
    out.reserve(len);
    out.extend_from_slice(&header_of(0, meta, key_len, value.len()));
    for part in [key.0, key.1, value] {
        out.extend_from_slice(part);
    }
    out.resize(at + len, 0);
    len
}

/// [`append`] for a record as [`encode_shared`] makes it.
pub(crate) fn append_shared(
    out: &mut Vec<u8>,
    meta: Meta,
    key: (&[u8], &[u8]),
    value: &SharedValue,
) -> usize {
    let at = out.len();
    let len = append(out, meta, key, &value.address());
    out[at + 25] = SHARED;
    len
}

/// Encodes a record of `encoded_len(key length, ADDRESS_BYTES)` bytes that refers to its value. The memtable that
/// stores it holds a reference count of that value.
pub(crate) fn encode_shared(
    out: &mut [u8],
    seq: Seq,
    meta: Meta,
    key: (&[u8], &[u8]),
    value: &SharedValue,
) {
    encode(out, seq, meta, key, &value.address());
    out[25] = SHARED;
}

/// Stamps the sequence into a record encoded before its sequence was known.
pub(crate) fn stamp(encoded: &mut [u8], seq: Seq) {
    encoded[0..8].copy_from_slice(&seq.to_le_bytes());
}

/// Copies an encoded record into `out`, leaving room for a tower of `height` links.
pub(crate) fn copy_with_tower(out: &mut [u8], encoded: &[u8], height: usize, link_bytes: usize) {
    let (head, rest) = out.split_at_mut(HEADER_BYTES);
    head.copy_from_slice(&encoded[..HEADER_BYTES]);
    head[25] = height as u8 | encoded[25] & SHARED;
    rest[height * link_bytes..].copy_from_slice(&encoded[HEADER_BYTES..]);
}

/// Height of the tower and bytes of key and value, from a header.
#[must_use]
pub(super) fn extent(header: &[u8; HEADER_BYTES]) -> (usize, usize) {
    let key_len = u32_at(header, 16) as usize;
    let value_len = u32_at(header, 20) as usize;
    (usize::from(header[25] & !SHARED), key_len + value_len)
}

/// The record of a header and of the key and value that it describes.
#[must_use]
pub(super) fn assemble<'a>(header: &[u8; HEADER_BYTES], body: &'a [u8]) -> Record<'a> {
    let (key, value) = body.split_at(u32_at(header, 16) as usize);
    let meta = Meta { flags: header[24], expire_at_ms: u64_at(header, 8) };
    let stored = match value.first_chunk::<ADDRESS_BYTES>() {
        Some(address) if header[25] & SHARED != 0 => Stored::Shared(*address),
        _ => Stored::Here(value),
    };
    Record { seq: u64_at(header, 0), meta, key, stored }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// Reads the record without a tower at the start of `bytes`; returns it and its encoded length.
#[must_use]
pub(crate) fn decode(bytes: &[u8]) -> (Record<'_>, usize) {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().expect("a whole header");
    let (height, body_len) = extent(header);
    debug_assert_eq!(height, 0);
    (assemble(header, &rest[..body_len]), (HEADER_BYTES + body_len).next_multiple_of(8))
}
