//! The order of a sorted set: where a member comes in, and goes out.

use super::bound::Bound;
use super::{Sorted, wrong};
use crate::page::bytes::HEAD_BYTES;
use crate::page::score::Score;
use crate::page::scores_page::{self, Cut, Scored};
use crate::page::sequence::{self, Sequence, Side};
use crate::page::store::{PageEdit, PageError, Pages, at_page};

impl Sorted {
    /// Puts a member into the order. The index is not asked.
    pub(super) fn insert<P: Pages>(
        &mut self,
        pages: &mut P,
        score: Score,
        member: &[u8],
    ) -> Result<(), PageError> {
        let own = (score, member);
        let Some(spot) = self.spot_of(score, member) else {
            let label = Sequence::<Bound>::first_label();
            let bound = Bound::between(None, own);
            self.sequence.add(pages, label, &scores_page::build(&[own]), 1, bound);
            return Ok(());
        };
        let id = self.sequence.id(spot.label);
        let page = self.page(pages, spot)?;
        let at = page.count_before(Cut::Before(score, member)).map_err(at_page(id))?;
        let page_bytes = self.sizes.scores.page_bytes;
        if page.bytes_with(score, member.len()) <= page_bytes {
            scores_page::insert(&mut pages.edit(id)?, score, member).map_err(at_page(id))?;
            self.sequence.directory.set_count(spot.label, spot.count + 1);
            return Ok(());
        }
        if at == page.len() && self.sequence.directory.next(spot.label).is_none() {
            // Scores that ascend as time does leave full pages behind.
            let bound = Bound::between(Some(page.get(at - 1).map_err(at_page(id))?), own);
            let room = self.sequence.room(pages, spot.label, Side::Behind, 1)?;
            for label in room.free {
                self.sequence.add(pages, label, &scores_page::build(&[own]), 1, bound.clone());
            }
            return Ok(());
        }
        let mut members = page.iter().collect::<Result<Vec<_>, _>>().map_err(at_page(id))?;
        members.insert(at, own);
        let mut built = Vec::new();
        let mut last: Option<Scored<'_>> = None;
        for own in self.pieces(&members) {
            let Some(first) = own.first() else { continue };
            built.push((scores_page::build(own), own.len(), Bound::between(last, *first)));
            last = own.last().copied();
        }
        let mut built = built.into_iter();
        let Some((first, count, _)) = built.next() else { return Ok(()) };
        let room = self.sequence.room(pages, spot.label, Side::Behind, built.len())?;
        for (label, (payload, count, bound)) in room.free.into_iter().zip(built) {
            self.sequence.add(pages, label, &payload, count, bound);
        }
        pages.edit(self.sequence.id(room.label))?.replace(&first);
        self.sequence.directory.set_count(room.label, count as u32);
        Ok(())
    }

    /// Cuts members into pages.
    pub(super) fn pieces<'s, 'm>(
        &self,
        members: &'s [Scored<'m>],
    ) -> impl Iterator<Item = &'s [Scored<'m>]> + use<'s, 'm> {
        let is_equal = scores_page::have_one_score(members);
        let bytes: Vec<usize> = members
            .iter()
            .map(|(_, member)| scores_page::entry_bytes(member.len(), is_equal))
            .collect();
        // Head, and the one score of all.
        let head_bytes = HEAD_BYTES + if is_equal { 8 } else { 0 };
        let counts = sequence::pieces(&bytes, head_bytes, self.sizes.scores.page_bytes);
        let mut rest = members;
        counts.into_iter().map(move |count| {
            let (own, others) = rest.split_at(count);
            rest = others;
            own
        })
    }

    /// Takes a member out of the order. Its page is in memory.
    pub(super) fn take_out<P: Pages>(
        &mut self,
        pages: &mut P,
        score: Score,
        member: &[u8],
    ) -> Result<(), PageError> {
        let Some(spot) = self.spot_of(score, member) else { return Ok(()) };
        let id = self.sequence.id(spot.label);
        let page = self.page(pages, spot)?;
        let Some(at) = page.find(score, member).map_err(at_page(id))? else {
            return Err(wrong(id, "member of the index"));
        };
        if spot.count == 1 {
            self.sequence.remove(pages, spot.label);
        } else {
            scores_page::remove(&mut pages.edit(id)?, at).map_err(at_page(id))?;
            self.sequence.directory.set_count(spot.label, spot.count - 1);
            self.join(pages, spot.label);
        }
        Ok(())
    }

    /// Joins the page with a neighbour, if it has become small, both are in memory and one page has room for both.
    pub(super) fn join<P: Pages>(&mut self, pages: &mut P, label: u64) {
        let directory = &self.sequence.directory;
        let page_bytes = self.sizes.scores.page_bytes;
        let bytes_of = |pages: &P, label| pages.read(self.sequence.id(label)).map(<[u8]>::len);
        if bytes_of(pages, label).is_ok_and(|bytes| bytes >= page_bytes / 4) {
            return;
        }
        let pairs = [
            directory.of(label).zip(directory.next(label)),
            directory.previous(label).zip(directory.of(label)),
        ];
        for (left, right) in pairs.into_iter().flatten() {
            let ids = [left, right].map(|spot| self.sequence.id(spot.label));
            if !ids.iter().all(|id| pages.is_in_memory(*id)) {
                continue;
            }
            let (Ok(own), Ok(behind)) = (self.page(pages, left), self.page(pages, right)) else {
                continue;
            };
            let members = own.iter().chain(behind.iter()).collect::<Result<Vec<_>, _>>();
            let Ok(members) = members else { continue };
            let merged = scores_page::build(&members);
            if merged.len() > page_bytes * 3 / 4 {
                continue;
            }
            let count = left.count + right.count;
            let Ok(mut edit) = pages.edit(ids[0]) else { continue };
            edit.replace(&merged);
            drop(edit);
            self.sequence.remove(pages, right.label);
            self.sequence.directory.set_count(left.label, count);
            return;
        }
    }
}
