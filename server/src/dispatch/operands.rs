//! The operands of a command on several sets, read where they are: in the store, under the latches of its transaction, or in a snapshot.
//!
//! A worker goes on for about a millisecond. A command that takes longer begins again on a helper thread, on a snapshot, so that no
//! latch is held however long it takes, and little of what is on a device is in memory at a time.

use super::{CommandError, Ctx, OUT_OF_MEMORY, Past, Purpose, REPLAY_MS, snapshot_error};
use crate::client_memory::load_max_bytes;
use crate::keyspace::operand::{Asked, Look, Meeting, Members, Operand, Part, Positions, Scores};
use crate::keyspace::paged::{Extent, Failed, Paged, PastCollection, over};
use crate::value::ValueType;
use sexton_engine::page::PageError;
use std::ops::Range;

/// A look at a member costs about as much as going through so many bytes.
const LOOK_BYTES: u64 = 256;

/// The first part of an operand that is gone through, in bytes; each is twice as long as the one before.
const FIRST_PART_BYTES: u64 = 8 << 10;

/// The longest part.
const PART_MAX_BYTES: u64 = 16 << 20;

/// A look at a member in pages costs as much as going through so many.
const MEMBERS_PER_LOOK: usize = 8;

/// So many bytes are read together at most.
const STEP_MAX_BYTES: u64 = 64 << 10;

/// A command that misses more pages than so many at once reads them of a snapshot.
const MISSED_MAX: usize = 64;

/// Pages that are looked at together in a snapshot.
const PAGES_TOGETHER: usize = 128;

/// The operands of a request, in its order.
pub struct Operands<'c, 'a, 'e, 'k> {
    ctx: &'c mut Ctx<'a, 'e>,
    keys: Vec<&'k [u8]>,
    operands: Vec<Operand>,
    /// Those in pages, where they are read of a snapshot.
    past: Option<Vec<Option<PastCollection>>>,
    /// Bytes that were gone through.
    spent_bytes: u64,
}

impl<'c, 'a, 'e, 'k> Operands<'c, 'a, 'e, 'k> {
    /// What these keys of the client's database hold.
    ///
    /// # Errors
    /// WRONGTYPE; the snapshot has ended.
    pub fn of(
        ctx: &'c mut Ctx<'a, 'e>,
        keys: impl Iterator<Item = &'k [u8]>,
        types: &[ValueType],
    ) -> Result<Self, CommandError> {
        let keys: Vec<&[u8]> = keys.collect();
        let mut operands = Vec::with_capacity(keys.len());
        if let Past::Open(past) = &ctx.client.past {
            let mut collections = Vec::with_capacity(keys.len());
            for key in &keys {
                let (operand, collection) = past.operand(key, types)?;
                operands.push(operand);
                collections.push(collection);
            }
            let db = ctx.client.db;
            for (key, operand) in keys.iter().zip(&operands) {
                ctx.count_lookup(db, key, !matches!(operand, Operand::Nothing));
            }
            return Ok(Self { ctx, keys, operands, past: Some(collections), spent_bytes: 0 });
        }
        let db = ctx.client.db;
        for key in &keys {
            operands.push(ctx.inspect(Purpose::Read, db, key, |entry, _| match entry {
                Some(entry) if entry.meta().is_paged() => match Paged::of_entry(entry) {
                    Ok(Some(paged)) => Ok(Operand::of_paged(paged, types)?),
                    Ok(None) => Ok(Operand::Nothing),
                    Err(error) => Err(CommandError::from(format!("ERR storage: {error}"))),
                },
                entry => Ok(Operand::of(entry, types)?),
            })?);
        }
        Ok(Self { ctx, keys, operands, past: None, spent_bytes: 0 })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.operands.len()
    }

    /// Members of the operand with a number.
    #[must_use]
    pub fn len(&self, number: usize) -> usize {
        self.operands[number].len()
    }

    /// The operand with a number.
    #[must_use]
    pub fn get(&self, number: usize) -> &Operand {
        &self.operands[number]
    }

