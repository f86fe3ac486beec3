//! Pending entries of a consumer group as rows: by ID, and by consumer and ID.

use super::bytes::{u32_at, u64_at};
use super::rows::Form;
use super::store::{Damage, PageError, PageId, PartKind, at_page};

/// ID of an entry of a stream: milliseconds in the upper half.
pub type EntryId = u128;

pub(super) const ID_BYTES: usize = 16;
const CONSUMER_BYTES: usize = 4;
const BY_ID_BYTES: usize = ID_BYTES + CONSUMER_BYTES + 16;
const BY_CONSUMER_BYTES: usize = CONSUMER_BYTES + ID_BYTES;

pub(super) const BY_ID: Form =
    Form { part: PartKind::Pending, row_bytes: BY_ID_BYTES, key_bytes: ID_BYTES };
pub(super) const BY_CONSUMER: Form =
    Form { part: PartKind::PendingOf, row_bytes: BY_CONSUMER_BYTES, key_bytes: BY_CONSUMER_BYTES };

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// The entry.
    pub id: EntryId,
    /// Its owner: the number of a consumer, or a position among the consumers of a change.
    pub consumer: u32,
    /// When it was delivered last, in ms since the epoch.
    pub delivered_ms: u64,
    /// How often.
    pub deliveries: u64,
}

/// What becomes of a pending entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingChange {
    /// It is pending so, whatever was before.
    Put(PendingEntry),
    /// It is not pending any more.
    Remove(EntryId),
}

impl PendingChange {
    pub(super) fn id(&self) -> EntryId {
        match self {
            Self::Put(entry) => entry.id,
            Self::Remove(id) => *id,
        }
    }
}

pub(super) fn by_id_row(entry: PendingEntry) -> Vec<u8> {
    let mut row = Vec::with_capacity(BY_ID_BYTES);
    row.extend_from_slice(&entry.id.to_be_bytes());
    row.extend_from_slice(&entry.consumer.to_le_bytes());
    row.extend_from_slice(&entry.delivered_ms.to_le_bytes());
    row.extend_from_slice(&entry.deliveries.to_le_bytes());
    row
}

pub(super) fn by_consumer_row(consumer: u32, id: EntryId) -> Vec<u8> {
    let mut row = consumer.to_be_bytes().to_vec();
    row.extend_from_slice(&id.to_be_bytes());
    row
}

/// The ID in a row.
pub(super) fn row_id(row: &[u8], at: usize) -> EntryId {
    let bytes = row.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| EntryId::from_be_bytes(*bytes))
}

pub(super) fn pending_of_row(row: &[u8]) -> Result<PendingEntry, PageError> {
    let read = || -> Result<PendingEntry, Damage> {
        Ok(PendingEntry {
            id: row_id(row, 0),
            consumer: u32_at(row, ID_BYTES)?,
            delivered_ms: u64_at(row, ID_BYTES + CONSUMER_BYTES)?,
            deliveries: u64_at(row, ID_BYTES + CONSUMER_BYTES + 8)?,
        })
    };
    read().map_err(at_page(PageId { part: PartKind::Pending, number: 0 }))
}

/// The consumer and the ID of a row of part `q`.
pub(super) fn owner_of_row(row: &[u8]) -> (u32, EntryId) {
    let consumer = row.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    (consumer, row_id(row, CONSUMER_BYTES))
}

/// Bytes of `pending` entries in both orders.
pub(super) fn rows_bytes(pending: u64) -> usize {
    (pending as usize).saturating_mul(BY_ID_BYTES + BY_CONSUMER_BYTES)
}
