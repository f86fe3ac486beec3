//! Speed and memory of the DRAM table: `dram_bench [keys] [value bytes]`.
//!
//! 64 tables under a mutex each, as in the store; one thread; 16-byte keys in random order.

use parking_lot::Mutex;
use sexton_engine::dram::{Hint, PagePool, Table};
use sexton_engine::key::{self, Key, Meta};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const SHARDS: usize = 64;
const BATCH: usize = 32;

struct Bench {
    shards: Vec<(Arc<Hint>, Mutex<Table>)>,
}

impl Bench {
    fn of(&self, hash: u64) -> &(Arc<Hint>, Mutex<Table>) {
        &self.shards[(hash >> 58) as usize]
    }

    fn put(&self, n: u64, value: &[u8]) {
        let bytes = key_bytes(n);
        let key = Key { slot: 0, bytes: &bytes, hash: key::hash(&bytes) };
        self.of(key.hash).1.lock().upsert(key, Meta::default(), value, 1, 0);
    }

    fn get(&self, bytes: &[u8; 16], hash: u64) -> usize {
        let table = self.of(hash).1.lock();
        let found = table.find(Key { slot: 0, bytes, hash });
        found.map_or(0, |entry| entry.value().iter().step_by(64).map(|&b| usize::from(b)).sum())
    }

    fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.1.lock().bytes()).sum()
    }
}

fn key_bytes(n: u64) -> [u8; 16] {
    let mut bytes = *b"key:000000000000";
    bytes[8..].copy_from_slice(&n.to_le_bytes());
    bytes
}

/// Numbers below `keys` in an order that no cache likes.
fn shuffled(keys: u64, seed: u64) -> impl Iterator<Item = u64> {
    (0..keys).map(move |i| (i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys)
}

/// CPU time of this thread, so that a busy machine does not count; 0 where Linux does not tell.
fn cpu_ns() -> u64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    line.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn timed(what: &str, operations: u64, f: impl FnOnce()) {
    let (start, cpu) = (Instant::now(), cpu_ns());
    f();
    let operations = operations as f64;
    let cpu = (cpu_ns() - cpu) as f64 / operations;
    let wall = start.elapsed().as_nanos() as f64 / operations;
    println!("{what:<22} {cpu:>7.0} ns of CPU {wall:>7.0} ns");
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>().unwrap_or(0));
    let keys = arguments.next().filter(|&n| n > 0).unwrap_or(1_000_000);
    let value = vec![1; arguments.next().unwrap_or(64) as usize];
    let pool = PagePool::new();
    let shards = (0..SHARDS).map(|_| {
        let table = Table::new(Arc::clone(&pool));
        (table.hint(), Mutex::new(table))
    });
    let bench = Bench { shards: shards.collect() };
    timed("insert", keys, || (0..keys).for_each(|n| bench.put(n, &value)));
    println!("{:<22} {:>7.1} bytes", "per key", bench.bytes() as f64 / keys as f64);
    timed("get", keys, || {
        for n in shuffled(keys, 1) {
            let bytes = key_bytes(n);
            black_box(bench.get(&bytes, key::hash(&bytes)));
        }
    });
    timed("get, batches of 32", keys, || {
        let mut batch = Vec::with_capacity(BATCH);
        for n in shuffled(keys, 2) {
            let bytes = key_bytes(n);
            let hash = key::hash(&bytes);
            bench.of(hash).0.prefetch_bucket(hash);
            batch.push((bytes, hash));
            if batch.len() == BATCH {
                batch.iter().for_each(|&(_, hash)| bench.of(hash).0.prefetch_entry(hash, 100));
                for (bytes, hash) in batch.drain(..) {
                    black_box(bench.get(&bytes, hash));
                }
            }
        }
    });
    timed("get, miss", keys, || {
        for n in shuffled(keys, 3) {
            let bytes = key_bytes(n + keys);
            black_box(bench.get(&bytes, key::hash(&bytes)));
        }
    });
    timed("update", keys, || shuffled(keys, 4).for_each(|n| bench.put(n, &value)));
    let bound = bench.bytes() / SHARDS;
    timed("insert and evict", keys, || {
        for n in 0..keys {
            bench.put(n + keys, &value);
            let hash = key::hash(&key_bytes(n + keys));
            let mut table = bench.of(hash).1.lock();
            let held = table.bytes();
            if held > bound {
                table.evict(held - bound, &mut |_| true);
            }
        }
    });
    println!("{:<22} {:>7.1} MB", "bound", (bound * SHARDS) as f64 / 1e6);
    println!("{:<22} {:>7.1} MB", "held", bench.bytes() as f64 / 1e6);
}
