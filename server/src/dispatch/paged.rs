//! How commands look at collections that lie in pages, and change them.

use super::access::note_access;
use super::entry::bring_in;
use super::guard::{give_up, miss};
use super::{CommandError, Ctx, Purpose};
use crate::blocking::Pop;
use crate::events::Event;
use crate::keyspace::paged::{self, Failed, Keyed, Paged, Ranked, Stop, Structure, over};
use crate::keyspace::pop::Popped;
use crate::keyspace::{Extent, Kind, WrongType};
use crate::resp::Reply;
use crate::value::ValueType;
use sexton_engine::page::List;
use sexton_engine::{EngineError, Entry, Found, Key, Meta, TxPages};

fn whole_or_give_up<T>(found: Result<T, EngineError>) -> T {
    found.unwrap_or_else(|error| give_up(error))
}

/// What has this meta is of one of these types.
///
/// # Errors
/// WRONGTYPE.
fn check_type(meta: Meta, wanted: &[ValueType]) -> Result<(), CommandError> {
    let is_wanted = ValueType::of(meta.flags).is_some_and(|found| wanted.contains(&found));
    if is_wanted { Ok(()) } else { Err(WrongType.into()) }
}

fn of_type(paged: Paged, wanted: &[ValueType]) -> Result<Paged, CommandError> {
    check_type(paged.meta, wanted).map(|()| paged)
}

impl Ctx<'_, '_> {
    /// Ends the run of this command, which needs what is not in memory: it runs again from its beginning when that is. Or its
    /// storage has failed it.
    pub(super) fn stop(&mut self, failed: Failed) -> ! {
        match failed {
            Failed::Storage(error) => give_up(error),
            Failed::Away(wants) => {
                self.client.missed = wants;
                self.client.watch_search(self.server);
                miss()
            }
        }
    }

    /// The collection in pages that a key of the client's database holds, looked at for `purpose`. `None`, and nothing is counted:
    /// it holds none, or its time has come.
    ///
    /// # Errors
    /// WRONGTYPE, for one of another type.
    pub fn paged<K: Kind>(
        &mut self,
        purpose: Purpose,
        key: &[u8],
    ) -> Result<Option<Paged>, CommandError> {
        self.paged_of(purpose, key, &[K::TYPE])
    }

    /// The same for a command that takes several types.
    ///
    /// # Errors
    /// WRONGTYPE, for one of none of them.
    pub fn paged_of(
        &mut self,
        purpose: Purpose,
        key: &[u8],
        wanted: &[ValueType],
    ) -> Result<Option<Paged>, CommandError> {
        self.paged_without_due(purpose, key, wanted, None::<std::iter::Empty<_>>)
    }

