//! The keys of a request: where they stand, which of them are cold, and loading those.

use crate::command::table::key_positions;
use crate::command::{Args, CommandSpec, Flags};
use crate::server::Server;
use sexton_engine::{Found, Key, LoadPin, OwnedKey, Tx};

/// Calls `found` with every key of a request.
pub(super) fn each_key<'a>(
    spec: &'static CommandSpec,
    args: Args<'a>,
    mut found: impl FnMut(&'a [u8]),
) {
    let range = spec.keys;
    if spec.flags.contains(Flags::MOVABLEKEYS) || range.first == 0 {
        for key in key_positions(spec, args).unwrap_or_default() {
            found(args.get(key.index));
        }
        return;
    }
    let count = args.len() as isize;
    let last = if range.last < 0 { count + range.last } else { range.last.min(count - 1) };
    let mut index = range.first;
    while (index as isize) <= last {
        found(args.get(index));
        index += range.step.max(1);
    }
}

/// True when the command looks at old values.
pub(super) fn needs_values(server: &Server, spec: &CommandSpec, args: Args<'_>) -> bool {
    spec.reads_values
        || (spec.name == "set" && args.len() > 3)
        || server.settings.events.needs_old_values()
}

/// `hashes`: those of the keys in the order of [`each_key`], or none when they are not known.
pub(super) fn find_cold(
    server: &Server,
    db: usize,
    spec: &'static CommandSpec,
    args: Args<'_>,
    hashes: &[u64],
    tx: &mut Tx<'_>,
    cold: &mut Vec<OwnedKey>,
) {
    if !needs_values(server, spec, args) {
        return;
    }
    let engine = &server.engine;
    let mut nth = 0;
    each_key(spec, args, |bytes| {
        engine.prefetch_ahead(hashes, nth);
        let hash = hashes.get(nth).copied().unwrap_or_else(|| engine.hash(bytes));
        nth += 1;
        let mut look = |db: usize| {
            let key = Key { slot: engine.slot_of(db), bytes, hash };
            if matches!(tx.find(key), Found::Cold) {
                cold.push(OwnedKey { slot: key.slot, bytes: bytes.to_vec(), hash: key.hash });
            }
        };
        look(db);
        // MOVE and COPY name a second database; its keys share the latches, since the hash
        // covers the bytes only.
        if matches!(spec.name, "move" | "copy") {
            (0..server.databases).filter(|&other| other != db).for_each(&mut look);
        }
    });
}

/// Loads keys and waits for them; they stay in memory while the pin lives. For threads that may block.
///
/// # Errors
/// The engine's text when a key could not be read.
pub fn load_blocking(server: &Server, keys: Vec<OwnedKey>) -> Result<LoadPin, String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    server.engine.load(keys, move |result| {
        // The receiver waits below; it can only be gone when its thread is.
        let _ = sender.send(result);
    });
    match receiver.recv() {
        Ok(Ok(pin)) => Ok(pin),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the load was dropped".to_owned()),
    }
}
