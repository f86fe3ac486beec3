//! Commands that combine two operations on fields: HGETEX, HSETEX, HGETDEL.

use super::due::{each_field, log_due, log_fields, log_gone};
use super::{fields_behind_key, named_fields, place_of_fields, write};
use crate::commands::string::expiry_options::{Options, Owner, field_ms};
use crate::dispatch::{Args, CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{Edit, HashFields, Hashes};
use crate::keyspace::paged::{FieldSet, Keyed, PagedFields, Stop};
use crate::resp::Reply;

/// Answers a field's value.
fn reply_value(fields: &dyn FieldSet<'_>, name: &[u8], out: &mut Reply) -> Result<(), Stop> {
    match fields.get(name)? {
        Some((value, _)) => out.bulk(value),
        None => out.null(),
    }
    Ok(())
}

/// The options before FIELDS.
fn options<'a>(
    args: Args<'a>,
    place: Option<usize>,
    owner: Owner,
) -> Result<Options<'a>, CommandError> {
    place.map_or(Ok(Options::default()), |place| Options::parse_range(args, 2..place, owner))
}

/// HGETDEL key FIELDS count field [field ...]: one operation if a field exists, logged as HDEL.
pub(super) fn hgetdel(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, names) = (ctx.args.get(1), fields_behind_key(ctx.args)?);
    let how = (Purpose::Write, Event::hash("hdel"));
    let names = each_field(ctx, how, names, Reply::null, |fields, name, out| {
        reply_value(fields, name, out)?;
        fields.remove(name)
    })?;
    if !names.is_empty() {
        ctx.log(ctx.client.db, &[&[b"HDEL", key], names.as_slice()].concat());
    }
    Ok(())
}

/// HGETEX key [EX seconds | PX milliseconds | EXAT time | PXAT time | PERSIST] FIELDS count field [field ...]: one
/// operation if a time is changed, logged as HPEXPIREAT, HPERSIST, or HDEL if the time is in the past.
pub(super) fn hgetex(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, args, now_ms) = (ctx.args.get(1), ctx.args, ctx.now_ms);
    let place = place_of_fields(args, 2);
    let options = options(args, place, Owner::GetEx)?;
    let names = named_fields(args, place, 1)?;
    // WRONGTYPE takes precedence over errors of the time.
    if ctx.paged_for::<Hashes>(Purpose::Write, key, names.clone())?.is_none() {
        ctx.lookup::<Hashes, _>(Purpose::Write, key, |_, _| ())?;
    }
    let at_ms = match options.expiry {
        Some((kind, text)) => Some(field_ms(kind, text, now_ms, "hgetex")?),
        None => None,
    };
    let is_past = at_ms.is_some_and(|at_ms| at_ms <= now_ms);
    let event = match at_ms {
        _ if is_past => Event::hash("hexpired"),
        Some(_) => Event::hash("hexpire"),
        None => Event::hash("hpersist"),
    };
    let how = (Purpose::Read, event);
    let names = each_field(ctx, how, names, Reply::null, |fields, name, out| {
        reply_value(fields, name, out)?;
        match at_ms {
            _ if is_past => fields.remove(name),
            Some(at_ms) => {
                fields.set_due(name, at_ms)?;
                Ok(fields.get(name)?.is_some())
            }
            None if options.persist => {
                let had_time = matches!(fields.get(name)?, Some((_, due_ms)) if due_ms != 0);
                fields.set_due(name, 0)?;
                Ok(had_time)
            }
            None => Ok(false),
        }
    })?;
    if names.is_empty() {
        return Ok(());
    }
    match at_ms {
        _ if is_past => log_gone(ctx, key, &names),
        Some(at_ms) => log_due(ctx, key, at_ms, &names),
        None => log_fields(ctx, &[b"HPERSIST", key], &names),
    }
    Ok(())
}

