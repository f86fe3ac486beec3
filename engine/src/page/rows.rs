//! Rows of one width, ascending by the key that each begins with, on pages of an order indexed by a tree.
//!
//! A page is a sequence of rows and nothing else. Keys ascend by their bytes. The tree counts pages, one for each, so a change
//! of rows touches only their page, unless pages are added or removed. A row inserted behind the last row of a full page begins a new
//! page and leaves the old one full: ascending inserts therefore fill their pages.
//!
//! Invariants: no page is empty; keys ascend over all pages; no page has more than [`PAGE_MAX_BYTES`]; the tree is as its file says.

use super::store::{Damage, PageEdit, PageError, PageId, Pages, PartKind, at_page};
use super::tree::{Bound, Child, Path, Place, Tree, counts_id};

/// Bytes of a page.
pub(super) const PAGE_MAX_BYTES: usize = if cfg!(test) { 256 } else { 1024 };

/// Bytes of a key that its place among bounds is told by, as a number.
const ORDER_BYTES: usize = 8;

/// What the rows of an order look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub part: PartKind,
    /// A row begins with its key.
    pub row_bytes: usize,
    /// Eight at least.
    pub key_bytes: usize,
}

/// What becomes of a row: another one in its place or its removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RowChange {
    /// This row is there from now on.
    Put(Vec<u8>),
    /// The row with this key is there no more.
    Remove(Vec<u8>),
}

impl RowChange {
    /// The key of the row.
    pub(super) fn key(&self, form: Form) -> &[u8] {
        let (Self::Put(row) | Self::Remove(row)) = self;
        &row[..form.key_bytes]
    }
}

/// Rows, and the tree that finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub form: Form,
    pub tree: Tree,
}

/// The path to the page that has a key, or would have it.
pub(super) struct Known<'k> {
    key: &'k [u8],
    path: Path,
}

/// The place of a key, behind a page that begins with it.
struct At<'k>(&'k [u8]);

fn order_of(key: &[u8]) -> (u64, &[u8]) {
    match key.split_first_chunk::<ORDER_BYTES>() {
        Some((order, rest)) => (u64::from_be_bytes(*order), rest),
        None => (0, key),
    }
}

impl Place for At<'_> {
    fn order(&self) -> u64 {
        order_of(self.0).0
    }

    fn is_above(&self, order: u64, rest: &[u8]) -> bool {
        (order, rest) <= order_of(self.0)
    }
}

impl Rows {
    /// Those of a form over a tree of its part.
    pub(super) fn new(form: Form, tree: Tree) -> Self {
        Self { form, tree }
    }

    fn id(&self, number: u64) -> PageId {
        PageId { part: self.form.part, number }
    }

    /// Pages of rows, and of nodes.
    pub(super) fn pages(&self) -> u32 {
        self.tree.pages.saturating_add(self.tree.nodes.saturating_mul(2))
    }

    /// Most rows of a page.
    fn page_rows(&self) -> usize {
        PAGE_MAX_BYTES / self.form.row_bytes
    }

