//! Periodic work: expiry of keys and fields that no client reads, idle connections.

use super::removed;
use crate::arenas;
use crate::clock::now_ms;
use crate::events::Changes;
use crate::jobs::backup::look_at_sealed;
use crate::jobs::eviction;
use crate::jobs::rdb::{look_at_save_points, start_wanted_save};
use crate::jobs::rewrite::look_at_growth;
use crate::keyspace::paged::Failed;
use crate::keyspace::{Extent, Reason, count_removed, load_blocking, remove_due, tell_removed};
use crate::observe::{Memory, held_bytes};
use crate::server::Server;
use crate::session::Session;
use sexton_engine::{Deletion, DueKey, Entry, Found, Key, Latched, OwnedKey, TxBuf, Want};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest time between two cycles.
const TICK: Duration = Duration::from_millis(100);

/// Least time between two cycles: what falls due meanwhile is deleted together.
const GATHER: Duration = Duration::from_millis(10);

/// Time between two looks at all connections.
const SECOND: Duration = Duration::from_secs(1);

/// Kernel memory of a connection: socket, descriptor, short queues.
const KERNEL_BYTES_OF_CONNECTION: u64 = 4 << 10;

/// Keys asked for at once.
const DUE_BATCH: usize = 64;

/// Keys deleted while a latch is held: others wait for it some ten microseconds.
const LATCH_BATCH: usize = 32;

/// Maximum number of passes over a batch of keys. Each pass has loaded what the previous one missed. Blocks of due
/// times form at most four levels.
const LOOKS: usize = 7;

/// Longest stretch of expiring before others get the processor.
const SLICE: Duration = Duration::from_millis(1);

/// Rest between two stretches while there is more to do.
const REST: Duration = Duration::from_micros(100);

/// Runs the cycles until `stop` is set; intended for a dedicated thread, since it may wait for cold
/// keys.
pub fn run(server: &Arc<Server>, stop: &AtomicBool) {
    let mut buf = TxBuf::default();
    let (mut measured, mut looked) = (Instant::now(), Instant::now());
    // Before the first client: a tenth of a second is enough to fill a small bound with garbage.
    arenas::give_back(server.engine.memory_bound(), 0);
    let mut syncs = SyncWatch::default();
    while !stop.load(Ordering::Acquire) {
        // While there is more to do, cycles follow each other with short rests.
        eviction::make_room(server, &mut buf, 1);
        server.engine.sweep_gone();
        server.events.tracking.keep_limit(server.post());
        let begun = Instant::now();
        let due = expire_slice(server, &mut buf);
        server.observe.latency.record_since("expire-cycle", begun);
        if due == Due::More || server.over_bound() {
            std::thread::sleep(REST);
        } else if due == Due::None {
            std::thread::sleep(GATHER);
            server.engine.wait_for_due(now_ms(), TICK - GATHER);
        } else {
            std::thread::sleep(TICK);
        }
        if measured.elapsed() >= TICK {
            measured = Instant::now();
            server.observe.traffic.sample(measured);
            syncs.look(server);
            server.disk_bound.look(&server.engine);
            let mut memory = Memory::now();
            if arenas::give_back(server.engine.memory_bound(), memory.rss_bytes) {
                memory = Memory::now();
            }
            server.observe.note_memory(memory);
            let (held, resident) = (held_bytes(&server.engine, &memory), memory.rss_bytes);
            // A container is charged for what the kernel holds for its sockets, too.
            let sockets = server.sessions.len() as u64 * KERNEL_BYTES_OF_CONNECTION;
            let clients = server.client_memory.bytes();
            server.engine.note_held(held + sockets, resident + sockets, clients);
            // A second would be long: the base is given up at twice the growth.
            if !server.loading.is_active() {
                look_at_growth(server);
            }
        }
        if !server.loading.is_active() {
            start_wanted_save(server);
        }
        server.engine.kick_log();
        server.engine.set_access_now(server.eviction.access.fresh(now_ms()));
        if looked.elapsed() >= SECOND {
            looked = Instant::now();
            close_idle(server);
            server.targets.close_idle();
            close_over_output_limit(server);
            wake_parked(server);
            if !server.loading.is_active() {
                look_at_save_points(server);
                look_at_sealed(server);
            }
            server.observe.note_peak(server.used_bytes());
        }
    }
}

