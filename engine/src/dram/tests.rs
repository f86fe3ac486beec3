use super::{Located, PagePool, Replaced, Table};
use crate::key::{self, Key, Meta, Slot};
use crate::shared_value::{SharedValue, Value};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }
}

pub(super) fn key(slot: Slot, bytes: &[u8]) -> Key<'_> {
    Key { slot, bytes, hash: key::hash(bytes) }
}

pub(super) fn put(table: &mut Table, bytes: &[u8], value: &[u8]) {
    table.upsert(key(0, bytes), Meta::default(), value, 1, 0);
}

#[derive(Clone, Debug, PartialEq)]
struct Item {
    meta: Meta,
    value: Vec<u8>,
    generation: u8,
    access: u32,
}

type Model = HashMap<(Slot, Vec<u8>), Item>;

fn assert_same(table: &Table, model: &Model) {
    assert_eq!(table.len(), model.len());
    for ((slot, bytes), item) in model {
        let entry = table.find(key(*slot, bytes)).expect("an entry of the model");
        assert_eq!((entry.slot(), entry.key()), (*slot, bytes.as_slice()));
        assert_eq!(entry.meta(), item.meta);
        assert_eq!(entry.value(), item.value);
        assert_eq!((entry.generation(), entry.access()), (item.generation, item.access));
    }
    table.dues.assert_whole();
    let due = model.values().filter(|item| item.meta.due_ms(&item.value) != 0).count();
    assert_eq!(table.dues.len(), due, "one item for each entry that is due one day");
}

/// Key `n`: most short, some with lengths around and above what a length byte holds.
fn key_bytes(n: u64) -> Vec<u8> {
    let mut bytes = format!("{n}").into_bytes();
    match n % 64 {
        0 => bytes.resize(254 + n as usize % 3, b'k'),
        1 => bytes.resize(5000, b'k'),
        _ => {}
    }
    bytes
}

fn value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(100) {
        0 => 20_000 + random.below(50_000),
        1..6 => 3000 + random.below(3000),
        6..30 => 200 + random.below(400),
        30..35 => 253 + random.below(5),
        _ => random.below(40),
    };
    vec![random.next() as u8; len as usize]
}

fn meta(random: &mut Random) -> Meta {
    let expire_at_ms = if random.below(3) == 0 { 1 + random.next() / 2 } else { 0 };
    Meta { flags: random.below(32) as u8, expire_at_ms }
}

/// The value that a write has found.
fn value_of<'a>(replaced: &'a Replaced<'_>) -> Option<&'a [u8]> {
    match replaced {
        Replaced::Nothing => None,
        Replaced::Entry(entry) => Some(entry.value()),
        Replaced::Block(block) => Some(block.value()),
    }
}

