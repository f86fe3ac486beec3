//! Hash commands.
//!
//! Every command that changes a hash makes exactly one engine operation, and its log form, executed on the same state,
//! makes the same one.

mod counter;
mod get;
mod random;
mod scan;
mod set;

use crate::dispatch::table::Binding;
use crate::dispatch::{CommandError, Ctx, Purpose};
use crate::keyspace::collection::{HashEdit, Hashes};

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("hset", set::hset),
    Binding::keyed("hmset", set::hmset),
    Binding::keyed("hsetnx", set::hsetnx),
    Binding::keyed("hdel", set::hdel),
    Binding::keyed("hget", get::hget),
    Binding::keyed("hmget", get::hmget),
    Binding::keyed("hgetall", get::hgetall),
    Binding::keyed("hkeys", get::hkeys),
    Binding::keyed("hvals", get::hvals),
    Binding::keyed("hlen", get::hlen),
    Binding::keyed("hexists", get::hexists),
    Binding::keyed("hstrlen", get::hstrlen),
    Binding::keyed("hincrby", counter::hincrby),
    Binding::keyed("hincrbyfloat", counter::hincrbyfloat),
    Binding::keyed("hrandfield", random::hrandfield),
    Binding::keyed("hscan", scan::hscan),
];

/// The hash under `key` to be changed, with room for `more_bytes` (an empty one when there is none), and when the key
/// expires.
fn change(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    more_bytes: usize,
) -> Result<(HashEdit, u64), CommandError> {
    ctx.lookup::<Hashes, _>(Purpose::Write, key, |hash, _| {
        hash.map_or_else(Default::default, |hash| (hash.edit(more_bytes), hash.expire_at_ms()))
    })
}
