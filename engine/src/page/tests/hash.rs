use super::{Memory, Random, hash};
use crate::page::external::{Reference, Stored};
use crate::page::hash::{Hash, HashSizes};
use crate::page::hash_page::{self, HashPage, NO_VALUE, PageKey};
use crate::page::store::{PageError, PartKind};
use crate::page::{IntegerText, Put};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const fn sizes(split_bytes: u64, merge_bytes: u64, external_bytes: usize) -> HashSizes {
    HashSizes { split_bytes, merge_bytes, external_bytes }
}

const SIZES: [HashSizes; 4] = [
    sizes(64, 20, usize::MAX),
    sizes(256, 80, 20),
    sizes(512, 160, 512),
    sizes(4096, 1400, usize::MAX),
];

/// Keys that are integers, texts, and long ones.
fn key(random: &mut Random, space: usize, kind: usize) -> Vec<u8> {
    let n = random.below(space);
    match kind {
        0 => (n as i64 - space as i64 / 2).to_string().into_bytes(),
        1 => {
            let width = [0x7f, 0x7fff, 0x7fff_ffff, i64::MAX][n % 4];
            (hash(&n.to_le_bytes()) as i64 % width).to_string().into_bytes()
        }
        2 => format!("field:{n}").into_bytes(),
        _ => {
            let mut bytes = format!("{n}").into_bytes();
            match n % 50 {
                0 => bytes.resize(300, b'k'),
                1 => bytes.resize(70_000, b'K'),
                2 => bytes.clear(),
                _ => {}
            }
            bytes
        }
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(60) {
        0 => 70_000,
        1 => 5000,
        2..6 => 239 + random.below(4),
        _ => random.below(30),
    };
    vec![random.next() as u8; len]
}

fn assert_same(table: &Hash, memory: &mut Memory, model: &Model) {
    memory.away.clear();
    table.check(memory, &hash).expect("a whole hash");
    assert_eq!(table.totals.elements, model.len() as u64);
    let bytes: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert_eq!(table.totals.bytes, bytes as u64);
    assert_eq!(memory.count(PartKind::Hash), table.pages as usize);
    let long = model.values().filter(|value| value.len() >= table.sizes.external_bytes);
    assert_eq!(memory.count(PartKind::External), long.count());
    for (key, value) in model {
        let got = table.get(memory, key, hash(key)).expect("pages in memory");
        assert_eq!(got, Some(value.as_slice()));
    }
}

fn history(seed: u64, sizes: HashSizes, has_values: bool, operations: usize) {
    let mut random = Random::new(seed);
    let (space, kind) = ([10, 100, 1500][random.below(3)], random.below(4));
    let (mut memory, mut model) = (Memory::default(), Model::new());
    let mut table = Hash::build(&mut memory, has_values, sizes, &[], &hash).expect("built");
    let mut grows = true;
    for step in 0..operations {
        if random.is_one_in(500) {
            grows = !grows;
        }
        if random.is_one_in(20) {
            memory.send_away(&mut random, 3);
        }
        let kind = if random.is_one_in(200) { 3 } else { kind };
        let name = key(&mut random, space, kind);
        if random.is_one_in(4) == grows {
            let removed = memory.run(|memory| table.remove(memory, (&name, hash(&name)), &hash));
            assert_eq!(removed, Ok(model.remove(&name).is_some()));
        } else {
            let value = if has_values { value(&mut random) } else { Vec::new() };
            let put = memory.run(|memory| table.put(memory, (&name, hash(&name)), &value, &hash));
            let expected =
                if model.insert(name, value).is_some() { Put::Replaced } else { Put::New };
            assert_eq!(put, Ok(expected));
        }
        if step % 97 == 0 || step < 50 {
            assert_same(&table, &mut memory, &model);
        }
    }
    assert_same(&table, &mut memory, &model);
    for name in model.keys().cloned().collect::<Vec<_>>() {
        assert_eq!(table.remove(&mut memory, (&name, hash(&name)), &hash), Ok(true));
    }
    assert_same(&table, &mut memory, &Model::new());
    assert!(memory.pages.len() < 20, "{} pages of nothing", table.pages);
}

#[test]
fn a_hash_does_what_a_map_does() {
    for (seed, sizes) in SIZES.into_iter().enumerate() {
        history(seed as u64 + 1, sizes, true, 2500);
        history(seed as u64 + 101, sizes, false, 2500);
    }
}

#[test]
fn pages_split_and_merge_as_the_bytes_come_and_go() {
    let (mut memory, sizes) = (Memory::default(), HashSizes::default());
    let mut table = Hash::build(&mut memory, true, sizes, &[], &hash).expect("built");
    for n in 0..5000_u32 {
        let key = format!("field:{n:014}");
        table
            .put(&mut memory, (key.as_bytes(), hash(key.as_bytes())), b"abc", &hash)
            .expect("no page is away");
    }
    let average = table.content_bytes / u64::from(table.pages);
    assert!((480..=512).contains(&average), "{average} bytes a page");
    for n in 0..4990_u32 {
        let key = format!("field:{n:014}");
        table
            .remove(&mut memory, (key.as_bytes(), hash(key.as_bytes())), &hash)
            .expect("no page is away");
    }
    assert!(table.pages < 5, "{} pages", table.pages);
}

#[test]
fn a_split_waits_for_a_page_that_is_away() {
    let sizes = sizes(100, 30, 512);
    let mut memory = Memory::default();
    let mut table = Hash::build(&mut memory, true, sizes, &[], &hash).expect("built");
    let mut written = 0_u32;
    let mut put = |table: &mut Hash, memory: &mut Memory| {
        written += 1;
        let key = written.to_string();
        memory.begin();
        table.put(memory, (key.as_bytes(), hash(key.as_bytes())), b"0123456789", &hash)
    };
    while table.pages < 8 {
        put(&mut table, &mut memory).expect("no page is away");
    }
    let due = table.page_ids().next().expect("page 0");
    memory.away.insert(due);
    for _ in 0..100 {
        match put(&mut table, &mut memory) {
            Ok(_) => {}
            Err(error) => assert_eq!(error, PageError::Missing(due)),
        }
    }
    assert_eq!(table.pages, 8, "page 0 is due, and away");
    memory.away.clear();
    for _ in 0..100 {
        put(&mut table, &mut memory).expect("no page is away");
    }
    assert!(table.pages > 20, "{} pages", table.pages);
    table.check(&memory, &hash).expect("a whole hash");
}

#[test]
fn a_hash_is_built_as_large_as_it_will_be() {
    for (count, has_values) in [(0, true), (1, true), (3000, true), (3000, false)] {
        let names: Vec<String> = (0..count).map(|n| format!("member:{n}")).collect();
        let value: &[u8] = if has_values { b"value" } else { b"" };
        let entries: Vec<_> =
            names.iter().map(|name| (PageKey::Bytes(name.as_bytes()), value)).collect();
        let mut memory = Memory::default();
        let table = Hash::build(&mut memory, has_values, HashSizes::default(), &entries, &hash)
            .expect("built");
        table.check(&memory, &hash).expect("a whole hash");
        assert_eq!(table.totals.elements, count);
        assert_eq!(memory.pages.len(), table.pages as usize);
    }
}

#[test]
fn a_scan_answers_what_stays_once() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let sizes = sizes(80, 60, 512);
        let mut memory = Memory::default();
        let mut table = Hash::build(&mut memory, false, sizes, &[], &hash).expect("built");
        let mut stays = BTreeMap::new();
        for n in 0..200 {
            let key = format!("stays:{n}").into_bytes();
            table.put(&mut memory, (&key, hash(&key)), b"", &hash).expect("in memory");
            stays.insert(key, 0);
        }
        let mut cursor = 0;
        loop {
            cursor = table
                .scan(&memory, cursor, &hash, |key, _| {
                    if let Some(seen) = stays.get_mut(key) {
                        *seen += 1;
                    }
                })
                .expect("in memory");
            assert!(cursor < 1 << 48);
            if cursor == 0 {
                break;
            }
            for _ in 0..random.below(40) {
                let key = format!("goes:{}", random.below(400)).into_bytes();
                if random.is_one_in(2) {
                    table.put(&mut memory, (&key, hash(&key)), b"", &hash).expect("in memory");
                } else {
                    table.remove(&mut memory, (&key, hash(&key)), &hash).expect("in memory");
                }
            }
        }
        assert!(stays.values().all(|seen| *seen == 1), "{stays:?}");
    }
}

