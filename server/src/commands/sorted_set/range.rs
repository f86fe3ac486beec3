//! Commands that return or store a range: ZRANGE, ZRANGESTORE, ZREVRANGE, ZRANGEBYSCORE, ZREVRANGEBYSCORE, ZRANGEBYLEX,
//! ZREVRANGEBYLEX.

use super::bounds::Bounds;
use super::{head, pair};
use crate::dispatch::{Args, CommandError, CommandResult, Ctx, Operands, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{SortedSetEdit, SortedSetView, SortedSets, Thresholds};
use crate::keyspace::operand::{Look, Members, Operand};
use crate::keyspace::paged::{InPieces, Paged, Ranked, Stop, Structure};
use crate::number::parse_i64;
use crate::resp::Reply;
use crate::value::ValueType;
use sexton_engine::page::Pages;
use std::ops::Range;

/// What the bounds are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Name,
}

/// What the command's name leaves open.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// Where the source is.
    source: usize,
    by: Option<By>,
    descending: Option<bool>,
    stores: bool,
}

/// ZRANGE key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES].
pub(super) fn zrange(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, Form { source: 1, by: None, descending: None, stores: false })
}

/// ZREVRANGE key start stop [WITHSCORES].
pub(super) fn zrevrange(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, Form { source: 1, by: Some(By::Rank), descending: Some(true), stores: false })
}

/// ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count].
pub(super) fn zrangebyscore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, Form { source: 1, by: Some(By::Score), descending: Some(false), stores: false })
}

/// ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count].
pub(super) fn zrevrangebyscore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, Form { source: 1, by: Some(By::Score), descending: Some(true), stores: false })
}

/// ZRANGEBYLEX key min max [LIMIT offset count].
pub(super) fn zrangebylex(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, Form { source: 1, by: Some(By::Name), descending: Some(false), stores: false })
}

/// ZREVRANGEBYLEX key max min [LIMIT offset count].
pub(super) fn zrevrangebylex(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, Form { source: 1, by: Some(By::Name), descending: Some(true), stores: false })
}

/// ZRANGESTORE dst src min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]: one operation, logged verbatim; an empty
/// outcome deletes the destination.
pub(super) fn zrangestore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let set = ctx.made_of_keys(|ctx| {
        let form = Form { source: 2, by: None, descending: None, stores: true };
        let (request, thresholds) = (Request::parse(ctx.args, form)?, ctx.thresholds());
        let source = ctx.args.get(form.source);
        let mut operands = Operands::of(ctx, std::iter::once(source), &[ValueType::SortedSet])?;
        let set = match operands.get(0) {
            Operand::Paged(_) => {
                let ranks = match operands.look(0, &mut Wanted(&request, &thresholds))? {
                    Found::Few(set) => return Ok(set),
                    Found::Many(ranks) => ranks,
                };
                let mut members = Members::default();
                operands.read_part(0, ranks, &mut members)?;
                return Ok(SortedSetEdit::of_distinct(members.iter().collect(), &thresholds));
            }
            Operand::SortedSet(set) => set.view(),
            Operand::Nothing | Operand::Set(_) => return Ok(SortedSetEdit::default()),
        };
        let ranks = request.ranks(&set);
        let members = set.iter().skip(ranks.start).take(ranks.len()).collect();
        Ok(SortedSetEdit::of_distinct(members, &thresholds))
    })?;
    ctx.store(ctx.args.get(1), set, Event::sorted_set("zrangestore"))
}

/// So many members are read of pages at once.
const FEW: u64 = 256;

/// Asks a sorted set in pages for the members that are asked for.
struct Wanted<'r, 'a>(&'r Request<'a>, &'r Thresholds);

enum Found {
    Few(SortedSetEdit),
    /// Their ranks.
    Many(Range<u64>),
}

impl Look for Wanted<'_, '_> {
    type Found = Found;

    fn look<P: Pages>(&mut self, paged: &Paged, pages: &P) -> Result<Found, Stop> {
        let set = Ranked::open(paged)?;
        let ranks = self.0.ranks_in_pages((&set, pages))?;
        if ranks.end - ranks.start > FEW {
            return Ok(Found::Many(ranks));
        }
        let members = set.range(pages, ranks)?.collect::<Result<Vec<_>, _>>()?;
        Ok(Found::Few(SortedSetEdit::of_distinct(members, self.1)))
    }
}

fn answer(ctx: &mut Ctx<'_, '_>, form: Form) -> CommandResult {
    let request = Request::parse(ctx.args, form)?;
    let source = ctx.args.get(form.source);
    if let Some(paged) = ctx.paged::<SortedSets>(Purpose::Read, source)? {
        return ctx.answer_in_pieces(source, &paged, &request);
    }
    ctx.lookup::<SortedSets, _>(Purpose::Read, ctx.args.get(form.source), |set, out| {
        let Some(set) = set else {
            out.array(0);
            return;
        };
        let ranks = request.ranks(&set);
        head(ranks.len(), request.with_scores, out);
        let members = set.iter().skip(ranks.start).take(ranks.len());
        if request.descending {
            let members: Vec<_> = members.collect();
            members.iter().rev().for_each(|member| pair(*member, request.with_scores, out));
        } else {
            members.for_each(|member| pair(member, request.with_scores, out));
        }
    })
}

/// A range that is asked for.
#[derive(Debug)]
struct Request<'a> {
    bounds: Bounds<'a>,
    descending: bool,
    with_scores: bool,
    /// How many are left out.
    offset: i64,
    /// Most members; a negative number is no bound.
    most: i64,
}

