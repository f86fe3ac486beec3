//! Blocks that memory and memtable share: what changes in place, until when, and what takes it back (E1 to E3).

use super::crash::small_options;
use super::harness::{freeze, key, replay};
use crate::key::{Key, Meta};
use crate::memtable::MemtableKind;
use crate::page::{Descriptor, PageEdit, PageId, Pages, Part, PartKind};
use crate::store::*;
use sexton_persistence::device::sim::SimStorage;

const NAME: &[u8] = b"collection";
const META: Meta = Meta { flags: 4 | Meta::PAGED, expire_at_ms: 0 };

fn page(number: u64) -> PageId {
    PageId { part: PartKind::Hash, number }
}

fn descriptor(cid: u64, elements: u64) -> Descriptor {
    let part = Part { kind: PartKind::Hash, flags: 0, pages: 2, a: 0, b: 0 };
    let mut root = Descriptor::new(cid, 2);
    root.totals.elements = elements;
    root.set_part(part);
    root
}

/// A store with a collection of two pages, of one and of a hundred bytes of this value, and its number.
struct Fixture {
    engine: Engine,
    cid: u64,
    buf: TxBuf,
}

impl Fixture {
    fn new(memtable: MemtableKind) -> Self {
        let options = small_options(&SimStorage::new(), SyncPolicy::Always, false);
        let options = EngineOptions { memtable, memtable_bytes: 1 << 20, ..options };
        let (engine, _) = Engine::open(options, &mut replay).expect("a new store");
        let cid = engine.new_collection().expect("it takes pages");
        let mut fixture = Self { engine, cid, buf: TxBuf::default() };
        fixture.commit(|pages| {
            pages.add(page(0), b"a");
            pages.add(page(1), &[b'a'; 100]);
            1
        });
        fixture
    }

    fn root(engine: &Engine) -> Key<'static> {
        key(engine, 0, NAME)
    }

    fn begin<'f>(engine: &'f Engine, buf: &'f mut TxBuf) -> Tx<'f> {
        engine.begin(Latched::Hashes(&[Self::root(engine).hash]), buf)
    }

    /// One operation, which answers how many elements there are then.
    fn operate(tx: &mut Tx<'_>, cid: u64, change: impl FnOnce(&mut TxPages<'_, '_, '_>) -> u64) {
        let root = Self::root(tx.engine());
        let mut pages = tx.pages(root, cid);
        let elements = change(&mut pages);
        pages.put(META, &descriptor(cid, elements)).expect("it takes pages");
    }

    fn commit(&mut self, change: impl FnOnce(&mut TxPages<'_, '_, '_>) -> u64) {
        let mut tx = Self::begin(&self.engine, &mut self.buf);
        Self::operate(&mut tx, self.cid, change);
        tx.commit();
    }

    /// Both pages, and the elements of the descriptor.
    fn state(&mut self) -> (Vec<u8>, Vec<u8>, u64) {
        let mut tx = Self::begin(&self.engine, &mut self.buf);
        let root = Self::root(tx.engine());
        let Found::Live(entry) = tx.find(root) else { panic!("a root") };
        let elements = Descriptor::decode(entry.value()).expect("a descriptor").totals.elements;
        let pages = tx.pages(root, self.cid);
        let read = |number| pages.read(page(number)).expect("in memory").to_vec();
        (read(0), read(1), elements)
    }

    /// Like `state`, as of a snapshot.
    fn state_at(&self, snapshot: &Snapshot) -> (Vec<u8>, Vec<u8>, u64) {
        let root = snapshot.get(0, NAME).expect("readable").expect("a root");
        let elements = Descriptor::decode(&root.value).expect("a descriptor").totals.elements;
        let read = |number| {
            let found = snapshot.page(0, self.cid, page(number).into());
            found.expect("readable").expect("a page")
        };
        (read(0), read(1), elements)
    }

    fn records_bytes(&self) -> u64 {
        self.engine.stats().memtable_bytes
    }
}

fn append(pages: &mut TxPages<'_, '_, '_>, number: u64, bytes: &[u8]) {
    let mut edit = pages.edit(page(number)).expect("in memory");
    let end = edit.bytes().len();
    edit.splice(end..end, bytes);
}

#[test]
fn a_page_that_changes_again_in_its_epoch_has_one_record() {
    let mut fixture = Fixture::new(MemtableKind::Hash);
    let before = fixture.records_bytes();
    for elements in 2..20 {
        fixture.commit(|pages| {
            append(pages, 0, b"b");
            elements
        });
    }
    assert_eq!(fixture.records_bytes(), before);
    assert_eq!(fixture.state(), ([b"a".to_vec(), vec![b'b'; 18]].concat(), vec![b'a'; 100], 19));
    freeze(&fixture.engine);
    fixture.commit(|pages| {
        append(pages, 0, b"c");
        20
    });
    assert!(fixture.records_bytes() > 0, "the first change of another epoch");
    fixture.engine.abandon();
}

#[test]
fn a_page_that_outgrows_its_block_gets_another_one() {
    let mut fixture = Fixture::new(MemtableKind::Hash);
    for round in 1..=100_u64 {
        fixture.commit(|pages| {
            append(pages, 1, &[round as u8; 50]);
            // Once more in the operation, and behind the move.
            append(pages, 1, &[0]);
            append(pages, 0, b"b");
            round
        });
        let (first, second, elements) = fixture.state();
        assert_eq!((first.len() as u64, elements), (round + 1, round));
        assert_eq!(second.len() as u64, 100 + round * 51);
        assert_eq!(second[second.len() - 2..], [round as u8, 0]);
    }
    fixture.engine.abandon();
}