/// Sees when syncs of a device take long.
#[derive(Default)]
struct SyncWatch {
    /// Of each device: syncs so far, and the time that they took in microseconds.
    seen: Vec<(u64, u64)>,
}

impl SyncWatch {
    /// Records what the syncs since the last look took, one with the other.
    fn look(&mut self, server: &Server) {
        if server.observe.latency.threshold_ms() == 0 {
            self.seen.clear();
            return;
        }
        let devices = server.devices.get().map(|storage| storage.devices()).unwrap_or_default();
        let now: Vec<_> = devices
            .iter()
            .map(|device| device.figures().syncs)
            .map(|syncs| (syncs.operations, syncs.total_us))
            .collect();
        for ((operations, total_us), (before, before_us)) in now.iter().zip(&self.seen) {
            if let Some(mean_us) = (total_us - before_us).checked_div(operations - before)
                && mean_us >= 1000
            {
                server.observe.latency.record("device-sync", now_ms() / 1000, mean_us / 1000);
            }
        }
        self.seen = now;
    }
}

/// What a stretch of expiring has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// Nothing is due.
    None,
    /// There is more to do.
    More,
    /// What is due must stay for now.
    Stays,
}

/// Deletes due keys for about a millisecond.
fn expire_slice(server: &Server, buf: &mut TxBuf) -> Due {
    let engine = &server.engine;
    if !server.observe.active_expire()
        || server.sessions.are_writes_paused()
        || server.loading.is_active()
    {
        return Due::Stays;
    }
    let started = Instant::now();
    loop {
        if engine.write_refusal().is_some() {
            return Due::Stays;
        }
        if engine.must_wait() {
            return Due::More;
        }
        let now_ms = now_ms();
        let mut due = engine.due(now_ms, DUE_BATCH);
        let mut full = due.len() >= DUE_BATCH;
        // Data on a device is read together, then examined again: a key, the blocks of due times of its pages, those pages.
        let mut pins = Vec::new();
        for _ in 0..LOOKS {
            let round = expire(server, buf, now_ms, &mut due);
            full |= round.left;
            if round.cold.is_empty() {
                break;
            }
            // Keys that cannot be read are kept; the next reader gets the error.
            pins.push(load_blocking(server, round.cold, u64::MAX).ok());
        }
        if !full {
            return Due::None;
        }
        if started.elapsed() > SLICE {
            return Due::More;
        }
    }
}

/// The result of a pass over due keys.
#[derive(Default)]
struct Round {
    /// The data that must be loaded before the remaining keys of the list can be processed.
    cold: Vec<Want>,
    /// A hash has more fields that are due than one operation takes.
    left: bool,
}

/// Deletes the keys that are still due (rule X3), logged as DEL, and due fields, logged as HDEL. Removes them from `due`,
/// together with keys that are no longer due. Keys that are not in memory stay in the list.
fn expire(server: &Server, buf: &mut TxBuf, now_ms: u64, due: &mut Vec<DueKey>) -> Round {
    let engine = &server.engine;
    let (mut round, mut cold) = (Round::default(), HashSet::new());
    let shares = |one: &DueKey, other: &DueKey| engine.share_latch(one.hash, other.hash);
    for keys in due.chunk_by(shares).flat_map(|keys| keys.chunks(LATCH_BATCH)) {
        let mut tx = engine.begin(Latched::Hashes(&[keys[0].hash]), buf);
        let (mut changes, mut expired) = (Changes::default(), 0);
        for DueKey { db, key: bytes, hash } in keys {
            let key = Key { slot: engine.slot_of(*db), bytes, hash: *hash };
            let mut late_ms = None;
            let is_expired = |entry: &Entry<'_>| {
                if entry.is_due(now_ms) {
                    late_ms = Some(now_ms - entry.meta().due_ms(entry.value()));
                }
                entry.meta().is_expired(now_ms)
            };
            match tx.delete_if(key, is_expired) {
                Deletion::Done => {
                    tell_removed(server, (&mut tx, &mut changes), *db, key, Reason::Expired);
                    expired += 1;
                }
                Deletion::Kept if late_ms.is_some() => {
                    let parts = (&mut tx, &mut changes);
                    match remove_due(server, parts, *db, key, now_ms, (Extent::Piece, false)) {
                        Ok(()) => {
                            let found = tx.find(key);
                            round.left |=
                                matches!(found, Found::Live(entry) if entry.is_due(now_ms));
                        }
                        Err(failed) => {
                            late_ms = None;
                            // After a failed read the next reader gets the error.
                            if let Failed::Away(wants) = failed {
                                round.cold.extend(wants);
                                cold.insert(*hash);
                            }
                        }
                    }
                }
                Deletion::Kept | Deletion::Absent => {}
                Deletion::Cold => {
                    let key = OwnedKey { slot: key.slot, bytes: bytes.clone(), hash: *hash };
                    round.cold.push(Want::key(key));
                    cold.insert(*hash);
                }
            }
            if let Some(late_ms) = late_ms {
                server.observe.expired_late_ms.record(late_ms);
            }
        }
        count_removed(server, expired, Reason::Expired);
        removed::commit(server, tx, &mut changes);
    }
    due.retain(|due| cold.contains(&due.hash));
    round
}

