//! ACL SETUSER, DELUSER, GETUSER, LIST, USERS, LOAD and SAVE.

use super::clients::{close_all, close_listeners, without_default};
use crate::auth::{Catalog, DEFAULT_USER, Selector, has_blanks, merge_selectors};
use crate::digest::hex;
use crate::dispatch::{CommandError, CommandResult, Ctx};
use crate::log;
use crate::resp::Reply;
use std::path::Path;

const NO_FILE: CommandError = CommandError::text(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
     command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users \
     in the Redis configuration.",
);

/// `ACL SETUSER name [rule ...]`: all rules or none.
pub(super) fn set(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let name = ctx.args.get(2);
    if has_blanks(name) {
        return Err(CommandError::text("ERR Usernames can't contain spaces or null characters"));
    }
    let words: Vec<Vec<u8>> = ctx.args.from(3).map(<[u8]>::to_vec).collect();
    let rules = merge_selectors(&words).map_err(|at| {
        CommandError::quoting(
            "ERR Unmatched parenthesis in acl selector starting at '",
            &words[at],
            "'.",
        )
    })?;
    let set = ctx.server.auth.set_user(ctx.table.catalog(), name, &rules);
    let changed = set.map_err(|(rule, error)| {
        let shown = rule.iter().position(|&byte| byte == 0).unwrap_or(rule.len());
        let text = [b"ERR Error in ACL SETUSER modifier '", &rule[..shown]].concat();
        let text = [&text, b"': ".as_slice(), error.text().as_bytes()].concat();
        CommandError::Quoting("", text.into(), "")
    })?;
    if let Some(before) = changed.before {
        close_listeners(ctx, &before, &changed.now);
    }
    ctx.out.ok();
    Ok(())
}

/// `ACL DELUSER name [name ...]`: their connections are closed.
pub(super) fn delete(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.args.from(2).any(|name| name == DEFAULT_USER) {
        return Err(CommandError::text("ERR The 'default' user cannot be removed"));
    }
    let deleted = ctx.server.auth.delete_users(ctx.args.from(2));
    close_all(ctx, &deleted);
    ctx.out.int(deleted.len() as i64);
    Ok(())
}

/// `ACL GETUSER name`
pub(super) fn get(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let Some(user) = ctx.server.auth.user(ctx.args.get(2)) else {
        ctx.out.null();
        return Ok(());
    };
    let (catalog, out) = (ctx.table.catalog(), &mut *ctx.out);
    let (root, others) = user.selectors().split_at(1);
    // Where all are allowed, the reply is that of Redis.
    out.map(6 + root.iter().filter_map(Selector::database_rule).count());
    out.bulk(b"flags");
    let flags = user.flags();
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"passwords");
    out.array(user.passwords().len());
    user.passwords().iter().for_each(|digest| out.bulk(hex(digest).as_bytes()));
    root.iter().for_each(|selector| write_selector(out, catalog, selector));
    out.bulk(b"selectors");
    out.array(others.len());
    for selector in others {
        out.map(3 + usize::from(selector.database_rule().is_some()));
        write_selector(out, catalog, selector);
    }
    Ok(())
}

fn write_selector(out: &mut Reply, catalog: &Catalog, selector: &Selector) {
    let rights = [
        ("commands", selector.command_rules(catalog)),
        ("keys", selector.key_rules()),
        ("channels", selector.channel_rules()),
    ];
    let databases = selector.database_rule().map(|rule| ("databases", rule));
    for (field, rules) in rights.into_iter().chain(databases) {
        out.bulk(field.as_bytes());
        out.bulk(&rules);
    }
}

/// `ACL LIST`: all users as lines.
pub(super) fn list(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let lines = ctx.server.auth.lines(ctx.table.catalog());
    ctx.out.array(lines.len());
    lines.iter().for_each(|line| ctx.out.bulk(line));
    Ok(())
}

/// `ACL USERS`: all names.
pub(super) fn names(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let users = ctx.server.auth.users();
    ctx.out.array(users.len());
    users.iter().for_each(|user| ctx.out.bulk(user.name()));
    Ok(())
}

/// `ACL LOAD`: the users of the `aclfile`. Connections of all but the default user are closed, as in Redis.
pub(super) fn load(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let path = ctx.server.setting("aclfile");
    if path.is_empty() {
        return Err(NO_FILE);
    }
    let before = ctx
        .server
        .auth
        .load_file(ctx.table.catalog(), &path)
        .map_err(|text| CommandError::from(format!("ERR {text}")))?;
    close_all(ctx, &without_default(before));
    ctx.out.ok();
    Ok(())
}

/// `ACL SAVE`: the `aclfile` has the users of now.
pub(super) fn save(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let path = ctx.server.setting("aclfile");
    if path.is_empty() {
        return Err(NO_FILE);
    }
    let mut text = ctx.server.auth.lines(ctx.table.catalog()).join(&b'\n');
    text.push(b'\n');
    sexton_config::replace_file(Path::new(&path), &text).map_err(|error| {
        log::warning(&format!("Saving ACLs to '{path}': {error}"));
        CommandError::text(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        )
    })?;
    ctx.out.ok();
    Ok(())
}
