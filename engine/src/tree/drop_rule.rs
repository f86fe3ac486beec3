//! Rule C2: which versions a flush or compaction keeps.

use crate::key::{EngineKey, Seq};
use crate::table::{GravePlaces, TableResult};

/// The graves a merge consults: D(k, s) of the rules.
pub trait Graves {
    /// True when there is no grave at all; then nothing else is asked.
    fn is_empty(&self) -> bool;
    /// D(`key`, `s`): the largest sequence d <= `s` of a grave of `key`, open or closed.
    ///
    /// # Errors
    /// Graves that are on a device (grave runs) cannot be read: nothing may be answered or dropped then.
    fn newest_at(&self, key: &[u8], s: Seq) -> TableResult<Option<Seq>>;
    /// Like [`Graves::newest_at`], for keys that ascend from one call with these `places` to the next.
    ///
    /// # Errors
    /// As for [`Graves::newest_at`].
    fn newest_in_order(
        &self,
        key: &[u8],
        s: Seq,
        _places: &mut GravePlaces,
    ) -> TableResult<Option<Seq>> {
        self.newest_at(key, s)
    }
}

/// No graves.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGraves;

impl Graves for NoGraves {
    fn is_empty(&self) -> bool {
        true
    }
    fn newest_at(&self, _: &[u8], _: Seq) -> TableResult<Option<Seq>> {
        Ok(None)
    }
}

/// Where a version goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Into the tree.
    Tree,
    /// To an undo run (N6): the reader given is the youngest that needs it.
    Undo(Seq),
    /// Nobody needs it.
    Gone,
}

/// What there is to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outputs {
    /// C2: what some reader needs, into the tree.
    One,
    /// C2 with two outputs (N6): into the tree what lives at `now`.
    Two,
    /// The inputs are undo runs.
    UndoOnly,
}

/// Expiry index records (`T | time | root key`, N11) that a merge drops although C2 would keep them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexDrops {
    /// Those due at or before this, the durable mark up to which all due keys were processed; 0 for none.
    pub due_through_ms: u64,
    /// Those older than a delete of their key (N17).
    pub of_deleted: bool,
}

/// Decides version by version, in the order of the merge (keys ascending, newest first).
///
/// C2: a version q is kept exactly if some s in S has q as its newest input version <= s and
/// q > D(k, s), or if q > now. Of the members of S in [q, next newer version) only the
/// smallest needs to be asked: D(k, s) grows with s, so if q is dead there it is dead at
/// all of them. Graves younger than `now` are never seen, because no s is above `now` (C2).
/// Expiry is not looked at (C6, X3).
pub struct KeepRule<'a> {
    snapshots: &'a [Seq],
    graves: &'a dyn Graves,
    has_graves: bool,
    places: GravePlaces,
    dead_ids: &'a [(u64, Seq)],
    /// The last namespace that was looked for among them, and when it died.
    last_death: Option<(u64, Option<Seq>)>,
    index_drops: IndexDrops,
    last_key: Vec<u8>,
    /// Sequence of the next newer input version of `last_key`; `Seq::MAX` before the newest.
    newer: Seq,
    any: bool,
    max_grave_used: Seq,
    outputs: Outputs,
}

impl std::fmt::Debug for KeepRule<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeepRule").field("snapshots", &self.snapshots).finish_non_exhaustive()
    }
}

impl<'a> KeepRule<'a> {
    /// `snapshots` is S as collected at the start of the merge (C1), ascending, its last member being
    /// `now`. An empty S keeps everything.
    #[must_use]
    pub fn new(snapshots: &'a [Seq], graves: &'a dyn Graves) -> Self {
        debug_assert!(snapshots.is_sorted());
        let has_graves = !graves.is_empty();
        Self {
            snapshots,
            graves,
            has_graves,
            places: GravePlaces::default(),
            dead_ids: &[],
            last_death: None,
            index_drops: IndexDrops::default(),
            last_key: Vec::new(),
            newer: Seq::MAX,
            any: false,
            max_grave_used: 0,
            outputs: Outputs::One,
        }
    }

