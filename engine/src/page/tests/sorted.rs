use super::{Memory, Random, Replayed, hash};
use crate::page::list::End;
use crate::page::scores_page::{self, Cut, Scored, ScoresPage};
use crate::page::sorted::{PutScore, Sorted, SortedSizes};
use crate::page::store::{PageEdit, PartKind};
use crate::page::tree::CHILDREN_MAX;
use crate::page::{Descriptor, PageError, Score};
use std::collections::{BTreeMap, BTreeSet};

const fn sizes(page_bytes: usize, index_split: u64) -> SortedSizes {
    SortedSizes { page_bytes, index_split, index_merge: index_split / 3 }
}

const SIZES: [SortedSizes; 4] = [sizes(64, 3), sizes(200, 8), sizes(512, 32), sizes(1024, 32)];

/// Members by their order, and their scores.
#[derive(Default)]
struct Model {
    scores: BTreeMap<Vec<u8>, Score>,
    order: BTreeSet<(u64, Vec<u8>)>,
}

impl Model {
    fn put(&mut self, member: &[u8], score: Score) -> PutScore {
        let old = self.scores.get(member).copied();
        match old {
            Some(old) if old.order() == score.order() => return PutScore::Unchanged,
            Some(old) => {
                self.order.remove(&(old.order(), member.to_vec()));
            }
            None => {}
        }
        self.scores.insert(member.to_vec(), score);
        self.order.insert((score.order(), member.to_vec()));
        old.map_or(PutScore::New, PutScore::Moved)
    }

    fn remove(&mut self, member: &[u8]) -> Option<Score> {
        let old = self.scores.remove(member)?;
        self.order.remove(&(old.order(), member.to_vec()));
        Some(old)
    }

    fn all(&self) -> Vec<Scored<'_>> {
        self.order.iter().map(|(_, member)| (self.scores[member], member.as_slice())).collect()
    }

    fn count_before(&self, cut: Cut<'_>) -> u64 {
        self.order.iter().take_while(|(order, member)| cut.is_above(*order, member)).count() as u64
    }
}

fn member(random: &mut Random, space: usize) -> Vec<u8> {
    let n = random.below(space);
    let mut bytes = format!("member:{n}").into_bytes();
    match n % 60 {
        0 => bytes.resize(70_000, b'M'),
        1 => bytes.resize(241, b'm'),
        2 => bytes.clear(),
        3..20 => bytes = format!("{n}").into_bytes(),
        _ => {}
    }
    bytes
}

fn score(random: &mut Random, kind: usize) -> Score {
    let number = match (kind, random.below(10)) {
        (0, _) => 7.0,
        (1, 0) => -0.0,
        (1, 1) => 0.0,
        (1, 2) => f64::INFINITY,
        (1, 3) => f64::NEG_INFINITY,
        (1, n) => n as f64 - 6.0,
        (_, _) => (random.next() >> 40) as f64 / 16.0 - 300_000.0,
    };
    Score::of(number).expect("a number")
}

fn cut<'m>(random: &mut Random, score: Score, member: &'m [u8]) -> Cut<'m> {
    match random.below(4) {
        0 => Cut::BeforeScore(score),
        1 => Cut::BehindScore(score),
        2 => Cut::Before(score, member),
        _ => Cut::Behind(score, member),
    }
}

fn assert_same(set: &Sorted, memory: &mut Memory, model: &Model, hash: &impl Fn(&[u8]) -> u64) {
    memory.away.clear();
    set.check(memory, hash).expect("a whole set");
    let all = model.all();
    assert_eq!(set.len(), all.len() as u64);
    let bytes: u64 = all.iter().map(|(_, member)| member.len() as u64 + 8).sum();
    assert_eq!((set.totals.elements, set.totals.bytes), (all.len() as u64, bytes));
    let ascending: Result<Vec<_>, _> = set.iter(memory, 0).collect();
    assert_eq!(ascending.expect("no page is away"), all);
    let back: Result<Vec<_>, _> = set.iter_back(memory, set.len().saturating_sub(1)).collect();
    assert_eq!(back.expect("no page is away"), all.iter().rev().copied().collect::<Vec<_>>());
    for (rank, (score, member)) in all.iter().enumerate() {
        let found = set.rank(memory, member, hash(member));
        assert_eq!(found, Ok(Some((rank as u64, *score))));
    }
    let Some([index, order, nodes]) = set.parts() else { return };
    assert_eq!(memory.count(PartKind::Index), index.pages as usize);
    assert_eq!(memory.count(PartKind::Scores), order.pages as usize);
    assert_eq!(memory.count(PartKind::Nodes) * 2, nodes.pages as usize);
    assert_eq!(memory.count(PartKind::Counts) * 2, nodes.pages as usize);
}