    /// Adds the members at some positions of an operand in pages.
    ///
    /// # Errors
    /// The snapshot has ended; they are larger than memory allows.
    pub fn read_part(
        &mut self,
        number: usize,
        mut left: Range<u64>,
        members: &mut Members,
    ) -> Result<(), CommandError> {
        let Operand::Paged(paged) = &self.operands[number] else { return Ok(()) };
        let positions = Positions::of(paged).map_err(damaged)?;
        while !left.is_empty() {
            self.read(number, positions, (&mut left, PART_MAX_BYTES), members)?;
            self.check_size(members)?;
        }
        Ok(())
    }

    /// Goes through an operand until that fails or `show` answers false: its members, part by part.
    ///
    /// # Errors
    /// The snapshot has ended, and what `show` says.
    pub fn each_part(
        &mut self,
        number: usize,
        mut show: impl FnMut(&mut Self, &Members) -> Result<bool, CommandError>,
    ) -> Result<(), CommandError> {
        let Operand::Paged(paged) = &self.operands[number] else {
            let mut all = Members::default();
            self.operands[number].each(|score, name| all.push(score, name));
            self.spend(all.memory_bytes());
            return show(self, &all).map(drop);
        };
        let positions = Positions::of(paged).map_err(damaged)?;
        let max_bytes = load_max_bytes(self.ctx.server) / 4;
        let max_bytes = max_bytes.clamp(FIRST_PART_BYTES, PART_MAX_BYTES);
        let mut part_bytes = if self.begins_again_often() { max_bytes } else { FIRST_PART_BYTES };
        let mut left = 0..positions.count;
        while !left.is_empty() {
            let mut members = Members::default();
            self.read(number, positions, (&mut left, part_bytes), &mut members)?;
            if !show(self, &members)? {
                break;
            }
            part_bytes = max_bytes.min(2 * part_bytes);
        }
        Ok(())
    }

    /// True where each part that is not in memory makes the command begin again, however many there are.
    fn begins_again_often(&self) -> bool {
        self.past.is_none() && self.ctx.client.may_miss && !self.ctx.client.may_hand_over
    }

    /// The first of the positions `left`, which are read together: at most about so many bytes.
    fn take_step(&mut self, extent: Extent, left: &mut Range<u64>, bytes: u64) -> Range<u64> {
        let max_bytes = if self.begins_again_often() { u64::MAX } else { STEP_MAX_BYTES };
        let step = extent.step_of(bytes.min(max_bytes));
        let positions = left.start..left.end.min(left.start.saturating_add(step));
        left.start = positions.end;
        self.spend(extent.bytes_of(positions.end - positions.start));
        positions
    }

    /// Adds the members of an operand in pages that are at the first of the positions `left`, about so many bytes.
    fn read(
        &mut self,
        number: usize,
        positions: Positions,
        (left, bytes): (&mut Range<u64>, u64),
        members: &mut Members,
    ) -> Result<(), CommandError> {
        let end_bytes = members.memory_bytes().saturating_add(bytes);
        while !left.is_empty() && members.memory_bytes() < end_bytes {
            let positions = self.take_step(positions.extent, left, bytes);
            self.look(number, &mut Part { positions, members: &mut *members })?;
        }
        Ok(())
    }

