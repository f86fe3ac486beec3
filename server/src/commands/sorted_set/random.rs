//! ZRANDMEMBER.

use super::score_text;
use crate::commands::chance::{self, below};
use crate::dispatch::{CommandResult, Ctx, Purpose};
use crate::keyspace::collection::SortedSets;
use crate::keyspace::paged::Draws;
use crate::random::random;
use crate::resp::Reply;

/// ZRANDMEMBER key [count [WITHSCORES]]: a negative count draws with repetitions.
pub(super) fn zrandmember(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    if ctx.args.len() == 2 {
        if let Some(paged) = ctx.paged::<SortedSets>(Purpose::Read, key)? {
            let rank = below(paged.count().max(1)) as u64;
            ctx.read_ranked(key, &paged, |set, pages, out| {
                match set.range(pages, rank..rank + 1)?.next().transpose()? {
                    Some((_, member)) => out.bulk(member),
                    None => out.null(),
                }
                Ok(())
            });
            return Ok(());
        }
        return ctx.lookup::<SortedSets, _>(Purpose::Read, key, |set, out| {
            match set.and_then(|set| set.iter().nth(below(set.count()))) {
                Some((_, member)) => out.bulk(member),
                None => out.null(),
            }
        });
    }
    let (count, with_scores) = chance::pair_options(ctx.args, b"WITHSCORES")?;
    if let Some(paged) = ctx.paged::<SortedSets>(Purpose::Read, key)?
        && let Some(draws) = Draws::of(count, paged.count(), random())
    {
        ctx.read_ranked(key, &paged, |set, pages, out| {
            chance::begin_pairs(paged.count(), (count, with_scores), out);
            set.draw_all(pages, &draws, |member, score| {
                chance::pair(member, with_scores, |out| out.double(&score_text(score)), out);
                !out.is_cut()
            })
        });
        return Ok(());
    }
    let write = |(score, _): &(f64, &[u8]), out: &mut Reply| out.double(&score_text(*score));
    ctx.lookup::<SortedSets, _>(Purpose::Read, key, |set, out| match set {
        Some(set) => chance::answer_pairs(
            (set.iter(), set.count()),
            (count, with_scores),
            |pair| pair.1,
            write,
            out,
        ),
        None => out.array(0),
    })
}
