//! Records that are stored on other devices than the segments (`aof-route`): the lines that replace them in a group,
//! and the way back. `FORMAT.md` documents the lines, `docs/rules.md` has the rules R1 to R6.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LogLocation;
use super::annotation::{read_hex, write_hex};
use crate::checksum::crc32c;
use crate::device::{File, Storage, StorageResult};

/// Routes that a log may have.
pub const ROUTES_MAX: usize = 8;
/// What the names of places in the log's directory begin with.
pub(super) const PLACE_PREFIX: &str = "on-";
/// Length of an extent line: a multiple of the alignment of groups, and below the 1024 bytes at which a
/// redis-server stops.
pub(super) const EXTENT_BYTES: usize = 128;
/// Length of a record line.
pub(super) const RECORD_LINE_BYTES: usize = 35;

const EXTENT_TAG: &[u8; 5] = b"#SXE ";
/// What the line begins with that stands for a record in a group: whoever finds one in a file alone has a part of the
/// log only.
pub const RECORD_TAG: &[u8; 5] = b"#SXL ";
const NAME_BYTES_MAX: usize = 64;

/// Records with an argument of at least `least_bytes` are stored in a place of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRoute {
    /// Least length of the argument, in bytes.
    pub least_bytes: u64,
    /// Name of the place: the entry `on-NAME` of the log's directory.
    pub name: String,
}

/// The records of one group in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) route: u8,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) crc: u32,
    pub(super) name: String,
    /// Where the group's first record line is, behind its extent lines.
    pub(super) first_line: u32,
}

impl Extent {
    pub(super) fn of(
        route: usize,
        name: &str,
        offset: u64,
        records: &[u8],
        first_line: u32,
    ) -> Self {
        let (bytes, crc) = (records.len() as u64, crc32c(records));
        Self { route: route as u8, offset, bytes, crc, name: name.to_owned(), first_line }
    }

    /// Writes the line into `line`, of [`EXTENT_BYTES`].
    pub(super) fn encode(&self, line: &mut [u8]) {
        line.fill(b' ');
        line[..5].copy_from_slice(EXTENT_TAG);
        write_hex(&mut line[5..7], u64::from(self.route));
        write_hex(&mut line[8..24], self.offset);
        write_hex(&mut line[25..41], self.bytes);
        write_hex(&mut line[42..50], u64::from(self.crc));
        line[51..51 + self.name.len()].copy_from_slice(self.name.as_bytes());
        write_hex(&mut line[116..124], u64::from(self.first_line));
        line[EXTENT_BYTES - 2..].copy_from_slice(b"\r\n");
    }

    fn decode(line: &[u8]) -> Option<Self> {
        let rest = line.get(..EXTENT_BYTES).filter(|line| line.starts_with(EXTENT_TAG))?;
        let name = rest[51..51 + NAME_BYTES_MAX].trim_ascii_end();
        let name = std::str::from_utf8(name).ok().filter(|name| is_name(name))?;
        Some(Self {
            route: u8::try_from(read_hex(&rest[5..7])?).ok()?,
            offset: read_hex(&rest[8..24])?,
            bytes: read_hex(&rest[25..41])?,
            crc: u32::try_from(read_hex(&rest[42..50])?).ok()?,
            name: name.to_owned(),
            first_line: u32::try_from(read_hex(&rest[116..124])?).ok()?,
        })
    }
}

/// A name that leads into the log's directory and nowhere else.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(['/', '\0'])
}

/// Writes the line that stands for a record of `bytes` bytes, as the last of its group; answers its length.
pub(super) fn write_record_line(out: &mut [u8], route: usize, bytes: usize) -> usize {
    let line = &mut out[..RECORD_LINE_BYTES];
    line.fill(b' ');
    line[..5].copy_from_slice(RECORD_TAG);
    write_hex(&mut line[5..7], route as u64);
    write_hex(&mut line[8..24], bytes as u64);
    write_hex(&mut line[25..33], 0);
    line[33..].copy_from_slice(b"\r\n");
    RECORD_LINE_BYTES
}

/// Says in a record line where the next one is.
pub(super) fn link_record_line(line: &mut [u8], next: u32) {
    write_hex(&mut line[25..33], u64::from(next));
}

/// Route, length of the record, and where the next line is, 0 for nowhere.
fn read_record_line(line: &[u8]) -> Option<(u8, usize, usize)> {
    let rest = line.strip_prefix(RECORD_TAG).filter(|_| line.len() == RECORD_LINE_BYTES)?;
    let number = |digits| usize::try_from(read_hex(digits)?).ok();
    let route = u8::try_from(number(&rest[..2])?).ok()?;
    Some((route, number(&rest[3..19])?, number(&rest[20..28])?))
}

