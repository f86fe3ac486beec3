//! Tests of arena, records and runs together.

use super::arena::REST_LOOKS;
use super::*;
use crate::key::Meta;
use crate::source::Source;

struct Writer {
    memtable: Arc<Memtable>,
    cursor: Cursor,
    seq: Seq,
}

impl Writer {
    fn new(pool: &Arc<ChunkPool>) -> Self {
        let memtable = Memtable::new(Arc::clone(pool), MemtableKind::Hash, 1, 1);
        Self { memtable, cursor: Cursor::default(), seq: 0 }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.seq += 1;
        let len = encoded_len(key.len(), value.len());
        let mut room = self.memtable.arena().reserve(&mut self.cursor, len);
        let meta = Meta { flags: 3, expire_at_ms: self.seq };
        encode(room.bytes(), self.seq, meta, (key, b""), value);
    }

    fn mark(&self) -> Mark {
        self.memtable.arena().mark(&self.cursor)
    }

    fn sorted(&self) -> Run {
        Run::sort(Arc::clone(&self.memtable), Mark::default(), self.mark())
    }
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn run_is_in_key_order_with_the_newest_first() {
    let pool = ChunkPool::new(8 << 20, false);
    let mut writer = Writer::new(&pool);
    let mut model = Vec::new();
    let mut state = 0x1234_5678_9abc_def1;
    for i in 0..20_000_u64 {
        let len = random(&mut state) % 12;
        let mut key = b"shared/".to_vec();
        key.extend((0..len).map(|_| (random(&mut state) % 3) as u8));
        let value = vec![i as u8; (random(&mut state) % 300) as usize];
        writer.put(&key, &value);
        model.push((key, i + 1, value));
    }
    model.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    let run = writer.sorted();
    assert_eq!(run.len(), model.len());
    for (i, (key, seq, value)) in model.iter().enumerate() {
        let record = run.record(i);
        assert_eq!((record.key, record.seq, record.value()), (&key[..], *seq, &value[..]));
        assert_eq!(record.meta, Meta { flags: 3, expire_at_ms: *seq });
    }
    let (key, newest, _) = &model[0];
    assert_eq!(run.get(key, Seq::MAX).map(|r| r.seq), Some(*newest));
    let oldest = model.iter().filter(|v| v.0 == *key).map(|v| v.1).min().expect("at least one");
    assert_eq!(run.get(key, oldest).map(|r| r.seq), Some(oldest));
    assert!(run.get(key, oldest - 1).is_none());
    assert!(run.get(b"shared", Seq::MAX).is_none());
}

#[test]
fn keys_that_differ_by_trailing_zeros_are_told_apart() {
    let pool = ChunkPool::new(1 << 20, false);
    let mut writer = Writer::new(&pool);
    for key in [b"a\0\0".as_slice(), b"a", b"a\0", b""] {
        writer.put(key, key);
    }
    let run = writer.sorted();
    let keys: Vec<&[u8]> = (0..run.len()).map(|i| run.record(i).key).collect();
    assert_eq!(keys, [b"".as_slice(), b"a", b"a\0", b"a\0\0"]);
}

#[test]
fn many_keys_that_differ_late_are_in_order_with_the_newest_first() {
    let pool = ChunkPool::new(8 << 20, false);
    let mut writer = Writer::new(&pool);
    let mut model = Vec::new();
    let mut state = 0x1234_5678_9abc_def1;
    // Beside each other: one key again and again, pages that differ behind twenty bytes, keys that are prefixes of others, zeros at
    // their ends, and keys that differ so late that they are compared.
    for i in 0..20_000_u64 {
        let drawn = random(&mut state);
        let mut key = match drawn % 4 {
            0 => b"root".to_vec(),
            1 => {
                [b"page of a collection".as_slice(), &(drawn >> 32 & 0x3ff).to_be_bytes()].concat()
            }
            2 => vec![0; (drawn >> 32) as usize % 40],
            _ => [vec![b'x'; 400], vec![(drawn >> 32 & 7) as u8]].concat(),
        };
        key.insert(0, b'k');
        writer.put(&key, b"value");
        model.push((key, i + 1));
    }
    model.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    let run = writer.sorted();
    assert_eq!(run.len(), model.len());
    for (index, (key, seq)) in model.iter().enumerate() {
        let record = run.record(index);
        assert_eq!((record.key, record.seq), (key.as_slice(), *seq), "record {index}");
    }
}

#[test]
fn large_records_get_a_chunk_of_their_own_and_order_still_holds() {
    let pool = ChunkPool::new(1 << 20, false);
    let mut writer = Writer::new(&pool);
    let large = vec![7; 3 << 20];
    writer.put(b"b", &large);
    writer.put(b"a", b"small");
    writer.put(b"c", &large);
    let run = writer.sorted();
    assert_eq!(run.record(0).key, b"a");
    assert_eq!(run.record(2).value().len(), large.len());
    assert!(pool.held_bytes() >= 2 * large.len() as u64);
}

#[test]
fn dropped_arena_gives_its_chunks_to_the_next() {
    let pool = ChunkPool::new(4 << 20, false);
    let mut writer = Writer::new(&pool);
    for _ in 0..3000 {
        writer.put(b"key", &[1; 1000]);
    }
    let held = pool.held_bytes();
    drop(writer);
    let mut writer = Writer::new(&pool);
    for _ in 0..3000 {
        writer.put(b"key", &[2; 1000]);
    }
    assert_eq!(pool.held_bytes(), held, "no fresh memory was taken");
    assert_eq!(writer.sorted().record(0).value(), [2; 1000]);
}

#[test]
fn ordered_through_sorts_only_what_is_new_and_misses_nothing() {
    let pool = ChunkPool::new(4 << 20, false);
    let mut writer = Writer::new(&pool);
    for round in 0..30_u8 {
        for i in 0..100_u8 {
            writer.put(&[i, round], &[round; 500]);
        }
        let runs = writer.memtable.ordered_through(writer.mark());
        let records: usize = runs.iter().map(|run| run.len()).sum();
        assert_eq!(records, 100 * (usize::from(round) + 1));
        let falls = |pair: &[Arc<Run>]| pair[0].len() > RUN_RATIO * pair[1].len();
        assert!(runs.windows(2).all(falls));
    }
    let again = writer.memtable.ordered_through(writer.mark());
    let before = again.len();
    assert_eq!(writer.memtable.ordered_through(writer.mark()).len(), before);
}

#[test]
fn a_memtable_that_was_scanned_goes_with_its_last_reader() {
    let pool = ChunkPool::new(4 << 20, false);
    let mut writer = Writer::new(&pool);
    writer.put(b"key", b"value");
    let runs = writer.memtable.ordered_through(writer.mark());
    let memtable = Arc::downgrade(&writer.memtable);
    drop(writer);
    assert_eq!(runs[0].record(0).value(), b"value", "a scan in progress keeps it");
    drop(runs);
    assert!(memtable.upgrade().is_none());
}

#[test]
fn a_scan_after_every_write_does_not_sort_everything_every_time() {
    let pool = ChunkPool::new(4 << 20, false);
    let mut writer = Writer::new(&pool);
    let (mut sorted, mut oldest) = (0, 0);
    const WRITES: usize = 4096;
    for i in 0..WRITES {
        writer.put(&(i as u32).to_be_bytes(), b"value");
        let runs = writer.memtable.ordered_through(writer.mark());
        let first = runs.first().map_or(0, |run| run.len());
        if first != oldest {
            sorted += first;
            oldest = first;
        }
    }
    // All runs grow in steps, the oldest by a quarter or more each: the sum of its lengths is a few times
    // the last one.
    assert!(sorted < 8 * WRITES, "the oldest run was sorted with {sorted} records in all");
}

/// A memtable with a skip list, filled by several threads as the store does: room is reserved under one
/// mutex, records are written and linked outside it.
struct Linked {
    memtable: Arc<Memtable>,
    reserve: Mutex<(Cursor, Seq)>,
}

impl Linked {
    fn new(pool: &Arc<ChunkPool>) -> Self {
        let memtable = Memtable::new(Arc::clone(pool), MemtableKind::SkipList, 1, 1);
        Self { memtable, reserve: Mutex::default() }
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Seq {
        let mut record = vec![0; encoded_len(key.len(), value.len())];
        encode(&mut record, 0, Meta::default(), (key, b""), value);
        let height = random_height();
        let len = record.len() + height * LINK_BYTES;
        let (room, seq) = {
            let mut reserve = self.reserve.lock();
            reserve.1 += 1;
            (self.memtable.arena().reserve(&mut reserve.0, len), reserve.1)
        };
        stamp(&mut record, seq);
        self.memtable.link(room, &record, height);
        seq
    }
}

#[test]
fn a_skip_list_is_in_order_whatever_order_its_records_came_in() {
    let pool = ChunkPool::new(8 << 20, false);
    for ascending in [true, false] {
        let linked = Linked::new(&pool);
        let all: Mutex<Vec<(Vec<u8>, std::cmp::Reverse<Seq>)>> = Mutex::default();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (linked, all) = (&linked, &all);
                scope.spawn(move || {
                    let mut state = 0x9e37_79b9 * (thread + 1);
                    for i in 0..4_000_u64 {
                        let number = if ascending { i } else { random(&mut state) % 1_000 };
                        let key = format!("key{number:06}").into_bytes();
                        let seq = linked.put(&key, &number.to_le_bytes());
                        all.lock().push((key, std::cmp::Reverse(seq)));
                    }
                });
            }
        });
        let mut want = all.into_inner();
        want.sort_unstable();
        let run = linked.memtable.sorted(Mark::default());
        let got: Vec<_> = (0..run.len()).map(|i| run.record(i)).collect();
        assert_eq!(got.len(), want.len());
        for (record, (key, seq)) in got.iter().zip(&want) {
            assert_eq!((record.key, record.seq), (key.as_slice(), seq.0), "ascending: {ascending}");
            let number = std::str::from_utf8(&record.key[3..]).unwrap().parse::<u64>().unwrap();
            assert_eq!(record.value(), number.to_le_bytes());
        }
        let newest = run.get(b"key000500", Seq::MAX).unwrap();
        let first = want.iter().find(|(key, _)| key == b"key000500").unwrap();
        assert_eq!(newest.seq, first.1.0);
    }
}

