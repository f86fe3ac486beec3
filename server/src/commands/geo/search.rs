//! Commands that search for members near a position: GEOSEARCH, GEOSEARCHSTORE, GEORADIUS, GEORADIUSBYMEMBER and their
//! read-only forms.

use super::hash::Position;
use super::position::{coordinates, distance, position};
use super::shape::{Extent, Shape};
use crate::commands::sorted_set::store;
use crate::dispatch::{Args, CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{SortedSetEdit, SortedSetView, SortedSets};
use crate::number::parse_i64;
use crate::resp::Reply;

/// How a command specifies the search area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// GEORADIUS: position and radius lead.
    Position,
    /// GEORADIUSBYMEMBER: member and radius lead.
    Member,
    /// GEOSEARCH: by options.
    Search,
    /// GEOSEARCHSTORE: by options, after the destination.
    SearchStore,
}

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
    let (args, thresholds) = (ctx.args, ctx.thresholds());
    let source = args.get(if form == Form::SearchStore { 2 } else { 1 });
    let outcome = ctx.lookup::<SortedSets, _>(Purpose::Read, source, |set, out| {
        let request = Request::parse(args, form, may_store, set.as_ref())?;
        // Without a set there is no shape either, where a member was to be its centre.
        let found = set.zip(request.shape()).map(|(set, shape)| request.found(&set, &shape));
        let found = found.unwrap_or_default();
        let Some(store) = request.store else {
            request.answer(&found, out);
            return Ok::<_, CommandError>(None);
        };
        let by_distance =
            |point: &Point<'_>| if request.by_distance { point.distance } else { point.score };
        let members = found.iter().map(|point| (by_distance(point), point.member)).collect();
        Ok(Some((store, SortedSetEdit::of_distinct(members, &thresholds))))
    })??;
    let Some((destination, set)) = outcome else { return Ok(()) };
    let event = if form == Form::SearchStore { "geosearchstore" } else { "georadiusstore" };
    store(ctx, destination, &set, Event::sorted_set(event))
}

/// A member that was found.
struct Point<'v> {
    member: &'v [u8],
    score: f64,
    position: Position,
    /// From the centre, in the unit of the request.
    distance: f64,
}

#[derive(Debug, Default)]
struct Request<'a> {
    centre: Option<Position>,
    extent: Option<(Extent, f64)>,
    with_distance: bool,
    with_hash: bool,
    with_position: bool,
    any: bool,
    /// Most members; 0 for all.
    count: usize,
    descending: Option<bool>,
    store: Option<&'a [u8]>,
    by_distance: bool,
}

const NO_MEMBER: CommandError = CommandError::text("ERR could not decode requested zset member");

