use super::{Memory, Random, Replayed};
use crate::page::external::{Reference, Stored};
use crate::page::list::{End, List, ListSizes, Search};
use crate::page::list_page::{self, ListPage};
use crate::page::store::{PageEdit, PartKind};
use crate::page::{Descriptor, PageError};
use std::collections::VecDeque;

const fn sizes(page_bytes: usize, page_max_bytes: usize, external_bytes: usize) -> ListSizes {
    ListSizes { page_bytes, page_max_bytes, external_bytes }
}

const SIZES: [ListSizes; 4] = [
    sizes(32, 64, usize::MAX),
    sizes(100, 300, 15),
    sizes(512, 512, usize::MAX),
    sizes(2048, 8192, 512),
];

type Model = VecDeque<Vec<u8>>;

fn element(random: &mut Random) -> Vec<u8> {
    let len = match random.below(100) {
        0 => 70_000,
        1 => 3000,
        2..8 => 238 + random.below(5),
        _ => random.below(20),
    };
    let mut element = vec![b'e'; len];
    element.iter_mut().for_each(|byte| *byte = random.next() as u8);
    element
}

fn labels(memory: &Memory) -> Vec<u64> {
    let pages = memory.pages.keys().filter(|page| page.part == PartKind::List);
    pages.map(|page| page.number).collect()
}

fn assert_same(list: &List, memory: &mut Memory, model: &Model, sizes: ListSizes) {
    memory.away.clear();
    list.check(memory).expect("a whole list");
    assert_eq!(list.len(), model.len() as u64);
    assert_eq!(list.totals.elements, list.len());
    assert_eq!(list.totals.bytes, model.iter().map(|element| element.len() as u64).sum::<u64>());
    assert_eq!(list.page_ids().count(), memory.count(PartKind::List));
    assert_eq!(all(list, memory, 0), Ok(model.iter().map(Vec::as_slice).collect()));
    let labels = labels(memory);
    let long = model.iter().filter(|element| element.len() >= sizes.external_bytes).count();
    assert_eq!(memory.count(PartKind::External), long);
    let parts = list.parts();
    assert_eq!(
        parts.first().map(|part| (part.pages, part.a, part.b)),
        labels.first().map(|first| (labels.len() as u32, *first, labels[labels.len() - 1]))
    );
    let counts = parts.get(1).map_or(0, |part| part.pages as usize);
    assert_eq!(memory.count(PartKind::Counts), counts);
}

fn all<'l>(list: &List, memory: &'l Memory, from: u64) -> Result<Vec<&'l [u8]>, PageError> {
    let mut elements = Vec::new();
    list.each(memory, from..list.len(), |element| elements.push(element))?;
    Ok(elements)
}

/// The list as reopened from its descriptor.
fn reopened(list: &List, sizes: ListSizes) -> List {
    let (totals, parts) = (list.totals, list.parts());
    let descriptor = Descriptor {
        encoding: 4,
        flags: 0,
        collection: 1,
        totals,
        expire_at_ms: 0,
        seed: 0,
        parts,
        tail: Vec::new(),
    };
    let descriptor = Descriptor::decode(&descriptor.encoded()).expect("a whole descriptor");
    List::open(sizes, &descriptor).expect("a whole list")
}

