//! Pages in a sequence: names for new ones between others, and other names for all around where no name is left.

use super::descriptor::Part;
use super::directory::{Directory, Spot};
use super::store::{PageError, PageId, Pages, PartKind};

/// Label of the first page of a sequence.
const FIRST_LABEL: u64 = 1 << 63;

/// How full pages get, and how far apart their labels begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceSizes {
    /// A page of several elements has no more bytes; at most 64 KiB.
    pub page_bytes: usize,
    /// Distance of the labels of two neighbours, when the second comes at an end.
    pub label_gap: u64,
}

impl SequenceSizes {
    /// Sizes for pages of so many bytes.
    #[must_use]
    pub const fn of_pages(page_bytes: usize) -> Self {
        Self { page_bytes, label_gap: 1 << 20 }
    }
}

/// Cuts elements that take so many bytes into pages of at most `page_bytes`, two of which are about equally full. Gives
/// how many elements each page has.
pub(super) fn pieces(bytes: &[usize], head_bytes: usize, page_bytes: usize) -> Vec<usize> {
    let room = page_bytes.saturating_sub(head_bytes);
    let mut counts = Vec::new();
    let mut rest = bytes;
    let mut left: usize = bytes.iter().sum();
    while !rest.is_empty() {
        // What two pages hold is cut in the middle.
        let wanted = if left > room && left <= 2 * room { left.div_ceil(2) } else { room };
        let (mut own, mut count) = (0, 0);
        for more in rest {
            if count > 0 && (own >= wanted || own + more > room) {
                break;
            }
            (own, count) = (own + more, count + 1);
        }
        counts.push(count);
        rest = &rest[count..];
        left -= own;
    }
    counts
}

/// On which side of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    Behind,
}

/// The pages of a sequence, by label, position and bound.
#[derive(Clone, Debug)]
pub(super) struct Sequence<B> {
    pub kind: PartKind,
    pub directory: Directory<B>,
    pub sizes: SequenceSizes,
}

/// A page, and free labels beside it.
pub(super) struct Room {
    /// The page's label, which may have changed.
    pub label: u64,
    /// Free labels, ascending, all on the side that was asked for.
    pub free: Vec<u64>,
}

impl<B: Clone> Sequence<B> {
    pub(super) fn new(kind: PartKind, sizes: SequenceSizes) -> Self {
        Self { kind, directory: Directory::default(), sizes }
    }

    pub(super) fn id(&self, label: u64) -> PageId {
        PageId { part: self.kind, number: label }
    }

    /// A label for the only page.
    pub(super) const fn first_label() -> u64 {
        FIRST_LABEL
    }

    /// What the descriptor says of the pages; `None` without any.
    pub(super) fn part(&self) -> Option<Part> {
        let (first, last) = self.directory.first().zip(self.directory.last())?;
        let (kind, pages) = (self.kind, self.directory.pages());
        Some(Part { kind, flags: 0, pages, a: first.label, b: last.label })
    }

