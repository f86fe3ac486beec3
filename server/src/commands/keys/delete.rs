//! DEL, UNLINK, EXISTS, TOUCH, TYPE.

use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::{Reason, count_removed, tell_removed};
use crate::value::ValueType;
use sexton_engine::{Deletion, Entry, Key};

/// DEL key [key ...], and UNLINK: a delete opens a grave, so there is nothing to do lazily.
///
/// One look-up per key, and one operation per deleted key (X1). Logged verbatim: replay finds these keys, each of them
/// once. The delete of an expired key is logged separately (X3), and the request is split around it, in the order of
/// execution.
pub(super) fn del(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, now_ms, args) = (ctx.client.db, ctx.now_ms, ctx.args);
    let engine = &ctx.server.engine;
    let slot = engine.slot_of(db);
    let (one, many): ([u64; 1], Vec<u64>);
    let hashes: &[u64] = match args.key_hashes() {
        [] if args.len() == 2 => {
            one = [engine.hash(args.get(1))];
            &one
        }
        [] => {
            many = args.from(1).map(|key| engine.hash(key)).collect();
            &many
        }
        known => known,
    };
    let key_at = |at: usize| Key { slot, bytes: args.get(at + 1), hash: hashes[at] };
    let (mut deleted, mut due, mut unlogged) = (0, 0, Unlogged::default());
    for at in 0..hashes.len() {
        engine.prefetch_removals_ahead(hashes, at);
        let key = key_at(at);
        // Each is done once: what is there behind it is there.
        let (mut is_in_memory, mut has_no_due_field) = (false, false);
        loop {
            let mut is_expired = false;
            let wanted = |entry: &Entry<'_>| {
                is_expired = entry.meta().is_expired(now_ms);
                is_expired || has_no_due_field || !entry.is_due(now_ms)
            };
            match ctx.tx().delete_if(key, wanted) {
                Deletion::Done if is_expired => {
                    unlogged.log(ctx, at);
                    let tx = ctx.tx.as_deref_mut().expect("command class has a transaction");
                    tell_removed(ctx.server, (tx, ctx.changes), db, key, Reason::Expired);
                    unlogged.begin = at + 1;
                    due += 1;
                }
                Deletion::Done => {
                    let event = Some(Event::generic("del"));
                    ctx.changes.write(&ctx.server.events, db, key.bytes, event);
                    unlogged.deletes += 1;
                    deleted += 1;
                }
                Deletion::Cold if !is_in_memory => {
                    is_in_memory = true;
                    ctx.bring_in_or_miss(key, (at + 1..hashes.len()).map(key_at));
                    continue;
                }
                // Fields of it are, which go first.
                Deletion::Kept => {
                    unlogged.log(ctx, at);
                    unlogged.begin = at;
                    has_no_due_field = true;
                    ctx.delete_due(db, key);
                    continue;
                }
                Deletion::Absent | Deletion::Cold => {}
            }
            break;
        }
    }
    if unlogged.begin == 0 && deleted != 0 {
        ctx.log_request();
    } else {
        unlogged.log(ctx, hashes.len());
    }
    // Only now: where a key is missed it begins again.
    count_removed(ctx.server, due, Reason::Expired);
    ctx.out.int(deleted);
    Ok(())
}

/// What DEL has deleted and not logged yet.
#[derive(Default)]
struct Unlogged {
    /// The first key that may be among it.
    begin: usize,
    deletes: u64,
}

impl Unlogged {
    /// Logs what was deleted of the keys before number `end`, if anything was.
    fn log(&mut self, ctx: &mut Ctx<'_, '_>, end: usize) {
        if std::mem::take(&mut self.deletes) == 0 {
            return;
        }
        let (db, args) = (ctx.client.db, ctx.args);
        let keys = args.from(1).skip(self.begin).take(end - self.begin);
        let words: Vec<&[u8]> = std::iter::once(&b"DEL"[..]).chain(keys).collect();
        ctx.log(db, &words);
    }
}

/// EXISTS key [key ...]: a key named twice counts twice.
pub(super) fn exists(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    count(ctx, Purpose::Glance)
}

/// TOUCH key [key ...].
pub(super) fn touch(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    count(ctx, Purpose::Touch)
}

fn count(ctx: &mut Ctx<'_, '_>, purpose: Purpose) -> CommandResult {
    let db = ctx.client.db;
    let mut found = 0;
    for key in ctx.args.from(1) {
        found += ctx.inspect(purpose, db, key, |entry, _| i64::from(entry.is_some()));
    }
    ctx.out.int(found);
    Ok(())
}

/// TYPE key.
pub(super) fn type_of(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    ctx.inspect(Purpose::Glance, db, key, |entry, out| {
        let name = match entry {
            Some(entry) => ValueType::of(entry.meta().flags)
                .ok_or(CommandError::text("ERR value of a type that this server does not know"))?
                .name(),
            None => "none",
        };
        out.simple(name);
        Ok(())
    })
}
