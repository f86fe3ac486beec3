//! The allocator of one shard: pages cut into cells of one size class each.
//!
//! A page begins with a head; the cells follow. Free cells of a page are a list inside the page,
//! pages with free cells are a list of their class, and a page without entries goes back to the
//! pool at once. Entries above the largest class come from the global allocator.
#![allow(unsafe_code)]

use super::displaced::Displaced;
use super::entry::{self, Content, Entry, EntryRef};
use super::large::{self, LargeBlock, LargeValue};
use super::page_pool::{Page, PagePool, PageSize, SMALL_BYTES};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

const HEAD_BYTES: usize = size_of::<PageHead>();
/// Largest cell of a small page, 16 a page.
const SMALL_MAX: usize = ((SMALL_BYTES - HEAD_BYTES) / 16) & !7;
/// Largest cell of all, 8 a big page.
const CELL_MAX: usize = ((2 * SMALL_BYTES - HEAD_BYTES) / 8) & !7;
/// End of a free list: no cell starts at offset 0.
const NONE: u16 = 0;
/// Classes of small pages.
const SMALL_CLASSES: usize = 15 + 24 + 16;
const CLASSES: usize = SMALL_CLASSES + 24;
/// Number of allocations after which the older half of the demand statistics is dropped.
const DEMAND_PERIOD: u32 = 2048;
/// Most classes that share pages while there are few pages.
const COARSEST: usize = 16;
/// How many pages of a class are compared to find the emptiest.
const COMPARED_PAGES: usize = 16;

/// Cell sizes: steps of 8 to 128, of 16 to 512, then what divides a page without rest.
const CELL_BYTES: [u16; CLASSES] = {
    let mut cells = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        cells[class] = match class {
            0..15 => 16 + 8 * class,
            15..39 => 144 + 16 * (class - 15),
            39..SMALL_CLASSES => ((SMALL_BYTES - HEAD_BYTES) / (31 - (class - 39))) & !7,
            _ => ((2 * SMALL_BYTES - HEAD_BYTES) / (31 - (class - SMALL_CLASSES))) & !7,
        } as u16;
        class += 1;
    }
    cells
};

/// The class of an entry, by its size in units of 8 rounded up.
const CLASS_OF: [u8; CELL_MAX / 8 + 1] = {
    let mut classes = [0; CELL_MAX / 8 + 1];
    let (mut unit, mut class) = (0, 0);
    while unit < classes.len() {
        if unit * 8 > CELL_BYTES[class] as usize {
            class += 1;
        }
        classes[unit] = class as u8;
        unit += 1;
    }
    classes
};

fn class_of(bytes: usize) -> usize {
    usize::from(CLASS_OF[bytes.div_ceil(8)])
}

fn page_size(entry_bytes: usize) -> PageSize {
    if entry_bytes <= SMALL_MAX { PageSize::Small } else { PageSize::Big }
}

/// Rounds as size classes of the global allocator do: four steps a doubling.
fn large_block_bytes(entry_bytes: usize) -> usize {
    let bytes = entry_bytes + large::HEAD_BYTES;
    bytes.next_multiple_of(1 << ((bytes - 1).ilog2() - 2))
}

#[repr(C)]
struct PageHead {
    class: u16,
    /// Cells with an entry.
    used: u16,
    /// Offset of the first cell that was never used, in units of 8.
    fresh: u16,
    /// Offset of the first free cell below, in units of 8.
    free: u16,
    chunk: u32,
    /// Index in the list of all pages.
    index: u32,
    /// Neighbours among the pages of the class with free cells.
    previous: Option<PageRef>,
    next: Option<PageRef>,
}

/// A page of this slab. The slab reads and writes heads through it and never holds references.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PageRef(NonNull<PageHead>);

impl PageRef {
    /// # Safety
    /// `entry` is in a page of the slab, and `bytes` is its length.
    unsafe fn of(entry: Entry, bytes: usize) -> Self {
        let mask = page_size(bytes).bytes() - 1;
        let offset = entry.block().as_ptr() as usize & mask;
        // SAFETY: pages are aligned to their size, so the head lies `offset` below the entry.
        Self(unsafe { entry.block().sub(offset).cast() })
    }

