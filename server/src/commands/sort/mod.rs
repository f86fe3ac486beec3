//! SORT and SORT_RO.
//!
//! The keys named by BY and GET patterns cannot be derived from a key specification, so these commands take all latches.

mod options;
mod order;
mod pattern;
mod texts;

use crate::auth::KeyRights;
use crate::dispatch::{Binding, CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::Kind;
use crate::keyspace::collection::{Edit, ListEdit, Lists, Sets, SortedSets};
use crate::value::ValueType;
use options::Options;
use sexton_engine::Entry;
use texts::Texts;

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
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let wanted = [ValueType::List, ValueType::Set, ValueType::SortedSet];
    let source = ctx.inspect_whole(Purpose::Read, (db, key), &wanted, |entry, _| {
        entry.map_or(Some(Source::default()), Source::of).ok_or(CommandError::WrongType)
    })?;
    // Redis' sets have no order of their own: if the result must be deterministic, they are sorted.
    let is_to_last = options.store.is_some() || ctx.client.script.is_alone;
    if options.unsorted && source.is_set && is_to_last {
        options.sort_as_texts();
    }
    let elements = &source.elements;
    let mut order = if options.unsorted {
        let all = 0..elements.len();
        if options.descending && !source.is_set { all.rev().collect() } else { all.collect() }
    } else {
        order::sorted(ctx, &options, elements)?
    };
    let window = options.window(order.len());
    order.truncate(window.end);
    let chosen = &order[window.start..];
    match options.store {
        Some(destination) => store(ctx, &options, elements, chosen, destination),
        None => {
            reply(ctx, &options, elements, chosen);
            Ok(())
        }
    }
}

/// The elements to sort: copies, because the patterns access other keys meanwhile.
#[derive(Default)]
struct Source {
    elements: Texts,
    is_set: bool,
}

impl Source {
    /// `None` for a type without elements.
    fn of(entry: Entry<'_>) -> Option<Self> {
        if let Some(list) = Lists::view(entry) {
            return Some(Self { elements: Texts::of(list.iter()), is_set: false });
        }
        if let Some(set) = Sets::view(entry) {
            return Some(Self { elements: Texts::of(set.iter()), is_set: true });
        }
        let set = SortedSets::view(entry)?;
        Some(Self { elements: Texts::of(set.iter().map(|(_, member)| member)), is_set: false })
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
