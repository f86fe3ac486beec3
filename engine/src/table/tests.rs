//! Tables as a whole: what was written is found, and nothing else ever is.

use super::test_storage::MemFile;
use super::*;
use crate::key::{Meta, Seq};
use crate::source::{BackSource, Source};
use std::path::Path;
use std::sync::Arc;

type Entry = (Vec<u8>, Seq, Meta, Vec<u8>);

const PATH: &str = "tables/000000000007.tbl";

fn entries(n: u64) -> Vec<Entry> {
    let mut out = Vec::new();
    for i in 0..n {
        let key = [&b"R\0\0\0\0\0\0\0\x05"[..], format!("key:{:06}", i * 2).as_bytes()].concat();
        for version in 0..1 + i % 3 {
            let meta =
                Meta { flags: (i % 30) as u8, expire_at_ms: if i % 4 == 0 { i + 1 } else { 0 } };
            let value = format!("value {i} {version} ").repeat((i % 9) as usize);
            out.push((key.clone(), 1_000 * (10 - version) + i, meta, value.into_bytes()));
        }
    }
    out
}

fn write(entries: &[Entry], options: TableOptions) -> (Vec<u8>, TableMeta) {
    let file = MemFile::new(Path::new(PATH), Vec::new());
    let mut builder = TableBuilder::new(file.clone(), 7, options, BuilderBuffers::default());
    for (key, seq, meta, value) in entries {
        builder.add(key, *seq, *meta, value).unwrap();
    }
    let (meta, _) = builder.finish(42, true).unwrap();
    let bytes = file.bytes.lock().clone();
    assert_eq!(meta.file_bytes, bytes.len() as u64);
    (bytes, meta)
}

fn open(bytes: Vec<u8>, cache: Option<Arc<BlockCache>>) -> TableResult<Arc<Table>> {
    Table::open(MemFile::new(Path::new(PATH), bytes), 7, cache).map(Arc::new)
}

fn read_all(table: &Arc<Table>, mode: ReadMode) -> TableResult<Vec<Entry>> {
    let mut iter = table.iter(mode);
    iter.seek(b"")?;
    let mut out = Vec::new();
    while iter.valid() {
        out.push((iter.key().to_vec(), iter.seq(), iter.meta(), iter.value().to_vec()));
        iter.next()?;
    }
    Ok(out)
}

#[test]
fn a_table_is_full_at_its_size_or_with_as_many_keys_as_memory_allows() {
    const KEYS: u64 = 1000;
    let file = MemFile::new(Path::new(PATH), Vec::new());
    let options = TableOptions { hashes_bytes_max: KEYS as usize * 8, ..TableOptions::default() };
    let mut builder = TableBuilder::new(file, 7, options, BuilderBuffers::default());
    for key in 0..KEYS {
        assert!(!builder.is_full(1 << 20), "{key} keys");
        // A second version of a key needs no second hash.
        for seq in [2, 1] {
            builder.add(&key.to_be_bytes(), seq, Meta::default(), b"").unwrap();
        }
    }
    assert!(builder.is_full(1 << 20));
    let (_, buffers) = builder.finish(0, true).unwrap();
    let file = MemFile::new(Path::new(PATH), Vec::new());
    let mut builder = TableBuilder::new(file, 8, options, buffers);
    builder.add(b"k", 1, Meta::default(), &[0; 5000]).unwrap();
    assert!(!builder.is_full(6000) && builder.is_full(5000));
}

fn all_options() -> Vec<TableOptions> {
    let mut all = Vec::new();
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        for (block_bytes, chunk_bytes) in [(64, 1), (4096, 1 << 20), (1 << 20, 1 << 20)] {
            let options =
                TableOptions { block_bytes, compression, chunk_bytes, ..TableOptions::default() };
            all.push(options);
        }
    }
    all
}

#[test]
fn iterators_yield_what_was_added() {
    let want = entries(700);
    for options in all_options() {
        let (bytes, meta) = write(&want, options);
        let table = open(bytes, Some(Arc::new(BlockCache::new(1 << 20)))).unwrap();
        assert_eq!(table.meta(), &meta);
        table.verify().unwrap();
        for mode in [ReadMode::Sequential, ReadMode::Cached, ReadMode::Cached] {
            assert_eq!(read_all(&table, mode).unwrap(), want);
        }
    }
}

