//! One table: what it holds against what it says of itself.

use crate::table::{Properties, ReadMode, Table, TableResult, key_hash};
use crate::tree::Source;
use std::path::Path;
use std::sync::Arc;

use super::CheckReport;

/// Checks checksums and order, then counts everything again; answers the number of entries.
pub(super) fn check(table: &Arc<Table>, path: &Path, report: &mut CheckReport) -> TableResult<u64> {
    if let Err(error) = table.verify() {
        report.found(path, error.to_string());
        return Ok(0);
    }
    let stated = table.properties();
    let mut counted = Properties { buried_through: stated.buried_through, ..Properties::default() };
    // Not in the entries, so they cannot be counted again.
    counted.data_bytes = stated.data_bytes;
    let mut last_key: Vec<u8> = Vec::new();
    let mut buried_versions = 0;
    let mut unbound = None;
    let mut unfiltered = None;
    let mut iter = table.iter(ReadMode::Sequential);
    iter.seek(b"")?;
    while iter.valid() {
        let (key, seq) = (iter.key(), iter.seq());
        if counted.entries == 0 || key != last_key {
            if counted.entries == 0 {
                counted.min_key = key.into();
            }
            counted.distinct_keys += 1;
            last_key.clear();
            last_key.extend_from_slice(key);
            buried_versions = 0;
            if !table.may_contain(key_hash(key)) {
                unfiltered.get_or_insert(seq);
            }
        }
        // C3: all members of S at the merge were at or above the claim, so of the versions at or below
        // it only the newest was still seen by anybody.
        if seq <= stated.buried_through {
            buried_versions += 1;
            if buried_versions > 1 {
                unbound.get_or_insert(seq);
            }
        }
        counted.add(key, seq, iter.meta(), iter.value().len());
        iter.next()?;
    }
    counted.max_key = last_key.into();
    let entries = counted.entries;
    if counted != *stated {
        report.found(path, format!("its properties say {stated:?}, its entries are {counted:?}"));
    }
    if let Some(seq) = unfiltered {
        report.found(path, format!("its filter excludes a key that it holds (version {seq})"));
    }
    if let Some(seq) = unbound {
        let claim = stated.buried_through;
        report.found(
            path,
            format!("claims buried_through = {claim}, and holds version {seq} of a key that has a newer one at or below that"),
        );
    }
    Ok(entries)
}
