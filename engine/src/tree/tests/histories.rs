//! Random histories of a tree against a record of every operation, with rules broken on purpose.

use super::{context, open, shape};
use crate::key::{Meta, Seq};
use crate::table::TableResult;
use crate::table::test_storage::MemStorage;
use crate::tree::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which rule a history breaks on purpose, to see that the check notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    None,
    /// C3: a claim of `now` instead of min(S).
    ClaimNow,
    /// C1: the oldest snapshot is forgotten.
    ForgetSnapshot,
    /// F2: graves go without a look at the claims of the files.
    ForgetClaims,
}

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

pub(super) struct Cemetery(pub(super) Vec<(Vec<u8>, Seq, Option<Seq>)>);

impl Graves for Cemetery {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    fn newest_at(&self, key: &[u8], s: Seq) -> TableResult<Option<Seq>> {
        Ok(self.0.iter().filter(|g| g.0 == key && g.1 <= s).map(|g| g.1).max())
    }
}

struct History {
    storage: Arc<MemStorage>,
    set: VersionSet,
    memtable: BTreeMap<(Vec<u8>, std::cmp::Reverse<Seq>), Vec<u8>>,
    graves: Cemetery,
    /// Operations: key, sequence, value or delete.
    record: Vec<(Vec<u8>, Seq, Option<Vec<u8>>)>,
    snapshots: BTreeSet<Seq>,
    seq: Seq,
    mutation: Mutation,
}

impl History {
    fn new(mutation: Mutation) -> Self {
        let storage = Arc::new(MemStorage::default());
        let set = open(&storage).unwrap();
        Self {
            storage,
            set,
            memtable: BTreeMap::new(),
            graves: Cemetery(Vec::new()),
            record: Vec::new(),
            snapshots: BTreeSet::new(),
            seq: 0,
            mutation,
        }
    }

    fn expected(&self, key: &[u8], s: Seq) -> Option<&[u8]> {
        self.record.iter().rev().find(|r| r.0 == key && r.1 <= s)?.2.as_deref()
    }

    fn found(&self, key: &[u8], s: Seq) -> Option<Vec<u8>> {
        let version = self.set.current();
        let in_memory = self
            .memtable
            .range((key.to_vec(), std::cmp::Reverse(s))..)
            .next()
            .filter(|((k, _), _)| k == key)
            .map(|((_, q), value)| (q.0, value.clone()));
        let newest = in_memory.or_else(|| {
            let found = get(&version, key, s).unwrap()?;
            Some((found.seq, found.value.to_vec()))
        });
        newest
            .filter(|(q, _)| Some(*q) > self.graves.newest_at(key, s).unwrap())
            .map(|(_, value)| value)
    }

    fn put(&mut self, key: Vec<u8>, random: &mut Random) {
        self.seq += 1;
        let value = format!("{}:", self.seq).repeat(1 + random.below(12) as usize).into_bytes();
        self.memtable.insert((key.clone(), std::cmp::Reverse(self.seq)), value.clone());
        let open = self.graves.0.iter_mut().find(|g| g.0 == key && g.2.is_none());
        if let Some(grave) = open {
            grave.2 = Some(self.seq);
        }
        self.record.push((key, self.seq, Some(value)));
    }

    fn delete(&mut self, key: Vec<u8>) {
        // X1: nothing is written for a key that is not alive.
        if self.found(&key, Seq::MAX).is_some() {
            self.seq += 1;
            self.graves.0.push((key.clone(), self.seq, None));
            self.record.push((key, self.seq, None));
        }
    }

    /// S with `now` (C1).
    fn readers(&self) -> Vec<Seq> {
        let mut all = self.snapshots.clone();
        if self.mutation == Mutation::ForgetSnapshot {
            all.pop_first();
        }
        all.insert(self.seq);
        all.into_iter().collect()
    }

    fn flush(&mut self) {
        let readers = self.readers();
        let mut rule = KeepRule::new(&readers, &self.graves);
        let mut writer = None;
        for ((key, q), value) in &self.memtable {
            if rule.keeps(key, q.0).unwrap() {
                let writer = writer.get_or_insert_with(|| self.set.new_table(0).unwrap());
                writer.add(key, q.0, Meta::default(), value).unwrap();
            }
        }
        let claim =
            if self.mutation == Mutation::ClaimNow { self.seq } else { rule.buried_through() };
        let mut edit = VersionEdit::mark(MarkEdit { m: self.seq, ..MarkEdit::default() });
        if let Some(writer) = writer {
            edit.add(0, writer.finish(claim, true).unwrap());
        }
        self.set.apply(&edit).unwrap();
        self.memtable.clear();
    }

