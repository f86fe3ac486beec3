//! Commands on positions, which are the scores of sorted sets.
//!
//! Every command performs at most one engine operation per key. Its log form, executed on the same state, repeats these
//! operations.

mod hash;
mod position;
mod request;
mod search;
mod shape;

use crate::dispatch::table::Binding;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("geoadd", position::geoadd),
    Binding::keyed("geodist", position::geodist),
    Binding::keyed("geohash", position::geohash),
    Binding::keyed("geopos", position::geopos),
    Binding::keyed("georadius", search::georadius),
    Binding::keyed("georadius_ro", search::georadius_ro),
    Binding::keyed("georadiusbymember", search::georadiusbymember),
    Binding::keyed("georadiusbymember_ro", search::georadiusbymember_ro),
    Binding::keyed("geosearch", search::geosearch),
    Binding::keyed("geosearchstore", search::geosearchstore),
];