#[test]
fn heights_fall_by_quarters() {
    let mut counts = [0_u32; 13];
    for _ in 0..100_000 {
        counts[random_height()] += 1;
    }
    assert_eq!(counts[0], 0);
    assert!(counts[1..5].windows(2).all(|pair| pair[0] > 3 * pair[1] && pair[0] < 5 * pair[1]));
}

#[test]
fn chunks_kept_for_a_load_are_given_back_at_rest() {
    let memtable_bytes = 4 << 20;
    let fill = |bytes: usize, bounded: bool| {
        let pool = ChunkPool::new(memtable_bytes, bounded);
        let mut writer = Writer::new(&pool);
        for _ in 0..bytes / 1000 {
            writer.put(b"key", &[1; 1000]);
        }
        drop(writer);
        pool
    };
    let bounded = fill(6 * memtable_bytes, true);
    assert_eq!(bounded.held_bytes(), 3 * memtable_bytes as u64);
    let pool = fill(6 * memtable_bytes, false);
    assert_eq!(pool.held_bytes(), 5 * memtable_bytes as u64);
    (0..REST_LOOKS).for_each(|_| pool.trim());
    assert_eq!(pool.held_bytes(), 5 * memtable_bytes as u64, "not at rest yet");
    pool.trim();
    assert_eq!(pool.held_bytes(), 3 * memtable_bytes as u64);
}

