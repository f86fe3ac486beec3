//! Commands that store what they make of other keys: what takes long is made of a snapshot, on a helper thread, before any latch is taken.
//! It is stored if none of the keys has changed since, as an EXEC whose keys are watched.

use super::call::run_guarded;
use super::client::Client;
use super::guard::miss;
use super::latch::Scope;
use super::past::{Past, PastKeys, PastRecord};
use super::table::sources;
use super::unchanged::{Reads, WatchedKeys};
use super::{Args, CommandError, CommandResult, CommandSpec, Ctx, Executor, Outcome, Purpose};
use crate::client_memory::load_max_bytes;
use crate::events::Event;
use crate::keyspace::collection::Edit;
use crate::keyspace::paged::LaidOut;
use crate::resp::Reply;
use crate::server::Server;
use crate::value::ValueType;
use sexton_engine::SnapshotValue;
use std::any::Any;
use std::fmt::Debug;

/// So often it is made ahead, until none of the keys changes meanwhile; then under the latches.
const TRIES: usize = 3;

/// The same of a request that reads keys that it does not name, as many as it has elements: where one of them has changed, one of them
/// will change again.
const TRIES_UNNAMED: usize = 1;

/// What a command stores.
#[derive(Debug)]
pub enum ToStore<E> {
    /// Not laid out yet.
    Whole(E),
    /// In pages, and how many elements that has.
    LaidOut(Box<LaidOut>, usize),
}

impl<E: Edit> ToStore<E> {
    fn len(&self) -> usize {
        match self {
            Self::Whole(edit) => edit.len(),
            Self::LaidOut(_, len) => *len,
        }
    }
}

