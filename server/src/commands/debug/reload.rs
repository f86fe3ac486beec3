//! DEBUG RELOAD: saves and reloads the live data, to test that both agree.

use crate::dispatch::{CommandError, CommandResult, Ctx};
use crate::jobs::rdb;
use crate::jobs::rewrite;
use crate::resp::command_bytes;
use crate::scripting::Libraries;
use sexton_engine::{Latched, OWN_RECORDS, TxBuf};
use std::path::Path;

/// `DEBUG RELOAD [NOSAVE] [NOFLUSH] [MERGE]`: saves, empties all databases and functions, loads. NOFLUSH keeps the existing
/// data, and keys of the file replace existing keys as MERGE does in Redis. A function library is replaced with MERGE only.
///
/// Clients receive LOADING from the moment the databases are empty. All of it is logged: a kill in
/// the middle leaves the part that was loaded so far, and the file.
pub(super) fn reload(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (mut save, mut flush, mut merge) = (true, true, false);
    for option in ctx.args.from(2) {
        match option.to_ascii_lowercase().as_slice() {
            b"nosave" => save = false,
            b"noflush" => flush = false,
            b"merge" => merge = true,
            _ => {
                return Err(CommandError::text(
                    "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
                ));
            }
        }
    }
    if ctx.tx.is_some() {
        return Err(CommandError::text("ERR DEBUG RELOAD is not allowed inside a transaction"));
    }
    let server = ctx.server;
    if save {
        rdb::save(server).map_err(|error| CommandError::from(format!("ERR {error}")))?;
    }
    let options = server.config.options();
    let path = options.dir.join(&options.dbfilename);
    load(ctx, &path, flush, merge)
        .map_err(|error| format!("ERR Error trying to load the RDB: {error}"))?;
    ctx.out.ok();
    Ok(())
}

/// `DEBUG LOADAOF`: writes a base as a rewrite of the log would, empties all databases, and loads that base. Log segments
/// after a base are replayed only by a start.
pub(super) fn load_aof(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.tx.is_some() {
        return Err(CommandError::text("ERR DEBUG LOADAOF is not allowed inside a transaction"));
    }
    rewrite::with_base(ctx.server, |path| load(ctx, path, true, false))
        .map_err(|error| format!("ERR Error trying to load the AOF: {error}"))?;
    ctx.out.ok();
    Ok(())
}

/// Loads a file, replacing or merging with the existing data. Meanwhile clients receive LOADING.
fn load(ctx: &mut Ctx<'_, '_>, path: &Path, flush: bool, merge: bool) -> Result<(), String> {
    let server = ctx.server;
    let size =
        std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.len();
    server.loading.begin(size);
    let loaded =
        empty_all(ctx, flush).and_then(|()| rdb::merge_file(server, path, merge).map(|_| ()));
    server.loading.end();
    loaded
}

fn empty_all(ctx: &mut Ctx<'_, '_>, flush: bool) -> Result<(), String> {
    if !flush {
        return Ok(());
    }
    let server = ctx.server;
    let (engine, events) = (&server.engine, &server.events);
    ctx.changes.empty(events);
    let mut buf = TxBuf::default();
    let mut tx = engine.begin(Latched::All, &mut buf);
    let functions = &server.functions;
    let libraries = functions.current();
    let mut any = false;
    for library in libraries.all() {
        let record = ctx.key_in(OWN_RECORDS, library.name.as_bytes());
        tx.bring_in(record).map_err(|error| error.to_string())?;
        any |= tx.delete(record);
    }
    if any {
        tx.log(0, &command_bytes(&[b"FUNCTION", b"FLUSH"]));
        functions.change(Libraries::default());
        functions.keep();
    }
    for db in 0..server.databases {
        let count = tx.count(db).map_err(|error| error.to_string())?;
        if count == 0 {
            continue;
        }
        events.watches.touch_all();
        for bytes in events.watches.keys_of(db) {
            let key = ctx.key_in(db, &bytes);
            // One that cannot be read counts as there.
            if tx.bring_in(key).unwrap_or(true) {
                events.watches.touch(db, &bytes);
            }
        }
        if !tx.flush_database(db) {
            ctx.changes.signal(events);
            tx.commit();
            ctx.changes.tell_caches(events, server.post());
            return Err("too many emptied databases wait to be swept".into());
        }
        tx.log(db, &command_bytes(&[b"FLUSHDB"]));
    }
    ctx.changes.signal(events);
    tx.commit();
    ctx.changes.tell_caches(events, server.post());
    Ok(())
}
