use super::{Memory, Random, hash};
use crate::page::hash_page::{HashPage, PageKey};
use crate::page::inline;
use crate::page::list_page::{self, ListPage};
use crate::page::scores_page::ScoresPage;
use crate::page::store::PartKind;
use crate::page::{
    Descriptor, Hash, HashSizes, IntegerText, List, ListSizes, Put, PutScore, Score, Sorted,
    SortedSizes, Stored, Totals,
};

/// The root record of what has outgrown its own.
fn descriptor(totals: Totals, parts: impl Into<crate::page::Parts>) -> Descriptor {
    let own = Descriptor {
        encoding: 2,
        flags: 0,
        collection: 7,
        totals,
        expire_at_ms: 0,
        seed: 0,
        parts: parts.into(),
        tail: Vec::new(),
    };
    let mut value = Vec::new();
    own.encode_into(&mut value);
    Descriptor::decode(&value).expect("a descriptor")
}

#[test]
fn a_hash_begins_inline_outgrows_its_record_and_ends_empty() {
    for has_values in [false, true] {
        for integers in [false, true] {
            let mut page = inline::empty(PartKind::Hash, has_values);
            let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            let mut random = Random::new(u64::from(has_values) * 2 + u64::from(integers));
            while !inline::is_outgrown(&page) {
                let n = random.below(400);
                let key = if integers { n.to_string() } else { format!("key:{n}") }.into_bytes();
                let value = vec![b'v'; if has_values { random.below(9) } else { 0 }];
                let known = model.iter().position(|(other, _)| *other == key);
                if random.is_one_in(4) {
                    assert_eq!(inline::remove(&mut page, &key, &hash), Ok(known.is_some()));
                    known.map(|at| model.remove(at));
                } else {
                    let put = inline::put(&mut page, &key, &value, &hash);
                    assert_eq!(put, Ok(if known.is_some() { Put::Replaced } else { Put::New }));
                    match known {
                        Some(at) => model[at].1 = value,
                        None => model.push((key, value)),
                    }
                }
                let view = HashPage::parse(&page).expect("a whole page");
                view.check(&hash).expect("a whole page");
                assert_eq!(view.len(), model.len());
            }
            let mut memory = Memory::default();
            let built =
                Hash::of_page(&mut memory, HashSizes::default(), &page, &hash).expect("built");
            let root = descriptor(built.totals, vec![built.parts().0]);
            let part = root.part(PartKind::Hash).expect("the part");
            let mut table =
                Hash::open(has_values, HashSizes::default(), root.totals, part, None, None);
            assert_eq!(table, built);
            table.check(&memory, &hash).expect("a whole hash");
            for (key, value) in &model {
                assert_eq!(table.get(&memory, key, hash(key)), Ok(Some(value.as_slice())));
                assert_eq!(table.remove(&mut memory, (key, hash(key)), &hash), Ok(true));
            }
            assert_eq!(table.totals, Totals::default());
        }
    }
}

#[test]
fn an_inline_set_of_integers_answers_them_ascending() {
    let mut page = inline::empty(PartKind::Hash, false);
    for key in ["30", "-4", "1000", "7"] {
        inline::put(&mut page, key.as_bytes(), b"", &hash).expect("a whole page");
    }
    let keys =
        HashPage::parse(&page).expect("whole").entries().map(|entry| entry.expect("whole").0);
    assert_eq!(keys.collect::<Vec<_>>(), [-4, 7, 30, 1000].map(PageKey::Integer));
    assert_eq!(page.len(), 4 + 1 + 4 * 2);
    inline::put(&mut page, b"x", b"", &hash).expect("a whole page");
    let mut text = IntegerText::default();
    let view = HashPage::parse(&page).expect("whole");
    let last = view.entry(4).expect("whole").0;
    assert_eq!(last.bytes(&mut text), b"x");
}

#[test]
fn a_sorted_set_begins_inline_outgrows_its_record_and_ends_empty() {
    let mut page = inline::empty(PartKind::Scores, false);
    let mut model: Vec<(f64, Vec<u8>)> = Vec::new();
    let mut random = Random::new(4);
    while !inline::is_outgrown(&page) {
        let member = format!("member:{}", random.below(60)).into_bytes();
        let number = random.below(5) as f64;
        let score = Score::of(number).expect("a number");
        let known = model.iter().position(|(_, other)| *other == member);
        let old = known.map(|at| Score::of(model[at].0).expect("a number"));
        if random.is_one_in(4) {
            assert_eq!(inline::remove_member(&mut page, &member), Ok(old));
            known.map(|at| model.remove(at));
        } else {
            let expected = match old {
                None => PutScore::New,
                Some(old) if old == score => PutScore::Unchanged,
                Some(old) => PutScore::Moved(old),
            };
            assert_eq!(inline::put_score(&mut page, &member, score), Ok(expected));
            known.map(|at| model.remove(at));
            model.push((number, member.clone()));
        }
        model.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
        let view = ScoresPage::parse(&page).expect("a whole page");
        view.check().expect("a whole page");
        let members: Vec<_> = view.iter().map(|scored| scored.expect("whole")).collect();
        assert!(
            members
                .iter()
                .map(|(score, member)| (score.number(), *member))
                .eq(model.iter().map(|(number, member)| (*number, member.as_slice())))
        );
        let rank = model.iter().position(|(_, other)| *other == member);
        assert_eq!(inline::rank(&page, &member).expect("whole").map(|(rank, _)| rank), rank);
    }
    let (mut memory, sizes) = (Memory::default(), SortedSizes::default());
    let built = Sorted::of_page(&mut memory, sizes, &page, &hash).expect("built");
    let root = descriptor(built.totals, built.parts().expect("members").to_vec());
    let index = root.part(PartKind::Index).expect("the part");
    assert_eq!(index.a, root.totals.elements * 12);
    let mut set = Sorted::open(sizes, &root).expect("open");
    set.check(&memory, &hash).expect("a whole set");
    for (_, member) in &model {
        assert!(set.remove(&mut memory, member, hash(member)).expect("in memory").is_some());
    }
    assert!(set.is_empty() && set.parts().is_none());
}

