//! The grave runs: as tables, and as what they are.

use super::{CheckOptions, CheckReport};
use crate::table::Table;
use crate::tree::{Recovered, graves_name};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Checks each file of a run; all of them when none has a fault that would make answers of theirs useless.
pub(super) fn check(
    options: &CheckOptions,
    dir: &Path,
    recovered: &Recovered,
    report: &mut CheckReport,
) -> Option<Vec<Arc<Table>>> {
    let before = report.findings.len();
    let mut files: BTreeMap<u64, Vec<Arc<Table>>> = BTreeMap::new();
    for (&number, (run, meta)) in &recovered.graves {
        let path = dir.join(graves_name(number));
        let opened = options.storage.open_unbuffered(&path).map_err(Into::into);
        let table = match opened.and_then(|file| Table::open(file, number, None)) {
            Ok(table) => Arc::new(table),
            Err(error) => {
                report.found(&path, error.to_string());
                continue;
            }
        };
        if table.meta() != meta {
            let (got, want) = (table.meta(), meta);
            report.found(&path, format!("the manifest describes {want:?}, it is {got:?}"));
        }
        match super::table::check(&table, &path, report) {
            Ok(graves) => report.graves += graves,
            Err(error) => report.found(&path, error.to_string()),
        }
        let p = table.properties();
        if p.tombstones != p.entries || p.value_bytes != 0 {
            report.found(&path, "holds entries that are no graves");
        }
        if p.max_seq > report.mark {
            let (max, m) = (p.max_seq, report.mark);
            report.found(&path, format!("holds a grave of {max}, above the mark {m} (N1)"));
        }
        report.grave_files += 1;
        files.entry(*run).or_default().push(table);
    }
    for (run, tables) in &mut files {
        tables.sort_by(|a, b| a.properties().min_key.cmp(&b.properties().min_key));
        let overlap =
            |pair: &[Arc<Table>]| pair[0].properties().max_key >= pair[1].properties().min_key;
        if tables.windows(2).any(overlap) {
            report.found(dir, format!("files of the grave run {run} overlap"));
        }
    }
    (report.findings.len() == before).then(|| files.into_values().flatten().collect())
}