    fn compact(&mut self, random: &mut Random) {
        let options =
            CompactionOptions { l0_tables: 2, base_bytes: 300, ratio: 2, output_bytes: 500 };
        let version = self.set.current();
        let deep: Vec<_> = version.tables().filter(|(level, _)| *level > 0).collect();
        let min_reader = self.snapshots.first().copied().unwrap_or(self.seq);
        let mut tally = BurialTally::new(&version, min_reader);
        for (key, d, _) in &self.graves.0 {
            tally.note(key, *d);
        }
        let job = match random.below(8) {
            2..4 => tally.pick(random.below(self.seq + 1), &options),
            0 if !deep.is_empty() => {
                let (level, table) = deep[random.below(deep.len() as u64) as usize];
                Some(Job::burial(level, Arc::clone(table), &options))
            }
            1 => Job::full(&version, &options),
            _ => pick_compaction(&version, &options),
        };
        let Some(job) = job else { return };
        let readers = self.readers();
        let context = context(&self.set, &readers, &self.graves);
        let outcome = compact(&job, &context).unwrap();
        assert!(outcome.needs_durable() <= self.seq);
        // Operations and a flush may come between the merge and its installation.
        for _ in 0..random.below(4) {
            let key = random_key(random);
            if random.below(2) == 0 { self.put(key, random) } else { self.delete(key) }
        }
        if random.below(3) == 0 {
            self.flush();
        }
        self.set.apply(&outcome.edit).unwrap();
    }

    /// F1 and F2; F3 has nothing to wait for, no reader is running here.
    fn forget_graves(&mut self) {
        let version = self.set.current();
        let (memtable, snapshots, mutation) = (&self.memtable, &self.snapshots, self.mutation);
        let seq = self.seq;
        let mut tally = BurialTally::new(&version, Seq::MAX);
        self.graves.0.retain(|(key, d, e)| {
            let seen = |e: &Seq| snapshots.range(*d..*e).next().is_some() || *e > seq;
            if e.as_ref().is_some_and(|e| !seen(e)) {
                return false;
            }
            let in_memory = memtable.keys().any(|(k, q)| k == key && q.0 < *d);
            let buried = tally.note(key, *d) || mutation == Mutation::ForgetClaims;
            in_memory || !buried
        });
    }

    /// Checks every key at every reader; the text says what is wrong.
    fn check(&self) -> Result<(), String> {
        for s in self.snapshots.iter().copied().chain([self.seq]) {
            for i in 0..KEYS {
                let key = key_of(i);
                let (found, expected) = (self.found(&key, s), self.expected(&key, s));
                if found.as_deref() != expected {
                    return Err(format!("key {i} at {s}: {found:?}, expected {expected:?}"));
                }
            }
        }
        Ok(())
    }

    fn run(mut self, seed: u64) -> Result<BTreeSet<usize>, String> {
        let mut random = Random(seed);
        let mut levels = BTreeSet::new();
        for step in 0..150 {
            match random.below(20) {
                0..8 => {
                    let key = random_key(&mut random);
                    self.put(key, &mut random);
                }
                8..12 => self.delete(random_key(&mut random)),
                12 => {
                    self.snapshots.insert(self.seq);
                }
                13 => {
                    let all: Vec<Seq> = self.snapshots.iter().copied().collect();
                    if !all.is_empty() {
                        self.snapshots.remove(&all[random.below(all.len() as u64) as usize]);
                    }
                }
                14..16 => self.flush(),
                16..18 => self.compact(&mut random),
                18 => self.forget_graves(),
                _ => {
                    let before = shape(&self.set.current());
                    self.set = open(&self.storage).unwrap();
                    assert_eq!(shape(&self.set.current()), before);
                }
            }
            levels.extend(self.set.current().tables().map(|(level, _)| level));
            self.check().map_err(|text| format!("seed {seed}, step {step}: {text}"))?;
        }
        for (_, table) in self.set.current().tables() {
            table.verify().map_err(|error| error.to_string())?;
        }
        Ok(levels)
    }
}

const KEYS: u64 = 16;

fn key_of(i: u64) -> Vec<u8> {
    [&b"R\0\0\0\0\0\0\0\0"[..], format!("key{i:02}").as_bytes()].concat()
}

fn random_key(random: &mut Random) -> Vec<u8> {
    key_of(random.below(KEYS))
}

#[test]
fn random_histories_keep_the_living_and_cover_the_dead() {
    let mut levels = BTreeSet::new();
    for seed in 0..150 {
        levels.extend(History::new(Mutation::None).run(seed).unwrap());
    }
    assert!(levels.len() >= 4, "histories reach only levels {levels:?}");
}

#[test]
fn histories_with_a_broken_rule_are_caught() {
    for mutation in [Mutation::ClaimNow, Mutation::ForgetSnapshot, Mutation::ForgetClaims] {
        let caught = (0..400).any(|seed| History::new(mutation).run(seed).is_err());
        assert!(caught, "{mutation:?} was not noticed");
    }
}