fn reopened(set: &Sorted, sizes: SortedSizes) -> Sorted {
    let descriptor = Descriptor {
        encoding: 0,
        flags: 0,
        collection: 1,
        totals: set.totals,
        expire_at_ms: 0,
        seed: 0,
        parts: set.parts().expect("members").into(),
        tail: Vec::new(),
    };
    Sorted::open(sizes, &Descriptor::decode(&descriptor.encoded()).expect("a descriptor"))
        .expect("a sorted set")
}

fn history(seed: u64, sizes: SortedSizes, operations: usize, hash: impl Fn(&[u8]) -> u64) {
    let mut random = Random::new(seed);
    let (space, kind) = ([12, 120, 900][seed as usize % 3], random.below(3));
    let (mut memory, mut model, mut set) =
        (Memory::default(), Model::default(), Sorted::new(sizes));
    let mut popped = Vec::new();
    for step in 0..operations {
        if random.is_one_in(20) {
            memory.send_away(&mut random, 3);
        }
        let grows = (step / 400) % 3 != 2;
        let name = member(&mut random, space);
        let keyed = (name.as_slice(), hash(&name));
        match random.below(if grows { 12 } else { 20 }) {
            0..=5 => {
                let score = score(&mut random, kind);
                let put = memory.run(|memory| set.put(memory, keyed, score));
                assert_eq!(put, Ok(model.put(&name, score)));
            }
            6..=8 => {
                let score = score(&mut random, kind);
                let cut = cut(&mut random, score, &name);
                let count = memory.run(|memory| set.count_before(memory, cut));
                assert_eq!(count, Ok(model.count_before(cut)));
                let found = memory.run(|memory| set.score(memory, keyed.0, keyed.1));
                assert_eq!(found, Ok(model.scores.get(&name).copied()));
            }
            9 | 12..=16 => {
                let removed = memory.run(|memory| set.remove(memory, keyed.0, keyed.1));
                assert_eq!(removed, Ok(model.remove(&name)));
            }
            10 | 17 | 18 => {
                let end = if random.is_one_in(2) { End::Front } else { End::Back };
                let got =
                    memory.run(|memory| set.pop(memory, end, &hash, &mut popped)).expect("popped");
                let all = model.all();
                let expected = if end == End::Front { all.first() } else { all.last() };
                assert_eq!(got.map(|score| (score, popped.as_slice())).as_ref(), expected);
                if got.is_some() {
                    model.remove(&popped);
                }
            }
            _ => {
                let start = random.below(model.scores.len() + 2) as u64;
                let most = if random.is_one_in(20) { 300 } else { 8 };
                let end = start + random.below(most) as u64;
                let gone: Vec<Vec<u8>> = model
                    .all()
                    .iter()
                    .skip(start as usize)
                    .take((end - start) as usize)
                    .map(|(_, member)| member.to_vec())
                    .collect();
                let removed = memory.run(|memory| set.remove_range(memory, start..end, &hash));
                assert_eq!(removed, Ok(gone.len() as u64));
                for member in &gone {
                    model.remove(member);
                }
            }
        }
        if step % 61 == 0 || step < 30 {
            assert_same(&set, &mut memory, &model, &hash);
        }
        if random.is_one_in(200) && !set.is_empty() {
            set = reopened(&set, sizes);
        }
    }
    assert_same(&set, &mut memory, &model, &hash);
    let built = Sorted::build(&mut Memory::default(), sizes, &model.all(), &hash).expect("built");
    assert_eq!(built.totals, set.totals);
    memory.run(|memory| set.remove_range(memory, 0..u64::MAX, &hash)).expect("removed");
    assert!(set.is_empty() && set.parts().is_none());
}

#[test]
fn a_sorted_set_does_what_a_map_and_an_order_do() {
    for (seed, sizes) in SIZES.into_iter().enumerate() {
        for round in 0..3 {
            history(seed as u64 * 3 + round + 1, sizes, 1200, hash);
        }
    }
}

#[test]
fn members_with_one_fingerprint_are_told_apart() {
    let weak = |key: &[u8]| (hash(key) % 5) << 32;
    for (seed, sizes) in SIZES.into_iter().enumerate() {
        history(seed as u64 + 50, sizes, 800, weak);
    }
}

