//! Pages of consumer groups: one with the names of all, and one for each group, with its position and its consumers. Pending entries
//! are on other pages: the group's page tells how to find them.

use super::bytes::{self, damage, range, u32_at, u64_at};
use super::pending_rows::EntryId;
use super::store::Damage;

/// Positions of what one look-up asks for.
const LAST_ID_AT: usize = 0;
const READ_AT: usize = 16;
const PENDING_AT: usize = 24;
const BY_ID_AT: usize = 32;
const BY_CONSUMER_AT: usize = BY_ID_AT + TREE_BYTES;
const CONSUMERS_AT: usize = BY_CONSUMER_AT + TREE_BYTES;

const TREE_BYTES: usize = 24;

/// Bytes of a consumer before its name.
const CONSUMER_BYTES: usize = 20;

/// Bytes of a group in the page of names, before its name.
const NUMBER_BYTES: usize = 8;

/// How many entries a group has read, where that is not known.
const UNKNOWN: u64 = u64::MAX;

/// Where the tree over a group's pending entries begins, and how large it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeSizes {
    pub root: u64,
    pub levels: u8,
    pub nodes: u32,
    pub pages: u32,
}

/// A consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConsumer {
    /// Its name.
    pub name: Vec<u8>,
    /// Names it in its pending entries; no other consumer of the group has it.
    pub number: u32,
    /// When it was seen last, in ms since the epoch.
    pub seen_ms: u64,
    /// Entries that are pending for it.
    pub pending: u64,
}

/// What a group's page says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupHead {
    /// Last delivered.
    pub last_id: EntryId,
    /// Entries read; `None` when not known.
    pub entries_read: Option<u64>,
    /// Entries that are pending.
    pub pending: u64,
    /// By name.
    pub consumers: Vec<GroupConsumer>,
    pub(super) by_id: TreeSizes,
    pub(super) by_consumer: TreeSizes,
}

fn id_at(payload: &[u8], at: usize) -> Result<EntryId, Damage> {
    match payload.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(bytes) => Ok(EntryId::from_le_bytes(*bytes)),
        None => damage(at, "ID of an entry"),
    }
}

fn tree_at(payload: &[u8], at: usize) -> Result<TreeSizes, Damage> {
    let levels = u32_at(payload, at + 8)?;
    let sizes = TreeSizes {
        root: u64_at(payload, at)?,
        levels: levels as u8,
        nodes: u32_at(payload, at + 12)?,
        pages: u32_at(payload, at + 16)?,
    };
    let has_nodes = sizes.nodes > 0;
    if levels > u32::from(super::tree::LEVELS_MAX) || (levels > 0) != has_nodes {
        return damage(at + 8, "levels of nodes");
    }
    // A node may have one child alone, so each level has as many nodes at most as there are pages.
    if u64::from(sizes.nodes) > u64::from(sizes.pages) * u64::from(levels) {
        return damage(at + 16, "pages for the nodes");
    }
    if u32_at(payload, at + 20)? != 0 {
        return damage(at + 20, "zero");
    }
    Ok(sizes)
}

/// A name and where it ends.
fn name_at(payload: &[u8], at: usize) -> Result<(&[u8], usize), Damage> {
    let (len, len_bytes) = bytes::len_at(payload, at)?;
    let name = range(payload, at + len_bytes, len)?;
    let end = name.end;
    Ok((&payload[name], end))
}

impl GroupHead {
    /// What a page says.
    ///
    /// # Errors
    /// It is not the page of a group.
    pub fn decode(payload: &[u8]) -> Result<Self, Damage> {
        let read = u64_at(payload, READ_AT)?;
        let mut head = Self {
            last_id: id_at(payload, LAST_ID_AT)?,
            entries_read: (read != UNKNOWN).then_some(read),
            pending: u64_at(payload, PENDING_AT)?,
            consumers: Vec::new(),
            by_id: tree_at(payload, BY_ID_AT)?,
            by_consumer: tree_at(payload, BY_CONSUMER_AT)?,
        };
        let mut at = CONSUMERS_AT;
        while at < payload.len() {
            let (number, seen_ms) = (u32_at(payload, at)?, u64_at(payload, at + 4)?);
            let pending = u64_at(payload, at + 12)?;
            let (name, end) = name_at(payload, at + CONSUMER_BYTES)?;
            if head.consumers.last().is_some_and(|last| last.name.as_slice() >= name) {
                return damage(at, "consumers by name");
            }
            head.consumers.push(GroupConsumer { name: name.to_vec(), number, seen_ms, pending });
            at = end;
        }
        Ok(head)
    }

    /// The page that says it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let names: usize = self.consumers.iter().map(|consumer| consumer.name.len()).sum();
        let mut out = Vec::with_capacity(CONSUMERS_AT + names + self.consumers.len() * 25);
        out.extend_from_slice(&self.last_id.to_le_bytes());
        out.extend_from_slice(&self.entries_read.unwrap_or(UNKNOWN).to_le_bytes());
        out.extend_from_slice(&self.pending.to_le_bytes());
        for tree in [self.by_id, self.by_consumer] {
            out.extend_from_slice(&tree.root.to_le_bytes());
            for number in [u32::from(tree.levels), tree.nodes, tree.pages, 0] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        for consumer in &self.consumers {
            out.extend_from_slice(&consumer.number.to_le_bytes());
            out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
            out.extend_from_slice(&consumer.pending.to_le_bytes());
            bytes::put_len(&mut out, consumer.name.len());
            out.extend_from_slice(&consumer.name);
        }
        out
    }
}

/// What the group of a page has read up to, where nothing else of it is asked for.
pub(super) fn last_id_of(payload: &[u8]) -> Result<EntryId, Damage> {
    id_at(payload, LAST_ID_AT)
}

/// Where the group with this name is in the page of names, or would be; and the number of its page, if it exists.
pub(super) fn find(names: &[u8], name: &[u8]) -> Result<(usize, Option<u64>), Damage> {
    let mut at = 0;
    while at < names.len() {
        let (own, end) = name_at(names, at + NUMBER_BYTES)?;
        match own.cmp(name) {
            std::cmp::Ordering::Less => at = end,
            std::cmp::Ordering::Equal => return Ok((at, Some(u64_at(names, at)?))),
            std::cmp::Ordering::Greater => break,
        }
    }
    Ok((at, None))
}

/// All groups of the page of names, and the numbers of their pages.
pub(super) fn all(names: &[u8]) -> Result<Vec<(&[u8], u64)>, Damage> {
    let (mut all, mut at): (Vec<(&[u8], u64)>, usize) = (Vec::new(), 0);
    while at < names.len() {
        let (name, end) = name_at(names, at + NUMBER_BYTES)?;
        if all.last().is_some_and(|(last, _)| *last >= name) {
            return damage(at, "groups by name");
        }
        all.push((name, u64_at(names, at)?));
        at = end;
    }
    Ok(all)
}

/// What the page of names says of a group.
pub(super) fn name_bytes(name: &[u8], number: u64) -> Vec<u8> {
    let mut out = number.to_le_bytes().to_vec();
    bytes::put_len(&mut out, name.len());
    out.extend_from_slice(name);
    out
}
