//! Collections in pages as the tests know them, and what becomes of a large one. `paged_crash.rs` has their histories.

use super::harness::{self, TempDir, key};
use crate::iterator::Bounds;
use crate::key::{EngineKey, Meta};
use crate::page::{self, PageEdit, PageId, Pages, Part, PartKind, Totals};
use crate::store::read::view::ReaderGraves;
use crate::store::*;
use sexton_persistence::device::DiskStorage;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

/// Flags of a root whose content is in pages.
pub(super) const PAGED: u8 = 20;

/// The key of a large collection, whose pages are larger.
const LARGE: u8 = 200;

/// Elements of a page on average, above which there are more pages.
fn page_elements(name: &[u8]) -> u64 {
    if name == [LARGE] { 64 } else { 4 }
}

/// What a key has: a value, or elements with counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Plain(u8),
    Elements(BTreeMap<u32, u32>),
}

pub(super) type Model = BTreeMap<u8, State>;

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// The element's count rises by one. Replayed on another state it would bring another count (N1).
    Add(u8, u32),
    Remove(u8, u32),
    Delete(u8),
    /// A plain value, over whatever there is.
    Set(u8, u8),
    /// A collection gets another key, whose value goes.
    Rename(u8, u8),
    /// Another key gets a collection of its own with the same elements; its value goes.
    Copy(u8, u8),
    Flush,
}

impl Op {
    pub(super) fn encode(self) -> Vec<u8> {
        let (letter, key, number) = match self {
            Self::Add(key, element) => (b'A', key, element),
            Self::Remove(key, element) => (b'R', key, element),
            Self::Delete(key) => (b'D', key, 0),
            Self::Set(key, value) => (b'S', key, u32::from(value)),
            Self::Rename(from, to) => (b'N', from, u32::from(to)),
            Self::Copy(from, to) => (b'C', from, u32::from(to)),
            Self::Flush => (b'F', 0, 0),
        };
        [&[letter, key][..], &number.to_le_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Self {
        let number = u32::from_le_bytes(bytes[2..].try_into().expect("six bytes"));
        match bytes[0] {
            b'A' => Self::Add(bytes[1], number),
            b'R' => Self::Remove(bytes[1], number),
            b'D' => Self::Delete(bytes[1]),
            b'S' => Self::Set(bytes[1], number as u8),
            b'N' => Self::Rename(bytes[1], number as u8),
            b'C' => Self::Copy(bytes[1], number as u8),
            _ => Self::Flush,
        }
    }

    pub(super) fn key(self) -> Option<u8> {
        match self {
            Self::Add(key, _)
            | Self::Remove(key, _)
            | Self::Delete(key)
            | Self::Set(key, _)
            | Self::Rename(key, _)
            | Self::Copy(key, _) => Some(key),
            Self::Flush => None,
        }
    }

    /// The keys that it changes.
    fn keys(self) -> impl Iterator<Item = u8> {
        let to = match self {
            Self::Rename(_, to) | Self::Copy(_, to) => Some(to),
            _ => None,
        };
        self.key().into_iter().chain(to)
    }

    /// False when it changes nothing.
    pub(super) fn apply(self, model: &mut Model) -> bool {
        match self {
            Self::Add(key, element) => match model.get_mut(&key) {
                Some(State::Plain(_)) => return false,
                Some(State::Elements(all)) => *all.entry(element).or_default() += 1,
                None => drop(model.insert(key, State::Elements([(element, 1)].into()))),
            },
            Self::Remove(key, element) => {
                let Some(State::Elements(all)) = model.get_mut(&key) else { return false };
                if all.remove(&element).is_none() {
                    return false;
                }
                if all.is_empty() {
                    model.remove(&key);
                }
            }
            Self::Delete(key) => return model.remove(&key).is_some(),
            Self::Set(key, value) => drop(model.insert(key, State::Plain(value))),
            Self::Rename(from, to) => match model.get(&from) {
                Some(State::Elements(_)) if from != to => {
                    let state = model.remove(&from);
                    model.extend(state.map(|state| (to, state)));
                }
                _ => return false,
            },
            Self::Copy(from, to) => match model.get(&from) {
                Some(state @ State::Elements(_)) if from != to => {
                    let state = state.clone();
                    model.insert(to, state);
                }
                _ => return false,
            },
            Self::Flush => model.clear(),
        }
        true
    }
}

/// The root's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) cid: u64,
    pub(super) pages: u64,
    pub(super) count: u64,
}

impl Descriptor {
    pub(super) fn encode(self) -> Vec<u8> {
        let pages = u32::try_from(self.pages).expect("few pages");
        let part = Part { kind: PartKind::Hash, flags: 0, pages, a: 0, b: 0 };
        page::Descriptor {
            encoding: 0,
            flags: 0,
            collection: self.cid,
            totals: Totals { elements: self.count, bytes: 0 },
            expire_at_ms: 0,
            seed: 0,
            parts: [part].into(),
            tail: Vec::new(),
        }
        .encoded()
        .to_vec()
    }

