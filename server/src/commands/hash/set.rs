//! Commands that set and delete fields: HSET, HMSET, HSETNX, HDEL.

use super::change;
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{Edit, Hashes};
use crate::keyspace::paged::Keyed;

/// HSET key field value [field value ...].
pub(super) fn hset(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let added = set_pairs(ctx, "ERR wrong number of arguments for 'hset' command")?;
    ctx.out.int(added as i64);
    Ok(())
}

/// HMSET key field value [field value ...].
pub(super) fn hmset(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    set_pairs(ctx, "ERR wrong number of arguments for 'hmset' command")?;
    ctx.out.ok();
    Ok(())
}

/// One operation, logged verbatim; returns the number of new fields.
fn set_pairs(ctx: &mut Ctx<'_, '_>, wrong_arity: &'static str) -> Result<usize, CommandError> {
    if !ctx.args.len().is_multiple_of(2) {
        return Err(CommandError::text(wrong_arity));
    }
    let (key, thresholds) = (ctx.args.get(1), ctx.thresholds());
    let words = ctx.args.from(2);
    let names = words.clone().step_by(2);
    if let Some(paged) = ctx.paged_for::<Hashes>(Purpose::Write, key, names.clone())? {
        let values = words.skip(1).step_by(2);
        let set = ctx.change_pages(key, &paged, Event::hash("hset"), |pages, hash: &mut Keyed| {
            let (mut added, mut values) = (0, values.clone());
            hash.change_each(pages, names.clone(), |hash, pages, field| {
                let value = values.next().unwrap_or_default();
                added += usize::from(hash.put(pages, field, value)?);
                Ok(())
            })?;
            Ok(Some(added))
        });
        ctx.log_request();
        return Ok(set.map_or(0, |(added, _)| added));
    }
    let (mut hash, expire_at_ms) = change(ctx, key, words.clone().map(<[u8]>::len).sum())?;
    let pairs = names.zip(words.skip(1).step_by(2));
    let added = hash.set_all(pairs, &thresholds);
    ctx.write_back(key, &hash, expire_at_ms, Event::hash("hset"))?;
    ctx.log_request();
    Ok(added)
}

/// HSETNX key field value.
pub(super) fn hsetnx(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, field, value) = (ctx.args.get(1), ctx.args.get(2), ctx.args.get(3));
    let names = std::iter::once(field);
    if let Some(paged) = ctx.paged_for::<Hashes>(Purpose::Write, key, names)? {
        let set = ctx.change_pages(key, &paged, Event::hash("hset"), |pages, hash: &mut Keyed| {
            if hash.get(pages, field)?.is_some() {
                return Ok(None);
            }
            hash.put(pages, field, value)?;
            Ok(Some(()))
        });
        if set.is_some() {
            ctx.log_request();
        }
        ctx.out.int(i64::from(set.is_some()));
        return Ok(());
    }
    let thresholds = ctx.thresholds();
    let found = ctx.lookup::<Hashes, _>(Purpose::Write, key, |hash, _| match hash {
        Some(hash) if hash.get(field).is_some() => None,
        Some(hash) => Some((hash.edit(field.len() + value.len()), hash.expire_at_ms())),
        None => Some(Default::default()),
    })?;
    let Some((mut hash, expire_at_ms)) = found else {
        ctx.out.int(0);
        return Ok(());
    };
    hash.set(field, value, &thresholds);
    ctx.write_back(key, &hash, expire_at_ms, Event::hash("hset"))?;
    ctx.log_request();
    ctx.out.int(1);
    Ok(())
}

/// HDEL key field [field ...]: one operation, or none if no field exists; logged verbatim.
pub(super) fn hdel(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    let fields = ctx.args.from(2);
    if let Some(paged) = ctx.paged_for::<Hashes>(Purpose::Write, key, fields.clone())? {
        let gone = ctx.change_pages(key, &paged, Event::hash("hdel"), |pages, hash: &mut Keyed| {
            let mut removed = 0;
            hash.change_each(pages, fields.clone(), |hash, pages, field| {
                removed += i64::from(hash.remove(pages, field)?);
                Ok(())
            })?;
            Ok((removed > 0).then_some(removed))
        });
        if gone.is_some() {
            ctx.log_request();
        }
        ctx.out.int(gone.map_or(0, |(removed, _)| removed));
        return Ok(());
    }
    let found = ctx.lookup::<Hashes, _>(Purpose::Write, key, |hash, _| {
        let hash = hash?;
        let (mut edit, before) = (hash.edit(0), hash.count());
        edit.remove_all(fields);
        (edit.len() < before).then(|| (before - edit.len(), edit, hash.expire_at_ms()))
    })?;
    let Some((removed, hash, expire_at_ms)) = found else {
        ctx.out.int(0);
        return Ok(());
    };
    ctx.write_back(key, &hash, expire_at_ms, Event::hash("hdel"))?;
    ctx.log_request();
    ctx.out.int(removed as i64);
    Ok(())
}
