//! One entry: header, lengths, expiry, key and value in one block.
//!
//! ```text
//! header u64   key length 8 | value length 8 | slot 8 | generation 8 | clock 2 | may be due 1 | flags 5 | access 24
//! u32          key length, when its byte is 255
//! u32          value length, when its byte is 255
//! u64, u32     expiry in milliseconds and where its item is (due.rs), when it may be due
//! key, value
//! ```
//!
//! An entry may be due if it has an expiry, or elements with due times ([`Meta::has_due_elements`]). Without an expiry of
//! its own it has a 0 there.
//!
//! With 254 in the value's length byte, the value is the address of a block that a memtable may share.
//!
//! A free cell of a page is marked by a combination that no entry has: a key whose length byte says "see below"
//! and whose length below is 0.
#![allow(unsafe_code)]

use super::due::UNQUEUED;
use crate::key::{Key, Meta, Slot};
use crate::shared_value::{self, ADDRESS_BYTES, SharedValue, Value};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

const HEADER_BYTES: usize = 8;
/// Length byte that says that a u32 follows.
const EXTENDED: usize = 255;
/// Length byte of a value that is shared.
const SHARED: usize = 254;
const SLOT_SHIFT: u32 = 16;
const GENERATION_SHIFT: u32 = 24;
const CLOCK_SHIFT: u32 = 32;
/// Highest value of the clock bits.
pub(super) const CLOCK_MAX: u64 = 3;
const DUE_BIT: u64 = 1 << 34;
/// Bytes of the place of an expiry's item, and of it with the expiry before it.
const QUEUED_BYTES: usize = 4;
const EXPIRY_BYTES: usize = 8 + QUEUED_BYTES;
const FLAGS_SHIFT: u32 = 35;
const FLAGS_MASK: u8 = 0x1f;
const ACCESS_SHIFT: u32 = 40;
const ACCESS_MAX: u32 = 0xff_ffff;

/// The length byte of a value.
fn value_len_byte(value: Value<'_>) -> usize {
    match value {
        Value::Shared(_) => SHARED,
        Value::Copied(bytes) if bytes.len() < SHARED => bytes.len(),
        Value::Copied(_) => EXTENDED,
    }
}

/// Bytes of an entry with these parts.
pub(super) fn encoded_len(key_len: usize, value: Value<'_>, may_be_due: bool) -> usize {
    let extended =
        usize::from(key_len >= EXTENDED) + usize::from(value_len_byte(value) == EXTENDED);
    let expiry = EXPIRY_BYTES * usize::from(may_be_due);
    HEADER_BYTES + 4 * extended + expiry + key_len + value.stored_len()
}

/// What an entry is written from.
pub(super) struct Content<'a> {
    pub(super) slot: Slot,
    pub(super) key: &'a [u8],
    pub(super) meta: Meta,
    pub(super) value: Value<'a>,
    pub(super) generation: u8,
    pub(super) access: u32,
    pub(super) clock: u64,
}

impl Content<'_> {
    pub(super) fn encoded_len(&self) -> usize {
        encoded_len(self.key.len(), self.value, self.meta.may_be_due())
    }

    fn header(&self) -> u64 {
        self.key.len().min(EXTENDED) as u64
            | (value_len_byte(self.value) as u64) << 8
            | u64::from(self.slot) << SLOT_SHIFT
            | u64::from(self.generation) << GENERATION_SHIFT
            | self.clock << CLOCK_SHIFT
            | if self.meta.may_be_due() { DUE_BIT } else { 0 }
            | u64::from(self.meta.flags & FLAGS_MASK) << FLAGS_SHIFT
            | u64::from(self.access & ACCESS_MAX) << ACCESS_SHIFT
    }
}

struct Layout {
    key_at: usize,
    key_len: usize,
    /// Bytes of what stands for the value.
    value_len: usize,
    is_shared: bool,
}

impl Layout {
    fn value_at(&self) -> usize {
        self.key_at + self.key_len
    }
}

/// Handle of an entry.
///
/// It can only be made by unsafe code that vouches for the entry being there ([`Entry::write`],
/// [`Entry::from_address`]), and an entry's memory is only given back by unsafe code that vouches
/// for no handle of it being used later (`Slab::free`). So a handle points at a written entry, and
/// reading through it is sound. Entries belong to a table, which is used by one thread at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(NonNull<u8>);