fn model_run(seed: u64, operations: u64) {
    let mut random = Random(seed);
    let mut table = Table::new(PagePool::new());
    let mut model = Model::new();
    let mut shared: Vec<SharedValue> = Vec::new();
    // Where keys were found once: right while it stands.
    let mut places: HashMap<(Slot, Vec<u8>), Located> = HashMap::new();
    // The key space grows and shrinks, so that the table does.
    for phase in 0..6 {
        let deletes = if phase % 2 == 0 { 10 } else { 70 };
        for _ in 0..operations / 6 {
            let (slot, bytes) = (random.below(3) as Slot, key_bytes(random.below(6000)));
            let k = key(slot, &bytes);
            let own = (slot, bytes.clone());
            let seen = places.get(&own).copied();
            let is_shown = |at: Located| table.find_at(at, slot, &bytes).is_some();
            assert!(seen.is_none_or(|at| !table.stands(at) || is_shown(at)));
            places.extend(table.locate(k).map(|at| (own.clone(), at)));
            match random.below(100) {
                n if n < deletes => {
                    let mut kept = None;
                    let keep = |replaced: Replaced<'_>| {
                        kept = value_of(&replaced).map(<[u8]>::to_vec);
                    };
                    let removed = table.remove_keeping(k, keep).map(|removed| removed.had_expiry);
                    assert_eq!(kept.as_ref(), model.get(&own).map(|item| &item.value));
                    let had = model.remove(&own).map(|item| item.meta.expire_at_ms != 0);
                    assert_eq!(removed, had);
                }
                n if n < deletes + 5 => {
                    let (meta, generation) = (meta(&mut random), random.next() as u8);
                    let item = model.get_mut(&own);
                    assert_eq!(table.set_meta((k, seen), meta, generation), item.is_some());
                    if let Some(item) = item {
                        (item.meta, item.generation) = (meta, generation);
                    }
                }
                n if n < deletes + 8 => {
                    let access = random.next() as u32 & 0xff_ffff;
                    table.set_access(k, access);
                    if let Some(item) = model.get_mut(&own) {
                        item.access = access;
                    }
                }
                _ => {
                    let item = Item {
                        meta: meta(&mut random),
                        value: value(&mut random),
                        generation: random.next() as u8,
                        access: random.next() as u32 & 0xff_ffff,
                    };
                    let (meta, generation, access) = (item.meta, item.generation, item.access);
                    let done = if random.below(4) == 0 {
                        let value = SharedValue::new(&item.value);
                        shared.push(value.clone());
                        let value = Value::Shared(&value);
                        table.upsert_value(k, meta, value, generation, access)
                    } else if random.below(2) == 0 {
                        table.upsert(k, meta, &item.value, generation, access)
                    } else {
                        let old = model.get(&own);
                        let value = Value::Copied(&item.value);
                        table.upsert_keeping(
                            (k, seen),
                            meta,
                            value,
                            (generation, access),
                            |replaced| {
                                assert_eq!(value_of(&replaced), old.map(|item| &item.value[..]));
                            },
                        )
                    };
                    let before = model.insert(own, item);
                    assert_eq!(done.existed, before.is_some());
                    let was_expiring = before.is_some_and(|item| item.meta.expire_at_ms != 0);
                    assert_eq!(done.was_expiring, was_expiring);
                }
            }
            if random.below(1000) == 0 {
                let may = |e: &super::EntryRef<'_>| e.generation().is_multiple_of(4);
                let mut gone = Vec::new();
                let evicted = table.evict(random.below(100_000) as usize, &mut |entry| {
                    if may(entry) {
                        gone.push((entry.slot(), entry.key().to_vec()));
                    }
                    may(entry)
                });
                assert!(evicted.entries <= gone.len());
                let before = model.len();
                for own in gone {
                    if table.find(key(own.0, &own.1)).is_none() {
                        model.remove(&own);
                    }
                }
                assert_eq!(before - model.len(), evicted.entries);
            }
        }
        assert_same(&table, &model);
        let mut dead = [false; 256];
        dead[2] = true;
        while !table.sweep_slots(&dead, 100) {}
        model.retain(|(slot, _), _| *slot != 2);
        assert_same(&table, &model);
        shared.retain(|value| value.holders() > 1);
        let bytes: usize = shared.iter().map(|value| value.bytes().len()).sum();
        assert_eq!(table.shared_bytes(), bytes, "of the values that entries still refer to");
    }
    let keys: Vec<_> = model.keys().cloned().collect();
    for (slot, bytes) in keys {
        assert!(table.remove(key(slot, &bytes)).is_some());
    }
    assert!(table.is_empty());
    assert_eq!(table.slab.bytes(), 0, "every page and block was given back");
    assert_eq!(table.due_bytes(), 0, "no due time outlives its key");
    assert!(shared.iter().all(|value| value.holders() == 1), "and every shared value");
}

#[test]
fn a_large_value_that_is_held_stays_as_it_was() {
    let mut table = Table::new(PagePool::new());
    let value = |number: u8| vec![number; 20_000];
    let find = |table: &Table| table.find(key(0, b"k")).map(|entry| entry.value().as_ptr());
    let hold = |table: &Table| table.find(key(0, b"k")).and_then(|entry| entry.large_value());
    put(&mut table, b"k", &value(1));
    let (place, bytes) = (find(&table), table.bytes());
    put(&mut table, b"k", &value(2));
    assert_eq!(find(&table), place, "nobody holds it: its place is taken");
    let second = hold(&table).expect("a large one");
    put(&mut table, b"k", &value(3));
    assert_ne!(find(&table), place);
    assert_eq!((second.bytes(), table.bytes()), (&*value(2), bytes), "the table counts its own");
    let third = [hold(&table), hold(&table)];
    assert!(table.remove(key(0, b"k")).is_some());
    put(&mut table, b"k", &[4; 10]);
    assert!(hold(&table).is_none(), "a short one lies in a page with others");
    let mut kept = None;
    put(&mut table, b"l", &value(5));
    let displaced = |replaced: Replaced<'_>| match replaced {
        Replaced::Block(block) => kept = Some(block),
        _ => panic!("a large entry goes with its block"),
    };
    table.remove_keeping(key(0, b"l"), displaced);
    drop(table);
    assert_eq!(kept.expect("was there").value(), value(5));
    assert_eq!(second.bytes(), value(2));
    assert!(third.iter().flatten().all(|third| third.bytes() == value(3)));
}