#[test]
fn a_key_that_does_not_share_the_sample_s_prefix_is_sorted_in() {
    let pool = ChunkPool::new(1 << 20, false);
    let mut writer = Writer::new(&pool);
    for i in 0..500_u32 {
        writer.put(format!("key:{:06}", i * 7919 % 1000).as_bytes(), b"v");
    }
    for odd in [b"kez".as_slice(), b"k", b"key:", b"zzzzzzzzzzzzzzzzzzz"] {
        writer.put(odd, b"odd");
    }
    let run = writer.sorted();
    assert_eq!(run.len(), 504);
    let keys: Vec<&[u8]> = (0..run.len()).map(|i| run.record(i).key).collect();
    assert!(keys.is_sorted());
    assert_eq!((keys[0], keys[1], keys[502]), (&b"k"[..], &b"key:"[..], &b"kez"[..]));
}

/// Keys of several shapes: with a long common prefix or none, short and long, of one length or not.
fn shapes(state: &mut u64) -> Vec<Vec<Vec<u8>>> {
    let mut shapes = Vec::new();
    for (prefix, alphabet, len_min, len_max) in [
        (&b"R\0\0\0\0\0\0\0\x05"[..], 256, 8, 8),
        (b"key:", 3, 0, 12),
        (b"", 2, 0, 3),
        (b"shared", 256, 2, 5),
        (b"p", 4, 10, 30),
    ] {
        let keys = (0..400).map(|_| {
            let len = len_min + random(state) % (len_max - len_min + 1);
            let mut key = prefix.to_vec();
            key.extend((0..len).map(|_| ((random(state) % alphabet) as u8).wrapping_mul(37)));
            key
        });
        shapes.push(keys.collect());
    }
    // Numbers that follow each other: most bits of the prefixes agree, and are taken out.
    shapes.push(
        (1000..1400_u64).map(|i| (0x00ff_0000_1234_0000 + 7 * i).to_be_bytes().to_vec()).collect(),
    );
    shapes.push(vec![b"one".to_vec()]);
    shapes
}

