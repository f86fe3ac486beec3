//! `tree-device [LEVELS] NAME`: the devices of the tables, by level of the tree.

use std::ops::RangeInclusive;

use crate::device::identifier;

/// Number of the tree's deepest level.
pub const LEVEL_MAX: usize = 6;

/// Endings that the names of its devices must not have.
const RESERVED: [&str; 2] = [".moved", ".old"];

/// One line `tree-device [LEVELS] NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelDevice {
    /// First and last level, as in `0-1` or `3`. Without levels, the device is that of the tree's own directory: of all
    /// levels that no other line names, and of all files that are not tables.
    pub levels: Option<RangeInclusive<usize>>,
    /// Name of the device.
    pub device: String,
}

impl LevelDevice {
    /// Parses the words that follow `tree-device`.
    ///
    /// # Errors
    /// The line's form, for the operator.
    pub fn parse(words: &[Vec<u8>]) -> Result<LevelDevice, String> {
        let usage =
            || format!("tree-device takes [LEVELS] NAME, LEVELS as 0-1 or 3, up to {LEVEL_MAX}");
        let (levels, device) = match words {
            [device] => (None, device),
            [levels, device] => (Some(parse_levels(levels).ok_or_else(usage)?), device),
            _ => return Err(usage()),
        };
        let device = identifier(device)?;
        // While it is moved to another device, further entries of these names may exist beside its place.
        if levels.is_some() && RESERVED.iter().any(|suffix| device.ends_with(suffix)) {
            return Err(format!("a device of levels has a name without {}", RESERVED.join(" or ")));
        }
        Ok(LevelDevice { levels, device })
    }

    /// The words of the line, so that [`LevelDevice::parse`] reads them back.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let levels = self.levels.as_ref().map(|levels| match (levels.start(), levels.end()) {
            (from, to) if from == to => from.to_string(),
            (from, to) => format!("{from}-{to}"),
        });
        levels.into_iter().chain([self.device.clone()]).map(String::into_bytes).collect()
    }

    /// Adds this line to those of a file: one without levels replaces the last such line.
    ///
    /// # Errors
    /// A level that has a device already.
    pub(crate) fn add_to(self, mut before: Vec<LevelDevice>) -> Result<Vec<LevelDevice>, String> {
        if let Some(levels) = &self.levels {
            let named = before.iter().filter_map(|line| line.levels.clone()).flatten();
            if let Some(level) = named.into_iter().find(|level| levels.contains(level)) {
                return Err(format!("level {level} has a device already"));
            }
        } else {
            before.retain(|line| line.levels.is_some());
        }
        before.push(self);
        Ok(before)
    }
}

fn parse_levels(word: &[u8]) -> Option<RangeInclusive<usize>> {
    let text = std::str::from_utf8(word).ok()?;
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let level = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<usize>().ok().filter(|&level| digits && level <= LEVEL_MAX)
    };
    let (from, to) = (level(from)?, level(to)?);
    (from <= to).then_some(from..=to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<LevelDevice, String> {
        LevelDevice::parse(&crate::syntax::split_words(line.as_bytes()).unwrap())
    }

    #[test]
    fn lines_are_read_back() {
        for line in ["disk", "0-1 fast", "6 disk", "0-6 all"] {
            let device = parse(line).unwrap();
            assert_eq!(device.words().join(&b' '), line.as_bytes());
        }
        assert_eq!(parse("2-2 a").unwrap().words(), [b"2".to_vec(), b"a".to_vec()]);
    }

    #[test]
    fn other_forms_are_refused() {
        for line in [
            "", "1-0 a", "7 a", "0-7 a", "x a", "-1 a", "0- a", "+1 a", "0-1 a b", "1 a/b",
            "1 a.old",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_level_has_one_device() {
        let lines = |lines: &[&str]| {
            lines.iter().try_fold(Vec::new(), |before, line| parse(line).unwrap().add_to(before))
        };
        assert!(lines(&["0-1 a", "1-2 b"]).is_err());
        let kept = lines(&["a", "0-1 b", "c", "2-6 b"]).unwrap();
        let kept: Vec<_> = kept.iter().map(|line| line.words().join(&b' ')).collect();
        assert_eq!(kept, [&b"0-1 b"[..], b"c", b"2-6 b"]);
    }
}