    /// With two outputs (N6), if `separates`: ask [`KeepRule::fate`] then.
    #[must_use]
    pub fn separating(mut self, separates: bool) -> Self {
        self.outputs = if separates { Outputs::Two } else { Outputs::One };
        self
    }

    /// For the merge of undo runs: `snapshots` has no `now`, and nothing goes into the tree.
    #[must_use]
    pub fn of_undo(mut self) -> Self {
        self.outputs = Outputs::UndoOnly;
        self
    }

    /// Takes deaths of namespaces for graves of all their keys: `dead_ids` are (id, d), by rising id, d at or below
    /// `now`. When
    /// no s in S is below d (N7), their versions go; with two outputs what a reader below d needs goes
    /// to an undo run, so that the tree's output may claim `now`. d counts as a used grave, so that D1 waits
    /// for it.
    #[must_use]
    pub fn with_dead_ids(mut self, dead_ids: &'a [(u64, Seq)]) -> Self {
        debug_assert!(dead_ids.is_sorted());
        self.dead_ids = dead_ids;
        self
    }

    /// Also drops these expiry index records. Snapshots never read them.
    #[must_use]
    pub fn with_index_drops(mut self, drops: IndexDrops) -> Self {
        self.index_drops = drops;
        self
    }

    /// The claim of the output in the tree (C3). min(S): what its members need is still there. With two
    /// outputs nothing in it is dead at `now`, so that it is `now` (N6). Zero when S is empty.
    #[must_use]
    pub fn buried_through(&self) -> Seq {
        if self.outputs == Outputs::Two {
            return self.snapshots.last().copied().unwrap_or(0);
        }
        self.oldest_reader()
    }

    /// min(S), the claim of an undo run. Zero when S is empty.
    #[must_use]
    pub fn oldest_reader(&self) -> Seq {
        self.snapshots.first().copied().unwrap_or(0)
    }

    /// Largest grave (or death of an id) that made a version go; the result may be installed when
    /// `durable` is at or above it (D1).
    #[must_use]
    pub fn max_grave_used(&self) -> Seq {
        self.max_grave_used
    }

    /// An expiry index record has the sequence of the version that carried the expiry. One older than a
    /// delete of its key is stale: that version is dead at `now` and stays so, and what the key carries
    /// since has a record of its own. No snapshot reads them, so `now` alone counts; the grave is
    /// at or below `now` and counts as used (D1).
    fn is_of_deleted_root(&mut self, key: &[u8], seq: Seq) -> TableResult<bool> {
        let (Some((_, root)), Some(&now)) = (EngineKey::parse_expiry(key), self.snapshots.last())
        else {
            return Ok(false);
        };
        let d = self.graves.newest_at(root, now)?.filter(|&d| d > seq && seq <= now);
        self.max_grave_used = self.max_grave_used.max(d.unwrap_or(0));
        Ok(d.is_some())
    }

    /// Where the version goes.
    ///
    /// # Errors
    /// Graves that cannot be read.
    #[inline]
    pub fn fate(&mut self, key: &[u8], seq: Seq) -> TableResult<Fate> {
        // With no reader but those to come both rules are the same.
        if self.outputs == Outputs::One
            || (self.outputs == Outputs::Two && self.snapshots.len() == 1)
        {
            return Ok(if self.keeps(key, seq)? { Fate::Tree } else { Fate::Gone });
        }
        let newer = self.step(key, seq);
        if self.is_dropped_at_once(key, seq)? {
            return Ok(Fate::Gone);
        }
        let now = self.snapshots.last().copied().unwrap_or(0);
        let two = self.outputs == Outputs::Two;
        if two && seq > now {
            return Ok(Fate::Tree);
        }
        Ok(match self.last_reader(key, seq, newer)? {
            Some(s) if two && s == now => Fate::Tree,
            // Snapshots never read the expiry index.
            Some(_) if EngineKey::is_expiry(key) => Fate::Gone,
            Some(s) => Fate::Undo(s),
            None => Fate::Gone,
        })
    }