impl<'a> Request<'a> {
    /// `set`: what is searched, which knows where members are.
    fn parse(
        args: Args<'a>,
        form: Form,
        may_store: bool,
        set: Option<&SortedSetView<'_>>,
    ) -> Result<Self, CommandError> {
        let mut request = Self::default();
        // Where there is nothing, nothing is known of the member, and the request is followed to its end.
        let member_at = |at: usize| match set {
            Some(set) => set.score(args.get(at)).map(Position::of_score).map(Some).ok_or(NO_MEMBER),
            None => Ok(None),
        };
        let mut at = match form {
            Form::Position => {
                request.centre = Some(position(args, 2)?);
                request.extent = Some(Extent::circle(args, 4)?);
                6
            }
            Form::Member => {
                request.centre = member_at(2)?;
                request.extent = set.map(|_| Extent::circle(args, 3)).transpose()?;
                5
            }
            Form::Search => 2,
            Form::SearchStore => {
                request.store = Some(args.get(1));
                3
            }
        };
        let is_search = matches!(form, Form::Search | Form::SearchStore);
        let (mut from_member, mut from_position) = (false, false);
        let (mut by_radius, mut by_box) = (false, false);
        while at < args.len() {
            let behind = args.len() - at - 1;
            match args.get(at).to_ascii_uppercase().as_slice() {
                b"WITHDIST" => request.with_distance = true,
                b"WITHHASH" => request.with_hash = true,
                b"WITHCOORD" => request.with_position = true,
                b"ANY" => request.any = true,
                b"ASC" => request.descending = Some(false),
                b"DESC" => request.descending = Some(true),
                b"COUNT" if behind >= 1 => {
                    let count = parse_i64(args.get(at + 1)).ok_or(CommandError::NotInteger)?;
                    request.count = usize::try_from(count)
                        .ok()
                        .filter(|&count| count > 0)
                        .ok_or(CommandError::text("ERR COUNT must be > 0"))?;
                    at += 1;
                }
                word @ (b"STORE" | b"STOREDIST") if may_store && behind >= 1 => {
                    request.store = Some(args.get(at + 1));
                    request.by_distance = word == b"STOREDIST";
                    at += 1;
                }
                b"FROMMEMBER" if is_search && behind >= 1 && !from_position => {
                    request.centre = member_at(at + 1)?;
                    from_member = true;
                    at += 1;
                }
                b"FROMLONLAT" if is_search && behind >= 2 && !from_member => {
                    request.centre = Some(position(args, at + 1)?);
                    from_position = true;
                    at += 2;
                }
                b"BYRADIUS" if is_search && behind >= 2 && !by_box => {
                    request.extent = Some(Extent::circle(args, at + 1)?);
                    by_radius = true;
                    at += 2;
                }
                b"BYBOX" if is_search && behind >= 3 && !by_radius => {
                    request.extent = Some(Extent::rectangle(args, at + 1)?);
                    by_box = true;
                    at += 3;
                }
                b"STOREDIST" if form == Form::SearchStore => request.by_distance = true,
                _ => return Err(CommandError::Syntax),
            }
            at += 1;
        }
        let has_options = request.with_distance || request.with_hash || request.with_position;
        if request.store.is_some() && has_options {
            return Err(CommandError::text(if form == Form::SearchStore {
                "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            } else {
                "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            }));
        }
        if is_search && !(from_member || from_position) {
            let before = "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ";
            return Err(CommandError::quoting(before, args.get(0), ""));
        }
        if is_search && !(by_radius || by_box) {
            let before = "ERR exactly one of BYRADIUS and BYBOX can be specified for ";
            return Err(CommandError::quoting(before, args.get(0), ""));
        }
        if request.any && request.count == 0 {
            return Err(CommandError::text("ERR the ANY argument requires COUNT argument"));
        }
        Ok(request)
    }

    fn shape(&self) -> Option<Shape> {
        let (extent, unit_m) = self.extent?;
        Some(Shape { centre: self.centre?, extent, unit_m })
    }

    /// The members that are asked for, in their order.
    fn found<'v>(&self, set: &SortedSetView<'v>, shape: &Shape) -> Vec<Point<'v>> {
        let limit = if self.any { self.count } else { usize::MAX };
        let all: Vec<(f64, &[u8])> = set.iter().collect();
        let mut found = Vec::new();
        for cell in shape.cells() {
            let from = cell.first_score();
            let until = cell.next().first_score();
            let start = all.partition_point(|(score, _)| *score < from);
            for (score, member) in all[start..].iter().take_while(|(score, _)| *score < until) {
                if found.len() >= limit {
                    break;
                }
                let position = Position::of_score(*score);
                if let Some(distance_m) = shape.distance_m(position) {
                    let distance = distance_m / shape.unit_m;
                    found.push((distance_m, Point { member, score: *score, position, distance }));
                }
            }
        }
        // The nearest ones are meant, unless any will do.
        let nearest = (self.count > 0 && !self.any).then_some(false);
        if let Some(descending) = self.descending.or(nearest) {
            found.sort_by(|(one, _), (other, _)| {
                let order = one.total_cmp(other);
                if descending { order.reverse() } else { order }
            });
        }
        if self.count > 0 {
            found.truncate(self.count);
        }
        found.into_iter().map(|(_, point)| point).collect()
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
