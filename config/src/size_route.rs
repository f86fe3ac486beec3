//! `aof-route BYTES NAME ...`: devices of the log's records, by the size of their values.

use crate::device::identifier;
use crate::syntax::number::parse_memory;

/// Routes that a log may have.
pub const ROUTES_MAX: usize = 8;
/// Endings that the names of its devices must not have, as those of levels of the tree.
const RESERVED: [&str; 2] = [".moved", ".old"];

/// One pair of `aof-route`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeRoute {
    /// Records with an argument of at least this many bytes use this route, unless the next route applies.
    pub least_bytes: u64,
    /// Name of the device.
    pub device: String,
}

impl SizeRoute {
    /// Parses the words that follow `aof-route`; an empty list means none.
    ///
    /// # Errors
    /// The line's form, for the operator.
    pub fn parse_all(words: &[Vec<u8>]) -> Result<Vec<SizeRoute>, String> {
        if words.iter().all(Vec::is_empty) {
            return Ok(Vec::new());
        }
        if !words.len().is_multiple_of(2) || words.len() > 2 * ROUTES_MAX {
            return Err(format!("aof-route takes BYTES NAME, up to {ROUTES_MAX} times"));
        }
        let mut routes: Vec<SizeRoute> = Vec::new();
        for pair in words.chunks(2) {
            let least_bytes = parse_memory(&pair[0]).ok_or("aof-route: BYTES is no size")?;
            let device = identifier(&pair[1])?;
            if RESERVED.iter().any(|suffix| device.ends_with(suffix)) {
                let reserved = RESERVED.join(" or ");
                return Err(format!("a device of aof-route has a name without {reserved}"));
            }
            if routes.last().is_some_and(|last| last.least_bytes >= least_bytes) {
                return Err("aof-route: sizes must rise".into());
            }
            if routes.iter().any(|route| route.device == device) {
                return Err(format!("aof-route: device {device} has a size already"));
            }
            routes.push(SizeRoute { least_bytes, device });
        }
        Ok(routes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Vec<SizeRoute>, String> {
        SizeRoute::parse_all(&crate::syntax::split_words(line.as_bytes()).unwrap())
    }

    #[test]
    fn pairs_are_read() {
        let routes = parse("512 fast 4kb disk").unwrap();
        let routes: Vec<_> = routes.iter().map(|r| (r.least_bytes, r.device.as_str())).collect();
        assert_eq!(routes, [(512, "fast"), (4096, "disk")]);
        assert!(parse("\"\"").unwrap().is_empty());
        assert_eq!(parse("0 all").unwrap()[0].least_bytes, 0);
    }

    #[test]
    fn other_forms_are_refused() {
        let many: Vec<_> = (1..=9).map(|n| format!("{n} d{n}")).collect();
        for line in [
            "512",
            "fast 512",
            "4kb a 512 b",
            "1 a 1 b",
            "1 a 2 a",
            "1 a/b",
            "1 a.old",
            &many.join(" "),
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