impl Entry {
    /// Writes an entry, which gets a count of its own of a shared value. Its expiry has no item yet.
    ///
    /// # Safety
    /// `block` is aligned to 8, has `content.encoded_len()` bytes, nothing in `content` is
    /// in it, and no entry with a shared value.
    pub(super) unsafe fn write(block: NonNull<u8>, content: &Content<'_>) -> Self {
        let (key, value) = (content.key, content.value);
        let start = block.as_ptr();
        let mut at = HEADER_BYTES;
        // SAFETY: the block holds encoded_len() bytes, which is what the parts below add up to; it
        // does not overlap the sources.
        unsafe {
            start.cast::<u64>().write(content.header());
            let is_long = [key.len() >= EXTENDED, value_len_byte(value) == EXTENDED];
            for (len, is_long) in [key.len(), value.bytes().len()].into_iter().zip(is_long) {
                if is_long {
                    let len = u32::try_from(len).expect("keys and values stay below 4 GiB");
                    start.add(at).cast::<u32>().write_unaligned(len);
                    at += 4;
                }
            }
            if content.meta.may_be_due() {
                start.add(at).cast::<u64>().write_unaligned(content.meta.expire_at_ms);
                start.add(at + 8).cast::<u32>().write_unaligned(UNQUEUED);
                at += EXPIRY_BYTES;
            }
            start.add(at).copy_from_nonoverlapping(key.as_ptr(), key.len());
            let place = start.add(at + key.len());
            match value {
                Value::Copied(value) => {
                    place.copy_from_nonoverlapping(value.as_ptr(), value.len());
                }
                Value::Shared(value) => place
                    .cast::<[u8; ADDRESS_BYTES]>()
                    .write_unaligned(value.clone().into_address()),
            }
        }
        Self(block)
    }

    /// # Safety
    /// `address` is that of a written entry which lives as long as the handle is used.
    pub(super) unsafe fn from_address(address: u64) -> Self {
        // SAFETY: the address of an entry is not null.
        Self(unsafe { NonNull::new_unchecked(address as usize as *mut u8) })
    }

    pub(super) fn block(self) -> NonNull<u8> {
        self.0
    }

    pub(super) fn address(self) -> u64 {
        self.0.as_ptr() as usize as u64
    }

    fn header(self) -> u64 {
        // SAFETY: type invariant; blocks are aligned to 8.
        unsafe { self.0.cast::<u64>().read() }
    }

    fn set_header(self, header: u64) {
        // SAFETY: as above. No reference to a header is ever made, and only one thread uses the
        // table.
        unsafe { self.0.cast::<u64>().write(header) }
    }

    fn u32_at(self, at: usize) -> usize {
        // SAFETY: type invariant; the header says that a length lies there.
        unsafe { self.0.as_ptr().add(at).cast::<u32>().read_unaligned() as usize }
    }

    #[inline]
    fn layout(self) -> Layout {
        let header = self.header();
        let (mut key_len, mut value_len) =
            ((header & 0xff) as usize, (header >> 8 & 0xff) as usize);
        let mut key_at = HEADER_BYTES;
        if key_len == EXTENDED {
            key_len = self.u32_at(key_at);
            key_at += 4;
        }
        let is_shared = value_len == SHARED;
        if is_shared {
            value_len = ADDRESS_BYTES;
        } else if value_len == EXTENDED {
            value_len = self.u32_at(key_at);
            key_at += 4;
        }
        if header & DUE_BIT != 0 {
            key_at += EXPIRY_BYTES;
        }
        Layout { key_at, key_len, value_len, is_shared }
    }

    fn bytes_at<'a>(self, at: usize, len: usize) -> &'a [u8] {
        // SAFETY: type invariant; `at` and `len` come from the entry's own layout. The lifetime is
        // bounded by the callers, which tie it to a borrow of the table.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(at), len) }
    }

    /// Bytes of the whole entry, without those of a shared value.
    pub(super) fn len(self) -> usize {
        let layout = self.layout();
        layout.value_at() + layout.value_len
    }

    fn address_at(self, at: usize) -> [u8; ADDRESS_BYTES] {
        // SAFETY: type invariant; the header says that an address lies there.
        unsafe { self.0.as_ptr().add(at).cast::<[u8; ADDRESS_BYTES]>().read_unaligned() }
    }

    /// The count that the entry holds of a shared value; `None` where the value is in the entry.
    ///
    /// # Safety
    /// The entry is overwritten or freed next: its value is not read again, and nobody takes it twice.
    pub(super) unsafe fn take_shared(self) -> Option<SharedValue> {
        let layout = self.layout();
        // SAFETY: `write` has left a count there.
        layout
            .is_shared
            .then(|| unsafe { SharedValue::from_address(self.address_at(layout.value_at())) })
    }