#[test]
fn next_key_steps_over_older_versions_wherever_blocks_end() {
    // Many versions of some keys, so that with small blocks they straddle restarts and blocks, and keys
    // longer than a narrow entry can share.
    let mut want = Vec::new();
    for i in 0..120_u32 {
        let key = [&b"R\0\0\0\0\0\0\0\x05"[..], &i.to_be_bytes(), &vec![7; (i % 3) as usize * 150]]
            .concat();
        for version in 0..1 + Seq::from(i % 5) * Seq::from(i % 7) {
            want.push((key.clone(), 1000 - version, Meta::default(), vec![1; 10]));
        }
    }
    let mut newest = want.clone();
    newest.dedup_by(|a, b| a.0 == b.0);
    for options in all_options() {
        let (bytes, _) = write(&want, options);
        let table = open(bytes, None).unwrap();
        for mode in [ReadMode::Sequential, ReadMode::Cached] {
            let mut iter = table.iter(mode);
            iter.seek(b"").unwrap();
            for entry in &newest {
                assert_eq!((iter.key(), iter.seq()), (&entry.0[..], entry.1));
                iter.next_key().unwrap();
            }
            assert!(!iter.valid());
        }
    }
}

#[test]
fn properties_tell_the_truth() {
    let want = entries(100);
    let (_, meta) = write(&want, TableOptions::default());
    let p = &meta.properties;
    assert_eq!((p.entries, p.distinct_keys, p.buried_through), (want.len() as u64, 100, 42));
    assert_eq!(p.min_seq, want.iter().map(|e| e.1).min().unwrap());
    assert_eq!(p.max_seq, want.iter().map(|e| e.1).max().unwrap());
    assert_eq!((&*p.min_key, &*p.max_key), (&want[0].0[..], &want.last().unwrap().0[..]));
    assert_eq!((p.min_namespace, p.max_namespace), (5, 5));
    let expiring = want.iter().filter(|e| e.2.expire_at_ms != 0).count() as u64;
    assert_eq!((p.min_expire_ms, p.max_expire_ms, p.expiring), (1, 97, expiring));
    assert_eq!(p.value_bytes, want.iter().map(|e| e.3.len() as u64).sum::<u64>());
}

#[test]
fn get_agrees_with_a_walk_over_the_entries() {
    let want = entries(300);
    for options in all_options() {
        let (bytes, _) = write(&want, options);
        let table = open(bytes, Some(Arc::new(BlockCache::new(1 << 20)))).unwrap();
        let mut scratch = Scratch::default();
        for i in 0..600 {
            let key = [&b"R\0\0\0\0\0\0\0\x05"[..], format!("key:{i:06}").as_bytes()].concat();
            for bound in [0, 8_150, 9_000, 9_500, 10_000, 10_100, Seq::MAX] {
                let expected = want.iter().find(|e| e.0 == key && e.1 <= bound);
                let found = table.get(&key, bound, &mut scratch).unwrap();
                let found = found.as_ref().map(|f| (f.seq, f.meta, f.value.to_vec()));
                assert_eq!(found, expected.map(|e| (e.1, e.2, e.3.clone())), "{i} {bound}");
                assert!(expected.is_none() || table.may_contain(key_hash(&key)));
            }
        }
    }
}

#[test]
fn seek_goes_to_the_first_key_at_or_above() {
    let want = entries(200);
    for options in all_options() {
        let (bytes, _) = write(&want, options);
        let table = open(bytes, None).unwrap();
        for mode in [ReadMode::Sequential, ReadMode::Cached] {
            let mut iter = table.iter(mode);
            for i in (0..420).rev() {
                let key = [&b"R\0\0\0\0\0\0\0\x05"[..], format!("key:{i:06}").as_bytes()].concat();
                iter.seek(&key).unwrap();
                let expected = want.iter().find(|e| e.0 >= key);
                assert_eq!(iter.valid(), expected.is_some());
                if let Some(expected) = expected {
                    assert_eq!((iter.key(), iter.seq()), (&expected.0[..], expected.1));
                }
            }
        }
    }
}