#[test]
fn a_table_that_ends_gives_shared_values_up() {
    let value = SharedValue::new(&[7; 1000]);
    let mut table = Table::new(PagePool::new());
    // Entries in pages and large ones.
    for key_bytes in [1_usize, 10, 300, 5000] {
        for n in 0..100_u8 {
            let bytes = vec![n; key_bytes];
            table.upsert_value(key(0, &bytes), Meta::default(), Value::Shared(&value), 1, 0);
        }
    }
    assert_eq!((value.holders(), table.shared_bytes()), (401, 400_000));
    let with_expiry = Meta { flags: 3, expire_at_ms: 1 };
    assert!(table.set_meta((key(0, b"\x01"), None), with_expiry, 2), "moves to a longer entry");
    assert_eq!((value.holders(), table.shared_bytes()), (401, 400_000));
    assert_eq!(table.find(key(0, b"\x01")).expect("an entry").value(), value.bytes());
    drop(table);
    assert_eq!(value.holders(), 1);
}

#[test]
fn table_does_what_a_map_does() {
    for seed in 1..4 {
        model_run(seed, 60_000);
    }
}

#[test]
fn what_goes_at_once_leaves_the_rest_and_gives_its_memory_back() {
    // So many that the table is being doubled.
    for count in [40_u64, 3_000, 56_000] {
        let mut table = Table::new(PagePool::new());
        for n in 0..count {
            let meta = Meta { flags: 0, expire_at_ms: u64::from(n % 100 == 0) };
            table.upsert(key(0, &n.to_le_bytes()), meta, &[n as u8; 100], 1, 0);
        }
        let full = table.bytes();
        table.remove_where(|entry| entry.meta().expire_at_ms == 0);
        for n in 0..count {
            let found = table.find(key(0, &n.to_le_bytes())).map(|entry| entry.value()[0]);
            assert_eq!(found, (n % 100 == 0).then_some(n as u8), "{n} of {count}");
        }
        assert_eq!(table.len() as u64, count.div_ceil(100));
        table.remove_where(|_| true);
        assert_eq!((table.len(), table.slab.bytes()), (0, 0), "{full} were held");
    }
}

#[test]
fn resizes_keep_everything_and_end() {
    let mut table = Table::new(PagePool::new());
    let keys: Vec<_> = (0..100_000_u64).map(|n| n.to_le_bytes()).collect();
    for (n, bytes) in keys.iter().enumerate() {
        put(&mut table, bytes, &(n as u32).to_le_bytes());
        let probe = n / 2;
        let found = table.find(key(0, &keys[probe])).expect("an earlier key");
        assert_eq!(found.value(), (probe as u32).to_le_bytes());
    }
    let grown = table.bytes();
    for bytes in &keys[100..] {
        assert!(table.remove(key(0, bytes)).is_some());
    }
    assert!(table.find(key(0, &keys[100])).is_none());
    for bytes in &keys[..100] {
        assert!(table.find(key(0, bytes)).is_some());
    }
    // More than a hundredth would be a page a key: sparse pages were evacuated.
    assert!(table.bytes() < grown / 50, "{} of {grown}", table.bytes());
}

