//! Version edits: one record of the manifest is one step of the tree.

use super::levels::LEVELS;
use super::undo_run::UndoRun;
use crate::key::Seq;
use crate::table::{GraveFile, Place, Properties, Table, TableMeta};
use std::sync::Arc;

/// Version of the record format.
pub(super) const EDIT_VERSION: u16 = 3;
const TAG_FILE_ADDED: u8 = 1;
const TAG_FILE_DELETED: u8 = 2;
const TAG_MARK: u8 = 3;
const TAG_NEXT_FILE: u8 = 4;
const TAG_RESERVED_SEQ: u8 = 5;
const TAG_DELETES: u8 = 6;
const TAG_PLACE: u8 = 7;
const TAG_GRAVES_ADDED: u8 = 8;
const TAG_GRAVES_DELETED: u8 = 9;

/// The state that belongs to a recovery mark (N1): all of it changes in one edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkEdit {
    /// Everything up to this sequence is in tables and checkpoint; the log is replayed behind it.
    pub m: Seq,
    /// File name of the cemetery checkpoint of m; `None` when no grave was open (D2).
    pub checkpoint: Option<String>,
    /// Namespace id of each logical database.
    pub namespaces: Vec<u64>,
    /// Keys, and keys with an expiry, of each logical database.
    pub counts: Vec<(u64, u64)>,
    /// Dead namespace ids and the sequences of their deaths (N7).
    pub dead: Vec<(u64, Seq)>,
}

/// How a store keeps deletes; fixed when it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum DeleteMode {
    /// Deleted keys are in the cemetery, the tree has live versions only: the FLSM-tree.
    #[default]
    Cemetery = 0,
    /// A delete is a record of its own in memtables and tables, which goes when nothing older is
    /// below it: the ordinary LSM-tree, for comparison.
    Tombstones = 1,
}

impl DeleteMode {
    fn from_u8(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Cemetery),
            1 => Some(Self::Tombstones),
            _ => None,
        }
    }
}

impl std::fmt::Display for DeleteMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cemetery => "cemetery",
            Self::Tombstones => "tombstones",
        })
    }
}

/// A change of the tree, applied in one step.
#[derive(Clone, Debug, Default)]
pub struct VersionEdit {
    pub(super) added: Vec<(usize, Arc<Table>)>,
    pub(super) deleted: Vec<(usize, u64)>,
    pub(super) mark: Option<MarkEdit>,
    pub(super) reserved_seq: Option<Seq>,
    pub(super) deletes: Option<DeleteMode>,
    pub(super) graves_added: Vec<GraveFile>,
    pub(super) graves_deleted: Vec<u64>,
    /// Undo runs are no part of the record: none survives a crash.
    pub(super) undo_added: Vec<UndoRun>,
    pub(super) undo_deleted: Vec<u64>,
}

impl VersionEdit {
    /// An edit that changes nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An edit that moves the recovery mark.
    #[must_use]
    pub fn mark(mark: MarkEdit) -> Self {
        Self { mark: Some(mark), ..Self::default() }
    }

    /// Makes it move the recovery mark, too.
    pub fn set_mark(&mut self, mark: MarkEdit) {
        self.mark = Some(mark);
    }

    /// Adds a table to a level.
    pub fn add(&mut self, level: usize, table: Arc<Table>) {
        self.added.push((level, table));
    }

    /// Takes table `number` out of a level.
    pub fn delete(&mut self, level: usize, number: u64) {
        self.deleted.push((level, number));
    }

    /// Adds a file of a grave run.
    pub fn add_graves(&mut self, file: GraveFile) {
        self.graves_added.push(file);
    }

    /// Takes a file of a grave run out, by its number.
    pub fn delete_graves(&mut self, number: u64) {
        self.graves_deleted.push(number);
    }

    /// Adds an undo run (N6).
    pub fn add_undo(&mut self, run: UndoRun) {
        self.undo_added.push(run);
    }

