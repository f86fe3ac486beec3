use super::{Memory, Random, hash};
use crate::page::external::{Reference, Stored};
use crate::page::hash::{Hash, HashSizes};
use crate::page::hash_page::{self, HashPage, NO_VALUE, PageKey};
use crate::page::store::{PageError, PartKind};
use crate::page::{IntegerText, Put, Times};
use std::collections::BTreeMap;

/// Values, and when they are due.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

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
    let bytes: usize = model.iter().map(|(key, (value, _))| key.len() + value.len()).sum();
    assert_eq!(table.totals.bytes, bytes as u64);
    assert_eq!(memory.count(PartKind::Hash), table.pages as usize);
    let long = model.values().filter(|(value, _)| value.len() >= table.sizes.external_bytes);
    assert_eq!(memory.count(PartKind::External), long.count());
    for (key, (value, due_ms)) in model {
        let got = table.get_due(memory, key, hash(key)).expect("pages in memory");
        assert_eq!(got, Some((value.as_slice(), *due_ms)));
        assert_eq!(table.get(memory, key, hash(key)), Ok(Some(value.as_slice())));
        assert_eq!(table.due_ms(memory, key, hash(key)), Ok(Some(*due_ms)));
    }
    let times = model.values().map(|(_, due_ms)| *due_ms).filter(|due_ms| *due_ms != 0);
    let earliest_ms = times.min().unwrap_or(0);
    assert_eq!(table.earliest_ms(), earliest_ms);
    let blocks = if earliest_ms == 0 { 0 } else { Times::part(table.pages).pages as usize };
    assert_eq!(memory.count(PartKind::Times), blocks);
}

/// Changes due times, and lets some keys come due. `times`: one key in this many has one.
fn change_times(
    random: &mut Random,
    (table, memory, model): (&mut Hash, &mut Memory, &mut Model),
    name: &[u8],
    times: usize,
) {
    if random.is_one_in(40) {
        let (now_ms, most) = (random.below(1200) as u64, [1, 3, usize::MAX][random.below(3)]);
        let mut gone = Vec::new();
        let pages = memory.run(|memory| {
            let mut missing = Vec::new();
            let due = table.due_pages(memory, (now_ms, most), &mut missing)?;
            assert!(missing.iter().all(|page| page.part == PartKind::Times));
            missing.first().map_or(Ok(due), |page| Err(PageError::Missing(*page)))
        });
        let pages = pages.expect("whole");
        for page in &pages {
            let mut shown = Vec::new();
            let removed = memory.run(|memory| {
                shown.clear();
                table.remove_due(memory, *page, now_ms, &hash, |key| shown.push(key.to_vec()))
            });
            removed.expect("whole");
            gone.append(&mut shown);
        }
        assert!(pages.len() <= most && pages.is_empty() == gone.is_empty());
        for key in gone {
            let (_, due_ms) = model.remove(&key).expect("a key that was there");
            assert!(due_ms != 0 && due_ms <= now_ms);
        }
        if most == usize::MAX {
            // Pages that steps have joined are looked at again.
            let is_due = |due_ms: u64| due_ms != 0 && due_ms <= now_ms;
            let left = model.values().any(|(_, due_ms)| is_due(*due_ms));
            assert_eq!(left, is_due(table.earliest_ms()));
        }
        return;
    }
    let due_ms = if random.is_one_in(times) { 1 + random.below(1000) as u64 } else { 0 };
    let set = memory.run(|memory| table.set_due(memory, (name, hash(name)), due_ms, &hash));
    let known = model.get_mut(name);
    assert_eq!(set, Ok(known.is_some()));
    if let Some((_, due)) = known {
        *due = due_ms;
    }
}

/// `times`: one key in this many has a due time; 0 for none.
fn history(seed: u64, sizes: HashSizes, has_values: bool, times: usize, operations: usize) {
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
        if times > 0 && random.is_one_in(3) {
            change_times(&mut random, (&mut table, &mut memory, &mut model), &name, times);
        } else if random.is_one_in(4) == grows {
            let removed = memory.run(|memory| table.remove(memory, (&name, hash(&name)), &hash));
            assert_eq!(removed, Ok(model.remove(&name).is_some()));
        } else {
            let value = if has_values { value(&mut random) } else { Vec::new() };
            let due_ms = match random.below(2 * times + 1) {
                0 => Some(0),
                1 => Some(1 + random.below(1000) as u64),
                _ => None,
            };
            let keyed = (name.as_slice(), hash(&name));
            let put = memory.run(|memory| table.put_due(memory, keyed, (&value, due_ms), &hash));
            let before = model.get(&name).map(|(_, due_ms)| *due_ms);
            let due_ms = due_ms.unwrap_or(before.unwrap_or(0));
            let expected = if before.is_some() { Put::Replaced } else { Put::New };
            model.insert(name, (value, due_ms));
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
        history(seed as u64 + 1, sizes, true, 0, 2500);
        history(seed as u64 + 101, sizes, false, 0, 2500);
    }
}

