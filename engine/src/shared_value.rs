//! Values that a memtable and the DRAM table share: one copy, in memory that is touched once for both.
//!
//! Such a value has a block of its own. Each place that refers to it holds one reference count as a plain address. There are two kinds:
//!
//! - *Long values*, because touching fresh memory is expensive (`docs/studies/notebook.md`). Their block never changes.
//! - *Pages of collections and their descriptors*, because they change repeatedly. Their block changes in the epoch in which it was made
//!   (E1), and never afterwards. A memtable therefore has each of them once, however often it changed (E3).
#![allow(unsafe_code)]

use crate::counts::Counts;
use crate::prefetch::prefetch_lines;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a value from which on a SET shares it. A shorter one is copied in less time than its block takes.
pub(crate) const SHARED_MIN_BYTES: usize = 512;

/// Bytes of what stands for the value where one is shared: the address of its block.
pub(crate) const ADDRESS_BYTES: usize = size_of::<u64>();

/// A time in which a block may be changed: it ends whenever somebody may begin to read the active memtable (E2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl Epoch {
    /// That of blocks which never change.
    pub(crate) const NEVER: Self = Self(0);

    /// The epoch of this number, which is not 0.
    pub(crate) fn new(number: u64) -> Self {
        debug_assert_ne!(number, 0);
        Self(number)
    }
}

/// Header before the bytes of a value.
#[repr(C)]
struct Head {
    counts: Counts,
    len: AtomicU32,
    room: u32,
    epoch: Epoch,
}

/// Bytes of a block before the value.
pub(crate) const HEAD_BYTES: usize = size_of::<Head>();

/// Longest value of a block.
const MAX_BYTES: usize = u32::MAX as usize;

/// One count of a value's block.
#[derive(Debug)]
pub(crate) struct SharedValue(NonNull<Head>);

// SAFETY: the counts are atomic, and what a block holds changes only as `edit` says.
unsafe impl Send for SharedValue {}
// SAFETY: as above.
unsafe impl Sync for SharedValue {}

impl SharedValue {
    /// Copies `value` into a block of its own, which never changes.
    pub(crate) fn new(value: &[u8]) -> Self {
        Self::with_room(value, value.len(), Epoch::NEVER)
    }

    /// Copies `value` into a block with room for a change or two.
    fn roomy(value: &[u8], epoch: Epoch) -> Self {
        Self::with_room(value, room_for(value.len(), 0), epoch)
    }

    fn with_room(value: &[u8], room: usize, epoch: Epoch) -> Self {
        Self::of_parts([value, &[], &[]], room, epoch)
    }

    /// A block with these parts, one behind the other.
    fn of_parts(parts: [&[u8]; 3], room: usize, epoch: Epoch) -> Self {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        assert!(len <= room && room <= MAX_BYTES, "a value of {len} bytes");
        let layout = layout_of(room);
        // SAFETY: the layout has at least the head.
        let start = unsafe { alloc(layout) };
        let Some(head) = NonNull::new(start.cast::<Head>()) else { handle_alloc_error(layout) };
        let (counts, len) = (Counts::one(), AtomicU32::new(len as u32));
        // SAFETY: the block is new, aligned for a head, and has room for it.
        unsafe { head.write(Head { counts, len, room: room as u32, epoch }) };
        let mut at = HEAD_BYTES;
        for part in parts {
            // SAFETY: it has room for all parts.
            unsafe { start.add(at).copy_from_nonoverlapping(part.as_ptr(), part.len()) };
            at += part.len();
        }
        Self(head)
    }

    fn head(&self) -> &Head {
        // SAFETY: a count keeps the block, whose head was written when it was made.
        unsafe { self.0.as_ref() }
    }

    fn payload(&self) -> NonNull<u8> {
        // SAFETY: the payload follows the head in the same allocation.
        unsafe { self.0.cast::<u8>().add(HEAD_BYTES) }
    }

    /// The value.
    pub(crate) fn bytes(&self) -> &[u8] {
        let len = self.head().len.load(Ordering::Relaxed) as usize;
        // SAFETY: so many bytes are written. Whoever reads a block holds the latch under which it changes, or began to read behind the
        // end of its epoch (E1, E2).
        unsafe { std::slice::from_raw_parts(self.payload().as_ptr(), len) }
    }

    /// Asks the CPU's cache for the first lines of the block, as many as `bytes` take.
    #[inline]
    pub(crate) fn prefetch(&self, bytes: usize) {
        prefetch_lines(self.0.as_ptr().cast(), bytes);
    }

    /// Bytes of memory that the value takes, with the room to change it.
    pub(crate) fn held_bytes(&self) -> usize {
        self.head().room as usize
    }

    /// Counts of it, as of now.
    pub(crate) fn holders(&self) -> usize {
        self.head().counts.number()
    }

    /// True when both name one block.
    #[inline]
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// True where no epoch allows a change.
    pub(crate) fn never_changes(&self) -> bool {
        self.head().epoch == Epoch::NEVER
    }

