//! Finds the keys of a request by the key specifications of its command.

use super::key_spec::KeyError;
use super::{CommandSpec, Flags};
use crate::auth::KeyRights;
use crate::dispatch::Args;

/// One key argument and its use by the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// Index among the arguments; the command's name is 0.
    pub index: usize,
    /// Redis' key flags, blank separated (`RW access update`).
    pub flags: &'static str,
    /// What a user must be allowed to do with it: what `key_rights` says of the flags.
    pub rights: KeyRights,
}

impl KeyUse {
    /// The uses of keys that are found out with every request.
    const READ: Self = Self { index: 1, flags: "RO access", rights: KeyRights::READ };
    const CHANGE: Self = Self { index: 1, flags: "RW access update", rights: KeyRights::ALL };
    const OVERWRITE: Self = Self { index: 1, flags: "OW update", rights: KeyRights::WRITE };

    /// The same use of another argument.
    const fn at(self, index: usize) -> Self {
        Self { index, ..self }
    }
}

/// The keys of a request, in the order of the command's key specifications.
///
/// # Errors
/// [`KeyError`] if a specification cannot be followed; Redis then answers that the arguments are
/// invalid.
pub fn key_positions(spec: &CommandSpec, args: Args<'_>) -> Result<Vec<KeyUse>, KeyError> {
    if let Some(key) = decided_use(spec, args) {
        return Ok(vec![key]);
    }
    if matches!(spec.name, "sort" | "sort_ro") {
        return Ok(sort_keys(spec, args));
    }
    if spec.name == "migrate" {
        return Ok(migrated_keys(args));
    }
    let mut keys = Vec::new();
    for named in &spec.key_specs {
        let (flags, rights) = (named.flags, named.rights);
        if let Some((first, last, step)) = named.follow(args)? {
            keys.extend((first..=last).step_by(step).map(|index| KeyUse { index, flags, rights }));
        } else {
            // A fixed number of arguments was checked before; the rest is the command's own business.
            debug_assert!(spec.arity < 0, "key specification of {} is beyond its arity", spec.name);
        }
    }
    add_last_store(spec, args, &mut keys);
    Ok(keys)
}

/// The only key of the commands whose other arguments decide about its use.
#[inline]
pub(in crate::dispatch) fn decided_use(spec: &CommandSpec, args: Args<'_>) -> Option<KeyUse> {
    Some(match spec.name {
        "set" if args.from(3).any(|arg| arg.eq_ignore_ascii_case(b"get")) => KeyUse::CHANGE,
        "set" => KeyUse::OVERWRITE,
        "bitfield" => bit_field_use(args),
        _ => return None,
    })
}

/// The keys that a command reads to store what it makes of them; MOVE deletes that one, too.
#[must_use]
pub fn sources<'a>(spec: &CommandSpec, args: Args<'a>) -> Vec<&'a [u8]> {
    let mut keys = key_positions(spec, args).unwrap_or_default();
    keys.retain(|key| key.flags.contains("access"));
    keys.into_iter().map(|key| args.get(key.index)).collect()
}

/// True of a request that stores something: one that reads all of its keys does not, whatever its command may do.
#[must_use]
pub fn stores(spec: &CommandSpec, args: Args<'_>) -> bool {
    let keys = key_positions(spec, args).unwrap_or_default();
    spec.flags.contains(Flags::WRITE) && keys.iter().any(|key| !key.flags.starts_with("RO"))
}

/// The destination of GEORADIUS and GEORADIUSBYMEMBER is the key named by the last of several STORE and STOREDIST; their
/// key specifications describe the first ones.
fn add_last_store(spec: &CommandSpec, args: Args<'_>, keys: &mut Vec<KeyUse>) {
    if !matches!(spec.name, "georadius" | "georadiusbymember") {
        return;
    }
    let names_store = |at: &usize| {
        let word = args.get(*at);
        word.eq_ignore_ascii_case(b"store") || word.eq_ignore_ascii_case(b"storedist")
    };
    for at in (5..args.len().saturating_sub(1)).filter(names_store) {
        if keys.iter().all(|key| key.index != at + 1) {
            keys.push(KeyUse::OVERWRITE.at(at + 1));
        }
    }
}

/// BITFIELD's use of its key: it only reads if all operations are GET. Invalid requests count as changes, as in
/// Redis.
fn bit_field_use(args: Args<'_>) -> KeyUse {
    let mut at = 2;
    while at < args.len() {
        let behind = args.len() - at - 1;
        at += match args.get(at).to_ascii_lowercase().as_slice() {
            b"get" if behind >= 2 => 3,
            b"overflow" if behind >= 1 => 2,
            _ => return KeyUse::CHANGE,
        };
    }
    KeyUse::READ
}

/// Source and destination of SORT, whose key specifications leave the destination open. Of several destinations the
/// last one counts, and operands of other options do not count as destinations, as in Redis.
fn sort_keys(spec: &CommandSpec, args: Args<'_>) -> Vec<KeyUse> {
    let mut keys = vec![KeyUse::READ];
    let mut at = 2;
    while spec.name == "sort" && at < args.len() {
        match args.get(at).to_ascii_lowercase().as_slice() {
            b"limit" => at += 2,
            b"get" | b"by" => at += 1,
            b"store" if at + 1 < args.len() => {
                keys.truncate(1);
                keys.push(KeyUse::OVERWRITE.at(at + 1));
            }
            _ => {}
        }
        at += 1;
    }
    keys
}

