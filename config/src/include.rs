//! Wildcards of `include` (C: `glob`).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::syntax::glob;

/// Most files one pattern may name.
const MATCHES_MAX: usize = 4096;

/// The files that an `include` names, in byte order. A path without wildcards names itself, whether it exists or not. A
/// pattern without matches names no file, so that an empty `conf.d` is allowed. Wildcards do not match names that start
/// with a dot unless the pattern does.
pub(crate) fn expand(path: &[u8]) -> Vec<PathBuf> {
    if !glob::is_pattern(path) {
        return vec![PathBuf::from(OsStr::from_bytes(path))];
    }
    let root = if path.starts_with(b"/") { "/" } else { "" };
    let mut found = vec![PathBuf::from(root)];
    for part in path.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        for base in found {
            if glob::is_pattern(part) {
                matching_entries(&base, part, &mut next);
            } else {
                let path = base.join(OsStr::from_bytes(part));
                if path.exists() {
                    next.push(path);
                }
            }
        }
        next.truncate(MATCHES_MAX);
        found = next;
    }
    found
}

fn matching_entries(base: &std::path::Path, pattern: &[u8], out: &mut Vec<PathBuf>) {
    let list = if base.as_os_str().is_empty() { std::path::Path::new(".") } else { base };
    // A directory that cannot be read has no matches, as in glob(3).
    let Ok(entries) = fs::read_dir(list) else { return };
    let mut names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    names.sort();
    for name in names {
        let hidden = name.as_bytes().starts_with(b".") && !pattern.starts_with(b".");
        if !hidden && glob::matches(pattern, name.as_bytes(), false) {
            out.push(base.join(name));
        }
    }
}
