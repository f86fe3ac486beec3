//! Data blocks: entries with prefix-compressed keys and restart points.

use super::format::{ENTRY_PART_BYTES_MAX, RESTART_INTERVAL, SEQ_MAX, get_u32};
use crate::key::{Meta, Seq};
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

const FLAGS_MASK: u64 = Meta::FLAGS_MASK as u64;
const HAS_EXPIRY: u64 = 0x20;
const WIDE: u64 = 0x40;
const TOMBSTONE: u64 = 0x80;
const NARROW_HEAD_BYTES: usize = 12;
const WIDE_HEAD_BYTES: usize = 20;

/// A block that passed its checksum but cannot be what a builder wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Length of the common prefix.
#[inline]
pub(crate) fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let mut at = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let x = u64::from_le_bytes(x.try_into().unwrap_or_default());
        let y = u64::from_le_bytes(y.try_into().unwrap_or_default());
        if x != y {
            return at + ((x ^ y).trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count()
}

/// Collects the entries of one block.
#[derive(Debug, Default)]
pub(super) struct BlockBuilder {
    buf: Vec<u8>,
    restarts: Vec<u32>,
    since_restart: u32,
}

impl BlockBuilder {
    /// Bytes of the block if it were closed now.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.buf.len() + 4 * self.restarts.len() + 4
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Appends an entry; `shared` is the prefix `key` shares with the key added before.
    /// Lengths and sequence were checked by the caller.
    #[inline]
    pub(super) fn add(
        &mut self,
        key: &[u8],
        mut shared: usize,
        seq: Seq,
        meta: Meta,
        value: &[u8],
    ) {
        if self.since_restart == RESTART_INTERVAL || self.buf.is_empty() {
            self.restarts.push(self.buf.len() as u32);
            self.since_restart = 0;
            shared = 0;
        }
        self.since_restart += 1;
        let mut tag = seq << 8 | u64::from(meta.flags) & (TOMBSTONE | FLAGS_MASK);
        let mut head = [0u8; WIDE_HEAD_BYTES + 8];
        let narrow_shared = shared.min(255);
        let narrow_rest = key.len() - narrow_shared;
        let mut n = if narrow_rest <= 255 && value.len() <= 0xffff {
            shared = narrow_shared;
            let lens = shared as u32 | (narrow_rest as u32) << 8 | (value.len() as u32) << 16;
            head[8..12].copy_from_slice(&lens.to_le_bytes());
            NARROW_HEAD_BYTES
        } else {
            tag |= WIDE;
            head[8..12].copy_from_slice(&(shared as u32).to_le_bytes());
            head[12..16].copy_from_slice(&((key.len() - shared) as u32).to_le_bytes());
            head[16..20].copy_from_slice(&(value.len() as u32).to_le_bytes());
            WIDE_HEAD_BYTES
        };
        if meta.expire_at_ms != 0 {
            tag |= HAS_EXPIRY;
            head[n..n + 8].copy_from_slice(&meta.expire_at_ms.to_le_bytes());
            n += 8;
        }
        head[..8].copy_from_slice(&tag.to_le_bytes());
        let rest = &key[shared..];
        self.buf.reserve(n + rest.len() + value.len());
        self.buf.extend_from_slice(&head[..n]);
        self.buf.extend_from_slice(rest);
        self.buf.extend_from_slice(value);
    }

    /// Closes the block and shows its bytes.
    pub(super) fn finish(&mut self) -> &[u8] {
        for restart in &self.restarts {
            self.buf.extend_from_slice(&restart.to_le_bytes());
        }
        self.buf.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        &self.buf
    }

    /// Bytes of its buffer.
    pub(super) fn held_bytes(&self) -> usize {
        self.buf.capacity()
    }

    /// Empties it, keeping its memory up to a bound.
    pub(super) fn clear(&mut self) {
        self.buf.clear();
        self.buf.shrink_to(1 << 20);
        self.restarts.clear();
        self.since_restart = 0;
    }
}

/// Where the entries of a block end and its restart offsets begin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    entries_end: usize,
    restarts: usize,
}

