//! DEBUG POPULATE: many string keys at once.

use crate::dispatch::{CommandError, CommandResult, Ctx};
use crate::keyspace::Written;
use crate::number::parse_i64;
use crate::resp::write_command;
use sexton_engine::{Found, KEY_MAX_BYTES, Key, Latched, Tx, TxBuf, key_too_long};

/// Most keys of one call.
const COUNT_MAX: i64 = 1 << 30;

/// `DEBUG POPULATE count [prefix] [size]`: keys `prefix:0` and on with values `value:0` and on, cut
/// or zero-padded to `size` bytes. Keys that exist stay as they are.
pub(super) fn populate(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    let number = |index: usize, max: i64| {
        parse_i64(args.get(index))
            .filter(|number| (0..=max).contains(number))
            .ok_or(CommandError::text("ERR value is out of range, must be positive"))
    };
    let count = number(2, COUNT_MAX)?;
    let prefix = if args.len() > 3 { args.get(3) } else { b"key" };
    let size = if args.len() > 4 { number(4, 512 << 20)? as usize } else { 0 };
    // The longest number that may follow.
    let longest = [prefix, &[b'9'; 24]].concat();
    if longest.len() > KEY_MAX_BYTES {
        return Err(format!("ERR {}", key_too_long(&longest)).into());
    }
    let db = ctx.client.db;
    let engine = &ctx.server.engine;
    let mut buf = TxBuf::default();
    for number in 0..count {
        let mut name = prefix.to_vec();
        name.extend_from_slice(format!(":{number}").as_bytes());
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            value.resize(size, 0);
        }
        let key = Key { slot: engine.slot_of(db), bytes: &name, hash: engine.hash(&name) };
        match ctx.tx.as_deref_mut() {
            Some(tx) => put_new(tx, db, key, &value),
            None => {
                let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
                put_new(&mut tx, db, key, &value);
                tx.commit();
            }
        }
    }
    ctx.out.ok();
    Ok(())
}

/// A cold key exists as well as a live one: it stays.
fn put_new(tx: &mut Tx<'_>, db: usize, key: Key<'_>, value: &[u8]) {
    if matches!(tx.find(key), Found::Absent) {
        tx.put(key, Written::Whole.expiring_at(0), value);
        write_command(tx.log_form(db), [b"SET", key.bytes, value].into_iter());
    }
}
