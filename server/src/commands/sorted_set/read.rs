//! Commands that read members: ZCARD, ZSCORE, ZMSCORE, ZRANK, ZREVRANK, ZCOUNT, ZLEXCOUNT, ZSCAN.

use super::bounds::Bounds;
use super::{listpack_score_text, score_text};
use crate::commands::scan::elements;
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::keyspace::collection::{Encoding, SortedSetView, SortedSets};
use crate::keyspace::paged::Structure;
use crate::resp::Reply;

/// ZCARD key.
pub(super) fn zcard(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if let Some(paged) = ctx.paged::<SortedSets>(Purpose::Read, ctx.args.get(1))? {
        ctx.out.int(paged.count() as i64);
        return Ok(());
    }
    look(ctx, |set, out| out.int(set.map_or(0, |set| set.count()) as i64))
}

/// ZSCORE key member.
pub(super) fn zscore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, member) = (ctx.args.get(1), ctx.args.get(2));
    if let Some(paged) = ctx.paged::<SortedSets>(Purpose::Read, key)? {
        ctx.read_ranked(key, &paged, |set, pages, out| {
            score(set.score(pages, member)?, out);
            Ok(())
        });
        return Ok(());
    }
    look(ctx, |set, out| score(set.and_then(|set| set.score(member)), out))
}

/// ZMSCORE key member [member ...].
pub(super) fn zmscore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let members = ctx.args.from(2);
    if let Some(scores) = scores_in_pages(ctx, members.clone())? {
        ctx.out.array(scores.len());
        scores.into_iter().for_each(|found| score(found, ctx.out));
        return Ok(());
    }
    look(ctx, |set, out| {
        out.array(members.len());
        match set {
            Some(set) => set.scores(members).into_iter().for_each(|found| score(found, out)),
            None => members.for_each(|_| out.null()),
        }
    })
}

/// The scores of these members of the sorted set under argument 1, if that lies in pages.
pub(in crate::commands) fn scores_in_pages<'m>(
    ctx: &mut Ctx<'_, '_>,
    members: impl Iterator<Item = &'m [u8]> + Clone,
) -> Result<Option<Vec<Option<f64>>>, CommandError> {
    let key = ctx.args.get(1);
    let Some(paged) = ctx.paged::<SortedSets>(Purpose::Read, key)? else { return Ok(None) };
    let scores = ctx.read_ranked(key, &paged, |set, pages, _| {
        set.needs(pages, members.clone())?;
        let scores = members.clone().map(|member| set.score(pages, member));
        Ok(scores.collect::<Result<Vec<_>, _>>()?)
    });
    Ok(Some(scores))
}

fn score(score: Option<f64>, out: &mut Reply) {
    match score {
        Some(score) => out.double(&score_text(score)),
        None => out.null(),
    }
}

/// ZRANK key member.
pub(super) fn zrank(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    rank(ctx, false)
}

/// ZREVRANK key member.
pub(super) fn zrevrank(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    rank(ctx, true)
}

fn rank(ctx: &mut Ctx<'_, '_>, descending: bool) -> CommandResult {
    let (key, member) = (ctx.args.get(1), ctx.args.get(2));
    if let Some(paged) = ctx.paged::<SortedSets>(Purpose::Read, key)? {
        ctx.read_ranked(key, &paged, |set, pages, out| {
            match set.rank(pages, member)? {
                Some((rank, _)) => {
                    out.int(if descending { set.len() - 1 - rank } else { rank } as i64);
                }
                None => out.null(),
            }
            Ok(())
        });
        return Ok(());
    }
    look(ctx, |set, out| {
        match set.and_then(|set| set.rank(member).map(|(rank, _)| (set.count(), rank))) {
            Some((count, rank)) => {
                out.int(if descending { count - 1 - rank } else { rank } as i64);
            }
            None => out.null(),
        }
    })
}

/// ZCOUNT key min max.
pub(super) fn zcount(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let bounds = Bounds::scores(ctx.args.get(2), ctx.args.get(3))?;
    count(ctx, bounds)
}

/// ZLEXCOUNT key min max.
pub(super) fn zlexcount(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let bounds = Bounds::names(ctx.args.get(2), ctx.args.get(3))?;
    count(ctx, bounds)
}

fn count(ctx: &mut Ctx<'_, '_>, bounds: Bounds<'_>) -> CommandResult {
    let key = ctx.args.get(1);
    if let Some(paged) = ctx.paged::<SortedSets>(Purpose::Read, key)? {
        let ranks = ctx.read_ranked(key, &paged, |set, pages, _| {
            bounds.ranks_in_pages((set, pages), false, 0)
        });
        ctx.out.int((ranks.end - ranks.start) as i64);
        return Ok(());
    }
    look(ctx, |set, out| {
        out.int(set.map_or(0, |set| bounds.ranks(&set, false, 0).len()) as i64);
    })
}

/// ZSCAN key cursor [MATCH pattern] [COUNT count].
pub(super) fn zscan(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    elements::scan::<SortedSets>(ctx, |set, page, out| {
        let size = (set.count(), set.encoding());
        let is_small = set.encoding() == Encoding::Listpack;
        let write = |(score, member): (f64, &[u8]), out: &mut Reply| {
            out.bulk(member);
            let text = if is_small { listpack_score_text(score) } else { score_text(score) };
            out.bulk(text.as_bytes());
        };
        page.answer::<2, _>(size, set.iter(), |pair| pair.1, write, out);
    })
}

/// Replies from the sorted set under argument 1.
fn look(
    ctx: &mut Ctx<'_, '_>,
    reply: impl FnOnce(Option<SortedSetView<'_>>, &mut Reply),
) -> CommandResult {
    ctx.lookup::<SortedSets, _>(Purpose::Read, ctx.args.get(1), reply)
}
