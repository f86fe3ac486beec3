//! Collections whose pages were made ready before the latches were taken. Their histories are among those of `paged_crash.rs`.

use super::harness::{TempDir, key};
use super::paged::{Descriptor, Model, Op, PAGED, compare, descriptor, open, page_id, run};
use crate::key::Meta;
use crate::store::shard::shard_of;
use crate::store::*;

const KEYS: u8 = 4;

/// A store with a large collection under key 0, and its descriptor.
fn bench() -> (TempDir, Engine, Model, Descriptor) {
    let dir = TempDir::new("new-pages");
    let engine = open(&dir);
    let mut model = Model::new();
    for element in 0..60 {
        let op = Op::Add(0, element);
        op.apply(&mut model);
        run(&engine, &[op]);
    }
    let root = root_of(&engine, 0);
    (dir, engine, model, root)
}

fn root_of(engine: &Engine, name: u8) -> Descriptor {
    let (bytes, mut buf) = ([name], TxBuf::default());
    let root = key(engine, 0, &bytes);
    let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
    let Ok(Some(Ok(found))) = descriptor(&mut tx, root) else { panic!("no collection") };
    found
}

/// The pages of key 0, ready for another collection, and its descriptor.
fn made(engine: &Engine) -> (NewPages, Vec<u8>) {
    let (bytes, mut buf) = ([0], TxBuf::default());
    let root = key(engine, 0, &bytes);
    let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
    let Ok(Some(Ok(old))) = descriptor(&mut tx, root) else { panic!("no collection") };
    let pages: Vec<(crate::page::PageId, HeldPage)> = (0..old.pages)
        .map(|number| {
            let page = page_id(number);
            (page, tx.hold_page(root, old.cid, page.into()).expect("in memory"))
        })
        .collect();
    drop(tx);
    let pages = engine.new_pages(0, pages).expect("many");
    let descriptor = Descriptor { cid: pages.collection(), ..old }.encode();
    (pages, descriptor)
}

/// Gives key `to` what was made.
fn put(engine: &Engine, to: u8, (pages, descriptor): (NewPages, Vec<u8>), commits: bool) {
    let (bytes, mut buf) = ([to], TxBuf::default());
    let root = key(engine, 0, &bytes);
    let mut tx = engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
    let meta = Meta { flags: PAGED, expire_at_ms: 0 };
    tx.put_new_pages(root, (meta, &descriptor), pages).expect("it takes pages");
    tx.log(0, &Op::Copy(0, to).encode());
    if commits {
        assert_eq!(tx.commit().operations, 1);
    }
}

fn own_tables(engine: &Engine, name: u8) -> usize {
    let shard = &engine.inner().shards[shard_of(engine.hash(&[name]))];
    shard.latch().pages.own_tables().len()
}

fn check(engine: &Engine, model: &Model) {
    compare(engine, model, KEYS).unwrap_or_else(|text| panic!("{text}"));
}

/// What files have leaves memory.
fn evict(engine: &Engine) {
    let inner = engine.inner();
    inner.memory.table_bound.set(0);
    inner.shards.iter().for_each(|shard| engine.keep_within_bound(&mut shard.latch()));
    inner.memory.table_bound.set(usize::MAX);
}

#[test]
fn pages_that_were_made_ready_are_those_of_a_collection_like_any_other() {
    let (dir, engine, mut model, _) = bench();
    let earlier = engine.snapshot(SnapshotOptions::default()).expect("a snapshot");
    run(&engine, &[Op::Add(1, 3)]);
    put(&engine, 1, made(&engine), true);
    Op::Copy(0, 1).apply(&mut model);
    check(&engine, &model);
    assert!(!engine.inner().graveyard.elements.is_empty(), "what was replaced is buried");
    // The blocks of another collection and of no epoch: a change makes others.
    for op in [Op::Add(1, 7), Op::Remove(1, 8), Op::Add(0, 9)] {
        op.apply(&mut model);
        run(&engine, &[op]);
    }
    check(&engine, &model);
    assert!(earlier.get(0, &[1]).expect("read").is_none(), "it was not there");
    drop(earlier);
    engine.flush_now().expect("flush");
    evict(&engine);
    check(&engine, &model);
    let op = Op::Rename(1, 2);
    op.apply(&mut model);
    run(&engine, &[op, Op::Delete(0)]);
    Op::Delete(0).apply(&mut model);
    check(&engine, &model);
    engine.sync_through(engine.last_seq()).expect("synced");
    engine.abandon();
    drop(engine);
    let engine = open(&dir);
    check(&engine, &model);
    engine.close().expect("close");
}

#[test]
fn what_was_made_ready_for_another_memtable_or_an_emptied_database_is_put_all_the_same() {
    let (_dir, engine, mut model, _) = bench();
    let of_memtable = made(&engine);
    engine.flush_now().expect("flush");
    put(&engine, 1, of_memtable, true);
    Op::Copy(0, 1).apply(&mut model);
    // The pages are in the memtable of now alone: it pins them by what their entries say.
    evict(&engine);
    check(&engine, &model);
    let of_database = made(&engine);
    let elements = model[&0].clone();
    run(&engine, &[Op::Flush]);
    model.clear();
    put(&engine, 2, of_database, true);
    model.insert(2, elements);
    check(&engine, &model);
    engine.sweep_dead_namespaces();
    engine.flush_now().expect("flush");
    evict(&engine);
    check(&engine, &model);
    engine.close().expect("close");
}

#[test]
fn pages_that_were_made_ready_and_taken_back_leave_nothing() {
    let (_dir, engine, mut model, _) = bench();
    let pages =
        || -> usize { engine.inner().shards.iter().map(|shard| shard.latch().pages.len()).sum() };
    let (before, tables) = (pages(), own_tables(&engine, 1));
    put(&engine, 1, made(&engine), false);
    assert_eq!((pages(), own_tables(&engine, 1)), (before, tables));
    check(&engine, &model);
    drop(made(&engine));
    put(&engine, 1, made(&engine), true);
    Op::Copy(0, 1).apply(&mut model);
    assert_eq!((pages(), own_tables(&engine, 1)), (2 * before, tables + 1));
    check(&engine, &model);
    engine.close().expect("close");
}

#[test]
fn few_pages_come_back() {
    let (_dir, engine, ..) = bench();
    let seven = (0..7).map(|number| (page_id(number), HeldPage::new(b"content"))).collect();
    assert_eq!(engine.new_pages(0, seven).expect_err("few").len(), 7);
    engine.close().expect("close");
}