/// The keys of MIGRATE: the third argument, or those behind KEYS, which is no key where another option has it as its operand.
fn migrated_keys(args: Args<'_>) -> Vec<KeyUse> {
    let (mut keys, mut at) = (3..4, 6);
    while at < args.len() {
        at += match args.get(at).to_ascii_lowercase().as_slice() {
            // Both are an error.
            b"keys" if !args.get(3).is_empty() => return Vec::new(),
            b"keys" => {
                keys = at + 1..args.len();
                break;
            }
            b"auth" => 2,
            b"auth2" => 3,
            _ => 1,
        };
    }
    keys.map(|index| KeyUse { flags: "RW access delete", ..KeyUse::CHANGE.at(index) }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::flags::key_rights;
    use super::super::{Binding, Metadata};
    use super::*;
    use crate::dispatch::{CommandResult, Ctx};

    fn nothing(_ctx: &mut Ctx<'_, '_>) -> CommandResult {
        Ok(())
    }

    fn keys(request: &str) -> Result<Vec<usize>, KeyError> {
        let mut ranges = Vec::new();
        let mut at = 0;
        for word in request.split(' ') {
            ranges.push((at as u32, (at + word.len()) as u32));
            at += word.len() + 1;
        }
        let args = Args::new(request.as_bytes(), &ranges);
        let name = request.split(' ').next().unwrap();
        let metadata = Metadata::all().find(|m| m.name == name).unwrap();
        let spec = CommandSpec::new(&Binding::local("x", nothing), metadata);
        Ok(key_positions(&spec, args)?.into_iter().map(|key| key.index).collect())
    }

    #[test]
    fn follows_ranges() {
        assert_eq!(keys("get a"), Ok(vec![1]));
        assert_eq!(keys("mset a 1 b 2"), Ok(vec![1, 3]));
        assert_eq!(keys("del a b c"), Ok(vec![1, 2, 3]));
        assert_eq!(keys("blpop a b 0"), Ok(vec![1, 2]));
    }

    #[test]
    fn follows_counts_and_keywords() {
        assert_eq!(keys("eval s 2 a b c"), Ok(vec![3, 4]));
        assert_eq!(keys("eval s 0 c"), Ok(vec![]));
        assert_eq!(keys("eval s many a"), Err(KeyError));
        assert_eq!(keys("zunionstore d 2 a b"), Ok(vec![1, 3, 4]));
        assert_eq!(keys("xread count 1 streams a b 0 0"), Ok(vec![4, 5]));
        assert_eq!(keys("georadius k 0 0 1 m store d"), Ok(vec![1, 7]));
        assert_eq!(keys("georadius k 0 0 1 m store d store e"), Ok(vec![1, 7, 9]));
        assert_eq!(keys("georadiusbymember k m 1 m storedist e"), Ok(vec![1, 6]));
    }

    #[test]
    fn bit_fields_are_only_read_by_get() {
        let found = |request: &str| {
            let (bytes, ranges) = crate::resp::pack(request.split(' ').map(str::as_bytes));
            bit_field_use(Args::new(&bytes, &ranges))
        };
        assert_eq!(found("bitfield k"), KeyUse::READ);
        assert_eq!(found("bitfield k get u8 0 OVERFLOW sat GET u4 1"), KeyUse::READ);
        assert_eq!(found("bitfield k get u8 0 set u8 0 1"), KeyUse::CHANGE);
        assert_eq!(found("bitfield k get u8"), KeyUse::CHANGE);
    }

    #[test]
    fn rights_are_those_of_the_flags() {
        let (bytes, ranges) = crate::resp::pack("migrate h 1 k 0 5".split(' ').map(str::as_bytes));
        let migrated = migrated_keys(Args::new(&bytes, &ranges))[0];
        for key in [KeyUse::READ, KeyUse::CHANGE, KeyUse::OVERWRITE, migrated] {
            assert_eq!(key.rights, key_rights(key.flags), "{key:?}");
        }
    }

    #[test]
    fn unknown_positions_are_an_error() {
        assert_eq!(keys("eval s many a"), Err(KeyError));
    }

    #[test]
    fn sort_names_its_source_and_its_last_destination() {
        assert_eq!(keys("sort k by w_* store d"), Ok(vec![1, 5]));
        assert_eq!(keys("sort k store a store b"), Ok(vec![1, 5]));
        assert_eq!(keys("sort k by store get store limit store 2 alpha"), Ok(vec![1]));
        assert_eq!(keys("sort k store"), Ok(vec![1]));
        assert_eq!(keys("sort_ro k store d"), Ok(vec![1]));
    }

    #[test]
    fn keys_of_migrate_stand_behind_its_options() {
        assert_eq!(keys("migrate h 1 k 0 5"), Ok(vec![3]));
        assert_eq!(keys("migrate h 1 k 0 5 COPY AUTH keys"), Ok(vec![3]));
        assert_eq!(keys("migrate h 1  0 5 AUTH2 KEYS KEYS keys a b"), Ok(vec![10, 11]));
        assert_eq!(keys("migrate h 1  0 5 REPLACE KEYS"), Ok(vec![]));
        assert_eq!(keys("migrate h 1 k 0 5 KEYS a"), Ok(vec![]));
    }
}