    fn head(&self) -> &PageHead {
        // SAFETY: a PageRef is made for pages of the slab with a written head, and dropped with
        // the page; no exclusive reference is alive, as head_mut's are statements long.
        unsafe { self.0.as_ref() }
    }

    fn head_mut(&mut self) -> &mut PageHead {
        // SAFETY: as above; the slab is used by one thread.
        unsafe { self.0.as_mut() }
    }

    fn cell_bytes(&self) -> usize {
        usize::from(CELL_BYTES[usize::from(self.head().class)])
    }

    fn size(&self) -> PageSize {
        page_size(self.cell_bytes())
    }

    /// Cells of the page.
    fn cells(&self) -> usize {
        (self.size().bytes() - HEAD_BYTES) / self.cell_bytes()
    }

    fn free_cells(&self) -> usize {
        self.cells() - usize::from(self.head().used)
    }

    fn cell(&self, offset: usize) -> NonNull<u8> {
        debug_assert!((HEAD_BYTES..self.size().bytes()).contains(&offset));
        // SAFETY: offsets of cells lie inside the page.
        unsafe { self.0.cast::<u8>().add(offset) }
    }
}

#[derive(Clone, Copy, Default)]
struct Class {
    /// First of the pages with free cells.
    partial: Option<PageRef>,
    pages: usize,
    free_cells: usize,
}

/// Which classes were asked for lately.
///
/// A page serves one class, so with many sizes in few pages most of each page would be empty. While
/// there are fewer than two pages for each class in demand, neighbouring classes share pages of
/// the largest among them.
#[derive(Default)]
struct Demand {
    lately: u128,
    before: u128,
    allocations: u32,
}

impl Demand {
    fn note(&mut self, class: usize) {
        self.lately |= 1 << class;
        self.allocations += 1;
        if self.allocations == DEMAND_PERIOD {
            self.allocations = 0;
            self.before = std::mem::take(&mut self.lately);
        }
    }

    /// The class whose pages `class` shares, with `pages` pages in all.
    fn coarsen(&self, class: usize, pages: usize) -> usize {
        let wanted = (self.lately | self.before).count_ones() as usize;
        let mut sharing = 1;
        while wanted > 1 && pages * sharing < 2 * wanted && sharing < COARSEST {
            sharing *= 2;
        }
        let last = if class < SMALL_CLASSES { SMALL_CLASSES - 1 } else { CLASSES - 1 };
        (class | (sharing - 1)).min(last)
    }
}

/// See the module comment.
pub(super) struct Slab {
    demand: Demand,
    pool: Arc<PagePool>,
    classes: [Class; CLASSES],
    pages: Vec<PageRef>,
    page_bytes: usize,
    /// Bytes of the free cells of all classes.
    free_bytes: usize,
    /// Bytes of the cells that hold an entry.
    cell_bytes: usize,
    large: Vec<Entry>,
    large_bytes: usize,
    /// Bytes of the values that entries share with memtables.
    shared_bytes: usize,
}

impl Slab {
    pub(super) fn new(pool: Arc<PagePool>) -> Self {
        Self {
            demand: Demand::default(),
            pool,
            classes: [Class::default(); CLASSES],
            pages: Vec::new(),
            page_bytes: 0,
            free_bytes: 0,
            cell_bytes: 0,
            large: Vec::new(),
            large_bytes: 0,
            shared_bytes: 0,
        }
    }

    /// Bytes of pages and large entries, whether or not entries fill them, and of the shared values.
    pub(super) fn bytes(&self) -> usize {
        self.page_bytes + self.large_bytes + self.shared_bytes
    }

