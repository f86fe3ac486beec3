//! Collections in pages that get another key (E5). Their histories are among those of `paged_crash.rs`.

use super::harness::{TempDir, key};
use super::paged::{Cold, Descriptor, Model, Op, bring, compare, descriptor, open, page_id, run};
use crate::store::read::load::{Load, LoadState, Want};
use crate::store::shard::shard_of;
use crate::store::*;

const KEYS: u8 = 40;
/// Several keys a shard on average, on some one or two, on some more.
const KEYS_OF_MANY: u8 = 200;

/// A store, what is in it, and two keys of different shards.
struct Bench {
    engine: Engine,
    model: Model,
    one: u8,
    two: u8,
    dir: TempDir,
}

impl Bench {
    /// With a collection of so many elements, four to a page.
    fn new(elements: u32) -> Self {
        let dir = TempDir::new("renamed");
        let engine = open(&dir);
        let shard = |name: u8| shard_of(engine.hash(&[name]));
        let two = (1..KEYS).find(|name| shard(*name) != shard(0)).expect("keys are spread");
        let mut bench = Self { engine, model: Model::new(), one: 0, two, dir };
        for element in 0..elements {
            bench.run(Op::Add(bench.one, element));
        }
        bench
    }

    /// With a collection whose pages are among those of others, then with one that has a table of its own.
    fn small_and_large() -> [Self; 2] {
        let benches = [12, 60].map(Self::new);
        assert_eq!(benches.each_ref().map(|bench| bench.own_tables(bench.one).len()), [0, 1]);
        benches
    }

    fn run(&mut self, op: Op) -> Commit {
        op.apply(&mut self.model);
        run(&self.engine, &[op])
    }

    fn check(&self) {
        compare(&self.engine, &self.model, KEYS).unwrap_or_else(|text| panic!("{text}"));
    }

    /// What files have of the shard of a key leaves memory.
    fn evict(&self, name: u8) {
        self.engine.flush_now().expect("flush");
        let inner = self.engine.inner();
        inner.memory.table_bound.set(0);
        let shard = &inner.shards[shard_of(self.engine.hash(&[name]))];
        // What another shard gives at its turn, this one keeps.
        for _ in 0..2 {
            self.engine.keep_within_bound(&mut shard.latch());
        }
        inner.memory.table_bound.set(usize::MAX);
        assert_eq!(self.pages(name), 0);
    }

    /// Pages in memory in the shard of a key.
    fn pages(&self, name: u8) -> usize {
        let shards = &self.engine.inner().shards;
        shards[shard_of(self.engine.hash(&[name]))].latch().pages.len()
    }

    /// Collections of the shard of a key that have tables of their own, with the pages in them.
    fn own_tables(&self, name: u8) -> Vec<(u64, usize)> {
        let shards = &self.engine.inner().shards;
        shards[shard_of(self.engine.hash(&[name]))].latch().pages.own_tables()
    }

    /// The collection of a key whose root is in memory.
    fn root(&self, name: u8) -> Descriptor {
        let (bytes, mut buf) = ([name], TxBuf::default());
        let root = key(&self.engine, 0, &bytes);
        let mut tx = self.engine.begin(Latched::Hashes(&[root.hash]), &mut buf);
        let Ok(Some(Ok(found))) = descriptor(&mut tx, root) else { panic!("no collection") };
        found
    }
}

#[test]
fn a_collection_that_gets_another_key_takes_its_pages_along() {
    Bench::small_and_large().into_iter().for_each(take_pages_along);
}

