//! Keys and fields that go by themselves: their time has come, or memory is full (rule X3).

use super::collection::{Edit, HashView};
use super::paged::{DuePages, Failed, Keyed, Paged, change, whole_in};
use crate::events::{Changes, Event};
use crate::resp::{command_bytes, write_command};
use crate::server::Server;
use sexton_engine::{Found, Key, Tx};

/// Why a key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its time has come.
    Expired,
    /// Memory is full.
    Evicted,
}

/// Deletes `key` of database `db`: one operation, logged as DEL, counted, and told to those who watch or listen. False
/// when it was not there.
pub fn remove(
    server: &Server,
    (tx, changes): (&mut Tx<'_>, &mut Changes),
    db: usize,
    key: Key<'_>,
    reason: Reason,
) -> bool {
    if !tx.delete(key) {
        return false;
    }
    tell_removed(server, (tx, changes), db, key, reason);
    count_removed(server, 1, reason);
    true
}

/// So many keys have gone.
pub fn count_removed(server: &Server, keys: u64, reason: Reason) {
    match reason {
        Reason::Expired => server.stats.count_expired(keys),
        Reason::Evicted => server.stats.count_evicted(keys),
    }
}

/// What follows the delete of a key that goes by itself, but for its being counted: its log form, and who hears of it.
pub fn tell_removed(
    server: &Server,
    (tx, changes): (&mut Tx<'_>, &mut Changes),
    db: usize,
    key: Key<'_>,
    reason: Reason,
) {
    write_command(tx.log_form(db), [b"DEL", key.bytes].into_iter());
    let event = match reason {
        Reason::Expired => Event::EXPIRED,
        Reason::Evicted => Event::EVICTED,
    };
    changes.modify(&server.events, db, key.bytes, Some(event));
}

/// What of a hash in pages is to go. Of other keys all goes that is due.
#[derive(Clone, Copy)]
pub enum Extent<'f> {
    /// All fields that are due.
    All,
    /// As many as one operation takes: others wait for the latch meanwhile.
    Piece,
    /// Those of these fields that are due: whoever asks for them sees no other.
    Of(&'f [&'f [u8]]),
}

/// Pages of which one operation removes what is due, where nothing else can be done anyway.
const PAGES_AN_OPERATION: usize = 256;

/// The same in the background. A page has about 16 fields, and each takes some tenths of a microsecond.
const PAGES_A_PIECE: usize = 16;

/// What of the pages of due fields a piece loads at once.
const PAGES_LOADED: usize = 256;