    /// Bytes of `bytes()` that the global allocator gave: large entries and shared values.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.large_bytes + self.shared_bytes
    }

    /// Bytes that entries fill: their cells, large ones, and shared values.
    pub(super) fn entry_bytes(&self) -> usize {
        self.cell_bytes + self.large_bytes + self.shared_bytes
    }

    /// Bytes of the shared values.
    #[cfg(test)]
    pub(super) fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// Writes an entry into a block.
    ///
    /// # Safety
    /// As for [`Entry::write`]; the block is one of this slab.
    pub(super) unsafe fn write(&mut self, block: NonNull<u8>, content: &Content<'_>) -> Entry {
        // SAFETY: the caller's promise.
        let entry = unsafe { Entry::write(block, content) };
        self.shared_bytes += entry.shared_bytes();
        entry
    }

    /// Gives up an entry's count of a shared value.
    ///
    /// # Safety
    /// As for [`Entry::take_shared`]; the entry is one of this slab.
    unsafe fn drop_shared(&mut self, entry: Entry) {
        // SAFETY: the caller's promise.
        if let Some(value) = unsafe { entry.take_shared() } {
            self.shared_bytes -= value.held_bytes();
        }
    }

    /// Writes an entry in the place of another one.
    ///
    /// # Safety
    /// `fits_in_place` says so, and nothing of `content` is in the entry.
    pub(super) unsafe fn overwrite(&mut self, entry: Entry, content: &Content<'_>) {
        // SAFETY: the slab says that the block is long enough; what is in it ends here.
        unsafe {
            self.drop_shared(entry);
            self.write(entry.block(), content);
        }
    }

    /// Bytes of `bytes()` that no entry fills and that are there for new ones.
    pub(super) fn free_bytes(&self) -> usize {
        self.free_bytes
    }

    /// Changes the number of free cells of a class.
    fn change_free(&mut self, class: usize, change: isize) {
        let cells = &mut self.classes[class].free_cells;
        *cells = cells.wrapping_add_signed(change);
        let bytes = change * CELL_BYTES[class] as isize;
        self.free_bytes = self.free_bytes.wrapping_add_signed(bytes);
    }

    pub(super) fn large_bytes(&self) -> usize {
        self.large_bytes
    }

    /// A block for an entry of `bytes`, at least 8 of them; aligned to 8.
    pub(super) fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        if bytes > CELL_MAX {
            return self.allocate_large(bytes);
        }
        let class = self.class_with_room(class_of(bytes));
        let page = match self.classes[class].partial {
            Some(page) => page,
            None => self.add_page(class),
        };
        self.take_cell(page)
    }

    /// A class with a free cell near above `class`, or the one to take a page for.
    fn class_with_room(&mut self, class: usize) -> usize {
        self.demand.note(class);
        if self.classes[class].partial.is_some() {
            return class;
        }
        let coarse = self.demand.coarsen(class, self.pages.len());
        (class + 1..=coarse).find(|&c| self.classes[c].partial.is_some()).unwrap_or(coarse)
    }

    fn add_page(&mut self, class: usize) -> PageRef {
        let size = page_size(usize::from(CELL_BYTES[class]));
        let page = self.pool.allocate(size);
        let start = page.start.cast::<PageHead>();
        let head = PageHead {
            class: class as u16,
            used: 0,
            fresh: (HEAD_BYTES / 8) as u16,
            free: NONE,
            chunk: page.chunk,
            index: self.pages.len() as u32,
            previous: None,
            next: None,
        };
        // SAFETY: the page is ours, larger than a head, and aligned to its size.
        unsafe { start.write(head) };
        let page = PageRef(start);
        self.pages.push(page);
        self.page_bytes += size.bytes();
        self.classes[class].pages += 1;
        self.change_free(class, page.cells() as isize);
        self.link(page);
        page
    }

    fn take_cell(&mut self, mut page: PageRef) -> NonNull<u8> {
        let class = usize::from(page.head().class);
        let cell_units = CELL_BYTES[class] / 8;
        let head = page.head_mut();
        let offset;
        if head.free != NONE {
            offset = usize::from(head.free) * 8;
            let cell = page.cell(offset);
            // SAFETY: cells of the free list were written by write_free.
            let next = unsafe { entry::read_free(cell) };
            debug_assert!(next.is_some(), "a cell of the free list is in use");
            page.head_mut().free = next.unwrap_or(NONE);
        } else {
            offset = usize::from(head.fresh) * 8;
            head.fresh += cell_units;
        }
        page.head_mut().used += 1;
        self.cell_bytes += page.cell_bytes();
        self.change_free(class, -1);
        if page.free_cells() == 0 {
            self.unlink(page);
        }
        page.cell(offset)
    }

    fn link(&mut self, mut page: PageRef) {
        let first = &mut self.classes[usize::from(page.head().class)].partial;
        page.head_mut().previous = None;
        page.head_mut().next = *first;
        if let Some(mut next) = *first {
            next.head_mut().previous = Some(page);
        }
        *first = Some(page);
    }

    fn unlink(&mut self, page: PageRef) {
        let (previous, next) = (page.head().previous, page.head().next);
        match previous {
            Some(mut previous) => previous.head_mut().next = next,
            None => self.classes[usize::from(page.head().class)].partial = next,
        }
        if let Some(mut next) = next {
            next.head_mut().previous = previous;
        }
    }

    /// Frees an entry. Its page goes back to the pool when it was the last of it.
    ///
    /// # Safety
    /// No handle of the entry is used afterwards, and it is an entry of this slab.
    pub(super) unsafe fn free(&mut self, entry: Entry) {
        let bytes = entry.len();
        // SAFETY: the entry ends here.
        unsafe { self.drop_shared(entry) };
        if bytes > CELL_MAX {
            // SAFETY: the caller's promise.
            return drop(unsafe { self.detach_large(entry, bytes) });
        }
        // SAFETY: the entry is one of this slab with that length.
        let mut page = unsafe { PageRef::of(entry, bytes) };
        let offset = entry.block().as_ptr() as usize - page.0.as_ptr() as usize;
        let was_full = page.free_cells() == 0;
        let next = page.head().free;
        // SAFETY: the cell is free now and at least 16 bytes long.
        unsafe { entry::write_free(entry.block(), next) };
        page.head_mut().free = (offset / 8) as u16;
        page.head_mut().used -= 1;
        self.cell_bytes -= page.cell_bytes();
        self.change_free(usize::from(page.head().class), 1);
        if was_full {
            self.link(page);
        }
        if page.head().used == 0 {
            self.unlink(page);
            self.change_free(usize::from(page.head().class), -(page.cells() as isize));
            // SAFETY: no entry is left in it.
            unsafe { self.release(page) };
        }
    }

    /// # Safety
    /// No entry of the page is used any more, it is in no list of its class, and its cells do not
    /// count as free ones.
    unsafe fn release(&mut self, page: PageRef) {
        let head = page.head();
        let (size, index, chunk) = (page.size(), head.index as usize, head.chunk);
        self.classes[usize::from(head.class)].pages -= 1;
        self.page_bytes -= size.bytes();
        self.pages.swap_remove(index);
        if let Some(moved) = self.pages.get_mut(index) {
            moved.head_mut().index = index as u32;
        }
        // SAFETY: the page is the pool's, of that size, and unused.
        unsafe { self.pool.release(Page { start: page.0.cast(), chunk }, size) };
    }

    /// Whether an entry of `old` bytes may be overwritten in its place by one of `new` bytes.
    pub(super) fn fits_in_place(&self, entry: Entry, old: usize, new: usize) -> bool {
        if old > CELL_MAX || new > CELL_MAX {
            let are_alike = old > CELL_MAX
                && new > CELL_MAX
                && large_block_bytes(old) == large_block_bytes(new);
            // SAFETY: the entry is a large one of that length; the count stays with it.
            return are_alike && unsafe { !Self::block_of(entry, old).is_held() };
        }
        // Without a look at the page's head, which is a line of its own.
        if class_of(old) == class_of(new) {
            return true;
        }
        if page_size(old) != page_size(new) {
            return false;
        }
        // SAFETY: the entry is one of this slab with that length.
        let page = unsafe { PageRef::of(entry, old) };
        let cell = page.cell_bytes();
        new <= cell && new * 4 >= cell * 3
    }

    fn allocate_large(&mut self, bytes: usize) -> NonNull<u8> {
        let block_bytes = large_block_bytes(bytes);
        let block = ManuallyDrop::new(LargeBlock::allocate(block_bytes, self.large.len()));
        // SAFETY: the handle is not read before the caller has written the entry: nobody else sees it meanwhile.
        let entry = unsafe { Entry::from_address(block.entry_place().as_ptr() as usize as u64) };
        self.large.push(entry);
        self.large_bytes += block_bytes;
        entry.block()
    }

    /// The count that a large entry of `bytes` has of its block.
    ///
    /// # Safety
    /// The entry is a large one of that length.
    unsafe fn block_of(entry: Entry, bytes: usize) -> ManuallyDrop<LargeBlock> {
        // SAFETY: the caller's promise; the length of the block depends on nothing but what fits_in_place keeps.
        ManuallyDrop::new(unsafe { LargeBlock::of(entry, large_block_bytes(bytes)) })
    }

    /// True for an entry that has a block of its own from the global allocator, with its value in it.
    pub(super) fn may_detach(entry: Entry) -> bool {
        entry.len() > CELL_MAX && !entry.is_shared()
    }

    /// Takes a large entry out, with its block.
    ///
    /// # Safety
    /// As for `free`; the entry is a large one of `bytes`, and its count of a shared value, if it had one, is given up.
    pub(super) unsafe fn detach_large(&mut self, entry: Entry, bytes: usize) -> Displaced {
        self.large_bytes -= large_block_bytes(bytes);
        // SAFETY: the caller's promise.
        let block = ManuallyDrop::into_inner(unsafe { Self::block_of(entry, bytes) });
        let index = block.index();
        self.large.swap_remove(index);
        if let Some(&moved) = self.large.get(index) {
            // SAFETY: what is in the list is a large entry.
            unsafe { Self::block_of(moved, moved.len()).set_index(index) };
        }
        Displaced::new(entry, block)
    }

    pub(super) fn large_entries(&self) -> &[Entry] {
        &self.large
    }

    /// All pages, in no particular order.
    pub(super) fn pages(&self) -> &[PageRef] {
        &self.pages
    }

    /// Entries of a page.
    pub(super) fn entries(&self, page: PageRef) -> impl Iterator<Item = Entry> {
        let end = usize::from(page.head().fresh) * 8;
        (HEAD_BYTES..end).step_by(page.cell_bytes()).filter_map(move |offset| {
            let cell = page.cell(offset);
            // SAFETY: cells below `fresh` hold an entry or were marked free.
            let free = unsafe { entry::read_free(cell) };
            // SAFETY: it holds an entry then.
            free.is_none().then(|| unsafe { Entry::from_address(cell.as_ptr() as usize as u64) })
        })
    }

    /// True when at least a quarter of the page is free and the rest of its class has room for
    /// what is in it.
    pub(super) fn worth_evacuating(&self, page: PageRef) -> bool {
        let (cells, free) = (page.cells(), page.free_cells());
        let elsewhere = self.classes[usize::from(page.head().class)].free_cells - free;
        free * 4 >= cells && elsewhere >= cells - free
    }

    /// The class of an entry's page, unless it is a large one.
    pub(super) fn class_of_page(&self, entry: Entry) -> Option<usize> {
        let bytes = entry.len();
        // SAFETY: handles in the table are of entries of this slab.
        (bytes <= CELL_MAX).then(|| usize::from(unsafe { PageRef::of(entry, bytes) }.head().class))
    }

    /// The emptiest of some pages of a class, once half of the class is free.
    pub(super) fn sparse_page(&self, class: usize) -> Option<PageRef> {
        let class = &self.classes[class];
        let cells = class.partial?.cells();
        if class.pages < 2 || class.free_cells * 2 < class.pages * cells {
            return None;
        }
        std::iter::successors(class.partial, |page| page.head().next)
            .take(COMPARED_PAGES)
            .max_by_key(PageRef::free_cells)
            .filter(|&page| self.worth_evacuating(page))
    }

    /// Takes a page out of use: no new entry goes into it. `evacuated` must follow.
    pub(super) fn evacuate(&mut self, page: PageRef) {
        self.unlink(page);
        let free = page.free_cells() as isize;
        self.change_free(usize::from(page.head().class), -free);
    }

    /// A copy of an entry of a page that is being evacuated, in another page of its class.
    pub(super) fn copy(&mut self, entry: Entry, from: PageRef) -> Entry {
        let class = usize::from(from.head().class);
        let page = match self.classes[class].partial {
            Some(page) => page,
            None => self.add_page(class),
        };
        let cell = self.take_cell(page);
        // SAFETY: source and target are different cells of one class, and the source holds an entry.
        unsafe {
            cell.copy_from_nonoverlapping(entry.block(), entry.len());
            Entry::from_address(cell.as_ptr() as usize as u64)
        }
    }

    /// Gives back a page whose entries were all copied.
    ///
    /// # Safety
    /// The page was given to `evacuate`, and no handle of its entries is used any more.
    pub(super) unsafe fn evacuated(&mut self, page: PageRef) {
        // The copies count.
        self.cell_bytes -= usize::from(page.head().used) * page.cell_bytes();
        // SAFETY: the caller's promise.
        unsafe { self.release(page) }
    }
}

