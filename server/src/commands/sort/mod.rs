//! SORT and SORT_RO.
//!
//! The keys named by BY and GET patterns cannot be derived from a key specification: a request with such a pattern takes all latches. One
//! that has much to sort reads a snapshot, without any latch.

mod options;
mod order;
mod pattern;
mod source;

use crate::auth::KeyRights;
use crate::dispatch::{Args, Binding, CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::ListEdit;
use crate::keyspace::texts::Texts;
use options::Options;
use pattern::look_up_all;
use source::{Source, WANTED};

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::exclusive("sort", sort).keyed_when(names_keys),
    Binding::exclusive("sort_ro", sort_ro).keyed_when(names_keys),
];

/// True where no pattern can lead to a key, and where the key specification knows the destination: it takes one word for it.
fn names_keys(args: Args<'_>) -> bool {
    let is_store = |arg: &[u8]| arg.eq_ignore_ascii_case(b"store");
    let has_star = args.from(2).any(|arg| arg.contains(&b'*'));
    !has_star && args.from(2).filter(|arg| is_store(arg)).count() <= 1
}

/// SORT key [BY pattern] [LIMIT offset count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE key].
fn sort(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    run(ctx, false)
}

/// SORT_RO: [`sort`] without STORE.
fn sort_ro(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    run(ctx, true)
}

/// What is stored is logged verbatim: replay finds equal keys.
fn run(ctx: &mut Ctx<'_, '_>, read_only: bool) -> CommandResult {
    let reads_all_keys = ctx.client.may_with_all_keys(ctx.spec, ctx.args, KeyRights::READ);
    let mut options = Options::parse(ctx.args, read_only, reads_all_keys)?;
    let Some(destination) = options.store else {
        let (elements, chosen) = sorted(ctx, &mut options)?;
        return reply(ctx, &options, &elements, &chosen);
    };
    let list = ctx.made_of_keys(|ctx| {
        let (elements, chosen) = sorted(ctx, &mut options)?;
        list_of(ctx, &options, &elements, &chosen)
    })?;
    ctx.store(destination, list, Event::list("sortstore"))
}

/// The elements that were read, and the numbers of those that are asked for, in their order.
fn sorted(
    ctx: &mut Ctx<'_, '_>,
    options: &mut Options<'_>,
) -> Result<(Texts, Vec<usize>), CommandError> {
    let key = ctx.args.get(1);
    let (mut source, paged) = if let Some(value) = ctx.past_value(key, &WANTED) {
        (Source::of_past(value?), None)
    } else {
        let paged = ctx.paged_of(Purpose::Read, key, &WANTED)?;
        let source = match &paged {
            Some(paged) => Source::unread(paged),
            None => Source::of_record(ctx, key)?,
        };
        (source, paged)
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
        let mut order = order::sorted(ctx, options, &source.elements)?;
        let window = options.window(order.len());
        order.truncate(window.end);
        order.split_off(window.start)
    };
    Ok((source.elements, chosen))
}

fn reply(
    ctx: &mut Ctx<'_, '_>,
    options: &Options<'_>,
    elements: &Texts,
    chosen: &[usize],
) -> CommandResult {
    ctx.out.array(chosen.len() * options.wanted().len());
    look_up_all(ctx, options.wanted(), (elements, chosen.iter().copied()), |value, out| match value
    {
        Some(value) => out.bulk(value),
        None => out.null(),
    })
}

fn list_of(
    ctx: &mut Ctx<'_, '_>,
    options: &Options<'_>,
    elements: &Texts,
    chosen: &[usize],
) -> Result<ListEdit, CommandError> {
    let mut list = ListEdit::default();
    look_up_all(ctx, options.wanted(), (elements, chosen.iter().copied()), |value, _| {
        list.push_right(value.unwrap_or_default());
    })?;
    Ok(list)
}