#[test]
fn random_entries_come_about_equally_often() {
    let mut random = Random::new(5);
    let mut memory = Memory::default();
    let mut table = Hash::build(&mut memory, false, SIZES[1], &[], &hash).expect("built");
    assert_eq!(table.random(&memory, || 0), Ok(None));
    for n in 0..200 {
        let key = format!("m{n}").into_bytes();
        table.put(&mut memory, (&key, hash(&key)), b"", &hash).expect("in memory");
    }
    let mut drawn: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for _ in 0..20_000 {
        let (key, _) = table.random(&memory, || random.next()).expect("in memory").expect("one");
        *drawn.entry(key.bytes(&mut IntegerText::default()).to_vec()).or_default() += 1;
    }
    assert_eq!(drawn.len(), 200);
    assert!(drawn.values().all(|times| (40..=200).contains(times)), "{drawn:?}");
}

#[test]
fn sets_of_integers_hold_integers_until_another_comes() {
    let mut page = hash_page::build(&[(PageKey::Integer(5), NO_VALUE)], false, &hash);
    for n in [-3_i64, 700, 6] {
        hash_page::insert(&mut page, n.to_string().as_bytes(), NO_VALUE, &hash)
            .expect("a whole page");
    }
    assert_eq!(page.len(), 5 + 4 * 2);
    hash_page::insert(&mut page, b"70000", NO_VALUE, &hash).expect("a whole page");
    assert_eq!(page.len(), 5 + 5 * 4);
    let view = HashPage::parse(&page).expect("a whole page");
    let keys: Vec<PageKey<'_>> = view.entries().map(|entry| entry.expect("whole").0).collect();
    assert_eq!(keys, [-3, 5, 6, 700, 70_000].map(PageKey::Integer));
    assert_eq!(view.find(b"05", hash(b"05")), Ok(None), "another text, another member");
    hash_page::insert(&mut page, b"05", NO_VALUE, &hash).expect("a whole page");
    let view = HashPage::parse(&page).expect("a whole page");
    assert!(view.find(b"05", hash(b"05")).expect("whole").is_some());
    assert!(view.find(b"70000", hash(b"70000")).expect("whole").is_some());
    assert_eq!(view.len(), 6);
}