    fn page<'p, P: Pages>(&self, pages: &'p P, number: u64) -> Result<&'p [u8], PageError> {
        let payload = pages.read(self.id(number))?;
        if payload.is_empty() || !payload.len().is_multiple_of(self.form.row_bytes) {
            return Err(wrong(self.id(number), "whole rows"));
        }
        Ok(payload)
    }

    fn key_at<'p>(&self, payload: &'p [u8], row: usize) -> &'p [u8] {
        let at = row * self.form.row_bytes;
        &payload[at..at + self.form.key_bytes]
    }

    /// Position of a key among the rows of a page, or where it would be inserted.
    fn search(&self, payload: &[u8], key: &[u8]) -> Result<usize, usize> {
        let rows = payload.len() / self.form.row_bytes;
        // Mostly it is a new one, behind all others.
        if rows > 0 && self.key_at(payload, rows - 1) < key {
            return Err(rows);
        }
        let (mut low, mut high) = (0, rows);
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.key_at(payload, middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// The row with this key.
    pub(super) fn get<'p, P: Pages>(
        &self,
        pages: &'p P,
        key: &[u8],
    ) -> Result<Option<&'p [u8]>, PageError> {
        self.get_from(pages, key, None)
    }

    /// The same where a path may be known.
    pub(super) fn get_from<'p, P: Pages>(
        &self,
        pages: &'p P,
        key: &[u8],
        known: Option<&Known<'_>>,
    ) -> Result<Option<&'p [u8]>, PageError> {
        let page = match known.filter(|known| known.key == key) {
            Some(known) => known.path.page,
            None => match self.tree.find(pages, &At(key))? {
                Some(path) => path.page,
                None => return Ok(None),
            },
        };
        let payload = self.page(pages, page)?;
        let row_bytes = self.form.row_bytes;
        let found = self.search(payload, key).ok();
        Ok(found.map(|row| &payload[row * row_bytes..(row + 1) * row_bytes]))
    }

    /// The first row, or the last one.
    pub(super) fn end<'p, P: Pages>(
        &self,
        pages: &'p P,
        is_last: bool,
    ) -> Result<Option<&'p [u8]>, PageError> {
        let Some(last) = u64::from(self.tree.pages).checked_sub(1) else { return Ok(None) };
        let (path, _) = self.tree.at(pages, if is_last { last } else { 0 })?;
        let payload = self.page(pages, path.page)?;
        let at = if is_last { payload.len() - self.form.row_bytes } else { 0 };
        Ok(payload.get(at..at + self.form.row_bytes))
    }

    /// Shows rows from a key on, ascending, until it is told to end.
    pub(super) fn walk<P: Pages>(
        &self,
        pages: &P,
        from: &[u8],
        mut visit: impl FnMut(&[u8]) -> Result<bool, PageError>,
    ) -> Result<(), PageError> {
        let Some(path) = self.tree.find(pages, &At(from))? else { return Ok(()) };
        let mut payload = self.page(pages, path.page)?;
        let mut row = self.search(payload, from).unwrap_or_else(|row| row);
        let mut position = None;
        loop {
            for own in payload.chunks_exact(self.form.row_bytes).skip(row) {
                if !visit(own)? {
                    return Ok(());
                }
            }
            let next = match position {
                Some(position) => position + 1,
                None => self.tree.before(pages, &path)? + 1,
            };
            if next >= u64::from(self.tree.pages) {
                return Ok(());
            }
            payload = self.page(pages, self.tree.at(pages, next)?.0.page)?;
            (row, position) = (0, Some(next));
        }
    }

    /// Adds the missing ones of the pages that hold about this many rows from one key to another.
    pub(super) fn missing<P: Pages>(
        &self,
        pages: &P,
        (from, to): (&[u8], &[u8]),
        rows: u64,
        missing: &mut Vec<PageId>,
    ) -> Result<(), PageError> {
        let (from, to) = (self.position(pages, from), self.position(pages, to));
        let (from, to) = (note(from, missing)?, note(to, missing)?);
        let (Some(first), Some(last)) = (from, to) else { return Ok(()) };
        // Pages may be half full, and the first row may be the last of its page.
        let likely = (rows / (self.page_rows() as u64 / 2).max(1)).saturating_add(2);
        self.tree.missing(pages, first..first.saturating_add(likely).min(last + 1), missing)
    }

    /// The position of the page that has a key, or would have it.
    fn position<P: Pages>(&self, pages: &P, key: &[u8]) -> Result<u64, PageError> {
        match self.tree.find(pages, &At(key))? {
            Some(path) => self.tree.before(pages, &path),
            None => Ok(0),
        }
    }

    /// Adds the pages that are not in memory and that a change of rows with these keys needs.
    /// Answers the path of the first of them.
    pub(super) fn missing_of<'k, P: Pages>(
        &self,
        pages: &P,
        keys: impl Iterator<Item = &'k [u8]>,
        missing: &mut Vec<PageId>,
    ) -> Result<Option<Known<'k>>, PageError> {
        let mut first = None;
        for key in keys {
            let Some(path) = note(self.tree.find(pages, &At(key)), missing)?.flatten() else {
                continue;
            };
            let counts = path.steps.iter().map(|step| counts_id(step.node));
            let own = self.id(path.page);
            missing.extend(counts.chain([own]).filter(|id| !pages.is_in_memory(*id)));
            first.get_or_insert(Known { key, path });
        }
        Ok(first)
    }

    /// Makes the pages of these rows, of which there were none.
    pub(super) fn build<P: Pages>(&mut self, pages: &mut P, rows: &[u8]) {
        let mut below = Vec::new();
        let mut last: Option<&[u8]> = None;
        for payload in rows.chunks(self.page_rows() * self.form.row_bytes) {
            let number = self.tree.new_number();
            pages.add(self.id(number), payload);
            below.push(self.child(number, last, payload));
            last = payload.chunks_exact(self.form.row_bytes).last();
        }
        if !below.is_empty() {
            self.tree.lay_out(pages, below);
        }
    }

    /// The page of these rows as the node above it has it: `last` is the row before it.
    fn child(&self, number: u64, last: Option<&[u8]>, payload: &[u8]) -> Child {
        let last = last.map(|row| order_of(&row[..self.form.key_bytes]));
        let first = order_of(self.key_at(payload, 0));
        Child { number, count: 1, bound: Bound::between(last, first) }
    }

    /// Changes rows, whose keys ascend. All pages that [`missing_of`](Self::missing_of) names are in memory; `known` is its answer.
    pub(super) fn change<P: Pages>(
        &mut self,
        pages: &mut P,
        changes: &[RowChange],
        mut known: Option<Known<'_>>,
    ) -> Result<(), PageError> {
        let form = self.form;
        let mut rest = changes;
        while let Some(first) = rest.first() {
            // Behind the first change it may lead elsewhere.
            let path = match known.take().filter(|known| known.key == first.key(form)) {
                Some(known) => Some(known.path),
                None => self.tree.find(pages, &At(first.key(form)))?,
            };
            let Some(path) = path else {
                let rows: Vec<u8> = rest
                    .iter()
                    .filter_map(|change| match change {
                        RowChange::Put(row) => Some(row.as_slice()),
                        RowChange::Remove(_) => None,
                    })
                    .collect::<Vec<_>>()
                    .concat();
                self.build(pages, &rows);
                return Ok(());
            };
            let mut own = 1;
            while let Some(change) = rest.get(own) {
                let other = self.tree.find(pages, &At(change.key(form)))?;
                if other.is_none_or(|other| other.page != path.page) {
                    break;
                }
                own += 1;
            }
            let (changes, others) = rest.split_at(own);
            self.change_page(pages, path, changes)?;
            rest = others;
        }
        Ok(())
    }

    /// Changes rows of one page.
    fn change_page<P: Pages>(
        &mut self,
        pages: &mut P,
        path: Path,
        changes: &[RowChange],
    ) -> Result<(), PageError> {
        let (row_bytes, most) = (self.form.row_bytes, self.page_rows() * self.form.row_bytes);
        let payload = self.page(pages, path.page)?;
        if let [change] = changes {
            let found = self.search(payload, change.key(self.form));
            let (at, id) = (found.unwrap_or_else(|row| row) * row_bytes, self.id(path.page));
            match (change, found) {
                (RowChange::Put(row), Ok(_)) => {
                    pages.edit(id)?.write(at, row);
                    return Ok(());
                }
                (RowChange::Put(row), Err(_)) if payload.len() + row_bytes <= most => {
                    pages.edit(id)?.splice(at..at, row);
                    return Ok(());
                }
                (RowChange::Remove(_), Ok(_)) if payload.len() > row_bytes => {
                    pages.edit(id)?.splice(at..at + row_bytes, &[]);
                    return self.join(pages, path);
                }
                (RowChange::Remove(_), Err(_)) => return Ok(()),
                _ => {}
            }
        }
        let (rows, is_behind) = self.merged(payload, changes);
        if rows.is_empty() {
            return self.tree.remove(pages, &path);
        }
        if rows.len() <= most {
            let is_less = rows.len() < payload.len();
            pages.edit(self.id(path.page))?.replace(&rows);
            return if is_less { self.join(pages, path) } else { Ok(()) };
        }
        let count = rows.len() / row_bytes;
        let each = if is_behind {
            self.page_rows()
        } else {
            count.div_ceil(count.div_ceil(self.page_rows() * 3 / 4))
        };
        let mut pieces = rows.chunks(each * row_bytes);
        let first = pieces.next().unwrap_or_default();
        if first != payload {
            pages.edit(self.id(path.page))?.replace(first);
        }
        let (mut behind, mut last) = (Vec::new(), first.chunks_exact(row_bytes).last());
        for piece in pieces {
            let number = self.tree.new_number();
            pages.add(self.id(number), piece);
            behind.push(self.child(number, last, piece));
            last = piece.chunks_exact(row_bytes).last();
        }
        self.tree.split(pages, &path, 1, behind)
    }

    /// The rows of a page with these changes; and true if all that is new comes after the old rows.
    fn merged(&self, payload: &[u8], changes: &[RowChange]) -> (Vec<u8>, bool) {
        let row_bytes = self.form.row_bytes;
        let mut rows = Vec::with_capacity(payload.len() + changes.len() * row_bytes);
        let (mut from, mut is_behind) = (0, true);
        for change in changes {
            let found = self.search(payload, change.key(self.form));
            let at = found.unwrap_or_else(|row| row) * row_bytes;
            // Of a damaged page whose rows do not ascend some are lost, and seen to be.
            rows.extend_from_slice(payload.get(from..at).unwrap_or_default());
            from = from.max(if found.is_ok() { at + row_bytes } else { at });
            if let RowChange::Put(row) = change {
                is_behind &= found.is_ok() || at == payload.len();
                rows.extend_from_slice(row);
            }
        }
        rows.extend_from_slice(&payload[from..]);
        (rows, is_behind)
    }

    /// Joins a page with a neighbour, if it has become small, both are in memory and one page has room for both.
    fn join<P: Pages>(&mut self, pages: &mut P, path: Path) -> Result<(), PageError> {
        if pages.read(self.id(path.page))?.len() >= PAGE_MAX_BYTES / 4 {
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
            if !pages.is_in_memory(self.id(path.page)) || !pages.is_in_memory(self.id(right)) {
                continue;
            }
            let behind = self.page(pages, right)?;
            let end = self.page(pages, path.page)?.len();
            if end + behind.len() > PAGE_MAX_BYTES * 3 / 4 {
                continue;
            }
            let behind = behind.to_vec();
            pages.edit(self.id(path.page))?.splice(end..end, &behind);
            return self.tree.join(pages, &path, 1);
        }
        Ok(())
    }

    /// Shows all rows; looks at whether they ascend, the tree leads to them, and the counts are true.
    pub(super) fn check<P: Pages>(
        &self,
        pages: &P,
        mut visit: impl FnMut(&[u8]) -> Result<(), PageError>,
    ) -> Result<u64, PageError> {
        let (mut count, mut last): (u64, Option<&[u8]>) = (0, None);
        for (number, below) in self.tree.all(pages)? {
            let (id, payload) = (self.id(number), self.page(pages, number)?);
            if below.is_some_and(|below| below != 1) {
                return Err(wrong(id, "a node above that counts one page"));
            }
            for row in payload.chunks_exact(self.form.row_bytes) {
                let key = &row[..self.form.key_bytes];
                if last.is_some_and(|last| last >= key) {
                    return Err(wrong(id, "keys that ascend"));
                }
                if self.tree.find(pages, &At(key))?.is_none_or(|path| path.page != number) {
                    return Err(wrong(id, "rows that the nodes lead to"));
                }
                visit(row)?;
                (count, last) = (count + 1, Some(key));
            }
        }
        Ok(count)
    }
}

/// What was found; `None` when a page is missing, which is noted.
pub(super) fn note<T>(
    found: Result<T, PageError>,
    missing: &mut Vec<PageId>,
) -> Result<Option<T>, PageError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(PageError::Missing(page)) => {
            missing.push(page);
            if page.part == PartKind::Nodes {
                // Whoever reads a node reads its counts.
                missing.push(counts_id(page.number));
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn wrong(page: PageId, expected: &'static str) -> PageError {
    at_page(page)(Damage { at: 0, expected })
}