    fn decode(value: &[u8]) -> Self {
        let found = page::Descriptor::decode(value).expect("a descriptor");
        let pages = found.parts[0].pages.into();
        Self { cid: found.collection, pages, count: found.totals.elements }
    }
}

pub(super) fn page_id(number: u64) -> PageId {
    PageId { part: PartKind::Hash, number }
}

/// Gives pages other contents, or takes them away, and writes the root: one operation.
pub(super) fn put_paged(
    tx: &mut Tx<'_>,
    root: crate::Key<'_>,
    cid: u64,
    (meta, descriptor): (Meta, &[u8]),
    contents: &[(PageId, Option<Vec<u8>>)],
) {
    let mut pages = tx.pages(root, cid);
    for (page, content) in contents {
        match content {
            None => pages.remove(*page),
            Some(content) => match pages.edit(*page) {
                Ok(mut edit) => edit.replace(content),
                Err(_) => pages.add(*page, content),
            },
        }
    }
    let descriptor = page::Descriptor::decode(descriptor).expect("a descriptor");
    pages.put(meta, &descriptor).expect("it takes pages");
}

fn elements_of(content: &[u8]) -> BTreeMap<u32, u32> {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
    content.chunks(8).map(|chunk| (word(&chunk[..4]), word(&chunk[4..]))).collect()
}

fn content_of<'a>(elements: impl Iterator<Item = (&'a u32, &'a u32)>) -> Vec<u8> {
    elements
        .flat_map(|(element, count)| [element.to_le_bytes(), count.to_le_bytes()].concat())
        .collect()
}

/// What has to be brought into memory.
pub(super) enum Cold {
    Root,
    Pages(u64, Vec<PageId>),
}

pub(super) fn descriptor(
    tx: &mut Tx<'_>,
    root: crate::Key<'_>,
) -> Result<Option<Result<Descriptor, u8>>, Cold> {
    tx.stays_with(root);
    let left = tx.left_root(root).map(|(meta, left)| (meta, left.encoded()));
    match tx.find(root) {
        Found::Cold => Err(Cold::Root),
        Found::Absent => Ok(None),
        Found::Live(entry) if entry.meta().flags == PAGED => {
            if let Some((meta, left)) = left {
                assert_eq!((entry.meta(), entry.value()), (meta, &left[..]));
            }
            Ok(Some(Ok(Descriptor::decode(entry.value()))))
        }
        Found::Live(entry) => Ok(Some(Err(entry.value()[0]))),
    }
}

fn read_pages(
    tx: &mut Tx<'_>,
    root: crate::Key<'_>,
    cid: u64,
    numbers: &[u64],
) -> Result<Vec<BTreeMap<u32, u32>>, Cold> {
    let (mut found, mut cold) = (Vec::new(), Vec::new());
    for &number in numbers {
        match tx.find_page(root, cid, page_id(number).into()) {
            FoundPage::Live(content) => found.push(elements_of(content)),
            FoundPage::Absent => panic!("page {number} of {cid} is missing"),
            FoundPage::Cold => cold.push(page_id(number)),
        }
    }
    if cold.is_empty() { Ok(found) } else { Err(Cold::Pages(cid, cold)) }
}