/// Some values are named, the others stand in the page.
fn stored(value: &[u8]) -> Stored<'_> {
    match value {
        [first, ..] if value.len() == 5000 => {
            Stored::External(Reference { id: u64::from(*first) << 50, bytes: 5000 })
        }
        _ => Stored::Here(value),
    }
}

#[test]
fn entries_of_a_page_keep_the_order_in_which_they_came() {
    let mut page = super::Replayed::new(&hash_page::empty(true));
    let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut random = Random::new(11);
    for _ in 0..6000 {
        let name = key(&mut random, 40, 2);
        let place = HashPage::parse(crate::page::PageEdit::bytes(&page))
            .and_then(|view| view.find(&name, hash(&name)))
            .expect("a whole page");
        let value = value(&mut random);
        match (place, model.iter().position(|(key, _)| *key == name)) {
            (Some(place), Some(at)) if random.is_one_in(2) => {
                hash_page::remove(&mut page, &place).expect("a whole page");
                model.remove(at);
            }
            (Some(place), Some(at)) => {
                hash_page::set_value(&mut page, &place, stored(&value), &hash)
                    .expect("a whole page");
                model[at].1 = value;
            }
            (None, None) => {
                hash_page::insert(&mut page, &name, stored(&value), &hash).expect("a whole page");
                model.push((name, value));
            }
            (place, at) => panic!("{place:?} is not {at:?}"),
        }
        let view = HashPage::parse(crate::page::PageEdit::bytes(&page)).expect("a whole page");
        view.check(&hash).expect("a whole page");
        let entries: Vec<_> = view.entries().map(|entry| entry.expect("whole")).collect();
        let expected: Vec<_> =
            model.iter().map(|(key, value)| (PageKey::Bytes(key), stored(value))).collect();
        assert_eq!(entries, expected);
        assert_eq!(
            model.last().map(|_| view.entry(model.len() - 1)),
            expected.last().map(|last| Ok(*last))
        );
    }
}

#[test]
fn damaged_pages_give_errors() {
    let mut errors = 0;
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let mut memory = Memory::default();
        let has_values = random.is_one_in(2);
        let sizes = sizes(128, 100, 512);
        let mut table = Hash::build(&mut memory, has_values, sizes, &[], &hash).expect("built");
        let kind = random.below(4);
        for _ in 0..30 {
            let name = key(&mut random, 40, kind);
            table
                .put(
                    &mut memory,
                    (&name, hash(&name)),
                    &[7; 9][..if has_values { 9 } else { 0 }],
                    &hash,
                )
                .expect("whole");
        }
        memory.damage(&mut random);
        let mut note = |failed: bool| errors += usize::from(failed);
        note(table.check(&memory, &hash).is_err());
        for _ in 0..20 {
            let name = key(&mut random, 40, kind);
            let keyed = (name.as_slice(), hash(&name));
            note(table.get(&memory, keyed.0, keyed.1).is_err());
            note(
                table
                    .put(&mut memory, keyed, &[1; 20][..if has_values { 20 } else { 0 }], &hash)
                    .is_err(),
            );
            note(table.remove(&mut memory, keyed, &hash).is_err());
            note(table.scan(&memory, random.next() >> 16, &hash, |_, _| {}).is_err());
            note(table.random(&memory, || random.next()).is_err());
        }
    }
    assert!(errors > 1500, "{errors} errors");
}
