//! The AOF manifest: Redis' list of the files that make up the log.

use std::fmt::Write;

use super::{LogError, LogLocation};
use crate::device::Storage;

/// The base that does not exist: once log was retired, a redis-server must refuse to load the
/// rest instead of serving a fraction of the data (N4).
const ABSENT_BASE: &str = "run-BGREWRITEAOF-first.rdb";
/// More than any log has segments; a longer file is not ours.
const LISTING_BYTES_MAX: u64 = 16 << 20;

/// The line that tells a manifest with a base of ours from one that Redis wrote: the base holds
/// everything up to this sequence (16 hex digits).
const BASE_MARK: &str = "#SXB ";

/// The line with the secret of the log, 16 hex digits: what proves that an annotation is the log's own (N8).
const SECRET_MARK: &str = "#SXK ";

/// A base: a snapshot file that, with the segments behind it, is the whole data (N4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) number: u64,
    /// Last sequence it holds; the first listed segment starts behind it.
    pub(super) through_seq: u64,
}

/// Content of the AOF manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// The base, while the files alone are the whole data for any Redis.
    pub(super) base: Option<Base>,
    /// Numbers of the segments, ascending.
    pub(super) segments: Vec<u64>,
    /// Log was retired, so the files alone are not the whole data.
    pub(super) incomplete: bool,
    /// What clients cannot know; `None` in a log of before there was one.
    pub(super) secret: Option<u64>,
}

impl Listing {
    /// Above every number listed.
    pub(super) fn next_number(&self) -> u64 {
        let segment = self.segments.last().copied();
        segment.max(self.base.map(|base| base.number)).map_or(1, |number| number + 1)
    }

    fn encode(&self, location: &LogLocation) -> String {
        let mut text = String::new();
        if let Some(base) = self.base {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{BASE_MARK}{:016x}", base.through_seq);
            push_line(&mut text, &location.base_name(base.number), base.number, 'b');
        } else if self.incomplete {
            push_line(&mut text, ABSENT_BASE, 1, 'b');
        }
        for number in &self.segments {
            push_line(&mut text, &location.segment_name(*number), *number, 'i');
        }
        if let Some(secret) = self.secret {
            let _ = writeln!(text, "{SECRET_MARK}{secret:016x}");
        }
        text
    }

    fn decode(text: &str, location: &LogLocation) -> Result<Self, LogError> {
        let path = location.manifest_path();
        let mut listing = Self::default();
        let mut through_seq = None;
        for (index, line) in text.lines().enumerate() {
            if let Some(digits) = line.strip_prefix(BASE_MARK) {
                through_seq = u64::from_str_radix(digits, 16).ok();
            }
            if let Some(digits) = line.strip_prefix(SECRET_MARK) {
                listing.secret = u64::from_str_radix(digits, 16).ok();
            }
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            let bad =
                |reason| LogError::BadManifest { file: path.clone(), line: index + 1, reason };
            let (name, number, kind) = parse_line(line).ok_or_else(|| bad("not understood"))?;
            if kind == 'b' && name == ABSENT_BASE {
                listing.incomplete = true;
                continue;
            }
            if let Some(through_seq) = through_seq
                && kind == 'b'
                && name == location.base_name(number)
                && listing.base.is_none()
                && listing.segments.is_empty()
            {
                // Behind the base there is a part of the log only.
                listing.incomplete = true;
                listing.base = Some(Base { number, through_seq });
                continue;
            }
            if kind != 'i' || name != location.segment_name(number) {
                let file = location.dir.join(name);
                return Err(LogError::Foreign { file, manifest: path });
            }
            if listing.segments.last().is_some_and(|last| *last >= number) {
                return Err(bad("numbers must rise"));
            }
            listing.segments.push(number);
        }
        Ok(listing)
    }

