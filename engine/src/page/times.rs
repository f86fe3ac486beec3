//! Due times of a hash's pages, the earliest of each: a tree of blocks over the page numbers, in which an inner block
//! has the earliest time of each block below.
//!
//! Invariants: block `n` of a level has the times of children 64 n to 64 n + 63 of that level, as many as exist; the
//! children of level 0 are the pages, those of another level the blocks of the one below; the top has one block. The
//! number of pages therefore determines which blocks exist. A time of 0 marks pages without due times. The blocks
//! exist while a page has a due time, and are exact.

use super::bytes::{damage, u64_at};
use super::descriptor::Part;
use super::store::{Damage, PageEdit, PageError, PageId, Pages, PartKind, at_page};

/// Children of a block.
const CHILDREN: u64 = 64;

/// Bytes of a due time.
pub(super) const TIME_BYTES: usize = 8;

/// Bit position of the level in a block's number.
const LEVEL_SHIFT: u32 = 32;

fn id(level: u32, block: u64) -> PageId {
    PageId { part: PartKind::Times, number: u64::from(level) << LEVEL_SHIFT | block }
}

/// Number of children of a level over `pages` pages. Level 0 always exists, a higher one while it has two or more.
fn children(level: u32, pages: u32) -> u64 {
    (0..level).fold(u64::from(pages), |below, _| below.div_ceil(CHILDREN))
}

fn is_level(level: u32, pages: u32) -> bool {
    level == 0 || children(level, pages) > 1
}

/// Blocks over `pages` pages.
fn blocks(pages: u32) -> impl Iterator<Item = PageId> {
    (0..)
        .take_while(move |level| is_level(*level, pages))
        .flat_map(move |level| (0..children(level + 1, pages)).map(move |block| id(level, block)))
}

/// A block's payload, whose length is what it should be.
fn read<P: Pages>(pages: &P, level: u32, block: u64, count: u32) -> Result<&[u8], PageError> {
    let page = id(level, block);
    let payload = pages.read(page)?;
    let wanted = children(level, count).saturating_sub(block * CHILDREN).min(CHILDREN) as usize;
    if payload.len() != wanted * TIME_BYTES {
        return Err(at_page(page)(Damage { at: payload.len(), expected: "a time for each child" }));
    }
    Ok(payload)
}

/// The earlier one of two due times; 0 is never.
pub(super) fn earlier(one_ms: u64, other_ms: u64) -> u64 {
    match (one_ms, other_ms) {
        (0, ms) | (ms, 0) => ms,
        (one_ms, other_ms) => one_ms.min(other_ms),
    }
}

fn times(payload: &[u8]) -> impl Iterator<Item = u64> {
    payload.as_chunks::<TIME_BYTES>().0.iter().map(|time| u64::from_le_bytes(*time))
}

fn earliest(payload: &[u8]) -> u64 {
    times(payload).fold(0, earlier)
}

/// The due times of a hash that has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The earliest of all. Blocks that have just been made have none.
    pub earliest_ms: u64,
}

impl Times {
    /// What a descriptor says of them, with the earliest of all; `None` where there are none.
    #[must_use]
    pub fn open(part: Option<&Part>, earliest_ms: u64) -> Option<Self> {
        part.map(|_| Self { earliest_ms })
    }

    /// The descriptor's part for the blocks over `pages` pages.
    #[must_use]
    pub fn part(pages: u32) -> Part {
        let blocks = blocks(pages).count();
        Part { kind: PartKind::Times, flags: 0, pages: blocks as u32, a: 0, b: 0 }
    }

    /// Makes the blocks over pages with these earliest times.
    pub(super) fn build<P: Pages>(pages: &mut P, of_pages: &[u64]) -> Self {
        let mut below = of_pages.to_vec();
        for level in 0.. {
            let blocks = below.chunks(CHILDREN as usize);
            let mut above = Vec::with_capacity(blocks.len());
            for (number, times) in (0..).zip(blocks) {
                let payload: Vec<u8> = times.iter().flat_map(|time| time.to_le_bytes()).collect();
                pages.add(id(level, number), &payload);
                above.push(earliest(&payload));
            }
            below = above;
            if below.len() <= 1 {
                break;
            }
        }
        Self { earliest_ms: below.first().copied().unwrap_or(0) }
    }

    /// Removes all blocks, read or not.
    pub(super) fn remove_all<P: Pages>(pages: &mut P, count: u32) {
        blocks(count).for_each(|block| pages.remove(block));
    }

    /// The blocks over a page are in memory, from the pages up.
    pub(super) fn needs<P: Pages>(pages: &P, page: u32, count: u32) -> Result<(), PageError> {
        let mut at = u64::from(page);
        for level in (0..).take_while(|level| is_level(*level, count)) {
            at /= CHILDREN;
            read(pages, level, at, count)?;
        }
        Ok(())
    }