impl Layout {
    /// Reads the tail of a block.
    pub(super) fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let tail = data.len().checked_sub(4).ok_or(Malformed)?;
        let restarts = get_u32(data, tail).ok_or(Malformed)? as usize;
        let array = restarts.checked_mul(4).ok_or(Malformed)?;
        let entries_end = tail.checked_sub(array).ok_or(Malformed)?;
        if restarts == 0 || entries_end < NARROW_HEAD_BYTES {
            return Err(Malformed);
        }
        Ok(Self { entries_end, restarts })
    }

    /// End of the entries.
    pub(super) fn entries_end(self) -> usize {
        self.entries_end
    }

    fn restart(self, data: &[u8], i: usize) -> Result<usize, Malformed> {
        let at = get_u32(data, self.entries_end + 4 * i).ok_or(Malformed)? as usize;
        if at < self.entries_end { Ok(at) } else { Err(Malformed) }
    }
}

/// The fixed part of an entry and where its bytes are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EntryHead {
    pub(super) seq: Seq,
    pub(super) meta: Meta,
    /// Start of the entry.
    pub(super) at: usize,
    shared: usize,
    rest: usize,
    /// Start of the value.
    pub(super) value: usize,
    /// End of the value, and of the entry.
    pub(super) end: usize,
}

impl EntryHead {
    /// True when the entry has the key of the entry before, which is `key`.
    #[inline]
    pub(super) fn repeats(&self, data: &[u8], key: &[u8]) -> bool {
        match (key.get(self.shared..), data.get(self.rest..self.value)) {
            (Some(wanted), Some(rest)) => wanted == rest,
            _ => false,
        }
    }
}

/// Decodes the entry at `at`; `None` at the end of the entries.
#[inline]
pub(super) fn entry_at(
    data: &[u8],
    layout: Layout,
    at: usize,
) -> Result<Option<EntryHead>, Malformed> {
    if at >= layout.entries_end {
        return if at == layout.entries_end { Ok(None) } else { Err(Malformed) };
    }
    let head: &[u8; NARROW_HEAD_BYTES] = data
        .get(at..at + NARROW_HEAD_BYTES)
        .and_then(|head| head.try_into().ok())
        .ok_or(Malformed)?;
    let [t0, t1, t2, t3, t4, t5, t6, t7, shared, rest, v0, v1] = *head;
    let tag = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
    let mut next = at + NARROW_HEAD_BYTES;
    let (shared, rest_len, value_len) = if tag & WIDE == 0 {
        (usize::from(shared), usize::from(rest), usize::from(u16::from_le_bytes([v0, v1])))
    } else {
        next = at + WIDE_HEAD_BYTES;
        let lengths = (get_u32(data, at + 8), get_u32(data, at + 12), get_u32(data, at + 16));
        let (Some(shared), Some(rest), Some(value)) = lengths else { return Err(Malformed) };
        (shared as usize, rest as usize, value as usize)
    };
    let mut meta = Meta { flags: (tag & (TOMBSTONE | FLAGS_MASK)) as u8, expire_at_ms: 0 };
    if tag & HAS_EXPIRY != 0 {
        meta.expire_at_ms = super::format::get_u64(data, next).ok_or(Malformed)?;
        next += 8;
    }
    let value = next + rest_len;
    let end = value + value_len;
    if end > layout.entries_end {
        return Err(Malformed);
    }
    Ok(Some(EntryHead { seq: tag >> 8, meta, at, shared, rest: next, value, end }))
}

/// Turns `key`, which holds the key of the entry before, into the key of `head`.
#[inline]
pub(super) fn extend_key(
    data: &[u8],
    head: &EntryHead,
    key: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let rest = data.get(head.rest..head.value).ok_or(Malformed)?;
    if head.shared > key.len() || head.shared + rest.len() > ENTRY_PART_BYTES_MAX {
        return Err(Malformed);
    }
    key.truncate(head.shared);
    key.extend_from_slice(rest);
    Ok(())
}

/// The order of the tree: key ascending, then sequence descending.
#[inline]
pub(super) fn compare(a: &[u8], a_seq: Seq, b: &[u8], b_seq: Seq) -> Ordering {
    a.cmp(b).then(b_seq.cmp(&a_seq))
}

/// What a look into one block for one key answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Look {
    /// The newest version at or below the bound.
    Found(EntryHead),
    /// The key has none here, and none behind.
    Absent,
    /// The block ends before the place where it would be.
    Behind,
}