#[test]
fn a_search_finds_the_place_of_any_key_in_any_run() {
    let pool = ChunkPool::new(8 << 20, false);
    let mut state = 0x51ab_77e1_0b02_9fc3;
    for keys in shapes(&mut state) {
        let mut writer = Writer::new(&pool);
        for key in &keys {
            writer.put(key, b"v");
        }
        let run = writer.sorted();
        let all: Vec<_> = (0..run.len()).map(|i| (run.record(i).key, run.record(i).seq)).collect();
        let mut probes = keys.clone();
        for key in &keys {
            // Neighbours, cut and longer ones, and ones that differ in any single bit.
            probes.push(key[..key.len() / 2].to_vec());
            probes.push([key, &b"\0"[..]].concat());
            probes.push([key, &b"zz"[..]].concat());
            for _ in 0..key.len().min(4) {
                let mut other = key.clone();
                let bit = random(&mut state) as usize % (8 * key.len());
                other[bit / 8] ^= 1 << (bit % 8);
                probes.push(other);
            }
        }
        probes.extend([vec![], vec![0], vec![255; 40]]);
        for probe in &probes {
            for seq in [0, keys.len() as Seq / 2, Seq::MAX] {
                let want =
                    all.partition_point(|&(key, q)| key < probe || (key == probe && q > seq));
                assert_eq!(run.lower_bound(probe, seq), want, "{probe:?} at {seq}");
            }
        }
        for at in 0..all.len() {
            let same = all[at..].iter().take_while(|(key, _)| *key == all[at].0).count();
            assert_eq!(run.next_key(at), at + same);
        }
    }
}

#[test]
fn a_walk_passes_over_what_is_not_younger_than_a_proof_and_over_nothing_else() {
    let pool = ChunkPool::new(8 << 20, false);
    let mut writer = Writer::new(&pool);
    let mut state = 7;
    for _ in 0..3000 {
        writer.put(&((random(&mut state) % 500) as u16).to_be_bytes(), b"v");
    }
    let run = Arc::new(writer.sorted());
    for d in [0, 5, 1500, 2900, 2999, 3000] {
        for (from, to) in [(0_u16, 500_u16), (3, 4), (100, 101), (77, 490), (499, 500)] {
            let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
            let start = run.lower_bound(&from, Seq::MAX);
            let end = run.lower_bound(&to, Seq::MAX);
            let want = (start..end).find(|&i| run.record(i).seq > d).unwrap_or(end);
            let mut source = RunSource::new(Arc::clone(&run));
            source.seek(&from).unwrap();
            if source.valid() && source.key() < to.as_slice() {
                source.pass_dead(&to, d).unwrap();
            }
            assert_eq!(source.valid(), want < run.len());
            if source.valid() {
                assert_eq!(
                    (source.key(), source.seq()),
                    (run.record(want).key, run.record(want).seq)
                );
            }
        }
    }
}