fn take_pages_along(mut bench: Bench) {
    let (one, two) = (bench.one, bench.two);
    let before = bench.root(one);
    let held = bench.pages(one);
    bench.run(Op::Add(two, 7));
    assert_eq!((held as u64, bench.pages(two)), (before.pages, 1));
    assert_eq!(bench.run(Op::Rename(one, two)).operations, 2);
    assert_eq!(bench.root(two), before, "no page was copied");
    bench.engine.sweep_dead_pages();
    assert_eq!((bench.pages(one), bench.pages(two)), (0, held), "those of the target went");
    bench.check();
    // The target's shard takes no miss for an absence now.
    bench.evict(two);
    bench.run(Op::Rename(two, one));
    bench.check();
    bench.run(Op::Add(one, 1000));
    bench.run(Op::Rename(one, two));
    bench.run(Op::Remove(two, 5));
    bench.check();
    bench.engine.sync_through(bench.engine.last_seq()).expect("synced");
    bench.engine.abandon();
    bench.engine = open(&bench.dir);
    bench.check();
    bench.engine.close().expect("close");
}

/// A read that began before brings pages of a state that is no longer that of their shard: into the old shard, where nobody
/// would keep them up to date, or into the new one, where the moved ones are newer.
#[test]
fn loads_of_pages_that_are_under_way_bring_nothing_after_a_rename() {
    Bench::small_and_large().into_iter().for_each(rename_under_loads);
}

fn rename_under_loads(mut bench: Bench) {
    let (one, two) = (bench.one, bench.two);
    bench.run(Op::Add(two, 7));
    let (cid, other) = (bench.root(one).cid, bench.root(two).cid);
    let wanted = |name: u8, cid| {
        let bytes = [name];
        let root = key(&bench.engine, 0, &bytes);
        let owned = OwnedKey { slot: root.slot, hash: root.hash, bytes: vec![name] };
        Want::page_of(&owned, cid, page_id(0).into())
    };
    let wants = [wanted(one, cid), wanted(two, cid), wanted(two, other)];
    let shards = &bench.engine.inner().shards;
    for want in &wants {
        let state = LoadState::Reading { ticket: u64::MAX };
        let load = Load { state, pins: 1, waiters: Vec::new() };
        shards[shard_of(want.key.hash)].latch().page_loads.insert(&want.key, load);
    }
    run(&bench.engine, &[Op::Rename(one, two)]);
    let states = wants.each_ref().map(|want| {
        let shard = shards[shard_of(want.key.hash)].latch();
        shard.page_loads.get(want.key.slot, &want.key.bytes).map(|load| load.state)
    });
    // The last one is of the collection that was replaced: its grave tells.
    assert_eq!(states[..2], [Some(LoadState::Overtaken); 2]);
    assert!(matches!(states[2], Some(LoadState::Reading { .. })), "{states:?}");
    bench.engine.abandon();
}

#[test]
fn a_renamed_collection_does_not_find_what_its_shard_kept_of_it() {
    Bench::small_and_large().into_iter().for_each(return_to_a_shard);
}

fn return_to_a_shard(mut bench: Bench) {
    let (one, two) = (bench.one, bench.two);
    bench.run(Op::Rename(one, two));
    let of = bench.root(two);
    bench.evict(two);
    bench.run(Op::Rename(two, one));
    assert_eq!(bench.pages(two), 0);
    // Whoever has looked at the root before asks for its pages now, and lets them go again.
    let pages = (0..of.pages).map(page_id).collect();
    drop(bring(&bench.engine, two, Cold::Pages(of.cid, pages)));
    assert_eq!(bench.pages(two) as u64, of.pages);
    for element in 0..60 {
        bench.run(Op::Add(one, element));
    }
    bench.evict(one);
    bench.run(Op::Rename(one, two));
    bench.check();
    bench.engine.close().expect("close");
}

#[test]
fn a_rename_that_is_taken_back_leaves_the_pages_where_they_were() {
    Bench::small_and_large().into_iter().for_each(take_a_rename_back);
}