#[test]
fn an_entry_is_due_with_the_first_of_its_elements_whatever_happens_to_its_expiry() {
    let mut table = Table::new(PagePool::new());
    let key = key(0, b"hash");
    let put = |table: &mut Table, expire_at_ms: u64, elements_ms: u64| {
        let value = [&[1; 6][..], &elements_ms.to_le_bytes(), &[2; 100]].concat();
        let meta = Meta { flags: Meta::DUE_ELEMENTS, expire_at_ms };
        let upsert = table.upsert(key, meta, &value, 1, 0);
        assert_eq!(table.find(key).map(|entry| entry.meta()), Some(meta));
        upsert
    };
    assert!(!put(&mut table, 0, 50).was_expiring);
    assert!(table.pop_due(49).is_none());
    assert!(table.pop_due(50).is_some() && table.pop_due(50).is_none(), "handed out once");
    // The taker has removed what was due.
    assert!(!put(&mut table, 0, 60).was_expiring, "its key has no expiry");
    let with_expiry = Meta { flags: Meta::DUE_ELEMENTS, expire_at_ms: 55 };
    assert!(table.set_meta((key, None), with_expiry, 1));
    table.dues.assert_whole();
    assert_eq!(table.dues.len(), 1);
    let mut sampled = 0;
    table.sample_expiring(0, 10, |_| {
        sampled += 1;
        true
    });
    assert!(sampled > 0);
    assert!(table.pop_due(54).is_none() && table.pop_due(55).is_some());
    assert!(put(&mut table, 100, 60).was_expiring);
    assert!(table.set_meta((key, None), Meta { expire_at_ms: 0, ..with_expiry }, 1));
    table.sample_expiring(0, 10, |_| panic!("its key has no expiry"));
    assert!(table.pop_due(59).is_none() && table.pop_due(60).is_some());
    // As a value without such elements it is never due.
    table.upsert(key, Meta { flags: 4, expire_at_ms: 0 }, &[0xff; 100], 1, 0);
    assert!(table.dues.len() == 0 && table.pop_due(u64::MAX).is_none());
    assert_eq!(table.remove(key).map(|removed| removed.had_expiry), Some(false));
}

#[test]
fn due_entries_come_in_order_once_and_only_at_their_last_time() {
    let mut random = Random(11);
    let mut table = Table::new(PagePool::new());
    let mut due = HashMap::new();
    for _ in 0..20_000 {
        let bytes = random.below(3000).to_le_bytes();
        let at_ms = random.below(5000);
        match random.below(4) {
            0 => drop(table.remove(key(0, &bytes))),
            1 => drop(table.set_meta(
                (key(0, &bytes), None),
                Meta { flags: 0, expire_at_ms: at_ms },
                1,
            )),
            _ => {
                let value = vec![0; random.below(100) as usize];
                table.upsert(key(0, &bytes), Meta { flags: 0, expire_at_ms: at_ms }, &value, 1, 0);
            }
        }
        match table.find(key(0, &bytes)).map(|entry| entry.meta().expire_at_ms) {
            None | Some(0) => due.remove(&bytes),
            Some(at_ms) => due.insert(bytes, at_ms),
        };
    }
    table.dues.assert_whole();
    let before = due.values().filter(|at_ms| **at_ms <= 2000).count();
    let (mut popped, mut last_ms) = (0, 0);
    for now_ms in [2000, 4999] {
        while let Some(entry) = table.pop_due(now_ms) {
            let (bytes, at_ms) = (entry.key().to_vec(), entry.meta().expire_at_ms);
            assert!(last_ms <= at_ms && at_ms <= now_ms, "in order, and none too early");
            let expected = due.remove(bytes.as_slice());
            assert_eq!(expected, Some(at_ms), "once, and at the time that it was given last");
            (popped, last_ms) = (popped + 1, at_ms);
        }
        assert!(now_ms > 2000 || popped == before, "{popped} of {before}");
    }
    assert!(due.is_empty() && !table.is_empty());
    // What was handed out gets an item again with its next expiry, whether or not that is another one.
    let handed_out = table.len();
    for number in 0..3000_u64 {
        table.set_meta(
            (key(0, &number.to_le_bytes()), None),
            Meta { flags: 0, expire_at_ms: 7 },
            1,
        );
    }
    assert_eq!(table.dues.len(), handed_out);
    table.dues.assert_whole();
}

#[test]
fn find_hash_shows_the_same_key_of_every_slot() {
    let mut table = Table::new(PagePool::new());
    for slot in [1, 5, 9] {
        table.upsert(key(slot, b"same"), Meta::default(), b"", 1, 0);
    }
    put(&mut table, b"other", b"");
    let mut slots = Vec::new();
    table.find_hash(key::hash(b"same"), |entry| {
        if entry.key() == b"same" {
            slots.push(entry.slot());
        }
    });
    slots.sort_unstable();
    assert_eq!(slots, [1, 5, 9]);
}

#[test]
fn samples_reach_every_entry() {
    let mut table = Table::new(PagePool::new());
    for n in 0..2000_u64 {
        put(&mut table, &n.to_le_bytes(), b"");
    }
    let mut random = Random(7);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..6000 {
        let mut shown = 0;
        table.sample(random.next(), 5, |entry| {
            shown += 1;
            seen.insert(entry.key().to_vec());
        });
        assert_eq!(shown, 5);
    }
    assert!(seen.len() > 1950, "{} of 2000", seen.len());
}