#[test]
fn a_list_begins_inline_outgrows_its_record_and_ends_empty() {
    let mut page = inline::empty(PartKind::List, false);
    let mut model: Vec<Vec<u8>> = Vec::new();
    while !inline::is_outgrown(&page) {
        let element = model.len().to_string().into_bytes();
        list_page::insert(&mut page, model.len() / 2, Stored::Here(&element))
            .expect("a whole page");
        model.insert(model.len() / 2, element);
    }
    assert_eq!(ListPage::parse(&page).expect("whole").len(), model.len());
    let (mut memory, sizes) =
        (Memory::default(), ListSizes { page_bytes: 256, ..ListSizes::default() });
    let built = List::of_page(&mut memory, sizes, &page).expect("built");
    let root = descriptor(built.totals, built.parts());
    let mut list = List::open(sizes, &root).expect("open");
    let all: Result<Vec<&[u8]>, _> = list.iter(&memory, 0).expect("whole").collect();
    assert_eq!(all, Ok(model.iter().map(Vec::as_slice).collect()));
    list.remove(&mut memory, 0..u64::MAX).expect("in memory");
    assert!(list.is_empty() && list.parts().is_empty());
}

#[test]
fn an_inline_collection_has_its_page_behind_two_bytes() {
    let mut value = Vec::new();
    inline::encode_into(4, b"page", &mut value);
    assert_eq!(value, b"\x01\x04page");
    assert_eq!(inline::decode(&value), Ok((4, b"page".as_slice())));
    assert!(inline::decode(&[2, 0]).is_err() && inline::decode(&[1]).is_err());
}

#[test]
fn damaged_inline_pages_give_errors() {
    let mut errors = 0;
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let kind = [PartKind::Hash, PartKind::Scores, PartKind::List][seed as usize % 3];
        let has_values = random.is_one_in(2);
        let mut page = inline::empty(kind, has_values);
        for n in 0..random.below(40) {
            let text = n.to_string();
            let score = Score::of((n / 9) as f64).expect("a number");
            match kind {
                PartKind::Hash => drop(inline::put(
                    &mut page,
                    text.as_bytes(),
                    &b"abc"[..if has_values { 3 } else { 0 }],
                    &hash,
                )),
                PartKind::List => {
                    list_page::insert(&mut page, n / 2, Stored::Here(text.as_bytes()))
                        .expect("a whole page")
                }
                _ => drop(inline::put_score(&mut page, text.as_bytes(), score)),
            }
        }
        for _ in 0..=random.below(3) {
            let at = random.below(page.len());
            page[at] ^= 1 << random.below(8);
        }
        page.truncate(page.len() - if random.is_one_in(4) { random.below(page.len()) } else { 0 });
        let mut memory = Memory::default();
        let mut note = |failed: bool| errors += usize::from(failed);
        // Whatever the page is taken for.
        for n in 0..10 {
            let text = n.to_string();
            let text = text.as_bytes();
            let mut copies = [page.clone(), page.clone(), page.clone()];
            note(inline::put(&mut copies[0], text, b"value", &hash).is_err());
            note(inline::remove(&mut copies[0], text, &hash).is_err());
            note(
                inline::put_score(&mut copies[1], text, Score::of(1.0).expect("a number")).is_err(),
            );
            note(inline::remove_member(&mut copies[1], text).is_err());
            note(list_page::insert(&mut copies[2], n, Stored::Here(text)).is_err());
            note(list_page::set(&mut copies[2], n, Stored::Here(text)).is_err());
            note(list_page::remove(&mut copies[2], n..n + 2).is_err());
        }
        note(Hash::of_page(&mut memory, HashSizes::default(), &page, &hash).is_err());
        note(List::of_page(&mut memory, ListSizes::default(), &page).is_err());
        note(Sorted::of_page(&mut memory, SortedSizes::default(), &page, &hash).is_err());
    }
    assert!(errors > 1500, "{errors} errors");
}
