//! Commands that set scores and remove members: ZADD, ZINCRBY, ZREM, ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX.

use super::{bounds::Bounds, score_text};
use crate::dispatch::{Args, CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::interop::c_numbers::parse_double;
use crate::keyspace::collection::{SortedSetEdit, SortedSets};
use crate::keyspace::paged::{Ranked, Structure};
use crate::resp::Reply;
use sexton_engine::page::Score;

/// What ZADD is asked for, beside its members.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::commands) struct Options {
    /// NX: only members that are not there.
    is_new_only: bool,
    /// XX: only members that are there.
    is_old_only: bool,
    /// GT: a score only grows.
    is_greater_only: bool,
    /// LT: a score only falls.
    is_less_only: bool,
    /// CH: the reply counts members that have changed, too.
    counts_changed: bool,
    /// INCR: the score is an increment.
    increments: bool,
}

impl Options {
    /// The options from argument 2 on, and where they end.
    fn parse(args: Args<'_>) -> (Self, usize) {
        Self::of_words(args, |options, word| {
            let option = match word {
                b"GT" => &mut options.is_greater_only,
                b"LT" => &mut options.is_less_only,
                b"INCR" => &mut options.increments,
                _ => return false,
            };
            *option = true;
            true
        })
    }

    /// Those of GEOADD.
    pub(in crate::commands) fn of_positions(args: Args<'_>) -> Result<(Self, usize), CommandError> {
        let (options, end) = Self::of_words(args, |_, _| false);
        if options.is_new_only && options.is_old_only {
            return Err(CommandError::Syntax);
        }
        Ok((options, end))
    }

    /// NX, XX, CH and what `takes` knows, up to the first word that is none.
    fn of_words(args: Args<'_>, takes: impl Fn(&mut Self, &[u8]) -> bool) -> (Self, usize) {
        let (mut options, mut at) = (Self::default(), 2);
        // A score mostly begins with a digit, which ends them.
        while at < args.len() && args.get(at).first().is_some_and(u8::is_ascii_alphabetic) {
            match args.get(at).to_ascii_uppercase().as_slice() {
                b"NX" => options.is_new_only = true,
                b"XX" => options.is_old_only = true,
                b"CH" => options.counts_changed = true,
                word if takes(&mut options, word) => {}
                _ => break,
            }
            at += 1;
        }
        (options, at)
    }