#[test]
fn a_built_set_is_whole() {
    for count in [0_u32, 1, 2, 3000] {
        for equal in [false, true] {
            let members: Vec<(Score, Vec<u8>)> = (0..count)
                .map(|n| {
                    let score = if equal { 1.0 } else { f64::from(n / 3) };
                    (Score::of(score).expect("a number"), format!("{n:06}").into_bytes())
                })
                .collect();
            let members: Vec<Scored<'_>> =
                members.iter().map(|(score, member)| (*score, member.as_slice())).collect();
            let mut memory = Memory::default();
            let set =
                Sorted::build(&mut memory, SortedSizes::default(), &members, &hash).expect("built");
            set.check(&memory, &hash).expect("a whole set");
            assert_eq!(set.iter(&memory, 0).collect::<Result<Vec<_>, _>>(), Ok(members));
        }
    }
}

#[test]
fn ascending_scores_leave_full_pages_and_nodes() {
    let (mut memory, mut set) = (Memory::default(), Sorted::new(SortedSizes::default()));
    for n in 0..5000_u32 {
        let member = format!("member:{n:013}").into_bytes();
        let score = Score::of(f64::from(n)).expect("a number");
        set.put(&mut memory, (&member, hash(&member)), score).expect("put");
    }
    let [_, order, nodes] = set.parts().expect("pages");
    assert_eq!(order.pages, 5000_u32.div_ceil((1024 - 4) / 31));
    let level = order.pages.div_ceil(CHILDREN_MAX as u32);
    let above = level.div_ceil(CHILDREN_MAX as u32);
    assert_eq!(nodes.pages, 2 * (level + above + 1));
    let index = memory.pages.iter().filter(|(page, _)| page.part == PartKind::Index);
    let bytes: usize = index.map(|(_, payload)| payload.len()).sum();
    assert!(bytes < 5000 * 13, "{bytes} bytes of index");
}

#[test]
fn a_set_that_loses_members_one_by_one_gives_pages_back() {
    let (mut memory, mut set) = (Memory::default(), Sorted::new(SortedSizes::default()));
    let mut members: Vec<_> =
        (0..5000_u32).map(|n| format!("member:{n:013}").into_bytes()).collect();
    for (n, member) in members.iter().enumerate() {
        let score = Score::of(n as f64).expect("a number");
        set.put(&mut memory, (member, hash(member)), score).expect("put");
    }
    let mut random = Random(7);
    for most in [105, 30, 10] {
        let left = members.len() / 4;
        while members.len() > left {
            let member = members.swap_remove(random.below(members.len()));
            set.remove(&mut memory, &member, hash(&member)).expect("remove");
        }
        set.check(&memory, &hash).expect("a whole set");
        let [_, order, _] = set.parts().expect("pages");
        assert!(order.pages <= most, "{} pages of {left} members", order.pages);
    }
}

#[test]
fn equal_scores_are_written_once_a_page() {
    let (mut memory, mut set) = (Memory::default(), Sorted::new(SortedSizes::default()));
    let score = Score::of(0.0).expect("a number");
    for n in 0..5000_u32 {
        let member = format!("{:020}", hash(&n.to_le_bytes()) >> 2).into_bytes();
        set.put(&mut memory, (&member, hash(&member)), score).expect("put");
    }
    set.check(&memory, &hash).expect("a whole set");
    let order = memory.pages.iter().filter(|(page, _)| page.part == PartKind::Scores);
    let bytes: usize = order.map(|(_, payload)| payload.len()).sum();
    assert!(bytes < 5000 * 24, "{bytes} bytes of order");
}

#[test]
fn a_scan_answers_what_stays_once_whatever_its_score() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (mut memory, mut set) = (Memory::default(), Sorted::new(SIZES[1]));
        let mut stays = BTreeMap::new();
        for n in 0..150 {
            let key = format!("stays:{n}").into_bytes();
            set.put(&mut memory, (&key, hash(&key)), score(&mut random, seed as usize % 3))
                .expect("put");
            stays.insert(key, 0);
        }
        let mut cursor = 0;
        loop {
            cursor = set
                .scan(&memory, cursor, &hash, |(_, key)| {
                    if let Some(seen) = stays.get_mut(key) {
                        *seen += 1;
                    }
                })
                .expect("in memory");
            if cursor == 0 {
                break;
            }
            for _ in 0..random.below(30) {
                let n = random.below(300);
                let key = if random.is_one_in(3) {
                    format!("stays:{}", n % 150)
                } else {
                    format!("goes:{n}")
                };
                let key = key.into_bytes();
                if random.is_one_in(2) && key[0] == b'g' {
                    set.remove(&mut memory, &key, hash(&key)).expect("in memory");
                } else {
                    set.put(&mut memory, (&key, hash(&key)), score(&mut random, 1))
                        .expect("in memory");
                }
            }
        }
        assert!(stays.values().all(|seen| *seen == 1), "{stays:?}");
    }
}

