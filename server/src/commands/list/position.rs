//! LPOS.

use crate::dispatch::{Args, CommandError, CommandResult, Ctx, Purpose};
use crate::keyspace::collection::Lists;
use crate::keyspace::paged::Sought;
use crate::number::parse_i64;
use sexton_engine::page::End;

struct Options {
    /// Which match is the first that counts; negative ones count from the end.
    rank: i64,
    /// Number of answers, 0 for all; `None`: one, without an array.
    count: Option<u64>,
    /// How many elements are compared, 0 for all.
    compared_max: u64,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut options = Self { rank: 1, count: None, compared_max: 0 };
        let natural = |word, text| {
            let number = parse_i64(word).and_then(|number| u64::try_from(number).ok());
            number.ok_or(CommandError::text(text))
        };
        let mut at = 3;
        while at < args.len() {
            let word = args.get(at).to_ascii_uppercase();
            if at + 1 == args.len() {
                return Err(CommandError::Syntax);
            }
            let value = args.get(at + 1);
            match word.as_slice() {
                b"RANK" => {
                    options.rank = parse_i64(value).ok_or(CommandError::NotInteger)?;
                    if options.rank == 0 {
                        return Err(CommandError::text(
                            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
                        ));
                    }
                }
                b"COUNT" => options.count = Some(natural(value, "ERR COUNT can't be negative")?),
                b"MAXLEN" => options.compared_max = natural(value, "ERR MAXLEN can't be negative")?,
                _ => return Err(CommandError::Syntax),
            }
            at += 2;
        }
        Ok(options)
    }

    /// What of a list's elements counts.
    fn sought<'w>(&self, element: &'w [u8]) -> Sought<'w> {
        Sought {
            element,
            from: if self.rank < 0 { End::Back } else { End::Front },
            skipped: match self.rank {
                // Redis negates it, which gives itself.
                i64::MIN => 0,
                rank => rank.unsigned_abs() - 1,
            },
            most: match self.count {
                Some(0) => u64::MAX,
                // What Redis counts overflows, and never reaches it.
                Some(_) if self.rank == i64::MIN => u64::MAX,
                count => count.unwrap_or(1),
            },
            compared_max: if self.compared_max == 0 { u64::MAX } else { self.compared_max },
        }
    }
}

/// The indexes that count among those of all matches, which are `matches` from the left.
fn choose(sought: &Sought<'_>, mut matches: Vec<u64>, len: u64) -> Vec<u64> {
    let compared = sought.compared_max.min(len);
    if sought.from == End::Back {
        matches.retain(|&index| index >= len - compared);
        matches.reverse();
    } else {
        matches.retain(|&index| index < compared);
    }
    let count = |number| usize::try_from(number).unwrap_or(usize::MAX);
    matches.into_iter().skip(count(sought.skipped)).take(count(sought.most)).collect()
}

/// LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len].
pub(super) fn lpos(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let options = Options::parse(ctx.args)?;
    let (key, element) = (ctx.args.get(1), ctx.args.get(2));
    let sought = options.sought(element);
    let found = if let Some(paged) = ctx.paged::<Lists>(Purpose::Read, key)? {
        ctx.search_list(key, &paged, &sought)?
    } else {
        ctx.lookup::<Lists, _>(Purpose::Read, key, |list, _| {
            let Some(list) = list else { return Vec::new() };
            let all = (0..).zip(list.iter()).filter(|(_, other)| *other == element);
            choose(&sought, all.map(|(index, _)| index).collect(), list.count() as u64)
        })?
    };
    match (options.count, found.first()) {
        (None, Some(&index)) => ctx.out.int(index as i64),
        (None, None) => ctx.out.null(),
        (Some(_), _) => {
            ctx.out.array(found.len());
            found.iter().for_each(|&index| ctx.out.int(index as i64));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::pack;

    #[test]
    fn the_least_rank_is_what_redis_makes_of_it() {
        for (line, most) in [
            ("LPOS l b RANK -9223372036854775808", 1),
            ("LPOS l b RANK -9223372036854775808 COUNT 2", u64::MAX),
            ("LPOS l b RANK -9223372036854775807 COUNT 2", 2),
        ] {
            let (buf, ranges) = pack(line.split(' ').map(str::as_bytes));
            let options = Options::parse(Args::new(&buf, &ranges)).expect("options");
            let sought = options.sought(b"b");
            assert!(sought.from == End::Back, "{line}");
            assert_eq!(sought.most, most, "{line}");
        }
    }
}