#[test]
fn a_hash_whose_keys_come_due_does_what_a_map_does() {
    for (seed, sizes) in SIZES.into_iter().enumerate() {
        for (times, base) in [(1, 200), (2, 300), (200, 400)] {
            history(seed as u64 + base, sizes, true, times, 2500);
        }
    }
}

#[test]
fn blocks_of_due_times_that_are_away_hold_up_splits_for_a_while_only() {
    let mut memory = Memory::default();
    let mut table = Hash::build(&mut memory, true, sizes(100, 30, 512), &[], &hash).expect("built");
    let keyed = (&b"due"[..], hash(b"due"));
    table.put_due(&mut memory, keyed, (b"1", Some(7)), &hash).expect("in memory");
    let (mut asked, mut most_bytes) = (0, 0);
    for n in 0..3000_u32 {
        let blocks = memory.pages.keys().filter(|page| page.part == PartKind::Times).copied();
        memory.away.extend(blocks.collect::<Vec<_>>());
        let key = n.to_string();
        let keyed = (key.as_bytes(), hash(key.as_bytes()));
        while let Err(error) = table.put(&mut memory, keyed, b"0123456789", &hash) {
            let PageError::Missing(page) = error else { panic!("{error}") };
            assert!(page.part == PartKind::Times && memory.away.remove(&page));
            asked += 1;
        }
        most_bytes = most_bytes.max(table.content_bytes / u64::from(table.pages));
    }
    assert!(asked > 0 && most_bytes < 250, "{asked} times, {most_bytes} bytes a page");
    memory.away.clear();
    table.check(&memory, &hash).expect("a whole hash");
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

/// As under a bound of memory that has room for a few pages: only those that a write asks for are there.
#[test]
fn pages_that_are_away_are_split_when_writes_bring_what_is_overdue() {
    let mut memory = Memory::default();
    let mut table = Hash::build(&mut memory, true, sizes(100, 30, 512), &[], &hash).expect("built");
    for n in 0..3000_u32 {
        memory.away = memory.pages.keys().copied().collect();
        let overdue: Vec<_> = table.overdue_splits(1).collect();
        assert!(overdue.iter().all(|page| memory.away.remove(page)), "{overdue:?}");
        let key = n.to_string();
        let keyed = (key.as_bytes(), hash(key.as_bytes()));
        memory.away.remove(&table.page_of(keyed.1));
        table.put(&mut memory, keyed, b"0123456789", &hash).expect("what it asked for is there");
        let average = table.content_bytes / u64::from(table.pages);
        assert!(n < 100 || average < 120, "{average} bytes a page after {n}");
    }
    assert!(table.overdue_splits(usize::MAX).count() <= 1, "{} pages", table.pages);
    memory.away.clear();
    table.check(&memory, &hash).expect("a whole hash");
}

#[test]
fn a_hash_is_built_as_large_as_it_will_be() {
    for (count, has_values) in [(0, true), (1, true), (3000, true), (3000, false)] {
        let names: Vec<String> = (0..count).map(|n| format!("member:{n}")).collect();
        let value: &[u8] = if has_values { b"value" } else { b"" };
        let entries: Vec<_> =
            names.iter().map(|name| (PageKey::Bytes(name.as_bytes()), value, 0)).collect();
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
        let (key, ..) = table.random(&memory, || random.next()).expect("in memory").expect("one");
        *drawn.entry(key.bytes(&mut IntegerText::default()).to_vec()).or_default() += 1;
    }
    assert_eq!(drawn.len(), 200);
    assert!(drawn.values().all(|times| (40..=200).contains(times)), "{drawn:?}");
}

#[test]
fn sets_of_integers_hold_integers_until_another_comes() {
    let mut page = hash_page::build(&[(PageKey::Integer(5), NO_VALUE, 0)], false, &hash);
    for n in [-3_i64, 700, 6] {
        hash_page::insert(&mut page, n.to_string().as_bytes(), NO_VALUE, 0, &hash)
            .expect("a whole page");
    }
    assert_eq!(page.len(), 5 + 4 * 2);
    hash_page::insert(&mut page, b"70000", NO_VALUE, 0, &hash).expect("a whole page");
    assert_eq!(page.len(), 5 + 5 * 4);
    let view = HashPage::parse(&page).expect("a whole page");
    let keys: Vec<PageKey<'_>> = view.entries().map(|entry| entry.expect("whole").0).collect();
    assert_eq!(keys, [-3, 5, 6, 700, 70_000].map(PageKey::Integer));
    assert_eq!(view.find(b"05", hash(b"05")), Ok(None), "another text, another member");
    hash_page::insert(&mut page, b"05", NO_VALUE, 0, &hash).expect("a whole page");
    let view = HashPage::parse(&page).expect("a whole page");
    assert!(view.find(b"05", hash(b"05")).expect("whole").is_some());
    assert!(view.find(b"70000", hash(b"70000")).expect("whole").is_some());
    assert_eq!(view.len(), 6);
}

/// Some values are named, the others are in the page.
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
    for seed in 11..17 {
        // The first due time comes with a key that is there, or with a new one.
        let (sets_from, inserts_from) = if seed % 2 == 0 { (800, 1000) } else { (1000, 800) };
        history_of_a_page(seed, sets_from, inserts_from);
    }
}