/// HSETEX key [NX | XX] [FNX | FXX] [EX seconds | PX milliseconds | EXAT time | PXAT time | KEEPTTL] FIELDS count field
/// value [field value ...]: one operation, logged without conditions and with an absolute time. With a time in the
/// past the fields are removed, logged as HDEL.
pub(super) fn hsetex<'a>(ctx: &mut Ctx<'a, '_>) -> CommandResult {
    let (key, args, now_ms) = (ctx.args.get(1), ctx.args, ctx.now_ms);
    let place = place_of_fields(args, 2);
    let options = options(args, place, Owner::HSetEx)?;
    let words = named_fields(args, place, 2)?;
    let names = words.clone().step_by(2);
    let is_asked = options.nx || options.xx;
    let found = match is_asked {
        // Whether there is a hash depends on all of its fields.
        true => ctx.paged::<Hashes>(Purpose::Write, key)?,
        false => ctx.paged_for::<Hashes>(Purpose::Write, key, names.clone())?,
    };
    let exists = match &found {
        Some(_) => true,
        None => ctx.lookup::<Hashes, _>(Purpose::Write, key, |hash, _| hash.is_some())?,
    };
    if options.nx && exists || options.xx && !exists {
        ctx.out.int(0);
        return Ok(());
    }
    let at_ms = match options.expiry {
        Some((kind, text)) => field_ms(kind, text, now_ms, "hsetex")?,
        None => 0,
    };
    let is_past = options.expiry.is_some() && at_ms <= now_ms;
    let pairs = names.clone().zip(words.clone().skip(1).step_by(2));
    // The fields that a time which has come removes; `None`: a condition does not hold.
    let set = |fields: &mut dyn FieldSet<'a>| {
        for name in names.clone() {
            let is_there = fields.get(name)?.is_some();
            if options.field_nx && is_there || options.field_xx && !is_there {
                return Ok(None);
            }
        }
        let mut gone = Vec::new();
        if is_past {
            for name in names.clone() {
                if fields.remove(name)? {
                    gone.push(name);
                }
            }
            return Ok(Some(gone));
        }
        for (name, value) in pairs.clone() {
            let kept = fields.get(name)?.filter(|_| options.keep_ttl);
            let due_ms = kept.map_or(at_ms, |(_, due_ms)| due_ms);
            fields.set(name, value, due_ms)?;
        }
        Ok::<_, Stop>(Some(gone))
    };
    let events = [Event::hash("hset"), Event::hash("hexpire"), Event::hash("hexpired")];
    let told = if is_past { 3 } else { 1 + usize::from(options.expiry.is_some()) };
    let (gone, is_empty) = if let Some(paged) = found {
        let mut refused = false;
        let changed =
            ctx.answer_change(key, &paged, &events[..told], |pages, hash: &mut Keyed, _| {
                hash.needs_to_change(pages, names.clone())?;
                let gone = set(&mut PagedFields { hash, pages })?;
                refused = gone.is_none();
                Ok(gone.filter(|gone| !is_past || !gone.is_empty()))
            });
        if refused {
            ctx.out.int(0);
            return Ok(());
        }
        (changed.map_or_else(Vec::new, |(gone, _)| gone), false)
    } else {
        let thresholds = ctx.thresholds();
        let done = ctx.lookup::<Hashes, _>(Purpose::Write, key, |hash, _| {
            let asked = words.len() / 2;
            let mut fields = match &hash {
                Some(hash) => HashFields::of(hash, asked),
                None => HashFields::none(asked),
            };
            // What lies in one record is there.
            let gone = set(&mut fields).unwrap_or_default()?;
            let expire_at_ms = hash.map_or(0, |hash| hash.expire_at_ms());
            Some((gone, fields.into_edit(&thresholds), expire_at_ms))
        })?;
        let Some((gone, hash, expire_at_ms)) = done else {
            ctx.out.int(0);
            return Ok(());
        };
        if !is_past || !gone.is_empty() {
            write(ctx, key, &hash, expire_at_ms, &events[..told])?;
        }
        (gone, hash.is_empty())
    };
    if !is_past {
        log_set(ctx, key, options.keep_ttl, at_ms, words);
    } else if !gone.is_empty() {
        log_gone(ctx, key, &gone);
    } else {
        // Valkey also sends events of operations that it has not performed.
        let (new, deleted) = (Event::NEW, Event::generic("del"));
        let is_new = is_empty.then_some(new);
        let gone = is_empty.then_some(deleted);
        is_new.into_iter().chain(events).chain(gone).for_each(|event| ctx.tell(key, event));
    }
    ctx.out.int(1);
    Ok(())
}

fn log_set<'a>(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    keep_ttl: bool,
    at_ms: u64,
    words: impl ExactSizeIterator<Item = &'a [u8]>,
) {
    let (mut time, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
    let mut head: Vec<&[u8]> = vec![b"HSETEX", key];
    if keep_ttl {
        head.push(b"KEEPTTL");
    } else if at_ms != 0 {
        head.extend([&b"PXAT"[..], time.format(at_ms).as_bytes()]);
    }
    head.extend([&b"FIELDS"[..], count.format(words.len() / 2).as_bytes()]);
    let pairs: Vec<&[u8]> = words.collect();
    ctx.log(ctx.client.db, &[head, pairs].concat());
}
