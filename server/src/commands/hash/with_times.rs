//! Commands that do two things to fields at once: HGETEX, HSETEX, HGETDEL.

use super::due::{each_field, log_due, log_fields, log_gone};
use super::{fields_behind_key, named_fields, place_of_fields, write};
use crate::commands::string::expiry_options::{Options, Owner, field_ms};
use crate::dispatch::{Args, CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{Edit, HashFields, Hashes};
use crate::resp::Reply;

/// Answers a field's value.
fn reply_value(fields: &HashFields<'_>, name: &[u8], out: &mut Reply) {
    match fields.get(name) {
        Some(field) => out.bulk(field.value),
        None => out.null(),
    }
}

/// The options before FIELDS.
fn options<'a>(
    args: Args<'a>,
    place: Option<usize>,
    owner: Owner,
) -> Result<Options<'a>, CommandError> {
    place.map_or(Ok(Options::default()), |place| Options::parse_range(args, 2..place, owner))
}

/// HGETDEL key FIELDS count field [field ...]: one operation where a field is there, logged as HDEL.
pub(super) fn hgetdel(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, names) = (ctx.args.get(1), fields_behind_key(ctx.args)?);
    let changed = each_field(ctx, Purpose::Write, names, Reply::null, |fields, name, out| {
        reply_value(fields, name, out);
        fields.remove(name)
    })?;
    if let Some((names, hash, expire_at_ms)) = changed {
        write(ctx, key, &hash, expire_at_ms, &[Event::hash("hdel")])?;
        ctx.log(ctx.client.db, &[&[b"HDEL", key], names.as_slice()].concat());
    }
    Ok(())
}

/// HGETEX key [EX seconds | PX milliseconds | EXAT time | PXAT time | PERSIST] FIELDS count field [field ...]: one
/// operation where a time is changed, logged as HPEXPIREAT, HPERSIST, or HDEL where it has come.
pub(super) fn hgetex(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, args, now_ms) = (ctx.args.get(1), ctx.args, ctx.now_ms);
    let place = place_of_fields(args, 2);
    let options = options(args, place, Owner::GetEx)?;
    let names = named_fields(args, place, 1)?;
    // WRONGTYPE comes before what is wrong with the time.
    ctx.lookup::<Hashes, _>(Purpose::Write, key, |_, _| ())?;
    let at_ms = match options.expiry {
        Some((kind, text)) => Some(field_ms(kind, text, now_ms, "hgetex")?),
        None => None,
    };
    let is_past = at_ms.is_some_and(|at_ms| at_ms <= now_ms);
    let changed = each_field(ctx, Purpose::Read, names, Reply::null, |fields, name, out| {
        reply_value(fields, name, out);
        match at_ms {
            _ if is_past => fields.remove(name),
            Some(at_ms) => {
                fields.set_due(name, at_ms);
                fields.get(name).is_some()
            }
            None if options.persist => {
                let had_time = fields.get(name).is_some_and(|field| field.due_ms != 0);
                fields.set_due(name, 0);
                had_time
            }
            None => false,
        }
    })?;
    let Some((names, hash, expire_at_ms)) = changed else { return Ok(()) };
    let event = match at_ms {
        _ if is_past => Event::hash("hexpired"),
        Some(_) => Event::hash("hexpire"),
        None => Event::hash("hpersist"),
    };
    write(ctx, key, &hash, expire_at_ms, &[event])?;
    match at_ms {
        _ if is_past => log_gone(ctx, key, &names),
        Some(at_ms) => log_due(ctx, key, at_ms, &names),
        None => log_fields(ctx, &[b"HPERSIST", key], &names),
    }
    Ok(())
}

/// HSETEX key [NX | XX] [FNX | FXX] [EX seconds | PX milliseconds | EXAT time | PXAT time | KEEPTTL] FIELDS count field
/// value [field value ...]: one operation, logged without conditions and with an absolute time; with a time that has
/// come the fields are removed, logged as HDEL.
pub(super) fn hsetex(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, args, now_ms) = (ctx.args.get(1), ctx.args, ctx.now_ms);
    let place = place_of_fields(args, 2);
    let options = options(args, place, Owner::HSetEx)?;
    let words = named_fields(args, place, 2)?;
    let exists = ctx.lookup::<Hashes, _>(Purpose::Write, key, |hash, _| hash.is_some())?;
    if options.nx && exists || options.xx && !exists {
        ctx.out.int(0);
        return Ok(());
    }
    let at_ms = match options.expiry {
        Some((kind, text)) => field_ms(kind, text, now_ms, "hsetex")?,
        None => 0,
    };
    let is_past = options.expiry.is_some() && at_ms <= now_ms;
    let names = words.clone().step_by(2);
    let pairs = names.clone().zip(words.clone().skip(1).step_by(2));
    let thresholds = ctx.thresholds();
    let done = ctx.lookup::<Hashes, _>(Purpose::Write, key, |hash, _| {
        let asked = words.len() / 2;
        let mut fields = match &hash {
            Some(hash) => HashFields::of(hash, asked),
            None => HashFields::none(asked),
        };
        let is_refused = |name| {
            let is_there = fields.get(name).is_some();
            options.field_nx && is_there || options.field_xx && !is_there
        };
        if names.clone().any(is_refused) {
            return None;
        }
        let expire_at_ms = hash.map_or(0, |hash| hash.expire_at_ms());
        if is_past {
            let gone: Vec<_> = names.filter(|name| fields.remove(name)).collect();
            return Some((gone, fields.into_edit(&thresholds), expire_at_ms));
        }
        for (name, value) in pairs {
            let kept = fields.get(name).filter(|_| options.keep_ttl);
            fields.set(name, value, kept.map_or(at_ms, |field| field.due_ms));
        }
        Some((Vec::new(), fields.into_edit(&thresholds), expire_at_ms))
    })?;
    let Some((gone, hash, expire_at_ms)) = done else {
        ctx.out.int(0);
        return Ok(());
    };
    let events = [Event::hash("hset"), Event::hash("hexpire"), Event::hash("hexpired")];
    let told = if is_past { 3 } else { 1 + usize::from(options.expiry.is_some()) };
    if !is_past {
        write(ctx, key, &hash, expire_at_ms, &events[..told])?;
        log_set(ctx, key, options.keep_ttl, at_ms, words);
    } else if !gone.is_empty() {
        write(ctx, key, &hash, expire_at_ms, &events[..told])?;
        log_gone(ctx, key, &gone);
    } else {
        // Valkey tells of what it has not done.
        let (new, deleted) = (Event::NEW, Event::generic("del"));
        let is_new = hash.is_empty().then_some(new);
        let gone = hash.is_empty().then_some(deleted);
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
