//! Commands that search for members near a position: GEOSEARCH, GEOSEARCHSTORE, GEORADIUS, GEORADIUSBYMEMBER and their
//! read-only forms.

use super::hash::Position;
use super::position::{coordinates, distance};
use super::request::{Form, Request};
use super::shape::Shape;
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::interop::partial_sort::sort_part;
use crate::keyspace::Kind;
use crate::keyspace::collection::{SortedSetEdit, SortedSetView, SortedSets, Thresholds};
use crate::keyspace::paged::{self, Paged};
use crate::resp::Reply;
use crate::value::ValueType;
use std::convert::Infallible;
use std::ops::Range;

/// So many members of a sorted set in pages are read together, at first, where any will do.
const FIRST_STEP: u64 = 512;

/// GEORADIUS key longitude latitude radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]
/// [STORE key|STOREDIST key].
pub(super) fn georadius(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    run(ctx, Form::Position, true)
}

/// GEORADIUS_RO: [`georadius`] without STORE.
pub(super) fn georadius_ro(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    run(ctx, Form::Position, false)
}

/// GEORADIUSBYMEMBER key member radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]
/// [STORE key|STOREDIST key].
pub(super) fn georadiusbymember(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    run(ctx, Form::Member, true)
}

/// GEORADIUSBYMEMBER_RO: [`georadiusbymember`] without STORE.
pub(super) fn georadiusbymember_ro(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    run(ctx, Form::Member, false)
}

/// GEOSEARCH key FROMMEMBER member|FROMLONLAT longitude latitude BYRADIUS radius unit|BYBOX width height unit [ASC|DESC]
/// [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH].
pub(super) fn geosearch(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    run(ctx, Form::Search, false)
}

/// GEOSEARCHSTORE destination source, then as GEOSEARCH, [STOREDIST].
pub(super) fn geosearchstore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    run(ctx, Form::SearchStore, false)
}

fn run(ctx: &mut Ctx<'_, '_>, form: Form, may_store: bool) -> CommandResult {
    if form == Form::Search {
        return search(ctx, form, may_store).map(drop);
    }
    // Where it is stored does not depend on the set. With one, there may be more errors, and no fewer.
    let no_set = None::<fn(&[u8]) -> Option<f64>>;
    let request = Request::parse(ctx.args, form, may_store, no_set);
    let Some(destination) = request.ok().and_then(|request| request.store) else {
        return search(ctx, form, may_store).map(drop);
    };
    let set =
        ctx.made_of_keys(|ctx| search(ctx, form, may_store).map(Option::unwrap_or_default))?;
    let event = if form == Form::SearchStore { "geosearchstore" } else { "georadiusstore" };
    ctx.store(destination, set, Event::sorted_set(event))
}

/// Answers, or returns what is to be stored.
fn search(
    ctx: &mut Ctx<'_, '_>,
    form: Form,
    may_store: bool,
) -> Result<Option<SortedSetEdit>, CommandError> {
    let (args, thresholds) = (ctx.args, ctx.thresholds());
    let source = args.get(if form == Form::SearchStore { 2 } else { 1 });
    let search_whole = |set: Option<SortedSetView<'_>>, out: &mut Reply| {
        let score_of = set.map(|set| move |member: &[u8]| set.score(member));
        let request = Request::parse(args, form, may_store, score_of)?;
        // Without a set there is no shape either, where a member was to be its centre.
        let Some((set, shape)) = set.zip(request.shape()) else {
            return Ok(request.finish(&[], &thresholds, out));
        };
        let all: Vec<_> = set.iter().collect();
        let members = shape.scores().into_iter().flat_map(|scores| {
            let start = all.partition_point(|(score, _)| *score < scores.start);
            all[start..].iter().take_while(move |(score, _)| *score < scores.end)
        });
        let Ok(found) = request.found(&shape, members.copied().map(Ok::<_, Infallible>));
        Ok(request.finish(&found, &thresholds, out))
    };
    if let Some(value) = ctx.past_value(source, &[ValueType::SortedSet]) {
        let value = value?;
        return search_whole(value.as_ref().and_then(|v| SortedSets::view(v.entry())), ctx.out);
    }
    if let Some(paged) = ctx.paged::<SortedSets>(Purpose::Read, source)? {
        return search_pages(ctx, (form, may_store), source, &paged);
    }
    ctx.lookup::<SortedSets, _>(Purpose::Read, source, search_whole)?
}

