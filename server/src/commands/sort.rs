//! SORT and SORT_RO.
//!
//! BY and GET patterns name keys that no key specification can tell, so these commands run under all
//! latches. There is no list, set or sorted set yet: a source is missing, or of the wrong type.

use crate::dispatch::{Args, Binding, CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::number::parse_i64;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] =
    &[Binding::exclusive("sort", sort), Binding::exclusive("sort_ro", sort_ro)];

/// Parses the options; gives the destination of STORE.
fn destination(args: Args<'_>, read_only: bool) -> Result<Option<&[u8]>, CommandError> {
    let mut destination = None;
    let mut at = 2;
    while at < args.len() {
        let behind = args.len() - at - 1;
        match args.get(at).to_ascii_uppercase().as_slice() {
            b"ASC" | b"DESC" | b"ALPHA" => {}
            b"LIMIT" if behind >= 2 => {
                for limit in [args.get(at + 1), args.get(at + 2)] {
                    parse_i64(limit).ok_or(CommandError::NotInteger)?;
                }
                at += 2;
            }
            b"STORE" if behind >= 1 && !read_only => {
                destination = Some(args.get(at + 1));
                at += 1;
            }
            b"BY" | b"GET" if behind >= 1 => at += 1,
            _ => return Err(CommandError::Syntax),
        }
        at += 1;
    }
    Ok(destination)
}

/// SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE key].
fn sort(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    run(ctx, false)
}

/// SORT_RO: the same without STORE.
fn sort_ro(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    run(ctx, true)
}

/// An empty result stored deletes the destination: one operation if it existed, logged as DEL.
fn run(ctx: &mut Ctx<'_, '_>, read_only: bool) -> CommandResult {
    let (db, source) = (ctx.client.db, ctx.args.get(1));
    let destination = destination(ctx.args, read_only)?;
    if ctx.inspect(Purpose::Read, db, source, |entry, _| entry.is_some()) {
        return Err(CommandError::WrongType);
    }
    let Some(key) = destination else {
        ctx.out.array(0);
        return Ok(());
    };
    if ctx.inspect(Purpose::Write, db, key, |entry, _| entry.is_some())
        && ctx.delete(db, key, Event::generic("del"))
    {
        ctx.log(db, &[b"DEL", key]);
    }
    ctx.out.int(0);
    Ok(())
}