fn history(seed: u64, sizes: ListSizes, operations: usize) {
    let mut random = Random::new(seed);
    let (mut memory, mut model, mut list) = (Memory::default(), Model::new(), List::new(sizes));
    let mut popped = Vec::new();
    for step in 0..operations {
        if random.is_one_in(20) {
            memory.send_away(&mut random, 3);
        }
        let grows = (step / 300) % 3 != 2;
        let (at, len) = (random.below(model.len() + 1), model.len());
        match random.below(if grows { 14 } else { 20 }) {
            18 | 19 => {
                let one_in = [2, 9, 70][random.below(3)];
                let gone: Vec<u64> = (0..len as u64).filter(|_| random.is_one_in(one_in)).collect();
                let missing = list.missing_to_change(&memory, &gone).expect("whole counts");
                missing.iter().for_each(|page| assert!(memory.away.remove(page)));
                let missing = list.missing_to_change(&memory, &gone).expect("whole counts");
                missing.iter().for_each(|page| assert!(memory.away.remove(page)));
                memory.run(|memory| list.remove_each(memory, &gone)).expect("removed");
                gone.iter().rev().for_each(|&index| drop(model.remove(index as usize)));
            }
            0..=2 => {
                let element = element(&mut random);
                memory.run(|memory| list.push(memory, End::Front, &element)).expect("pushed");
                model.push_front(element);
            }
            3..=5 => {
                let element = element(&mut random);
                memory.run(|memory| list.push(memory, End::Back, &element)).expect("pushed");
                model.push_back(element);
            }
            6..=8 => {
                let element = element(&mut random);
                assert_eq!(memory.run(|memory| list.insert(memory, at as u64, &element)), Ok(true));
                model.insert(at, element);
                let far = memory.run(|memory| list.insert(memory, len as u64 + 2, b"x"));
                assert_eq!(far, Ok(false));
            }
            9 | 10 => {
                let element = element(&mut random);
                let set = memory.run(|memory| list.set(memory, at as u64, &element));
                assert_eq!(set, Ok(at < len));
                if let Some(slot) = model.get_mut(at) {
                    *slot = element;
                }
            }
            11 => {
                let got = memory.run(|memory| Ok(list.get(memory, at as u64)?.map(<[u8]>::to_vec)));
                assert_eq!(got.as_ref().map(Option::as_ref), Ok(model.get(at)));
            }
            12 | 14 => {
                let got = memory.run(|memory| list.pop(memory, End::Front, &mut popped));
                assert_eq!(got, Ok(len > 0));
                assert_eq!(model.pop_front().as_ref(), (len > 0).then_some(&popped));
            }
            13 | 15 => {
                let got = memory.run(|memory| list.pop(memory, End::Back, &mut popped));
                assert_eq!(got, Ok(len > 0));
                assert_eq!(model.pop_back().as_ref(), (len > 0).then_some(&popped));
            }
            16 => {
                let most = if random.is_one_in(10) { len } else { 4 };
                let end = at + random.below(most);
                let range = at as u64..end as u64;
                memory.run(|memory| list.remove(memory, range.clone())).expect("removed");
                model.drain(at.min(len)..end.min(len));
            }
            _ => {
                let (start, end) = (random.below(5), len.saturating_sub(random.below(5)));
                let range = start as u64..end as u64;
                memory.run(|memory| list.trim(memory, range.clone())).expect("trimmed");
                model.truncate(end);
                model.drain(..start.min(end));
            }
        }
        if list.is_empty() {
            // Its owner deletes it, with the pages that it has left.
            (memory, list) = (Memory::default(), List::new(sizes));
        }
        let missing = list.missing(&memory, at as u64..at as u64 + 5).expect("whole pages");
        assert!(missing.iter().all(|page| memory.away.contains(page)));
        if step % 41 == 0 || step < 30 {
            assert_same(&list, &mut memory, &model, sizes);
        }
        if random.is_one_in(200) {
            list = if list.is_empty() { List::new(sizes) } else { reopened(&list, sizes) };
        }
    }
    assert_same(&list, &mut memory, &model, sizes);
    memory.run(|memory| list.trim(memory, 5..5)).expect("trimmed");
    assert!(list.is_empty() && list.parts().is_empty());
}

#[test]
fn a_list_does_what_a_deque_does() {
    for (seed, sizes) in SIZES.into_iter().enumerate() {
        history(seed as u64 + 1, sizes, 4000);
        history(seed as u64 + 101, sizes, 4000);
    }
}

