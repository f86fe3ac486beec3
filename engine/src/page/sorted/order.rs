//! The order of a sorted set: where a member comes in, and goes out.

use super::{Located, Sorted, bound_between, page_id, wrong};
use crate::page::bytes::HEAD_BYTES;
use crate::page::pieces;
use crate::page::score::Score;
use crate::page::scores_page::{self, Cut, SCORE_BYTES, Scored};
use crate::page::store::{PageEdit, PageError, Pages, at_page};
use crate::page::tree::{Child, Path};

/// So often a page asks its neighbours whether it may join them while it goes from full to empty.
const JOIN_LOOKS: usize = 8;

impl Sorted {
    /// Puts a member into the order. The index is not asked.
    pub(super) fn insert<P: Pages>(
        &mut self,
        pages: &mut P,
        score: Score,
        member: &[u8],
    ) -> Result<(), PageError> {
        let own = (score, member);
        let Some(path) = self.tree.find(pages, &Cut::Behind(score, member))? else {
            let number = self.tree.new_number();
            pages.add(page_id(number), &scores_page::build(&[own]));
            (self.tree.root, self.tree.pages) = (number, 1);
            return Ok(());
        };
        self.insert_at(pages, path, own).map(|_| ())
    }

    /// Inserts a member into the page at the end of `path`, where it belongs. True if pages were added, which invalidates other paths.
    pub(super) fn insert_at<P: Pages>(
        &mut self,
        pages: &mut P,
        path: Path,
        own: Scored<'_>,
    ) -> Result<bool, PageError> {
        let (score, member) = own;
        let (id, page) = (page_id(path.page), self.page(pages, path.page)?);
        self.tree.hold(pages, &path)?;
        let at = page.count_before(Cut::Before(score, member)).map_err(at_page(id))?;
        let count = page.len();
        if page.bytes_with(score, member.len()) <= self.sizes.page_bytes {
            scores_page::insert_at(&mut pages.edit(id)?, at, score, member).map_err(at_page(id))?;
            self.tree.set_count(pages, &path.steps, count as u32 + 1)?;
            return Ok(false);
        }
        if at == count && self.tree.is_last(pages, &path)? {
            // Scores that ascend as time does leave full pages behind.
            let bound = bound_between(Some(page.get(at - 1).map_err(at_page(id))?), own);
            let number = self.tree.new_number();
            pages.add(page_id(number), &scores_page::build(&[own]));
            let behind = vec![Child { number, count: 1, bound }];
            return self.tree.split(pages, &path, count as u32, behind).map(|()| true);
        }
        let mut members = page.iter().collect::<Result<Vec<_>, _>>().map_err(at_page(id))?;
        members.insert(at, own);
        let mut built = Vec::new();
        let mut last: Option<Scored<'_>> = None;
        for own in self.pieces(&members) {
            let Some(first) = own.first() else { continue };
            built.push((scores_page::build(own), own.len(), bound_between(last, *first)));
            last = own.last().copied();
        }
        let mut built = built.into_iter();
        let Some((first, count, _)) = built.next() else { return Ok(false) };
        pages.edit(id)?.replace(&first);
        let mut behind = Vec::new();
        for (payload, count, bound) in built {
            let number = self.tree.new_number();
            pages.add(page_id(number), &payload);
            behind.push(Child { number, count: count as u32, bound });
        }
        self.tree.split(pages, &path, count as u32, behind).map(|()| true)
    }

