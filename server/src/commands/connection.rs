//! Commands about the connection itself: authentication, protocol version, selected database.

use super::acl::act_as;
use crate::auth::DEFAULT_USER;
use crate::dispatch::client::Client;
use crate::dispatch::{Args, Binding, CommandError, CommandResult, Ctx, OnDatabases, Traits};
use crate::session::Labels;
use crate::version::REDIS_VERSION;
use std::sync::atomic::Ordering;

/// PING, ECHO, HELLO, AUTH, SELECT, QUIT, RESET.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::local("auth", auth).secret_where(|_, at| at >= 1),
    Binding::local("echo", echo).with(Traits::ANSWERS_ALONE),
    Binding::local("hello", hello).secret_where(is_of_auth_option),
    Binding::local("ping", ping)
        .with(Traits::ANSWERS_ALONE)
        .with(Traits::WHILE_SUBSCRIBED)
        .with(Traits::TELLS_OF_FAILED_SAVES),
    Binding::local("quit", quit).with(Traits::CONTROLS_TRANSACTION).with(Traits::WHILE_SUBSCRIBED),
    Binding::local("reset", reset)
        .with(Traits::CONTROLS_TRANSACTION)
        .with(Traits::WHILE_SUBSCRIBED),
    Binding::local("select", select).on_databases(OnDatabases::Selects),
];

const WRONG_PASSWORD: CommandError =
    CommandError::text("WRONGPASS invalid username-password pair or user is disabled.");

/// Under RESP2 a subscriber gets a message instead, which it cannot mistake for one of its channels' messages.
fn ping(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    match ctx.args.len() {
        count @ 1..=2 if !ctx.out.is_resp3() && !ctx.client.subscriptions.is_empty() => {
            ctx.out.array(2);
            ctx.out.bulk(b"pong");
            ctx.out.bulk(if count == 2 { ctx.args.get(1) } else { b"" });
        }
        1 => ctx.out.simple("PONG"),
        2 => ctx.out.bulk(ctx.args.get(1)),
        _ => return Err(ctx.spec.arity_error()),
    }
    Ok(())
}

fn echo(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.bulk(ctx.args.get(1));
    Ok(())
}

fn quit(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.client.closing = true;
    ctx.out.ok();
    Ok(())
}

fn select(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let index = ctx.int_arg(1)?;
    if i32::try_from(index).is_err() {
        return Err(CommandError::text(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    let db = usize::try_from(index).unwrap_or(usize::MAX);
    if db >= ctx.server.databases {
        return Err(CommandError::text("ERR DB index is out of range"));
    }
    ctx.client.select(db);
    ctx.out.ok();
    Ok(())
}

/// `AUTH password` and `AUTH user password`
fn auth(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (user, password) = match ctx.args.len() {
        2 if ctx.server.auth.anybody().user().needs_no_password() => {
            return Err(CommandError::text(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        2 => (DEFAULT_USER, ctx.args.get(1)),
        3 => (ctx.args.get(1), ctx.args.get(2)),
        _ => return Err(CommandError::Syntax),
    };
    if !act_as(ctx, user, password) {
        return Err(WRONG_PASSWORD);
    }
    ctx.out.ok();
    Ok(())
}

/// True for the name and password that follow `AUTH` among the options of HELLO.
fn is_of_auth_option(args: Args<'_>, wanted: usize) -> bool {
    let mut at = 2;
    while at < args.len() {
        let is_auth = args.get(at).eq_ignore_ascii_case(b"auth");
        if is_auth && (at + 1..=at + 2).contains(&wanted) {
            return true;
        }
        at += if is_auth { 3 } else { 2 };
    }
    false
}

/// `HELLO [protover [AUTH user password] [SETNAME name]]`
fn hello(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    let mut resp3 = None;
    if args.len() >= 2 {
        let version = ctx.int_arg(1).map_err(|_| {
            CommandError::text("ERR Protocol version is not an integer or out of range")
        })?;
        resp3 = Some(match version {
            2 => false,
            3 => true,
            _ => return Err(CommandError::text("NOPROTO unsupported protocol version")),
        });
    }
    // As in Redis, each option takes effect as soon as it is read, whatever follows it.
    let mut at = 2;
    while at < args.len() {
        let more = args.len() - at - 1;
        let option = args.get(at);
        if option.eq_ignore_ascii_case(b"auth") && more >= 2 {
            if !act_as(ctx, args.get(at + 1), args.get(at + 2)) {
                return Err(WRONG_PASSWORD);
            }
            at += 3;
        } else if option.eq_ignore_ascii_case(b"setname") && more >= 1 {
            let name = checked_name(args.get(at + 1))?;
            ctx.client.session.labels.lock().name = name.to_vec();
            at += 2;
        } else {
            return Err(CommandError::quoting("ERR Syntax error in HELLO option '", option, "'"));
        }
    }
    if ctx.client.must_authenticate(ctx.server) {
        return Err(CommandError::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(resp3) = resp3 {
        set_protocol(ctx, resp3);
    }
    let protocol = if ctx.out.is_resp3() { 3 } else { 2 };
    ctx.out.map(7);
    for (field, text) in [("server", "redis"), ("version", REDIS_VERSION)] {
        ctx.out.bulk(field.as_bytes());
        ctx.out.bulk(text.as_bytes());
    }
    ctx.out.bulk(b"proto");
    ctx.out.int(protocol);
    ctx.out.bulk(b"id");
    ctx.out.int(ctx.client.id as i64);
    for (field, text) in [("mode", "standalone"), ("role", "master")] {
        ctx.out.bulk(field.as_bytes());
        ctx.out.bulk(text.as_bytes());
    }
    ctx.out.bulk(b"modules");
    ctx.out.array(0);
    Ok(())
}

fn set_protocol(ctx: &mut Ctx<'_, '_>, resp3: bool) {
    ctx.out.set_resp3(resp3);
    ctx.client.session.protocol.store(if resp3 { 3 } else { 2 }, Ordering::Relaxed);
}

/// A client name: printable, no blanks.
pub(super) fn checked_name(name: &[u8]) -> Result<&[u8], CommandError> {
    if name.iter().all(u8::is_ascii_graphic) {
        Ok(name)
    } else {
        Err(CommandError::text(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ))
    }
}

/// `RESET`: restores the state of a new connection, except library name and version.
fn reset(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    set_protocol(ctx, false);
    ctx.server.observe.monitors.stop(ctx.client.id);
    let client = &mut *ctx.client;
    client.subscriptions.clear(&ctx.server.events.pubsub, &client.session);
    // Earlier messages are sent before the reply; in the other order they could be
    // taken for it.
    client.stop_tracking(ctx.server);
    let parcel = client.session.outbox.take();
    client.hold_reply(parcel.marks.last().map_or(0, |&(_, required)| required));
    ctx.out.raw(&parcel.bytes);
    let Client { session, .. } = &*ctx.client;
    session.db.store(0, Ordering::Relaxed);
    session.no_evict.store(false, Ordering::Relaxed);
    session.no_touch.store(false, Ordering::Relaxed);
    session.monitor.store(false, Ordering::Relaxed);
    {
        let mut labels = session.labels.lock();
        *labels = Labels { name: Vec::new(), ..labels.clone() };
    }
    ctx.client.db = 0;
    ctx.client.reply_mode.reset();
    ctx.client.act_as_anybody(ctx.server);
    ctx.client.close_snapshot_session();
    ctx.client.discard_transaction();
    ctx.client.unwatch(ctx.server);
    ctx.out.simple("RESET");
    Ok(())
}
