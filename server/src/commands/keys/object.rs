//! OBJECT: how a value is kept.

use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::keyspace::paged::Paged;
use crate::keyspace::{AnyView, StringView};
use crate::number::parse_i64;
use crate::state::eviction::idle_seconds;
use sexton_config::choice::EvictionPolicy;

/// Integers below this are shared objects in Redis, with this reference count.
const SHARED_INTEGERS: i64 = 10_000;
const SHARED_REFCOUNT: i64 = i32::MAX as i64;

const HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Prints this help.",
];

/// OBJECT HELP.
pub(super) fn help(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.array(HELP.len());
    for line in HELP {
        ctx.out.simple(line);
    }
    Ok(())
}

/// OBJECT ENCODING key.
pub(super) fn encoding(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(2));
    ctx.inspect(Purpose::Aside, db, key, |entry, out| match entry {
        Some(entry) => {
            let meta = entry.meta();
            let paged = Paged::of_entry(entry).ok().flatten();
            let name = match paged.and_then(|paged| paged.encoding()) {
                Some(encoding) => encoding.name(),
                None => AnyView::of(meta, entry.value())
                    .map_or("unknown", |view| view.encoding(meta.flags)),
            };
            out.bulk(name.as_bytes());
        }
        None => out.null(),
    });
    Ok(())
}

/// OBJECT REFCOUNT key: values are never shared here; small integers answer as Redis does, which shares them
/// unless an LRU or LFU policy under `maxmemory` needs an access time of each.
pub(super) fn refcount(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(2));
    let options = ctx.server.config.options();
    let each_its_own = ctx.server.engine.memory_bound() != 0
        && matches!(
            options.maxmemory_policy,
            EvictionPolicy::AllkeysLru
                | EvictionPolicy::VolatileLru
                | EvictionPolicy::AllkeysLfu
                | EvictionPolicy::VolatileLfu
        );
    ctx.inspect(Purpose::Aside, db, key, |entry, out| match entry {
        Some(entry) => {
            let plain = StringView::of(entry).is_some_and(|string| string.is_plain());
            let small = parse_i64(entry.value()).is_some_and(|n| (0..SHARED_INTEGERS).contains(&n));
            out.int(if plain && small && !each_its_own { SHARED_REFCOUNT } else { 1 });
        }
        None => out.null(),
    });
    Ok(())
}

/// OBJECT IDLETIME key, in seconds.
pub(super) fn idletime(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key, now_ms) = (ctx.client.db, ctx.args.get(2), ctx.now_ms);
    let is_lfu = ctx.server.eviction.access.is_lfu();
    ctx.inspect(Purpose::Aside, db, key, |entry, out| match entry {
        Some(_) if is_lfu => Err(CommandError::text(
            "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
             switching between policies at runtime LRU and LFU data will take some time to adjust.",
        )),
        Some(entry) => {
            out.int(idle_seconds(entry.access(), now_ms));
            Ok(())
        }
        None => {
            out.null();
            Ok(())
        }
    })
}

/// OBJECT FREQ key: the LFU counter, under a policy that keeps one.
pub(super) fn freq(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key, now_ms) = (ctx.client.db, ctx.args.get(2), ctx.now_ms);
    let access = &ctx.server.eviction.access;
    ctx.inspect(Purpose::Aside, db, key, |entry, out| {
        let Some(entry) = entry else {
            out.null();
            return Ok(());
        };
        if access.is_lfu() {
            out.int(i64::from(access.frequency(entry.access(), now_ms)));
            return Ok(());
        }
        Err(CommandError::text(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
             note that when switching between policies at runtime LRU and LFU data will take some \
             time to adjust.",
        ))
    })
}
