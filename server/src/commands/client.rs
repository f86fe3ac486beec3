//! CLIENT.

use super::connection::checked_name;
use super::introspect::help;
use super::tracking::{caching, get_redirection, tracking, tracking_info};
use crate::auth::Auth;
use crate::client_eviction::evict_clients;
use crate::dispatch::{Args, Binding, CommandError, CommandResult, Ctx, Handler, Traits};
use crate::number::parse_i64;
use crate::session::{Pause, Session};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// CLIENT and its subcommands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::container("client").with(Traits::WHILE_PAUSED),
    about_client("client|caching", caching),
    about_client("client|getname", get_name),
    about_client("client|getredir", get_redirection),
    about_client("client|help", help),
    about_client("client|id", id),
    about_client("client|info", info),
    about_client("client|kill", kill),
    about_client("client|list", list),
    about_client("client|no-evict", no_evict),
    about_client("client|no-touch", no_touch),
    about_client("client|pause", pause),
    about_client("client|reply", reply),
    about_client("client|setinfo", set_info),
    about_client("client|setname", set_name),
    about_client("client|tracking", tracking).with(Traits::GATHERS_NAMES),
    about_client("client|trackinginfo", tracking_info),
    about_client("client|unblock", unblock),
    about_client("client|unpause", unpause),
];

/// A subcommand after which CLIENT CACHING remains in effect.
const fn about_client(name: &'static str, run: Handler) -> Binding {
    Binding::local(name, run).with(Traits::BEFORE_CACHING)
}

/// Longest CLIENT PAUSE; more is taken as this much.
const PAUSE_MAX: Duration = Duration::from_secs(60 * 60 * 24 * 365);

fn id(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.int(ctx.client.id as i64);
    Ok(())
}

fn info(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.client.session.note_command(ctx.spec.name);
    let line = ctx.client.session.line();
    ctx.out.verbatim("txt", format!("{line}\n").as_bytes());
    Ok(())
}

fn get_name(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let name = ctx.client.session.labels.lock().name.clone();
    if name.is_empty() {
        ctx.out.null()
    } else {
        ctx.out.bulk(&name)
    }
    Ok(())
}

fn set_name(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.client.session.labels.lock().name = checked_name(ctx.args.get(2))?.to_vec();
    ctx.out.ok();
    Ok(())
}

fn set_info(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let option = ctx.args.get(2).to_ascii_lowercase();
    if option != b"lib-name" && option != b"lib-ver" {
        let option = String::from_utf8_lossy(ctx.args.get(2));
        return Err(format!("ERR Unrecognized option '{option}'").into());
    }
    let value = ctx.args.get(3);
    if !value.iter().all(u8::is_ascii_graphic) {
        let option = String::from_utf8_lossy(&option);
        return Err(
            format!("ERR {option} cannot contain spaces, newlines or special characters.").into()
        );
    }
    let mut labels = ctx.client.session.labels.lock();
    let label = if option == b"lib-name" { &mut labels.lib_name } else { &mut labels.lib_ver };
    *label = value.to_vec();
    drop(labels);
    ctx.out.ok();
    Ok(())
}

/// Kinds of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientType {
    Normal,
    PubSub,
    /// One that is sent a copy of the data.
    Replica,
    /// The master: there is none.
    Master,
}

impl ClientType {
    fn includes(self, session: &Session) -> bool {
        let is_replica = session.takes_copy.load(Ordering::Relaxed);
        match self {
            Self::Normal => !session.is_subscriber() && !is_replica,
            Self::PubSub => session.is_subscriber() && !is_replica,
            Self::Replica => is_replica,
            Self::Master => false,
        }
    }
}

fn client_type(kind: &[u8]) -> Result<ClientType, CommandError> {
    match kind.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(ClientType::Normal),
        b"pubsub" => Ok(ClientType::PubSub),
        b"slave" | b"replica" => Ok(ClientType::Replica),
        b"master" => Ok(ClientType::Master),
        _ => Err(CommandError::quoting("ERR Unknown client type '", kind, "'")),
    }
}

fn list(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    let option = |name: &[u8]| args.len() > 3 && args.get(2).eq_ignore_ascii_case(name);
    let sessions = if args.len() == 2 {
        ctx.server.sessions.all()
    } else if option(b"type") && args.len() == 4 {
        let wanted = client_type(args.get(3))?;
        let mut sessions = ctx.server.sessions.all();
        sessions.retain(|session| wanted.includes(session));
        sessions
    } else if option(b"id") {
        let mut found = Vec::new();
        for id in args.from(3) {
            let id = parse_i64(id)
                .and_then(|id| u64::try_from(id).ok())
                .ok_or(CommandError::text("ERR Invalid client ID"))?;
            found.extend(ctx.server.sessions.get(id));
        }
        found
    } else {
        return Err(CommandError::Syntax);
    };
    ctx.client.session.note_command(ctx.spec.name);
    let text: String = sessions.iter().map(|session| session.line() + "\n").collect();
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Conditions of `CLIENT KILL option value ...`; all of them must be met.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    addr: Option<&'a [u8]>,
    local_addr: Option<&'a [u8]>,
    client_type: Option<ClientType>,
    user: Option<&'a [u8]>,
    age_s: Option<u64>,
    with_me: bool,
}

