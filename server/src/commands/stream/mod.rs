//! Stream commands.
//!
//! A command performs one engine operation per log command it produces: each log command, executed on the same state,
//! performs exactly one.

mod add;
mod claim;
mod group;
mod held;
mod id;
mod info;
mod pending;
mod range;
mod read;
mod trim;

use crate::clock;
use crate::dispatch::table::Binding;
use crate::dispatch::{CommandError, Ctx, Purpose, REPLAY_MS};
use crate::keyspace::collection::stream::Group;
use crate::keyspace::collection::{StreamEdit, Streams};

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("xadd", add::xadd),
    Binding::keyed("xtrim", trim::xtrim),
    Binding::keyed("xdel", trim::xdel),
    Binding::keyed("xsetid", add::xsetid),
    Binding::keyed("xlen", range::xlen),
    Binding::keyed("xrange", range::xrange),
    Binding::keyed("xrevrange", range::xrevrange),
    Binding::keyed("xread", read::xread),
    Binding::keyed("xreadgroup", read::xreadgroup),
    Binding::container("xgroup"),
    Binding::keyed("xgroup|create", group::create),
    Binding::keyed("xgroup|setid", group::set_id),
    Binding::keyed("xgroup|destroy", group::destroy),
    Binding::keyed("xgroup|createconsumer", group::create_consumer),
    Binding::keyed("xgroup|delconsumer", group::delete_consumer),
    Binding::local("xgroup|help", group::help),
    Binding::keyed("xack", claim::xack),
    Binding::keyed("xclaim", claim::xclaim),
    Binding::keyed("xautoclaim", claim::xautoclaim),
    Binding::keyed("xpending", pending::xpending),
    Binding::container("xinfo"),
    Binding::keyed("xinfo|stream", info::stream),
    Binding::keyed("xinfo|groups", info::groups),
    Binding::keyed("xinfo|consumers", info::consumers),
    Binding::local("xinfo|help", info::help),
];

/// The time for what is delivered and seen now; also when the log is replayed.
fn wall_ms(ctx: &Ctx<'_, '_>) -> u64 {
    if ctx.now_ms == REPLAY_MS { clock::now_ms() } else { ctx.now_ms }
}

/// A copy of the key's stream, to be changed, with its expiry.
fn find(
    ctx: &mut Ctx<'_, '_>,
    (purpose, key): (Purpose, &[u8]),
    more_bytes: usize,
) -> Result<Option<(StreamEdit, u64)>, CommandError> {
    ctx.lookup::<Streams, _>(purpose, key, |stream, _| {
        stream.map(|stream| (stream.edit(more_bytes), stream.expire_at_ms()))
    })
}

/// The index of the group of this name.
fn group_at(groups: &[Group], name: &[u8]) -> Option<usize> {
    groups.binary_search_by(|group| group.name.as_slice().cmp(name)).ok()
}

/// A text with two arguments in it, each as C's `%s` shows it.
fn quoting_two(
    before: &str,
    first: &[u8],
    between: &'static str,
    second: &[u8],
    after: &'static str,
) -> CommandError {
    let shown =
        |argument: &[u8]| argument.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
    let argument = [shown(first), between.as_bytes().to_vec(), shown(second)].concat();
    CommandError::Quoting(
        match before {
            "key" => "NOGROUP No such key '",
            _ => "NOGROUP No such consumer group '",
        },
        argument.into(),
        after,
    )
}

/// Neither key nor group is there.
fn no_key_or_group(key: &[u8], group: &[u8]) -> CommandError {
    quoting_two("key", key, "' or consumer group '", group, "'")
}

/// The group is not there.
fn no_group(key: &[u8], group: &[u8]) -> CommandError {
    quoting_two("group", group, "' for key name '", key, "'")
}