impl EntryRef<'_> {
    /// Its value, to be read without the latch, where the entry is a large one with its value in it.
    pub(crate) fn large_value(&self) -> Option<LargeValue> {
        let entry = self.entry;
        // SAFETY: a large entry that shares no value has it in its block, of which this is another count.
        Slab::may_detach(entry).then(|| unsafe {
            LargeValue::new(entry, LargeBlock::clone(&Slab::block_of(entry, entry.len())))
        })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        while let Some(&entry) = self.large.last() {
            let bytes = entry.len();
            // SAFETY: the table is being dropped; the entry is in the list of large ones.
            unsafe {
                self.drop_shared(entry);
                drop(self.detach_large(entry, bytes));
            }
        }
        while let Some(&page) = self.pages.last() {
            if self.shared_bytes > 0 {
                let entries: Vec<Entry> = self.entries(page).collect();
                // SAFETY: as above.
                entries.into_iter().for_each(|entry| unsafe { self.drop_shared(entry) });
            }
            // SAFETY: as above; lists and counts are not used any more.
            unsafe { self.release(page) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_size_has_its_own_pages_and_many_sizes_share_few() {
        let mut demand = Demand::default();
        demand.note(9);
        assert_eq!(demand.coarsen(9, 0), 9);
        (0..30).for_each(|class| demand.note(class));
        assert_eq!(demand.coarsen(9, 2), 15);
        assert_eq!(demand.coarsen(SMALL_CLASSES - 3, 2), SMALL_CLASSES - 1);
        assert_eq!(demand.coarsen(8, 30), 9);
        assert_eq!(demand.coarsen(8, 60), 8);
    }

    #[test]
    fn classes_rise_cover_all_sizes_and_waste_little() {
        assert!(CELL_BYTES.is_sorted());
        assert_eq!(usize::from(CELL_BYTES[CLASSES - 1]), CELL_MAX);
        assert_eq!(HEAD_BYTES, 32);
        for bytes in 8..=CELL_MAX {
            let cell = usize::from(CELL_BYTES[class_of(bytes)]);
            assert!(cell >= bytes && cell % 8 == 0 && cell >= 16);
            assert!(cell <= bytes + (bytes / 7).max(15), "{bytes} in {cell}");
            assert_eq!(page_size(bytes), page_size(cell), "one page size a class, {bytes}");
        }
    }
}