    /// Reads the AOF manifest; `None` when there is none.
    pub(super) fn load(
        storage: &dyn Storage,
        location: &LogLocation,
    ) -> Result<Option<Self>, LogError> {
        let path = location.manifest_path();
        if !storage.exists(&path)? {
            return Ok(None);
        }
        let file = storage.open(&path)?;
        let length = file.len()?;
        let bad = |reason| LogError::BadManifest { file: path.clone(), line: 0, reason };
        if length > LISTING_BYTES_MAX {
            return Err(bad("too long"));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let text = String::from_utf8(bytes).map_err(|_| bad("not text"))?;
        Self::decode(&text, location).map(Some)
    }

    /// Replaces the AOF manifest atomically and durably, together with all other changes of names
    /// in the directory so far.
    pub(super) fn store(
        &self,
        storage: &dyn Storage,
        location: &LogLocation,
    ) -> Result<(), LogError> {
        let path = location.manifest_path();
        let temp = location.new_manifest_path();
        let file = storage.create(&temp)?;
        file.write_all_at(self.encode(location).as_bytes(), 0)?;
        file.sync_data()?;
        // The files listed must be durable under their names before the list is.
        storage.sync_dir(&location.dir)?;
        storage.rename(&temp, &path)?;
        storage.sync_dir(&location.dir)?;
        Ok(())
    }
}

fn push_line(text: &mut String, name: &str, number: u64, kind: char) {
    text.push_str("file ");
    if name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\')) {
        text.push_str(name);
    } else {
        text.push('"');
        for character in name.chars() {
            if matches!(character, '"' | '\\') {
                text.push('\\');
            }
            text.push(character);
        }
        text.push('"');
    }
    // Writing to a String cannot fail.
    let _ = writeln!(text, " seq {number} type {kind}");
}

fn parse_line(line: &str) -> Option<(String, u64, char)> {
    let rest = line.strip_prefix("file ")?;
    let (name, rest) = if let Some(quoted) = rest.strip_prefix('"') {
        let mut name = String::new();
        let mut characters = quoted.char_indices();
        loop {
            match characters.next()? {
                (at, '"') => break (name, &quoted[at + 1..]),
                (_, '\\') => name.push(characters.next()?.1),
                (_, character) => name.push(character),
            }
        }
    } else {
        let (name, _) = rest.split_once(' ')?;
        (name.to_owned(), &rest[name.len()..])
    };
    let mut words = rest.split_ascii_whitespace();
    let (Some("seq"), number) = (words.next(), words.next()?.parse().ok()?) else { return None };
    let (Some("type"), kind) = (words.next(), words.next()?) else { return None };
    let mut kinds = kind.chars();
    Some((name, number, kinds.next()?)).filter(|_| kinds.next().is_none() && words.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn location(file_name: &str) -> LogLocation {
        LogLocation { dir: PathBuf::from("/d"), file_name: file_name.to_owned() }
    }

    #[test]
    fn is_read_as_it_was_written() {
        for name in ["appendonly.aof", "with blank", "quo\"te\\"] {
            for base in [None, Some(Base { number: 2, through_seq: u64::MAX })] {
                let incomplete = base.is_some() || name.len() > 10;
                let secret = base.map(|base| base.through_seq / 3);
                let listing = Listing { segments: vec![3, 4, 17], incomplete, base, secret };
                let text = listing.encode(&location(name));
                assert_eq!(Listing::decode(&text, &location(name)).expect("own text"), listing);
            }
        }
        let base = Some(Base { number: 7, through_seq: 0x1f });
        let listing = Listing { segments: vec![8], incomplete: true, base, secret: Some(0xbed) };
        assert_eq!(
            listing.encode(&location("a.aof")),
            "#SXB 000000000000001f\nfile a.aof.7.base.rdb seq 7 type b\n\
             file a.aof.8.incr.aof seq 8 type i\n#SXK 0000000000000bed\n"
        );
        let listing = Listing { segments: vec![2], incomplete: true, ..Listing::default() };
        assert_eq!(
            listing.encode(&location("a.aof")),
            "file run-BGREWRITEAOF-first.rdb seq 1 type b\nfile a.aof.2.incr.aof seq 2 type i\n"
        );
    }

    #[test]
    fn what_redis_wrote_is_foreign() {
        let here = location("appendonly.aof");
        let of_redis = "file appendonly.aof.1.base.rdb seq 1 type b\n\
                        file appendonly.aof.1.incr.aof seq 1 type i\n";
        assert!(matches!(Listing::decode(of_redis, &here), Err(LogError::Foreign { .. })));
        for bad in [
            "file appendonly.aof.1.incr.aof seq x type i",
            "file appendonly.aof.1.incr.aof seq 1",
            "file appendonly.aof.1.incr.aof seq 1 type i more",
            "file \"appendonly.aof.1.incr.aof seq 1 type i",
            "nonsense",
        ] {
            let result = Listing::decode(bad, &here);
            assert!(matches!(result, Err(LogError::BadManifest { line: 1, .. })), "{bad}");
        }
        let falling = "file appendonly.aof.2.incr.aof seq 2 type i\n\
                       file appendonly.aof.2.incr.aof seq 2 type i\n";
        assert!(matches!(
            Listing::decode(falling, &here),
            Err(LogError::BadManifest { line: 2, .. })
        ));
    }
}