impl Ctx<'_, '_> {
    /// What the command stores: `make` makes it of the command's other keys, or has made it before.
    ///
    /// # Errors
    /// Those of `make`, and that it is too large.
    pub fn made_of_keys<E: Edit + Debug + Send + 'static>(
        &mut self,
        make: impl FnOnce(&mut Self) -> Result<E, CommandError>,
    ) -> Result<ToStore<E>, CommandError> {
        if let Some(made) = self.take_made() {
            return Ok(made);
        }
        let edit = make(self)?;
        if self.client.past.is_open() {
            let value = self.laid_out(edit)?;
            self.end_with_made(value);
        }
        Ok(ToStore::Whole(edit))
    }

    /// What a key of the client's database held in the snapshot that this request reads, if that is of one of these types: what lies in
    /// pages as if it lay in one record. `None`: it reads no snapshot.
    pub fn past_value(
        &mut self,
        key: &[u8],
        types: &[ValueType],
    ) -> Option<Result<Option<SnapshotValue>, CommandError>> {
        let Past::Open(past) = &self.client.past else { return None };
        let value = past.value(key, types);
        self.count_lookup(self.client.db, key, !matches!(value, Ok(None)));
        Some(value)
    }

    /// The records of keys in that snapshot, for [`Ctx::past_string`] and [`Ctx::past_field`]. `None`: the request reads none.
    pub fn past_records(
        &self,
        keys: &[&[u8]],
        types: &[ValueType],
    ) -> Option<Result<Vec<PastRecord>, CommandError>> {
        let Past::Open(past) = &self.client.past else { return None };
        Some(past.found_all(keys, types))
    }

    /// The string of a key with this record.
    ///
    /// # Errors
    /// WRONGTYPE; the snapshot has ended.
    pub fn past_string(
        &mut self,
        key: &[u8],
        record: PastRecord,
    ) -> Result<Option<Vec<u8>>, CommandError> {
        self.count_lookup(self.client.db, key, !matches!(record, Ok(None)));
        let Past::Open(past) = &self.client.past else { return Ok(None) };
        Ok(past.whole_value(record?)?.map(|found| found.value))
    }

    /// The value of a field of the hash of a key with this record.
    ///
    /// # Errors
    /// WRONGTYPE; the snapshot has ended.
    pub fn past_field(
        &mut self,
        key: &[u8],
        field: &[u8],
        record: PastRecord,
    ) -> Result<Option<Vec<u8>>, CommandError> {
        self.count_lookup(self.client.db, key, !matches!(record, Ok(None)));
        let Past::Open(past) = &self.client.past else { return Ok(None) };
        past.field(record?, field)
    }

    /// What a copy of a large collection in pages consists of, for database `target_db`, if that was made ahead. Where it is to be, which
    /// is so if `may_copy`, the run ends here.
    pub fn copied_ahead(
        &mut self,
        (source, target_db): (&[u8], usize),
        may_copy: impl FnOnce(&mut Self) -> bool,
    ) -> Option<LaidOut> {
        if let Some(copy) = self.take_made() {
            return Some(copy);
        }
        let (db, max_bytes) = (self.client.db, load_max_bytes(self.server));
        let inline_bytes = self.server.settings.thresholds.inline_bytes();
        if let Past::Open(past) = &self.client.past {
            let whole = past.whole(source, max_bytes).ok().flatten();
            let target = (&self.server.engine, target_db);
            match whole.and_then(|(meta, value)| LaidOut::of(target, (meta, &value), inline_bytes))
            {
                Some(copy) => self.end_with_made(copy),
                // It must be copied under the latches.
                None => miss(),
            }
        }
        if !self.server.engine.has_pages() {
            return None;
        }
        if let Some(paged) = self.paged_now(db, source)
            && paged.is_copied_whole(max_bytes)
            && may_copy(self)
        {
            self.hand_over_to_the_past_above(paged.descriptor.totals.bytes);
        }
        None
    }

    /// What was made before.
    fn take_made<T: 'static>(&mut self) -> Option<T> {
        let (made, db) = (self.client.past.take_made()?, self.client.db);
        // What is due of the keys goes before this is logged.
        let named = sources(self.spec, self.args);
        for key in named.into_iter().chain(made.due.iter().map(Vec::as_slice)) {
            self.inspect(Purpose::Read, db, key, |_, _| ());
        }
        made.value.downcast().ok().map(|value| *value)
    }

    /// Ends the run of a command that reads a snapshot: this is what it has made of that.
    fn end_with_made<T: Any + Debug + Send>(&mut self, value: T) -> ! {
        if let Past::Open(past) = &mut self.client.past {
            self.client.past = Past::Made(Box::new(past.made(value)));
        }
        miss()
    }

    fn laid_out<E: Edit>(&self, edit: E) -> Result<ToStore<E>, CommandError> {
        self.check_size(&edit)?;
        let inline_bytes = self.server.settings.thresholds.inline_bytes();
        let in_pages = self.server.engine.takes_pages().then_some(());
        let target = (&self.server.engine, self.client.db);
        let pages =
            in_pages.and_then(|()| LaidOut::of(target, (edit.meta(0), edit.bytes()), inline_bytes));
        Ok(match pages {
            Some(pages) => ToStore::LaidOut(Box::new(pages), edit.len()),
            None => ToStore::Whole(edit),
        })
    }

    /// As [`Ctx::put`], of a value that is laid out.
    pub fn put_laid_out(
        &mut self,
        db: usize,
        key: &[u8],
        pages: LaidOut,
        event: impl Into<Option<Event>>,
    ) {
        self.put_by(db, key, event, |tx, key| pages.put(tx, key));
    }

    /// Stores what a command has made, and answers how many elements that has: one operation, logged verbatim. Nothing deletes the
    /// destination.
    ///
    /// # Errors
    /// It is too large; nothing is changed then.
    pub fn store<E: Edit>(
        &mut self,
        destination: &[u8],
        made: ToStore<E>,
        event: Event,
    ) -> CommandResult {
        if let ToStore::Whole(edit) = &made {
            self.check_size(edit)?;
        }
        let (db, len) = (self.client.db, made.len());
        let was = self.peek(db, destination).is_some();
        if len > 0 {
            match made {
                ToStore::Whole(edit) => {
                    self.put(db, destination, edit.meta(0), edit.bytes(), event)
                }
                ToStore::LaidOut(pages, _) => {
                    self.put_laid_out(db, destination, *pages, event);
                }
            }
            self.log_request();
        } else if was {
            self.delete(db, destination, Event::generic("del"));
            self.log_request();
        }
        self.out.int(len as i64);
        Ok(())
    }
}