    /// True where the block may be changed in this epoch.
    pub(crate) fn is_of(&self, epoch: Epoch) -> bool {
        epoch != Epoch::NEVER && self.head().epoch == epoch
    }

    /// Puts `new` in place of the bytes in `range`; what follows moves. False, and nothing is done, where there is no room for it.
    ///
    /// # Safety
    /// Nobody reads the block meanwhile, and no reference to its bytes is alive: the caller holds the latch under which it is read, and
    /// the block [is of](Self::is_of) the present epoch.
    pub(crate) unsafe fn splice(&self, range: Range<usize>, new: &[u8]) -> bool {
        let old_len = self.bytes().len();
        assert!(range.start <= range.end && range.end <= old_len, "{range:?} of {old_len} bytes");
        let (new_end, tail) = (range.start + new.len(), old_len - range.end);
        if new_end + tail > self.held_bytes() {
            return false;
        }
        let start = self.payload().as_ptr();
        // SAFETY: both ends lie within the room, as was just checked; nobody else looks at the bytes, and `new` is none of them.
        unsafe {
            if new_end != range.end {
                start.add(new_end).copy_from(start.add(range.end), tail);
            }
            start.add(range.start).copy_from_nonoverlapping(new.as_ptr(), new.len());
        }
        self.head().len.store((new_end + tail) as u32, Ordering::Relaxed);
        true
    }

    /// Address of its block, as stored in a record or an entry.
    pub(crate) fn address(&self) -> [u8; ADDRESS_BYTES] {
        (self.0.as_ptr().expose_provenance() as u64).to_ne_bytes()
    }

    /// Leaves the count with whoever keeps the address.
    pub(crate) fn into_address(self) -> [u8; ADDRESS_BYTES] {
        std::mem::ManuallyDrop::new(self).address()
    }

    /// Takes back the count that was left with an address.
    ///
    /// # Safety
    /// `address` came from [`Self::into_address`], and is not used again.
    pub(crate) unsafe fn from_address(address: [u8; ADDRESS_BYTES]) -> Self {
        let head = std::ptr::with_exposed_provenance_mut(u64::from_ne_bytes(address) as usize);
        // SAFETY: the address of a block is not null.
        Self(unsafe { NonNull::new_unchecked(head) })
    }
}

impl Clone for SharedValue {
    fn clone(&self) -> Self {
        self.head().counts.add();
        Self(self.0)
    }
}

impl Drop for SharedValue {
    fn drop(&mut self) {
        if !self.head().counts.give_up() {
            return;
        }
        let layout = layout_of(self.held_bytes());
        // SAFETY: this was the last count; the block was allocated with this layout.
        unsafe { dealloc(self.0.as_ptr().cast(), layout) };
    }
}

fn layout_of(room: usize) -> Layout {
    let layout = Layout::from_size_align(HEAD_BYTES + room, align_of::<Head>());
    layout.expect("a value stays below 4 GiB")
}

/// Room for a value of `len` bytes that will change: a sixteenth of it at least, and what a block of `whole_bytes` has.
fn room_for(len: usize, whole_bytes: usize) -> usize {
    let bytes = (HEAD_BYTES + len + len / 16 + 16).max(whole_bytes);
    room_of(bytes).min(MAX_BYTES.max(len))
}

/// Room in a block of so many bytes: the allocator gives them in steps of a quarter of a power of two.
fn room_of(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 8).max(16);
    bytes.next_multiple_of(step) - HEAD_BYTES
}

/// The value at an address that is stored in a record or an entry.
///
/// # Safety
/// Somebody holds a count of the value's block for as long as `'a`, and the block does not change meanwhile.
pub(crate) unsafe fn bytes_at<'a>(address: [u8; ADDRESS_BYTES]) -> &'a [u8] {
    // SAFETY: the count stays with whoever holds it, since this one is never dropped.
    let held = std::mem::ManuallyDrop::new(unsafe { SharedValue::from_address(address) });
    let bytes: *const [u8] = held.bytes();
    // SAFETY: the caller's promise.
    unsafe { &*bytes }
}

/// Bytes of memory that the value at an address takes.
///
/// # Safety
/// Somebody holds a count of the value's block.
pub(crate) unsafe fn held_bytes_at(address: [u8; ADDRESS_BYTES]) -> usize {
    // SAFETY: as above.
    std::mem::ManuallyDrop::new(unsafe { SharedValue::from_address(address) }).held_bytes()
}

/// A block that nobody else refers to yet: it changes at will, and grows.
#[derive(Debug)]
pub(crate) struct OwnBlock {
    block: SharedValue,
    epoch: Epoch,
}

impl OwnBlock {
    /// A block with these bytes, which may change in place until the end of `epoch`.
    pub(crate) fn new(bytes: &[u8], epoch: Epoch) -> Self {
        Self { block: SharedValue::roomy(bytes, epoch), epoch }
    }

