//! Commands on keys of every type, and on whole databases.

mod databases;
mod delete;
mod object;
mod rename;

use crate::dispatch::{Args, Binding, CommandError, OnDatabases, Traits};

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("del", delete::del).with(Traits::MISSES_KEYS.and(Traits::DELETES)),
    Binding::keyed("unlink", delete::del).with(Traits::MISSES_KEYS.and(Traits::DELETES)),
    Binding::keyed("exists", delete::exists),
    Binding::keyed("touch", delete::touch),
    Binding::keyed("type", delete::type_of),
    Binding::keyed("rename", rename::rename).with(Traits::MAKES_KEYS),
    Binding::keyed("renamenx", rename::renamenx).with(Traits::MAKES_KEYS),
    Binding::keyed("copy", rename::copy).with(Traits::NAMES_DATABASE),
    Binding::keyed("move", rename::move_key).with(Traits::NAMES_DATABASE),
    Binding::container("object"),
    Binding::keyed("object|encoding", object::encoding),
    Binding::keyed("object|freq", object::freq),
    Binding::keyed("object|idletime", object::idletime),
    Binding::keyed("object|refcount", object::refcount),
    Binding::local("object|help", object::help),
    Binding::exclusive("flushdb", databases::flushdb).on_databases(OnDatabases::EmptiesOne),
    Binding::exclusive("flushall", databases::flushall).on_databases(OnDatabases::EmptiesAll),
    Binding::exclusive("swapdb", databases::swapdb).on_databases(OnDatabases::Swaps),
];

const DATABASE_OUT_OF_RANGE: CommandError = CommandError::text("ERR DB index is out of range");

/// Argument `index` as the number of one of `databases` logical databases.
fn database_arg(args: Args<'_>, index: usize, databases: usize) -> Result<usize, CommandError> {
    let number = crate::number::parse_i64(args.get(index)).ok_or(CommandError::NotInteger)?;
    if i32::try_from(number).is_err() {
        return Err(CommandError::text(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    usize::try_from(number).ok().filter(|&db| db < databases).ok_or(DATABASE_OUT_OF_RANGE)
}
