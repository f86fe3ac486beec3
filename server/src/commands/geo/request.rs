//! What a search asks for.

use super::hash::Position;
use super::position::position;
use super::shape::{Extent, Shape};
use crate::dispatch::{Args, CommandError};
use crate::number::parse_i64;

/// How a command specifies the search area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// GEORADIUS: position and radius lead.
    Position,
    /// GEORADIUSBYMEMBER: member and radius lead.
    Member,
    /// GEOSEARCH: by options.
    Search,
    /// GEOSEARCHSTORE: by options, after the destination.
    SearchStore,
}

#[derive(Debug, Default)]
pub(super) struct Request<'a> {
    pub(super) centre: Option<Position>,
    pub(super) extent: Option<(Extent, f64)>,
    pub(super) with_distance: bool,
    pub(super) with_hash: bool,
    pub(super) with_position: bool,
    pub(super) any: bool,
    /// Most members; 0 for all.
    pub(super) count: usize,
    pub(super) descending: Option<bool>,
    pub(super) store: Option<&'a [u8]>,
    pub(super) by_distance: bool,
}

const NO_MEMBER: CommandError = CommandError::text("ERR could not decode requested zset member");

impl<'a> Request<'a> {
    /// `score_of`: the score of a member of what is searched, if that is there.
    pub(super) fn parse(
        args: Args<'a>,
        form: Form,
        may_store: bool,
        mut score_of: Option<impl FnMut(&[u8]) -> Option<f64>>,
    ) -> Result<Self, CommandError> {
        let mut request = Self::default();
        // Where there is nothing, nothing is known of the member, and the request is followed to its end.
        let is_there = score_of.is_some();
        let mut member_at = |at: usize| match &mut score_of {
            Some(score_of) => {
                score_of(args.get(at)).map(Position::of_score).map(Some).ok_or(NO_MEMBER)
            }
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
                request.extent = is_there.then(|| Extent::circle(args, 3)).transpose()?;
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

    pub(super) fn shape(&self) -> Option<Shape> {
        let (extent, unit_m) = self.extent?;
        Some(Shape { centre: self.centre?, extent, unit_m })
    }
}
