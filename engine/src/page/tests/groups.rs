use super::stream::{payload, reopened};
use super::{Memory, Random};
use crate::page::stream::{EntryId, GroupChange, PendingChange, PendingEntry, Stream, StreamGroup};
use crate::page::{PageError, PageId, PartKind};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    last_id: EntryId,
    entries_read: Option<u64>,
    /// When they were seen.
    consumers: BTreeMap<Vec<u8>, u64>,
    /// Whose it is, when it was delivered, and how often.
    pending: BTreeMap<EntryId, (Vec<u8>, u64, u64)>,
}

type Model = BTreeMap<Vec<u8>, Group>;

impl Group {
    fn change(&self, pending: Vec<PendingChange>) -> GroupChange {
        GroupChange {
            last_id: self.last_id,
            entries_read: self.entries_read,
            consumers: self.consumers.iter().map(|(name, seen)| (name.clone(), *seen)).collect(),
            pending,
        }
    }

    fn put(&self, id: EntryId) -> PendingChange {
        let (consumer, delivered_ms, deliveries) = &self.pending[&id];
        let consumer = self.consumers.keys().position(|name| name == consumer).expect("there");
        let (delivered_ms, deliveries) = (*delivered_ms, *deliveries);
        PendingChange::Put(PendingEntry { id, consumer: consumer as u32, delivered_ms, deliveries })
    }

    fn all(&self) -> Vec<PendingChange> {
        self.pending.keys().map(|id| self.put(*id)).collect()
    }
}

/// What an operation names as missing it has missed.
fn named<T>(done: T, missing: &[PageId]) -> Result<T, PageError> {
    missing.first().map_or(Ok(done), |page| Err(PageError::Missing(*page)))
}

fn write(stream: &mut Stream, memory: &mut Memory, name: &[u8], change: &GroupChange) {
    memory
        .run(|memory| {
            let mut missing = Vec::new();
            stream.change_group(memory, name, change, &mut missing)?;
            named((), &missing)
        })
        .expect("changed");
}

fn group(stream: &Stream, memory: &Memory, name: &[u8]) -> StreamGroup {
    stream.group(memory, name).expect("in memory").expect("a group")
}

fn found(stream: &Stream, memory: &Memory, group: &StreamGroup) -> Group {
    let head = &group.head;
    let consumer = |number| {
        let found = head.consumers.iter().find(|own| own.number == number);
        found.expect("a consumer").name.clone()
    };
    let mut pending = BTreeMap::new();
    let walk = stream.walk_pending(memory, group, 0, |own| {
        let PendingEntry { id, delivered_ms, deliveries, .. } = own;
        pending.insert(id, (consumer(own.consumer), delivered_ms, deliveries));
        true
    });
    walk.expect("in memory");
    Group {
        last_id: head.last_id,
        entries_read: head.entries_read,
        consumers: head.consumers.iter().map(|own| (own.name.clone(), own.seen_ms)).collect(),
        pending,
    }
}

fn assert_same(stream: &Stream, memory: &mut Memory, model: &Model) {
    memory.away.clear();
    stream.check(memory).expect("a whole stream");
    let mut missing = Vec::new();
    let groups = stream.groups(memory, &mut missing).expect("in memory");
    assert!(missing.is_empty());
    assert!(groups.iter().map(|group| &group.name).eq(model.keys()));
    for group in &groups {
        let wanted = &model[&group.name];
        assert_eq!(&found(stream, memory, group), wanted);
        let ids = || wanted.pending.keys().copied();
        assert_eq!(stream.pending_ends(memory, group), Ok(ids().next().zip(ids().last())));
        assert_eq!(stream.group_last_id(memory, &group.name), Ok(Some(wanted.last_id)));
        for own in &group.head.consumers {
            let of_own = wanted.pending.iter().filter(|(_, pending)| pending.0 == own.name);
            let (mut ids, from) = (Vec::new(), wanted.last_id / 2);
            let walk = stream.walk_pending_of(memory, group, (own.number, from), |id| {
                ids.push(id);
                Ok(true)
            });
            walk.expect("in memory");
            assert!(of_own.clone().map(|(id, _)| *id).filter(|id| *id >= from).eq(ids));
            assert_eq!(own.pending, of_own.count() as u64);
        }
    }
    let of_groups = [PartKind::Groups, PartKind::Pending, PartKind::PendingOf];
    let pages: usize = of_groups.map(|part| memory.count(part)).iter().sum();
    let nodes = memory.count(PartKind::Nodes) + memory.count(PartKind::Counts);
    let [_, own, groups] = stream.parts().expect("entries");
    assert_eq!(pages + nodes, groups.pages as usize + own.pages as usize);
}

