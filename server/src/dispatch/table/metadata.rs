//! Metadata of commands: `commands.txt`, parsed on demand.
//!
//! Arity, flags and keys are read once, when the table is built. Documentation remains text until
//! it is requested.

use super::Flags;
use crate::dispatch::KeyRange;

/// The embedded file; see its head for the format.
const FILE: &str = include_str!("commands.txt");

/// The commands that Redis does not have.
const OWN_FILE: &str = include_str!("own_commands.txt");

/// One command's block of the file.
#[derive(Clone, Copy, Debug)]
pub struct Metadata {
    /// Name in full, `container|sub` for subcommands.
    pub name: &'static str,
    lines: &'static str,
}

impl Metadata {
    /// All blocks, in the file's order: a container precedes its subcommands.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let blocks = |file: &'static str| file.split("\n@").skip(1);
        blocks(FILE).chain(blocks(OWN_FILE)).map(|block| {
            let (name, lines) = block.split_once('\n').unwrap_or((block, ""));
            Self { name, lines }
        })
    }

    /// The rest of the first line that starts with `label`.
    #[must_use]
    pub fn field(&self, label: &str) -> Option<&'static str> {
        self.fields(label).next()
    }

    /// The rest of each line that starts with `label`.
    pub fn fields<'m>(
        &self,
        label: &'m str,
    ) -> impl Iterator<Item = &'static str> + Clone + use<'m> {
        self.lines.lines().filter_map(move |line| {
            line.strip_prefix(label).and_then(|rest| rest.strip_prefix(' '))
        })
    }

    /// The words after `label`; none if the line is missing.
    pub fn words<'m>(
        &self,
        label: &'m str,
    ) -> impl Iterator<Item = &'static str> + Clone + use<'m> {
        self.fields(label).flat_map(str::split_ascii_whitespace)
    }

    /// Argument lines with their depth.
    pub fn arguments(&self) -> impl Iterator<Item = (usize, &'static str)> {
        self.lines.lines().filter_map(|line| {
            let text = line.trim_start_matches(' ');
            Some((line.len() - text.len(), text.strip_prefix("arg ")?))
        })
    }

    /// True for what redis-server 7.0 has, too.
    pub(super) fn is_of_redis_7_0(&self) -> bool {
        let is_newer = self.field("since").is_some_and(|version| version.starts_with("7.2"));
        !is_newer && !OWN_FILE.contains(&format!("\n@{}\n", self.name))
    }

    /// Number of arguments, the command's name included; negative: at least that many.
    pub(super) fn arity(&self) -> i32 {
        self.field("arity").and_then(|text| text.parse().ok()).unwrap_or(-1)
    }

    pub(super) fn flags(&self) -> Flags {
        self.words("flags").filter_map(Flags::named).fold(Flags::default(), Flags::union)
    }

    pub(super) fn keys(&self) -> KeyRange {
        let mut numbers = self.words("keys").map(|word| word.parse::<isize>().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        KeyRange { first: next().unsigned_abs(), last: next(), step: next().unsigned_abs() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_known_flags_and_an_arity() {
        let mut blocks = 0;
        for metadata in Metadata::all() {
            blocks += 1;
            for flag in metadata.words("flags") {
                assert!(Flags::named(flag).is_some(), "{}: unknown flag {flag}", metadata.name);
            }
            let arity: i32 = metadata.field("arity").unwrap().parse().unwrap();
            assert_ne!(arity, 0, "{}", metadata.name);
        }
        let lines = FILE.lines().chain(OWN_FILE.lines());
        assert_eq!(blocks, lines.filter(|line| line.starts_with('@')).count());
        assert!(blocks > 300);
    }

    #[test]
    fn reads_one_block() {
        let mset = Metadata::all().find(|m| m.name == "mset").unwrap();
        assert_eq!(mset.arity(), -3);
        assert!(mset.flags().contains(Flags::WRITE.union(Flags::DENYOOM)));
        assert!(!mset.flags().intersects(Flags::READONLY));
        assert_eq!(mset.keys(), KeyRange { first: 1, last: -1, step: 2 });
        let depths: Vec<usize> = mset.arguments().map(|(depth, _)| depth).collect();
        assert_eq!(depths, [0, 1, 1]);
    }
}