    /// The youngest member of S that sees this version. D(k, s) grows with s: those that do come
    /// first among the members between it and the next newer version.
    fn last_reader(&mut self, key: &[u8], seq: Seq, newer: Seq) -> TableResult<Option<Seq>> {
        let death = if self.dead_ids.is_empty() { Seq::MAX } else { self.death_of(key, seq) };
        if death < newer {
            self.max_grave_used = self.max_grave_used.max(death);
        }
        let from = self.snapshots.partition_point(|&s| s < seq);
        let to = self.snapshots.partition_point(|&s| s < newer.min(death));
        let members = self.snapshots.get(from..to).unwrap_or_default();
        if !self.has_graves {
            return Ok(members.last().copied());
        }
        let mut last = None;
        for &s in members {
            if let Some(d) = self.graves.newest_in_order(key, s, &mut self.places)?
                && d >= seq
            {
                self.max_grave_used = self.max_grave_used.max(d);
                break;
            }
            last = Some(s);
        }
        Ok(last)
    }

    /// Notes the version and answers the next newer one of its key.
    #[inline]
    fn step(&mut self, key: &[u8], seq: Seq) -> Seq {
        let newer = if self.any && key == self.last_key { self.newer } else { Seq::MAX };
        if newer == Seq::MAX {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
            self.any = true;
        }
        self.newer = seq;
        debug_assert!(seq < newer);
        newer
    }

    #[inline]
    fn is_dropped_at_once(&mut self, key: &[u8], seq: Seq) -> TableResult<bool> {
        if !self.dead_ids.is_empty() && self.is_of_dead_id(key, seq) {
            return Ok(true);
        }
        if self.index_drops.of_deleted && self.has_graves && self.is_of_deleted_root(key, seq)? {
            return Ok(true);
        }
        Ok(self.index_drops.due_through_ms != 0
            && EngineKey::parse_expiry(key)
                .is_some_and(|(due_ms, _)| due_ms <= self.index_drops.due_through_ms))
    }

    /// True when the version must be written, with one output.
    ///
    /// # Errors
    /// Graves that cannot be read.
    #[inline]
    pub fn keeps(&mut self, key: &[u8], seq: Seq) -> TableResult<bool> {
        let newer = self.step(key, seq);
        if self.is_dropped_at_once(key, seq)? {
            return Ok(false);
        }
        let s = match self.snapshots {
            // The common case: no reader but those to come.
            [now] if *now >= seq => *now,
            [] | [_] => return Ok(true),
            all => match all.get(all.partition_point(|&s| s < seq)) {
                Some(&s) => s,
                None => return Ok(true),
            },
        };
        if s >= newer {
            return Ok(false);
        }
        if self.has_graves
            && let Some(d) = self.graves.newest_in_order(key, s, &mut self.places)?
            && d >= seq
        {
            debug_assert!(d <= s);
            self.max_grave_used = self.max_grave_used.max(d);
            return Ok(false);
        }
        Ok(true)
    }

    /// When the namespace of a version died; `Seq::MAX` when it lives.
    #[cold]
    fn death_of(&mut self, key: &[u8], seq: Seq) -> Seq {
        let Some(id) = EngineKey::namespace_of(key) else { return Seq::MAX };
        // Keys come in order: most are of the namespace of the one before.
        let death = match self.last_death {
            Some((last, death)) if last == id => death,
            _ => death_in(self.dead_ids, id),
        };
        self.last_death = Some((id, death));
        death.filter(|d| seq <= *d).unwrap_or(Seq::MAX)
    }