/// A stream with entries, which has pages.
fn stream(memory: &mut Memory) -> Stream {
    let mut stream = Stream::default();
    for n in 1..=20 {
        stream.push(memory, &payload(n << 60, 2, 9)).expect("whole");
    }
    stream
}

/// IDs of neighbours, some of which are there.
fn some_ids(random: &mut Random, group: &Group) -> Vec<EntryId> {
    let skipped = random.below(group.pending.len() + 1);
    let ids = group.pending.keys().copied().skip(skipped);
    let (one_in, most) = (1 + random.below(3), [1, 1, 3, 90][random.below(4)]);
    ids.filter(|_| random.is_one_in(one_in)).take(most).collect()
}

fn history(seed: u64, operations: usize) {
    let mut random = Random::new(seed);
    let mut memory = Memory::default();
    let mut stream = stream(&mut memory);
    let mut model = Model::new();
    for step in 0..operations {
        if random.is_one_in(20) {
            memory.send_away(&mut random, 3);
        }
        let name = vec![b"a".to_vec(), b"b".to_vec(), vec![b'c'; 300]].swap_remove(random.below(3));
        let consumer = format!("{}", random.below(4)).into_bytes();
        let seen_ms = random.next();
        let grows = (step / 200) % 3 != 2;
        let Some(own) = model.get_mut(&name) else {
            let own = Group { last_id: EntryId::from(random.next()) << 60, ..Group::default() };
            let change = own.change(Vec::new());
            memory.run(|memory| stream.add_group(memory, &name, &change)).expect("new");
            model.insert(name, own);
            continue;
        };
        let mut ids: Vec<EntryId> = Vec::new();
        match random.below(if grows { 10 } else { 16 }) {
            0..=4 => {
                // New ones behind all others, mostly.
                own.consumers.insert(consumer.clone(), seen_ms);
                for _ in 0..[1, 1, 1, 40][random.below(4)] {
                    own.last_id += 1 + (random.below(3) as u128) * 7;
                    ids.push(own.last_id);
                    own.pending.insert(own.last_id, (consumer.clone(), seen_ms, 1));
                }
                own.entries_read = Some(own.entries_read.unwrap_or(0) + 1);
            }
            5 | 6 => {
                // Another consumer gets some, and some between those that are pending.
                own.consumers.insert(consumer.clone(), seen_ms);
                ids = some_ids(&mut random, own);
                ids.extend(ids.first().map(|id| id + 3).filter(|id| !ids.contains(id)));
                ids.sort_unstable();
                for id in &ids {
                    own.pending.insert(*id, (consumer.clone(), seen_ms, 2));
                }
            }
            7 => {
                own.consumers.insert(consumer, seen_ms);
                own.entries_read = None;
            }
            8 if random.is_one_in(8) => {
                memory
                    .run(|memory| {
                        let mut missing = Vec::new();
                        stream.remove_group(memory, &name, &mut missing)?;
                        named((), &missing)
                    })
                    .expect("removed");
                model.remove(&name);
                continue;
            }
            9 if random.is_one_in(4) => {
                own.consumers.remove(&consumer);
                let of_own = own.pending.iter().filter(|(_, pending)| pending.0 == consumer);
                ids = of_own.map(|(id, _)| *id).collect();
                own.pending.retain(|_, pending| pending.0 != consumer);
            }
            _ => {
                ids = some_ids(&mut random, own);
                ids.extend(ids.last().map(|id| id + 1).filter(|id| !own.pending.contains_key(id)));
                own.pending.retain(|id, _| !ids.contains(id));
            }
        }
        let pending = ids.iter().map(|id| match own.pending.contains_key(id) {
            true => own.put(*id),
            false => PendingChange::Remove(*id),
        });
        let change = own.change(pending.collect());
        write(&mut stream, &mut memory, &name, &change);
        if step % 31 == 0 || step < 20 {
            assert_same(&stream, &mut memory, &model);
        }
        if random.is_one_in(100) {
            stream = reopened(&stream);
        }
    }
    assert_same(&stream, &mut memory, &model);
    for (name, own) in &model {
        memory.run(|memory| stream.remove_group(memory, name, &mut Vec::new())).expect("removed");
        memory
            .run(|memory| stream.add_group(memory, name, &own.change(own.all())))
            .expect("added with all at once");
    }
    assert_same(&stream, &mut memory, &model);
}