    /// The scores of the members of `asked` with these numbers in an operand, in their order.
    ///
    /// # Errors
    /// The snapshot has ended.
    pub fn scores(
        &mut self,
        number: usize,
        asked: &Members,
        numbers: &[usize],
    ) -> Result<Vec<Option<f64>>, CommandError> {
        let paged = match &self.operands[number] {
            Operand::Paged(paged) => paged,
            operand => return Ok(operand.scores(asked, numbers)),
        };
        if paged.count() <= MEMBERS_PER_LOOK * numbers.len() {
            let Positions { count, extent } = Positions::of(paged).map_err(damaged)?;
            let (mut met, mut left) = (Asked::of(asked, numbers), 0..count);
            while !left.is_empty() {
                let positions = self.take_step(extent, &mut left, u64::MAX);
                self.look(number, &mut Meeting { positions, asked: &mut met })?;
            }
            return Ok(met.into_scores(numbers));
        }
        if self.past.is_none() {
            self.spend(LOOK_BYTES * numbers.len() as u64);
            return self.look(number, &mut Scores { asked, numbers });
        }
        // Those that a page knows are asked for together.
        let page_of = Scores::page_of(paged).map_err(damaged)?;
        let mut by_page: Vec<_> = numbers
            .iter()
            .enumerate()
            .map(|(at, &number)| (page_of(asked.name(number)), at))
            .collect();
        by_page.sort_unstable();
        let mut found = vec![None; numbers.len()];
        for some in in_pages(&by_page) {
            let numbers: Vec<usize> = some.iter().map(|&(_, at)| numbers[at]).collect();
            let scores = self.look(number, &mut Scores { asked, numbers: &numbers })?;
            some.iter().zip(scores).for_each(|(&(_, at), score)| found[at] = score);
        }
        Ok(found)
    }

    /// Refuses an outcome that is larger than memory allows.
    ///
    /// # Errors
    /// `OOM`.
    pub fn check_size(&self, outcome: &Members) -> Result<(), CommandError> {
        let max_bytes = load_max_bytes(self.ctx.server);
        if outcome.memory_bytes() > max_bytes && self.ctx.now_ms != REPLAY_MS {
            return Err(CommandError::text(OUT_OF_MEMORY));
        }
        Ok(())
    }

    /// Notes work. Where it has become too much for a worker, the command begins again elsewhere.
    fn spend(&mut self, bytes: u64) {
        self.spent_bytes = self.spent_bytes.saturating_add(bytes);
        self.ctx.hand_over_to_the_past_above(self.spent_bytes);
    }

    /// Looks at the pages of an operand.
    ///
    /// # Errors
    /// It has none; the snapshot has ended.
    pub fn look<L: Look>(&mut self, number: usize, look: &mut L) -> Result<L::Found, CommandError> {
        if let Some(past) = &mut self.past {
            let Some(collection) = &mut past[number] else {
                return Err(CommandError::text("ERR storage: pages without a snapshot"));
            };
            return collection.over(|paged, pages| look.look(paged, pages)).map_err(snapshot_error);
        }
        let Operand::Paged(paged) = &self.operands[number] else {
            return Err(CommandError::text("ERR storage: an operand without pages"));
        };
        let key = self.ctx.key_in(self.ctx.client.db, self.keys[number]);
        let (cid, reads_here) = (paged.descriptor.collection, !self.ctx.client.may_miss);
        let tx = self.ctx.tx.as_deref_mut().expect("command class has a transaction");
        let looked = over(tx, key, cid, reads_here, |pages| look.look(paged, &pages));
        looked.map_err(|failed| {
            if let Failed::Away(wants) = &failed
                && wants.len() > MISSED_MAX
            {
                self.ctx.hand_over_to_the_past_above(u64::MAX);
            }
            self.ctx.stop(failed)
        })
    }
}

fn damaged(error: PageError) -> CommandError {
    CommandError::from(format!("ERR storage: a collection: {error}"))
}

/// Parts of what is sorted by its pages, each of which is in a bounded number of them.
fn in_pages<P: PartialEq, T>(sorted: &[(P, T)]) -> impl Iterator<Item = &[(P, T)]> {
    let mut rest = sorted;
    std::iter::from_fn(move || {
        let (mut pages, mut end) = (0, 0);
        for page in rest.chunk_by(|one, other| one.0 == other.0) {
            if pages == PAGES_TOGETHER {
                break;
            }
            (pages, end) = (pages + 1, end + page.len());
        }
        let (some, others) = rest.split_at(end);
        rest = others;
        (!some.is_empty()).then_some(some)
    })
}