/// Every byte of the file belongs to something checked: one flipped bit anywhere is an error that
/// names the file, whatever is read, or at the very least never a wrong answer.
#[test]
fn any_flipped_bit_is_found() {
    let want = entries(60);
    for compression in [Compression::None, Compression::Lz4] {
        let options = TableOptions { compression, block_bytes: 512, ..TableOptions::default() };
        let (bytes, _) = write(&want, options);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let outcome =
                open(damaged, None).and_then(|t| read_all(&t, ReadMode::Sequential).map(|_| ()));
            match outcome {
                Err(TableError::Corrupt { file, offset, .. }) => {
                    assert_eq!(file, Path::new(PATH));
                    assert!(offset <= bytes.len() as u64);
                }
                other => panic!("byte {at}: {other:?}"),
            }
        }
    }
}

#[test]
fn any_cut_is_found() {
    let (bytes, _) = write(&entries(40), TableOptions::default());
    for len in 0..bytes.len() {
        assert!(open(bytes[..len].to_vec(), None).is_err(), "cut at {len}");
    }
}

#[test]
fn another_format_version_is_refused_by_its_number() {
    let (mut bytes, _) = write(&entries(5), TableOptions::default());
    let footer = bytes.len() - 64;
    bytes[footer + 48] = 1;
    let crc = crc_fast::crc32_iscsi(&bytes[footer..footer + 52]);
    bytes[footer + 52..footer + 56].copy_from_slice(&crc.to_le_bytes());
    let error = open(bytes, None).unwrap_err();
    assert!(
        matches!(error, TableError::Version { got: 1, supported: TABLE_VERSION, .. }),
        "{error}"
    );
}

#[test]
fn another_table_under_this_name_is_refused() {
    let (bytes, _) = write(&entries(5), TableOptions::default());
    let error = Table::open(MemFile::new(Path::new(PATH), bytes), 8, None).unwrap_err();
    assert!(error.to_string().contains("table number"), "{error}");
}

#[test]
fn entries_out_of_order_are_refused() {
    for (second, seq) in [(&b"b"[..], 5), (b"b", 6), (b"a", 1)] {
        let file = MemFile::new(Path::new(PATH), Vec::new());
        let mut builder =
            TableBuilder::new(file, 7, TableOptions::default(), BuilderBuffers::default());
        builder.add(b"b", 5, Meta::default(), b"").unwrap();
        let error = builder.add(second, seq, Meta::default(), b"").unwrap_err();
        assert!(matches!(error, TableError::Unordered { number: 7, .. }), "{error}");
    }
}

#[test]
fn large_values_and_long_keys_have_blocks_of_their_own() {
    let want: Vec<Entry> = vec![
        (vec![], 3, Meta::default(), vec![1; 10]),
        (vec![b'a'; 70_000], 2, Meta::default(), (0..=255).cycle().take(300_000).collect()),
        (vec![b'a'; 70_001], 1, Meta::default(), vec![0; 3 << 20]),
        (b"z".to_vec(), 9, Meta::default(), vec![]),
    ];
    for options in all_options() {
        let (bytes, _) = write(&want, options);
        let table = open(bytes, None).unwrap();
        assert_eq!(read_all(&table, ReadMode::Sequential).unwrap(), want);
        assert_eq!(read_all(&table, ReadMode::Cached).unwrap(), want);
    }
}