/// Looks for the newest version of `key` with a sequence of at most `bound`.
///
/// Keys are not reassembled. `matched` is the length of the prefix that the previous, smaller entry shares with `key`.
/// An entry that shares more than that with the previous entry differs from `key` at the byte where that one does.
pub(super) fn look_up(
    data: &[u8],
    layout: Layout,
    key: &[u8],
    bound: Seq,
) -> Result<Look, Malformed> {
    let mut at = restart_before(data, layout, key, bound)?;
    let mut matched = 0;
    while let Some(head) = entry_at(data, layout, at)? {
        at = head.end;
        if head.shared > matched {
            continue;
        }
        let rest = data.get(head.rest..head.value).ok_or(Malformed)?;
        let wanted = key.get(head.shared..).ok_or(Malformed)?;
        let same = shared_prefix(rest, wanted);
        match rest.get(same..).cmp(&wanted.get(same..)) {
            Ordering::Less => matched = head.shared + same,
            Ordering::Equal if head.seq <= bound => return Ok(Look::Found(head)),
            Ordering::Equal => matched = key.len(),
            Ordering::Greater => return Ok(Look::Absent),
        }
    }
    Ok(Look::Behind)
}

/// Offset of the last restart strictly before (`key`, `seq`), or of the first one.
fn restart_before(data: &[u8], layout: Layout, key: &[u8], seq: Seq) -> Result<usize, Malformed> {
    let (mut low, mut high) = (0, layout.restarts);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let at = layout.restart(data, middle)?;
        let head = entry_at(data, layout, at)?.ok_or(Malformed)?;
        let whole = data.get(head.rest..head.value).ok_or(Malformed)?;
        if head.shared != 0 {
            return Err(Malformed);
        }
        if compare(whole, head.seq, key, seq) == Ordering::Less {
            low = middle;
        } else {
            high = middle;
        }
    }
    layout.restart(data, low)
}

/// Finds the first entry at or after (`key`, `seq`) in the order of the tree. `found` then holds
/// its key.
pub(super) fn seek(
    data: &[u8],
    layout: Layout,
    key: &[u8],
    seq: Seq,
    found: &mut Vec<u8>,
) -> Result<Option<EntryHead>, Malformed> {
    let mut at = restart_before(data, layout, key, seq)?;
    found.clear();
    while let Some(head) = entry_at(data, layout, at)? {
        extend_key(data, &head, found)?;
        if compare(found, head.seq, key, seq) != Ordering::Less {
            return Ok(Some(head));
        }
        at = head.end;
    }
    Ok(None)
}

/// Entries of a block between a restart and a later entry, kept to be given out backwards: the key
/// of an entry is known only from those before it, so a walk back decodes a restart interval once.
#[derive(Debug, Default)]
pub(super) struct BackStack {
    heads: Vec<(EntryHead, usize)>,
    /// Whole keys, one after the other; a head knows where its own starts.
    keys: Vec<u8>,
}

