//! BITCOUNT and BITPOS: bits of a part of a string.

use crate::dispatch::{Args, CommandError, CommandResult, Ctx};
use crate::keyspace::paged::{Stop, StringBytes, window};
use crate::number::parse_i64;
use std::ops::RangeInclusive;

const WORD_BYTES: usize = 8;

/// Bytes that BITPOS looks at together.
const STEP_BYTES: u64 = 256 << 10;

/// True for `BIT`, false for `BYTE`.
fn counts_bits(word: &[u8]) -> Result<bool, CommandError> {
    match word {
        _ if word.eq_ignore_ascii_case(b"BIT") => Ok(true),
        _ if word.eq_ignore_ascii_case(b"BYTE") => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}

fn int(args: Args<'_>, index: usize) -> Result<i64, CommandError> {
    parse_i64(args.get(index)).ok_or(CommandError::NotInteger)
}

/// The bits from `start` to `end`, where negative numbers count from the end: of bits, or of bytes.
fn bits(start: i64, end: i64, by_bit: bool, bytes: u64) -> Option<RangeInclusive<u64>> {
    let total = if by_bit { bytes as i64 * 8 } else { bytes as i64 };
    let from_start = |at: i64| if at < 0 { at.saturating_add(total).max(0) } else { at };
    let (start, end) = (from_start(start), from_start(end).min(total - 1));
    if start > end {
        return None;
    }
    let (start, end) = (start as u64, end as u64);
    Some(if by_bit { start..=end } else { start * 8..=end * 8 + 7 })
}

/// How many bytes these bits are in.
fn bytes_of(bits: Option<RangeInclusive<u64>>) -> u64 {
    bits.map_or(0, |bits| bits.end() / 8 - bits.start() / 8 + 1)
}

/// Ones of whole bytes, a word at a time.
fn ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    let of_words: u64 =
        words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    of_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// Ones among `bits`, which are within the string.
fn count(string: &dyn StringBytes, bits: &RangeInclusive<u64>) -> Result<u64, Stop> {
    let (first, last) = (bits.start() / 8, bits.end() / 8);
    let mut all = 0;
    string.each(first..last + 1, &mut |piece| all += ones(piece))?;
    let ([before], [behind]) = (window(string, first)?, window(string, last)?);
    let before = before & !(0xff_u8 >> (bits.start() % 8));
    let behind = behind & ((1_u8 << (7 - bits.end() % 8)) - 1);
    Ok(all - u64::from(before.count_ones() + behind.count_ones()))
}

/// The first of `bits`, which are within the string, that is `bit`.
fn find(
    string: &dyn StringBytes,
    bits: &RangeInclusive<u64>,
    bit: bool,
) -> Result<Option<u64>, Stop> {
    let (first, last) = (bits.start() / 8, bits.end() / 8);
    // Searches for a one bit in the transformed bytes.
    let flip = if bit { 0 } else { 0xff };
    let [lead] = window(string, first)?;
    let lead = (lead ^ flip) & (0xff >> (bits.start() % 8));
    let mut found = (lead != 0).then_some((first, lead));
    let mut from = first + 1;
    // Of a long string that is not in memory, no more is loaded than is looked at.
    while found.is_none() && from <= last {
        let to = (last + 1).min(from + STEP_BYTES);
        let mut at = from;
        string.each(from..to, &mut |piece| {
            found = found.or_else(|| first_other(piece, flip).map(|(n, byte)| (at + n, byte)));
            at += piece.len() as u64;
        })?;
        from = to;
    }
    let position = |(byte, ones): (u64, u8)| byte * 8 + u64::from(ones.leading_zeros());
    Ok(found.map(position).filter(|at| at <= bits.end()))
}

/// The first byte that is not `flip`, and how it differs.
fn first_other(bytes: &[u8], flip: u8) -> Option<(u64, u8)> {
    let (words, _) = bytes.as_chunks::<WORD_BYTES>();
    let skipped = words.iter().take_while(|word| **word == [flip; WORD_BYTES]).count();
    let mut others = bytes.iter().enumerate().skip(skipped * WORD_BYTES);
    let (at, byte) = others.find(|&(_, &byte)| byte != flip)?;
    Some((at as u64, byte ^ flip))
}

/// BITCOUNT key [start end [BYTE|BIT]].
pub(super) fn bitcount(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (args, key) = (ctx.args, ctx.args.get(1));
    let asked = |bytes| match args.len() {
        2 => Ok(bits(0, -1, false, bytes)),
        4 | 5 => {
            let (start, end) = (int(args, 2)?, int(args, 3)?);
            if start < 0 && end < 0 && start > end {
                return Ok(None);
            }
            let by_bit = if args.len() == 5 { counts_bits(args.get(4))? } else { false };
            Ok(bits(start, end, by_bit, bytes))
        }
        _ => Err(CommandError::Syntax),
    };
    ctx.read_string(
        key,
        |len| asked(len).map_or(0, bytes_of),
        |string, out| {
            let Some(string) = string else {
                out.int(0);
                return Ok(Ok(()));
            };
            let asked = match asked(string.len_bytes()) {
                Ok(asked) => asked,
                Err(error) => return Ok(Err(error)),
            };
            out.int(asked.map_or(Ok(0), |bits| count(string, &bits))? as i64);
            Ok(Ok(()))
        },
    )?
}

/// BITPOS key bit [start [end [BYTE|BIT]]]. Zeros follow a string, where no end is given.
pub(super) fn bitpos(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (args, key) = (ctx.args, ctx.args.get(1));
    let bit = match int(args, 2)? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::text("ERR The bit argument must be 1 or 0.")),
    };
    let asked = |bytes| {
        let (mut start, mut end, mut by_bit) = (0, -1, false);
        match args.len() {
            3 => {}
            4..=6 => {
                start = int(args, 3)?;
                if args.len() == 6 {
                    by_bit = counts_bits(args.get(5))?;
                }
                if args.len() >= 5 {
                    end = int(args, 4)?;
                }
            }
            _ => return Err(CommandError::Syntax),
        }
        Ok(bits(start, end, by_bit, bytes))
    };
    ctx.read_string(
        key,
        |len| asked(len).map_or(0, bytes_of),
        |string, out| {
            let Some(string) = string else {
                out.int(if bit { -1 } else { 0 });
                return Ok(Ok(()));
            };
            let asked = match asked(string.len_bytes()) {
                Ok(asked) => asked,
                Err(error) => return Ok(Err(error)),
            };
            let none = if bit || args.len() >= 5 { -1 } else { string.len_bytes() as i64 * 8 };
            let position = match asked {
                Some(bits) => find(string, &bits, bit)?.map_or(none, |at| at as i64),
                None => -1,
            };
            out.int(position);
            Ok(Ok(()))
        },
    )?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        (0..40_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }

    fn slow(value: &[u8], bits: &RangeInclusive<u64>) -> Vec<(u64, bool)> {
        bits.clone().map(|at| (at, value[(at / 8) as usize] >> (7 - at % 8) & 1 == 1)).collect()
    }

    #[test]
    fn counts_and_positions_are_those_of_bits_one_by_one() {
        let mut values = vec![sample(), vec![0; 30], vec![0xff; 30]];
        values.push([vec![0; 27], vec![1], vec![0; 4]].concat());
        values.push([vec![0xff; 17], vec![0xef], vec![0xff; 9]].concat());
        for value in &values {
            for start in (0..value.len() as u64 * 8).step_by(3) {
                for end in start..value.len() as u64 * 8 {
                    let bits = start..=end;
                    let all = slow(value, &bits);
                    let wanted = all.iter().filter(|(_, one)| *one).count() as u64;
                    assert_eq!(count(&&value[..], &bits).ok(), Some(wanted), "{bits:?}");
                    for bit in [false, true] {
                        let wanted = all.iter().find(|(_, one)| *one == bit).map(|(at, _)| *at);
                        assert_eq!(
                            find(&&value[..], &bits, bit).ok(),
                            Some(wanted),
                            "{bits:?} {bit}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn ranges_are_cut_to_the_string() {
        assert_eq!(bits(0, -1, false, 3), Some(0..=23));
        assert_eq!(bits(-2, 100, false, 3), Some(8..=23));
        assert_eq!(bits(5, -2, true, 3), Some(5..=22));
        assert_eq!(bits(i64::MIN, i64::MIN, true, 3), Some(0..=0));
        assert_eq!(bits(3, 5, false, 3), None);
        assert_eq!(bits(0, -1, false, 0), None);
    }
}