    /// Takes an undo run out, by the number of its table.
    pub fn delete_undo(&mut self, number: u64) {
        self.undo_deleted.push(number);
    }

    /// The numbers of the undo runs it takes out.
    #[must_use]
    pub fn undo_deleted(&self) -> &[u64] {
        &self.undo_deleted
    }

    /// The undo runs it adds.
    #[must_use]
    pub fn undo_added(&self) -> &[UndoRun] {
        &self.undo_added
    }

    /// Notes that no sequence at or above `seq` was ever handed out (D6).
    pub fn reserve(&mut self, seq: Seq) {
        self.reserved_seq = Some(seq);
    }

    /// Notes how the store keeps deletes.
    pub fn set_deletes(&mut self, deletes: DeleteMode) {
        self.deletes = Some(deletes);
    }

    /// The tables it adds, with their levels.
    #[must_use]
    pub fn added(&self) -> &[(usize, Arc<Table>)] {
        &self.added
    }

    /// The tables it takes out, with their levels.
    #[must_use]
    pub fn deleted(&self) -> &[(usize, u64)] {
        &self.deleted
    }

    /// The record of this edit.
    pub(super) fn encode(&self, next_file: u64) -> Vec<u8> {
        self.record(next_file).encode()
    }

    /// Like `encode`, but with all tables in the tree's own directory: for a copy.
    pub(super) fn encode_in_one_place(&self, next_file: u64) -> Vec<u8> {
        let mut record = self.record(next_file);
        record.added.iter_mut().for_each(|(_, _, place)| *place = None);
        record.encode()
    }

    fn record(&self, next_file: u64) -> Record {
        let added = self.added.iter();
        let added =
            added.map(|(level, table)| (*level, table.meta().clone(), table.place().clone()));
        Record {
            added: added.collect(),
            deleted: self.deleted.clone(),
            mark: self.mark.clone(),
            reserved_seq: self.reserved_seq,
            next_file: Some(next_file),
            deletes: self.deletes,
            graves_added: self
                .graves_added
                .iter()
                .map(|file| (file.run, file.table.meta().clone()))
                .collect(),
            graves_deleted: self.graves_deleted.clone(),
        }
    }
}

/// An edit as stored in the manifest: files are described and not opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) added: Vec<(usize, TableMeta, Place)>,
    pub(super) deleted: Vec<(usize, u64)>,
    pub(super) mark: Option<MarkEdit>,
    pub(super) reserved_seq: Option<Seq>,
    pub(super) next_file: Option<u64>,
    pub(super) deletes: Option<DeleteMode>,
    /// Files of grave runs, each with its run.
    pub(super) graves_added: Vec<(u64, TableMeta)>,
    pub(super) graves_deleted: Vec<u64>,
}