    /// The pages that hold the elements whose numbers are in `range`.
    pub(super) fn page_ids(
        &self,
        range: std::ops::Range<u64>,
    ) -> impl Iterator<Item = PageId> + '_ {
        let first = if range.is_empty() { None } else { self.directory.at(range.start) };
        let next = |spot: &Spot| self.directory.next(spot.label);
        std::iter::successors(first, next)
            .take_while(move |spot| spot.before < range.end)
            .map(|spot| self.id(spot.label))
    }

    /// Adds a page.
    pub(super) fn add<P: Pages>(
        &mut self,
        pages: &mut P,
        label: u64,
        payload: &[u8],
        count: usize,
        bound: B,
    ) {
        pages.add(self.id(label), payload);
        self.directory.insert(label, count as u32, bound);
    }

    /// Removes a page that was read.
    pub(super) fn remove<P: Pages>(&mut self, pages: &mut P, label: u64) {
        pages.remove(self.id(label));
        self.directory.remove(label);
    }

    /// Finds `wanted` free labels beside a page, whose neighbours get other labels if there are none. Pages that have to
    /// be renamed are read before the first is.
    pub(super) fn room<P: Pages>(
        &mut self,
        pages: &mut P,
        label: u64,
        side: Side,
        wanted: usize,
    ) -> Result<Room, PageError> {
        let neighbour = match side {
            Side::Before => self.directory.previous(label),
            Side::Behind => self.directory.next(label),
        };
        let gap = self.sizes.label_gap;
        let reach = gap.saturating_mul(wanted as u64 + 1);
        let (low, high) = match (side, neighbour) {
            (Side::Before, Some(before)) => (before.label, label),
            (Side::Before, None) => (label.saturating_sub(reach), label),
            (Side::Behind, Some(behind)) => (label, behind.label),
            (Side::Behind, None) => (label, label.saturating_add(reach)),
        };
        let step = (high - low) / (wanted as u64 + 1);
        if step > 0 {
            let free = (1..=wanted as u64).map(|n| low + n * step).collect();
            return Ok(Room { label, free });
        }
        self.rename_around(pages, label, side, wanted)
    }

    fn rename_around<P: Pages>(
        &mut self,
        pages: &mut P,
        label: u64,
        side: Side,
        wanted: usize,
    ) -> Result<Room, PageError> {
        let Some(middle) = self.directory.of(label) else {
            return Err(PageError::Missing(self.id(label)));
        };
        let mut reach = 1;
        loop {
            let window = self.window(middle, reach);
            let is_all = window.len() == self.directory.pages() as usize;
            let slots = (window.len() + wanted) as u64;
            let outside = self.sizes.label_gap.saturating_mul(slots);
            let ends = window.first().zip(window.last());
            let Some((first, last)) = ends else { return Err(PageError::Missing(self.id(label))) };
            let low = self.directory.previous(first.label);
            let low = low.map_or(first.label.saturating_sub(outside), |spot| spot.label);
            let high = self.directory.next(last.label);
            let high = high.map_or(last.label.saturating_add(outside), |spot| spot.label);
            let step = (high - low) / (slots + 1);
            // The wider, the longer until the next time.
            if step < (self.sizes.label_gap / 256).max(2) && !is_all {
                reach *= 2;
                continue;
            }
            return self.rename(pages, &window, label, side, wanted, (low, step.max(1)));
        }
    }

    /// The pages up to `reach` pages away.
    fn window(&self, middle: Spot, reach: usize) -> Vec<Spot> {
        let back = |spot: &Spot| self.directory.previous(spot.label);
        let mut window: Vec<Spot> =
            std::iter::successors(Some(middle), back).take(reach + 1).collect();
        window.reverse();
        let ahead = |spot: &Spot| self.directory.next(spot.label);
        window.extend(std::iter::successors(ahead(&middle), ahead).take(reach));
        window
    }

    fn rename<P: Pages>(
        &mut self,
        pages: &mut P,
        window: &[Spot],
        label: u64,
        side: Side,
        wanted: usize,
        (low, step): (u64, u64),
    ) -> Result<Room, PageError> {
        let mut room = Room { label, free: Vec::with_capacity(wanted) };
        let mut payloads = Vec::with_capacity(window.len());
        let mut next = low;
        let mut advance = || {
            next += step;
            next
        };
        for spot in window {
            if spot.label == label && side == Side::Before {
                room.free.extend((0..wanted).map(|_| advance()));
            }
            let renamed = advance();
            if spot.label == label {
                room.label = renamed;
                if side == Side::Behind {
                    room.free.extend((0..wanted).map(|_| advance()));
                }
            }
            let payload = pages.read(self.id(spot.label))?;
            if renamed != spot.label {
                payloads.push((*spot, renamed, payload.to_vec()));
            }
        }
        // A new label may be another page's old one, so all old ones go first.
        let mut bounds = Vec::with_capacity(payloads.len());
        for (spot, ..) in &payloads {
            pages.remove(self.id(spot.label));
            bounds.push(self.directory.remove(spot.label));
        }
        for ((spot, renamed, payload), bound) in payloads.into_iter().zip(bounds) {
            if let Some(bound) = bound {
                self.add(pages, renamed, &payload, spot.count as usize, bound);
            }
        }
        Ok(room)
    }
}