impl BackStack {
    /// Forgets what is left.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.heads.clear();
        self.keys.clear();
    }

    /// Takes the entries from the last restart before offset `end` up to `end`, which must be the start
    /// of an entry or the end of the entries, and above 0.
    pub(super) fn fill(
        &mut self,
        data: &[u8],
        layout: Layout,
        end: usize,
    ) -> Result<(), Malformed> {
        self.clear();
        let (mut low, mut high) = (0, layout.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if layout.restart(data, middle)? < end {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut at = layout.restart(data, low)?;
        let mut key = Vec::new();
        while at < end {
            let head = entry_at(data, layout, at)?.ok_or(Malformed)?;
            extend_key(data, &head, &mut key)?;
            self.heads.push((head, self.keys.len()));
            self.keys.extend_from_slice(&key);
            at = head.end;
        }
        if at == end { Ok(()) } else { Err(Malformed) }
    }

    /// The last entry that was not given out yet; its key replaces `key`.
    #[inline]
    pub(super) fn pop(&mut self, key: &mut Vec<u8>) -> Option<EntryHead> {
        let (head, start) = self.heads.pop()?;
        key.clear();
        key.extend_from_slice(&self.keys[start..]);
        self.keys.truncate(start);
        Some(head)
    }
}

/// A data block in memory, decompressed and checked.
pub struct Block {
    data: Vec<u8>,
    layout: Layout,
}

impl Block {
    /// Takes the bytes of a block.
    pub(super) fn new(data: Vec<u8>) -> Result<Self, Malformed> {
        let layout = Layout::parse(&data)?;
        Ok(Self { data, layout })
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// The key of a random entry: all of one restart interval are as likely as each other.
    pub(super) fn random_key(&self, random: &mut dyn FnMut() -> u64) -> Result<Vec<u8>, Malformed> {
        let interval = (random() % self.layout.restarts as u64) as usize;
        let mut at = self.layout.restart(&self.data, interval)?;
        let end = if interval + 1 < self.layout.restarts {
            self.layout.restart(&self.data, interval + 1)?
        } else {
            self.layout.entries_end
        };
        let (mut key, mut chosen) = (Vec::new(), Vec::new());
        let mut seen = 0;
        while at < end {
            let head = entry_at(&self.data, self.layout, at)?.ok_or(Malformed)?;
            extend_key(&self.data, &head, &mut key)?;
            seen += 1;
            // The n-th entry takes the place of the one chosen before with probability 1/n.
            if random().is_multiple_of(seen) {
                chosen.clone_from(&key);
            }
            at = head.end;
        }
        Ok(chosen)
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.data.capacity() + size_of::<Self>()
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("bytes", &self.data.len()).finish_non_exhaustive()
    }
}

/// A value inside a block, which it keeps alive: large values are not copied.
#[derive(Clone, Debug)]
pub struct PinnedValue {
    block: Arc<Block>,
    range: Range<usize>,
}

impl PinnedValue {
    pub(super) fn new(block: Arc<Block>, range: Range<usize>) -> Result<Self, Malformed> {
        if block.data.get(range.clone()).is_none() {
            return Err(Malformed);
        }
        Ok(Self { block, range })
    }
}

impl Deref for PinnedValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block.data[self.range.clone()]
    }
}

