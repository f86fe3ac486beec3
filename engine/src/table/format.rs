//! Constants of the table format and the framing of blocks (see `engine/FORMAT.md`).

use crate::error::{TableError, TableResult};
use crate::key::Seq;
use std::cell::RefCell;
use std::io;
use std::path::Path;

/// Version of the table format.
pub const TABLE_VERSION: u32 = 2;
/// Highest sequence an entry can carry: eight bits of its tag are taken.
pub const SEQ_MAX: Seq = (1 << 56) - 1;

pub(super) const TABLE_MAGIC: [u8; 8] = *b"SXTABLE1";
pub(super) const FOOTER_BYTES: usize = 64;
/// Type byte and checksum behind each payload.
pub(super) const TRAILER_BYTES: usize = 5;
/// Entries between two whole keys.
pub(super) const RESTART_INTERVAL: u32 = 16;
/// Longest key or value: 512 MiB and room for the engine's prefix.
pub(super) const ENTRY_PART_BYTES_MAX: usize = crate::key::VALUE_MAX_BYTES as usize + 64;
/// LZ4 cannot expand by more than this factor; a claim above it is false.
const LZ4_RATIO_MAX: usize = 255;
/// Limit for zstd: a block of 128 KiB takes at least four bytes.
const ZSTD_RATIO_MAX: usize = (128 << 10) / 4;

thread_local! {
    /// Its working memory is not small, so it is kept.
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Type byte of a frame.
pub(super) const FRAME_RAW: u8 = 0;
/// Type byte of a frame compressed with LZ4.
pub(super) const FRAME_LZ4: u8 = 1;
/// Type byte of a frame compressed with zstd.
pub(super) const FRAME_ZSTD: u8 = 2;

/// CRC-32C.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

pub(super) fn get_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(super) fn get_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Builds the error for a failed check.
#[cold]
pub(super) fn corrupt(
    file: &Path,
    offset: u64,
    what: &'static str,
    expected: u64,
    got: u64,
) -> TableError {
    TableError::Corrupt { file: file.to_path_buf(), offset, what, expected, got }
}

/// Appends type byte and checksum to the payload that starts at `start` of `out`.
pub(super) fn close_frame(out: &mut Vec<u8>, start: usize, frame_type: u8) {
    out.push(frame_type);
    let crc = crc32c(&out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Checks a frame's checksum and splits it into payload and type.
pub(super) fn open_frame<'a>(
    frame: &'a [u8],
    file: &Path,
    offset: u64,
) -> TableResult<(&'a [u8], u8)> {
    let Some(payload_len) = frame.len().checked_sub(TRAILER_BYTES) else {
        return Err(corrupt(file, offset, "frame too short", 5, frame.len() as u64));
    };
    let (body, stored) = frame.split_at(payload_len + 1);
    let stored = get_u32(stored, 0).unwrap_or_default();
    let computed = crc32c(body);
    if stored != computed {
        return Err(corrupt(file, offset, "block checksum", u64::from(stored), computed.into()));
    }
    Ok((&body[..payload_len], body[payload_len]))
}

/// Decompresses the payload of a frame of a compressed type into `out`, whose old content goes. What it
/// held is not cleared first: the decoder writes every byte or fails.
pub(super) fn decompress(
    frame_type: u8,
    payload: &[u8],
    out: &mut Vec<u8>,
    file: &Path,
    offset: u64,
) -> TableResult<()> {
    let ratio_max = match frame_type {
        FRAME_LZ4 => LZ4_RATIO_MAX,
        FRAME_ZSTD => ZSTD_RATIO_MAX,
        other => {
            let at = offset + payload.len() as u64;
            return Err(corrupt(file, at, "frame type", FRAME_ZSTD.into(), other.into()));
        }
    };
    let Some(raw_len) = get_u32(payload, 0) else {
        return Err(corrupt(file, offset, "length before compression", 4, payload.len() as u64));
    };
    let raw_len = raw_len as usize;
    let packed = &payload[4..];
    let max = packed.len().saturating_mul(ratio_max).saturating_add(64);
    if raw_len > max {
        return Err(corrupt(file, offset, "length before compression", max as u64, raw_len as u64));
    }
    out.resize(raw_len, 0);
    let unpacked = match frame_type {
        FRAME_LZ4 => lz4_flex::block::decompress_into(packed, out).ok(),
        _ => unzstd(packed, out).ok(),
    };
    match unpacked {
        Some(n) if n == raw_len => Ok(()),
        Some(n) => Err(corrupt(file, offset, "length of a block", raw_len as u64, n as u64)),
        None => Err(corrupt(file, offset, "compressed block", raw_len as u64, 0)),
    }
}

fn unzstd(packed: &[u8], out: &mut [u8]) -> io::Result<usize> {
    ZSTD.with_borrow_mut(|decompressor| {
        let decompressor = match decompressor {
            Some(decompressor) => decompressor,
            None => decompressor.insert(zstd::bulk::Decompressor::new()?),
        };
        decompressor.decompress_to_buffer(packed, out)
    })
}
