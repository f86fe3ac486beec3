//! The commands as access rules know them: numbered, with their categories. They include Redis commands that this server
//! does not have, so that rules written for Redis are accepted.

use std::collections::HashMap;

/// All categories, in Redis' order.
pub const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Maximum number of commands that rules can distinguish.
pub(super) const COMMANDS_MAX: usize = 1024;

/// One command or subcommand.
#[derive(Debug)]
pub(super) struct Listed {
    /// `container|sub` for a subcommand.
    pub(super) name: &'static str,
    /// Bits by the place in [`CATEGORIES`].
    pub(super) categories: u32,
    /// Numbers of its subcommands.
    pub(super) subcommands: Vec<usize>,
    /// Redis 7.0 has it: it counts when rules are put into words.
    pub(super) is_of_redis: bool,
}

/// All commands.
#[derive(Debug, Default)]
pub struct Catalog {
    commands: Vec<Listed>,
    by_name: HashMap<&'static str, usize>,
}

/// The number of a category, in any case.
#[must_use]
pub fn category(name: &[u8]) -> Option<usize> {
    CATEGORIES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

impl Catalog {
    /// Adds a command with its categories (`@read`), and returns its number; a container precedes its subcommands.
    ///
    /// # Panics
    /// If there are more commands than rules can distinguish: a mistake in the command table.
    pub fn add<'c>(
        &mut self,
        name: &'static str,
        categories: impl Iterator<Item = &'c str>,
        is_of_redis: bool,
    ) -> usize {
        let id = self.commands.len();
        assert!(id < COMMANDS_MAX, "more commands than access rules can tell apart");
        let bits = categories
            .filter_map(|name| category(name.trim_start_matches('@').as_bytes()))
            .fold(0, |bits, nth| bits | 1 << nth);
        self.commands.push(Listed { name, categories: bits, subcommands: Vec::new(), is_of_redis });
        self.by_name.insert(name, id);
        let container = name.split_once('|').and_then(|(container, _)| self.by_name.get(container));
        if let Some(&container) = container {
            self.commands[container].subcommands.push(id);
        }
        id
    }

    /// The number of a command, or of a subcommand as `container|sub`, in any case.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        self.by_name.get(name.as_str()).copied()
    }

    pub(super) fn get(&self, id: usize) -> &Listed {
        &self.commands[id]
    }

    /// All commands by their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &Listed)> {
        self.commands.iter().enumerate()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A few commands with their categories.
    pub(in crate::auth) fn small() -> Catalog {
        let mut catalog = Catalog::default();
        for (name, categories) in [
            ("config", "@slow"),
            ("config|get", "@admin @slow @dangerous"),
            ("config|set", "@admin @slow @dangerous"),
            ("del", "@keyspace @write @slow"),
            ("get", "@read @string @fast"),
            ("mget", "@read @string @fast"),
            ("publish", "@pubsub @fast"),
            ("select", "@fast @connection"),
            ("set", "@write @string @slow"),
        ] {
            catalog.add(name, categories.split(' '), true);
        }
        catalog
    }

    #[test]
    fn commands_are_found_by_their_full_names() {
        let catalog = small();
        assert_eq!(catalog.find(b"GET"), Some(4));
        assert_eq!(catalog.find(b"config|GET"), Some(1));
        assert_eq!(catalog.find(b"get|x"), None);
        assert_eq!(catalog.get(0).subcommands, [1, 2]);
        assert_eq!(category(b"Read"), Some(1));
        assert_eq!(category(b"@read"), None);
    }
}
