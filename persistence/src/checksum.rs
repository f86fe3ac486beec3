//! Checksums: crc32c for everything of our own, Redis' CRC-64 for RDB files.

use crc_fast::{CrcAlgorithm, CrcParams};

/// CRC-32C (Castagnoli, CRC-32/ISCSI) of `bytes`: log groups, manifest records, table blocks.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// A running CRC-32C over pieces that are not contiguous in memory.
#[derive(Debug)]
pub struct Crc32c(crc_fast::Digest);

impl Crc32c {
    /// Starts an empty checksum.
    #[must_use]
    pub fn new() -> Self {
        Self(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of everything added so far.
    #[must_use]
    pub fn finish(&self) -> u32 {
        // The upper half of a 32-bit digest is zero.
        (self.0.finalize() & u64::from(u32::MAX)) as u32
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

/// A running CRC-64 as Redis puts it at the end of an RDB file and a DUMP payload ("Jones"
/// polynomial, reflected, initial value and final exclusive-or zero).
#[derive(Debug)]
pub struct Crc64(crc_fast::Digest);

impl Crc64 {
    /// Starts an empty checksum.
    #[must_use]
    pub fn new() -> Self {
        let params = CrcParams::new(
            "CRC-64/REDIS",
            64,
            0xad93_d235_94c9_35a9,
            0,
            true,
            0,
            0xe9c6_d914_c4b8_d9ca,
        );
        Self(crc_fast::Digest::new_with_params(params))
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of everything added so far.
    #[must_use]
    pub fn finish(&self) -> u64 {
        self.0.finalize()
    }
}

impl Default for Crc64 {
    fn default() -> Self {
        Self::new()
    }
}

/// Redis' CRC-64 of `bytes`.
#[must_use]
pub fn crc64(bytes: &[u8]) -> u64 {
    let mut crc = Crc64::new();
    crc.update(bytes);
    crc.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table-free definition, bit by bit, to compare against.
    fn crc_by_bits(bytes: &[u8], reflected_polynomial: u64, initial: u64) -> u64 {
        bytes.iter().fold(initial, |crc, byte| {
            (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
                (crc >> 1) ^ if crc & 1 == 1 { reflected_polynomial } else { 0 }
            })
        })
    }

    #[test]
    fn check_values_of_the_catalogue() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn agree_with_the_bitwise_definition_at_every_length() {
        let bytes: Vec<u8> =
            (0..1100_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for len in (0..300).chain([511, 512, 513, 1023, 1024, 1100]) {
            let part = &bytes[..len];
            let by_bits = crc_by_bits(part, 0x82f6_3b78, 0xffff_ffff) as u32 ^ 0xffff_ffff;
            assert_eq!(crc32c(part), by_bits, "crc32c of {len} bytes");
            let redis = 0xad93_d235_94c9_35a9_u64.reverse_bits();
            assert_eq!(crc64(part), crc_by_bits(part, redis, 0), "crc64 of {len} bytes");
        }
    }

    #[test]
    fn pieces_give_the_same_as_the_whole() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for cut in [0, 1, 7, 64, 1000, 4999, 5000] {
            let (mut short, mut long) = (Crc32c::new(), Crc64::new());
            for piece in [&bytes[..cut], &bytes[cut..]] {
                short.update(piece);
                long.update(piece);
            }
            assert_eq!(short.finish(), crc32c(&bytes));
            assert_eq!(long.finish(), crc64(&bytes));
        }
    }
}