impl InPieces<Ranked> for Request<'_> {
    fn begin<P: Pages>(
        &self,
        set: &Ranked,
        pages: &P,
        _: u64,
        out: &mut Reply,
    ) -> Result<Range<u64>, Stop> {
        let ranks = self.ranks_in_pages((set, pages))?;
        head((ranks.end - ranks.start) as usize, self.with_scores, out);
        Ok(ranks)
    }

    fn write<P: Pages>(
        &self,
        set: &Ranked,
        pages: &P,
        part: Range<u64>,
        out: &mut Reply,
    ) -> Result<(), Stop> {
        if self.descending {
            for member in set.range_back(pages, part)? {
                pair(member?, self.with_scores, out);
            }
        } else {
            for member in set.range(pages, part)? {
                pair(member?, self.with_scores, out);
            }
        }
        Ok(())
    }

    fn is_descending(&self) -> bool {
        self.descending
    }
}

impl<'a> Request<'a> {
    fn parse(args: Args<'a>, form: Form) -> Result<Self, CommandError> {
        let (mut by, mut descending) = (form.by, form.descending);
        let (mut with_scores, mut offset, mut most) = (false, 0, -1);
        let mut at = form.source + 3;
        while at < args.len() {
            match args.get(at).to_ascii_uppercase().as_slice() {
                b"WITHSCORES" if !form.stores => with_scores = true,
                b"LIMIT" if args.len() - at > 2 => {
                    let number = |at| parse_i64(args.get(at)).ok_or(CommandError::NotInteger);
                    (offset, most) = (number(at + 1)?, number(at + 2)?);
                    at += 2;
                }
                b"REV" if descending.is_none() => descending = Some(true),
                b"BYLEX" if by.is_none() => by = Some(By::Name),
                b"BYSCORE" if by.is_none() => by = Some(By::Score),
                _ => return Err(CommandError::Syntax),
            }
            at += 1;
        }
        let (by, descending) = (by.unwrap_or(By::Rank), descending.unwrap_or(false));
        if most != -1 && by == By::Rank {
            return Err(CommandError::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Name {
            return Err(CommandError::text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (first, last) = (args.get(form.source + 1), args.get(form.source + 2));
        let (min, max) = if descending { (last, first) } else { (first, last) };
        let bounds = match by {
            By::Rank => {
                let number = |text| parse_i64(text).ok_or(CommandError::NotInteger);
                Bounds::Ranks(number(first)?, number(last)?)
            }
            By::Score => Bounds::scores(min, max)?,
            By::Name => Bounds::names(min, max)?,
        };
        Ok(Self { bounds, descending, with_scores, offset, most })
    }

    /// How many are left out.
    fn skipped(&self) -> usize {
        // A negative offset leaves everything out.
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        if matches!(self.bounds, Bounds::Ranks(..)) { 0 } else { offset }
    }

    /// The ranks of the members that are asked for, in a sorted set in pages.
    fn ranks_in_pages<P: Pages>(&self, set: (&Ranked, &P)) -> Result<Range<u64>, Stop> {
        let all = self.bounds.ranks_in_pages(set, self.descending, self.skipped())?;
        let len = all.end - all.start;
        let count = u64::try_from(self.most).map_or(len, |most| most.min(len));
        Ok(if self.descending { all.end - count..all.end } else { all.start..all.start + count })
    }

    /// The ranks of the members that are asked for.
    fn ranks(&self, set: &SortedSetView<'_>) -> Range<usize> {
        let all = self.bounds.ranks(set, self.descending, self.skipped());
        let count = usize::try_from(self.most).map_or(all.len(), |most| most.min(all.len()));
        if self.descending { all.end - count..all.end } else { all.start..all.start + count }
    }
}