/// Why a record cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordError {
    /// Written by another version of the format.
    Version(u16),
    /// Does not have the shape of an edit; the offset inside the record.
    Malformed(usize),
}

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = EDIT_VERSION.to_le_bytes().to_vec();
        let mut body = Vec::new();
        let mut field = |tag: u8, body: &mut Vec<u8>| {
            out.push(tag);
            out.extend_from_slice(&(body.len() as u32).to_le_bytes());
            out.append(body);
        };
        for (level, number) in &self.deleted {
            body.push(*level as u8);
            body.extend_from_slice(&number.to_le_bytes());
            field(TAG_FILE_DELETED, &mut body);
        }
        for (level, meta, place) in &self.added {
            body.push(*level as u8);
            body.extend_from_slice(&meta.number.to_le_bytes());
            body.extend_from_slice(&meta.file_bytes.to_le_bytes());
            meta.properties.encode(&mut body);
            field(TAG_FILE_ADDED, &mut body);
            if let Some(place) = place {
                body.extend_from_slice(place.as_bytes());
                field(TAG_PLACE, &mut body);
            }
        }
        if let Some(mark) = &self.mark {
            encode_mark(mark, &mut body);
            field(TAG_MARK, &mut body);
        }
        for (tag, number) in
            [(TAG_NEXT_FILE, self.next_file), (TAG_RESERVED_SEQ, self.reserved_seq)]
        {
            if let Some(number) = number {
                body.extend_from_slice(&number.to_le_bytes());
                field(tag, &mut body);
            }
        }
        if let Some(deletes) = self.deletes {
            body.push(deletes as u8);
            field(TAG_DELETES, &mut body);
        }
        for number in &self.graves_deleted {
            body.extend_from_slice(&number.to_le_bytes());
            field(TAG_GRAVES_DELETED, &mut body);
        }
        for (run, meta) in &self.graves_added {
            body.extend_from_slice(&run.to_le_bytes());
            body.extend_from_slice(&meta.number.to_le_bytes());
            body.extend_from_slice(&meta.file_bytes.to_le_bytes());
            meta.properties.encode(&mut body);
            field(TAG_GRAVES_ADDED, &mut body);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader { bytes, at: 0 };
        let record = Self::read(&mut reader);
        let at = reader.at;
        record.map_err(|error| error.unwrap_or(RecordError::Malformed(at)))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Option<RecordError>> {
        let version = u16::from_le_bytes(reader.array().ok_or(None)?);
        if version != EDIT_VERSION {
            return Err(Some(RecordError::Version(version)));
        }
        let mut record = Self::default();
        while reader.at < reader.bytes.len() {
            record.read_field(reader).ok_or(None)?;
        }
        Ok(record)
    }

    fn read_field(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let [tag] = reader.array()?;
        let len = reader.u32()? as usize;
        let mut body = Reader { bytes: reader.take(len)?, at: 0 };
        match tag {
            TAG_FILE_ADDED => {
                let level = body.level()?;
                let (number, file_bytes) = (body.u64()?, body.u64()?);
                let encoded = body.take(len.checked_sub(17)?)?;
                let properties = Arc::new(Properties::decode(encoded)?);
                self.added.push((level, TableMeta { number, file_bytes, properties }, None));
            }
            TAG_FILE_DELETED => self.deleted.push((body.level()?, body.u64()?)),
            TAG_MARK => self.mark = Some(read_mark(&mut body)?),
            TAG_NEXT_FILE => self.next_file = Some(body.u64()?),
            TAG_RESERVED_SEQ => self.reserved_seq = Some(body.u64()?),
            TAG_DELETES => {
                let [number] = body.array()?;
                self.deletes = Some(DeleteMode::from_u8(number)?);
            }
            TAG_PLACE => {
                let name = std::str::from_utf8(body.take(len)?).ok()?;
                let (_, _, place) = self.added.last_mut()?;
                *place = Some(Arc::from(Some(name).filter(|name| is_place_name(name))?));
            }
            TAG_GRAVES_ADDED => {
                let (run, number, file_bytes) = (body.u64()?, body.u64()?, body.u64()?);
                let encoded = body.take(len.checked_sub(24)?)?;
                let properties = Arc::new(Properties::decode(encoded)?);
                self.graves_added.push((run, TableMeta { number, file_bytes, properties }));
            }
            TAG_GRAVES_DELETED => self.graves_deleted.push(body.u64()?),
            _ => return None,
        }
        (body.at == len).then_some(())
    }
}

/// A name that leads into the tree's directory and nowhere else.
fn is_place_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0'])
}

fn encode_mark(mark: &MarkEdit, out: &mut Vec<u8>) {
    out.extend_from_slice(&mark.m.to_le_bytes());
    let name = mark.checkpoint.as_deref().unwrap_or_default();
    out.extend_from_slice(&(name.len() as u32).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&(mark.namespaces.len() as u32).to_le_bytes());
    for id in &mark.namespaces {
        out.extend_from_slice(&id.to_le_bytes());
    }
    for pairs in [&mark.counts, &mark.dead] {
        out.extend_from_slice(&(pairs.len() as u32).to_le_bytes());
        for (a, b) in pairs {
            out.extend_from_slice(&a.to_le_bytes());
            out.extend_from_slice(&b.to_le_bytes());
        }
    }
}