#[test]
fn a_snapshot_and_a_frozen_memtable_keep_what_there_was() {
    let mut fixture = Fixture::new(MemtableKind::Hash);
    let mut known = Vec::new();
    for round in 0..40_u64 {
        match round % 4 {
            0 => {
                let snapshot = fixture.engine.snapshot(SnapshotOptions::default());
                known.push((snapshot.expect("a snapshot"), fixture.state()));
            }
            // It is flushed later, and what is written then is what there was.
            1 => freeze(&fixture.engine),
            3 if round % 8 == 3 => fixture.engine.flush_now().expect("flushed"),
            _ => {}
        }
        fixture.commit(|pages| {
            append(pages, round % 2, &[round as u8]);
            pages.edit(page(1)).expect("in memory").write(round as usize, b"!");
            round + 2
        });
    }
    for (number, (snapshot, state)) in known.iter().enumerate() {
        assert_eq!(fixture.state_at(snapshot), *state, "snapshot {number}");
    }
    fixture.engine.abandon();
}

#[test]
fn what_was_changed_in_place_is_taken_back() {
    for memtable in [MemtableKind::Hash, MemtableKind::SkipList] {
        let mut fixture = Fixture::new(memtable);
        for round in 0..12_u64 {
            if round % 3 == 0 {
                freeze(&fixture.engine);
            }
            let before = fixture.state();
            let mut tx = Fixture::begin(&fixture.engine, &mut fixture.buf);
            for number in 0..2 {
                Fixture::operate(&mut tx, fixture.cid, |pages| {
                    append(pages, number, b"in place");
                    pages.edit(page(1)).expect("in memory").write(3, b"over");
                    append(pages, number, &[7; 90]);
                    99
                });
                Fixture::operate(&mut tx, fixture.cid, |pages| {
                    pages.edit(page(0)).expect("in memory").replace(b"short");
                    pages.remove(page(1));
                    pages.add(page(1), &[9; 40]);
                    append(pages, 1, &[8; 400]);
                    98
                });
            }
            // An operation that ends before it is written, behind those that are.
            let mut pages = tx.pages(Fixture::root(&fixture.engine), fixture.cid);
            append(&mut pages, 0, b"never");
            append(&mut pages, 1, &[6; 900]);
            drop(pages);
            let pages = tx.pages(Fixture::root(&fixture.engine), fixture.cid);
            assert_eq!(pages.read(page(0)), Ok(&b"short"[..]));
            assert_eq!(pages.read(page(1)).map(<[u8]>::len), Ok(440));
            drop(pages);
            drop(tx);
            assert_eq!(fixture.state(), before, "round {round}");
            fixture.commit(|pages| {
                append(pages, 1, b"+");
                round + 2
            });
        }
        fixture.engine.abandon();
    }
}

#[test]
fn another_expiry_of_a_collection_does_not_part_it_from_its_block() {
    let mut fixture = Fixture::new(MemtableKind::Hash);
    let mut tx = Fixture::begin(&fixture.engine, &mut fixture.buf);
    tx.set_meta(Fixture::root(&fixture.engine), Meta { expire_at_ms: u64::MAX / 2, ..META });
    tx.commit();
    let mut tx = Fixture::begin(&fixture.engine, &mut fixture.buf);
    let mut pages = tx.pages(Fixture::root(&fixture.engine), fixture.cid);
    append(&mut pages, 0, b"b");
    let meta = Meta { expire_at_ms: u64::MAX / 2, ..META };
    pages.put(meta, &descriptor(fixture.cid, 2)).expect("it takes pages");
    tx.commit();
    let snapshot = fixture.engine.snapshot(SnapshotOptions::default()).expect("a snapshot");
    assert_eq!(fixture.state_at(&snapshot), (b"ab".to_vec(), vec![b'a'; 100], 2));
    fixture.engine.abandon();
}

#[test]
fn changes_in_place_fill_the_memtable_by_their_log_bytes() {
    let mut fixture = Fixture::new(MemtableKind::Hash);
    let (engine, cid) = (fixture.engine.clone(), fixture.cid);
    let active = || engine.inner().views.superversion.load().active.clone();
    let (first, used) = (active(), active().used_bytes());
    for round in 1..=16 {
        let mut tx = Fixture::begin(&engine, &mut fixture.buf);
        Fixture::operate(&mut tx, cid, |pages| {
            pages.edit(page(0)).expect("in memory").write(0, b"z");
            round
        });
        // As long as a command with large arguments.
        tx.log(0, &[b'+'; 70_000]);
        tx.commit();
        assert_eq!(first.used_bytes(), used);
    }
    assert!(first.filled_bytes() >= 1 << 20);
    engine.abandon();
}

#[test]
fn a_page_that_is_held_stays_as_it_was() {
    for (memtable, settles) in
        [(MemtableKind::Hash, true), (MemtableKind::Hash, false), (MemtableKind::SkipList, true)]
    {
        let mut fixture = Fixture::new(memtable);
        if settles {
            fixture.engine.settle_pages();
        }
        let root = Fixture::root(&fixture.engine);
        let mut tx = Fixture::begin(&fixture.engine, &mut fixture.buf);
        let mut hold = |number| tx.hold_page(root, fixture.cid, page(number).into());
        let held = [0, 1].map(|number| hold(number).expect("in memory"));
        assert!(hold(2).is_none(), "there is no such page");
        tx.commit();
        for _ in 0..3 {
            fixture.commit(|pages| {
                append(pages, 0, b"more");
                pages.edit(page(1)).expect("in memory").write(7, b"other");
                1
            });
        }
        let (first, second, _) = fixture.state();
        assert!(first == b"amoremoremore" && second[7..12] == *b"other");
        assert!(*held[0] == *b"a" && *held[1] == [b'a'; 100]);
    }
}
