//! What takes long enough to keep others waiting: large requests, and work on many pages. It runs on a helper thread, with all of the
//! transaction or script that it belongs to, and who needs a latch of it comes back meanwhile (docs/scripts.md).

use super::guard::miss;
use super::long_reply::LongReply;
use super::table::{CommandSpec, Flags, Traits, sources};
use super::{Args, Ctx, Past};
use crate::client_memory::load_max_bytes;
use crate::keyspace::paged::{self, Paged};
use crate::server::Server;
use sexton_engine::Prepared;

/// Bytes of a request, or of all commands of a transaction, above which it does: copying them into the log, the memtable and the table
/// takes about a millisecond a megabyte.
pub(super) const LARGE_REQUEST_BYTES: usize = 512 << 10;

/// So many bytes of pages are gone through in about a millisecond.
const HEAVY_BYTES: u64 = 1 << 20;

/// A change of an element costs about as much as going through so many.
const CHANGE_BYTES: u64 = 1 << 10;

/// All of a value is read of a snapshot where that is at most so many times as much as is asked for.
const WHOLE_FACTOR: u64 = 8;

/// What a command that was handed over reads.
enum Elsewhere {
    /// The newest state, under its latches.
    InTheStore,
    /// A string that is held for it.
    Held,
    /// A snapshot.
    InThePast,
}

impl Ctx<'_, '_> {
    /// Ends the run of this command if it is going to work on more than a worker should keep others waiting for, in bytes: it runs again
    /// on a helper thread. What it has done is taken back.
    pub fn hand_over_above(&mut self, bytes: u64) {
        self.hand_over(bytes, Elsewhere::InTheStore);
    }

    /// The same of a command that is going to change so many elements.
    pub fn hand_over_changes(&mut self, elements: u64) {
        self.hand_over_above(elements.saturating_mul(CHANGE_BYTES));
    }

    /// So many elements a command may change where it runs.
    #[must_use]
    pub fn changes_max(&self) -> u64 {
        if self.client.may_hand_over { HEAVY_BYTES / CHANGE_BYTES } else { u64::MAX }
    }

    /// The same of a command that only reads, and of one string, which is held for it: its latch is free while it runs.
    pub fn hand_over_apart_above(&mut self, bytes: u64) {
        self.hand_over(bytes, Elsewhere::Held);
    }

    /// The same of a command that only reads, or that stores what it makes of other keys ([`Ctx::made_of_keys`]): it reads them of a
    /// snapshot, without any latch.
    pub fn hand_over_to_the_past_above(&mut self, bytes: u64) {
        self.hand_over(bytes, Elsewhere::InThePast);
    }

    /// Ends the run of a command that is going to read so many bytes of this value, if that is too much for a worker. It reads them of a
    /// snapshot, all of the value, where that is not much more.
    pub fn hand_over_part_above(&mut self, paged: &Paged, bytes: u64) {
        let whole_bytes = paged.descriptor.totals.bytes;
        let most_bytes = load_max_bytes(self.server).min(bytes.saturating_mul(WHOLE_FACTOR));
        let reads_past = whole_bytes <= most_bytes;
        self.hand_over(
            bytes,
            if reads_past { Elsewhere::InThePast } else { Elsewhere::InTheStore },
        );
    }

    /// Ends the run of a command that makes something of all that its other keys hold, if that is too much for a worker: it is made ahead
    /// ([`Ctx::made_of_keys`]), unless it is too large to be read of a snapshot.
    pub fn hand_over_sources(&mut self) {
        if self.client.past.is_open() || !self.server.engine.has_pages() {
            return;
        }
        let (db, mut bytes) = (self.client.db, 0_u64);
        for key in sources(self.spec, self.args) {
            let paged = self.paged_now(db, key);
            bytes = bytes.saturating_add(paged.map_or(0, |paged| paged.descriptor.totals.bytes));
        }
        let reads_past = bytes <= load_max_bytes(self.server);
        self.hand_over(
            bytes,
            if reads_past { Elsewhere::InThePast } else { Elsewhere::InTheStore },
        );
    }

    /// Whether this command runs where nobody else waits for it, and may therefore wait itself.
    #[must_use]
    pub fn may_wait(&self) -> bool {
        !self.client.may_hand_over
    }

    /// Ends the run of a command that would have to wait, where it may not: it runs again on a helper thread.
    pub fn hand_over_wait(&mut self) -> ! {
        self.client.is_heavy = true;
        miss()
    }

    fn hand_over(&mut self, bytes: u64, to: Elsewhere) {
        if self.client.may_hand_over && bytes > HEAVY_BYTES {
            self.client.is_heavy = true;
            match to {
                Elsewhere::InTheStore => {}
                // In a transaction or a script all of it runs again, under its latches.
                _ if !self.client.may_miss => {}
                Elsewhere::Held => self.client.long_reply = LongReply::Wanted,
                Elsewhere::InThePast => self.client.past = Past::Wanted,
            }
            miss()
        }
    }
}

/// Copies the largest argument of a request, if that is so large that copying it under a latch would keep others waiting.
pub(super) fn prepare<'a>(
    server: &Server,
    spec: &CommandSpec,
    args: Args<'a>,
) -> Option<Prepared<'a>> {
    if !spec.flags.contains(Flags::WRITE) {
        return None;
    }
    let largest = args.from(1).max_by_key(|arg| arg.len())?;
    let least = paged::written_max_bytes(server.settings.thresholds.inline_bytes());
    let becomes_pages = spec.traits.has(Traits::STORES_STRINGS) && largest.len() as u64 > least;
    let is_large = largest.len() > LARGE_REQUEST_BYTES;
    is_large.then(|| server.engine.prepare(largest, becomes_pages))
}
