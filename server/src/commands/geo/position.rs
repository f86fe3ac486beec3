//! Commands on single members: GEOADD, GEODIST, GEOHASH, GEOPOS.

use super::hash::{LATITUDES, LONGITUDES, Position};
use super::shape::unit_m;
use crate::commands::sorted_set::change::{Options, add};
use crate::commands::sorted_set::read::scores_in_pages;
use crate::dispatch::{Args, CommandError, CommandResult, Ctx, Purpose};
use crate::interop::c_numbers::parse_double;
use crate::keyspace::collection::SortedSets;
use crate::resp::Reply;

/// GEOADD key [NX|XX] [CH] longitude latitude member [longitude latitude member ...]: a ZADD.
pub(super) fn geoadd(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (options, first) = Options::of_positions(ctx.args)?;
    let words = ctx.args.from(first);
    if !words.len().is_multiple_of(3) {
        return Err(CommandError::Syntax);
    }
    let places = (first..ctx.args.len()).step_by(3);
    let scores: Vec<f64> = places
        .map(|at| position(ctx.args, at).map(Position::score))
        .collect::<Result<_, CommandError>>()?;
    if scores.is_empty() {
        return Err(CommandError::Syntax);
    }
    add(ctx, options, &scores, words.skip(2).step_by(3))
}

/// `longitude latitude` from `at` on.
pub(super) fn position(args: Args<'_>, at: usize) -> Result<Position, CommandError> {
    let number = |at| parse_double(args.get(at)).ok_or(CommandError::NotFloat);
    let (longitude, latitude) = (number(at)?, number(at + 1)?);
    if LONGITUDES.contains(longitude) && LATITUDES.contains(latitude) {
        return Ok(Position { longitude, latitude });
    }
    Err(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}").into())
}

/// GEODIST key member1 member2 [unit].
pub(super) fn geodist(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    let unit_m = match args.len() {
        4 => 1.0,
        5 => unit_m(args.get(4))?,
        _ => return Err(CommandError::Syntax),
    };
    let members = [args.get(2), args.get(3)];
    if let Some(scores) = scores_in_pages(ctx, members.into_iter())? {
        let mut positions = scores.into_iter().map(|score| score.map(Position::of_score));
        match positions.next().flatten().zip(positions.next().flatten()) {
            Some((one, other)) => distance(one.distance_m(other) / unit_m, ctx.out),
            None => ctx.out.null(),
        }
        return Ok(());
    }
    ctx.lookup::<SortedSets, _>(Purpose::Read, args.get(1), |set, out| {
        let position = |at| set.and_then(|set| set.score(args.get(at))).map(Position::of_score);
        match position(2).zip(position(3)) {
            Some((one, other)) => distance(one.distance_m(other) / unit_m, out),
            None => out.null(),
        }
    })
}

/// GEOHASH key [member ...].
pub(super) fn geohash(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    each(ctx, |position, out| match position {
        Some(position) => out.bulk(&position.text()),
        None => out.null(),
    })
}

/// GEOPOS key [member ...].
pub(super) fn geopos(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    each(ctx, |position, out| match position {
        Some(position) => coordinates(position, out),
        None => out.null_array(),
    })
}

/// Replies for each member from argument 2 on.
fn each(ctx: &mut Ctx<'_, '_>, reply: impl Fn(Option<Position>, &mut Reply)) -> CommandResult {
    let members = ctx.args.from(2);
    if let Some(scores) = scores_in_pages(ctx, members.clone())? {
        ctx.out.array(scores.len());
        scores.into_iter().for_each(|score| reply(score.map(Position::of_score), ctx.out));
        return Ok(());
    }
    ctx.lookup::<SortedSets, _>(Purpose::Read, ctx.args.get(1), |set, out| {
        out.array(members.len());
        let scores = set.map(|set| set.scores(members.clone()));
        for at in 0..members.len() {
            let score = scores.as_ref().and_then(|scores| *scores.get(at)?);
            reply(score.map(Position::of_score), out);
        }
    })
}

/// A distance in a reply.
pub(super) fn distance(distance: f64, out: &mut Reply) {
    out.bulk(format!("{distance:.4}").as_bytes());
}

/// Longitude and latitude in a reply.
pub(super) fn coordinates(position: Position, out: &mut Reply) {
    out.array(2);
    for degrees in [position.longitude, position.latitude] {
        let text = format!("{degrees:.17}");
        out.double(text.trim_end_matches('0').trim_end_matches('.'));
    }
}
