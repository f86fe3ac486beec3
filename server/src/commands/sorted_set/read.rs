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

/// The scores of these members of the sorted set under argument 1, if it is paged.
pub(in crate::commands) fn scores_in_pages<'m>(
    ctx: &mut Ctx<'_, '_>,
    members: impl Iterator<Item = &'m [u8]> + Clone,
) -> Result<Option<Vec<Option<f64>>>, CommandError> {
    let key = ctx.args.get(1);
    let Some(paged) = ctx.paged::<SortedSets>(Purpose::Read, key)? else { return Ok(None) };
    Ok(Some(ctx.read_ranked(key, &paged, |set, pages, _| set.scores(pages, members.clone()))))
}

fn score(score: Option<f64>, out: &mut Reply) {
    match score {
        Some(score) => out.double(&score_text(score)),
        None => out.null(),
    }
}

/// ZRANK key member [WITHSCORE].
pub(super) fn zrank(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    rank(ctx, false, "ERR wrong number of arguments for 'zrank' command")
}

/// ZREVRANK key member [WITHSCORE].
pub(super) fn zrevrank(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    rank(ctx, true, "ERR wrong number of arguments for 'zrevrank' command")
}

fn rank(ctx: &mut Ctx<'_, '_>, descending: bool, wrong_arity: &'static str) -> CommandResult {
    let (key, member) = (ctx.args.get(1), ctx.args.get(2));
    let with_score = match ctx.args.len() {
        3 => false,
        4 if ctx.args.get(3).eq_ignore_ascii_case(b"WITHSCORE") => true,
        4 => return Err(CommandError::Syntax),
        _ => return Err(CommandError::text(wrong_arity)),
    };
    let reply = |found: Option<(u64, u64, f64)>, out: &mut Reply| match found {
        Some((count, rank, found)) => {
            if with_score {
                out.array(2);
            }
            out.int(if descending { count - 1 - rank } else { rank } as i64);
            if with_score {
                score(Some(found), out);
            }
        }
        None if with_score => out.null_array(),
        None => out.null(),
    };
    if let Some(paged) = ctx.paged::<SortedSets>(Purpose::Read, key)? {
        ctx.read_ranked(key, &paged, |set, pages, out| {
            let found = set.rank(pages, member)?;
            reply(found.map(|(rank, score)| (set.len(), rank, score)), out);
            Ok(())
        });
        return Ok(());
    }
    look(ctx, |set, out| {
        let found = set.and_then(|set| {
            let (rank, score) = set.rank(member)?;
            Some((set.count() as u64, rank as u64, score))
        });
        reply(found, out);
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