impl<'a> Filter<'a> {
    fn parse(auth: &Auth, args: Args<'a>) -> Result<Self, CommandError> {
        let mut filter = Self::default();
        let mut at = 2;
        while at < args.len() {
            if at + 1 == args.len() {
                return Err(CommandError::Syntax);
            }
            let value = args.get(at + 1);
            match args.get(at).to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = parse_i64(value)
                        .filter(|id| *id > 0)
                        .ok_or(CommandError::text("ERR client-id should be greater than 0"))?;
                    filter.id = Some(id as u64);
                }
                b"type" => filter.client_type = Some(client_type(value)?),
                b"addr" => filter.addr = Some(value),
                b"laddr" => filter.local_addr = Some(value),
                b"user" if auth.user(value).is_some() => filter.user = Some(value),
                b"user" => return Err(CommandError::quoting("ERR No such user '", value, "'")),
                b"maxage" => {
                    let age = parse_i64(value).ok_or(CommandError::text(
                        "ERR maxage is not an integer or out of range",
                    ))?;
                    filter.age_s =
                        Some(u64::try_from(age).map_err(|_| {
                            CommandError::text("ERR maxage should be greater than 0")
                        })?);
                }
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => filter.with_me = false,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => filter.with_me = true,
                _ => return Err(CommandError::Syntax),
            }
            at += 2;
        }
        Ok(filter)
    }

    fn matches(&self, session: &Session) -> bool {
        self.id.is_none_or(|id| session.id == id)
            && self.addr.is_none_or(|addr| session.addr.as_bytes() == addr)
            && self.local_addr.is_none_or(|addr| session.local_addr.as_bytes() == addr)
            && self.client_type.is_none_or(|wanted| wanted.includes(session))
            && self.user.is_none_or(|user| *session.user.lock() == user)
            && self.age_s.is_none_or(|age_s| session.created.elapsed().as_secs() >= age_s)
    }
}

/// `CLIENT KILL addr`, and with options
fn kill(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    let old_form = args.len() == 3;
    let filter = if old_form {
        Filter { addr: Some(args.get(2)), with_me: true, ..Filter::default() }
    } else {
        Filter::parse(&ctx.server.auth, args)?
    };
    let mut killed = 0;
    for session in ctx.server.sessions.all() {
        let me = session.id == ctx.client.id;
        if !filter.matches(&session) || (me && !filter.with_me) {
            continue;
        }
        killed += 1;
        if me {
            // The reply is still sent.
            ctx.client.closing = true;
        } else {
            session.kill();
        }
    }
    match (old_form, killed) {
        (true, 0) => return Err(CommandError::text("ERR No such client")),
        (true, _) => ctx.out.ok(),
        (false, _) => ctx.out.int(killed),
    }
    Ok(())
}

/// `CLIENT PAUSE timeout [WRITE|ALL]`
fn pause(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let mode = match ctx.args.len() {
        3 => Pause::All,
        4 if ctx.args.get(3).eq_ignore_ascii_case(b"all") => Pause::All,
        4 if ctx.args.get(3).eq_ignore_ascii_case(b"write") => Pause::Write,
        4 => return Err(CommandError::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(ctx.spec.subcommand_error(ctx.args.get(1))),
    };
    let timeout_ms = ctx
        .int_arg(2)
        .map_err(|_| CommandError::text("ERR timeout is not an integer or out of range"))?;
    let timeout_ms =
        u64::try_from(timeout_ms).map_err(|_| CommandError::text("ERR timeout is negative"))?;
    let timeout = Duration::from_millis(timeout_ms).min(PAUSE_MAX);
    ctx.server.sessions.pause(mode, Instant::now() + timeout);
    ctx.out.ok();
    Ok(())
}

fn unpause(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.server.sessions.unpause();
    ctx.out.ok();
    Ok(())
}

/// `CLIENT REPLY ON|OFF|SKIP`: only ON is answered.
fn reply(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    match ctx.args.get(2).to_ascii_lowercase().as_slice() {
        b"on" => {
            ctx.client.reply_mode.turn_on();
            ctx.out.ok();
        }
        b"off" => ctx.client.reply_mode.turn_off(),
        b"skip" => ctx.client.reply_mode.skip_next(),
        _ => return Err(CommandError::Syntax),
    }
    Ok(())
}

fn switch(ctx: &mut Ctx<'_, '_>, of: fn(&Session) -> &AtomicBool) -> CommandResult {
    let on = match ctx.args.get(2).to_ascii_lowercase().as_slice() {
        b"on" => true,
        b"off" => false,
        _ => return Err(CommandError::Syntax),
    };
    let session: &Arc<Session> = &ctx.client.session;
    of(session).store(on, Ordering::Relaxed);
    ctx.out.ok();
    Ok(())
}

fn no_evict(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    switch(ctx, |session| &session.no_evict)?;
    evict_clients(ctx.server);
    Ok(())
}

fn no_touch(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    switch(ctx, |session| &session.no_touch)
}

/// CLIENT UNBLOCK id [TIMEOUT|ERROR]: the blocked client receives its command's timeout reply, or an error.
fn unblock(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    match ctx.args.len() {
        3 => {}
        4 => {
            let reason = ctx.args.get(3);
            let known = [&b"timeout"[..], b"error"];
            if !known.iter().any(|known| known.eq_ignore_ascii_case(reason)) {
                return Err(CommandError::text(
                    "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
                ));
            }
        }
        _ => return Err(ctx.spec.subcommand_error(ctx.args.get(1))),
    }
    let fails = ctx.args.len() == 4 && ctx.args.get(3).eq_ignore_ascii_case(b"error");
    let id = u64::try_from(ctx.int_arg(2)?).unwrap_or(0);
    let waiter = ctx.server.blocking.of_client(id);
    let unblocked = waiter.is_some_and(|waiter| {
        waiter.unblock(if fails {
            b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n".to_vec()
        } else {
            waiter.nothing.clone()
        })
    });
    ctx.out.int(i64::from(unblocked));
    Ok(())
}
