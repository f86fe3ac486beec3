//! Commands that move an element between lists: RPOPLPUSH, LMOVE, and their blocking forms: BRPOPLPUSH, BLMOVE.

use super::side;
use crate::blocking::{Side, Wants};
use crate::commands::pop::{deadline, wait};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{Edit, ListEdit, Lists};
use crate::keyspace::paged::Paged;
use sexton_engine::page::End;

/// RPOPLPUSH source destination.
pub(super) fn rpoplpush(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if !transfer(ctx, Side::Last, Side::First)? {
        ctx.out.null();
    }
    Ok(())
}

/// LMOVE source destination LEFT|RIGHT LEFT|RIGHT.
pub(super) fn lmove(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (from, to) = (side(ctx.args.get(3))?, side(ctx.args.get(4))?);
    if !transfer(ctx, from, to)? {
        ctx.out.null();
    }
    Ok(())
}

/// BRPOPLPUSH source destination timeout.
pub(super) fn brpoplpush(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let deadline = deadline(ctx.args.get(3))?;
    if !transfer(ctx, Side::Last, Side::First)? {
        ctx.out.null();
        wait(ctx, 1..2, Wants::List, deadline);
    }
    Ok(())
}

/// BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout.
pub(super) fn blmove(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (from, to) = (side(ctx.args.get(3))?, side(ctx.args.get(4))?);
    let deadline = deadline(ctx.args.get(5))?;
    if !transfer(ctx, from, to)? {
        ctx.out.null();
        wait(ctx, 1..2, Wants::List, deadline);
    }
    Ok(())
}

/// A list that a key holds.
enum Held {
    /// In its root, with its expiry.
    Whole(ListEdit, u64),
    /// In pages.
    Paged(Paged),
}

fn find(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> Result<Option<Held>, CommandError> {
    if let Some(paged) = ctx.paged::<Lists>(Purpose::Write, key)? {
        return Ok(Some(Held::Paged(paged)));
    }
    ctx.lookup::<Lists, _>(Purpose::Write, key, |list, _| {
        list.map(|list| Held::Whole(list.edit(), list.expire_at_ms()))
    })
}

impl Held {
    /// A copy of the element at an end.
    fn end(&self, ctx: &mut Ctx<'_, '_>, key: &[u8], side: Side) -> Vec<u8> {
        let at = |len: usize| if side == Side::First { 0 } else { len - 1 };
        match self {
            Self::Whole(list, _) => {
                list.view().iter().nth(at(list.len())).unwrap_or_default().to_vec()
            }
            Self::Paged(paged) => ctx.read_list(key, paged, |list, pages, _| {
                let element = list.get(pages, at(paged.count()) as u64)?;
                Ok(element.unwrap_or_default().to_vec())
            }),
        }
    }

    /// Takes away what is at an end, then puts an element at an end: one operation.
    fn change(
        self,
        ctx: &mut Ctx<'_, '_>,
        key: &[u8],
        taken: Option<Side>,
        put: Option<(Side, &[u8])>,
        event: Event,
    ) -> CommandResult {
        match self {
            Self::Whole(mut list, expire_at_ms) => {
                match taken {
                    Some(Side::First) => list.remove(0..1),
                    Some(Side::Last) => list.remove(list.len() - 1..list.len()),
                    None => {}
                }
                match put {
                    Some((Side::First, element)) => list.insert(0, std::iter::once(element)),
                    Some((Side::Last, element)) => list.push_right(element),
                    None => {}
                }
                ctx.write_back(key, &list, expire_at_ms, event)
            }
            Self::Paged(paged) => {
                ctx.change_list(key, &paged, event, |pages, list| {
                    let end = |side| if side == Side::First { End::Front } else { End::Back };
                    if let Some(side) = taken {
                        list.pop(pages, end(side), &mut Vec::new())?;
                    }
                    if let Some((side, element)) = put {
                        list.push(pages, end(side), element)?;
                    }
                    Ok(())
                });
                Ok(())
            }
        }
    }
}

/// Moves an element and answers it; false if there is none. One operation for each of the two lists, logged as LMOVE.
fn transfer(ctx: &mut Ctx<'_, '_>, from: Side, to: Side) -> Result<bool, CommandError> {
    let (source, destination) = (ctx.args.get(1), ctx.args.get(2));
    let Some(left) = find(ctx, source)? else { return Ok(false) };
    let is_same = source == destination;
    let found = if is_same { None } else { find(ctx, destination)? };
    let element = left.end(ctx, source, from);
    let popped = Event::list(if from == Side::First { "lpop" } else { "rpop" });
    let pushed = Event::list(if to == Side::First { "lpush" } else { "rpush" });
    if is_same {
        left.change(ctx, source, Some(from), Some((to, &element)), pushed)?;
        ctx.tell(source, popped);
    } else {
        let list = found.unwrap_or_else(|| Held::Whole(ListEdit::default(), 0));
        list.change(ctx, destination, None, Some((to, &element)), pushed)?;
        left.change(ctx, source, Some(from), None, popped)?;
    }
    let word = |side| if side == Side::First { b"LEFT".as_slice() } else { b"RIGHT" };
    let db = ctx.client.db;
    ctx.log(db, &[b"LMOVE", source, destination, word(from), word(to)]);
    ctx.out.bulk(&element);
    Ok(true)
}