/// Makes connections that have waited long check whether their clients are still there: nothing else notifies them.
fn wake_parked(server: &Server) {
    let waits = |session: &Session| {
        session.parked_for().is_some_and(|parked| parked >= Duration::from_secs(1))
    };
    server
        .sessions
        .all()
        .iter()
        .filter(|session| waits(session))
        .for_each(|session| session.wake_task());
}

/// Closes connections that do not read their replies; a soft limit runs out without any event.
fn close_over_output_limit(server: &Server) {
    for session in server.sessions.all() {
        let unsent = session.output_bytes.load(Ordering::Relaxed);
        if unsent > 0 {
            server.output_limit_of(&session).enforce(&session, unsent as u64);
        }
    }
}

/// `timeout`: closes connections that have been idle for longer.
fn close_idle(server: &Server) {
    let timeout_s = server.settings.idle_timeout_s.load(Ordering::Relaxed);
    if timeout_s == 0 {
        return;
    }
    for session in server.sessions.all() {
        if session.idle_s() > timeout_s
            && !session.monitor.load(Ordering::Relaxed)
            && !session.is_subscriber()
            && !session.takes_copy.load(Ordering::Relaxed)
        {
            session.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::collection::{Edit, Encoding, Field, HashEdit, HashView};
    use crate::keyspace::paged::Paged;
    use sexton_engine::{Engine, Meta};

    fn server_with(keys: u32, expire_at_ms: impl Fn(u32) -> u64) -> (Server, TxBuf) {
        let server = Server::new(Engine::in_memory(16).expect("a store in memory opens"), 16);
        let mut buf = TxBuf::default();
        for number in 0..keys {
            let bytes = number.to_string().into_bytes();
            let hash = server.engine.hash(&bytes);
            let mut tx = server.engine.begin(Latched::Hashes(&[hash]), &mut buf);
            let slot = server.engine.slot_of(number as usize % 3);
            let meta = Meta { flags: 0, expire_at_ms: expire_at_ms(number) };
            tx.put(Key { slot, bytes: &bytes, hash }, meta, b"value");
            tx.commit();
        }
        (server, buf)
    }

    #[test]
    fn due_keys_of_all_databases_go_and_others_stay() {
        // Every fourth stays: without an expiry, or with a later one.
        let (server, mut buf) = server_with(3000, |number| match number % 8 {
            3 => 0,
            7 => now_ms() + 1_000_000,
            _ => 1,
        });
        while expire_slice(&server, &mut buf) == Due::More {}
        let left: Vec<u64> = (0..3).map(|db| server.engine.count(db).expect("counted")).collect();
        assert_eq!(left, [250; 3]);
        assert_eq!(server.stats.expired_keys(), 2250);
        assert_eq!(expire_slice(&server, &mut buf), Due::None, "nothing is left to do");
        assert_eq!(server.stats.expired_keys(), 2250);
    }

    #[test]
    fn what_is_due_stays_while_nothing_may_expire() {
        let (server, mut buf) = server_with(30, |_| 1);
        server.observe.set_active_expire(false);
        assert_eq!(expire_slice(&server, &mut buf), Due::Stays);
        assert_eq!(server.stats.expired_keys(), 0);
        server.observe.set_active_expire(true);
        assert_eq!(expire_slice(&server, &mut buf), Due::None);
        assert_eq!(server.stats.expired_keys(), 30);
        let late: u64 =
            server.observe.expired_late_ms.counts().iter().map(|(_, count)| count).sum();
        assert_eq!(late, 30, "each with how late it went");
    }

    #[test]
    fn due_fields_go_and_others_stay_until_their_time() {
        let (server, mut buf) = server_with(0, |_| 0);
        let field = |name, due_ms| Field { name, value: b"1", due_ms };
        let later_ms = now_ms() + 1_000_000;
        let hashes: [(&[u8], Vec<Field<'_>>); 3] = [
            (b"some", vec![field(b"a", 1), field(b"b", 0), field(b"c", later_ms)]),
            (b"all", vec![field(b"a", 1), field(b"b", 2)]),
            (b"none", vec![field(b"a", later_ms)]),
        ];
        let slot = server.engine.slot_of(0);
        for (bytes, fields) in &hashes {
            let hash = server.engine.hash(bytes);
            let edit = HashEdit::of_fields(fields.iter().copied(), Encoding::Hashtable);
            let mut tx = server.engine.begin(Latched::Hashes(&[hash]), &mut buf);
            tx.put(Key { slot, bytes, hash }, edit.meta(0), edit.bytes());
            tx.commit();
        }
        while expire_slice(&server, &mut buf) == Due::More {}
        let names = |bytes: &[u8]| {
            let (hash, mut buf) = (server.engine.hash(bytes), TxBuf::default());
            let mut tx = server.engine.begin(Latched::Hashes(&[hash]), &mut buf);
            let names = match tx.find(Key { slot, bytes, hash }) {
                Found::Live(entry) => HashView::of(entry.meta(), entry.value())
                    .map(|hash| hash.iter().map(|(name, _)| name.to_vec()).collect::<Vec<_>>()),
                _ => None,
            };
            tx.commit();
            names
        };
        assert_eq!(names(b"some"), Some(vec![b"b".to_vec(), b"c".to_vec()]));
        assert_eq!((names(b"all"), names(b"none")), (None, Some(vec![b"a".to_vec()])));
        assert_eq!((server.stats.expired_keys(), server.stats.expired_fields()), (0, 3));
    }

    #[test]
    fn a_large_hash_loses_what_is_due_a_piece_at_a_time() {
        let (server, mut buf) = server_with(0, |_| 0);
        let names: Vec<String> = (0..5000).map(|number| format!("field{number}")).collect();
        let due_ms = |number: usize| [1, 0, now_ms() + 1_000_000][number % 3];
        let fields = names.iter().enumerate();
        let fields: Vec<_> = fields
            .map(|(at, name)| Field { name: name.as_bytes(), value: b"1", due_ms: due_ms(at) })
            .collect();
        let edit = HashEdit::of_fields(fields.iter().copied(), Encoding::Hashtable);
        let hash = server.engine.hash(b"h");
        let key = Key { slot: server.engine.slot_of(0), bytes: b"h", hash };
        let mut tx = server.engine.begin(Latched::Hashes(&[hash]), &mut buf);
        crate::keyspace::paged::put(&mut tx, key, edit.meta(0), edit.bytes(), 0);
        tx.commit();
        let mut due = server.engine.due(now_ms(), DUE_BATCH);
        assert_eq!(due.len(), 1);
        assert!(expire(&server, &mut buf, now_ms(), &mut due).left);
        let first = server.stats.expired_fields();
        assert!((16..1000).contains(&first), "{first} fields in one operation");
        while expire_slice(&server, &mut buf) == Due::More {}
        assert_eq!((server.stats.expired_fields(), server.stats.expired_keys()), (1667, 0));
        let mut tx = server.engine.begin(Latched::Hashes(&[hash]), &mut buf);
        let Found::Live(entry) = tx.find(key) else { panic!("the key is gone") };
        let paged = Paged::of_entry(entry).expect("readable").expect("in pages");
        assert_eq!(paged.count(), 3333);
        assert!(entry.meta().due_ms(entry.value()) > now_ms());
        tx.commit();
    }

    #[test]
    fn a_key_that_was_given_more_time_stays() {
        let (server, mut buf) = server_with(64, |_| 1);
        let mut due = server.engine.due(now_ms(), DUE_BATCH);
        assert_eq!(due.len(), 64);
        for item in &due {
            let mut tx = server.engine.begin(Latched::Hashes(&[item.hash]), &mut buf);
            let slot = server.engine.slot_of(item.db);
            tx.put(Key { slot, bytes: &item.key, hash: item.hash }, Meta::default(), b"new");
            tx.commit();
        }
        assert!(expire(&server, &mut buf, now_ms(), &mut due).cold.is_empty());
        assert_eq!((server.stats.expired_keys(), due.len()), (0, 0));
    }
}