    /// The same for a command that asks for these elements and no others: what is due of them is gone.
    ///
    /// # Errors
    /// As [`paged`](Self::paged).
    pub fn paged_for<'n, K: Kind>(
        &mut self,
        purpose: Purpose,
        key: &[u8],
        names: impl Iterator<Item = &'n [u8]>,
    ) -> Result<Option<Paged>, CommandError> {
        self.paged_without_due(purpose, key, &[K::TYPE], Some(names))
    }

    /// `None`: all of them are asked for.
    fn paged_without_due<'n>(
        &mut self,
        purpose: Purpose,
        key: &[u8],
        wanted: &[ValueType],
        names: Option<impl Iterator<Item = &'n [u8]>>,
    ) -> Result<Option<Paged>, CommandError> {
        let (db, now_ms) = (self.client.db, self.now_ms);
        let engine = &self.server.engine;
        // A store that was opened without a log reads the pages that it has, and writes none.
        if !engine.has_pages() || !engine.takes_pages() || self.client.snapshot_session.is_some() {
            return Ok(None);
        }
        if let Some(paged) = self.client.long_reply.collection() {
            return of_type(paged.clone(), wanted).map(Some);
        }
        let key_of = self.key_in(db, key);
        let Some(tx) = self.tx.as_deref_mut() else { return Ok(None) };
        // Nothing is due of it, and its access field is of this moment, unless accesses are counted.
        if !self.server.eviction.access.is_lfu()
            && let Some((meta, descriptor)) = tx.left_root(key_of)
            && !meta.is_expired(now_ms)
        {
            if purpose != Purpose::Write {
                self.changes.count_lookup(true);
            }
            check_type(meta, wanted)?;
            return Ok(Some(Paged { meta, descriptor: descriptor.clone() }));
        }
        let is_paged =
            |entry: &Entry<'_>| entry.meta().is_paged() && !entry.meta().is_expired(now_ms);
        let mut brought_in = false;
        loop {
            match tx.find(key_of) {
                Found::Live(entry) if is_paged(&entry) && !entry.is_due(now_ms) => {
                    let of = (self.server, &*self.client.session, now_ms);
                    note_access(of, purpose, &entry);
                    if purpose != Purpose::Write {
                        self.changes.count_lookup(true);
                    }
                    check_type(entry.meta(), wanted)?;
                    return Ok(whole_or_give_up(Paged::of_entry(entry)));
                }
                Found::Live(entry) if is_paged(&entry) => break,
                // No argument names it: a pattern of SORT does.
                Found::Cold if !std::mem::replace(&mut brought_in, true) => bring_in(tx, key_of),
                _ => return Ok(None),
            }
        }
        // A write where all fields are due makes a new key.
        let names = names.filter(|_| purpose != Purpose::Write || self.has_field_left(key_of));
        let names: Option<Vec<&[u8]>> = names.map(Iterator::collect);
        let extent = names.as_deref().map_or(Extent::All, Extent::Of);
        self.delete_due_of(db, key_of, extent);
        if matches!(self.tx().find(key_of), Found::Absent) {
            return Ok(None);
        }
        let found = self
            .inspect_what_is_left(purpose, db, key, true, |entry, _| entry.map(Paged::of_entry));
        found.and_then(whole_or_give_up).map(|paged| of_type(paged, wanted)).transpose()
    }

    /// True if a look at a few pages of a hash shows a field that is not due.
    fn has_field_left(&mut self, key: Key<'_>) -> bool {
        let now_ms = self.now_ms;
        let Found::Live(entry) = self.tx().find(key) else { return false };
        let Ok(Some(paged)) = Paged::of_entry(entry) else { return false };
        let Ok(hash) = Keyed::open(&paged) else { return false };
        hash.has_field_left(&self.tx().pages(key, paged.descriptor.collection), now_ms)
    }

    /// The same as [`inspect`](Self::inspect), but a collection in pages is shown as if it lay in one record. One that is of none
    /// of the `wanted` types is shown as it lies in its root: nothing is read to say that it is of another type.
    #[inline]
    pub fn inspect_whole<R>(
        &mut self,
        purpose: Purpose,
        (db, key): (usize, &[u8]),
        wanted: &[ValueType],
        look: impl FnOnce(Option<Entry<'_>>, &mut Reply) -> R,
    ) -> R {
        if !self.server.engine.has_pages() || self.client.snapshot_session.is_some() {
            return self.inspect(purpose, db, key, look);
        }
        let (key_of, now_ms) = (self.key_in(db, key), self.now_ms);
        let reads_here = !self.client.may_miss;
        let Some(tx) = self.tx.as_deref_mut() else {
            return self.inspect(purpose, db, key, look);
        };
        let may_be_paged = match tx.find(key_of) {
            Found::Live(entry) => entry.meta().is_paged(),
            Found::Absent => false,
            Found::Cold => {
                bring_in(tx, key_of);
                true
            }
        };
        if !may_be_paged {
            return self.inspect(purpose, db, key, look);
        }
        self.delete_due(db, key_of);
        let tx = self.tx();
        let paged = match tx.find(key_of) {
            Found::Live(entry) if !entry.meta().is_expired(now_ms) => {
                whole_or_give_up(Paged::of_entry(entry))
            }
            _ => None,
        };
        let is_wanted =
            |paged: &Paged| paged.value_type().is_none_or(|found| wanted.contains(&found));
        let Some(paged) = paged.filter(is_wanted) else {
            return self.inspect(purpose, db, key, look);
        };
        self.hand_over_above(paged.descriptor.totals.bytes);
        let tx = self.tx();
        let (meta, value) = match paged::whole_in(tx, key_of, &paged, reads_here) {
            Ok(whole) => whole,
            Err(failed) => self.stop(failed),
        };
        self.inspect(purpose, db, key, |entry, out| {
            look(entry.map(|entry| entry.with_value(meta, &value)), out)
        })
    }

    /// Reads of the pages of a collection.
    pub fn read_pages<S: Structure, R>(
        &mut self,
        key: &[u8],
        paged: &Paged,
        mut read: impl FnMut(&S, &TxPages<'_, '_, '_>, &mut Reply) -> Result<R, Stop>,
    ) -> R {
        let (key, cid) = (self.key_in(self.client.db, key), paged.descriptor.collection);
        let (reads_here, mark) = (!self.client.may_miss, self.out.len());
        let tx = self.tx.as_deref_mut().expect("command class has a transaction");
        let out = &mut *self.out;
        let done = over(tx, key, cid, reads_here, |pages| {
            out.truncate(mark);
            read(&S::open(paged)?, &pages, out)
        });
        done.unwrap_or_else(|failed| self.stop(failed))
    }

    /// Changes a collection of the client's database: one operation, told as `event`; answers how many elements are left of it. One that
    /// has become empty is deleted, told as `del` too. `None`: the operation has left it as it was. Log it.
    pub fn change_pages<S: Structure, T>(
        &mut self,
        key: &[u8],
        paged: &Paged,
        event: impl Into<Option<Event>>,
        mut operation: impl FnMut(&mut TxPages<'_, '_, '_>, &mut S) -> Result<Option<T>, Stop>,
    ) -> Option<(T, u64)> {
        let event = event.into();
        self.answer_change(key, paged, event.as_slice(), |pages, structure, _| {
            operation(pages, structure)
        })
    }

    /// The same where the operation answers, told as all of `events`.
    pub fn answer_change<S: Structure, T>(
        &mut self,
        key: &[u8],
        paged: &Paged,
        events: &[Event],
        mut operation: impl FnMut(
            &mut TxPages<'_, '_, '_>,
            &mut S,
            &mut Reply,
        ) -> Result<Option<T>, Stop>,
    ) -> Option<(T, u64)> {
        self.change_told(key, paged, |pages, structure, out| {
            let done = operation(pages, structure, out)?;
            Ok(done.map(|done| (done, events)))
        })
    }

    /// The same where the operation answers of which events it is told, too.
    pub(super) fn change_told<S: Structure, T, E: AsRef<[Event]>>(
        &mut self,
        key: &[u8],
        paged: &Paged,
        mut operation: impl FnMut(
            &mut TxPages<'_, '_, '_>,
            &mut S,
            &mut Reply,
        ) -> Result<Option<(T, E)>, Stop>,
    ) -> Option<(T, u64)> {
        let (reads_here, mark) = (!self.client.may_miss, self.out.len());
        let access = self.access_kept(key);
        let key_of = self.key_in(self.client.db, key);
        let tx = self.tx.as_deref_mut().expect("command class has a transaction");
        let out = &mut *self.out;
        let changed = paged::change(tx, key_of, paged, reads_here, |pages, structure| {
            out.truncate(mark);
            operation(pages, structure, out)
        });
        let ((done, events), left) = changed.unwrap_or_else(|failed| self.stop(failed))?;
        self.end_change(key, left == 0, events.as_ref(), access);
        Some((done, left))
    }

    /// [`read_pages`](Self::read_pages) of a list.
    pub fn read_list<R>(
        &mut self,
        key: &[u8],
        paged: &Paged,
        read: impl FnMut(&List, &TxPages<'_, '_, '_>, &mut Reply) -> Result<R, Stop>,
    ) -> R {
        self.read_pages(key, paged, read)
    }

    /// [`change_pages`](Self::change_pages) of a list that is changed; answers what is left.
    pub fn change_list(
        &mut self,
        key: &[u8],
        paged: &Paged,
        event: Event,
        mut change: impl FnMut(&mut TxPages<'_, '_, '_>, &mut List) -> Result<(), Stop>,
    ) -> u64 {
        let changed = self.change_pages(key, paged, event, |pages, list: &mut List| {
            change(pages, list).map(Some)
        });
        changed.map_or(0, |((), left)| left)
    }

    /// [`read_pages`](Self::read_pages) of a sorted set.
    pub fn read_ranked<R>(
        &mut self,
        key: &[u8],
        paged: &Paged,
        read: impl FnMut(&Ranked, &TxPages<'_, '_, '_>, &mut Reply) -> Result<R, Stop>,
    ) -> R {
        self.read_pages(key, paged, read)
    }

    /// Takes elements out of a list or a sorted set of the client's database: one operation, or none where none are wanted. Log it.
    pub fn take_of_pages(&mut self, key: &[u8], paged: &Paged, pop: Pop) -> Popped {
        let elements = paged.descriptor.totals.elements;
        self.hand_over_changes(pop.count.map_or(1, |count| count.min(elements)));
        let reads_here = !self.client.may_miss;
        let access = self.access_kept(key);
        let key_of = self.key_in(self.client.db, key);
        let tx = self.tx.as_deref_mut().expect("command class has a transaction");
        let taken = paged::take(tx, key_of, paged, pop, reads_here);
        let popped = taken.unwrap_or_else(|failed| self.stop(failed));
        if pop.count != Some(0) {
            self.end_change(key, popped.takes_all(), &[popped.event()], access);
        }
        popped
    }

    fn access_kept(&mut self, key: &[u8]) -> Option<u32> {
        let (key, server, now_ms) = (self.key_in(self.client.db, key), self.server, self.now_ms);
        let tx = self.tx.as_deref_mut().expect("command class has a transaction");
        super::entry::kept_access(server, &self.client.session, tx, key, now_ms)
    }

    fn end_change(&mut self, key: &[u8], is_empty: bool, events: &[Event], access: Option<u32>) {
        let db = self.client.db;
        if is_empty {
            events.iter().for_each(|&event| self.tell(key, event));
            self.delete(db, key, Event::generic("del"));
            return;
        }
        if let Some(access) = access {
            let key = self.key_in(db, key);
            self.tx().set_access(key, access);
        }
        self.changes.write(&self.server.events, db, key, events.first().copied());
        events.iter().skip(1).for_each(|&event| self.tell(key, event));
    }
}