fn take_a_rename_back(mut bench: Bench) {
    let (one, two) = (bench.one, bench.two);
    bench.run(Op::Set(two, 3));
    let held = bench.pages(one);
    let (bytes, mut buf) = ([[one], [two]], TxBuf::default());
    let [from, to] = [key(&bench.engine, 0, &bytes[0]), key(&bench.engine, 0, &bytes[1])];
    let mut tx = bench.engine.begin(Latched::Hashes(&[from.hash, to.hash]), &mut buf);
    assert!(tx.can_rename_paged(from, to));
    tx.rename_paged(from, to);
    assert!(!tx.can_rename_paged(to, from), "behind a deletion");
    drop(tx);
    assert_eq!((bench.pages(one), bench.pages(two)), (held, 0));
    bench.run(Op::Add(one, 5));
    bench.check();
    bench.engine.close().expect("close");
}

#[test]
fn a_large_collection_has_a_table_of_its_own_from_its_growth_to_its_end() {
    let mut bench = Bench::new(12);
    let (one, two) = (bench.one, bench.two);
    let cid = bench.root(one).cid;
    for element in 12..60 {
        bench.run(Op::Add(one, element));
        let root = bench.root(one);
        let own = if root.pages < 8 { vec![] } else { vec![(cid, root.pages as usize)] };
        assert_eq!((bench.pages(one) as u64, bench.own_tables(one)), (root.pages, own));
    }
    let pages = bench.pages(one);
    bench.run(Op::Rename(one, two));
    assert_eq!((bench.own_tables(one), bench.own_tables(two)), (vec![], vec![(cid, pages)]));
    // Cold pages come back into the table of their collection, be it that of before or another.
    bench.evict(two);
    bench.engine.inner().shards.iter().for_each(|shard| drop(shard.latch().pages.take(cid)));
    bench.check();
    assert_eq!(bench.own_tables(two), [(cid, pages)]);
    let inner = bench.engine.inner();
    let held = || inner.shards.iter().map(|shard| shard.latch().table_bytes()).sum::<usize>();
    let before = held();
    run(&bench.engine, &[Op::Delete(two)]);
    assert_eq!((bench.own_tables(two), bench.pages(two)), (vec![], pages), "they leave later");
    let shard = || bench.engine.inner().shards[shard_of(bench.engine.hash(&[two]))].latch();
    let of_gone = shard().pages.evict((1, 1), &mut |_| false);
    assert!(of_gone.bytes > 0 && bench.pages(two) < pages, "or for want of memory");
    assert_eq!(of_gone.entries, 0, "nothing that is looked for");
    bench.engine.sweep_dead_pages();
    assert_eq!(bench.pages(two), 0);
    assert!(held() < before, "{} of {before} bytes", held());
    let noted = inner.shards.iter().map(|shard| shard.latch().noted_bytes).sum::<usize>();
    assert_eq!((inner.memory.table_bound.held_bytes(), noted), (held(), held()));
    bench.engine.close().expect("close");
}

#[test]
fn own_tables_without_pages_are_few() {
    let mut bench = Bench::new(0);
    let many_keys = 0..KEYS_OF_MANY;
    for name in many_keys.clone() {
        for element in 0..40 {
            bench.run(Op::Add(name, element));
        }
    }
    let count = |bench: &Bench, name: u8| bench.own_tables(name).len();
    let all: usize = {
        let shards = bench.engine.inner().shards.iter();
        shards.map(|shard| shard.latch().pages.own_tables().len()).sum()
    };
    assert_eq!(all, many_keys.len());
    let find = |wanted: &dyn Fn(usize) -> bool| {
        many_keys
            .clone()
            .find(|name| wanted(count(&bench, *name)))
            .expect("shards have few or more")
    };
    let (few, many) = (find(&|tables| tables <= 2), find(&|tables| tables > 2));
    let before = count(&bench, few);
    bench.evict(few);
    bench.evict(many);
    assert_eq!(count(&bench, few), before);
    assert!(count(&bench, many) <= 2, "those that became empty last may stay");
    compare(&bench.engine, &bench.model, KEYS_OF_MANY).unwrap_or_else(|text| panic!("{text}"));
    assert!(count(&bench, many) > 2, "they are made again");
    bench.engine.close().expect("close");
}