    /// The blocks over a page.
    pub(super) fn over(page: u32, count: u32) -> impl Iterator<Item = PageId> {
        let levels = (0..).take_while(move |level| is_level(*level, count));
        levels.scan(u64::from(page), |at, level| {
            *at /= CHILDREN;
            Some(id(level, *at))
        })
    }

    /// The earliest time of a page.
    #[cfg(test)]
    fn get<P: Pages>(pages: &P, page: u32, count: u32) -> Result<u64, PageError> {
        let (block, at) = (u64::from(page) / CHILDREN, u64::from(page) % CHILDREN);
        let payload = read(pages, 0, block, count)?;
        u64_at(payload, at as usize * TIME_BYTES).map_err(at_page(id(0, block)))
    }

    /// Says when the first key of a page is due. [`needs`](Self::needs) has shown the blocks over it.
    pub(super) fn set<P: Pages>(
        &mut self,
        pages: &mut P,
        page: u32,
        count: u32,
        due_ms: u64,
    ) -> Result<(), PageError> {
        let (mut at, mut due_ms) = (u64::from(page), due_ms);
        for level in (0..).take_while(|level| is_level(*level, count)) {
            let (block, child) = (at / CHILDREN, (at % CHILDREN) as usize * TIME_BYTES);
            if u64_at(read(pages, level, block, count)?, child) == Ok(due_ms) {
                return Ok(());
            }
            let mut edit = pages.edit(id(level, block))?;
            edit.write(child, &due_ms.to_le_bytes());
            (due_ms, at) = (earliest(edit.bytes()), block);
        }
        self.earliest_ms = due_ms;
        Ok(())
    }

    /// A page comes behind the `count` that there are. The blocks over the last one are in memory.
    pub(super) fn push<P: Pages>(
        &mut self,
        pages: &mut P,
        count: u32,
        due_ms: u64,
    ) -> Result<(), PageError> {
        let (mut at, mut due_ms, before_ms) = (u64::from(count), due_ms, self.earliest_ms);
        for level in (0..).take_while(|level| is_level(*level, count + 1)) {
            let (block, child) = (at / CHILDREN, (at % CHILDREN) as usize * TIME_BYTES);
            let is_new = at == children(level, count);
            due_ms = if !is_level(level, count) {
                // One block was the top until now.
                let payload = [before_ms.to_le_bytes(), due_ms.to_le_bytes()].concat();
                pages.add(id(level, block), &payload);
                earliest(&payload)
            } else if is_new && child == 0 {
                pages.add(id(level, block), &due_ms.to_le_bytes());
                due_ms
            } else {
                let mut edit = pages.edit(id(level, block))?;
                if is_new {
                    edit.splice(child..child, &due_ms.to_le_bytes());
                } else {
                    edit.write(child, &due_ms.to_le_bytes());
                }
                earliest(edit.bytes())
            };
            at = block;
        }
        self.earliest_ms = due_ms;
        Ok(())
    }

    /// The last of `count` pages goes. The blocks over it are in memory.
    pub(super) fn pop<P: Pages>(&mut self, pages: &mut P, count: u32) -> Result<(), PageError> {
        // What becomes of the block below: its earliest time, or none where it is gone.
        let (mut at, mut below) = (u64::from(count - 1), None);
        for level in (0..).take_while(|level| is_level(*level, count)) {
            let (block, child) = (at / CHILDREN, (at % CHILDREN) as usize * TIME_BYTES);
            if !is_level(level, count - 1) {
                // Its second child has gone, and the first one is the top now.
                below = times(read(pages, level, block, count)?).next();
                pages.remove(id(level, block));
                break;
            }
            below = match below {
                None if child == 0 => {
                    pages.remove(id(level, block));
                    None
                }
                None => {
                    let mut edit = pages.edit(id(level, block))?;
                    edit.splice(child..child + TIME_BYTES, &[]);
                    Some(earliest(edit.bytes()))
                }
                Some(due_ms) => {
                    let mut edit = pages.edit(id(level, block))?;
                    edit.write(child, &u64::to_le_bytes(due_ms));
                    Some(earliest(edit.bytes()))
                }
            };
            at = block;
        }
        self.earliest_ms = below.unwrap_or(0);
        Ok(())
    }