impl Executor {
    /// Runs a single request that makes what it stores ahead. May block.
    pub(super) fn run_ahead(
        &mut self,
        server: &Server,
        client: &mut Client,
        (spec, args): (&'static CommandSpec, Args<'_>),
        out: &mut Reply,
        now_ms: u64,
    ) -> Outcome {
        let keys = sources(spec, args);
        let (reads, tries) = match Scope::of(spec, args, client) {
            Scope::All => (Reads::Any, TRIES_UNNAMED),
            _ => (Reads::Named(&keys), TRIES),
        };
        for _ in 0..tries {
            let watched = WatchedKeys::watch(server, client.db, reads);
            self.make_ahead(&watched, client, (spec, args), out, now_ms);
            if !matches!(client.past, Past::Made(_)) {
                // An error is found again under the latches.
                break;
            }
            // What changes while it is looked at is little.
            if client.past.is_outdated() {
                continue;
            }
            let outcome = self.run(server, client, spec, args, out, now_ms);
            client.past = Past::None;
            // Of one that is outdated.
            if !matches!(outcome, Outcome::Offload) {
                return outcome;
            }
        }
        client.past = Past::None;
        self.run(server, client, spec, args, out, now_ms)
    }

    /// What a request stores is [`Past::Made`] then, of keys that are watched; unless that was an error.
    pub(super) fn make_ahead(
        &mut self,
        watched: &WatchedKeys<'_>,
        client: &mut Client,
        (spec, args): (&'static CommandSpec, Args<'_>),
        out: &mut Reply,
        now_ms: u64,
    ) {
        let (server, table, mark) = (watched.server, self.table, out.len());
        let past = PastKeys::of(server, &client.session, client.db, now_ms);
        let Some(mut past) = past else { return };
        past.unchanged = watched.unchanged();
        client.past = Past::Open(Box::new(past));
        let changes = &mut self.changes;
        let _ = run_guarded(&mut Ctx {
            server,
            client,
            table,
            args,
            spec,
            out,
            tx: None,
            changes,
            now_ms,
        });
        self.changes.forget();
        out.truncate(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::tests::{Bench, NOW_MS};
    use crate::resp::pack;

    #[test]
    fn what_was_made_ahead_is_stored_unless_a_key_has_changed_since() {
        let mut bench = Bench::new();
        let (mut client, mut other) = (bench.client(), bench.client());
        for line in ["SADD s a b c", "SADD t b c d", "SADD r old"] {
            bench.run(&mut client, line);
        }
        let (buf, ranges) = pack("SINTERSTORE r s t t".split(' ').map(str::as_bytes));
        let args = Args::new(&buf, &ranges);
        let spec = bench.executor.table.find(b"SINTERSTORE").expect("a command");
        for (line, is_stored) in [
            ("SADD s z", false),
            ("SADD r x", true),
            ("SADD s a", true),
            ("DEL t", false),
            ("SMOVE s t c", false),
            ("FLUSHALL", false),
        ] {
            let (mut out, keys) = (Reply::new(), sources(spec, args));
            assert_eq!(keys, [b"s", b"t", b"t"]);
            let Bench { server, executor } = &mut bench;
            let watched = WatchedKeys::watch(server, 0, Reads::Named(&keys));
            executor.make_ahead(&watched, &mut client, (spec, args), &mut out, NOW_MS);
            assert!(matches!(client.past, Past::Made(_)) && out.bytes().is_empty(), "{line}");
            for line in [line, "DEL r"] {
                let (buf, ranges) = pack(line.split(' ').map(str::as_bytes));
                let args = Args::new(&buf, &ranges);
                let outcome = executor.execute(server, &mut other, args, &mut out, NOW_MS);
                assert!(matches!(outcome, Outcome::Done(_)), "{line}: {outcome:?}");
            }
            out.truncate(0);
            let outcome = executor.run(server, &mut client, spec, args, &mut out, NOW_MS);
            client.past = Past::None;
            assert_eq!(matches!(outcome, Outcome::Done(_)), is_stored, "{line}: {outcome:?}");
            let reply: &[u8] = if is_stored { b":2\r\n" } else { b"" };
            assert_eq!(out.bytes(), reply, "{line}");
            drop(watched);
            assert!(!server.events.watches.is_used(), "{line}");
            let stored = bench.run(&mut other, "SMEMBERS r");
            assert_eq!(stored.starts_with("*2"), is_stored, "{line}: {stored}");
        }
    }

    #[test]
    fn a_copy_that_was_made_ahead_is_as_its_source() {
        let mut bench = crate::dispatch::paged_tests::bench(64);
        let mut client = bench.client();
        let words = |from: usize| (from..from + 400).map(|nth| format!(" e{nth}"));
        let pairs = |from: usize| (from..from + 400).map(|nth| format!(" {nth} e{nth}"));
        for from in [0, 400, 800] {
            for (line, elements) in [
                ("RPUSH l", words(from).collect::<String>()),
                ("SADD s", words(from).collect()),
                ("ZADD z", pairs(from).collect()),
                ("HSET h", pairs(from).collect()),
            ] {
                bench.run(&mut client, &format!("{line}{elements}"));
            }
        }
        for nth in 1..300 {
            bench.run(&mut client, &format!("XADD x 1-{nth} field value"));
        }
        bench
            .run_all(&mut client, &["PEXPIREAT h 5000000", "XGROUP CREATE x group 1-7", "SET d 1"]);
        for source in ["l", "s", "z", "h", "x"] {
            let line = format!("COPY {source} d REPLACE");
            let (buf, ranges) = pack(line.split(' ').map(str::as_bytes));
            let args = Args::new(&buf, &ranges);
            let spec = bench.executor.table.find(b"COPY").expect("a command");
            let (mut out, keys) = (Reply::new(), sources(spec, args));
            assert_eq!(keys, [source.as_bytes()]);
            let Bench { server, executor } = &mut bench;
            let watched = WatchedKeys::watch(server, 0, Reads::Named(&keys));
            executor.make_ahead(&watched, &mut client, (spec, args), &mut out, NOW_MS);
            assert!(matches!(client.past, Past::Made(_)), "{line}");
            let outcome = executor.run(server, &mut client, spec, args, &mut out, NOW_MS);
            drop(watched);
            assert!(matches!(outcome, Outcome::Done(_)), "{line}: {outcome:?}");
            assert_eq!(out.bytes(), b":1\r\n", "{line}");
            for asked in ["DEBUG DIGEST-VALUE", "PEXPIRETIME", "OBJECT ENCODING", "TYPE"] {
                let [of_source, of_copy] =
                    [source, "d"].map(|key| bench.run(&mut client, &format!("{asked} {key}")));
                assert_eq!(of_source, of_copy, "{asked} {source}");
            }
            // In pages of its own.
            let before = bench.run(&mut client, &format!("DEBUG DIGEST-VALUE {source}"));
            bench.run(&mut client, &format!("DEL {source}"));
            assert_eq!(bench.run(&mut client, "DEBUG DIGEST-VALUE d"), before, "{source}");
        }
    }

    #[test]
    fn a_key_that_is_due_goes_before_what_was_made_without_it_is_stored() {
        let mut bench = Bench::new();
        let mut client = bench.client();
        bench.run_all(&mut client, &["SADD s a b", "SADD x a", "PEXPIREAT x 1000500"]);
        let (buf, ranges) = pack("SDIFFSTORE r s x".split(' ').map(str::as_bytes));
        let args = Args::new(&buf, &ranges);
        let mut out = Reply::new();
        client.past = Past::Wanted;
        let later_ms = NOW_MS + 1000;
        let Bench { server, executor } = &mut bench;
        let outcome = executor.execute(server, &mut client, args, &mut out, later_ms);
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        assert_eq!(out.bytes(), b":2\r\n");
        // Replay knows no expiry: without a DEL in the log it would make something else.
        assert_eq!(bench.run(&mut client, "DBSIZE"), ":2\r\n");
    }
}