    fn check(self, pairs: usize) -> CommandResult {
        let Self { is_new_only, is_old_only, is_greater_only, is_less_only, .. } = self;
        if is_new_only && is_old_only {
            return Err(CommandError::text(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        if [is_new_only, is_greater_only, is_less_only].iter().filter(|&&given| given).count() > 1 {
            return Err(CommandError::text(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if self.increments && pairs > 1 {
            return Err(CommandError::text(
                "ERR INCR option supports a single increment-element pair",
            ));
        }
        Ok(())
    }

    /// The score that a member with the score `old` is to have; `None` where the options forbid any.
    fn score(self, old: Option<f64>, given: f64) -> Option<f64> {
        let Some(old) = old else { return (!self.is_old_only).then_some(given) };
        let new = if self.increments { old + given } else { given };
        let is_forbidden = self.is_new_only
            || (self.is_less_only && new >= old)
            || (self.is_greater_only && new <= old);
        (!is_forbidden).then_some(new)
    }
}

/// ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...].
pub(super) fn zadd(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (options, first) = Options::parse(ctx.args);
    add_words(ctx, options, first)
}

/// ZINCRBY key increment member.
pub(super) fn zincrby(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (options, first) = Options::parse(ctx.args);
    add_words(ctx, Options { increments: true, ..options }, first)
}

fn add_words(ctx: &mut Ctx<'_, '_>, options: Options, first: usize) -> CommandResult {
    let words = ctx.args.from(first);
    if words.len() == 0 || !words.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    options.check(words.len() / 2)?;
    let scores: Option<Vec<f64>> = words.clone().step_by(2).map(parse_double).collect();
    let scores = scores.ok_or(CommandError::NotFloat)?;
    add(ctx, options, &scores, words.skip(1).step_by(2))
}

/// Gives `members` their `scores`: one operation, or none when nothing changes; logged as it came. Answers as ZADD does.
pub(in crate::commands) fn add<'m>(
    ctx: &mut Ctx<'_, '_>,
    options: Options,
    scores: &[f64],
    members: impl ExactSizeIterator<Item = &'m [u8]> + Clone,
) -> CommandResult {
    let (key, thresholds) = (ctx.args.get(1), ctx.thresholds());
    let event = Event::sorted_set(if options.increments { "zincr" } else { "zadd" });
    if let Some(paged) = ctx.paged::<SortedSets>(Purpose::Write, key)? {
        let mut done = Added::default();
        ctx.change_pages(key, &paged, event, |pages, set: &mut Ranked| {
            done = Added::default();
            let before = set.clone();
            let all = members.clone().zip(scores);
            let put = all.clone().try_for_each(|(member, &given)| {
                set.update(pages, member, |old| done.decide(options, old, given))
            });
            if let Err(missed) = put {
                // Where a member comes to stand by an increment is known only behind its old score.
                let is_known = !options.increments;
                let places =
                    all.map(|(member, score)| (member, Score::of(*score).filter(|_| is_known)));
                return Err(before.missing_of_change(pages, places, missed));
            }
            Ok((done.changed() > 0 && !done.is_nan).then_some(()))
        });
        if done.is_nan {
            return Err(NOT_A_NUMBER);
        }
        if done.changed() > 0 {
            ctx.log_request();
        }
        done.answer(options, ctx.out);
        return Ok(());
    }
    let found = ctx.lookup::<SortedSets, _>(Purpose::Write, key, |set, _| {
        set.map(|set| (set.edit(), set.expire_at_ms()))
    })?;
    let (mut set, expire_at_ms): (SortedSetEdit, u64) = found.unwrap_or_default();
    let mut done = Added::default();
    set.update(members, &thresholds, |index, old| done.decide(options, old, *scores.get(index)?));
    if done.is_nan {
        return Err(NOT_A_NUMBER);
    }
    if done.changed() > 0 {
        ctx.write_back(key, &set, expire_at_ms, event)?;
        ctx.log_request();
    }
    done.answer(options, ctx.out);
    Ok(())
}

const NOT_A_NUMBER: CommandError = CommandError::text("ERR resulting score is not a number (NaN)");

/// What ZADD has done.
#[derive(Clone, Copy, Debug, Default)]
struct Added {
    added: i64,
    updated: i64,
    is_nan: bool,
    /// The score of the last member; `None` where the options forbade one.
    last: Option<f64>,
}

impl Added {
    fn changed(&self) -> i64 {
        self.added + self.updated
    }

    /// The score that a member gets; `None` leaves it as it is.
    fn decide(&mut self, options: Options, old: Option<f64>, given: f64) -> Option<f64> {
        self.last = options.score(old, given);
        let new = self.last?;
        self.is_nan |= new.is_nan();
        self.added += i64::from(old.is_none());
        let is_other = old.is_none_or(|old| old != new);
        self.updated += i64::from(is_other && old.is_some());
        (is_other && !self.is_nan).then_some(new)
    }

    fn answer(&self, options: Options, out: &mut Reply) {
        let Self { added, updated, last, .. } = *self;
        match last {
            Some(score) if options.increments => out.double(&score_text(score)),
            None if options.increments => out.null(),
            _ => out.int(if options.counts_changed { added + updated } else { added }),
        }
    }
}

/// ZREM key member [member ...].
pub(super) fn zrem(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, members) = (ctx.args.get(1), ctx.args.from(2));
    if let Some(paged) = ctx.paged::<SortedSets>(Purpose::Write, key)? {
        let event = Event::sorted_set("zrem");
        let done = ctx.change_pages(key, &paged, event, |pages, set: &mut Ranked| {
            let before = set.clone();
            let mut removed = 0;
            for member in members.clone() {
                match set.remove(pages, member) {
                    Ok(is_gone) => removed += i64::from(is_gone),
                    Err(missed) => {
                        let all = members.clone().map(|member| (member, None));
                        return Err(before.missing_of_change(pages, all, missed));
                    }
                }
            }
            Ok((removed > 0).then_some(removed))
        });
        if done.is_some() {
            ctx.log_request();
        }
        ctx.out.int(done.map_or(0, |(removed, _)| removed));
        return Ok(());
    }
    remove(ctx, "zrem", |set| set.remove_all(members))
}

/// ZREMRANGEBYRANK key start stop.
pub(super) fn zremrangebyrank(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let bounds = Bounds::Ranks(ctx.int_arg(2)?, ctx.int_arg(3)?);
    remove_within(ctx, "zremrangebyrank", bounds)
}

/// ZREMRANGEBYSCORE key min max.
pub(super) fn zremrangebyscore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let bounds = Bounds::scores(ctx.args.get(2), ctx.args.get(3))?;
    remove_within(ctx, "zremrangebyscore", bounds)
}

/// ZREMRANGEBYLEX key min max.
pub(super) fn zremrangebylex(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let bounds = Bounds::names(ctx.args.get(2), ctx.args.get(3))?;
    remove_within(ctx, "zremrangebylex", bounds)
}

fn remove_within(ctx: &mut Ctx<'_, '_>, event: &'static str, bounds: Bounds<'_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let paged = ctx.paged::<SortedSets>(Purpose::Write, key)?;
    let Some(before) = ctx.removed_before_this(paged.as_ref()) else { return Ok(()) };
    if let Some(paged) = paged {
        let event = Event::sorted_set(event);
        let (most, on_worker) = (ctx.removed_max(&paged), ctx.client.may_hand_over);
        let (mut all, mut gone) = (0..0, 0..0);
        ctx.change_pages(key, &paged, event, |pages, set: &mut Ranked| {
            all = match (&bounds, before.rest) {
                // Ranks are counted as they were in the first run.
                (Bounds::Ranks(..), Some([start, count])) => start..start.saturating_add(count),
                (_, Some([_, count])) => {
                    let ranks = bounds.ranks_in_pages((set, pages), false, 0)?;
                    ranks.start..ranks.end.min(ranks.start.saturating_add(count))
                }
                _ => bounds.ranks_in_pages((set, pages), false, 0)?,
            };
            all.end = all.end.min(set.len()).max(all.start);
            // One that loses all members is deleted as a whole, unread.
            let goes_whole = all == (0..set.len());
            let end =
                if goes_whole { all.end } else { all.end.min(all.start.saturating_add(most)) };
            gone = all.start..end;
            if gone.is_empty() || (on_worker && gone != all) {
                return Ok(None);
            }
            set.remove_range(pages, gone.clone())?;
            Ok(Some(()))
        });
        let removed = gone.end - gone.start;
        let has_more = gone != all;
        if has_more {
            ctx.hand_over_changes(all.end - all.start);
        }
        if removed > 0 && (has_more || before.rest.is_some()) {
            let (first, last) = (gone.start.to_string(), (gone.end - 1).to_string());
            ctx.log(db, &[b"ZREMRANGEBYRANK", key, first.as_bytes(), last.as_bytes()]);
        } else if removed > 0 {
            ctx.log_request();
        }
        if has_more {
            ctx.removes_more(removed, [gone.start, all.end - gone.end]);
            return Ok(());
        }
        ctx.out.int((before.elements + removed) as i64);
        return Ok(());
    }
    remove(ctx, event, |set| {
        let ranks = bounds.ranks(&set.view(), false, 0);
        let count = ranks.len();
        if count > 0 {
            set.remove_ranks(ranks);
        }
        count
    })
}

/// One operation, or none when `take` removes nothing; logged as it came. Answers how many went.
fn remove(
    ctx: &mut Ctx<'_, '_>,
    event: &'static str,
    take: impl FnOnce(&mut SortedSetEdit) -> usize,
) -> CommandResult {
    let key = ctx.args.get(1);
    let found = ctx.lookup::<SortedSets, _>(Purpose::Write, key, |set, _| {
        set.map(|set| (set.edit(), set.expire_at_ms()))
    })?;
    let Some((mut set, expire_at_ms)) = found else {
        ctx.out.int(0);
        return Ok(());
    };
    let removed = take(&mut set);
    if removed > 0 {
        ctx.write_back(key, &set, expire_at_ms, Event::sorted_set(event))?;
        ctx.log_request();
    }
    ctx.out.int(removed as i64);
    Ok(())
}