#[test]
fn a_page_of_the_order_is_changed_by_edits_alone() {
    for kind in 0..3 {
        let mut random = Random::new(kind as u64 + 1);
        let mut page = Replayed::new(&scores_page::build(&[]));
        let mut model = Model::default();
        for _ in 0..2000 {
            let name = member(&mut random, 60);
            let view = ScoresPage::parse(page.bytes()).expect("a whole page");
            match model.scores.get(&name) {
                Some(score) => {
                    let at = view.find(*score, &name).expect("a whole page").expect("the member");
                    scores_page::remove(&mut page, at).expect("a whole page");
                    model.remove(&name);
                }
                None => {
                    let score = score(&mut random, kind);
                    let most = view.bytes_with(score, name.len());
                    scores_page::insert(&mut page, score, &name).expect("a whole page");
                    let wide = 4 * (model.scores.len() + 1);
                    assert!(page.bytes().len() <= most + wide);
                    model.put(&name, score);
                }
            }
            let view = ScoresPage::parse(page.bytes()).expect("a whole page");
            view.check().expect("a whole page");
            assert_eq!(view.iter().collect::<Result<Vec<_>, _>>(), Ok(model.all()));
        }
    }
}

#[test]
fn damaged_pages_give_errors() {
    let mut errors = 0;
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let sizes = SIZES[seed as usize % 2];
        let kind = seed as usize % 3;
        let (mut memory, mut set) = (Memory::default(), Sorted::new(sizes));
        for _ in 0..[30, 120][seed as usize % 2] {
            let name = format!("{}", random.below(160)).into_bytes();
            set.put(&mut memory, (&name, hash(&name)), score(&mut random, kind)).expect("whole");
        }
        memory.damage(&mut random);
        let mut note = |result: Option<PageError>| {
            assert!(!matches!(result, Some(PageError::Missing(_))));
            errors += usize::from(result.is_some());
        };
        note(set.check(&memory, &hash).err());
        for _ in 0..15 {
            let name = format!("{}", random.below(60)).into_bytes();
            let keyed = (name.as_slice(), hash(&name));
            let score = score(&mut random, kind);
            let at = random.below(31) as u64;
            note(set.rank(&memory, keyed.0, keyed.1).err());
            note(set.count_before(&memory, Cut::Before(score, &name)).err());
            note(set.iter(&memory, at).find_map(Result::err));
            note(set.iter_back(&memory, at).find_map(Result::err));
            note(set.scan(&memory, random.next() >> 16, &hash, |_| {}).err());
            note(set.put(&mut memory, keyed, score).err());
            note(set.remove(&mut memory, keyed.0, keyed.1).err());
            note(set.remove_range(&mut memory, at..at + 2, &hash).err());
            note(set.pop(&mut memory, End::Front, &hash, &mut Vec::new()).err());
        }
    }
    assert!(errors > 1500, "{errors} errors");
}

#[test]
fn index_pages_that_are_away_are_split_when_changes_bring_what_is_overdue() {
    let mut memory = Memory::default();
    let mut set = Sorted::build(&mut memory, sizes(512, 8), &[], &hash).expect("built");
    for n in 0..2000_u32 {
        let index = memory.pages.keys().filter(|page| page.part == PartKind::Index).copied();
        memory.away = index.collect();
        let overdue: Vec<_> = set.overdue_splits(1).collect();
        assert!(overdue.iter().all(|page| memory.away.remove(page)), "{overdue:?}");
        let member = n.to_string();
        let keyed = (member.as_bytes(), hash(member.as_bytes()));
        memory.away.remove(&set.index_page_of(keyed.1));
        set.put(&mut memory, keyed, Score::of(n.into()).expect("a number"))
            .expect("what it asked for is there");
    }
    let index_pages = memory.count(PartKind::Index);
    assert!(set.overdue_splits(usize::MAX).count() <= 1, "{index_pages} pages");
    memory.away.clear();
    set.check(&memory, &hash).expect("a whole set");
}