    /// At most this many pages with keys due at `now_ms`. Blocks that are not in memory are reported, as far as they are
    /// known, and nothing below them is visited.
    pub(super) fn due<P: Pages>(
        &self,
        pages: &P,
        count: u32,
        (now_ms, most): (u64, usize),
        missing: &mut Vec<PageId>,
    ) -> Result<Vec<u32>, PageError> {
        let mut found = Vec::new();
        if self.earliest_ms == 0 || self.earliest_ms > now_ms {
            return Ok(found);
        }
        let top = (0..).take_while(|level| is_level(*level, count)).count() as u32 - 1;
        let mut open = vec![(top, 0_u64)];
        while let Some((level, block)) = open.pop() {
            let payload = match read(pages, level, block, count) {
                Err(PageError::Missing(page)) => {
                    missing.push(page);
                    continue;
                }
                payload => payload?,
            };
            let due = times(payload).zip(block * CHILDREN..);
            let due = due.filter(|(due_ms, _)| *due_ms != 0 && *due_ms <= now_ms);
            for (_, child) in due {
                if level > 0 {
                    open.push((level - 1, child));
                } else if found.len() < most {
                    found.push(child as u32);
                }
            }
            if found.len().max(missing.len()) >= most {
                break;
            }
        }
        if found.is_empty() && missing.is_empty() && most > 0 {
            // Whoever waits for it would wait for ever.
            return damage(0, "the page that is due first").map_err(at_page(id(top, 0)));
        }
        Ok(found)
    }

    /// Looks at all blocks: whether each time is that of its page, and each block's of the one below.
    pub(super) fn check<P: Pages>(self, pages: &P, of_pages: &[u64]) -> Result<(), PageError> {
        let count = of_pages.len() as u32;
        let mut below = of_pages.to_vec();
        for level in (0..).take_while(|level| is_level(*level, count)) {
            let mut above = Vec::new();
            for (block, wanted) in (0..).zip(below.chunks(CHILDREN as usize)) {
                let payload = read(pages, level, block, count)?;
                if !times(payload).eq(wanted.iter().copied()) {
                    return damage(0, "the earliest due times of the children")
                        .map_err(at_page(id(level, block)));
                }
                above.push(earliest(payload));
            }
            below = above;
        }
        if below == [self.earliest_ms] && self.earliest_ms != 0 {
            Ok(())
        } else {
            damage(0, "the earliest due time that the descriptor says").map_err(at_page(id(0, 0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Memory, Random};
    use super::*;

    /// Pages come and go at the end, and times change, over every border of blocks and levels.
    #[test]
    fn the_blocks_say_what_a_list_of_times_says() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let most = [3, 70, 200, 5000][seed as usize % 4];
            let (mut memory, mut model) = (Memory::default(), vec![1000]);
            let mut times = Times::build(&mut memory, &model);
            let mut grows = true;
            for step in 0..8000 {
                if model.len() == 1 || model.len() >= most || random.is_one_in(500) {
                    grows = model.len() < most && (model.len() == 1 || random.is_one_in(2));
                }
                let count = model.len() as u32;
                // The first page keeps a time, so that there is one.
                let due_ms = if random.is_one_in(3) { 0 } else { 1 + random.below(1000) as u64 };
                match random.below(3) {
                    0 if grows => {
                        times.push(&mut memory, count, due_ms).expect("in memory");
                        model.push(due_ms);
                    }
                    0 if count > 1 => {
                        times.pop(&mut memory, count).expect("in memory");
                        model.pop();
                    }
                    _ => {
                        let page = random.below(model.len());
                        let due_ms = if page == 0 { due_ms.max(1) } else { due_ms };
                        times.set(&mut memory, page as u32, count, due_ms).expect("in memory");
                        model[page] = due_ms;
                    }
                }
                let count = model.len() as u32;
                let page = random.below(model.len());
                assert_eq!(Times::get(&memory, page as u32, count), Ok(model[page]));
                let earliest_ms = model.iter().copied().fold(0, earlier);
                assert_eq!(times.earliest_ms, earliest_ms, "step {step} of seed {seed}");
                assert_eq!(memory.pages.len(), Times::part(count).pages as usize);
                if step % 50 == 0 {
                    times.check(&memory, &model).expect("exact");
                    let now_ms = random.below(1100) as u64;
                    let (all, mut missing) = ((now_ms, usize::MAX), Vec::new());
                    let mut due = times.due(&memory, count, all, &mut missing).expect("in memory");
                    due.sort_unstable();
                    let wanted = (0..count).filter(|page| {
                        let due_ms = model[*page as usize];
                        due_ms != 0 && due_ms <= now_ms
                    });
                    assert!(due.into_iter().eq(wanted));
                    let some = times.due(&memory, count, (now_ms, 3), &mut missing);
                    assert!(some.expect("in memory").len() <= 3 && missing.is_empty());
                }
            }
            Times::remove_all(&mut memory, model.len() as u32);
            assert!(memory.pages.is_empty());
        }
    }
}
