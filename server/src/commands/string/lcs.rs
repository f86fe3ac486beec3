//! LCS: the longest common subsequence of two strings.

use crate::client_memory::transient_max_bytes;
use crate::dispatch::{Args, CommandError, CommandResult, Ctx, OUT_OF_MEMORY, Purpose};
use crate::keyspace::Strings;

struct Options {
    length_only: bool,
    ranges: bool,
    with_length: bool,
    min_length: usize,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut options =
            Self { length_only: false, ranges: false, with_length: false, min_length: 0 };
        let mut at = 3;
        while at < args.len() {
            match args.get(at).to_ascii_uppercase().as_slice() {
                b"IDX" => options.ranges = true,
                b"LEN" => options.length_only = true,
                b"WITHMATCHLEN" => options.with_length = true,
                b"MINMATCHLEN" if at + 1 < args.len() => {
                    at += 1;
                    let given = crate::number::parse_i64(args.get(at));
                    options.min_length = given.ok_or(CommandError::NotInteger)?.max(0) as usize;
                }
                _ => return Err(CommandError::Syntax),
            }
            at += 1;
        }
        if options.ranges && options.length_only {
            return Err(CommandError::text(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(options)
    }
}

/// A run of equal bytes: where it starts in both strings, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    a: usize,
    b: usize,
    len: usize,
}

/// The longest common subsequence of two strings, and, unless only its length is requested, the path to it.
///
/// The lengths of two rows of prefixes are known at a time. Of the others, the path needs one bit per pair.
struct Table {
    length: u32,
    /// Of each pair of prefixes: whether the first one's is the one to shorten.
    shortens_first: Vec<u64>,
    width: usize,
}

const NO_MEMORY: CommandError = CommandError::text(
    "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
);

impl Table {
    /// `max_bytes`: the largest table that Redis would make, `proto-max-bulk-len`; `memory_max_bytes`: the largest here.
    fn build(
        a: &[u8],
        b: &[u8],
        length_only: bool,
        max_bytes: u64,
        memory_max_bytes: u64,
    ) -> Result<Self, CommandError> {
        let width = b.len() + 1;
        let cells = (a.len() + 1)
            .checked_mul(width)
            .filter(|&cells| cells as u64 <= max_bytes / size_of::<u32>() as u64)
            .ok_or(NO_MEMORY)?;
        let words = if length_only { 0 } else { cells.div_ceil(64) };
        if (words * size_of::<u64>()) as u64 > memory_max_bytes {
            return Err(CommandError::text(OUT_OF_MEMORY));
        }
        let mut shortens_first = Vec::new();
        shortens_first.try_reserve_exact(words).map_err(|_| NO_MEMORY)?;
        shortens_first.resize(words, 0_u64);
        let mut above = vec![0_u32; width];
        let mut row = vec![0_u32; width];
        for (i, byte_a) in a.iter().enumerate() {
            for (j, byte_b) in b.iter().enumerate() {
                row[j + 1] = if byte_a == byte_b {
                    above[j] + 1
                } else {
                    if !length_only && above[j + 1] > row[j] {
                        let cell = (i + 1) * width + j + 1;
                        shortens_first[cell / 64] |= 1 << (cell % 64);
                    }
                    above[j + 1].max(row[j])
                };
            }
            std::mem::swap(&mut above, &mut row);
        }
        Ok(Self { length: above[b.len()], shortens_first, width })
    }

    fn shortens_first(&self, i: usize, j: usize) -> bool {
        let cell = i * self.width + j;
        self.shortens_first[cell / 64] & 1 << (cell % 64) != 0
    }

    /// The runs of one longest subsequence, from the end of the strings to their start. If both
    /// paths are equally long, the second string is shortened first, as in Redis.
    fn matches(&self, a: &[u8], b: &[u8]) -> Vec<Match> {
        let mut runs: Vec<Match> = Vec::new();
        let (mut i, mut j) = (a.len(), b.len());
        while i > 0 && j > 0 {
            if a[i - 1] != b[j - 1] {
                if self.shortens_first(i, j) {
                    i -= 1
                } else {
                    j -= 1
                }
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.a == i && run.b == j => {
                    *run = Match { a: i - 1, b: j - 1, len: run.len + 1 };
                }
                _ => runs.push(Match { a: i - 1, b: j - 1, len: 1 }),
            }
            i -= 1;
            j -= 1;
        }
        runs
    }
}

/// LCS key1 key2 [LEN] [IDX] [MINMATCHLEN n] [WITHMATCHLEN].
pub(super) fn lcs(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let mut strings = [Vec::new(), Vec::new()];
    for (at, string) in strings.iter_mut().enumerate() {
        let key = ctx.args.get(at + 1);
        *string = ctx
            .lookup::<Strings, _>(Purpose::Read, key, |string, _| {
                string.map_or_else(Vec::new, |string| string.bytes().to_vec())
            })
            .map_err(|_| CommandError::text("ERR The specified keys must contain string values"))?;
    }
    let options = Options::parse(ctx.args)?;
    let [a, b] = &strings;
    let memory_max_bytes = transient_max_bytes(ctx.server);
    let max_bytes = ctx.string_max_bytes();
    let table = Table::build(a, b, options.length_only, max_bytes, memory_max_bytes)?;
    let total = i64::from(table.length);
    if options.length_only {
        ctx.out.int(total);
        return Ok(());
    }
    let mut runs = table.matches(a, b);
    if !options.ranges {
        let common: Vec<u8> =
            runs.iter().rev().flat_map(|run| &a[run.a..run.a + run.len]).copied().collect();
        ctx.out.bulk(&common);
        return Ok(());
    }
    runs.retain(|run| run.len >= options.min_length);
    ctx.out.map(2);
    ctx.out.bulk(b"matches");
    ctx.out.array(runs.len());
    for run in &runs {
        ctx.out.array(if options.with_length { 3 } else { 2 });
        for start in [run.a, run.b] {
            ctx.out.array(2);
            ctx.out.int(start as i64);
            ctx.out.int((start + run.len - 1) as i64);
        }
        if options.with_length {
            ctx.out.int(run.len as i64);
        }
    }
    ctx.out.bulk(b"len");
    ctx.out.int(total);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Match, Table};

    const MAX_BYTES: u64 = 512 << 20;

    #[test]
    fn finds_the_runs_of_the_manual() {
        let (a, b) = (b"ohmytext", b"mynewtext");
        let table = Table::build(a, b, false, MAX_BYTES, u64::MAX).unwrap();
        assert_eq!(table.length, 6);
        let runs = table.matches(a, b);
        assert_eq!(runs, [Match { a: 4, b: 5, len: 4 }, Match { a: 2, b: 0, len: 2 }]);
        assert_eq!(Table::build(a, b, true, MAX_BYTES, 0).unwrap().length, 6);
        let nothing = Table::build(b"", b, false, MAX_BYTES, u64::MAX).unwrap();
        assert_eq!((nothing.length, nothing.matches(b"", b)), (0, vec![]));
    }

    #[test]
    fn too_large_a_table_is_refused() {
        let half = vec![b'x'; 20_000];
        assert!(Table::build(&half, &half, true, MAX_BYTES, u64::MAX).is_err());
        // A bit for each of 121 million pairs, where Redis has four bytes.
        let short = &half[..11_000];
        assert!(Table::build(short, short, false, MAX_BYTES, 15 << 20).is_ok());
        assert!(Table::build(short, short, false, MAX_BYTES, 14 << 20).is_err());
        assert_eq!(Table::build(short, short, true, MAX_BYTES, 0).unwrap().length, 11_000);
    }
}