#[test]
fn hints_may_be_used_while_the_table_changes() {
    let mut table = Table::new(PagePool::new());
    let hint = table.hint();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let hinting = scope.spawn(|| {
            let mut asked = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let hash = key::hash(&(asked % 50_000).to_le_bytes());
                hint.prefetch_bucket(hash);
                hint.prefetch_entry(hash, 100);
                asked += 1;
            }
            asked
        });
        for _ in 0..4 {
            for n in 0..50_000_u64 {
                put(&mut table, &n.to_le_bytes(), b"value");
            }
            for n in 0..50_000_u64 {
                table.remove(key(0, &n.to_le_bytes()));
            }
        }
        drop(table);
        stop.store(true, Ordering::Relaxed);
        assert!(hinting.join().expect("no panic") > 0);
    });
}

#[test]
fn bytes_per_key_are_bounded() {
    for (value_len, bound) in [(8, 49), (64, 107), (1024, 1095)] {
        let pool = PagePool::new();
        // The share of one of 64 shards in 10 million keys.
        let mut table = Table::new(pool);
        let value = vec![1; value_len];
        for n in 0..156_250_u64 {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&n.to_le_bytes());
            put(&mut table, &bytes, &value);
        }
        let per_key = table.bytes() as f64 / table.len() as f64;
        assert!(per_key <= f64::from(bound), "16 + {value_len}: {per_key:.1} bytes a key");
    }
}

#[test]
fn eviction_takes_only_what_it_may_and_lowers_the_bytes() {
    let mut table = Table::new(PagePool::new());
    for n in 0..50_000_u64 {
        let generation = if n % 5 == 0 { 9 } else { 1 };
        table.upsert(key(0, &n.to_le_bytes()), Meta::default(), &[7; 100], generation, 0);
    }
    let nothing = table.evict(1 << 20, &mut |_| false);
    assert_eq!((nothing.entries, table.len()), (0, 50_000));
    let (held, target) = (table.bytes(), table.bytes() / 2);
    let mut freed = 0;
    for _ in 0..20 {
        freed += table.evict(target.saturating_sub(freed), &mut |e| e.generation() == 1).bytes;
    }
    assert!(freed >= target, "{freed} of {target}");
    assert_eq!(table.bytes(), held - freed);
    for n in (0..50_000_u64).step_by(5) {
        assert!(table.find(key(0, &n.to_le_bytes())).is_some(), "pinned {n}");
    }
    for _ in 0..50 {
        table.evict(usize::MAX, &mut |e| e.generation() == 1);
    }
    assert_eq!(table.len(), 10_000, "all that may go has gone");
}

#[test]
fn used_entries_stay_longer() {
    let mut table = Table::new(PagePool::new());
    let hot = |n: u64| n % 10 == 3;
    for n in 0..20_000_u64 {
        put(&mut table, &n.to_le_bytes(), &[1; 50]);
    }
    for n in (0..20_000).filter(|&n| hot(n)) {
        assert!(table.find(key(0, &u64::to_le_bytes(n))).is_some());
    }
    let target = table.slab.bytes() / 2;
    let mut freed = 0;
    while freed < target {
        freed += table.evict(target - freed, &mut |_| true).bytes;
    }
    let mut hot_left = 0;
    for n in (0..20_000).filter(|&n| hot(n)) {
        hot_left += usize::from(table.find(key(0, &u64::to_le_bytes(n))).is_some());
    }
    assert!(table.len() < 12_000);
    assert!(hot_left > 1900, "{hot_left} of 2000 used ones");
}

/// The values change from small to large while a bound holds: pages of the small class must come
/// back, or the large ones would find no room.
#[test]
fn a_change_of_value_sizes_does_not_calcify_the_table() {
    const BOUND: usize = 8 << 20;
    let mut table = Table::new(PagePool::new());
    let mut calls_over = 0;
    let mut highest = 0;
    for (round, len) in [20_usize, 3000, 200, 60_000, 20, 900].into_iter().enumerate() {
        let mut stored = 0;
        let mut n = 0;
        while stored < 4 * BOUND {
            let bytes = (round as u64, n);
            let bytes = [bytes.0.to_le_bytes(), u64::to_le_bytes(bytes.1)].concat();
            put(&mut table, &bytes, &vec![1; len]);
            stored += len + 24;
            n += 1;
            if table.bytes() > BOUND {
                calls_over += 1;
                table.evict(table.bytes() - BOUND, &mut |_| true);
            }
            // While the buckets are doubled, both arrays are held: up to 1 MB here.
            highest = highest.max(table.bytes());
        }
        let in_pages = table.slab.pages().iter().flat_map(|&page| table.slab.entries(page));
        let held: usize = in_pages.map(|e| e.len()).sum::<usize>()
            + table.slab.large_entries().iter().map(|e| e.len()).sum::<usize>();
        assert!(held > BOUND / 4, "round {round}: {held} bytes of entries in {BOUND}");
    }
    assert!(calls_over > 100);
    assert!(highest <= BOUND + BOUND / 8, "{highest} with a bound of {BOUND}");
}

