//! XGROUP: groups and their consumers. Each subcommand performs at most one operation, and is logged verbatim.

use super::held::{Held, hold, nothing};
use super::id::{parse, parse_strict};
use super::{group_at, no_group, wall_ms};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::stream::Group;
use crate::keyspace::paged::{PendingAsked, PendingSpan};

const NO_KEY: CommandError = CommandError::text(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
);

/// Options of XGROUP CREATE and SETID: MKSTREAM, and ENTRIESREAD where it is given.
fn options(ctx: &Ctx<'_, '_>, may_make: bool) -> Result<(bool, Option<u64>), CommandError> {
    let (args, mut makes, mut read, mut at) = (ctx.args, false, None, 5);
    while at < args.len() {
        let word = args.get(at);
        if may_make && word.eq_ignore_ascii_case(b"MKSTREAM") {
            makes = true;
            at += 1;
        } else if word.eq_ignore_ascii_case(b"ENTRIESREAD") && at + 1 < args.len() {
            read = match ctx.int_arg(at + 1)? {
                -1 => None,
                number => Some(u64::try_from(number).map_err(|_| {
                    CommandError::text("ERR value for ENTRIESREAD must be positive or -1")
                })?),
            };
            at += 2;
        } else {
            return Err(ctx.spec.subcommand_error(args.get(1)));
        }
    }
    Ok((makes, read))
}

/// The stream, its groups, and the index of the request's group.
type Found = (Held, Vec<Group>, usize);

fn find_group(ctx: &mut Ctx<'_, '_>, pending: PendingAsked<'_>) -> Result<Found, CommandError> {
    let (key, name) = (ctx.args.get(2), ctx.args.get(3));
    let held = hold(ctx, (Purpose::Write, key), (name, pending), &nothing)?.ok_or(NO_KEY)?;
    let groups = held.view().groups();
    let at = group_at(&groups, name).ok_or_else(|| no_group(key, name))?;
    Ok((held, groups, at))
}

/// Changes the groups of an existing stream; watchers of the key are not notified.
fn write(
    ctx: &mut Ctx<'_, '_>,
    held: Held,
    groups: &[Group],
    event: &'static str,
) -> CommandResult {
    write_new(ctx, held, groups, event)?;
    ctx.changes.keep_value(ctx.args.get(2));
    Ok(())
}

fn write_new(
    ctx: &mut Ctx<'_, '_>,
    mut held: Held,
    groups: &[Group],
    event: &'static str,
) -> CommandResult {
    held.write(ctx, ctx.args.get(2), groups, Some(Event::stream(event)))?;
    ctx.log_request();
    Ok(())
}

/// XGROUP CREATE key group id|$ [MKSTREAM] [ENTRIESREAD entries-read].
pub(super) fn create(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (args, key, name) = (ctx.args, ctx.args.get(2), ctx.args.get(3));
    let (makes, entries_read) = options(ctx, true)?;
    let found = hold(ctx, (Purpose::Write, key), (name, PendingAsked::None), &nothing)?;
    if found.is_none() && !makes {
        return Err(NO_KEY);
    }
    if args.len() > 8 {
        return Err(ctx.spec.subcommand_error(args.get(1)));
    }
    let write = if found.is_some() { write } else { write_new };
    let held = found.unwrap_or_else(Held::new);
    let last_id = match args.get(4) {
        b"$" => held.view().last_id(),
        id => parse_strict(id, 0)?,
    };
    let mut groups = held.view().groups();
    match groups.binary_search_by(|group| group.name.as_slice().cmp(name)) {
        Ok(_) => {
            return Err(CommandError::text("BUSYGROUP Consumer Group name already exists"));
        }
        Err(at) => {
            let group = Group { name: name.to_vec(), last_id, entries_read, ..Group::default() };
            groups.insert(at, group);
        }
    }
    write(ctx, held, &groups, "xgroup-create")?;
    ctx.out.ok();
    Ok(())
}

/// XGROUP SETID key group id|$ [ENTRIESREAD entries-read].
pub(super) fn set_id(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (_, entries_read) = options(ctx, false)?;
    let (held, mut groups, at) = find_group(ctx, PendingAsked::None)?;
    if !matches!(ctx.args.len(), 5 | 7) {
        return Err(ctx.spec.subcommand_error(ctx.args.get(1)));
    }
    let group = &mut groups[at];
    group.last_id = match ctx.args.get(4) {
        b"$" => held.view().last_id(),
        id => parse(id, 0)?,
    };
    group.entries_read = entries_read;
    write(ctx, held, &groups, "xgroup-setid")?;
    ctx.out.ok();
    Ok(())
}

/// XGROUP DESTROY key group.
pub(super) fn destroy(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, name) = (ctx.args.get(2), ctx.args.get(3));
    let held =
        hold(ctx, (Purpose::Write, key), (name, PendingAsked::None), &nothing)?.ok_or(NO_KEY)?;
    let mut groups = held.view().groups();
    let Some(at) = group_at(&groups, name) else {
        ctx.out.int(0);
        return Ok(());
    };
    groups.remove(at);
    write(ctx, held, &groups, "xgroup-destroy")?;
    ctx.out.int(1);
    Ok(())
}

/// XGROUP CREATECONSUMER key group consumer.
pub(super) fn create_consumer(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let now_ms = wall_ms(ctx);
    let (held, mut groups, at) = find_group(ctx, PendingAsked::None)?;
    let (_, is_new) = groups[at].consumer_or_new(ctx.args.get(4), now_ms);
    if is_new {
        write(ctx, held, &groups, "xgroup-createconsumer")?;
    }
    ctx.out.int(i64::from(is_new));
    Ok(())
}

/// XGROUP DELCONSUMER key group consumer.
pub(super) fn delete_consumer(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let span = PendingSpan { consumer: Some(ctx.args.get(4)), ..PendingSpan::ALL };
    let (held, mut groups, at) = find_group(ctx, PendingAsked::Span(span))?;
    let Some(consumer) = groups[at].find_consumer(ctx.args.get(4)) else {
        ctx.out.int(0);
        return Ok(());
    };
    let pending = groups[at].remove_consumer(consumer);
    write(ctx, held, &groups, "xgroup-delconsumer")?;
    ctx.out.int(pending as i64);
    Ok(())
}

/// XGROUP HELP.
pub(super) fn help(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    super::info::answer_help(
        ctx,
        &[
            "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "CREATE <key> <groupname> <id|$> [option]",
            "    Create a new consumer group. Options are:",
            "    * MKSTREAM",
            "      Create the empty stream if it does not exist.",
            "    * ENTRIESREAD entries_read",
            "      Set the group's entries_read counter (internal use).",
            "CREATECONSUMER <key> <groupname> <consumer>",
            "    Create a new consumer in the specified group.",
            "DELCONSUMER <key> <groupname> <consumer>",
            "    Remove the specified consumer.",
            "DESTROY <key> <groupname>",
            "    Remove the specified group.",
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
            "    Set the current group ID and entries_read counter.",
            "HELP",
            "    Prints this help.",
        ],
    )
}