    /// The same with no more room than the allocator gives: for a value that has changed and not grown.
    pub(crate) fn snug(bytes: &[u8], epoch: Epoch) -> Self {
        let room = room_of(HEAD_BYTES + bytes.len()).min(MAX_BYTES.max(bytes.len()));
        Self { block: SharedValue::with_room(bytes, room, epoch), epoch }
    }

    /// The same of a page that is full: it has no room to grow.
    pub(crate) fn full(bytes: &[u8], epoch: Epoch) -> Self {
        Self { block: SharedValue::with_room(bytes, bytes.len(), epoch), epoch }
    }

    /// A block that will not change once others refer to it, and to which nobody refers yet.
    pub(crate) fn settled(block: SharedValue) -> Self {
        debug_assert!(block.holders() == 1 && block.head().epoch == Epoch::NEVER);
        Self { block, epoch: Epoch::NEVER }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.block.bytes()
    }

    /// Puts `new` in place of the bytes in `range`; what follows moves. One that outgrows itself may be told as [`Self::outgrown`] is.
    pub(crate) fn splice(&mut self, range: Range<usize>, new: &[u8], whole_bytes: usize) {
        // SAFETY: nobody else has a count of the block, and `self` is borrowed exclusively.
        if unsafe { self.block.splice(range.clone(), new) } {
            return;
        }
        *self = Self::outgrown(self.block.bytes(), (range, new), self.epoch, whole_bytes);
    }

    /// A block for what no longer fits into its own: these bytes, with others in place of those in a range. One that will be full at
    /// `whole_bytes` gets them at once; 0: nothing is known of that.
    pub(crate) fn outgrown(
        old: &[u8],
        (range, new): (Range<usize>, &[u8]),
        epoch: Epoch,
        whole_bytes: usize,
    ) -> Self {
        let room = room_for(old.len() - range.len() + new.len(), whole_bytes);
        let parts = [&old[..range.start], new, &old[range.end..]];
        Self { block: SharedValue::of_parts(parts, room, epoch), epoch }
    }

    /// Ends the time in which nobody else refers to it.
    pub(crate) fn into_shared(self) -> SharedValue {
        self.block
    }
}

/// A value on its way into an entry or a record.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    /// To be copied there.
    Copied(&'a [u8]),
    /// To be referred to.
    Shared(&'a SharedValue),
}

impl<'a> Value<'a> {
    /// Its bytes.
    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Shared(value) => value.bytes(),
        }
    }

    /// Bytes that stand for it where it is kept.
    #[inline]
    pub(crate) fn stored_len(self) -> usize {
        match self {
            Self::Copied(bytes) => bytes.len(),
            Self::Shared(_) => ADDRESS_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_goes_with_its_last_count_and_changes_in_its_epoch_only() {
        let (epoch, next) = (Epoch::new(7), Epoch::new(8));
        let block = OwnBlock::new(b"abcdef", epoch).into_shared();
        assert!(block.is_of(epoch) && !block.is_of(next) && !SharedValue::new(b"x").is_of(epoch));
        assert!(!SharedValue::new(b"x").is_of(Epoch::NEVER));
        let other = block.clone();
        assert_eq!(block.holders(), 2);
        // SAFETY: no reference to its bytes is alive.
        assert!(unsafe { block.splice(2..4, b"XYZ") });
        assert_eq!(other.bytes(), b"abXYZef");
        // SAFETY: the count that was left is taken back once.
        let back = unsafe { SharedValue::from_address(other.into_address()) };
        drop(block);
        assert_eq!((back.holders(), back.bytes()), (1, &b"abXYZef"[..]));
    }

    #[test]
    fn what_does_not_fit_changes_nothing_and_moves_where_nobody_else_looks() {
        let shared = SharedValue::roomy(&[1; 100], Epoch::new(1));
        let long = vec![2; shared.held_bytes()];
        // SAFETY: no reference to its bytes is alive.
        assert!(!unsafe { shared.splice(0..0, &long) });
        assert_eq!(shared.bytes(), [1; 100]);
        let mut own = OwnBlock::new(b"abcdef", Epoch::new(1));
        let mut model = b"abcdef".to_vec();
        for round in 0..200_usize {
            let (at, new) = (round % model.len(), vec![round as u8; round % 9]);
            let end = (at + round % 4).min(model.len());
            own.splice(at..end, &new, 64 * (round % 2));
            model.splice(at..end, new);
            assert_eq!(own.bytes(), model);
        }
    }

    #[test]
    fn room_is_a_sixteenth_at_least_and_what_the_allocator_gives() {
        for len in 64..100_000 {
            let room = room_for(len, 0);
            assert!(room >= len + len / 16 + 16 && room <= len + len * 3 / 8 + 56, "{len}: {room}");
            let grown = room_for(len, 1024);
            assert_eq!(grown, room.max(1024 - HEAD_BYTES), "{len}");
            for bytes in [room, grown].map(|room| room + HEAD_BYTES) {
                let group = bytes.next_power_of_two() / 2;
                assert_eq!((bytes - group) % (group / 4).max(16), 0, "{bytes} is a size of blocks");
            }
        }
    }
}