fn read_mark(body: &mut Reader<'_>) -> Option<MarkEdit> {
    let m = body.u64()?;
    let name_len = body.u32()? as usize;
    let name = std::str::from_utf8(body.take(name_len)?).ok()?;
    let checkpoint = (!name.is_empty()).then(|| name.to_owned());
    let ids = body.u32()?;
    let mut namespaces = Vec::new();
    for _ in 0..ids {
        namespaces.push(body.u64()?);
    }
    let (counts, dead) = (body.pairs()?, body.pairs()?);
    Some(MarkEdit { m, checkpoint, namespaces, counts, dead })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn level(&mut self) -> Option<usize> {
        let [level] = self.array()?;
        Some(usize::from(level)).filter(|&level| level < LEVELS)
    }

    /// Grows as it reads: a length that lies ends at the end of the bytes.
    fn pairs(&mut self) -> Option<Vec<(u64, u64)>> {
        let n = self.u32()?;
        let mut pairs = Vec::new();
        for _ in 0..n {
            pairs.push((self.u64()?, self.u64()?));
        }
        Some(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Record {
        let properties = Properties {
            entries: 3,
            distinct_keys: 2,
            min_seq: 4,
            max_seq: 9,
            buried_through: 8,
            tombstones: 2,
            min_key: b"a".as_slice().into(),
            max_key: b"bcd".as_slice().into(),
            ..Properties::default()
        };
        let meta = TableMeta { number: 12, file_bytes: 999, properties: Arc::new(properties) };
        let graves = TableMeta { number: 13, ..meta.clone() };
        let mark = MarkEdit {
            m: 77,
            checkpoint: Some("000013.graves".into()),
            namespaces: vec![0, 1, 900],
            counts: vec![(5, 1), (0, 0)],
            dead: vec![(2, 70)],
        };
        Record {
            added: vec![(0, meta.clone(), Some("fast".into())), (6, meta, None)],
            deleted: vec![(1, 5), (2, 6)],
            mark: Some(mark),
            reserved_seq: Some(1 << 20),
            next_file: Some(14),
            deletes: Some(DeleteMode::Tombstones),
            graves_added: vec![(13, graves)],
            graves_deleted: vec![8, 9],
        }
    }

    #[test]
    fn records_survive_the_trip() {
        for record in [full(), Record::default(), Record { mark: None, ..full() }] {
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn a_cut_record_is_refused_or_shorter_by_whole_fields() {
        let bytes = full().encode();
        for len in 0..bytes.len() {
            if let Ok(record) = Record::decode(&bytes[..len]) {
                assert!(record != full());
            }
        }
    }

    #[test]
    fn unknown_versions_tags_and_levels_are_refused() {
        let mut bytes = full().encode();
        for version in [2, 9] {
            bytes[0] = version;
            let refused = Err(RecordError::Version(version.into()));
            assert_eq!(Record::decode(&bytes), refused);
        }
        assert!(Record::decode(&[3, 0, 99, 0, 0, 0, 0]).is_err());
        assert!(Record::decode(&[3, 0, TAG_PLACE, 1, 0, 0, 0, b'x']).is_err(), "of no table");
        let mut outside = full();
        outside.added[0].2 = Some("../x".into());
        assert!(Record::decode(&outside.encode()).is_err(), "outside the tree's directory");
        let deleted = [&[3, 0, TAG_FILE_DELETED, 9, 0, 0, 0, 7][..], &[0; 8]].concat();
        assert!(Record::decode(&deleted).is_err());
    }
}