fn history_of_a_page(seed: u64, sets_from: usize, inserts_from: usize) {
    let mut page = super::Replayed::new(&hash_page::empty(true));
    let mut model: Vec<(Vec<u8>, Vec<u8>, u64)> = Vec::new();
    let mut random = Random::new(seed);
    for step in 0..2000 {
        let name = key(&mut random, 40, 2);
        let place = HashPage::parse(crate::page::PageEdit::bytes(&page))
            .and_then(|view| view.find(&name, hash(&name)))
            .expect("a whole page");
        let value = value(&mut random);
        match (place, model.iter().position(|(key, ..)| *key == name)) {
            (Some(place), Some(at)) if random.is_one_in(2) => {
                hash_page::remove(&mut page, &place).expect("a whole page");
                model.remove(at);
            }
            (Some(place), Some(at)) if random.is_one_in(2) => {
                let due_ms = if step >= sets_from { random.below(9) as u64 } else { 0 };
                hash_page::set_due(&mut page, &place, due_ms, &hash).expect("a whole page");
                model[at].2 = due_ms;
            }
            (Some(place), Some(at)) => {
                hash_page::set_value(&mut page, &place, stored(&value), &hash)
                    .expect("a whole page");
                model[at].1 = value;
            }
            (None, None) => {
                let due_ms = if step >= inserts_from { random.below(3) as u64 } else { 0 };
                hash_page::insert(&mut page, &name, stored(&value), due_ms, &hash)
                    .expect("a whole page");
                model.push((name, value, due_ms));
            }
            (place, at) => panic!("{place:?} is not {at:?}"),
        }
        let view = HashPage::parse(crate::page::PageEdit::bytes(&page)).expect("a whole page");
        view.check(&hash).expect("a whole page");
        let entries: Vec<_> = view.entries().map(|entry| entry.expect("whole")).collect();
        let expected = model.iter();
        let expected: Vec<_> = expected
            .map(|(key, value, due_ms)| (PageKey::Bytes(key), stored(value), *due_ms))
            .collect();
        let times = model.iter().map(|(.., due_ms)| *due_ms).filter(|due_ms| *due_ms != 0);
        assert_eq!(view.earliest_ms(None), Ok(times.min().unwrap_or(0)));
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
        let has_times = has_values && random.is_one_in(2);
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
            if has_times {
                let due_ms = 1 + random.below(50) as u64;
                table.set_due(&mut memory, (&name, hash(&name)), due_ms, &hash).expect("whole");
            }
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
            if has_values {
                note(table.set_due(&mut memory, keyed, random.below(9) as u64, &hash).is_err());
                let due = table.due_pages(&memory, (20, 2), &mut Vec::new());
                note(due.is_err());
                for page in due.unwrap_or_default() {
                    note(table.remove_due(&mut memory, page, 20, &hash, |_| {}).is_err());
                }
            }
            note(table.scan(&memory, random.next() >> 16, &hash, |_, _| {}).is_err());
            note(table.random(&memory, || random.next()).is_err());
        }
    }
    assert!(errors > 1500, "{errors} errors");
}
