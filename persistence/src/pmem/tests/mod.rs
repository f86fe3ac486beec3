//! The pool on simulated memory, and on real files.

mod crashes;
mod damage;
mod files;
mod mapped;
mod rules;
mod space;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;

fn dir() -> &'static Path {
    Path::new("/pmem")
}

fn file(number: usize) -> PathBuf {
    dir().join(pool::file_name(number))
}

/// Slots of a page, files of eight, at most eight files; scanned on this thread.
fn options(pmem: &SimPmem) -> PmemOptions {
    PmemOptions {
        slot_bytes: 4096,
        file_bytes: 8 * 4096,
        initial_bytes: 0,
        max_bytes: 64 * 4096,
        writers_max: 8,
        scan_threads: 1,
        ..PmemOptions::new(pmem.medium(), dir().to_path_buf())
    }
}

/// An operation as it was given, to compare with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Op {
    seq: u64,
    kind: u8,
    flags: u8,
    aux: u64,
    more: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Op {
    fn put(seq: u64, value: &[u8]) -> Self {
        let key = format!("key:{}", seq % 10).into_bytes();
        let value = value.to_vec();
        Self { seq, kind: KIND_PUT, flags: 3, aux: seq * 7, more: false, key, value }
    }

    fn delete(seq: u64) -> Self {
        Self { kind: KIND_DELETE, ..Self::put(seq, b"") }
    }

    fn of(record: Record<'_>) -> Self {
        let Record { seq, kind, flags, aux, more, key, value } = record;
        Self { seq, kind, flags, aux, more, key: key.to_vec(), value: value.to_vec() }
    }

    fn list(&self) -> List {
        if self.kind == KIND_DELETE { List::Graves } else { List::Versions }
    }

    /// As a record, with the key cut in two somewhere.
    fn record(&self) -> NewRecord<'_> {
        let Self { seq, kind, flags, aux, more, .. } = *self;
        let key = self.key.split_at(self.seq as usize % (self.key.len() + 1));
        NewRecord { seq, kind, flags, aux, more, key, value: &self.value }
    }
}

/// One commit of operations, as the engine does it. Answers where their records are.
fn commit(
    pool: &PmemPool,
    writer: &mut Writer,
    arena: &Arc<PmemArena>,
    ops: &[Op],
) -> PmemResult<Vec<PmemPosition>> {
    for list in List::ALL {
        let of_list = ops.iter().filter(|op| op.list() == list);
        let bytes: usize = of_list.map(|op| op.record().encoded_len()).sum();
        if bytes > 0 {
            writer.prepare(arena, list, bytes)?;
        }
    }
    let (first, last) = (ops[0].seq, ops[ops.len() - 1].seq);
    pool.cover(last)?;
    writer.begin(first, last);
    Ok(ops.iter().map(|op| writer.append(op.list(), &op.record())).collect())
}

/// All that was recovered, in order.
fn recovered_ops(recovered: &Recovered) -> Vec<Op> {
    let records = recovered.arenas.iter().flat_map(RecoveredArena::in_order);
    records.map(Op::of).collect()
}
