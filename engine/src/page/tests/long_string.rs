use super::{Memory, Random};
use crate::page::Descriptor;
use crate::page::long_string::{EDITED_PAGE_BYTES as PAGE_BYTES, LongString, WRITTEN_PAGE_BYTES};
use crate::page::store::{PageError, PartKind};

fn descriptor_of(string: &LongString) -> Descriptor {
    let mut descriptor = Descriptor::new(1, 0);
    descriptor.totals = string.totals();
    descriptor.set_part(string.part());
    descriptor
}

fn reopened(string: &LongString) -> LongString {
    let value = descriptor_of(string).encoded();
    let descriptor = Descriptor::decode(&value).expect("a whole descriptor");
    LongString::open(&descriptor).expect("a whole string")
}

fn content(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next() as u8).collect()
}

fn read(
    string: &LongString,
    memory: &Memory,
    bytes: std::ops::Range<u64>,
) -> Result<Vec<u8>, PageError> {
    let mut all = Vec::new();
    string.each(memory, bytes, |piece| {
        assert!(!piece.is_empty() && piece.len() <= WRITTEN_PAGE_BYTES);
        all.extend_from_slice(piece);
    })?;
    Ok(all)
}

#[test]
fn a_string_is_what_was_written_into_it() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut memory = Memory::default();
        let first = 1 + random.below(3 * PAGE_BYTES);
        let mut model = content(&mut random, first);
        let page_bytes = [PAGE_BYTES, WRITTEN_PAGE_BYTES, 100, 8192][seed as usize % 4];
        let mut string = LongString::build(&mut memory, &model, page_bytes);
        for _ in 0..300 {
            if random.is_one_in(4) {
                memory.send_away(&mut random, 3);
            }
            let at = match random.below(8) {
                0..=2 => model.len(),
                3 => model.len() + random.below(3 * PAGE_BYTES),
                4 => model.len() / PAGE_BYTES * PAGE_BYTES,
                _ => random.below(model.len()),
            };
            let len = [0, 1, 9, PAGE_BYTES, 2 * PAGE_BYTES + 5][random.below(5)];
            let new = content(&mut random, len);
            let before = string.clone();
            memory
                .run(|memory| {
                    string = before.clone();
                    string.write(memory, at as u64, &new)
                })
                .expect("written");
            if !new.is_empty() {
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].copy_from_slice(&new);
            }
            let (start, len) = (random.below(model.len()), random.below(2 * PAGE_BYTES));
            let (from, to) = (start as u64, (start + len) as u64);
            string.missing(&memory, from..to).iter().for_each(|page| {
                assert!(memory.away.remove(page));
            });
            let end = model.len().min(start + len);
            assert_eq!(read(&string, &memory, from..to).as_deref(), Ok(&model[start..end]));
        }
        memory.away.clear();
        assert_eq!(reopened(&string), string);
        assert_eq!(string.bytes(), model.len() as u64);
        assert_eq!(memory.count(PartKind::Bytes) as u64, string.pages());
        assert_eq!(read(&string, &memory, 0..u64::MAX), Ok(model));
    }
}

#[test]
fn zeros_that_a_string_grows_by_take_no_room() {
    let mut memory = Memory::default();
    let mut string = LongString::build(&mut memory, b"begin", PAGE_BYTES);
    string.write(&mut memory, 100 * PAGE_BYTES as u64, b"end").expect("written");
    assert_eq!(memory.pages.values().map(Vec::len).sum::<usize>(), 8);
    assert_eq!(memory.pages.len(), 101);
    let all = read(&string, &memory, 0..u64::MAX).expect("read");
    assert_eq!(all.len(), 100 * PAGE_BYTES + 3);
    assert_eq!(all.iter().filter(|byte| **byte != 0).count(), 8);
}

#[test]
fn damaged_pages_and_descriptors_are_errors_or_other_bytes() {
    let mut random = Random::new(7);
    for _ in 0..2000 {
        let mut memory = Memory::default();
        let model = content(&mut random, 3 * PAGE_BYTES);
        let mut string = LongString::build(&mut memory, &model, PAGE_BYTES);
        memory.damage(&mut random);
        if let Ok(all) = read(&string, &memory, 0..u64::MAX) {
            assert_eq!(all.len(), model.len());
        }
        let _ = string.write(&mut memory, random.below(4 * PAGE_BYTES) as u64, b"patch");
    }
    let string = LongString::build(&mut Memory::default(), &[1; 5000], PAGE_BYTES);
    let mut wrong = descriptor_of(&string);
    wrong.totals.bytes = 9000;
    assert!(LongString::open(&wrong).is_err());
    wrong.totals.bytes = 0;
    assert!(LongString::open(&wrong).is_err());
    wrong.totals.bytes = 5000;
    for (a, is_right) in [(0, true), (5000, true), (4999, false), (1 << 16, true), (1 << 17, false)]
    {
        wrong.set_part(crate::page::Part { a, ..string.part() });
        let opened =
            Descriptor::decode(&wrong.encoded()).and_then(|found| LongString::open(&found));
        assert_eq!(opened.is_ok(), is_right, "pages of {a} bytes");
    }
}

#[test]
fn a_descriptor_without_a_size_of_pages_means_8192() {
    let mut memory = Memory::default();
    let model: Vec<u8> = (0..20_000).map(|at| (at / 3) as u8).collect();
    let string = LongString::build(&mut memory, &model, 8192);
    let mut first = descriptor_of(&string);
    first.set_part(crate::page::Part { a: 0, ..string.part() });
    let opened = LongString::open(&first).expect("a whole string");
    assert_eq!(opened, string);
    assert_eq!(read(&opened, &memory, 0..u64::MAX), Ok(model));
}