/// Takes away what is due at `now_ms` of a key in memory: the key, or fields of its hash, whose last one takes the key along.
/// One operation, or a few for a hash in pages, each logged as DEL or HDEL, counted, and told to those who watch or listen.
/// `reads_here`: pages on a device are read under the latch.
///
/// # Errors
/// [`Failed`]; nothing was changed, unless storage has failed.
pub fn remove_due(
    server: &Server,
    (tx, changes): (&mut Tx<'_>, &mut Changes),
    db: usize,
    key: Key<'_>,
    now_ms: u64,
    (extent, reads_here): (Extent<'_>, bool),
) -> Result<(), Failed> {
    let Found::Live(entry) = tx.find(key) else { return Ok(()) };
    if entry.meta().is_expired(now_ms) {
        remove(server, (tx, changes), db, key, Reason::Expired);
        return Ok(());
    }
    // A store that keeps no pages any more has the hash whole from now on.
    let paged = Paged::of_entry(entry).map_err(Failed::Storage)?;
    match paged.filter(|_| server.engine.takes_pages()) {
        Some(paged) => {
            let (mut paged, mut in_memory) = (Some(paged), usize::MAX);
            while let Some(of) = paged.filter(|paged| paged.is_due(now_ms)) {
                let most = match extent {
                    Extent::All => DuePages { in_memory, removed: PAGES_AN_OPERATION },
                    _ => DuePages { in_memory: PAGES_LOADED, removed: PAGES_A_PIECE },
                };
                let how = (&of, extent, most, reads_here);
                remove_of_pages(server, (tx, changes), db, key, now_ms, how)?;
                // The first one has seen that they are all there.
                in_memory = PAGES_AN_OPERATION;
                paged = match tx.find(key) {
                    Found::Live(entry) if matches!(extent, Extent::All) => {
                        Paged::of_entry(entry).map_err(Failed::Storage)?
                    }
                    _ => None,
                };
            }
            Ok(())
        }
        None => remove_of_record(server, (tx, changes), db, key, now_ms, reads_here),
    }
}

/// Of a hash that lies whole in its record, all fields that are due.
fn remove_of_record(
    server: &Server,
    (tx, changes): (&mut Tx<'_>, &mut Changes),
    db: usize,
    key: Key<'_>,
    now_ms: u64,
    reads_here: bool,
) -> Result<(), Failed> {
    let Found::Live(entry) = tx.find(key) else { return Ok(()) };
    let (mut meta, access) = (entry.meta(), entry.access());
    let whole = match Paged::of_entry(entry).map_err(Failed::Storage)? {
        None => None,
        Some(paged) => Some(whole_in(tx, key, &paged, reads_here)?),
    };
    let Found::Live(entry) = tx.find(key) else { return Ok(()) };
    let mut value = entry.value();
    if let Some((whole_meta, whole)) = &whole {
        (meta, value) = (*whole_meta, whole);
    }
    let Some(hash) = HashView::of(meta, value) else { return Ok(()) };
    let (gone, left) = hash.without_due(now_ms);
    if gone.is_empty() {
        return Ok(());
    }
    let removed = Removed::of(key, gone.into_iter(), left.is_empty());
    if !left.is_empty() {
        // Whole, also without due times: whoever is looking has seen that it does not lie in pages.
        tx.put(key, left.meta(meta.expire_at_ms), left.bytes());
        tx.set_access(key, access);
    }
    removed.end(server, (tx, changes), db, key);
    Ok(())
}

/// Of a hash in pages: one operation.
fn remove_of_pages(
    server: &Server,
    (tx, changes): (&mut Tx<'_>, &mut Changes),
    db: usize,
    key: Key<'_>,
    now_ms: u64,
    (paged, extent, most, reads_here): (&Paged, Extent<'_>, DuePages, bool),
) -> Result<(), Failed> {
    let Found::Live(entry) = tx.find(key) else { return Ok(()) };
    let access = entry.access();
    let mut gone: Vec<Vec<u8>> = Vec::new();
    let changed = change(tx, key, paged, reads_here, |pages, hash: &mut Keyed| {
        gone.clear();
        if let Extent::Of(names) = extent {
            hash.needs_to_change(pages, names.iter().copied())?;
            for name in names {
                if matches!(hash.due_ms(pages, name)?, Some(ms) if ms != 0 && ms <= now_ms) {
                    hash.remove(pages, name)?;
                    gone.push(name.to_vec());
                }
            }
            return Ok((!gone.is_empty()).then_some(()));
        }
        let any = hash.remove_due(pages, (now_ms, most), |name| gone.push(name.to_vec()))?;
        Ok(any.then_some(()))
    })?;
    let Some(((), left)) = changed else { return Ok(()) };
    if left > 0 {
        tx.set_access(key, access);
    }
    if gone.is_empty() {
        return Ok(());
    }
    let removed = Removed::of(key, gone.iter().map(Vec::as_slice), left == 0);
    removed.end(server, (tx, changes), db, key);
    Ok(())
}

/// Fields that have been removed, or with all that was left go with their key.
struct Removed {
    fields: u64,
    command: Vec<u8>,
    is_last: bool,
}

impl Removed {
    fn of<'f>(key: Key<'f>, fields: impl Iterator<Item = &'f [u8]>, is_last: bool) -> Self {
        let words: Vec<&[u8]> = [&b"HDEL"[..], key.bytes].into_iter().chain(fields).collect();
        Self { fields: words.len() as u64 - 2, command: command_bytes(&words), is_last }
    }

    fn end(
        self,
        server: &Server,
        (tx, changes): (&mut Tx<'_>, &mut Changes),
        db: usize,
        key: Key<'_>,
    ) {
        if self.is_last {
            tx.delete(key);
        }
        server.stats.count_expired_fields(self.fields);
        tx.log(db, &self.command);
        let events = &server.events;
        changes.modify(events, db, key.bytes, Some(Event::FIELDS_EXPIRED));
        if self.is_last {
            changes.tell(events, db, key.bytes, Event::generic("del"));
        }
    }
}
