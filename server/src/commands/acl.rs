//! ACL, as far as a server with the default user only can answer it.

use super::introspect::{help, in_category};
use crate::auth::DEFAULT_USER;
use crate::commands::table;
use crate::digest::hex;
use crate::dispatch::{Binding, CommandResult, Ctx};

/// ACL and its subcommands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::container("acl"),
    Binding::local("acl|cat", cat),
    Binding::local("acl|getuser", get_user),
    Binding::local("acl|help", help),
    Binding::local("acl|list", list),
    Binding::local("acl|users", users),
    Binding::local("acl|whoami", whoami),
];

/// All categories, in Redis' order.
const CATEGORIES: [&str; 21] = [
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

fn cat(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let names: Vec<&str> = match ctx.args.len() {
        2 => CATEGORIES.to_vec(),
        3 => {
            let wanted = ctx.args.get(2);
            if !CATEGORIES.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(wanted)) {
                let wanted = String::from_utf8_lossy(wanted);
                return Err(format!("ERR Unknown category '{wanted}'").into());
            }
            table::all_with_subcommands()
                .filter(|spec| in_category(spec, wanted))
                .map(|spec| spec.name)
                .collect()
        }
        _ => return Err(ctx.spec.subcommand_error(ctx.args.get(1))),
    };
    ctx.out.array(names.len());
    for name in names {
        ctx.out.bulk(name.as_bytes());
    }
    Ok(())
}

fn get_user(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.args.get(2) != DEFAULT_USER {
        ctx.out.null();
        return Ok(());
    }
    let hash = ctx.server.auth.password_hash();
    let out = &mut *ctx.out;
    out.map(6);
    out.bulk(b"flags");
    let flags: &[&[u8]] = if hash.is_none() { &[b"on", b"nopass"] } else { &[b"on"] };
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag));
    out.bulk(b"passwords");
    out.array(usize::from(hash.is_some()));
    if let Some(hash) = hash {
        out.bulk(hex(&hash).as_bytes());
    }
    for (field, value) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        out.bulk(field.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"selectors");
    out.array(0);
    Ok(())
}

fn list(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let password = match ctx.server.auth.password_hash() {
        None => "nopass".to_owned(),
        Some(hash) => format!("#{}", hex(&hash)),
    };
    ctx.out.array(1);
    ctx.out.bulk(format!("user default on {password} ~* &* +@all").as_bytes());
    Ok(())
}

fn users(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.array(1);
    ctx.out.bulk(DEFAULT_USER);
    Ok(())
}

fn whoami(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.bulk(DEFAULT_USER);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::table::Metadata;

    #[test]
    fn every_category_of_a_command_is_listed() {
        for metadata in Metadata::all() {
            for category in metadata.words("acl") {
                assert!(CATEGORIES.contains(&&category[1..]), "{}: {category}", metadata.name);
            }
        }
    }
}
