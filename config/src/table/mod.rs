//! The directive table: every directive of Redis 7.0.15, those that Valkey has beside them, and our own, in groups.

mod cluster;
mod data;
mod engine;
mod network;
mod persistence;
mod replication;
mod system;
mod valkey;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::directive::Directive;
use crate::kind::{Check, Kind};

/// All groups in the order CONFIG GET and CONFIG REWRITE use.
pub const GROUPS: [&[Directive]; 8] = [
    network::TABLE,
    system::TABLE,
    data::TABLE,
    persistence::TABLE,
    replication::TABLE,
    cluster::TABLE,
    valkey::TABLE,
    engine::TABLE,
];

/// File-only directives of Redis that older versions knew: accepted with one argument, ignored.
pub const DEPRECATED: [&str; 3] =
    ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

/// All directives.
pub fn all() -> impl Iterator<Item = &'static Directive> + Clone {
    GROUPS.into_iter().flatten()
}

/// Rows by position, and positions by name and alias.
struct Index {
    rows: Vec<&'static Directive>,
    positions: HashMap<&'static [u8], usize>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let rows: Vec<_> = all().collect();
    let mut positions = HashMap::new();
    for (position, row) in rows.iter().enumerate() {
        for name in [Some(row.name), row.alias].into_iter().flatten() {
            positions.insert(name.as_bytes(), position);
        }
    }
    Index { rows, positions }
});

/// The position of a directive in [`all`], by name or alias in any case.
pub fn position(name: &[u8]) -> Option<usize> {
    INDEX.positions.get(name.to_ascii_lowercase().as_slice()).copied()
}

/// Whether a directive of this name is one of our own.
pub fn is_own(name: &str) -> bool {
    engine::TABLE.iter().any(|directive| directive.name == name)
}

/// Whether Redis has no directive of this name: it is one of our own, or Valkey's.
pub fn is_beyond_redis(name: &str) -> bool {
    is_own(name)
        || valkey::TABLE.iter().any(|directive| directive.name == name)
        || valkey::OTHER_NAMES.contains(&name)
}

/// A directive by name or alias, in any case.
pub fn find(name: &[u8]) -> Option<&'static Directive> {
    find_row(name).map(|(_, row)| row)
}

/// [`position`] and [`find`] in one.
pub fn find_row(name: &[u8]) -> Option<(usize, &'static Directive)> {
    let position = position(name)?;
    INDEX.rows.get(position).map(|row| (position, *row))
}

const INT_MAX: i128 = i32::MAX as i128;
const LONG_MAX: i128 = i64::MAX as i128;
const ULONG_MAX: i128 = u64::MAX as i128;

const fn yes_no(name: &'static str, default: &'static str) -> Directive {
    Directive::new(name, Kind::Bool, default)
}

const fn int(name: &'static str, min: i128, max: i128, default: &'static str) -> Directive {
    Directive::new(name, Kind::Int { min, max }, default)
}

const fn memory(name: &'static str, min: i128, max: i128, default: &'static str) -> Directive {
    Directive::new(name, Kind::Memory { min, max, percent: false }, default)
}

/// A string that is "not set" when empty.
const fn optional(name: &'static str) -> Directive {
    Directive::new(name, Kind::Text { empty_is_none: true, check: anything }, "")
}

/// A string whose empty value is a value.
const fn text(name: &'static str, check: Check, default: &'static str) -> Directive {
    Directive::new(name, Kind::Text { empty_is_none: false, check }, default)
}

const fn choice(
    name: &'static str,
    names: &'static [(&'static str, u8)],
    default: &'static str,
) -> Directive {
    Directive::new(name, Kind::Enum(names), default)
}

const fn special(name: &'static str, kind: Kind, default: &'static str) -> Directive {
    Directive::new(name, kind, default)
}

fn anything(_: &[u8]) -> Result<(), &'static str> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::directive::Class;

    #[test]
    fn names_are_unique_and_lower_case() {
        let mut seen = HashSet::new();
        for name in all().flat_map(|d| [Some(d.name), d.alias]).flatten().chain(DEPRECATED) {
            assert!(seen.insert(name), "{name} twice");
            assert_eq!(name, name.to_ascii_lowercase());
        }
    }

    #[test]
    fn every_own_directive_is_documented_and_every_refusal_has_a_reason() {
        for directive in engine::TABLE {
            assert!(directive.doc.ends_with('.'), "{}", directive.name);
        }
        for directive in all() {
            if let Class::Refused(reason) | Class::NoEffect(reason) = directive.class {
                assert!(reason.len() > 8, "{}", directive.name);
            }
        }
    }

    #[test]
    fn default_file_shows_our_directives_that_can_be_changed() {
        let file = include_str!("../../sexton.conf");
        let shown = |name: &str| file.lines().any(|line| line.split(' ').next() == Some(name));
        for row in engine::TABLE {
            assert_eq!(shown(row.name), row.class == Class::Effective, "{}", row.name);
        }
    }

    #[test]
    fn find_takes_aliases_in_any_case() {
        assert_eq!(find(b"SLAVEOF").unwrap().name, "replicaof");
        assert_eq!(find(b"hash-max-ZIPLIST-value").unwrap().name, "hash-max-listpack-value");
        assert!(find(b"slave").is_none());
    }
}