/// [`search`] of a sorted set in pages: only those of the cells are read.
fn search_pages(
    ctx: &mut Ctx<'_, '_>,
    (form, may_store): (Form, bool),
    source: &[u8],
    paged: &Paged,
) -> Result<Option<SortedSetEdit>, CommandError> {
    let (args, thresholds) = (ctx.args, ctx.thresholds());
    let (request, ranks) = ctx.read_ranked(source, paged, |set, pages, _| {
        let mut missed = None;
        let score_of = |member: &[u8]| {
            set.score(pages, member).unwrap_or_else(|error| {
                missed = Some(error);
                None
            })
        };
        let request = Request::parse(args, form, may_store, Some(score_of));
        // An error may come from a member that could not be looked up.
        if let Some(missed) = missed {
            return Err(missed.into());
        }
        let Ok(request) = request else { return Ok(request.map(|request| (request, Vec::new()))) };
        let scores = request.shape().map(|shape| shape.scores()).unwrap_or_default();
        let ranks = set.ranks_of_scores(pages, &scores)?;
        Ok(Ok((request, ranks)))
    })?;
    let Some(shape) = request.shape() else { return Ok(None) };
    let members = ranks.iter().map(|ranks| ranks.end - ranks.start).sum();
    let whole = paged::Extent::of(paged, paged.descriptor.totals.elements);
    ctx.hand_over_part_above(paged, whole.bytes_of(members));
    let ranks = if request.any { in_steps(&ranks) } else { ranks };
    Ok(ctx.read_ranked(source, paged, |set, pages, out| {
        if !request.any {
            set.needs_ranges(pages, &ranks)?;
        }
        let found = request.found(&shape, set.ranges(pages, &ranks))?;
        Ok(request.finish(&found, &thresholds, out))
    }))
}

/// Cuts ranges of ranks into parts. Behind the first ones, each is at most as long as all before it: a search that ends early
/// reads few pages, and one that does not needs few rounds to have them in memory.
fn in_steps(ranks: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut steps, mut seen) = (Vec::new(), 0);
    for range in ranks {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + FIRST_STEP.max(seen));
            steps.push(start..end);
            seen += end - start;
            start = end;
        }
    }
    steps
}

/// A member that was found.
struct Point<'v> {
    member: &'v [u8],
    score: f64,
    position: Position,
    /// From the centre, in the unit of the request.
    distance: f64,
}

impl Request<'_> {
    /// The members that are asked for, in their order. `members`: those in the cells of the shape, cell by cell.
    fn found<'v, E>(
        &self,
        shape: &Shape,
        members: impl Iterator<Item = Result<(f64, &'v [u8]), E>>,
    ) -> Result<Vec<Point<'v>>, E> {
        let limit = if self.any { self.count } else { usize::MAX };
        let mut found = Vec::new();
        for member in members {
            let (score, member) = member?;
            let position = Position::of_score(score);
            if let Some(distance_m) = shape.distance_m(position) {
                let distance = distance_m / shape.unit_m;
                found.push((distance_m, Point { member, score, position, distance }));
                if found.len() >= limit {
                    break;
                }
            }
        }
        let wanted = if self.count > 0 { self.count.min(found.len()) } else { found.len() };
        // The nearest ones are meant, unless any will do.
        let nearest = (self.count > 0 && !self.any).then_some(false);
        if let Some(descending) = self.descending.or(nearest) {
            sort_part(&mut found, &(0..wanted), |(one, _), (other, _)| {
                let order = one.total_cmp(other);
                if descending { order.reverse() } else { order }
            });
        }
        found.truncate(wanted);
        Ok(found.into_iter().map(|(_, point)| point).collect())
    }

    /// Answers with what was found, or returns it where it is to be stored.
    fn finish(
        &self,
        found: &[Point<'_>],
        thresholds: &Thresholds,
        out: &mut Reply,
    ) -> Option<SortedSetEdit> {
        if self.store.is_none() {
            self.answer(found, out);
            return None;
        }
        let by_distance =
            |point: &Point<'_>| if self.by_distance { point.distance } else { point.score };
        let members = found.iter().map(|point| (by_distance(point), point.member)).collect();
        Some(SortedSetEdit::of_distinct(members, thresholds))
    }

    fn answer(&self, found: &[Point<'_>], out: &mut Reply) {
        let options = [self.with_distance, self.with_hash, self.with_position];
        let parts = options.iter().filter(|&&given| given).count();
        out.array(found.len());
        for point in found {
            if parts > 0 {
                out.array(parts + 1);
            }
            out.bulk(point.member);
            if self.with_distance {
                distance(point.distance, out);
            }
            if self.with_hash {
                out.int(point.score as i64);
            }
            if self.with_position {
                coordinates(point.position, out);
            }
        }
    }
}
