//! SORT and SORT_RO.
//!
//! The keys named by BY and GET patterns cannot be derived from a key specification, so these commands take all latches.

mod options;
mod order;
mod pattern;
mod source;

use crate::auth::KeyRights;
use crate::dispatch::{Binding, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{Edit, ListEdit};
use crate::keyspace::texts::Texts;
use options::Options;
use source::{Source, WANTED};

/// The group's commands.
pub(super) const COMMANDS: &[Binding] =
    &[Binding::exclusive("sort", sort), Binding::exclusive("sort_ro", sort_ro)];

/// SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE key].
fn sort(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    run(ctx, false)
}

/// SORT_RO: [`sort`] without STORE.
fn sort_ro(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    run(ctx, true)
}

fn run(ctx: &mut Ctx<'_, '_>, read_only: bool) -> CommandResult {
    let reads_all_keys = ctx.client.may_with_all_keys(ctx.spec, ctx.args, KeyRights::READ);
    let mut options = Options::parse(ctx.args, read_only, reads_all_keys)?;
    let key = ctx.args.get(1);
    let paged = ctx.paged_of(Purpose::Read, key, &WANTED)?;
    let mut source = match &paged {
        Some(paged) => Source::unread(paged),
        None => Source::of_record(ctx, key)?,
    };
    // Redis' sets have no order of their own: if the result must be deterministic, they are sorted.
    let is_to_last = options.store.is_some() || ctx.client.script.is_alone;
    if options.unsorted && source.is_set && is_to_last {
        options.sort_as_texts();
    }
    let chosen = if options.unsorted {
        let is_reversed = options.descending && !source.is_set;
        let places = options.places(source.count, is_reversed);
        // Only what is asked for is read of pages.
        let places = match &paged {
            Some(paged) => source.read(ctx, (key, paged), places),
            None => places,
        };
        if is_reversed { places.rev().collect() } else { places.collect::<Vec<_>>() }
    } else {
        if let Some(paged) = &paged {
            source.read(ctx, (key, paged), 0..source.count);
        }
        let mut order = order::sorted(ctx, &options, &source.elements)?;
        let window = options.window(order.len());
        order.truncate(window.end);
        order.split_off(window.start)
    };
    let (elements, chosen) = (&source.elements, chosen.as_slice());
    match options.store {
        Some(destination) => store(ctx, &options, elements, chosen, destination),
        None => {
            reply(ctx, &options, elements, chosen);
            Ok(())
        }
    }
}

fn reply(ctx: &mut Ctx<'_, '_>, options: &Options<'_>, elements: &Texts, chosen: &[usize]) {
    ctx.out.array(chosen.len() * options.get.len().max(1));
    for &number in chosen {
        let element = elements.get(number);
        if options.get.is_empty() {
            ctx.out.bulk(element);
        }
        for pattern in &options.get {
            pattern.look_up(ctx, element, |value, out| match value {
                Some(value) => out.bulk(value),
                None => out.null(),
            });
        }
    }
}

/// One operation, logged verbatim: replay finds equal keys. An empty result deletes the destination: one operation
/// if it existed, logged as DEL.
fn store(
    ctx: &mut Ctx<'_, '_>,
    options: &Options<'_>,
    elements: &Texts,
    chosen: &[usize],
    destination: &[u8],
) -> CommandResult {
    let db = ctx.client.db;
    let mut list = ListEdit::default();
    for &number in chosen {
        let element = elements.get(number);
        if options.get.is_empty() {
            list.push_right(element);
        }
        for pattern in &options.get {
            pattern.look_up(ctx, element, |value, _| list.push_right(value.unwrap_or_default()));
        }
    }
    let was = ctx.inspect(Purpose::Write, db, destination, |entry, _| entry.is_some());
    if !list.is_empty() {
        ctx.check_size(&list)?;
        let meta = ListEdit::expiring_at(0);
        ctx.put(db, destination, meta, list.bytes(), Event::list("sortstore"));
        ctx.log_request();
    } else if was && ctx.delete(db, destination, Event::generic("del")) {
        ctx.log(db, &[b"DEL", destination]);
    }
    ctx.out.int(list.len() as i64);
    Ok(())
}
