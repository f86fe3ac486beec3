//! The keys of a request that must be brought into memory before it runs.

use super::latch::each_key;
use super::{Args, CommandSpec, OnDatabases, Traits, flush_mode_is_known, swapped_dbs};
use crate::keyspace::paged::Paged;
use crate::number::parse_i64;
use crate::server::Server;
use sexton_engine::{Found, FoundPage, Key, OwnedKey, Slot, Tx, Want};

/// True if the command reads old values.
fn needs_values(server: &Server, spec: &CommandSpec, args: Args<'_>) -> bool {
    !(spec.is_blind)(args) || server.events.switch.needs_old_values()
}

/// The slot of each database when a command will run: in a transaction it may differ from the current
/// one.
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

    /// Applies the effects of a queued command to the slots. `db`: the database that is selected then.
    pub(super) fn follow(
        &mut self,
        server: &Server,
        db: usize,
        spec: &CommandSpec,
        args: Args<'_>,
    ) {
        let (a, b) = match spec.on_databases {
            OnDatabases::Nothing | OnDatabases::Selects => return,
            OnDatabases::Swaps => match swapped_dbs(args, server.databases) {
                Some(dbs) => dbs,
                None => return,
            },
            OnDatabases::EmptiesOne | OnDatabases::EmptiesAll if !flush_mode_is_known(args) => {
                return;
            }
            OnDatabases::EmptiesOne | OnDatabases::EmptiesAll => (db, db),
        };
        let slots = self.changed.get_or_insert_with(|| {
            (0..server.databases).map(|db| Some(server.engine.slot_of(db))).collect()
        });
        match spec.on_databases {
            OnDatabases::Swaps => slots.swap(a, b),
            // One that will be refused is not emptied: then a key may be met that was not loaded, see
            // `Ctx::bring_in`.
            OnDatabases::EmptiesOne => slots[db] = None,
            _ => slots.fill(None),
        }
    }
}

/// Keys, as what a request wants.
pub(super) fn wants(keys: Vec<OwnedKey>) -> Vec<Want> {
    keys.into_iter().map(Want::key).collect()
}

/// The cold ones among the keys of a request that a script makes now in this database.
pub(crate) fn cold_keys_now(
    server: &Server,
    db: usize,
    spec: &'static CommandSpec,
    args: Args<'_>,
    tx: &mut Tx<'_>,
) -> Vec<OwnedKey> {
    cold_keys(server, (db, &Slots::NOW), spec, args, &[], tx)
}

/// Cold pages that a command of a transaction probably needs, of collections whose roots are in memory. If the command can no
/// longer be restarted, they would be read under its latches (N10).
pub(super) fn cold_pages(
    server: &Server,
    (db, slots): (usize, &Slots),
    spec: &'static CommandSpec,
    args: Args<'_>,
    tx: &mut Tx<'_>,
) -> Vec<Want> {
    let (mut cold, engine) = (Vec::new(), &server.engine);
    let Some(slot) = slots.of(server, db).filter(|_| engine.has_pages()) else { return cold };
    each_key(spec, args, |bytes| {
        let key = Key { slot, bytes, hash: engine.hash(bytes) };
        let paged = match tx.find(key) {
            Found::Live(entry) => Paged::of_entry(entry).ok().flatten(),
            _ => None,
        };
        let Some(paged) = paged else { return };
        let root = OwnedKey { slot, bytes: bytes.to_vec(), hash: key.hash };
        let cid = paged.descriptor.collection;
        for page in paged.likely_pages(args.from(2)) {
            if tx.find_page(key, cid, page.into()) == FoundPage::Cold {
                cold.push(Want::page_of(&root, cid, page.into()));
            }
        }
    });
    cold
}

/// The cold keys of a single request that must be in memory before its handler runs.
pub(super) fn cold_keys_before(
    server: &Server,
    db: usize,
    spec: &'static CommandSpec,
    args: Args<'_>,
    hashes: &[u64],
    tx: &mut Tx<'_>,
) -> Vec<OwnedKey> {
    if spec.traits.has(Traits::MISSES_KEYS) {
        return Vec::new();
    }
    // Nearly always there is one, in memory.
    if let [hash] = *hashes
        && spec.begins_with_key()
        && !tx.is_cold(Key { slot: server.engine.slot_of(db), bytes: args.get(1), hash })
    {
        return Vec::new();
    }
    cold_keys(server, (db, &Slots::NOW), spec, args, hashes, tx)
}

/// What may be the number of another database among the arguments behind the first key.
fn other_databases(server: &Server, db: usize, args: Args<'_>) -> Vec<usize> {
    let numbers = args.from(2).filter_map(|arg| usize::try_from(parse_i64(arg)?).ok());
    numbers.filter(|&other| other != db && other < server.databases).collect()
}

/// The cold keys of a request whose values it needs. `hashes`: those of the keys in the order of
/// [`each_key`], or none if they are unknown.
pub(super) fn cold_keys(
    server: &Server,
    (db, slots): (usize, &Slots),
    spec: &'static CommandSpec,
    args: Args<'_>,
    hashes: &[u64],
    tx: &mut Tx<'_>,
) -> Vec<OwnedKey> {
    let mut cold = Vec::new();
    if !needs_values(server, spec, args) {
        return cold;
    }
    let engine = &server.engine;
    let mut look = |db: usize, bytes: &[u8], hash: u64| {
        let Some(slot) = slots.of(server, db) else { return };
        if matches!(tx.find(Key { slot, bytes, hash }), Found::Cold) {
            cold.push(OwnedKey { slot, bytes: bytes.to_vec(), hash });
        }
    };
    let others = match spec.traits.has(Traits::NAMES_DATABASE) {
        true => other_databases(server, db, args),
        false => Vec::new(),
    };
    let mut nth = 0;
    each_key(spec, args, |bytes| {
        engine.prefetch_ahead(hashes, nth);
        let hash = hashes.get(nth).copied().or_else(|| args.hash_of(bytes));
        let hash = hash.unwrap_or_else(|| engine.hash(bytes));
        nth += 1;
        look(db, bytes, hash);
        // Keys of another database share the latches, since the hash covers the bytes only.
        others.iter().for_each(|&other| look(other, bytes, hash));
    });
    // Whether a watched key changes depends on its current value, and on the one that replaces it.
    if server.events.watches.is_used() {
        let swaps = spec.on_databases == OnDatabases::Swaps;
        let dbs = match spec.on_databases {
            OnDatabases::Nothing | OnDatabases::Selects => Vec::new(),
            OnDatabases::Swaps => {
                swapped_dbs(args, server.databases).map_or(Vec::new(), |(a, b)| vec![a, b])
            }
            OnDatabases::EmptiesOne => vec![db],
            OnDatabases::EmptiesAll => (0..server.databases).collect(),
        };
        for watched in &dbs {
            for bytes in server.events.watches.keys_of(*watched) {
                dbs.iter().filter(|&&db| db == *watched || swaps).for_each(|&db| {
                    look(db, &bytes, engine.hash(&bytes));
                });
            }
        }
    }
    cold
}