/// The extents at the start of a group's content, and the rest of it.
pub(super) fn split_extents(content: &[u8]) -> (Vec<Extent>, &[u8]) {
    let (mut extents, mut rest) = (Vec::new(), content);
    while let Some(extent) = Extent::decode(rest) {
        extents.push(extent);
        rest = &rest[EXTENT_BYTES..];
    }
    (extents, rest)
}

/// Length of the largest argument of the commands that `parts` are together; of a record that is none, its own.
pub(super) fn largest_argument(parts: &[&[u8]]) -> u64 {
    if parts.iter().find_map(|part| part.first()) != Some(&b'*') {
        return parts.iter().map(|part| part.len() as u64).sum();
    }
    let (mut largest, mut number, mut passed_over) = (0_usize, 0_usize, 0_usize);
    let mut is_length = false;
    for part in parts {
        let mut at = 0;
        while at < part.len() {
            if passed_over > 0 {
                let here = passed_over.min(part.len() - at);
                passed_over -= here;
                at += here;
                continue;
            }
            match part[at] {
                sign @ (b'*' | b'$') => (is_length, number) = (sign == b'$', 0),
                digit @ b'0'..=b'9' => {
                    number = number.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
                }
                b'\n' if is_length => {
                    largest = largest.max(number);
                    passed_over = number.saturating_add(2);
                }
                _ => {}
            }
            at += 1;
        }
    }
    largest as u64
}

/// The part that has `extent`, of segment `number`; `None` where it does not exist, or ends before it.
pub(super) fn open_part(
    storage: &dyn Storage,
    location: &LogLocation,
    number: u64,
    extent: &Extent,
) -> StorageResult<Option<Arc<dyn File>>> {
    let name = location.part_name(number, &extent.name);
    let place = location.place(&extent.name).join(&name);
    let flat = location.dir.join(name);
    let path = if storage.exists(&place)? { place } else { flat };
    if !storage.exists(&path)? {
        return Ok(None);
    }
    let file = storage.open(&path)?;
    let (end, len) = (extent.offset.checked_add(extent.bytes), file.len()?);
    Ok(end.is_some_and(|end| end <= len).then_some(file))
}

/// Reads the records of `extents`, of segment `number`; `None` where one is not there, or not whole (R1).
pub(super) fn read_extents(
    storage: &dyn Storage,
    location: &LogLocation,
    number: u64,
    extents: &[Extent],
) -> StorageResult<Option<Vec<Vec<u8>>>> {
    let mut all = Vec::with_capacity(extents.len());
    for extent in extents {
        let Some(file) = open_part(storage, location, number, extent)? else { return Ok(None) };
        let mut records = vec![0; extent.bytes as usize];
        file.read_exact_at(&mut records, extent.offset)?;
        if crc32c(&records) != extent.crc {
            return Ok(None);
        }
        all.push(records);
    }
    Ok(Some(all))
}

/// The content of a group behind its extent lines, with its records in their places; `None` when lines and extents do
/// not fit. Lines are found by their links alone: what records hold does not matter.
pub(super) fn splice(content: &[u8], extents: &[Extent], records: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut rests: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let all = content.len() + records.iter().map(Vec::len).sum::<usize>();
    let mut spliced = Vec::with_capacity(all);
    let (mut at, mut line_at) = (0, extents.first()?.first_line as usize);
    loop {
        let end = line_at.checked_add(RECORD_LINE_BYTES)?;
        let (route, bytes, next) = read_record_line(content.get(line_at..end)?)?;
        spliced.extend_from_slice(content.get(at..line_at)?);
        let nth = extents.iter().position(|extent| extent.route == route)?;
        let (record, rest) = rests[nth].split_at_checked(bytes)?;
        spliced.extend_from_slice(record);
        rests[nth] = rest;
        at = end;
        if next == 0 {
            break;
        }
        line_at = next;
    }
    spliced.extend_from_slice(&content[at..]);
    rests.iter().all(|rest| rest.is_empty()).then_some(spliced)
}