    /// Gives a member another score: within its page, if it stays there and the page has room.
    pub(super) fn move_to<P: Pages>(
        &mut self,
        pages: &mut P,
        old: &Located,
        score: Score,
        member: &[u8],
    ) -> Result<(), PageError> {
        let id = page_id(old.path.page);
        let Some(path) = self.tree.find(pages, &Cut::Behind(score, member))? else {
            return Err(wrong(id, "a tree above the page"));
        };
        let page = self.page(pages, old.path.page)?;
        if path.page == old.path.page
            && page.bytes_with(score, member.len()) <= self.sizes.page_bytes
        {
            let mut edit = pages.edit(id)?;
            scores_page::remove(&mut edit, old.at).map_err(at_page(id))?;
            return scores_page::insert(&mut edit, score, member).map_err(at_page(id));
        }
        let same_page = path.page == old.path.page;
        // The new place first: it alone may need pages that are away.
        if self.insert_at(pages, path, (score, member))? || same_page {
            return self.take_out(pages, old.score, member);
        }
        self.take_out_at(pages, old.path.clone(), old.at)
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
        let counts = pieces::pieces(&bytes, head_bytes, self.sizes.page_bytes);
        let mut rest = members;
        counts.into_iter().map(move |count| {
            let (own, others) = rest.split_at(count);
            rest = others;
            own
        })
    }

    /// Takes a member out of the order. Its page is in memory, and what leads to it.
    pub(super) fn take_out<P: Pages>(
        &mut self,
        pages: &mut P,
        score: Score,
        member: &[u8],
    ) -> Result<(), PageError> {
        let Some(path) = self.tree.find(pages, &Cut::Behind(score, member))? else { return Ok(()) };
        let (id, page) = (page_id(path.page), self.page(pages, path.page)?);
        match page.find(score, member).map_err(at_page(id))? {
            Some(at) => self.take_out_at(pages, path, at),
            None => Err(wrong(id, "member of the index")),
        }
    }

    /// Removes the member at a place of the page at the end of `path`.
    pub(super) fn take_out_at<P: Pages>(
        &mut self,
        pages: &mut P,
        path: Path,
        at: usize,
    ) -> Result<(), PageError> {
        let id = page_id(path.page);
        let page = self.page(pages, path.page)?;
        let (count, before) = (page.len(), page.bytes());
        if count == 1 {
            return self.tree.remove(pages, &path);
        }
        let after = {
            let mut edit = pages.edit(id)?;
            scores_page::remove(&mut edit, at).map_err(at_page(id))?;
            edit.bytes().len()
        };
        self.tree.set_count(pages, &path.steps, count as u32 - 1)?;
        // A small page asks its neighbours now and then only: what had no room for it mostly has none yet.
        let asked_every = (self.sizes.page_bytes / JOIN_LOOKS).max(1);
        if before / asked_every == after / asked_every {
            return Ok(());
        }
        self.join(pages, path, after)
    }

    /// Joins a page of so many bytes with a neighbour, if it has become small, both are in memory and one page has room for both.
    pub(super) fn join<P: Pages>(
        &mut self,
        pages: &mut P,
        path: Path,
        bytes: usize,
    ) -> Result<(), PageError> {
        let page_bytes = self.sizes.page_bytes;
        if bytes >= page_bytes / 4 {
            return Ok(());
        }
        let [before, behind] = self.tree.neighbours(pages, &path)?;
        let mut earlier = path.clone();
        if let (Some((number, _)), Some(step)) = (before, earlier.steps.last_mut()) {
            (earlier.page, step.at) = (number, step.at - 1);
        }
        let right = behind.map(|(number, _)| (path.clone(), number));
        let left = before.map(|_| (earlier, path.page));
        for (path, right) in [right, left].into_iter().flatten() {
            let id = page_id(path.page);
            if !pages.is_in_memory(id) || !pages.is_in_memory(page_id(right)) {
                continue;
            }
            let (Ok(own), Ok(behind)) = (self.page(pages, path.page), self.page(pages, right))
            else {
                continue;
            };
            // One head and one common score can be saved, no more: what is too large anyhow is not built.
            let least_bytes = own.bytes() + behind.bytes() - HEAD_BYTES - SCORE_BYTES;
            if least_bytes > page_bytes * 3 / 4 {
                continue;
            }
            let members = own.iter().chain(behind.iter()).collect::<Result<Vec<_>, _>>();
            let Ok(members) = members else { continue };
            let merged = scores_page::build(&members);
            if merged.len() > page_bytes * 3 / 4 {
                continue;
            }
            let count = members.len() as u32;
            pages.edit(id)?.replace(&merged);
            return self.tree.join(pages, &path, count);
        }
        Ok(())
    }
}