    /// Another count of a shared value.
    pub(super) fn shared(self) -> Option<SharedValue> {
        self.as_shared().map(|held| SharedValue::clone(&held))
    }

    /// The shared value, whose count stays with the entry.
    #[inline]
    fn as_shared(self) -> Option<ManuallyDrop<SharedValue>> {
        // SAFETY: nobody gives up what is not dropped.
        unsafe { self.take_shared() }.map(ManuallyDrop::new)
    }

    /// True where the entry holds a count of a shared value, be it empty.
    pub(super) fn is_shared(self) -> bool {
        self.layout().is_shared
    }

    /// Bytes of memory of a shared value, 0 where it is in the entry.
    pub(super) fn shared_bytes(self) -> usize {
        let layout = self.layout();
        if !layout.is_shared {
            return 0;
        }
        // SAFETY: the entry holds a count.
        unsafe { shared_value::held_bytes_at(self.address_at(layout.value_at())) }
    }

    #[inline]
    pub(super) fn key<'a>(self) -> &'a [u8] {
        let layout = self.layout();
        self.bytes_at(layout.key_at, layout.key_len)
    }

    #[inline]
    pub(super) fn value<'a>(self) -> &'a [u8] {
        let layout = self.layout();
        if layout.is_shared {
            // SAFETY: the entry holds a count for as long as it is there; the callers tie the lifetime to a borrow
            // of the table, and the block changes only for a caller that has borrowed it exclusively (`Table::edit`).
            return unsafe { shared_value::bytes_at(self.address_at(layout.value_at())) };
        }
        self.bytes_at(layout.value_at(), layout.value_len)
    }

    pub(super) fn slot(self) -> Slot {
        (self.header() >> SLOT_SHIFT) as u8
    }

    pub(super) fn generation(self) -> u8 {
        (self.header() >> GENERATION_SHIFT) as u8
    }

    pub(super) fn access(self) -> u32 {
        (self.header() >> ACCESS_SHIFT) as u32
    }

    /// True where an expiry and the position of an item precede the key.
    pub(super) fn may_be_due(self) -> bool {
        self.header() & DUE_BIT != 0
    }

    /// True when the key has an expiry.
    pub(super) fn has_expiry(self) -> bool {
        self.may_be_due() && self.meta().expire_at_ms != 0
    }

    /// When it must be looked at; 0 for never.
    pub(super) fn due_ms(self) -> u64 {
        let meta = self.meta();
        if meta.has_due_elements() { meta.due_ms(self.value()) } else { meta.expire_at_ms }
    }

    /// True when `meta` fits in the room of the entry's.
    pub(super) fn takes_meta(self, meta: Meta) -> bool {
        self.may_be_due() == meta.may_be_due()
    }

    #[inline]
    pub(super) fn meta(self) -> Meta {
        let header = self.header();
        let flags = (header >> FLAGS_SHIFT) as u8 & FLAGS_MASK;
        if header & DUE_BIT == 0 {
            return Meta { flags, expire_at_ms: 0 };
        }
        let at = self.layout().key_at - EXPIRY_BYTES;
        // SAFETY: type invariant; the header says that an expiry lies before the key.
        let expire_at_ms = unsafe { self.0.as_ptr().add(at).cast::<u64>().read_unaligned() };
        Meta { flags, expire_at_ms }
    }

    /// Position of its expiry's item; [`UNQUEUED`] without one.
    #[inline]
    pub(super) fn queued(self) -> u32 {
        if !self.may_be_due() {
            return UNQUEUED;
        }
        let at = self.layout().key_at - QUEUED_BYTES;
        // SAFETY: type invariant; the header says that the place lies before the key.
        unsafe { self.0.as_ptr().add(at).cast::<u32>().read_unaligned() }
    }

    /// Notes the position of its expiry's item.
    pub(super) fn set_queued(self, place: u32) {
        debug_assert!(self.may_be_due());
        if self.may_be_due() {
            let at = self.layout().key_at - QUEUED_BYTES;
            // SAFETY: as above.
            unsafe { self.0.as_ptr().add(at).cast::<u32>().write_unaligned(place) }
        }
    }

    #[inline]
    pub(super) fn is(self, key: Key<'_>) -> bool {
        self.slot() == key.slot && self.key() == key.bytes
    }

    pub(super) fn clock(self) -> u64 {
        self.header() >> CLOCK_SHIFT & CLOCK_MAX
    }

