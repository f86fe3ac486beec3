//! SET and its relatives: whole values in, whole values out.

use super::expiry_options::{ExpiryKind, Options, Owner, absolute_ms};
use crate::dispatch::{CommandResult, Ctx, Purpose, reply_string};
use crate::events::Event;
use crate::keyspace::{Strings, Written};
use sexton_engine::Meta;

/// Writes a plain string and logs it as SET with an absolute expiry: one operation.
fn store(ctx: &mut Ctx<'_, '_>, key: &[u8], value: &[u8], expire_at_ms: u64) {
    let db = ctx.client.db;
    ctx.put(db, key, Written::Whole.expiring_at(expire_at_ms), value, Event::string("set"));
    if expire_at_ms == 0 {
        ctx.log(db, &[b"SET", key, value]);
    } else {
        let mut digits = itoa::Buffer::new();
        ctx.log(db, &[b"SET", key, value, b"PXAT", digits.format(expire_at_ms).as_bytes()]);
    }
}

/// SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL].
///
/// The log has SET without its conditions, which were met; KEEPTTL becomes the expiry that was kept.
pub(super) fn set(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, value) = (ctx.args.get(1), ctx.args.get(2));
    if ctx.args.len() == 3 {
        let (db, meta) = (ctx.client.db, Written::Whole.expiring_at(0));
        ctx.put(db, key, meta, value, Event::string("set"));
        ctx.log_request();
        ctx.out.ok();
        return Ok(());
    }
    let options = Options::parse(ctx.args, 3, Owner::Set)?;
    let mut expire_at_ms = match options.expiry {
        Some((kind, text)) => absolute_ms(kind, text, ctx.now_ms, "set")?,
        None => 0,
    };
    if options.get {
        reply_string(ctx, key)?;
    }
    if options.nx || options.xx || options.keep_ttl {
        let db = ctx.client.db;
        let old = ctx.inspect(Purpose::Write, db, key, |entry, _| entry.map(|e| e.meta()));
        if (options.nx && old.is_some()) || (options.xx && old.is_none()) {
            if !options.get {
                ctx.out.null();
            }
            return Ok(());
        }
        if options.keep_ttl {
            expire_at_ms = old.map_or(0, |meta| meta.expire_at_ms);
        }
    }
    store(ctx, key, value, expire_at_ms);
    if options.expiry.is_some() {
        ctx.tell(key, Event::generic("expire"));
    }
    if !options.get {
        ctx.out.ok();
    }
    Ok(())
}

/// SETNX key value.
pub(super) fn setnx(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key, value) = (ctx.client.db, ctx.args.get(1), ctx.args.get(2));
    let exists = ctx.inspect(Purpose::Write, db, key, |entry, _| entry.is_some());
    if !exists {
        store(ctx, key, value, 0);
    }
    ctx.out.int(i64::from(!exists));
    Ok(())
}

/// SETEX key seconds value.
pub(super) fn setex(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    set_expiring(ctx, ExpiryKind::Ex, "setex")
}

/// PSETEX key milliseconds value.
pub(super) fn psetex(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    set_expiring(ctx, ExpiryKind::Px, "psetex")
}

fn set_expiring(ctx: &mut Ctx<'_, '_>, kind: ExpiryKind, name: &'static str) -> CommandResult {
    let (key, value) = (ctx.args.get(1), ctx.args.get(3));
    let expire_at_ms = absolute_ms(kind, ctx.args.get(2), ctx.now_ms, name)?;
    store(ctx, key, value, expire_at_ms);
    ctx.tell(key, Event::generic("expire"));
    ctx.out.ok();
    Ok(())
}

/// GETSET key value.
pub(super) fn getset(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, value) = (ctx.args.get(1), ctx.args.get(2));
    reply_string(ctx, key)?;
    store(ctx, key, value, 0);
    Ok(())
}

/// GETDEL key. One operation when the key exists, logged as DEL.
pub(super) fn getdel(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    reply_string(ctx, key)?;
    delete_logged(ctx, key);
    Ok(())
}

/// Deletes a key and logs that: one operation if there was one.
fn delete_logged(ctx: &mut Ctx<'_, '_>, key: &[u8]) {
    let db = ctx.client.db;
    if ctx.delete(db, key, Event::generic("del")) {
        ctx.log(db, &[b"DEL", key]);
    }
}

/// GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST].
///
/// One operation when the expiry changes, logged as PEXPIREAT, PERSIST, or DEL for a time in the
/// past; none otherwise.
pub(super) fn getex(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let options = Options::parse(ctx.args, 2, Owner::GetEx)?;
    let found = ctx.lookup::<Strings, _>(Purpose::Read, key, |string, out| {
        match string {
            Some(string) => out.bulk(string.bytes()),
            None => out.null(),
        }
        string.map(|string| string.meta())
    })?;
    let Some(meta) = found else { return Ok(()) };
    if let Some((kind, text)) = options.expiry {
        let expire_at_ms = absolute_ms(kind, text, ctx.now_ms, "getex")?;
        if kind.is_absolute() && expire_at_ms <= ctx.now_ms {
            delete_logged(ctx, key);
            return Ok(());
        }
        ctx.set_meta(db, key, Meta { expire_at_ms, ..meta }, Event::generic("expire"));
        let mut digits = itoa::Buffer::new();
        ctx.log(db, &[b"PEXPIREAT", key, digits.format(expire_at_ms).as_bytes()]);
    } else if options.persist && meta.expire_at_ms != 0 {
        ctx.set_meta(db, key, Meta { expire_at_ms: 0, ..meta }, Event::generic("persist"));
        ctx.log(db, &[b"PERSIST", key]);
    }
    Ok(())
}
