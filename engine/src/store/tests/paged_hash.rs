//! The hash of `page/` over the pages of the store: what its user does, with pages that come and go.

use super::harness::{self, TempDir, key};
use crate::key::{Key, Meta};
use crate::page::{Descriptor, Hash, HashSizes, PageError, PageId, Pages, PartKind, Stored, Times};
use crate::store::*;
use crate::table::key_hash;
use sexton_persistence::device::DiskStorage;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;

const NAME: &[u8] = b"hash";

/// Where a page has to come from.
enum Missed {
    Root,
    Page(u64, PageId),
}

fn hash_of(bytes: &[u8]) -> u64 {
    key_hash(bytes)
}

/// Root, descriptor and structure of the hash; `None` where there is none.
fn open_hash(tx: &mut Tx<'_>, root: Key<'_>) -> Result<Option<(Descriptor, Hash)>, Missed> {
    let found = match tx.find(root) {
        Found::Cold => return Err(Missed::Root),
        Found::Absent => return Ok(None),
        Found::Live(entry) => Descriptor::decode(entry.value()).expect("a descriptor"),
    };
    let part = found.part(PartKind::Hash).expect("its part");
    let times = Times::open(found.part(PartKind::Times), found.expire_at_ms);
    let hash = Hash::open(true, HashSizes::default(), found.totals, part, None, times);
    Ok(Some((found, hash)))
}