/// True when an entry of this size and sequence can be stored.
pub(super) fn fits(key: &[u8], seq: Seq, value: &[u8]) -> bool {
    key.len() <= ENTRY_PART_BYTES_MAX && value.len() <= ENTRY_PART_BYTES_MAX && seq <= SEQ_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_prefix_agrees_with_the_obvious_loop() {
        let base: Vec<u8> = (0..40).collect();
        for n in 0..40 {
            for cut in 0..=n {
                let mut other = base[..n].to_vec();
                if cut < n {
                    other[cut] ^= 0x40;
                }
                assert_eq!(shared_prefix(&base, &other), cut, "n={n} cut={cut}");
            }
        }
    }

    #[test]
    fn entries_survive_the_trip_whatever_their_sizes() {
        let mut builder = BlockBuilder::default();
        let mut entries = Vec::new();
        let mut last = Vec::new();
        for i in 0..200u32 {
            let mut key = format!("key{:05}", i / 3).into_bytes();
            if i >= 180 {
                key.resize(300 + i as usize, b'x');
            }
            let value = vec![i as u8; if i % 50 == 49 { 70_000 } else { i as usize }];
            let mut meta = Meta { flags: (i % 32) as u8, expire_at_ms: u64::from(i % 2) * 77 };
            if i % 7 == 3 {
                meta = Meta::tombstone();
            }
            let seq = SEQ_MAX - u64::from(i);
            builder.add(&key, shared_prefix(&last, &key), seq, meta, &value);
            last.clone_from(&key);
            entries.push((key, seq, meta, value));
        }
        let data = builder.finish().to_vec();
        let layout = Layout::parse(&data).unwrap();
        let (mut at, mut key) = (0, Vec::new());
        for want in &entries {
            let head = entry_at(&data, layout, at).unwrap().unwrap();
            extend_key(&data, &head, &mut key).unwrap();
            let got = (&key, head.seq, head.meta, &data[head.value..head.end]);
            assert_eq!(got, (&want.0, want.1, want.2, &want.3[..]));
            at = head.end;
            let head = seek(&data, layout, &want.0, want.1, &mut Vec::new()).unwrap().unwrap();
            assert_eq!(head.end, at, "seek finds exactly this entry");
            let look = look_up(&data, layout, &want.0, want.1).unwrap();
            assert!(matches!(look, Look::Found(head) if head.end == at));
        }
        assert!(entry_at(&data, layout, at).unwrap().is_none());
        assert!(seek(&data, layout, b"z", 1, &mut Vec::new()).unwrap().is_none());
    }

    #[test]
    fn a_walk_back_gives_the_entries_in_the_other_order() {
        let mut builder = BlockBuilder::default();
        let mut last = Vec::new();
        for i in 0..100u32 {
            let key = format!("key{:05}", i / 3).into_bytes();
            let shared = shared_prefix(&last, &key);
            builder.add(&key, shared, u64::from(1000 - i), Meta::default(), b"v");
            last = key;
        }
        let data = builder.finish().to_vec();
        let layout = Layout::parse(&data).unwrap();
        let (mut at, mut key, mut forward) = (0, Vec::new(), Vec::new());
        while let Some(head) = entry_at(&data, layout, at).unwrap() {
            extend_key(&data, &head, &mut key).unwrap();
            forward.push((key.clone(), head.seq));
            at = head.end;
        }
        let mut stack = BackStack::default();
        let mut backward = Vec::new();
        while at > 0 {
            stack.fill(&data, layout, at).unwrap();
            while let Some(head) = stack.pop(&mut key) {
                backward.push((key.clone(), head.seq));
                assert!(head.at < at);
                at = head.at;
            }
        }
        backward.reverse();
        assert_eq!(backward, forward);
        assert!(stack.fill(&data, layout, 7).is_err(), "no entry starts there");
    }

    #[test]
    fn a_look_up_agrees_with_a_walk_for_keys_of_all_kinds() {
        let mut builder = BlockBuilder::default();
        let (mut last, mut entries) = (Vec::new(), Vec::new());
        for i in 0..300u64 {
            // Long common beginnings too: what is shared is capped at 255 bytes.
            let mut key = vec![b'p'; if i < 150 { 2 } else { 300 }];
            key.extend_from_slice(format!("{:04}", i / 3 * 2).as_bytes());
            if i / 3 % 4 == 1 {
                key.push(b'x');
            }
            entries.push((key, 1000 - i % 3 * 10));
        }
        entries.sort_by(|a, b| compare(&a.0, a.1, &b.0, b.1));
        for (key, seq) in &entries {
            builder.add(key, shared_prefix(&last, key), *seq, Meta::default(), b"v");
            last.clone_from(key);
        }
        let data = builder.finish().to_vec();
        let layout = Layout::parse(&data).unwrap();
        let neighbours = |key: &[u8]| {
            let mut before = key.to_vec();
            *before.last_mut().unwrap() -= 1;
            [key.to_vec(), [key, b"\0"].concat(), key[..key.len() - 1].to_vec(), before]
        };
        let keys: Vec<Vec<u8>> = entries.iter().flat_map(|entry| neighbours(&entry.0)).collect();
        for key in keys.iter().map(Vec::as_slice).chain([&b""[..], b"z"]) {
            for bound in [5, 985, 990, 995, Seq::MAX] {
                let newest = entries.iter().find(|(k, seq)| k == key && *seq <= bound);
                match look_up(&data, layout, key, bound).unwrap() {
                    Look::Found(head) => assert_eq!(newest.map(|entry| entry.1), Some(head.seq)),
                    Look::Absent => assert_eq!(newest, None),
                    Look::Behind => {
                        assert_eq!(newest, None);
                        let target = compare(&entries[299].0, entries[299].1, key, bound);
                        assert_eq!(target, Ordering::Less);
                    }
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic() {
        let mut state = 1u64;
        for len in 0..400 {
            let data: Vec<u8> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if state >> 60 < 9 { 0 } else { (state >> 33) as u8 }
                })
                .collect();
            let mut data = data;
            data.extend_from_slice(&1u32.to_le_bytes());
            if let Ok(block) = Block::new(data) {
                let mut key = Vec::new();
                let found = seek(block.data(), block.layout(), b"k", 7, &mut key);
                assert!(found.is_err() || key.len() <= block.data().len());
                if let Ok(Look::Found(head)) = look_up(block.data(), block.layout(), b"k", 7) {
                    assert!(head.end <= block.data().len());
                }
            }
        }
    }
}
