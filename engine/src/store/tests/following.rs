//! Operations of one transaction that follow one another on a collection.

use super::harness::{TempDir, get, key, open};
use crate::key::{Key, Meta};
use crate::page::{Descriptor, PageEdit, PageId, Pages, Part, PartKind, Totals};
use crate::store::*;

const META: Meta = Meta { flags: Meta::PAGED, expire_at_ms: 0 };

fn page(number: u64) -> PageId {
    PageId { part: PartKind::Hash, number }
}

/// The root of a collection of three pages with so many elements.
fn descriptor(cid: u64, elements: u64) -> Descriptor {
    let mut descriptor = Descriptor::new(cid, 0);
    descriptor.totals = Totals { elements, bytes: 8 };
    descriptor.set_part(Part { kind: PartKind::Hash, flags: 0, pages: 3, a: 8, b: 0 });
    descriptor
}

/// Operations of one transaction on one collection: what the one has changed in place the next one finds, whatever becomes of those between.
#[test]
fn operations_that_follow_one_another_find_what_those_before_have_left() {
    let dir = TempDir::new("paged-following");
    let engine = open(&dir, SyncPolicy::EverySec);
    let cid = engine.new_collection().expect("a store with pages");
    let root = key(&engine, 0, b"followed");
    let descriptor = descriptor(cid, 1);
    let mut buf = TxBuf::default();
    let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
    let put = |tx: &mut Tx<'_>, change: &dyn Fn(&mut TxPages<'_, '_, '_>)| {
        let mut pages = tx.pages(root, cid);
        change(&mut pages);
        pages.put(META, &descriptor).expect("put");
    };
    let drop_after = |tx: &mut Tx<'_>, change: &dyn Fn(&mut TxPages<'_, '_, '_>)| {
        change(&mut tx.pages(root, cid));
    };
    let see = |tx: &mut Tx<'_>, expected: [Option<&[u8]>; 3]| {
        let pages = tx.pages(root, cid);
        let found = [0, 1, 2].map(|number| pages.read(page(number)).ok());
        assert_eq!(found, expected);
    };
    put(&mut tx, &|pages| (0..3).for_each(|number| pages.add(page(number), b"....")));
    let write = |number: u64, bytes: &'static [u8]| {
        move |pages: &mut TxPages<'_, '_, '_>| {
            pages.edit(page(number)).expect("is there").write(0, bytes)
        }
    };
    put(&mut tx, &write(0, b"ab"));
    put(&mut tx, &write(1, b"c"));
    put(&mut tx, &write(0, b"d"));
    see(&mut tx, [Some(b"db.."), Some(b"c..."), Some(b"....")]);
    // Those that are given up leave what was there, with whatever change of a page that those before have changed.
    let (long, more) = ([b'x'; 5000], [b'y'; 40]);
    let given_up: [&dyn Fn(&mut TxPages<'_, '_, '_>); 5] = [
        &write(0, b"z"),
        &write(2, b"z"),
        &|pages| pages.edit(page(0)).expect("is there").splice(0..4, &long),
        &|pages| pages.remove(page(1)),
        &|pages| pages.add(page(1), b"anew"),
    ];
    for change in given_up {
        put(&mut tx, &write(0, b"d"));
        put(&mut tx, &write(1, b"c"));
        drop_after(&mut tx, change);
        see(&mut tx, [Some(b"db.."), Some(b"c..."), Some(b"....")]);
    }
    // One that gets another block, and one that goes.
    put(&mut tx, &|pages| pages.edit(page(0)).expect("is there").splice(2..4, &long));
    put(&mut tx, &write(0, b"e"));
    put(&mut tx, &|pages| pages.remove(page(1)));
    put(&mut tx, &write(2, b"f"));
    let whole = [&b"eb"[..], &long].concat();
    see(&mut tx, [Some(&whole), None, Some(b"f...")]);
    // Another collection in between, whose pages have the same names.
    let other = engine.new_collection().expect("a store with pages");
    tx.pages(root, other).add(page(2), b"other");
    put(&mut tx, &|pages| pages.edit(page(2)).expect("is there").splice(4..4, &more));
    let grown = [&b"f..."[..], &more].concat();
    see(&mut tx, [Some(&whole), None, Some(&grown)]);
    tx.commit();
    let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
    see(&mut tx, [Some(&whole), None, Some(&grown)]);
    drop_after(&mut tx, &write(2, b"g"));
    put(&mut tx, &write(2, b"h"));
    drop(tx);
    // All of it is taken back.
    let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
    see(&mut tx, [Some(&whole), None, Some(&grown)]);
}

