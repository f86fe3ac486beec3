//! The table of the commands of this server.

pub use crate::dispatch::table::find_subcommand;

use super::GROUPS;
use crate::dispatch::{Args, CommandError, CommandSpec, Table};
use std::sync::OnceLock;

static TABLE: OnceLock<Table> = OnceLock::new();

/// The command table, for callers that execute commands by it.
#[must_use]
pub fn table() -> &'static Table {
    TABLE.get_or_init(|| Table::build(GROUPS))
}

/// Renames or disables commands (`rename-command`). To be called before the table is first requested.
///
/// # Errors
/// The index of the invalid pair, and the reason.
pub fn rename_all<'n>(
    renames: impl Iterator<Item = (&'n [u8], &'n [u8])>,
) -> Result<(), (usize, &'static str)> {
    let mut table = Table::build(GROUPS);
    for (nth, (old, new)) in renames.enumerate() {
        table.rename(old, new).map_err(|error| (nth, error))?;
    }
    // It has not been requested yet: the process has just started.
    let _ = TABLE.set(table);
    Ok(())
}

/// All commands by name; subcommands are in their containers.
#[must_use]
pub fn all() -> &'static [CommandSpec] {
    table().all()
}

/// The commands that clients can call.
pub fn callable() -> impl ExactSizeIterator<Item = &'static CommandSpec> {
    let found: Vec<_> = all().iter().filter(|spec| spec.is_called()).collect();
    found.into_iter()
}

/// All commands and subcommands.
pub fn all_with_subcommands() -> impl Iterator<Item = &'static CommandSpec> {
    all().iter().flat_map(|spec| std::iter::once(spec).chain(&spec.subcommands))
}

/// The command of this name (any case), subcommands left aside.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    table().find(name)
}

/// The command or subcommand written as `name` or `container|sub` (any case).
#[must_use]
pub fn find_full(name: &[u8]) -> Option<&'static CommandSpec> {
    match name.iter().position(|&b| b == b'|') {
        None => find(name),
        Some(at) => find_subcommand(find(&name[..at])?, &name[at + 1..]),
    }
}

/// The row that a request addresses, see [`Table::lookup`].
///
/// # Errors
/// Redis' texts for unknown commands and subcommands.
pub fn lookup(args: Args<'_>) -> Result<&'static CommandSpec, CommandError> {
    table().lookup(args)
}

/// Like [`lookup`], but also checks the number of arguments.
///
/// # Errors
/// Redis' texts for unknown commands, unknown subcommands and wrong numbers of arguments.
pub fn resolve(args: Args<'_>) -> Result<&'static CommandSpec, CommandError> {
    let spec = lookup(args)?;
    if spec.accepts(args.len()) { Ok(spec) } else { Err(spec.arity_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_args<T>(request: &[&[u8]], use_args: impl FnOnce(Args<'_>) -> T) -> T {
        let mut buf = Vec::new();
        let ranges: Vec<(u32, u32)> = request
            .iter()
            .map(|arg| {
                let start = buf.len() as u32;
                buf.extend_from_slice(arg);
                (start, buf.len() as u32)
            })
            .collect();
        use_args(Args::new(&buf, &ranges))
    }

    fn error(request: &[&[u8]]) -> String {
        with_args(request, |args| resolve(args).unwrap_err().to_string())
    }

    #[test]
    fn every_binding_has_metadata_and_is_found() {
        for binding in GROUPS.iter().flat_map(|group| group.iter()) {
            let spec = find_full(binding.name.as_bytes()).unwrap_or_else(|| {
                panic!(
                    "{}: no block in commands.txt, or its container has no binding",
                    binding.name
                )
            });
            assert_eq!(spec.name, binding.name);
            assert!(std::ptr::fn_addr_eq(spec.run, binding.run), "{} is bound twice", binding.name);
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(find(b"PiNg").unwrap().name, "ping");
        assert!(find(b"").is_none());
        assert!(find(b"pin").is_none());
        assert!(find(b"ping\0").is_none());
        assert!(find(b"0ing").is_none());
    }

    #[test]
    fn unknown_commands_are_named_with_their_arguments() {
        assert_eq!(
            error(&[b"Nope", b"a", b"b c"]),
            "ERR unknown command 'Nope', with args beginning with: 'a' 'b c' "
        );
        assert_eq!(error(&[b"nope"]), "ERR unknown command 'nope', with args beginning with: ");
        // The list ends once it is 128 bytes long; the last argument is cut to fit.
        let long = [b'x'; 100];
        let expected = format!("'{}' '{}' ", "x".repeat(100), "x".repeat(25));
        assert!(error(&[b"nope", &long, &long, &long]).ends_with(&expected));
    }

    #[test]
    fn arity_is_checked_with_redis_text() {
        assert_eq!(error(&[b"ECHO"]), "ERR wrong number of arguments for 'echo' command");
        assert!(with_args(&[b"echo", b"x"], |args| resolve(args).is_ok()));
        assert!(with_args(&[b"ping"], |args| resolve(args).is_ok()));
    }
}