/// Writes all pages of a collection whose number of pages has changed, or those of `changed` elements.
fn write(
    tx: &mut Tx<'_>,
    root: crate::Key<'_>,
    old: Option<Descriptor>,
    element: u32,
    add: bool,
) -> Result<bool, Cold> {
    let engine = tx.engine();
    let was = old.unwrap_or_else(|| Descriptor {
        cid: engine.new_collection().expect("a cemetery and a log"),
        pages: 0,
        count: 0,
    });
    let of = |element: u32, pages: u64| u64::from(element) % pages.max(1);
    let own = of(element, was.pages);
    let mut content = match was.pages {
        0 => BTreeMap::new(),
        _ => read_pages(tx, root, was.cid, &[own])?.remove(0),
    };
    let known = content.contains_key(&element);
    if add {
        *content.entry(element).or_default() += 1;
    } else if content.remove(&element).is_none() {
        return Ok(false);
    }
    let count = was.count + u64::from(add && !known) - u64::from(!add);
    if count == 0 {
        return Ok(tx.delete(root));
    }
    let page_elements = page_elements(root.bytes);
    let pages = match was.pages {
        0 => 1,
        pages if count > page_elements * pages => 2 * pages,
        pages if pages > 1 && count * 4 < page_elements * pages => pages / 2,
        pages => pages,
    };
    let mut contents = BTreeMap::from([(own, content)]);
    if pages != was.pages && was.pages > 0 {
        let others: Vec<u64> = (0..was.pages).filter(|number| *number != own).collect();
        let all = read_pages(tx, root, was.cid, &others)?.into_iter().flatten();
        let all: BTreeMap<u32, u32> =
            all.chain(contents.remove(&own).unwrap_or_default()).collect();
        contents = (0..pages)
            .map(|number| {
                let here = all.iter().filter(|(element, _)| of(**element, pages) == number);
                (number, here.map(|(element, count)| (*element, *count)).collect())
            })
            .collect();
    }
    let contents: Vec<(PageId, Option<Vec<u8>>)> = contents
        .iter()
        .map(|(number, content)| (page_id(*number), Some(content_of(content.iter()))))
        .chain((pages..was.pages).map(|number| (page_id(number), None)))
        .collect();
    let now = Descriptor { cid: was.cid, pages, count }.encode();
    let meta = Meta { flags: PAGED, expire_at_ms: 0 };
    put_paged(tx, root, was.cid, (meta, &now), &contents);
    Ok(true)
}

/// A collection of its own for another key, with these elements.
fn copy_to(
    tx: &mut Tx<'_>,
    from: crate::Key<'_>,
    to: crate::Key<'_>,
    old: Descriptor,
) -> Result<(), Cold> {
    let numbers: Vec<u64> = (0..old.pages).collect();
    let contents = read_pages(tx, from, old.cid, &numbers)?;
    let pages = numbers.iter().zip(&contents);
    let pages = pages
        .map(|(number, elements)| (page_id(*number), content_of(elements.iter()).into()))
        .collect();
    let meta = Meta { flags: PAGED, expire_at_ms: 0 };
    let made = tx.engine().new_pages(0, pages);
    let cid = match &made {
        Ok(pages) => pages.collection(),
        Err(_) => tx.engine().new_collection().expect("a cemetery and a log"),
    };
    let descriptor = Descriptor { cid, ..old }.encode();
    match made {
        Ok(pages) => tx.put_new_pages(to, (meta, &descriptor), pages),
        Err(few) => tx.put_pages((to, cid), (meta, &descriptor), few),
    }
    .expect("it takes pages");
    Ok(())
}