/// What the root says, by a look-up. What the transaction has left of it says the same, if it says anything.
fn elements(tx: &mut Tx<'_>, root: Key<'_>) -> u64 {
    let found = match tx.find(root) {
        Found::Live(entry) => Descriptor::decode(entry.value()).expect("a descriptor"),
        _ => panic!("a root"),
    };
    if let Some((meta, left)) = tx.left_root(root) {
        assert_eq!((meta, left), (META, &found));
    }
    found.totals.elements
}

/// Writes a page and the root.
fn count(tx: &mut Tx<'_>, (root, cid): (Key<'_>, u64), elements: u64) {
    let mut pages = tx.pages(root, cid);
    pages.edit(page(elements % 3)).expect("is there").write(0, &[elements as u8]);
    pages.put(META, &descriptor(cid, elements)).expect("put");
}

/// A root that operations change one after the other is written over; what was there before the first of them comes back, and whatever else
/// writes it is seen.
#[test]
fn a_root_that_operations_have_left_is_what_a_look_up_finds() {
    let dir = TempDir::new("paged-left");
    let engine = open(&dir, SyncPolicy::EverySec);
    let (cid, other) = (engine.new_collection().expect("pages"), engine.new_collection());
    let other = other.expect("pages");
    let (root, plain) = (key(&engine, 0, b"left"), key(&engine, 0, b"plain"));
    let mut buf = TxBuf::default();
    let latched = Latched::Hashes(&[root.hash, plain.hash]);
    let mut tx = engine.begin(latched, &mut buf);
    let mut pages = tx.pages(root, cid);
    (0..3).for_each(|number| pages.add(page(number), b"...."));
    pages.put(META, &descriptor(cid, 1)).expect("put");
    assert!(tx.left_root(root).is_none(), "it has another block");
    let first = tx.commit();

    let mut tx = engine.begin(latched, &mut buf);
    assert!(tx.left_root(root).is_none(), "another transaction has written it");
    for elements in 2..=6 {
        count(&mut tx, (root, cid), elements);
        assert!(tx.left_root(root).is_some());
        assert_eq!(self::elements(&mut tx, root), elements);
    }
    // One that is given up, and one on another key.
    tx.pages(root, cid).edit(page(1)).expect("is there").write(0, b"zzzz");
    assert_eq!(elements(&mut tx, root), 6);
    tx.put(plain, Meta::default(), b"plain");
    assert!(tx.left_root(root).is_none() && tx.left_root(plain).is_none());
    assert_eq!(elements(&mut tx, root), 6);
    count(&mut tx, (root, cid), 7);
    count(&mut tx, (root, cid), 8);
    // A page that comes has an operation of its own.
    let mut pages = tx.pages(root, cid);
    pages.add(page(3), b"anew");
    pages.put(META, &descriptor(cid, 9)).expect("put");
    count(&mut tx, (root, cid), 10);
    assert_eq!(elements(&mut tx, root), 10);
    drop(tx);
    let mut tx = engine.begin(latched, &mut buf);
    assert!(tx.left_root(root).is_none(), "it was taken back");
    assert_eq!(elements(&mut tx, root), 1);
    {
        let pages = tx.pages(root, cid);
        let found = [0, 1, 2, 3].map(|number| pages.read(page(number)).ok());
        assert_eq!(found, [Some(&b"...."[..]), Some(b"...."), Some(b"...."), None]);
    }

    // Another expiry, another value, another collection.
    count(&mut tx, (root, cid), 2);
    count(&mut tx, (root, cid), 3);
    tx.set_meta(root, Meta { expire_at_ms: u64::MAX / 2, ..META });
    assert!(tx.left_root(root).is_none());
    count(&mut tx, (root, cid), 4);
    tx.put(root, Meta::default(), b"plain");
    assert!(tx.left_root(root).is_none());
    let mut pages = tx.pages(root, other);
    (0..3).for_each(|number| pages.add(page(number), b"...."));
    pages.put(META, &descriptor(other, 5)).expect("put");
    count(&mut tx, (root, other), 6);
    count(&mut tx, (root, other), 7);
    assert_eq!(elements(&mut tx, root), 7);
    let last = tx.commit();
    assert_eq!((last.operations, last.last_seq - first.last_seq), (8, 8));
    assert_eq!(elements(&mut engine.begin(latched, &mut buf), root), 7);
    assert!(get(&engine, 0, b"plain").is_none());
}
