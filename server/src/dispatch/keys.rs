//! The keys of a request: where they stand, which of them are cold, and loading those.

use super::table::key_positions;
use super::{Args, CommandError, CommandSpec, Flags, flush_mode_is_known, swapped_dbs};
use crate::server::Server;
use sexton_engine::{Found, KEY_MAX_BYTES, Key, OwnedKey, Slot, Tx, key_too_long};

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

/// What a request is refused with that would make a key longer than the engine takes. Where no such key can be made
/// there is none either, and the request finds that out by itself.
pub fn too_long_key(spec: &'static CommandSpec, args: Args<'_>) -> Option<CommandError> {
    let makes_keys =
        spec.flags.contains(Flags::DENYOOM) || matches!(spec.name, "rename" | "renamenx");
    if !makes_keys || args.from(1).all(|arg| arg.len() <= KEY_MAX_BYTES) {
        return None;
    }
    let mut longest = 0;
    each_key(spec, args, |key| longest = longest.max(key.len()));
    (longest > KEY_MAX_BYTES).then(|| format!("ERR {}", key_too_long(longest)).into())
}

/// True when the command looks at old values.
pub(super) fn needs_values(server: &Server, spec: &CommandSpec, args: Args<'_>) -> bool {
    spec.reads_values
        || (spec.name == "set" && args.len() > 3)
        || server.settings.events.needs_old_values()
}

/// Which slot stands behind each database when a command will run: in a transaction not always the one that does
/// now.
pub(super) struct Slots {
    /// `None`: the database will have been emptied, and what is put there until then is in memory.
    changed: Option<Vec<Option<Slot>>>,
}

impl Slots {
    /// As they are now.
    pub(super) const NOW: Self = Self { changed: None };

    fn of(&self, server: &Server, db: usize) -> Option<Slot> {
        match &self.changed {
            None => Some(server.engine.slot_of(db)),
            Some(slots) => slots.get(db).copied().flatten(),
        }
    }

    /// What a queued command will do to them. `db`: the database that is selected then.
    pub(super) fn follow(
        &mut self,
        server: &Server,
        db: usize,
        spec: &CommandSpec,
        args: Args<'_>,
    ) {
        let dbs = match spec.name {
            "swapdb" => swapped_dbs(args, server.databases),
            "flushdb" | "flushall" if flush_mode_is_known(args) => Some((db, db)),
            _ => return,
        };
        let Some((a, b)) = dbs else { return };
        let slots = self.changed.get_or_insert_with(|| {
            (0..server.databases).map(|db| Some(server.engine.slot_of(db))).collect()
        });
        match spec.name {
            "swapdb" => slots.swap(a, b),
            // One that will be refused is not emptied: then a key may be met that was not loaded, see
            // `Ctx::bring_in`.
            "flushdb" => slots[db] = None,
            _ => slots.fill(None),
        }
    }
}

/// `hashes`: those of the keys in the order of [`each_key`], or none when they are not known.
#[allow(clippy::too_many_arguments)]
pub(super) fn find_cold(
    server: &Server,
    (db, slots): (usize, &Slots),
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
    let mut look = |db: usize, bytes: &[u8], hash: u64| {
        let Some(slot) = slots.of(server, db) else { return };
        if matches!(tx.find(Key { slot, bytes, hash }), Found::Cold) {
            cold.push(OwnedKey { slot, bytes: bytes.to_vec(), hash });
        }
    };
    let mut nth = 0;
    each_key(spec, args, |bytes| {
        engine.prefetch_ahead(hashes, nth);
        let hash = hashes.get(nth).copied().unwrap_or_else(|| engine.hash(bytes));
        nth += 1;
        look(db, bytes, hash);
        // MOVE and COPY name a second database; its keys share the latches, since the hash
        // covers the bytes only.
        if matches!(spec.name, "move" | "copy") {
            (0..server.databases).filter(|&other| other != db).for_each(|db| look(db, bytes, hash));
        }
    });
    // Whether a watched key changes depends on what is there, and on what comes in its place.
    if server.watches.is_used() {
        let dbs = match spec.name {
            "swapdb" => swapped_dbs(args, server.databases).map_or(Vec::new(), |(a, b)| vec![a, b]),
            "flushdb" => vec![db],
            "flushall" => (0..server.databases).collect(),
            _ => Vec::new(),
        };
        for watched in &dbs {
            for bytes in server.watches.keys_of(*watched) {
                dbs.iter().filter(|&&db| db == *watched || spec.name == "swapdb").for_each(|&db| {
                    look(db, &bytes, engine.hash(&bytes));
                });
            }
        }
    }
}