#[test]
fn groups_do_what_maps_do() {
    for seed in 1..25 {
        history(seed, 1200);
    }
}

/// A group with `entries` pending entries of two consumers, taking turns.
fn filled(memory: &mut Memory, entries: u64) -> (Stream, Group) {
    let (mut stream, mut own) = (stream(memory), Group::default());
    for name in [b"one", b"two"] {
        own.consumers.insert(name.to_vec(), 5);
    }
    for n in 1..=entries {
        let name = if n % 2 == 0 { b"one" } else { b"two" };
        own.pending.insert(EntryId::from(n) << 64, (name.to_vec(), n, 1));
    }
    stream.add_group(memory, b"g", &own.change(own.all())).expect("whole");
    (stream, own)
}

#[test]
fn a_change_of_a_large_group_touches_a_few_small_pages() {
    let mut memory = Memory::default();
    let (mut stream, mut own) = filled(&mut memory, 10_000);
    let ids = [10_001_u64, 5_000, 9_999, 1].map(|id| EntryId::from(id) << 64);
    for (at, id) in ids.into_iter().enumerate() {
        let before = memory.pages.clone();
        let change = if at < 2 {
            own.pending.insert(id, (b"two".to_vec(), 9, 1));
            own.put(id)
        } else {
            own.pending.remove(&id);
            PendingChange::Remove(id)
        };
        write(&mut stream, &mut memory, b"g", &own.change(vec![change]));
        let is_other = |page: &&PageId| before.get(page) != memory.pages.get(page);
        let changed: Vec<_> = memory.pages.keys().filter(is_other).collect();
        let bytes: usize = changed.iter().map(|page| memory.pages[page].len()).sum();
        // The group's own, one or two in each order, and nodes with their counts where one of those is new.
        assert!(changed.len() <= 12 && bytes < 1500, "{changed:?}: {bytes} bytes");
    }
    stream.check(&memory).expect("whole");
    assert_eq!(found(&stream, &memory, &group(&stream, &memory, b"g")), own);
}

#[test]
fn an_entry_that_is_not_pending_leads_no_other_to_its_page() {
    let mut memory = Memory::default();
    let (mut stream, mut own) = filled(&mut memory, 200);
    let (first, last) = (*own.pending.keys().next().expect("one"), 150 << 64);
    // The first change is none, and its place is pages before that of the second.
    own.pending.remove(&last);
    let change = own.change(vec![PendingChange::Remove(first + 1), PendingChange::Remove(last)]);
    write(&mut stream, &mut memory, b"g", &change);
    stream.check(&memory).expect("whole");
    assert_eq!(found(&stream, &memory, &group(&stream, &memory, b"g")), own);
}

#[test]
fn what_ascends_as_it_comes_fills_its_pages() {
    let mut memory = Memory::default();
    let (mut stream, mut own) = filled(&mut memory, 0);
    for n in 1..=2000_u64 {
        let id = EntryId::from(n) << 64;
        own.pending.insert(id, ([b"one", b"two"][n as usize % 2].to_vec(), n, 1));
        write(&mut stream, &mut memory, b"g", &own.change(vec![own.put(id)]));
    }
    stream.check(&memory).expect("whole");
    for (part, row_bytes) in [(PartKind::Pending, 36), (PartKind::PendingOf, 20)] {
        let least = 2000_usize.div_ceil(256 / row_bytes);
        assert!(memory.count(part) <= least * 11 / 10, "{} pages", memory.count(part));
    }
}

