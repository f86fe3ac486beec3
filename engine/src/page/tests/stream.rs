use super::{Memory, Random};
use crate::page::store::{Damage, PageEdit, PartKind};
use crate::page::stream::{EntryId, Stream, StreamPage};
use crate::page::{Descriptor, PageError};
use std::collections::BTreeMap;

/// Bytes of a page that begins with this ID and has `entries` entries.
pub(super) fn payload(first: EntryId, entries: u32, rest: usize) -> Vec<u8> {
    let mut payload = first.to_le_bytes().to_vec();
    payload.extend_from_slice(&7_u32.to_le_bytes());
    payload.extend_from_slice(&entries.to_le_bytes());
    payload.extend_from_slice(&0_u32.to_le_bytes());
    payload.resize(payload.len() + rest, b'e');
    payload
}

/// Pages by the ID that they begin with.
#[derive(Default)]
struct Model {
    pages: BTreeMap<EntryId, Vec<u8>>,
}

impl Model {
    fn entries(&self) -> u64 {
        let pages = self.pages.values().map(|page| StreamPage::parse(page).expect("a page"));
        pages.map(|page| u64::from(page.entries())).sum()
    }

    fn bytes(&self) -> u64 {
        self.pages.values().map(Vec::len).sum::<usize>() as u64
    }
}

fn assert_same(stream: &Stream, memory: &mut Memory, model: &Model) {
    memory.away.clear();
    stream.check(memory).expect("a whole stream");
    assert_eq!(stream.len(), model.entries());
    assert_eq!(stream.totals.bytes, model.bytes());
    assert_eq!(stream.pages(), model.pages.len() as u64);
    for (at, (first, payload)) in model.pages.iter().enumerate() {
        let (_, page) = stream.at(memory, at as u64).expect("in memory");
        assert_eq!((page.first(), page.payload()), (*first, payload.as_slice()));
        assert_eq!(stream.position(memory, *first), Ok(at as u64));
        // A node keeps its bound when its first page goes.
        let before = stream.position(memory, *first - 1).expect("in memory");
        assert!(before == at as u64 || before + 1 == at as u64);
    }
    let last = stream.last(memory).expect("in memory").map(|(_, page)| page.payload());
    assert_eq!(last, model.pages.values().last().map(Vec::as_slice));
    let Some([own, nodes, _]) = stream.parts() else {
        assert!(model.pages.is_empty());
        return;
    };
    assert_eq!(memory.count(PartKind::Stream), own.pages as usize);
    assert_eq!(memory.count(PartKind::Nodes) * 2, nodes.pages as usize);
    assert_eq!(memory.count(PartKind::Counts) * 2, nodes.pages as usize);
}

pub(super) fn reopened(stream: &Stream) -> Stream {
    let descriptor = Descriptor {
        encoding: 5,
        flags: 0,
        collection: 1,
        totals: stream.totals,
        expire_at_ms: 0,
        seed: 0,
        parts: stream.parts().expect("entries").into(),
        tail: (0..40).collect(),
    };
    let root = descriptor.encoded();
    let read = Descriptor::decode(&root).expect("a descriptor");
    assert_eq!(read, descriptor);
    for len in 0..root.len() {
        assert!(Descriptor::decode(&root[..len]).is_err());
    }
    Stream::open(&read).expect("a stream")
}

/// Another count of entries, and more bytes.
fn change(page: &mut impl PageEdit, entries: u32, more: usize) {
    page.write(20, &entries.to_le_bytes());
    let end = page.bytes().len();
    page.splice(end..end, &vec![b'm'; more]);
}