    /// Notes a use. Written only while it changes something, so that hot entries stay clean lines.
    #[inline]
    pub(super) fn touch(self) {
        let clock = self.clock();
        if clock < CLOCK_MAX {
            self.set_header(self.header() + (1 << CLOCK_SHIFT));
        }
    }

    /// Takes one use back.
    pub(super) fn cool(self) {
        if self.clock() > 0 {
            self.set_header(self.header() - (1 << CLOCK_SHIFT));
        }
    }

    pub(super) fn set_access(self, access: u32) {
        let low = self.header() & ((1 << ACCESS_SHIFT) - 1);
        self.set_header(low | u64::from(access & ACCESS_MAX) << ACCESS_SHIFT);
    }

    /// Sets flags, generation and expiry in place; the entry must [take](Self::takes_meta) them.
    pub(super) fn set_meta(self, meta: Meta, generation: u8) {
        debug_assert!(self.takes_meta(meta));
        let cleared = !(0xff << GENERATION_SHIFT | u64::from(FLAGS_MASK) << FLAGS_SHIFT);
        self.set_header(
            self.header() & cleared
                | u64::from(generation) << GENERATION_SHIFT
                | u64::from(meta.flags & FLAGS_MASK) << FLAGS_SHIFT,
        );
        if self.may_be_due() {
            let at = self.layout().key_at - EXPIRY_BYTES;
            // SAFETY: type invariant; the header says that an expiry lies before the key.
            unsafe { self.0.as_ptr().add(at).cast::<u64>().write_unaligned(meta.expire_at_ms) }
        }
    }
}

/// Marks a free cell, with the offset of the next free one.
///
/// # Safety
/// `cell` is aligned to 8 and has at least 16 bytes that hold no entry.
pub(super) unsafe fn write_free(cell: NonNull<u8>, next: u16) {
    // SAFETY: the caller's promise.
    unsafe {
        cell.cast::<u64>().write(EXTENDED as u64 | u64::from(next) << 32);
        cell.cast::<u64>().add(1).write(0);
    }
}

/// The next free cell's offset, if this cell is free.
///
/// # Safety
/// `cell` was written by [`write_free`] or [`Entry::write`].
pub(super) unsafe fn read_free(cell: NonNull<u8>) -> Option<u16> {
    // SAFETY: the caller's promise; an entry whose key length byte is 255 goes on behind its header,
    // and so does a free cell.
    unsafe {
        let header = cell.cast::<u64>().read();
        let free = header as u8 == EXTENDED as u8 && cell.cast::<u32>().add(2).read() == 0;
        free.then_some((header >> 32) as u16)
    }
}

/// An entry as the owner of the shard's latch sees it.
#[derive(Clone, Copy)]
pub struct EntryRef<'a> {
    pub(super) entry: Entry,
    table: PhantomData<&'a ()>,
}

impl<'a> EntryRef<'a> {
    /// The caller ties `'a` to a borrow of the table.
    pub(super) fn new(entry: Entry) -> Self {
        Self { entry, table: PhantomData }
    }

    /// The user's key.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        self.entry.key()
    }

    /// Slot of its namespace.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.entry.slot()
    }

    /// Flags and expiry.
    #[inline]
    #[must_use]
    pub fn meta(&self) -> Meta {
        self.entry.meta()
    }

    /// The value's bytes.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        self.entry.value()
    }

    /// Sets the 24-bit access field, as a look-up sets the clock.
    #[inline]
    pub fn set_access(&self, access: u32) {
        self.entry.set_access(access);
    }

    /// Another count of its value, where a memtable may share that.
    pub(crate) fn shared(&self) -> Option<SharedValue> {
        self.entry.shared()
    }

    /// Which of these it has for its value; no count is added.
    #[inline]
    pub(crate) fn shared_among(&self, blocks: &[SharedValue]) -> Option<usize> {
        let own = self.entry.as_shared()?;
        blocks.iter().rposition(|block| block.is(&own))
    }

    /// Asks the CPU's cache for the beginning of its value, for so many bytes where a memtable may share it.
    #[inline]
    pub(crate) fn prefetch_value(&self, bytes: usize) {
        if let Some(block) = self.entry.as_shared() {
            block.prefetch(bytes);
        }
    }

    /// Generation of the memtable that holds its last change.
    #[must_use]
    pub fn generation(&self) -> u8 {
        self.entry.generation()
    }

    /// The 24-bit access field.
    #[must_use]
    pub fn access(&self) -> u32 {
        self.entry.access()
    }
}