/// What is away is not joined, so nodes may be left with a single child, down to the last page.
#[test]
fn a_group_whose_entries_are_acknowledged_leaves_no_pages_behind() {
    for seed in 1..10 {
        let (mut random, mut memory) = (Random::new(seed), Memory::default());
        let (mut stream, mut own) = filled(&mut memory, 1000);
        while !own.pending.is_empty() {
            memory.send_away(&mut random, 2);
            let from = if seed % 2 == 0 { 0 } else { random.below(own.pending.len()) };
            let ids = own.pending.keys().copied().skip(from).take([1, 9, 400][seed as usize % 3]);
            let ids: Vec<EntryId> = ids.collect();
            own.pending.retain(|id, _| !ids.contains(id));
            let gone = ids.into_iter().map(PendingChange::Remove).collect();
            write(&mut stream, &mut memory, b"g", &own.change(gone));
            if random.is_one_in(50) || own.pending.len() < 30 {
                memory.away.clear();
                stream.check(&memory).expect("whole");
            }
        }
        assert_eq!(memory.count(PartKind::Pending) + memory.count(PartKind::PendingOf), 0);
        assert_eq!(memory.count(PartKind::Groups), 2);
    }
}

#[test]
fn what_would_leave_an_entry_without_a_consumer_is_refused() {
    let mut memory = Memory::default();
    let (mut stream, mut own) = filled(&mut memory, 10);
    own.consumers.remove(b"two".as_slice());
    let before = memory.pages.clone();
    let refused = stream.change_group(&mut memory, b"g", &own.change(Vec::new()), &mut Vec::new());
    assert!(matches!(refused, Err(PageError::Damaged { .. })));
    let nobody = PendingEntry { id: 1, consumer: 1, delivered_ms: 0, deliveries: 1 };
    let change = own.change(vec![PendingChange::Put(nobody)]);
    assert!(stream.change_group(&mut memory, b"g", &change, &mut Vec::new()).is_err());
    assert!(stream.add_group(&mut memory, b"g", &own.change(Vec::new())).is_err());
    assert_eq!(memory.pages, before);
}

#[test]
fn damaged_pages_of_groups_give_errors() {
    let mut errors = 0;
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let mut memory = Memory::default();
        let (mut stream, own) = filled(&mut memory, [5, 60][seed as usize % 2]);
        // Those of entries are damaged elsewhere.
        let entries: Vec<PageId> =
            memory.pages.keys().copied().filter(|page| page.part == PartKind::Stream).collect();
        let kept: Vec<_> =
            entries.into_iter().filter_map(|page| memory.pages.remove_entry(&page)).collect();
        memory.damage(&mut random);
        memory.pages.extend(kept);
        let mut note = |result: Option<PageError>| {
            assert!(!matches!(result, Some(PageError::Missing(_))));
            errors += usize::from(result.is_some());
        };
        note(stream.check(&memory).err());
        for round in 0..12_u64 {
            let mut missing = Vec::new();
            let id = EntryId::from(1 + random.next() % 60) << 64;
            note(stream.groups(&memory, &mut missing).err());
            note(stream.group_last_id(&memory, b"g").err());
            if let Ok(Some(found)) = stream.group(&memory, b"g") {
                note(stream.pending(&memory, &found, id).err());
                note(stream.pending_ends(&memory, &found).err());
                note(stream.walk_pending(&memory, &found, id, |_| true).err());
                let of_one = (0, id);
                note(stream.walk_pending_of(&memory, &found, of_one, |_| Ok(true)).err());
                let one = (Some(1), id..=id + 9);
                note(stream.missing_pending(&memory, &found, one, 30, &mut missing).err());
            }
            let new = PendingEntry { id: id + 1, consumer: 0, delivered_ms: 0, deliveries: round };
            let pending = vec![PendingChange::Remove(id), PendingChange::Put(new)];
            let change = own.change(pending);
            note(stream.change_group(&mut memory, b"g", &change, &mut missing).err());
            if round == 10 {
                note(stream.remove_group(&mut memory, b"g", &mut missing).err());
            }
        }
    }
    assert!(errors > 1500, "{errors} errors");
}
