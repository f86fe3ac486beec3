//! Eviction (`maxmemory-policy`): deletes keys when those in memory exceed their part of `maxmemory`.
//! With `noeviction` it does nothing: cold keys are kept on the device.

use super::removed;
use crate::clock::now_ms;
use crate::events::Changes;
use crate::keyspace::{Reason, remove};
use crate::server::Server;
use crate::state::eviction::Pool;
use sexton_config::choice::EvictionPolicy;
use sexton_engine::{Candidate, Found, Key, Latched, TxBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Maximum duration of evicting before a request continues (Redis' `maxmemory-eviction-tenacity 10`).
const SLICE: Duration = Duration::from_micros(500);

/// Keys evicted between two reads of the clock.
const CLOCK_EVERY: u32 = 16;

/// Applies a policy. Takes no latch: [`Engine::apply_memory_bound`](sexton_engine::Engine::apply_memory_bound) must
/// follow.
pub fn set_policy(server: &Server, policy: EvictionPolicy) {
    let eviction = &server.eviction;
    *eviction.wanted.lock() = Some(policy);
    let is_lfu = matches!(policy, EvictionPolicy::AllkeysLfu | EvictionPolicy::VolatileLfu);
    eviction.access.set_lfu(is_lfu);
    server.engine.set_access_now(eviction.access.fresh(now_ms()));
    server.engine.note_evicts_keys(policy != EvictionPolicy::NoEviction);
}

/// Evicts keys while those in memory are above the bound, for at most half a millisecond per request that follows: a
/// long pipeline adds as much as all of its requests. Sets `out_of_memory` if there is nothing to evict:
/// commands that need memory are then refused. Returns true if there was room.
#[inline]
pub fn make_room(server: &Server, buf: &mut TxBuf, requests: usize) -> bool {
    let is_over = server.over_bound();
    let was_short = is_over || server.settings.out_of_memory.load(Ordering::Relaxed);
    if was_short {
        let begun = Instant::now();
        let enough = !is_over || evict_some(server, buf, SLICE * requests.max(1) as u32);
        server.observe.latency.record_since("eviction-cycle", begun);
        server.settings.out_of_memory.store(!enough, Ordering::Relaxed);
    }
    !was_short
}

/// False when there is nothing to evict.
#[cold]
fn evict_some(server: &Server, buf: &mut TxBuf, slice: Duration) -> bool {
    let (engine, eviction) = (&server.engine, &server.eviction);
    if server.sessions.are_writes_paused() || engine.write_refusal().is_some() {
        return true;
    }
    if engine.waits_for_emptied(server.client_memory.bytes()) {
        return true;
    }
    let Some(mut pool) = eviction.pool.try_lock() else { return true };
    if let Some(policy) = eviction.wanted.lock().take() {
        *pool = Pool::of(policy);
    }
    let volatile = pool.is_volatile();
    let samples = eviction.samples.load(Ordering::Relaxed);
    let (begun, now_ms) = (Instant::now(), now_ms());
    for nth in 1.. {
        let Some(key) = pool.choose(engine, &eviction.access, samples, now_ms) else {
            return false;
        };
        evict(server, buf, &key, volatile);
        if !server.over_bound() {
            break;
        }
        if nth % CLOCK_EVERY == 0 && begun.elapsed() > slice {
            break;
        }
    }
    true
}

/// Deletes one key (rule X3), logged as DEL.
fn evict(server: &Server, buf: &mut TxBuf, victim: &Candidate, volatile: bool) {
    let engine = &server.engine;
    let (db, bytes) = (victim.db, victim.key.as_slice());
    let hash = engine.hash(bytes);
    let mut tx = engine.begin(Latched::Hashes(&[hash]), buf);
    let key = Key { slot: engine.slot_of(db), bytes, hash };
    let is_there = match tx.find(key) {
        Found::Live(entry) => !volatile || entry.meta().expire_at_ms != 0,
        Found::Absent | Found::Cold => false,
    };
    let mut changes = Changes::default();
    if is_there && remove(server, (&mut tx, &mut changes), db, key, Reason::Evicted) {
        removed::commit(server, tx, &mut changes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::client::Client;
    use crate::dispatch::{Args, Executor};
    use crate::resp::Reply;
    use sexton_engine::Engine;

    struct Bench {
        server: Server,
        executor: Executor,
        client: Client,
    }

    impl Bench {
        /// A server with this policy, whose keys may take the least there is: 4 MiB.
        fn new(policy: EvictionPolicy) -> Self {
            let engine = Engine::in_memory(16).expect("a store in memory opens");
            engine.set_memory_bound(4 << 20);
            let server = Server::new(engine, 16);
            set_policy(&server, policy);
            let client = Client { authenticated: true, ..Client::default() };
            Self {
                server,
                executor: Executor::new(crate::commands::table::table(), 0, true),
                client,
            }
        }

        fn run(&mut self, words: &[&[u8]]) -> String {
            let (buf, ranges) = crate::resp::pack(words.iter().copied());
            let mut out = Reply::new();
            let args = Args::new(&buf, &ranges);
            self.executor.execute(&self.server, &mut self.client, args, &mut out, now_ms());
            String::from_utf8_lossy(out.bytes()).into_owned()
        }

        /// Writes twice as much as there is room for; answers the first refusal.
        fn fill(&mut self, ttl: Option<&[u8]>) -> Option<String> {
            let value = vec![b'v'; 8 << 10];
            for nth in 0..1024 {
                let key = format!("key:{nth}");
                let mut words: Vec<&[u8]> = vec![b"SET", key.as_bytes(), &value];
                if let Some(ttl) = ttl {
                    words.extend([b"EX".as_slice(), ttl]);
                }
                let reply = self.run(&words);
                if reply != "+OK\r\n" {
                    return Some(reply);
                }
            }
            None
        }

        fn evicted(&self) -> u64 {
            self.server.stats.evicted_keys()
        }
    }

    #[test]
    fn keys_make_room_for_others_and_are_gone() {
        for policy in
            [EvictionPolicy::AllkeysLru, EvictionPolicy::AllkeysLfu, EvictionPolicy::AllkeysRandom]
        {
            let mut bench = Bench::new(policy);
            assert_eq!(bench.fill(None), None);
            // Room is made before it is counted.
            let size = bench.run(&[b"DBSIZE"]);
            let evicted = bench.evicted();
            assert!((400..900).contains(&evicted), "{policy:?}: {evicted} of 1024 keys");
            assert_eq!(size, format!(":{}\r\n", 1024 - evicted));
        }
    }

    #[test]
    fn volatile_policies_take_keys_with_an_expiry_only() {
        for policy in [
            EvictionPolicy::VolatileLru,
            EvictionPolicy::VolatileLfu,
            EvictionPolicy::VolatileRandom,
            EvictionPolicy::VolatileTtl,
        ] {
            let mut bench = Bench::new(policy);
            bench.run(&[b"SET", b"kept", b"1"]);
            assert_eq!(bench.fill(Some(b"1000")), None);
            assert!(bench.evicted() > 400);
            assert_eq!(bench.run(&[b"GET", b"kept"]), "$1\r\n1\r\n");
            bench.run(&[b"FLUSHALL"]);
            let refusal = bench.fill(None).expect("nothing may be evicted");
            assert!(refusal.starts_with("-OOM command not allowed"), "{refusal}");
            assert_eq!(bench.run(&[b"GET", b"kept"]), "$-1\r\n", "reads go on");
        }
    }

    #[test]
    fn the_key_that_expires_soonest_goes_first() {
        let mut bench = Bench::new(EvictionPolicy::VolatileTtl);
        bench.server.eviction.samples.store(64, Ordering::Relaxed);
        bench.run(&[b"SET", b"late", b"1", b"EX", b"100000"]);
        assert_eq!(bench.fill(Some(b"1000")), None);
        assert_eq!(bench.run(&[b"GET", b"late"]), "$1\r\n1\r\n");
    }

    #[test]
    fn noeviction_refuses_only_what_can_never_fit() {
        let mut bench = Bench::new(EvictionPolicy::NoEviction);
        assert_eq!(bench.fill(None), None);
        assert_eq!(bench.evicted(), 0);
        let reply = bench.run(&[b"SET", b"key", &vec![b'v'; (4 << 20) + 1]]);
        assert_eq!(reply, "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    }

    #[test]
    fn frequency_counts_accesses_and_outlives_an_overwrite() {
        let mut bench = Bench::new(EvictionPolicy::AllkeysLfu);
        bench.run(&[b"SET", b"key", b"1"]);
        assert_eq!(bench.run(&[b"OBJECT", b"FREQ", b"key"]), ":5\r\n");
        bench.run(&[b"GET", b"key"]);
        assert_eq!(bench.run(&[b"OBJECT", b"FREQ", b"key"]), ":6\r\n");
        bench.run(&[b"SET", b"key", b"2"]);
        assert_ne!(bench.run(&[b"OBJECT", b"FREQ", b"key"]), ":5\r\n");
        let reply = bench.run(&[b"OBJECT", b"IDLETIME", b"key"]);
        assert!(reply.starts_with("-ERR An LFU maxmemory policy is selected"), "{reply}");
    }
}