#[test]
fn pages_serve_other_shards_and_sizes() {
    let pool = PagePool::new();
    let mut first = Table::new(std::sync::Arc::clone(&pool));
    let mut second = Table::new(std::sync::Arc::clone(&pool));
    for n in 0..40_000_u64 {
        put(&mut first, &n.to_le_bytes(), &[1; 80]);
    }
    let chunks = pool.chunks();
    for n in 0..40_000_u64 {
        first.remove(key(0, &n.to_le_bytes()));
    }
    for n in 0..2000_u64 {
        put(&mut second, &n.to_le_bytes(), &[1; 1500]);
    }
    assert_eq!(pool.chunks(), chunks);
    drop((first, second));
    assert_eq!(pool.idle_bytes(), 4 << 20, "what is idle beyond that has no memory");
    for (bound, kept) in [(128 << 20, 1 << 20), (16 << 20, 128 << 10), (4 << 30, 4 << 20)] {
        let pool = PagePool::new();
        pool.set_bound(bound);
        let mut table = Table::new(std::sync::Arc::clone(&pool));
        for n in 0..80_000_u64 {
            put(&mut table, &n.to_le_bytes(), &[1; 80]);
        }
        drop(table);
        assert_eq!(pool.idle_bytes(), kept, "under a bound of {bound}");
    }
}

#[test]
fn eviction_that_finds_nothing_soon_looks_at_little() {
    let mut table = Table::new(PagePool::new());
    for n in 0..50_000_u64 {
        put(&mut table, &n.to_le_bytes(), b"pinned");
    }
    let mut asked = 0;
    for _ in 0..20 {
        asked = 0;
        let evicted = table.evict(1, &mut |_| {
            asked += 1;
            false
        });
        assert_eq!(evicted, super::Evicted::default());
        assert!(asked < 10_000);
    }
    assert!(asked < 1000, "{asked} entries asked about in the last call");
    assert!(table.evict(1, &mut |_| true).bytes > 0);
}

/// Shares so small that every page counts, and entries of all sizes: classes must share pages.
#[test]
fn small_bounds_are_kept_and_used_with_mixed_sizes() {
    for (bound, used_percent) in [(128 << 10, 14), (256 << 10, 30), (1 << 20, 55)] {
        let mut random = Random(11);
        let mut table = Table::new(PagePool::new());
        let (mut worst, mut held) = (0, 0);
        for n in 0..30_000_u64 {
            let len = if random.below(8) == 0 { random.below(3000) } else { random.below(200) };
            put(&mut table, &n.to_le_bytes(), &vec![1; len as usize]);
            if table.bytes() > bound {
                table.evict(table.bytes() - bound, &mut |_| true);
            }
            worst = worst.max(table.bytes());
            if n >= 20_000 && n % 100 == 0 {
                let pages = table.slab.pages().iter();
                held += pages.flat_map(|&p| table.slab.entries(p)).map(|e| e.len()).sum::<usize>();
            }
        }
        assert!(worst <= bound + (36 << 10), "{worst} bytes with a bound of {bound}");
        // 100 samples: the sum is in percent.
        assert!(held >= used_percent * bound, "{} percent of {bound}", held / bound);
    }
}

#[test]
fn entries_in_use_go_when_there_are_no_others() {
    for len in [50, 50_000] {
        let mut table = Table::new(PagePool::new());
        for n in 0..20_u64 {
            put(&mut table, &n.to_le_bytes(), &vec![1; len]);
        }
        for n in (0..20_u64).cycle().take(200) {
            assert!(table.find(key(0, &n.to_le_bytes())).is_some());
        }
        assert!(table.evict(1, &mut |_| true).entries > 0, "values of {len}");
    }
}
