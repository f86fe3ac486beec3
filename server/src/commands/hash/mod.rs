//! Hash commands.
//!
//! Every command that changes a hash performs exactly one engine operation. Its log form, executed on the same state,
//! repeats that operation.

mod counter;
mod due;
mod get;
mod random;
mod scan;
mod set;
mod with_times;

use crate::dispatch::table::{Binding, Elements};
use crate::dispatch::{Args, CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{Edit, HashEdit, Hashes};
use crate::number::parse_i64;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("hset", set::hset).looks_up(Elements::BEFORE_VALUES),
    Binding::keyed("hmset", set::hmset).looks_up(Elements::BEFORE_VALUES),
    Binding::keyed("hsetnx", set::hsetnx).looks_up(Elements::ONE),
    Binding::keyed("hdel", set::hdel).looks_up(Elements::ALL),
    Binding::keyed("hget", get::hget).looks_up(Elements::ONE),
    Binding::keyed("hmget", get::hmget).looks_up(Elements::ALL),
    Binding::keyed("hgetall", get::hgetall),
    Binding::keyed("hkeys", get::hkeys),
    Binding::keyed("hvals", get::hvals),
    Binding::keyed("hlen", get::hlen),
    Binding::keyed("hexists", get::hexists).looks_up(Elements::ONE),
    Binding::keyed("hstrlen", get::hstrlen).looks_up(Elements::ONE),
    Binding::keyed("hincrby", counter::hincrby).looks_up(Elements::ONE),
    Binding::keyed("hincrbyfloat", counter::hincrbyfloat).looks_up(Elements::ONE),
    Binding::keyed("hrandfield", random::hrandfield),
    Binding::keyed("hscan", scan::hscan),
    Binding::keyed("hexpire", due::hexpire),
    Binding::keyed("hpexpire", due::hpexpire),
    Binding::keyed("hexpireat", due::hexpireat),
    Binding::keyed("hpexpireat", due::hpexpireat),
    Binding::keyed("httl", due::httl),
    Binding::keyed("hpttl", due::hpttl),
    Binding::keyed("hexpiretime", due::hexpiretime),
    Binding::keyed("hpexpiretime", due::hpexpiretime),
    Binding::keyed("hpersist", due::hpersist),
    Binding::keyed("hgetex", with_times::hgetex),
    Binding::keyed("hsetex", with_times::hsetex),
    Binding::keyed("hgetdel", with_times::hgetdel),
];

/// The hash under `key`, to be changed, with room for `more_bytes` (an empty one if there is none), and the key's
/// expiry.
fn change(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    more_bytes: usize,
) -> Result<(HashEdit, u64), CommandError> {
    ctx.lookup::<Hashes, _>(Purpose::Write, key, |hash, _| {
        hash.map_or_else(Default::default, |hash| (hash.edit(more_bytes), hash.expire_at_ms()))
    })
}

const WRONG_COUNT: CommandError = CommandError::text(
    "ERR numfields should be greater than 0 and match the provided number of fields",
);

/// The position of FIELDS, searched from argument `from` on; the last argument never counts.
fn place_of_fields(args: Args<'_>, from: usize) -> Option<usize> {
    (from..args.len() - 1).find(|&at| args.get(at).eq_ignore_ascii_case(b"FIELDS"))
}

/// The arguments after FIELDS and its count, `each` per field.
fn named_fields<'a>(
    args: Args<'a>,
    place: Option<usize>,
    each: usize,
) -> Result<impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a>, CommandError> {
    let place = place.ok_or(WRONG_COUNT)?;
    let count = parse_i64(args.get(place + 1)).ok_or(CommandError::NotInteger)?;
    let words = args.from(place + 2);
    let wanted = usize::try_from(count).ok().filter(|&count| count > 0);
    if wanted.and_then(|count| count.checked_mul(each)) != Some(words.len()) {
        return Err(WRONG_COUNT);
    }
    Ok(words)
}

/// The arguments after FIELDS and its count, when these follow the key.
fn fields_behind_key<'a>(
    args: Args<'a>,
) -> Result<impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a>, CommandError> {
    if !args.get(2).eq_ignore_ascii_case(b"FIELDS") {
        return Err(CommandError::Syntax);
    }
    named_fields(args, Some(2), 1)
}

/// Writes a changed hash, with the expiry of its key, and reports these events: one operation. An empty hash
/// is deleted, reported as `del` too. The caller logs it.
fn write(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    hash: &HashEdit,
    expire_at_ms: u64,
    events: &[Event],
) -> CommandResult {
    let db = ctx.client.db;
    if hash.is_empty() {
        events.iter().for_each(|&event| ctx.tell(key, event));
        ctx.delete(db, key, Event::generic("del"));
        return Ok(());
    }
    ctx.check_size(hash)?;
    ctx.put(db, key, hash.meta(expire_at_ms), hash.bytes(), events.first().copied());
    events.iter().skip(1).for_each(|&event| ctx.tell(key, event));
    Ok(())
}
