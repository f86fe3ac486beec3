//! DUMP and RESTORE: one value in Redis' RDB encoding.

use crate::dispatch::{Args, Binding, CommandError, CommandResult, Ctx, OUT_OF_MEMORY, Purpose};
use crate::events::Event;
use crate::keyspace::{AnyView, NotStored, from_dumped};
use crate::log;
use crate::number::parse_i64;
use crate::value::ValueType;
use sexton_engine::{Entry, Meta};
use sexton_persistence::rdb::{self, RdbError, check_payload, read_payload};

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("dump", dump),
    Binding::keyed("restore", restore),
    Binding::keyed("restore-asking", restore),
];

/// DUMP key.
fn dump(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    ctx.inspect_whole(Purpose::Read, (db, key), &ValueType::ALL, |entry, out| {
        let Some(entry) = entry else {
            out.null();
            return Ok(());
        };
        out.bulk(&payload_of(&entry)?);
        Ok(())
    })
}

/// What DUMP answers for a value that is shown as if it lay in one record.
pub(super) fn payload_of(entry: &Entry<'_>) -> Result<Vec<u8>, CommandError> {
    let view = AnyView::of(entry.meta(), entry.value());
    let payload = view.and_then(|view| rdb::dump(&view.to_dumped()));
    payload.ok_or(CommandError::text("ERR the value is of an unknown type"))
}

#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut at = 4;
        while at < args.len() {
            let number = || parse_i64(args.get(at + 1)).ok_or(CommandError::NotInteger);
            let more = at + 1 < args.len();
            match args.get(at).to_ascii_uppercase().as_slice() {
                b"REPLACE" => options.replace = true,
                b"ABSTTL" => options.absolute = true,
                b"IDLETIME" if more && options.frequency.is_none() => {
                    let seconds = number()?;
                    options.idle_seconds = Some(u64::try_from(seconds).map_err(|_| {
                        CommandError::text("ERR Invalid IDLETIME value, must be >= 0")
                    })?);
                    at += 1;
                }
                b"FREQ" if more && options.idle_seconds.is_none() => {
                    let frequency = number()?;
                    options.frequency = Some(u8::try_from(frequency).map_err(|_| {
                        CommandError::text("ERR Invalid FREQ value, must be >= 0 and <= 255")
                    })?);
                    at += 1;
                }
                _ => return Err(CommandError::Syntax),
            }
            at += 1;
        }
        Ok(options)
    }
}

/// Flags and value of a payload. The unpacked size is determined before unpacking: a few bytes may announce half a
/// gigabyte.
fn read_value(
    ctx: &Ctx<'_, '_>,
    key: &[u8],
    payload: &[u8],
) -> Result<(u8, Vec<u8>), CommandError> {
    let damaged = |reason: &dyn std::fmt::Display| {
        log::verbose(|| format!("RESTORE of key '{}': {reason}", key.escape_ascii()));
        CommandError::text("ERR Bad data format")
    };
    let max_bytes = ctx.memory_max_bytes();
    let (body, dialect) = check_payload(payload)
        .map_err(|_| CommandError::text("ERR DUMP payload version or checksum are wrong"))?;
    let dumped = match read_payload(body, dialect, max_bytes) {
        Ok(dumped) => dumped,
        Err(RdbError::TooLarge { .. }) => return Err(CommandError::text(OUT_OF_MEMORY)),
        Err(error) => return Err(damaged(&error)),
    };
    let (flags, value) =
        from_dumped(dumped, &ctx.thresholds()).map_err(|not_stored| match not_stored {
            NotStored::Type(name) => {
                format!("ERR RESTORE of type '{name}' is not supported yet").into()
            }
            NotStored::Empty => damaged(&"an empty collection"),
            NotStored::Damaged => {
                damaged(&"integrity check failed: elements that contradict each other")
            }
        })?;
    if value.len() as u64 > max_bytes.min(sexton_engine::VALUE_MAX_BYTES) {
        return Err(CommandError::text(OUT_OF_MEMORY));
    }
    Ok((flags, value))
}

/// RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency].
///
/// One operation, logged with an absolute time and REPLACE, so that replay does not depend on when
/// the old value was deleted. An expired time deletes the old value, logged as DEL, and adds none.
fn restore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key, payload) = (ctx.client.db, ctx.args.get(1), ctx.args.get(3));
    let options = Options::parse(ctx.args)?;
    let exists = ctx.inspect(Purpose::Write, db, key, |entry, _| entry.is_some());
    if exists && !options.replace {
        return Err(CommandError::text("BUSYKEY Target key name already exists."));
    }
    let ttl_ms = u64::try_from(ctx.int_arg(2)?)
        .map_err(|_| CommandError::text("ERR Invalid TTL value, must be >= 0"))?;
    let sealed = ctx.server.observe.skips_checksums().then(|| rdb::with_checksum(payload));
    let payload = sealed.as_deref().unwrap_or(payload);
    let (flags, value) = read_value(ctx, key, payload)?;
    let expire_at_ms = match ttl_ms {
        0 => 0,
        ms if options.absolute => ms,
        ms => ms + ctx.now_ms,
    };
    // A relative time beyond the range of a signed number counts as past, as Redis' sum wraps.
    let is_past = expire_at_ms <= ctx.now_ms || expire_at_ms > i64::MAX as u64;
    if expire_at_ms != 0 && is_past {
        if ctx.delete(db, key, Event::generic("del")) {
            ctx.log(db, &[b"DEL", key]);
        }
        ctx.out.ok();
        return Ok(());
    }
    let meta = Meta { flags, expire_at_ms };
    ctx.put_anew(db, key, meta, &value, Event::generic("restore"));
    let mut digits = itoa::Buffer::new();
    let ttl = digits.format(expire_at_ms).as_bytes();
    ctx.log(db, &[b"RESTORE", key, ttl, payload, b"REPLACE", b"ABSTTL"]);
    let access = &ctx.server.eviction.access;
    if let Some(field) = access.restored(options.idle_seconds, options.frequency, ctx.now_ms) {
        let key = ctx.key_in(db, key);
        ctx.tx().set_access(key, field);
    }
    ctx.out.ok();
    Ok(())
}
