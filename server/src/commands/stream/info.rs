//! XINFO.

use super::held::{ends, look, nothing};
use super::{group_at, no_group, wall_ms};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::keyspace::collection::StreamView;
use crate::keyspace::collection::stream::{Group, HIGHEST, LOWEST, id_text};
use crate::keyspace::paged::{GroupsAsked, Parts, PendingAsked};
use crate::keyspace::stream_read::{answer_entries, answer_entry};
use crate::resp::Reply;

/// Default number of entries that XINFO STREAM FULL shows.
const ENTRIES_SHOWN: usize = 10;

/// Answers a help text.
pub(super) fn answer_help(ctx: &mut Ctx<'_, '_>, lines: &[&str]) -> CommandResult {
    ctx.out.array(lines.len());
    lines.iter().for_each(|line| ctx.out.simple(line));
    Ok(())
}

/// XINFO HELP.
pub(super) fn help(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer_help(
        ctx,
        &[
            "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
            "CONSUMERS <key> <groupname>",
            "    Show consumers of <groupname>.",
            "GROUPS <key>",
            "    Show the stream consumer groups.",
            "STREAM <key> [FULL [COUNT <count>]",
            "    Show information about the stream.",
            "HELP",
            "    Prints this help.",
        ],
    )
}

fn optional(number: Option<i64>, out: &mut Reply) {
    match number {
        Some(number) => out.int(number),
        None => out.null(),
    }
}

fn counted(name: &str, number: usize, out: &mut Reply) {
    out.bulk(name.as_bytes());
    out.int(number as i64);
}

fn named(name: &str, text: &[u8], out: &mut Reply) {
    out.bulk(name.as_bytes());
    out.bulk(text);
}

/// The pairs of a group that both forms have in common.
fn answer_position(stream: StreamView<'_>, group: &Group, out: &mut Reply) {
    named("last-delivered-id", id_text(group.last_id).as_bytes(), out);
    out.bulk(b"entries-read");
    optional(group.entries_read.map(|read| read as i64), out);
    out.bulk(b"lag");
    optional(stream.lag(group), out);
}

/// XINFO GROUPS key.
pub(super) fn groups(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(2);
    let parts = Parts { groups: GroupsAsked::Heads, first_id: true, ..Parts::NONE };
    look(ctx, (Purpose::Read, key), parts, &nothing, |stream, out| {
        let stream = stream.ok_or(CommandError::NoSuchKey)?;
        let groups = stream.groups();
        out.array(groups.len());
        for group in &groups {
            out.map(6);
            named("name", &group.name, out);
            counted("consumers", group.consumers.len(), out);
            counted("pending", group.totals.entries as usize, out);
            answer_position(stream, group, out);
        }
        Ok(())
    })?
}

/// XINFO CONSUMERS key group.
pub(super) fn consumers(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, name, now_ms) = (ctx.args.get(2), ctx.args.get(3), wall_ms(ctx));
    let parts = Parts::group(name, PendingAsked::None);
    look(ctx, (Purpose::Read, key), parts, &nothing, |stream, out| {
        let groups = stream.ok_or(CommandError::NoSuchKey)?.groups();
        let group = &groups[group_at(&groups, name).ok_or_else(|| no_group(key, name))?];
        out.array(group.consumers.len());
        for consumer in &group.consumers {
            out.map(3);
            named("name", &consumer.name, out);
            counted("pending", consumer.pending as usize, out);
            counted("idle", now_ms.saturating_sub(consumer.seen_ms) as usize, out);
        }
        Ok(())
    })?
}

/// XINFO STREAM key [FULL [COUNT count]].
pub(super) fn stream(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (args, key) = (ctx.args, ctx.args.get(2));
    let word = |at: usize, name: &[u8]| args.get(at).eq_ignore_ascii_case(name);
    let mut most = ENTRIES_SHOWN;
    // Redis parses the options after the key.
    let options = match args.len() {
        3 => Ok(false),
        4 if word(3, b"FULL") => Ok(true),
        6 if word(3, b"FULL") && word(4, b"COUNT") => ctx.int_arg(5).map(|count| {
            most = usize::try_from(count).unwrap_or(ENTRIES_SHOWN);
            true
        }),
        _ => Err(ctx.spec.subcommand_error(args.get(1))),
    };
    let shown = if most == 0 { usize::MAX } else { most };
    let is_full = matches!(options, Ok(true));
    let first = if is_full { shown } else { 1 };
    let groups = if is_full { GroupsAsked::Full(shown) } else { GroupsAsked::Heads };
    let parts = Parts { groups, first_id: true, node_ids: true };
    let asks = |_: StreamView<'_>| ends(first).to_vec();
    look(ctx, (Purpose::Read, key), parts, &asks, |stream, out| {
        let stream = stream.ok_or(CommandError::NoSuchKey)?;
        let is_full = options?;
        out.map(if is_full { 9 } else { 10 });
        counted("length", stream.count(), out);
        let (keys, nodes) = stream.radix_tree();
        counted("radix-tree-keys", keys, out);
        counted("radix-tree-nodes", nodes, out);
        named("last-generated-id", id_text(stream.last_id()).as_bytes(), out);
        named("max-deleted-entry-id", id_text(stream.max_deleted_id()).as_bytes(), out);
        counted("entries-added", stream.entries_added() as usize, out);
        named("recorded-first-entry-id", id_text(stream.first_id()).as_bytes(), out);
        let groups = stream.groups();
        if is_full {
            out.bulk(b"entries");
            let entries: Vec<_> = stream.range(LOWEST, HIGHEST).take(shown).collect();
            answer_entries(&entries, out);
            out.bulk(b"groups");
            out.array(groups.len());
            groups.iter().for_each(|group| answer_group(stream, group, shown, out));
            return Ok(());
        }
        counted("groups", groups.len(), out);
        for (name, entry) in [
            ("first-entry", stream.range(LOWEST, HIGHEST).next()),
            ("last-entry", stream.range_back(LOWEST, HIGHEST).next()),
        ] {
            out.bulk(name.as_bytes());
            match entry {
                Some(entry) => answer_entry(&entry, out),
                None => out.null(),
            }
        }
        Ok(())
    })?
}

/// A group as XINFO STREAM FULL shows it, with at most `most` pending entries per list.
fn answer_group(stream: StreamView<'_>, group: &Group, most: usize, out: &mut Reply) {
    out.map(7);
    named("name", &group.name, out);
    answer_position(stream, group, out);
    counted("pel-count", group.totals.entries as usize, out);
    out.bulk(b"pending");
    out.array(group.pending.len().min(most));
    for pending in group.pending.iter().take(most) {
        out.array(4);
        out.bulk(id_text(pending.id).as_bytes());
        out.bulk(&group.consumers[pending.consumer].name);
        out.int(pending.delivered_ms as i64);
        out.int(pending.deliveries as i64);
    }
    let mut own = vec![Vec::new(); group.consumers.len()];
    group.pending.iter().for_each(|pending| own[pending.consumer].push(pending));
    out.bulk(b"consumers");
    out.array(group.consumers.len());
    for (consumer, own) in group.consumers.iter().zip(own) {
        out.map(4);
        named("name", &consumer.name, out);
        out.bulk(b"seen-time");
        out.int(consumer.seen_ms as i64);
        counted("pel-count", consumer.pending as usize, out);
        out.bulk(b"pending");
        out.array(own.len().min(most));
        for pending in own.into_iter().take(most) {
            out.array(3);
            out.bulk(id_text(pending.id).as_bytes());
            out.int(pending.delivered_ms as i64);
            out.int(pending.deliveries as i64);
        }
    }
}
