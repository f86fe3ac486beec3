//! DEBUG: the subcommands that tests and operators use.
//!
//! Bound as one command, as in Redis: its subcommands are not in the command table. It runs on a
//! helper thread because some subcommands walk the whole key space.

mod digest;
mod populate;
mod protocol;
mod reload;

use super::introspect::write_help;
use crate::dispatch::{Binding, CommandError, CommandResult, Ctx};
use crate::keyspace::AnyView;
use crate::keyspace::paged::{Paged, whole_in};
use crate::log;
use crate::value::ValueType;
use sexton_engine::{Found, Key, Latched, Meta, OwnedKey, Tx, TxBuf};
use std::sync::mpsc;
use std::time::Duration;

/// DEBUG.
pub(super) const COMMANDS: &[Binding] = &[Binding::offload("debug", debug)];

/// Longest DEBUG SLEEP, in seconds: a typing error must not stop a server for a year.
const SLEEP_MAX_S: f64 = 3600.0;

/// Subcommands with help; the texts are Redis' own.
const SUPPORTED: &[&str] = &[
    "CHANGE-REPL-ID",
    "DIGEST",
    "DIGEST-VALUE",
    "ERROR",
    "HTSTATS",
    "LOG",
    "OBJECT",
    "PANIC",
    "POPULATE",
    "PROTOCOL",
    "RELOAD",
    "SET-ACTIVE-EXPIRE",
    "SET-DISABLE-DENY-SCRIPTS",
    "SET-SKIP-CHECKSUM-VALIDATION",
    "SDSLEN",
    "SEGFAULT",
    "SLEEP",
];

/// `enable-debug-command`: yes, no, or local connections only.
fn is_allowed(ctx: &Ctx<'_, '_>) -> bool {
    match ctx.server.setting("enable-debug-command").as_str() {
        "yes" => true,
        "local" => ctx.client.session.is_local(),
        _ => false,
    }
}

fn debug(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if !is_allowed(ctx) {
        return Err(CommandError::text(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \
             \"local\", you can run it from a local connection, otherwise you need to set this \
             option in the configuration file, and then restart the server.",
        ));
    }
    let args = ctx.args;
    let sub = args.get(1).to_ascii_lowercase();
    match (sub.as_slice(), args.len()) {
        (b"help", 2) => help(ctx),
        (b"sleep", 3) => sleep(ctx),
        (b"digest", 2) => digest::digest(ctx),
        (b"digest-value", 2..) => digest::digest_value(ctx),
        (b"object", 3) => object(ctx),
        (b"sdslen", 3) => sds_len(ctx),
        (b"populate", 3..=5) => populate::populate(ctx),
        (b"protocol", 3) => protocol::protocol(ctx),
        (b"set-active-expire", 3) => {
            let on = crate::number::parse_i64(args.get(2)).unwrap_or(0) != 0;
            ctx.server.observe.set_active_expire(on);
            ctx.out.ok();
            Ok(())
        }
        (b"set-skip-checksum-validation", 3) => {
            let on = crate::number::parse_i64(args.get(2)).unwrap_or(0) != 0;
            ctx.server.observe.set_skips_checksums(on);
            ctx.out.ok();
            Ok(())
        }
        (b"set-disable-deny-scripts", 3) => {
            let on = crate::number::parse_i64(args.get(2)).unwrap_or(0) != 0;
            ctx.server.running_scripts.allows_all.store(on, std::sync::atomic::Ordering::Relaxed);
            ctx.out.ok();
            Ok(())
        }
        (b"segfault", 2) => {
            crate::crash::fault();
            Ok(())
        }
        (b"panic", 2) => panic!("called by DEBUG PANIC"),
        (b"log", 3) => {
            log::warning(&format!("DEBUG LOG: {}", String::from_utf8_lossy(args.get(2))));
            ctx.out.ok();
            Ok(())
        }
        (b"error", 3) => Err(String::from_utf8_lossy(args.get(2)).into_owned().into()),
        (b"htstats", 3) => table_stats(ctx),
        (b"reload", 2..) => reload::reload(ctx),
        (b"loadaof", 2) => reload::load_aof(ctx),
        // Knobs of Redis' own structures: nothing to turn here, and nothing to complain about.
        (b"change-repl-id" | b"config-rewrite-force-all", 2)
        | (
            b"pause-cron" | b"aof-flush-sleep" | b"quicklist-packed-threshold" | b"dict-resizing",
            3,
        )
        | (b"replybuffer", 4) => {
            ctx.out.ok();
            Ok(())
        }
        _ => Err(ctx.spec.subcommand_error(args.get(1))),
    }
}

