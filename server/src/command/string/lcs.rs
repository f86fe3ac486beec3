//! LCS: the longest common subsequence of two strings.

use crate::command::access::Purpose;
use crate::command::{Args, CommandError, CommandResult, Ctx};
use crate::value;

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

/// Lengths of the longest common subsequences of all pairs of prefixes.
struct Table {
    lengths: Vec<u32>,
    width: usize,
}

impl Table {
    /// `max_bytes`: the largest table, `proto-max-bulk-len` as in Redis.
    fn build(a: &[u8], b: &[u8], max_bytes: u64) -> Result<Self, CommandError> {
        const NO_MEMORY: CommandError = CommandError::text(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        );
        let width = b.len() + 1;
        let cells = (a.len() + 1)
            .checked_mul(width)
            .filter(|&cells| cells as u64 <= max_bytes / size_of::<u32>() as u64)
            .ok_or(NO_MEMORY)?;
        let mut lengths = Vec::new();
        lengths.try_reserve_exact(cells).map_err(|_| NO_MEMORY)?;
        lengths.resize(cells, 0);
        let mut table = Self { lengths, width };
        for (i, byte_a) in a.iter().enumerate() {
            for (j, byte_b) in b.iter().enumerate() {
                table.lengths[(i + 1) * width + j + 1] = if byte_a == byte_b {
                    table.at(i, j) + 1
                } else {
                    table.at(i, j + 1).max(table.at(i + 1, j))
                };
            }
        }
        Ok(table)
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.lengths[i * self.width + j]
    }

    /// The runs of one longest subsequence, from the end of the strings to their start. Where both
    /// ways are equally long, the second string is shortened first, as in Redis.
    fn matches(&self, a: &[u8], b: &[u8]) -> Vec<Match> {
        let mut runs: Vec<Match> = Vec::new();
        let (mut i, mut j) = (a.len(), b.len());
        while i > 0 && j > 0 {
            if a[i - 1] != b[j - 1] {
                if self.at(i - 1, j) > self.at(i, j - 1) {
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
    let db = ctx.client.db;
    let mut strings = [Vec::new(), Vec::new()];
    for (at, string) in strings.iter_mut().enumerate() {
        let key = ctx.args.get(at + 1);
        *string = ctx.inspect(Purpose::Read, db, key, |entry, _| match entry {
            Some(entry) if value::is_string(entry.meta().flags) => Ok(entry.value().to_vec()),
            Some(_) => Err(CommandError::text("ERR The specified keys must contain string values")),
            None => Ok(Vec::new()),
        })?;
    }
    let options = Options::parse(ctx.args)?;
    let [a, b] = &strings;
    let table = Table::build(a, b, ctx.string_max_bytes())?;
    let total = i64::from(table.at(a.len(), b.len()));
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

    #[test]
    fn finds_the_runs_of_the_manual() {
        let (a, b) = (b"ohmytext", b"mynewtext");
        let table = Table::build(a, b, 512 << 20).unwrap();
        assert_eq!(table.at(a.len(), b.len()), 6);
        let runs = table.matches(a, b);
        assert_eq!(runs, [Match { a: 4, b: 5, len: 4 }, Match { a: 2, b: 0, len: 2 }]);
    }

    #[test]
    fn too_large_a_table_is_refused() {
        let half = vec![b'x'; 20_000];
        assert!(Table::build(&half, &half, 512 << 20).is_err());
    }
}