/// Where each frame of a table starts and ends, from the footer and the index.
fn frames(bytes: &[u8]) -> Vec<(usize, usize)> {
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let footer = bytes.len() - 64;
    let index = u64_at(footer + 8);
    let blocks = u32::from_le_bytes(bytes[index..index + 4].try_into().unwrap()) as usize;
    let mut starts: Vec<usize> = (0..=blocks).map(|i| u64_at(index + 8 + 8 * i)).collect();
    starts.extend([index, u64_at(footer + 16), footer]);
    starts.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Damage behind a checksum that fits: errors or other data, but no panic, and nothing larger than
/// the file accounts for.
#[test]
fn malformed_frames_with_good_checksums_do_no_harm() {
    let mut refused = 0;
    for compression in [Compression::None, Compression::Lz4] {
        let options = TableOptions { compression, block_bytes: 512, ..TableOptions::default() };
        let (bytes, _) = write(&entries(30), options);
        for (start, end) in frames(&bytes) {
            for at in start..end - 4 {
                for flip in [0x01, 0x40, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= flip;
                    let crc = crc_fast::crc32_iscsi(&damaged[start..end - 4]);
                    damaged[end - 4..end].copy_from_slice(&crc.to_le_bytes());
                    let Ok(table) = open(damaged, None) else {
                        refused += 1;
                        continue;
                    };
                    for mode in [ReadMode::Sequential, ReadMode::Cached] {
                        match read_all(&table, mode) {
                            Ok(read) => assert!(read.len() < bytes.len()),
                            Err(_) => refused += 1,
                        }
                    }
                    let key = b"R\0\0\0\0\0\0\0\x05key:000020";
                    if let Ok(Some(found)) = table.get(key, Seq::MAX, &mut Scratch::default()) {
                        assert!(found.value.len() < 255 * bytes.len());
                    }
                }
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn a_walk_in_both_directions_stands_where_the_list_does() {
    let want = entries(700);
    let mut state = 99u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(77);
        (state >> 33) as usize % n
    };
    for options in all_options() {
        let (bytes, _) = write(&want, options);
        let table = open(bytes, Some(Arc::new(BlockCache::new(1 << 20)))).unwrap();
        for mode in [ReadMode::Sequential, ReadMode::Cached] {
            let mut iter = table.iter(mode);
            for _ in 0..60 {
                let key = format!("key:{:06}", random(1410)).into_bytes();
                let key = [&b"R\0\0\0\0\0\0\0\x05"[..], &key].concat();
                let lower = want.partition_point(|e| e.0 < key);
                let mut at = match random(4) {
                    0 => {
                        iter.seek(&key).unwrap();
                        Some(lower)
                    }
                    1 => {
                        iter.seek_back(None).unwrap();
                        want.len().checked_sub(1)
                    }
                    _ => {
                        iter.seek_back(Some(&key)).unwrap();
                        lower.checked_sub(1)
                    }
                };
                let forward = random(100);
                for _ in 0..random(400) {
                    let Some(e) = at.and_then(|at| want.get(at)) else {
                        assert!(!iter.valid());
                        break;
                    };
                    let got = (iter.key(), iter.seq(), iter.meta(), iter.value());
                    assert_eq!(got, (&e.0[..], e.1, e.2, &e.3[..]));
                    if random(100) < forward {
                        iter.next().unwrap();
                        at = at.map(|at| at + 1);
                    } else {
                        iter.prev().unwrap();
                        at = at.and_then(|at| at.checked_sub(1));
                    }
                }
            }
            iter.seek_back(None).unwrap();
            let mut back = Vec::new();
            while iter.valid() {
                back.push((iter.key().to_vec(), iter.seq()));
                iter.prev().unwrap();
            }
            assert!(back.iter().rev().map(|e| (&e.0, e.1)).eq(want.iter().map(|e| (&e.0, e.1))));
        }
    }
}

#[test]
fn a_long_scan_leaves_the_block_cache_as_it_is() {
    let (bytes, _) = write(&entries(3_000), all_options()[4]);
    let cache = Arc::new(BlockCache::new(64 << 20));
    let table = open(bytes, Some(Arc::clone(&cache))).unwrap();
    let all = read_all(&table, ReadMode::Cached).unwrap();
    assert!(cache.bytes() > 0, "the first blocks after a seek are kept");
    assert!(cache.bytes() < 40 << 10, "{} bytes after {} versions", cache.bytes(), all.len());
    let mut iter = table.iter(ReadMode::Cached);
    let before = cache.bytes();
    iter.seek_back(None).unwrap();
    while iter.valid() {
        iter.prev().unwrap();
    }
    assert!(cache.bytes() < before + (40 << 10), "a walk back keeps its first blocks only, too");
}

#[test]
fn a_scan_of_the_whole_table_leaves_the_blocks_in_use_in_the_cache() {
    let entries = entries(220_000);
    let (bytes, meta) = write(&entries, TableOptions::default());
    // Room for a fraction of the table.
    let cache = Arc::new(BlockCache::new(2 << 20));
    assert!(meta.properties.data_bytes > 4 << 20, "{}", meta.properties.data_bytes);
    let table = open(bytes, Some(Arc::clone(&cache))).unwrap();
    let hot: Vec<&Entry> = entries.iter().step_by(44_000).collect();
    let read_hot = || {
        let (_, misses) = cache.hits_and_misses();
        for (key, seq, ..) in &hot {
            assert!(table.get(key, *seq, &mut Scratch::default()).unwrap().is_some());
        }
        cache.hits_and_misses().1 - misses
    };
    assert_eq!(read_hot(), hot.len() as u64);
    assert_eq!(read_hot(), 0);
    assert_eq!(read_all(&table, ReadMode::Cached).unwrap().len(), entries.len());
    assert_eq!(read_hot(), 0, "the scan was longer than the cache");
}

#[test]
fn a_walk_of_a_merge_holds_a_large_block_only_while_its_value_is_wanted() {
    const HELD: usize = 16 << 10;
    let large = |i: u64| {
        let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        random.into_iter().cycle().take(50_000 * i as usize).collect::<Vec<u8>>()
    };
    let mut want = entries(40);
    want.extend((0..5).map(|i| {
        let key = [&b"R\0\0\0\0\0\0\0\x05"[..], format!("large:{i}").as_bytes()].concat();
        (key, 500 + i, Meta::default(), large(i))
    }));
    want.sort_by(|a, b| (&a.0, b.1).cmp(&(&b.0, a.1)));
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let (bytes, _) = write(&want, TableOptions { compression, ..TableOptions::default() });
        let table = open(bytes, None).unwrap();
        let walk = |loads: bool| {
            let mut iter = table.iter(ReadMode::Sequential);
            iter.set_read_ahead(HELD / 4);
            iter.set_held_block(HELD);
            iter.seek(b"").unwrap();
            let mut got = Vec::new();
            while iter.valid() {
                assert!(iter.held_bytes() <= 2 * HELD, "{compression:?}: {}", iter.held_bytes());
                let mut value = Vec::new();
                if loads {
                    iter.load_value().unwrap();
                    value.extend_from_slice(iter.value());
                }
                got.push((iter.key().to_vec(), iter.seq(), iter.meta(), value));
                iter.next().unwrap();
            }
            got
        };
        assert_eq!(walk(true), want);
        // Values that nobody wants are not read again.
        let heads = want.iter().map(|(key, seq, meta, _)| (key.clone(), *seq, *meta, Vec::new()));
        assert_eq!(walk(false), heads.collect::<Vec<_>>());
        let mut iter = table.iter(ReadMode::Sequential);
        iter.set_held_block(HELD);
        let (key, ..) = want.iter().find(|entry| entry.3.len() == 100_000).unwrap();
        iter.seek(key).unwrap();
        assert!(iter.held_bytes() <= 2 * HELD, "a search ends on a large one, too");
        iter.load_value().unwrap();
        assert_eq!(iter.value(), large(2));
    }
}

#[test]
fn look_ups_in_order_find_what_single_ones_find() {
    let options = TableOptions { block_bytes: 64, ..TableOptions::default() };
    let all = entries(900);
    let every = |nth: usize, from: usize| -> Vec<Entry> {
        all.chunks(4).skip(from).step_by(nth).flatten().cloned().collect()
    };
    // Dense, sparse, and with a hole: the walk goes on, seeks, and lags behind.
    let hole = [every(3, 0), all[1000..].to_vec()].concat();
    let mut hole: Vec<Entry> =
        hole.into_iter().filter(|e| !(200..800).contains(&(e.1 % 1000))).collect();
    hole.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    hole.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
    let tables: Vec<Arc<Table>> = [all.clone(), every(17, 3), hole]
        .iter()
        .map(|entries| open(write(entries, options).0, None).unwrap())
        .collect();
    let key = |i: u64| [&b"R\0\0\0\0\0\0\0\x05"[..], format!("key:{i:06}").as_bytes()].concat();
    let (mut found, mut scratch) = (0, Scratch::default());
    for step in [1, 2, 13, 240] {
        let mut gets = OrderedGets::default();
        for (nth, i) in (0..1900).step_by(step).enumerate() {
            // Some come again, one or some before is looked for, and the list of tables changes.
            let back = if nth % 11 == 10 { nth as u64 % 40 } else { 0 };
            let key = key((i as u64).saturating_sub(back));
            let mut asked = tables.clone();
            asked.rotate_left(nth / 100 % 3);
            asked.truncate(3 - nth / 50 % 3);
            for bound in [8_500, 9_300, SEQ_MAX] {
                let single = |table: &Arc<Table>| table.get(&key, bound, &mut scratch).unwrap();
                let want = asked.iter().filter_map(single).map(|found| found.seq).max();
                let tables = asked.iter();
                let got = gets.newest_seq(tables, (&key, || key_hash(&key)), bound).unwrap();
                assert_eq!(got, want, "{step} {nth}");
                found += u64::from(got.is_some());
            }
        }
    }
    assert!(found > 1000, "{found}");
}