fn help(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let mut shown = false;
    let lines: Vec<&str> = ctx
        .spec
        .metadata
        .fields("help")
        .filter(|line| {
            if !line.starts_with(' ') {
                shown = SUPPORTED.contains(&line.split(' ').next().unwrap_or_default());
            }
            shown
        })
        .collect();
    write_help(ctx.out, "debug", &lines);
    Ok(())
}

fn sleep(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    // Redis reads the number with strtod: what is no number is 0.
    let text = std::str::from_utf8(ctx.args.get(2)).unwrap_or("0");
    let seconds: f64 = text.parse().unwrap_or(0.0);
    if seconds > 0.0 {
        std::thread::sleep(Duration::from_secs_f64(seconds.min(SLEEP_MAX_S)));
    }
    ctx.out.ok();
    Ok(())
}

/// A copy of a key's value, loaded from its device where it is cold. Blocks.
fn find_value(
    ctx: &mut Ctx<'_, '_>,
    bytes: &[u8],
) -> Result<Option<(Meta, Vec<u8>)>, CommandError> {
    let now_ms = ctx.now_ms;
    let key = ctx.key_in(ctx.client.db, bytes);
    if let Some(tx) = ctx.tx.as_deref_mut() {
        tx.bring_in(key).map_err(|error| CommandError::from(format!("ERR {error}")))?;
        return match tx.find(key) {
            Found::Live(entry) => {
                let (meta, value) = (entry.meta(), entry.value().to_vec());
                whole_of(tx, key, meta, value).map(Some)
            }
            Found::Absent | Found::Cold => Ok(None),
        };
    }
    let engine = &ctx.server.engine;
    let owned = OwnedKey { slot: key.slot, bytes: key.bytes.to_vec(), hash: key.hash };
    let (sender, receiver) = mpsc::channel();
    engine.load(vec![owned], u64::MAX, move |result| {
        // A dropped receiver has stopped waiting.
        let _ = sender.send(result);
    });
    let _pin = match receiver.recv() {
        Ok(result) => result.map_err(|error| CommandError::from(format!("ERR {error}")))?,
        Err(_) => return Err(CommandError::text("ERR the store was closed")),
    };
    let mut buf = TxBuf::default();
    let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
    let found = match tx.find(key) {
        Found::Live(entry) if !entry.meta().is_expired(now_ms) => {
            Some((entry.meta(), entry.value().to_vec()))
        }
        _ => None,
    };
    let whole = found.map(|(meta, value)| whole_of(&mut tx, key, meta, value)).transpose();
    tx.commit();
    whole
}

/// A paged collection in the form of a single record.
fn whole_of(
    tx: &mut Tx<'_>,
    key: Key<'_>,
    meta: Meta,
    value: Vec<u8>,
) -> Result<(Meta, Vec<u8>), CommandError> {
    let paged = Paged::of(meta, &value).map_err(|error| format!("ERR {error}"))?;
    let Some(paged) = paged else { return Ok((meta, value)) };
    whole_in(tx, key, &paged, true).map_err(|failed| format!("ERR {failed}").into())
}

fn object(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    let (meta, value) = find_value(ctx, args.get(2))?.ok_or(CommandError::NoSuchKey)?;
    let view = AnyView::of(meta, &value);
    let encoding = view.map_or("unknown", |view| view.encoding(meta.flags));
    // There is no object with an address here; tools read the fields behind it.
    ctx.out.simple(&format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{} lru:0 lru_seconds_idle:0",
        value.len() + 1
    ));
    Ok(())
}

fn sds_len(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    let key = args.get(2);
    let (meta, value) = find_value(ctx, key)?.ok_or(CommandError::NoSuchKey)?;
    if ValueType::of(meta.flags) != Some(ValueType::String) {
        return Err(CommandError::text("ERR Not an sds encoded string."));
    }
    ctx.out.simple(&format!(
        "key_sds_len:{}, key_sds_avail:0, key_zmalloc: {}, \
         val_sds_len:{}, val_sds_avail:0, val_zmalloc: {}",
        key.len(),
        key.len(),
        value.len(),
        value.len()
    ));
    Ok(())
}

fn table_stats(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let db = usize::try_from(ctx.int_arg(2)?).unwrap_or(usize::MAX);
    if db >= ctx.server.databases {
        return Err(CommandError::text("ERR Out of range database"));
    }
    let (keys, expires) = match ctx.tx.as_deref_mut() {
        Some(tx) => tx.count_provisional(db),
        None => {
            let (keys, expires, _) = ctx.server.engine.count_provisional(db);
            (keys, expires)
        }
    };
    let part = |count: u64| match count {
        0 => "No stats available for empty dictionaries\n".to_owned(),
        count => format!(" number of elements: {count}\n"),
    };
    let text = format!(
        "[Dictionary HT]\nHash table 0 stats (main hash table):\n{}[Expires HT]\n\
         Hash table 0 stats (main hash table):\n{}",
        part(keys),
        part(expires)
    );
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}