/// All parts that are there, each with the number of its segment: in the places, and in `location` itself, where
/// a restore puts them.
pub(super) fn parts(
    storage: &dyn Storage,
    location: &LogLocation,
) -> StorageResult<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for name in storage.list(&location.dir)? {
        let path = location.dir.join(&name);
        if let Some(number) = location.part_number(&name) {
            found.push((number, path));
        } else if name.starts_with(PLACE_PREFIX) {
            let parts = storage.list(&path)?.into_iter();
            let parts = parts.filter_map(|name| Some((location.part_number(&name)?, name)));
            found.extend(parts.map(|(number, name)| (number, path.join(name))));
        }
    }
    Ok(found)
}

/// Removes the parts of the segments that `is_gone` names.
pub(super) fn remove_parts(
    storage: &dyn Storage,
    location: &LogLocation,
    is_gone: impl Fn(u64) -> bool,
) -> StorageResult<()> {
    for (_, path) in parts(storage, location)?.iter().filter(|(number, _)| is_gone(*number)) {
        storage.remove(path)?;
    }
    Ok(())
}

/// Syncs the parts of the segments that `counts` names.
pub(super) fn sync_parts(
    storage: &dyn Storage,
    location: &LogLocation,
    counts: impl Fn(u64) -> bool,
) -> StorageResult<()> {
    for (_, path) in parts(storage, location)?.iter().filter(|(number, _)| counts(*number)) {
        storage.open(path)?.sync_data()?;
    }
    Ok(())
}

/// File name of a part's path.
pub(super) fn file_name(path: &Path) -> &Path {
    path.file_name().map_or(path, Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_read_as_they_were_written() {
        let mut lines = vec![0; 2 * EXTENT_BYTES];
        let names = ["a", &"n".repeat(NAME_BYTES_MAX)];
        let written: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(route, name)| Extent::of(route, name, u64::MAX - 7, b"records", 77))
            .collect();
        for (extent, line) in written.iter().zip(lines.chunks_mut(EXTENT_BYTES)) {
            extent.encode(line);
            assert!(line.ends_with(b"\r\n") && !line[..126].contains(&b'\n'), "one comment line");
        }
        lines.extend_from_slice(b"*1\r\n");
        let (extents, rest) = split_extents(&lines);
        assert_eq!((extents, rest), (written, &b"*1\r\n"[..]));
        let outside = Extent::of(0, "../x", 0, b"", 0);
        outside.encode(&mut lines[..EXTENT_BYTES]);
        assert!(split_extents(&lines).0.is_empty(), "outside the log's directory");
    }

    #[test]
    fn the_largest_argument_is_found_wherever_the_parts_are_cut() {
        let commands =
            b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\n$99\r\n*3\r\n$77\r\n*2\r\n$3\r\nDEL\r\n$0\r\n\r\n";
        for cut in 0..=commands.len() {
            let (a, b) = commands.split_at(cut);
            assert_eq!(largest_argument(&[a, b]), 12, "what a value holds does not count: {cut}");
        }
        assert_eq!(largest_argument(&[b"*1\r\n$4\r\nPING\r\n"]), 4);
    }

    #[test]
    fn records_come_back_to_their_places_or_not_at_all() {
        let (ping, get) = (&b"*1\r\n$4\r\nPING\r\n"[..], &b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"[..]);
        let mut line = [0; RECORD_LINE_BYTES];
        write_record_line(&mut line, 3, get.len());
        // A value that looks like a line is a value, and what is no command does not matter.
        let value = [&b"*2\r\n$3\r\nSET\r\n$35\r\n"[..], &line, b"\r\n*x"].concat();
        let second = (ping.len() + RECORD_LINE_BYTES + value.len()) as u32;
        let mut content = [ping, &line, &value, &line, b"end"].concat();
        link_record_line(&mut content[ping.len()..], second);
        let records = get.repeat(2);
        let extent = |route, first_line| [Extent::of(route, "a", 0, &records, first_line)];
        let first = ping.len() as u32;
        let splice = |content: &[u8], extents: &[Extent], records: &Vec<u8>| {
            splice(content, extents, std::slice::from_ref(records))
        };
        let spliced = splice(&content, &extent(3, first), &records);
        assert_eq!(spliced, Some([ping, get, &value, get, b"end"].concat()));
        assert_eq!(splice(&content, &extent(3, first), &get.to_vec()), None, "too few");
        assert_eq!(splice(&content, &extent(3, second), &records), None, "too many");
        assert_eq!(splice(&content, &extent(2, first), &records), None, "another route");
        assert_eq!(splice(&content, &extent(3, first + 1), &records), None, "no line there");
        assert_eq!(splice(&content, &extent(3, u32::MAX), &records), None, "nor anything");
    }
}
