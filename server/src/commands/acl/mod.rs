//! ACL: users and their rights.

mod clients;
mod users;

use super::introspect::{help, in_category};
use crate::auth::{CATEGORIES, Denied, category};
use crate::clock::now_ms;
use crate::commands::table;
use crate::dispatch::rights::Asked;
use crate::dispatch::{Args, Binding, CommandError, CommandResult, Ctx};
use crate::interop::c_numbers::general;
use std::io::Read as _;

pub(super) use clients::{act_as, may_still_listen};

/// Rules may contain passwords, and user names are confidential.
const fn tells_of_users(_: Args<'_>, at: usize) -> bool {
    at >= 2
}

/// ACL and its subcommands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::container("acl"),
    Binding::local("acl|cat", cat),
    Binding::local("acl|deluser", users::delete).secret_where(tells_of_users),
    Binding::local("acl|dryrun", dry_run),
    Binding::local("acl|genpass", generate_password),
    Binding::local("acl|getuser", users::get).secret_where(tells_of_users),
    Binding::local("acl|help", help),
    Binding::local("acl|list", users::list),
    Binding::local("acl|load", users::load),
    Binding::local("acl|log", log),
    Binding::local("acl|save", users::save),
    Binding::local("acl|setuser", users::set).secret_where(tells_of_users),
    Binding::local("acl|users", users::names),
    Binding::local("acl|whoami", whoami),
];

/// `ACL CAT [category]`
fn cat(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let names: Vec<&str> = match ctx.args.len() {
        2 => CATEGORIES.to_vec(),
        3 => {
            let wanted = ctx.args.get(2);
            if category(wanted).is_none() {
                return Err(CommandError::quoting("ERR Unknown category '", wanted, "'"));
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

/// `ACL DRYRUN user command [argument ...]`: whether the user may run it.
fn dry_run(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let Some(user) = ctx.server.auth.user(ctx.args.get(2)) else {
        return Err(CommandError::quoting("ERR User '", ctx.args.get(2), "' not found"));
    };
    let args = ctx.args.tail(3);
    let Ok(spec) = table::lookup(args) else {
        return Err(CommandError::quoting("ERR Command '", args.get(0), "' not found"));
    };
    if !spec.accepts(args.len()) {
        return Err(spec.arity_error());
    }
    let quoted = |before: &str, at: usize, after: &str| {
        [before.as_bytes(), args.get(at), after.as_bytes()].concat()
    };
    let (db, databases) = (ctx.client.db, ctx.server.databases);
    match user.check(&Asked { spec, args, db, databases }) {
        Ok(()) => ctx.out.ok(),
        Err(Denied::Database(at)) => {
            let name = String::from_utf8_lossy(user.name());
            let database = if at == 0 { spec.name.as_bytes() } else { args.get(at) };
            let text = format!("User {name} has no permissions to access database ");
            ctx.out.bulk(&[text.as_bytes(), database].concat());
        }
        Err(Denied::Command) => {
            let name = spec.name;
            let text = format!("This user has no permissions to run the '{name}' command");
            ctx.out.bulk(text.as_bytes());
        }
        Err(Denied::Key(at)) => {
            ctx.out.bulk(&quoted("This user has no permissions to access the '", at, "' key"));
        }
        Err(Denied::Channel(at)) => {
            ctx.out.bulk(&quoted("This user has no permissions to access the '", at, "' channel"));
        }
    }
    Ok(())
}

/// Most bits of a password that ACL GENPASS makes.
const PASSWORD_MAX_BITS: i64 = 4096;

/// `ACL GENPASS [bits]`: random bits in hexadecimal.
fn generate_password(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let bits = match ctx.args.len() {
        2 => 256,
        3 => ctx.int_arg(2)?,
        _ => return Err(ctx.spec.subcommand_error(ctx.args.get(1))),
    };
    if !(1..=PASSWORD_MAX_BITS).contains(&bits) {
        return Err(CommandError::text(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| format!("ERR no random numbers can be had: {error}"))?;
    let text = crate::digest::hex(&bytes);
    ctx.out.bulk(&text.as_bytes()[..digits]);
    Ok(())
}

/// Default number of entries that ACL LOG shows.
const DEFAULT_COUNT: usize = 10;

/// `ACL LOG [count | RESET]`: what was refused, the newest first.
fn log(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let denials = &ctx.server.auth.denials;
    let count = match ctx.args.len() {
        2 => DEFAULT_COUNT,
        3 if ctx.args.get(2).eq_ignore_ascii_case(b"reset") => {
            denials.reset();
            ctx.out.ok();
            return Ok(());
        }
        3 => usize::try_from(ctx.int_arg(2)?).unwrap_or(0),
        _ => return Err(ctx.spec.subcommand_error(ctx.args.get(1))),
    };
    let now_ms = now_ms();
    let entries = denials.newest(count);
    let out = &mut *ctx.out;
    out.array(entries.len());
    for entry in entries {
        let age_s = now_ms.saturating_sub(entry.last_ms) as f64 / 1000.0;
        // The last three are those of Redis 7.2.
        out.map(10);
        out.bulk(b"count");
        out.int(entry.count as i64);
        for (field, text) in [
            ("reason", entry.last.reason.name().as_bytes()),
            ("context", entry.last.context.name().as_bytes()),
            ("object", &entry.last.object),
            ("username", &entry.last.user),
        ] {
            out.bulk(field.as_bytes());
            out.bulk(text);
        }
        out.bulk(b"age-seconds");
        out.double(&general(age_s, 17));
        out.bulk(b"client-info");
        out.bulk(entry.last.client.as_bytes());
        for (field, number) in [
            ("entry-id", entry.id),
            ("timestamp-created", entry.first_ms),
            ("timestamp-last-updated", entry.last_ms),
        ] {
            out.bulk(field.as_bytes());
            out.int(number as i64);
        }
    }
    Ok(())
}

fn whoami(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.bulk(ctx.client.identity.user().name());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::table::Metadata;

    #[test]
    fn every_category_of_a_command_is_listed() {
        for metadata in Metadata::all() {
            for name in metadata.words("acl") {
                assert!(category(&name.as_bytes()[1..]).is_some(), "{}: {name}", metadata.name);
            }
        }
    }
}