    #[cold]
    fn is_of_dead_id(&mut self, key: &[u8], seq: Seq) -> bool {
        let d = self.death_of(key, seq);
        let is_dead = d <= self.oldest_reader();
        if is_dead {
            self.max_grave_used = self.max_grave_used.max(d);
        }
        is_dead
    }
}

/// When the namespace `id` died, among deaths by rising id.
pub(crate) fn death_in(dead_ids: &[(u64, Seq)], id: u64) -> Option<Seq> {
    let at = dead_ids.binary_search_by_key(&id, |&(dead, _)| dead).ok()?;
    Some(dead_ids[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Graves of the single key `k`.
    struct OfK(Vec<Seq>);

    impl Graves for OfK {
        fn is_empty(&self) -> bool {
            self.0.is_empty()
        }
        fn newest_at(&self, key: &[u8], s: Seq) -> TableResult<Option<Seq>> {
            assert_eq!(key, b"k");
            Ok(self.0.iter().copied().filter(|&d| d <= s).max())
        }
    }

    fn kept(versions: &[Seq], snapshots: &[Seq], graves: &[Seq]) -> Vec<Seq> {
        let graves = OfK(graves.to_vec());
        let mut rule = KeepRule::new(snapshots, &graves);
        versions.iter().copied().filter(|&q| rule.keeps(b"k", q).unwrap()).collect()
    }

    #[test]
    fn a_reader_below_the_grave_keeps_its_version() {
        // Counter-example 1: put k@1, snapshot 1, del k@2.
        assert_eq!(kept(&[1], &[1, 2], &[2]), [1]);
        assert_eq!(kept(&[1], &[2], &[2]), []);
    }

    #[test]
    fn a_closed_grave_still_kills_for_a_reader_between() {
        // Counter-example 2: put k@1, del k@2, snapshot 2, put k@3: nothing keeps version 1, but
        // without the grave the reader at 2 would.
        assert_eq!(kept(&[3, 1], &[2, 3], &[2]), [3]);
        assert_eq!(kept(&[3, 1], &[2, 3], &[]), [3, 1]);
    }

    fn fates(versions: &[Seq], snapshots: &[Seq], graves: &[Seq], of_undo: bool) -> Vec<Fate> {
        let graves = OfK(graves.to_vec());
        let rule = KeepRule::new(snapshots, &graves);
        let mut rule = if of_undo { rule.of_undo() } else { rule.separating(true) };
        versions.iter().map(|&q| rule.fate(b"k", q).unwrap()).collect()
    }

    #[test]
    fn the_living_stay_and_what_only_older_readers_need_goes_to_the_past() {
        use Fate::{Gone, Tree, Undo};
        assert_eq!(fates(&[1], &[1, 2], &[2], false), [Undo(1)], "counter-example 1");
        assert_eq!(fates(&[1], &[1, 2], &[], false), [Tree], "alive at now, whoever else sees it");
        assert_eq!(fates(&[7, 4, 1], &[2, 5, 6, 8], &[], false), [Tree, Undo(6), Undo(2)]);
        assert_eq!(fates(&[7, 4, 1], &[5, 6, 8], &[6], false), [Tree, Undo(5), Gone]);
        assert_eq!(fates(&[9, 4], &[5, 8], &[], false), [Tree, Tree], "9 is above now");
        assert_eq!(fates(&[9, 4], &[5, 8], &[7], false), [Tree, Undo(5)]);
        assert_eq!(fates(&[4], &[8], &[7], false), [Gone]);
    }

    #[test]
    fn what_no_reader_of_the_past_sees_leaves_the_undo_runs() {
        use Fate::{Gone, Undo};
        assert_eq!(fates(&[7, 4, 1], &[5], &[], true), [Gone, Undo(5), Gone]);
        assert_eq!(fates(&[7, 4, 1], &[5], &[5], true), [Gone, Gone, Gone]);
        assert_eq!(fates(&[7, 4, 1], &[2, 5, 9], &[], true), [Undo(9), Undo(5), Undo(2)]);
        assert_eq!(fates(&[7, 4], &[], &[], true), [Gone, Gone]);
    }

    #[test]
    fn a_grave_counts_wherever_its_versions_lie() {
        // Counter-example 4: the rule knows no level; a merge of upper files alone drops too.
        assert_eq!(kept(&[5, 4], &[9], &[6]), []);
    }

    #[test]
    fn an_old_grave_does_not_kill_a_newer_version() {
        // Counter-example 8: version 20 and a remembered closed grave 10; written as 0 it would die.
        assert_eq!(kept(&[20, 5], &[30], &[10]), [20]);
    }

    #[test]
    fn the_newest_goes_only_with_all_it_covers() {
        // Counter-example 10: with 7 dropped alone, 3 would come back.
        assert_eq!(kept(&[7, 3], &[8], &[8]), []);
        assert_eq!(kept(&[7, 3], &[8], &[]), [7]);
    }

    #[test]
    fn what_is_younger_than_now_stays_and_its_graves_are_ignored() {
        assert_eq!(kept(&[12, 11, 4], &[10], &[11, 13]), [12, 11, 4]);
        assert_eq!(kept(&[12, 11, 4, 3], &[10], &[4]), [12, 11]);
    }

    #[test]
    fn keys_do_not_shadow_each_other() {
        let mut rule = KeepRule::new(&[10], &NoGraves);
        let got = [(&b"a"[..], 5), (b"a", 4), (b"b", 3), (b"b", 2)]
            .map(|(k, q)| rule.keeps(k, q).unwrap());
        assert_eq!(got, [true, false, true, false]);
    }

    #[test]
    fn dead_ids_need_every_reader_above_their_death() {
        let key = [&b"R"[..], &5u64.to_be_bytes(), b"user"].concat();
        let dead = [(5, 8)];
        for (snapshots, seq, want) in
            [(&[7, 9][..], 3, true), (&[8, 9], 3, false), (&[9], 9, true), (&[9], 8, false)]
        {
            let mut rule = KeepRule::new(snapshots, &NoGraves).with_dead_ids(&dead);
            assert_eq!(rule.keeps(&key, seq).unwrap(), want, "{snapshots:?} {seq}");
            assert_eq!(rule.max_grave_used(), if want { 0 } else { 8 });
        }
    }

    #[test]
    fn with_two_outputs_no_version_of_a_dead_id_stays_in_the_tree() {
        let key = [&b"R"[..], &5u64.to_be_bytes(), b"user"].concat();
        let other = [&b"R"[..], &6u64.to_be_bytes(), b"user"].concat();
        let dead = [(5, 8)];
        for (snapshots, seq, want) in [
            (&[7, 12][..], 3, Fate::Undo(7)), // the reader at 7 is from before the death
            (&[9, 12], 3, Fate::Gone),
            (&[2, 12], 3, Fate::Gone), // nobody between the put and the death
            (&[7, 12], 9, Fate::Tree), // put again under an id that came back is not this id's
        ] {
            let rule = KeepRule::new(snapshots, &NoGraves).separating(true);
            let mut rule = rule.with_dead_ids(&dead);
            assert_eq!(rule.fate(&key, seq).unwrap(), want, "{snapshots:?} {seq}");
            assert_eq!(rule.max_grave_used(), if seq < 8 { 8 } else { 0 }, "D1");
            let rule = KeepRule::new(snapshots, &NoGraves).separating(true);
            assert_eq!(rule.with_dead_ids(&dead).fate(&other, 3).unwrap(), Fate::Tree);
        }
    }

    #[test]
    fn index_records_older_than_a_delete_of_their_key_go_when_asked_for() {
        struct OfRoot;
        impl Graves for OfRoot {
            fn is_empty(&self) -> bool {
                false
            }
            fn newest_at(&self, key: &[u8], s: Seq) -> TableResult<Option<Seq>> {
                Ok([6, 12].into_iter().filter(|&d| key == b"Rroot" && d <= s).max())
            }
        }
        let record = [&b"T"[..], &900_u64.to_be_bytes(), b"Rroot"].concat();
        let other = [&b"T"[..], &900_u64.to_be_bytes(), b"Rother"].concat();
        let drops = IndexDrops { due_through_ms: 0, of_deleted: true };
        for (snapshots, seq, stays) in [
            (&[9][..], 5, false),
            (&[9], 7, true), // written after the delete at 6; the one at 12 is above now (C2)
            (&[9], 10, true), // above now
            (&[3, 9], 2, false), // a snapshot does not read it
            (&[4], 3, true),
        ] {
            let rule = |drops| KeepRule::new(snapshots, &OfRoot).with_index_drops(drops);
            let mut asked = rule(drops);
            assert_eq!(asked.keeps(&record, seq).unwrap(), stays, "{snapshots:?} {seq}");
            assert_eq!(asked.max_grave_used(), if stays { 0 } else { 6 }, "D1");
            assert!(rule(drops).keeps(&other, seq).unwrap(), "another key's");
            assert!(rule(IndexDrops::default()).keeps(&record, seq).unwrap(), "exactly C2 without");
            let fate = rule(drops).separating(true).fate(&record, seq).unwrap();
            assert_eq!(fate == Fate::Tree, stays, "two outputs: {snapshots:?} {seq}");
        }
    }

    #[test]
    fn expiry_records_go_with_the_mark_and_nothing_else_does() {
        let due = |kind: u8, ms: u64| [&[kind][..], &ms.to_be_bytes(), b"Rkey"].concat();
        let mut rule = KeepRule::new(&[9], &NoGraves)
            .with_index_drops(IndexDrops { due_through_ms: 500, of_deleted: false });
        let kept = [due(b'R', 3), due(b'T', 499), due(b'T', 500), due(b'T', 501), b"T".to_vec()]
            .map(|key| rule.keeps(&key, 5).unwrap());
        assert_eq!(kept, [true, false, false, true, true]);
        let mut without = KeepRule::new(&[9], &NoGraves);
        assert!(without.keeps(&due(b'T', 0), 5).unwrap());
    }

    #[test]
    fn the_largest_grave_used_is_reported() {
        let graves = OfK(vec![2, 6]);
        let mut rule = KeepRule::new(&[3, 9], &graves);
        assert!(!rule.keeps(b"k", 5).unwrap());
        assert_eq!(rule.max_grave_used(), 6);
        assert!(!rule.keeps(b"k", 1).unwrap());
        assert_eq!((rule.max_grave_used(), rule.buried_through()), (6, 3));
    }

    /// Every choice of versions, members of S and graves among sequences 1 to 5, against the words
    /// of C2.
    #[test]
    fn agrees_with_the_definition_on_all_small_histories() {
        let subset = |mask: u32| -> Vec<Seq> {
            (0..5).filter(|i| mask >> i & 1 == 1).map(|i| i + 1).collect()
        };
        for versions in 0..32u32 {
            for graves in (0..32u32).filter(|graves| graves & versions == 0) {
                for snapshots in 1..32 {
                    let (q, d, s) = (subset(versions), subset(graves), subset(snapshots));
                    let now = *s.last().unwrap();
                    let newest = |s: Seq| q.iter().copied().filter(|&q| q <= s).max();
                    let grave = |s: Seq| d.iter().copied().filter(|&d| d <= s).max().unwrap_or(0);
                    let mut want: BTreeSet<Seq> = q.iter().copied().filter(|&q| q > now).collect();
                    want.extend(s.iter().filter_map(|&s| newest(s).filter(|&q| q > grave(s))));
                    let newest_first: Vec<Seq> = q.iter().rev().copied().collect();
                    let want: Vec<Seq> = want.into_iter().rev().collect();
                    assert_eq!(kept(&newest_first, &s, &d), want, "{q:?} {s:?} {d:?}");
                }
            }
        }
    }
}