/// Runs an operation on the pages until none is missing that memory has.
fn over_pages<T>(
    tx: &mut Tx<'_>,
    root: Key<'_>,
    cid: u64,
    mut operation: impl FnMut(&mut TxPages<'_, '_, '_>) -> Result<T, PageError>,
    then: impl FnOnce(TxPages<'_, '_, '_>, T) -> bool,
) -> Result<bool, Missed> {
    let mut pages = tx.pages(root, cid);
    loop {
        match operation(&mut pages) {
            Ok(done) => return Ok(then(pages, done)),
            Err(PageError::Missing(page)) => {
                if !pages.bring(page).expect("a page that is named") {
                    return Err(Missed::Page(cid, page));
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn store_hash(pages: TxPages<'_, '_, '_>, hash: &Hash, mut descriptor: Descriptor) {
    descriptor.totals = hash.totals;
    descriptor.set_part(hash.parts().0);
    descriptor.expire_at_ms = hash.earliest_ms();
    let mut flags = 4 | Meta::PAGED;
    descriptor.drop_part(PartKind::Times);
    if hash.times.is_some() {
        descriptor.set_part(Times::part(hash.pages));
        flags = Meta::DUE_ELEMENTS | Meta::PAGED;
    }
    pages.put(Meta { flags, expire_at_ms: 0 }, &descriptor).expect("it takes pages");
}

/// When a field with this value is due; a function of the value, so that replay agrees.
fn due_of(value: &[u8]) -> u64 {
    value.first().map_or(0, |byte| u64::from(byte / 3 * 3) << 40)
}

/// Sets a field, or removes it.
fn change(
    tx: &mut Tx<'_>,
    root: Key<'_>,
    field: &[u8],
    value: Option<&[u8]>,
) -> Result<bool, Missed> {
    let of = hash_of(field);
    let found = open_hash(tx, root)?;
    let Some((descriptor, before)) = found else {
        let Some(value) = value else { return Ok(false) };
        let cid = tx.engine().new_collection().expect("a cemetery and a log");
        let mut pages = tx.pages(root, cid);
        let mut hash =
            Hash::build(&mut pages, true, HashSizes::default(), &[], &hash_of).expect("empty");
        hash.put_due(&mut pages, (field, of), (value, Some(due_of(value))), &hash_of)
            .expect("a page that was made");
        let descriptor = Descriptor {
            encoding: 2,
            flags: 0,
            collection: cid,
            totals: hash.totals,
            expire_at_ms: 0,
            seed: 0,
            parts: [hash.parts().0].into(),
            tail: Vec::new(),
        };
        store_hash(pages, &hash, descriptor);
        return Ok(true);
    };
    let cid = descriptor.collection;
    if let Some(value) = value {
        let put = |pages: &mut TxPages<'_, '_, '_>| {
            let mut hash = before.clone();
            let put = hash.put_due(pages, (field, of), (value, Some(due_of(value))), &hash_of);
            put.map(|_| hash)
        };
        return over_pages(tx, root, cid, put, |pages, hash| {
            store_hash(pages, &hash, descriptor);
            true
        });
    }
    if before.totals.elements == 1 {
        return Ok(tx.delete(root));
    }
    let remove = |pages: &mut TxPages<'_, '_, '_>| {
        let mut hash = before.clone();
        hash.remove(pages, (field, of), &hash_of).map(|removed| (removed, hash))
    };
    over_pages(tx, root, cid, remove, |pages, (removed, hash)| {
        if removed {
            store_hash(pages, &hash, descriptor);
        }
        removed
    })
}

fn bring(engine: &Engine, missed: Missed) -> LoadPin {
    let root = key(engine, 0, NAME);
    let owned = OwnedKey { slot: root.slot, bytes: NAME.to_vec(), hash: root.hash };
    let (tell, told) = mpsc::channel();
    let done = move |result| drop(tell.send(result));
    match missed {
        Missed::Root => engine.load(vec![owned], u64::MAX, done),
        Missed::Page(cid, page) => engine.load_pages(&owned, cid, &[page.into()], u64::MAX, done),
    }
    told.recv().expect("an answer").expect("a readable device")
}

/// One command of a log: `+ field length, field, value length, value` or `-` and the field.
fn encode(field: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    let with_len = |bytes: &[u8]| [&[bytes.len() as u8][..], bytes].concat();
    match value {
        Some(value) => [b"+".to_vec(), with_len(field), with_len(value)].concat(),
        None => [b"-".to_vec(), with_len(field)].concat(),
    }
}

fn run(engine: &Engine, field: &[u8], value: Option<&[u8]>) -> u64 {
    let (mut pins, mut misses) = (Vec::new(), 0);
    let mut buf = TxBuf::default();
    loop {
        let root = key(engine, 0, NAME);
        let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
        match change(&mut tx, root, field, value) {
            Ok(changed) => {
                if changed {
                    tx.log(0, &encode(field, value));
                }
                tx.commit();
                return misses;
            }
            Err(missed) => {
                drop(tx);
                misses += 1;
                pins.push(bring(engine, missed));
            }
        }
    }
}

fn replay(engine: &Engine, group: ReplayGroup<'_>) -> Result<(), String> {
    let take = |rest: &mut &[u8]| {
        let (len, tail) = rest.split_first().expect("a length");
        let (bytes, tail) = tail.split_at(usize::from(*len));
        *rest = tail;
        bytes.to_vec()
    };
    let mut rest = group.commands;
    while let Some((&kind, tail)) = rest.split_first() {
        if let Some(select) = rest.strip_prefix(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n") {
            rest = select;
            continue;
        }
        rest = tail;
        let field = take(&mut rest);
        let value = (kind == b'+').then(|| take(&mut rest));
        run(engine, &field, value.as_deref());
    }
    Ok(())
}

/// What a snapshot has of a hash.
#[derive(Default)]
struct Past(BTreeMap<PageId, Vec<u8>>);

impl Pages for Past {
    type Edit<'a> = &'a mut Vec<u8>;

    fn read(&self, page: PageId) -> Result<&[u8], PageError> {
        self.0.get(&page).map(Vec::as_slice).ok_or(PageError::Absent(page))
    }

    fn edit(&mut self, page: PageId) -> Result<&mut Vec<u8>, PageError> {
        self.0.get_mut(&page).ok_or(PageError::Absent(page))
    }

    fn add(&mut self, page: PageId, payload: &[u8]) {
        self.0.insert(page, payload.to_vec());
    }

    fn remove(&mut self, page: PageId) {
        self.0.remove(&page);
    }
}

fn fields(engine: &Engine) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let snapshot = engine.snapshot(SnapshotOptions::default()).expect("a snapshot");
    let Some(root) = snapshot.get(0, NAME).expect("readable") else { return BTreeMap::new() };
    let descriptor = Descriptor::decode(&root.value).expect("a descriptor");
    let part = descriptor.part(PartKind::Hash).expect("its part");
    let times = Times::open(descriptor.part(PartKind::Times), descriptor.expire_at_ms);
    let hash = Hash::open(true, HashSizes::default(), descriptor.totals, part, None, times);
    let (mut found, mut past) = (BTreeMap::new(), Past::default());
    for id in hash.page_ids().flat_map(|id| hash.blocks_over(id).chain([id])) {
        let page = snapshot.page(0, descriptor.collection, id.into()).expect("readable");
        past.add(id, &page.expect("a page that is named"));
    }
    hash.check(&past, &hash_of).expect("a whole hash");
    for id in hash.page_ids() {
        let page = past.read(id).expect("a page that is named");
        let view = crate::page::hash_page::HashPage::parse(page).expect("whole");
        for entry in view.entries() {
            let (field, value, due_ms) = entry.expect("whole");
            let mut text = Default::default();
            let Stored::Here(value) = value else { panic!("a value as short as these") };
            assert_eq!(due_ms, due_of(value));
            found.insert(field.bytes(&mut text).to_vec(), value.to_vec());
        }
    }
    assert_eq!(found.len() as u64, descriptor.totals.elements);
    found
}

fn open(dir: &TempDir) -> Engine {
    let options = harness::options(dir, Arc::new(DiskStorage), SyncPolicy::EverySec);
    let options = EngineOptions { memtable_bytes: 256 << 10, background: false, ..options };
    Engine::open(options, &mut replay).expect("a store that opens").0
}

#[test]
fn a_hash_over_the_pages_of_a_store_equals_a_map_through_eviction_and_restart() {
    let dir = TempDir::new("paged-hash");
    let mut model = BTreeMap::new();
    let (mut state, mut misses) = (0x9e37_79b9_7f4a_7c15, 0);
    for round in 0..3 {
        let engine = open(&dir);
        assert!(fields(&engine) == model, "round {round}");
        for step in 0..4000 {
            let bound = if step % 1000 < 500 { 2 << 10 } else { usize::MAX };
            engine.inner().memory.table_bound.set(bound);
            let field = format!("field:{:04}", harness::random(&mut state) % 1500).into_bytes();
            // Fewer and fewer in the last round.
            let removes = if round == 2 { 70 } else { 25 };
            let value = (harness::random(&mut state) % 100 >= removes)
                .then(|| vec![step as u8; (harness::random(&mut state) % 60) as usize]);
            misses += run(&engine, &field, value.as_deref());
            match value {
                Some(value) => drop(model.insert(field, value)),
                None => drop(model.remove(&field)),
            }
            if engine.must_wait() || step % 700 == 0 {
                engine.flush_now().expect("flush");
                while engine.compact_once().expect("compact") {}
                engine.sweep_graves();
            }
        }
        assert!(fields(&engine) == model, "round {round}");
        let log = engine.inner().write.log.load_full().expect("a log");
        log.sync_through(engine.last_seq()).expect("synced");
        drop(log);
        engine.abandon();
    }
    assert!(misses > 500, "{misses} pages came from a device");
    let engine = open(&dir);
    for field in model.keys() {
        run(&engine, field, None);
    }
    assert!(fields(&engine).is_empty() && engine.count(0).expect("readable") == 0);
    engine.close().expect("close");
}

#[test]
fn an_overwrite_of_a_cold_hash_that_nobody_reads_buries_its_pages() {
    let dir = TempDir::new("paged-blind");
    let engine = open(&dir);
    for n in 0..400 {
        run(&engine, format!("field:{n}").as_bytes(), Some(b"value"));
    }
    engine.flush_now().expect("flush");
    while engine.compact_once().expect("compact") {}
    engine.close().expect("close");
    let engine = open(&dir);
    assert!(engine.has_pages(), "the tables say so");
    let root = key(&engine, 0, NAME);
    let cid = {
        let snapshot = engine.snapshot(SnapshotOptions::default()).expect("a snapshot");
        let root = snapshot.get(0, NAME).expect("readable").expect("a hash");
        Descriptor::decode(&root.value).expect("a descriptor").collection
    };
    let mut buf = TxBuf::default();
    let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
    assert!(matches!(tx.find(root), Found::Cold));
    tx.put(root, Meta::default(), b"plain");
    tx.log(0, b"not replayed");
    tx.commit();
    let prefix = crate::key::element_head(engine.inner().namespaces.id_of(root.slot), cid);
    let grave = |engine: &Engine| {
        engine.inner().graveyard.elements.newest_at(&prefix, crate::key::Seq::MAX)
    };
    assert_eq!(grave(&engine), None, "nobody has looked yet");
    engine.flush_now().expect("flush");
    assert_eq!(grave(&engine), Some(engine.last_seq()), "the settling has");
    while engine.compact_once().expect("compact") {}
    let entries: u64 =
        engine.inner().versions.current().tables().map(|(_, t)| t.properties().entries).sum();
    assert!(entries < 40, "{entries} versions are left");
    engine.abandon();
}

#[test]
fn what_replaces_or_deletes_a_hash_in_memory_buries_its_pages_in_the_same_operation() {
    let dir = TempDir::new("paged-over");
    let engine = open(&dir);
    let root = key(&engine, 0, NAME);
    let mut buf = TxBuf::default();
    for kind in 0..3 {
        for n in 0..200 {
            run(&engine, format!("field:{n}").as_bytes(), Some(b"value"));
        }
        let before = (engine.last_seq(), engine.inner().graveyard.elements.len());
        let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
        match kind {
            0 => tx.put(root, Meta::default(), b"plain"),
            1 => assert!(tx.delete(root)),
            _ => {
                let commit = tx.commit_put(root, Meta::default(), b"plain", None, (0, b"-x"));
                assert_eq!(commit.operations, 1);
                let graves = engine.inner().graveyard.elements.len();
                assert_eq!((engine.last_seq(), graves), (before.0 + 1, before.1 + 1));
                continue;
            }
        }
        assert_eq!(tx.commit().operations, 1);
        let graves = engine.inner().graveyard.elements.len();
        assert_eq!((engine.last_seq(), graves), (before.0 + 1, before.1 + 1), "way {kind}");
        let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
        tx.delete(root);
        tx.commit();
    }
    engine.abandon();
}

#[test]
fn a_transaction_stages_a_page_once_however_often_it_changes_and_takes_all_back() {
    let dir = TempDir::new("paged-again");
    let engine = open(&dir);
    let root = key(&engine, 0, NAME);
    for n in 0..50 {
        run(&engine, format!("field:{n}").as_bytes(), Some(b"before"));
    }
    let before = fields(&engine);
    let mut buf = TxBuf::default();
    let work = |tx: &mut Tx<'_>, value: &[u8]| {
        for round in 0..200 {
            for n in 0..50 {
                let field = format!("field:{n}");
                // Some pages go, and come again.
                let value = (round % 9 != n % 9).then_some(value);
                let done = change(tx, root, field.as_bytes(), value);
                assert!(done.is_ok(), "all is in memory");
            }
        }
    };
    let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
    work(&mut tx, b"taken back");
    drop(tx);
    assert_eq!(fields(&engine), before);
    let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
    work(&mut tx, b"kept, and longer");
    let staged = engine.memory_parts().memtables;
    let commit = tx.commit();
    assert!(commit.operations > 9000, "each has a sequence of its own");
    let bytes = engine.memory_parts().memtables - staged;
    // The roots are most of it; whole pages would be five times that.
    assert!(bytes < u64::from(commit.operations) * 220, "{bytes} bytes");
    let all = fields(&engine);
    assert!(all.len() > 40 && all.values().all(|value| value == b"kept, and longer"));
    engine.flush_now().expect("flush");
    assert_eq!(fields(&engine), all);
    engine.abandon();
}
