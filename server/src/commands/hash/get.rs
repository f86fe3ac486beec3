//! Commands that read fields: HGET, HMGET, HGETALL, HKEYS, HVALS, HLEN, HEXISTS, HSTRLEN.

use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::keyspace::collection::{ByName, HashView, Hashes};
use crate::keyspace::paged::{AllFields, Keyed};
use crate::resp::Reply;

/// Up to this many fields are each searched for from the start of the hash.
const FEW_FIELDS: usize = 8;

/// HGET key field.
pub(super) fn hget(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, field) = (ctx.args.get(1), ctx.args.get(2));
    let names = std::iter::once(field);
    if let Some(paged) = ctx.paged_for::<Hashes>(Purpose::Read, key, names)? {
        ctx.read_pages(key, &paged, |hash: &Keyed, pages, out| {
            match hash.get(pages, field)? {
                Some(value) => out.bulk(value),
                None => out.null(),
            }
            Ok(())
        });
        return Ok(());
    }
    look(ctx, |hash, out| match hash.and_then(|hash| hash.get(field)) {
        Some(value) => out.bulk(value),
        None => out.null(),
    })
}

/// HMGET key field [field ...].
pub(super) fn hmget(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, fields) = (ctx.args.get(1), ctx.args.from(2));
    if let Some(paged) = ctx.paged_for::<Hashes>(Purpose::Read, key, fields.clone())? {
        ctx.read_pages(key, &paged, |hash: &Keyed, pages, out| {
            out.array(fields.len());
            hash.each(pages, fields.clone(), |field| {
                match hash.get(pages, field)? {
                    Some(value) => out.bulk(value),
                    None => out.null(),
                }
                Ok(())
            })
        });
        return Ok(());
    }
    look(ctx, |hash, out| {
        out.array(fields.len());
        let mut reply = |value: Option<&[u8]>| match value {
            Some(value) => out.bulk(value),
            None => out.null(),
        };
        match hash {
            Some(hash) if fields.len() > FEW_FIELDS => {
                let mut asked: ByName<'_, Option<&[u8]>> =
                    fields.clone().map(|field| (field, None)).collect();
                for (field, value) in hash.iter() {
                    if let Some(answer) = asked.get_mut(field) {
                        *answer = Some(value);
                    }
                }
                fields.for_each(|field| reply(asked.get(field).copied().flatten()));
            }
            hash => fields.for_each(|field| reply(hash.and_then(|hash| hash.get(field)))),
        }
    })
}

/// HGETALL key.
pub(super) fn hgetall(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let each = |field: &[u8], value: &[u8], out: &mut Reply| {
        out.bulk(field);
        out.bulk(value);
    };
    if answer_paged(ctx, Reply::map, each)? {
        return Ok(());
    }
    look(ctx, |hash, out| {
        out.map(hash.map_or(0, |hash| hash.count()));
        for (field, value) in hash.iter().flat_map(HashView::iter) {
            out.bulk(field);
            out.bulk(value);
        }
    })
}

/// HKEYS key.
pub(super) fn hkeys(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if answer_paged(ctx, Reply::array, |field, _, out| out.bulk(field))? {
        return Ok(());
    }
    look(ctx, |hash, out| {
        out.array(hash.map_or(0, |hash| hash.count()));
        hash.iter().flat_map(HashView::iter).for_each(|(field, _)| out.bulk(field));
    })
}

/// HVALS key.
pub(super) fn hvals(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if answer_paged(ctx, Reply::array, |_, value, out| out.bulk(value))? {
        return Ok(());
    }
    look(ctx, |hash, out| {
        out.array(hash.map_or(0, |hash| hash.count()));
        hash.iter().flat_map(HashView::iter).for_each(|(_, value)| out.bulk(value));
    })
}

/// HLEN key.
pub(super) fn hlen(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    if let Some(paged) = ctx.paged::<Hashes>(Purpose::Read, key)? {
        ctx.out.int(paged.count() as i64);
        return Ok(());
    }
    look(ctx, |hash, out| out.int(hash.map_or(0, |hash| hash.count()) as i64))
}

/// HEXISTS key field.
pub(super) fn hexists(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let field = ctx.args.get(2);
    if let Some(len) = value_len(ctx)? {
        ctx.out.int(i64::from(len.is_some()));
        return Ok(());
    }
    look(ctx, |hash, out| {
        out.int(i64::from(hash.is_some_and(|hash| hash.get(field).is_some())));
    })
}

/// HSTRLEN key field.
pub(super) fn hstrlen(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let field = ctx.args.get(2);
    if let Some(len) = value_len(ctx)? {
        ctx.out.int(len.unwrap_or(0) as i64);
        return Ok(());
    }
    look(ctx, |hash, out| {
        let value = hash.and_then(|hash| hash.get(field));
        out.int(value.map_or(0, <[u8]>::len) as i64);
    })
}

/// Replies all fields of a hash in pages; false if argument 1 has none.
fn answer_paged(
    ctx: &mut Ctx<'_, '_>,
    head: impl Fn(&mut Reply, usize),
    each: impl Fn(&[u8], &[u8], &mut Reply),
) -> Result<bool, CommandError> {
    let key = ctx.args.get(1);
    let Some(paged) = ctx.paged::<Hashes>(Purpose::Read, key)? else { return Ok(false) };
    ctx.answer_in_pieces(key, &paged, &AllFields { head, each })?;
    Ok(true)
}

/// Length of the value of the field under argument 2, if it exists, in a paged hash; `None` if argument 1 holds none.
fn value_len(ctx: &mut Ctx<'_, '_>) -> Result<Option<Option<usize>>, CommandError> {
    let (key, field) = (ctx.args.get(1), ctx.args.get(2));
    let found = ctx.paged_for::<Hashes>(Purpose::Read, key, std::iter::once(field))?;
    let Some(paged) = found else { return Ok(None) };
    let len = ctx.read_pages(key, &paged, |hash: &Keyed, pages, _| {
        Ok(hash.get(pages, field)?.map(<[u8]>::len))
    });
    Ok(Some(len))
}

/// Replies from the hash under argument 1.
fn look(
    ctx: &mut Ctx<'_, '_>,
    reply: impl FnOnce(Option<HashView<'_>>, &mut Reply),
) -> CommandResult {
    ctx.lookup::<Hashes, _>(Purpose::Read, ctx.args.get(1), reply)
}