fn history(seed: u64, operations: usize) {
    let mut random = Random::new(seed);
    let (mut memory, mut model, mut stream) =
        (Memory::default(), Model::default(), Stream::default());
    let mut last: EntryId = 1 << 64;
    for step in 0..operations {
        if random.is_one_in(20) {
            memory.send_away(&mut random, 3);
        }
        let grows = (step / 300) % 3 != 2;
        let count = model.pages.len();
        match random.below(if grows { 10 } else { 16 }) {
            0..=4 => {
                last += 1 + random.below(3) as u128 + ((random.below(3) as u128) << 64);
                let page = payload(last, 1 + random.below(9) as u32, random.below(40));
                memory.run(|memory| stream.push(memory, &page)).expect("pushed");
                model.pages.insert(last, page);
            }
            5 | 6 if count > 0 => {
                let at = if random.is_one_in(2) { count - 1 } else { random.below(count) };
                let (entries, more) = (1 + random.below(9) as u32, random.below(30));
                memory
                    .run(|memory| {
                        let (number, _) = stream.at(memory, at as u64)?;
                        stream.change(memory, number, |page| change(page, entries, more))
                    })
                    .expect("changed");
                let page = model.pages.values_mut().nth(at).expect("a page");
                change(page, entries, more);
            }
            7 | 8 => {
                let id = last - random.below(200) as u128;
                let before = model.pages.range(..=id).count().saturating_sub(1);
                let position = memory.run(|memory| stream.position(memory, id));
                let position = position.expect("whole");
                assert!(position == before as u64 || position == before as u64 + 1);
            }
            9 if count > 0 => {
                // From an end.
                let gone = 1 + random.below(count.min(4));
                let start = if random.is_one_in(2) { 0 } else { count - gone };
                let positions: Vec<u64> = (start..start + gone).map(|at| at as u64).collect();
                remove(&mut stream, &mut memory, &mut model, &positions);
            }
            10.. => {
                let positions: Vec<u64> =
                    (0..count as u64).filter(|_| random.is_one_in(count / 2 + 1)).collect();
                remove(&mut stream, &mut memory, &mut model, &positions);
            }
            _ => {}
        }
        if step % 41 == 0 || step < 30 {
            assert_same(&stream, &mut memory, &model);
        }
        if random.is_one_in(100) && !stream.is_empty() {
            stream = reopened(&stream);
        }
    }
    assert_same(&stream, &mut memory, &model);
    let mut other = Memory::default();
    let payloads = model.pages.values().map(Vec::as_slice);
    let built = Stream::build(&mut other, payloads).expect("built");
    assert_same(&built, &mut other, &model);
    let all: Vec<u64> = (0..stream.pages()).collect();
    remove(&mut stream, &mut memory, &mut model, &all);
    assert!(stream.is_empty() && stream.parts().is_none());
}

fn remove(stream: &mut Stream, memory: &mut Memory, model: &mut Model, positions: &[u64]) {
    memory.run(|memory| stream.remove(memory, positions)).expect("removed");
    let mut at = 0;
    model.pages.retain(|_, _| {
        at += 1;
        !positions.contains(&(at - 1))
    });
}

#[test]
fn a_stream_does_what_a_map_of_pages_does() {
    for seed in 1..15 {
        history(seed, 1500);
    }
}

#[test]
fn what_comes_in_at_the_end_touches_the_last_page_alone() {
    let mut memory = Memory::default();
    let mut stream = Stream::default();
    for n in 1..=1000 {
        stream.push(&mut memory, &payload(n, 1, 10)).expect("pushed");
    }
    let (number, _) = stream.last(&memory).expect("in memory").expect("a page");
    let own = crate::page::PageId { part: PartKind::Stream, number };
    memory.away.extend(memory.pages.keys().copied().filter(|page| *page != own));
    let (last, page) = stream.last(&memory).expect("in memory").expect("a page");
    assert_eq!((last, page.first()), (number, 1000));
    stream.change(&mut memory, number, |page| change(page, 2, 5)).expect("in memory");
    assert_eq!(stream.len(), 1001);
}

#[test]
fn a_page_that_does_not_ascend_is_refused() {
    let mut memory = Memory::default();
    let mut stream = Stream::default();
    stream.push(&mut memory, &payload(9, 1, 0)).expect("pushed");
    for bad in [payload(9, 1, 0), payload(8, 1, 0), vec![1; 27]] {
        assert!(matches!(stream.push(&mut memory, &bad), Err(PageError::Damaged { .. })));
    }
    let pages = [payload(3, 1, 0), payload(3, 1, 0)];
    let built = Stream::build(&mut Memory::default(), pages.iter().map(Vec::as_slice));
    assert!(built.is_err());
    let expected: Result<Stream, Damage> = Stream::open(&Descriptor {
        encoding: 5,
        flags: 0,
        collection: 1,
        totals: stream.totals,
        expire_at_ms: 0,
        seed: 0,
        parts: Default::default(),
        tail: Vec::new(),
    });
    assert!(expected.is_err());
}

#[test]
fn damaged_pages_give_errors() {
    let mut errors = 0;
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let (mut memory, mut stream) = (Memory::default(), Stream::default());
        let count = [3, 60][seed as usize % 2];
        for n in 1..=count {
            let id = n << 62;
            stream.push(&mut memory, &payload(id, 1 + n as u32 % 3, 12)).expect("whole");
        }
        memory.damage(&mut random);
        let mut note = |result: Option<PageError>| {
            assert!(!matches!(result, Some(PageError::Missing(_))));
            errors += usize::from(result.is_some());
        };
        note(stream.check(&memory).err());
        for round in 0..15 {
            let id = (random.below(count as usize + 2) as u128) << 62;
            let at = random.below(count as usize) as u64;
            note(stream.position(&memory, id).err());
            note(stream.at(&memory, at).err());
            note(stream.last(&memory).err());
            note(stream.missing(&memory, at..at + 3).err());
            note(stream.push(&mut memory, &payload(((count + round) << 62) + 5, 1, 0)).err());
            note(stream.remove(&mut memory, &[at]).err());
        }
    }
    assert!(errors > 1500, "{errors} errors");
}