fn run_op(tx: &mut Tx<'_>, op: Op) -> Result<bool, Cold> {
    let Some(name) = op.key() else { return Ok(tx.flush_database(0)) };
    let bytes = [name];
    let root = key(tx.engine(), 0, &bytes);
    let found = descriptor(tx, root)?;
    match (op, found) {
        (Op::Add(_, element), None) => write(tx, root, None, element, true),
        (Op::Add(_, element), Some(Ok(old))) => write(tx, root, Some(old), element, true),
        (Op::Remove(_, element), Some(Ok(old))) => write(tx, root, Some(old), element, false),
        (Op::Delete(_), Some(_)) => Ok(tx.delete(root)),
        (Op::Set(_, value), _) => {
            tx.put(root, Meta::default(), &[value]);
            Ok(true)
        }
        (Op::Rename(_, to), Some(Ok(old))) if to != name => {
            let target = [to];
            let target = key(tx.engine(), 0, &target);
            // The target may be cold, as that of a put.
            if tx.can_rename_paged(root, target) {
                tx.rename_paged(root, target);
            } else {
                copy_to(tx, root, target, old)?;
                tx.delete(root);
            }
            Ok(true)
        }
        (Op::Copy(_, to), Some(Ok(old))) if to != name => {
            let target = [to];
            copy_to(tx, root, key(tx.engine(), 0, &target), old)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

pub(super) fn bring(engine: &Engine, name: u8, cold: Cold) -> LoadPin {
    let bytes = [name];
    let root = key(engine, 0, &bytes);
    let owned = OwnedKey { slot: root.slot, bytes: vec![name], hash: root.hash };
    let (tell, told) = mpsc::channel();
    let done = move |result| drop(tell.send(result));
    match cold {
        Cold::Root => engine.load(vec![owned], u64::MAX, done),
        Cold::Pages(cid, pages) => {
            let pages: Vec<PageName> = pages.into_iter().map(PageName::from).collect();
            engine.load_pages(&owned, cid, &pages, u64::MAX, done)
        }
    }
    told.recv().expect("an answer").expect("a readable device")
}

pub(super) fn run(engine: &Engine, ops: &[Op]) -> Commit {
    let mut pins = Vec::new();
    let mut buf = TxBuf::default();
    'again: loop {
        let hashes: Vec<u64> =
            ops.iter().flat_map(|op| op.keys()).map(|key| engine.hash(&[key])).collect();
        let all = ops.iter().any(|op| op.key().is_none());
        let latched = if all { Latched::All } else { Latched::Hashes(&hashes) };
        let mut tx = engine.begin(latched, &mut buf);
        // Pages that are brought for the new key go when the rename runs again (E5): they are read where they are needed.
        let reads_here = ops.iter().any(|op| matches!(op, Op::Rename(..) | Op::Copy(..)));
        for op in ops {
            let mut done = run_op(&mut tx, *op);
            while let Err(Cold::Pages(cid, pages)) = &done
                && reads_here
            {
                let bytes = [op.key().expect("a key")];
                for page in pages {
                    let root = key(engine, 0, &bytes);
                    tx.bring_in_page(root, *cid, (*page).into()).expect("a readable device");
                }
                done = run_op(&mut tx, *op);
            }
            match done {
                Ok(true) => tx.log(0, &op.encode()),
                Ok(false) => {}
                Err(cold) => {
                    // Dropped: what was written before is taken back, pages included.
                    drop(tx);
                    pins.push(bring(engine, op.key().expect("a key"), cold));
                    continue 'again;
                }
            }
        }
        return tx.commit();
    }
}

pub(super) fn replay(engine: &Engine, group: ReplayGroup<'_>) -> Result<(), String> {
    let mut rest = group.commands;
    while !rest.is_empty() {
        if let Some(select) = rest.strip_prefix(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n") {
            rest = select;
            continue;
        }
        let (op, tail) = rest.split_at(6);
        rest = tail;
        run(engine, &[Op::decode(op)]);
    }
    Ok(())
}

/// The newest state of a key, by way of the DRAM table.
fn read(engine: &Engine, name: u8) -> Option<State> {
    let mut pins = Vec::new();
    loop {
        let mut buf = TxBuf::default();
        let bytes = [name];
        let root = key(engine, 0, &bytes);
        let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
        let state = descriptor(&mut tx, root).and_then(|found| match found {
            None => Ok(None),
            Some(Err(value)) => Ok(Some(State::Plain(value))),
            Some(Ok(of)) => {
                let numbers: Vec<u64> = (0..of.pages).collect();
                let pages = read_pages(&mut tx, root, of.cid, &numbers)?;
                let all: BTreeMap<u32, u32> = pages.into_iter().flatten().collect();
                assert_eq!(all.len() as u64, of.count, "the descriptor counts them");
                Ok(Some(State::Elements(all)))
            }
        });
        match state {
            Ok(state) => return state,
            Err(cold) => {
                drop(tx);
                pins.push(bring(engine, name, cold));
            }
        }
    }
}

pub(super) fn read_then(snapshot: &Snapshot, name: u8) -> Option<State> {
    let found = snapshot.get(0, &[name]).expect("readable")?;
    if found.meta.flags != PAGED {
        return Some(State::Plain(found.value[0]));
    }
    let of = Descriptor::decode(&found.value);
    let pages = (0..of.pages).map(|number| {
        let content = snapshot.page(0, of.cid, page_id(number).into()).expect("readable");
        elements_of(&content.expect("a page of a living collection"))
    });
    let all: BTreeMap<u32, u32> = pages.flatten().collect();
    assert_eq!(all.len() as u64, of.count, "the descriptor counts them");
    Some(State::Elements(all))
}

/// The pages that no grave covers, of collections by their name.
fn living_pages(engine: &Engine) -> BTreeMap<u64, u64> {
    let (view, _pin, namespaces) = engine.newest_view();
    let graves = ReaderGraves::new(engine, engine.has_graves());
    let mut head = Vec::new();
    let of = EngineKey::Element { namespace: namespaces[0], cid: 0, part: 0, page: b"" };
    of.encode_into(&mut head);
    head.truncate(9);
    let mut walk = view.walk(Bounds::of_prefix(&head)).keys_only(true);
    walk.seek(&head, &graves).expect("readable");
    let mut found = BTreeMap::new();
    while walk.valid() {
        let Some(EngineKey::Element { cid, .. }) = EngineKey::parse(walk.key()) else {
            panic!("{:?} is no page", walk.key());
        };
        *found.entry(cid).or_default() += 1;
        walk.next(&graves).expect("readable");
    }
    found
}

pub(super) fn compare(engine: &Engine, model: &Model, keys: u8) -> Result<(), String> {
    let mut collections = BTreeMap::new();
    let snapshot = engine.snapshot(SnapshotOptions::default()).expect("a snapshot");
    for name in 0..keys {
        let (now, then, expected) =
            (read(engine, name), read_then(&snapshot, name), model.get(&name));
        if now.as_ref() != expected || then.as_ref() != expected {
            return Err(format!("key {name}: {now:?} and {then:?}, not {expected:?}"));
        }
        if let Some(State::Elements(_)) = expected {
            let root = snapshot.get(0, &[name]).expect("readable").expect("it lives");
            let of = Descriptor::decode(&root.value);
            collections.insert(of.cid, of.pages);
        }
    }
    if engine.count(0).expect("readable") != model.len() as u64 {
        return Err("pages count as keys".into());
    }
    let scan = engine.scan(&ScanRange::default()).expect("scan");
    if scan.count() != model.len() {
        return Err("a scan sees pages".into());
    }
    // I4: a page of a collection that is gone would never leave.
    let living = living_pages(engine);
    if living == collections {
        return Ok(());
    }
    Err(format!("pages {living:?} live, the collections have {collections:?}"))
}

pub(super) fn open(dir: &TempDir) -> Engine {
    let options = harness::options(dir, Arc::new(DiskStorage), SyncPolicy::EverySec);
    let options = EngineOptions { memtable_bytes: 4 << 20, background: false, ..options };
    Engine::open(options, &mut replay).expect("a store that opens").0
}

#[test]
fn a_hundred_thousand_elements_come_one_by_one_and_go_at_once() {
    const MANY: u32 = 100_000;
    let dir = TempDir::new("paged");
    let engine = open(&dir);
    for element in 0..MANY {
        run(&engine, &[Op::Add(LARGE, element)]);
        if engine.must_wait() {
            engine.flush_now().expect("flush");
        }
    }
    let expected = State::Elements((0..MANY).map(|element| (element, 1)).collect());
    // Not compared by the macro, which would print them.
    let is_whole = |engine: &Engine| read(engine, LARGE).as_ref() == Some(&expected);
    assert!(is_whole(&engine));
    engine.sync_through(engine.last_seq()).expect("synced");
    engine.abandon();
    drop(engine);
    // As after a crash: replay from the mark.
    let engine = open(&dir);
    assert!(is_whole(&engine));
    let (seq, graves) = (engine.last_seq(), engine.stats().graves);
    let commit = run(&engine, &[Op::Delete(LARGE)]);
    assert_eq!((commit.operations, engine.last_seq()), (1, seq + 1));
    assert_eq!(engine.stats().graves, graves + 2, "the root's and that of its prefix");
    // What it leaves is not to be evicted once more.
    let (leaving, data) = (&engine.inner().graveyard.leaving_bytes, engine.data_bytes() as usize);
    let leave = leaving.load(Ordering::Relaxed);
    assert!(leave * 4 > data * 3 && leave <= data, "{leave} of {data} bytes leave");
    engine.note_evicts_keys(true);
    let memory = &engine.inner().memory;
    memory.data_bytes.store(data, Ordering::Relaxed);
    memory.room_bytes.store(data / 2, Ordering::Relaxed);
    assert!(!engine.over_bound(0) && engine.over_bound(data));
    let pages_in_memory = |engine: &Engine| -> usize {
        engine.inner().shards.iter().map(|shard| shard.latch().pages.len()).sum()
    };
    let held = engine.inner().memory.table_bound.held_bytes();
    assert!(pages_in_memory(&engine) > 1000);
    engine.sweep_dead_pages();
    let left = engine.inner().memory.table_bound.held_bytes();
    assert_eq!(pages_in_memory(&engine), 0);
    assert_eq!(engine.inner().graveyard.leaving_bytes.load(Ordering::Relaxed), 0);
    engine.note_evicts_keys(false);
    assert!(left * 2 < held, "{left} of {held} bytes in memory");
    run(&engine, &[Op::Add(LARGE, 7)]);
    engine.close().expect("close");
    drop(engine);
    let engine = open(&dir);
    assert_eq!(read(&engine, LARGE), Some(State::Elements([(7, 1)].into())));
    assert_eq!(living_pages(&engine).values().copied().collect::<Vec<_>>(), [1]);
    // Tables of which all is dead leave unread, the others are merged.
    while engine.compact_once().expect("compact") {}
    engine.sweep_graves();
    let entries: u64 =
        engine.inner().versions.current().tables().map(|(_, t)| t.properties().entries).sum();
    assert!(entries < 1000, "{entries} versions are left");
    engine.close().expect("close");
}

#[test]
fn a_store_that_has_no_cemetery_takes_no_pages() {
    let dir = TempDir::new("paged-tombstones");
    let engine =
        harness::open_as(&dir, SyncPolicy::EverySec, DeleteMode::Tombstones).expect("opens");
    assert!(engine.new_collection().is_err());
}

/// More pages than an operation keeps in mind where they are.
#[test]
fn an_operation_sees_what_it_has_made_of_many_pages() {
    const MANY: u64 = 500;
    let dir = TempDir::new("paged-many");
    let engine = open(&dir);
    let cid = engine.new_collection().expect("a store with pages");
    let root = key(&engine, 0, b"many");
    let mut buf = TxBuf::default();
    let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
    let mut pages = tx.pages(root, cid);
    let page = |number| PageId { part: PartKind::Hash, number };
    for number in 0..MANY {
        pages.add(page(number), &number.to_le_bytes());
    }
    for number in (0..MANY).step_by(3) {
        pages.remove(page(number));
    }
    for number in (0..MANY).step_by(5).filter(|number| number % 3 != 0) {
        pages.edit(page(number)).expect("was added").splice(0..4, b"changed");
    }
    for number in 0..MANY {
        let expected = match number {
            _ if number % 3 == 0 => None,
            _ if number % 5 == 0 => Some([&b"changed"[..], &number.to_le_bytes()[4..]].concat()),
            _ => Some(number.to_le_bytes().to_vec()),
        };
        assert_eq!(pages.read(page(number)).ok().map(<[u8]>::to_vec), expected, "{number}");
    }
}