/// What a search finds, whose pages come when it has missed them.
fn found(
    (list, memory): (&List, &mut Memory),
    (wanted, from): (&[u8], End),
    (compared_max, most): (u64, usize),
) -> Vec<u64> {
    let (mut search, mut found, mut compared) = (Search::new(from), Vec::new(), 0);
    loop {
        let ahead = search.ahead(list).next();
        let step = search.step((list, &*memory), (wanted, compared_max), |before| {
            found.push(before);
            found.len() < most
        });
        assert!(search.compared() >= compared, "it has gone back");
        compared = search.compared();
        match step {
            Ok(true) => {}
            Ok(false) => return found,
            Err(PageError::Missing(page)) => {
                if page.part == PartKind::External {
                    let long = search.long_ahead((list, &*memory), wanted).expect("a whole page");
                    assert!(long.contains(&page));
                } else {
                    assert_eq!(ahead, Some(page));
                }
                assert!(memory.away.remove(&page));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_search_goes_on_where_it_has_missed_a_page() {
    for (seed, sizes) in SIZES.into_iter().enumerate() {
        let mut random = Random::new(seed as u64 + 31);
        let (mut memory, mut list, mut model) = (Memory::default(), List::new(sizes), Vec::new());
        let words: Vec<Vec<u8>> =
            (0..9).map(|_| element(&mut random)).chain([vec![7; 600]]).collect();
        for _ in 0..1500 {
            let word = &words[random.below(words.len())];
            list.push(&mut memory, End::Back, word).expect("pushed");
            model.push(word.as_slice());
        }
        for _ in 0..300 {
            memory.send_away(&mut random, 2);
            let wanted = match random.below(8) {
                0 => b"none".as_slice(),
                _ => &words[random.below(words.len())],
            };
            let compared_max =
                if random.is_one_in(2) { random.below(1600) as u64 } else { u64::MAX };
            let most = if random.is_one_in(2) { 1 + random.below(90) } else { usize::MAX };
            let end = [End::Front, End::Back][random.below(2)];
            let elements: Vec<&[u8]> = match end {
                End::Front => model.clone(),
                End::Back => model.iter().rev().copied().collect(),
            };
            let compared = usize::try_from(compared_max).map_or(1500, |most| most.min(1500));
            let equal = (0..compared).filter(|&at| elements[at] == wanted).map(|at| at as u64);
            let expected: Vec<u64> = equal.take(most).collect();
            let got = found((&list, &mut memory), (wanted, end), (compared_max, most));
            assert_eq!(got, expected);
        }
    }
}

#[test]
fn an_insertion_into_a_full_page_spreads_over_its_neighbours_alone() {
    let (mut memory, mut list) = (Memory::default(), List::new(SIZES[3]));
    let mut model = Model::new();
    for n in 0..40_000_u32 {
        let element = n.to_string().into_bytes();
        list.push(&mut memory, End::Back, &element).expect("pushed");
        model.push_back(element);
    }
    let before = memory.count(PartKind::List);
    memory.away = memory.pages.keys().filter(|page| page.part == PartKind::List).copied().collect();
    for n in 0..5000_u32 {
        let element = (n * 7).to_string().into_bytes();
        memory.run(|memory| list.insert(memory, 20_000, &element)).expect("inserted");
        model.insert(20_000, element);
    }
    let brought = before - memory.away.len();
    assert!(brought < 30, "{brought} of {before} pages were needed");
    assert_eq!(memory.count(PartKind::List), before);
    assert_same(&list, &mut memory, &model, SIZES[3]);
    let longest = memory.pages.values().map(Vec::len).max();
    assert!(longest <= Some(8192), "{longest:?} bytes");
}

#[test]
fn a_queue_leaves_no_pages_behind() {
    let (mut memory, mut list) = (Memory::default(), List::new(SIZES[3]));
    let mut popped = Vec::new();
    for n in 0..50_000_u32 {
        list.push(&mut memory, End::Back, &n.to_le_bytes()).expect("pushed");
        if n >= 1000 {
            assert_eq!(list.pop(&mut memory, End::Front, &mut popped), Ok(true));
            assert_eq!(popped, (n - 1000).to_le_bytes());
        }
        assert!(memory.pages.len() <= 6, "{} pages", memory.pages.len());
    }
}

#[test]
fn pages_that_are_pushed_to_are_full() {
    for end in [End::Front, End::Back] {
        let (mut memory, mut list) = (Memory::default(), List::new(SIZES[3]));
        for _ in 0..10_000 {
            list.push(&mut memory, end, b"abc").expect("pushed");
        }
        assert_eq!(memory.count(PartKind::List), 10_000_usize.div_ceil((2048 - 4) / 5));
    }
}

#[test]
fn a_list_is_built_of_full_pages() {
    let elements: Vec<Vec<u8>> = (0..5000_u32).map(|n| n.to_string().into_bytes()).collect();
    let elements: Vec<&[u8]> = elements.iter().map(Vec::as_slice).collect();
    let mut memory = Memory::default();
    let list = List::build(&mut memory, SIZES[3], elements.iter().copied()).expect("built");
    list.check(&memory).expect("a whole list");
    assert_eq!(all(&list, &memory, 0), Ok(elements));
    let bytes: usize = memory.pages.values().map(Vec::len).sum();
    assert!(bytes / memory.pages.len() > 1800);
}

#[test]
fn a_page_that_is_inserted_into_is_cut_before_it_is_long() {
    let (mut memory, mut list) = (Memory::default(), List::new(SIZES[3]));
    let mut model = Model::new();
    for n in 0..6000_u32 {
        let at = (n / 2) as usize;
        let element = n.to_string().into_bytes();
        assert_eq!(list.insert(&mut memory, at as u64, &element), Ok(true));
        model.insert(at, element);
    }
    assert_same(&list, &mut memory, &model, SIZES[3]);
    let longest = memory.pages.values().map(Vec::len).max();
    assert!(longest <= Some(8192), "{longest:?} bytes");
}

#[test]
fn counts_lead_to_each_element_of_a_list_of_many_pages() {
    for end in [End::Front, End::Back] {
        let (mut memory, mut list) = (Memory::default(), List::new(SIZES[0]));
        for n in 0..9000_u32 {
            list.push(&mut memory, end, &n.to_le_bytes()).expect("pushed");
        }
        assert!(memory.count(PartKind::Counts) > 5);
        let nth = |n: u32| if end == End::Front { 8999 - n } else { n };
        for n in (0..9000).step_by(7) {
            let expected = nth(n).to_le_bytes();
            assert_eq!(list.get(&memory, u64::from(n)), Ok(Some(expected.as_slice())));
        }
        list.trim(&mut memory, 4000..4010).expect("trimmed");
        list.check(&memory).expect("a whole list");
        assert!(memory.pages.len() < 8, "{} pages", memory.pages.len());
    }
}

/// Some elements are named, the others are in the page.
fn stored(element: &[u8]) -> Stored<'_> {
    match element {
        [first, ..] if element.len() > 200 => {
            let bytes = element.len() as u32;
            Stored::External(Reference { id: u64::from(*first) << 50 | u64::from(bytes), bytes })
        }
        _ => Stored::Here(element),
    }
}

#[test]
fn a_page_is_changed_by_edits_alone() {
    let mut random = Random::new(9);
    let mut page = Replayed::new(&list_page::build(&[]));
    let mut model: Vec<Vec<u8>> = Vec::new();
    for _ in 0..5000 {
        let at = random.below(model.len() + 1);
        match random.below(4) {
            0 | 1 if model.len() < 40 => {
                let element = element(&mut random);
                list_page::insert(&mut page, at, stored(&element)).expect("a whole page");
                model.insert(at, element);
            }
            2 if at < model.len() => {
                let element = element(&mut random);
                list_page::set(&mut page, at, stored(&element)).expect("a whole page");
                model[at] = element;
            }
            _ => {
                let end = (at + random.below(3)).min(model.len());
                list_page::remove(&mut page, at..end).expect("a whole page");
                model.drain(at..end);
            }
        }
        let view = ListPage::parse(page.bytes()).expect("a whole page");
        view.check().expect("a whole page");
        assert_eq!(
            view.iter().collect::<Result<Vec<_>, _>>(),
            Ok(model.iter().map(|element| stored(element)).collect())
        );
    }
}

#[test]
fn damaged_pages_give_errors() {
    let mut errors = 0;
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let sizes = SIZES[seed as usize % 2];
        let (mut memory, mut list) = (Memory::default(), List::new(sizes));
        for _ in 0..30 {
            let element = vec![3; random.below(18)];
            list.push(&mut memory, End::Back, &element).expect("pushed");
        }
        memory.damage(&mut random);
        let mut note = |result: Option<PageError>| {
            assert!(!matches!(result, Some(PageError::Missing(_))));
            errors += usize::from(result.is_some());
        };
        note(list.check(&memory).err());
        for _ in 0..20 {
            if list.is_empty() {
                break;
            }
            let at = random.below(31) as u64;
            note(list.get(&memory, at).err());
            note(all(&list, &memory, at).err());
            note(list.missing(&memory, at..at + 9).err());
            note(list.insert(&mut memory, at, b"inserted").err());
            note(list.set(&mut memory, at, b"set").err());
            note(list.remove(&mut memory, at..at + 2).err());
            note(list.pop(&mut memory, End::Front, &mut Vec::new()).err());
            if !list.is_empty() {
                note(list.push(&mut memory, End::Front, b"pushed").err());
            }
            note(list.pop(&mut memory, End::Back, &mut Vec::new()).err());
        }
    }
    assert!(errors > 1500, "{errors} errors");
}
