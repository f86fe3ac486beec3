//! Effects on the connections of a user that is changed or deleted.

use crate::auth::{Context, DEFAULT_USER, Denial, Identity, Reason, User};
use crate::clock::now_ms;
use crate::dispatch::Ctx;
use crate::events::pubsub::Kind;
use crate::session::Session;
use std::sync::atomic::Ordering;

/// Closes the connections of these users. The reply of the current one is still sent.
pub(super) fn close_all(ctx: &mut Ctx<'_, '_>, users: &[Vec<u8>]) {
    for session in ctx.server.sessions.all() {
        if users.contains(&*session.user.lock()) {
            close(ctx, &session);
        }
    }
}

fn close(ctx: &mut Ctx<'_, '_>, session: &Session) {
    if session.id == ctx.client.id {
        ctx.client.closing = true;
    } else {
        session.kill();
    }
}

/// Closes the connections of a changed user that are subscribed to channels it may no longer listen to. As in Redis,
/// this is not checked while all previous channel patterns still exist.
pub(super) fn close_listeners(ctx: &mut Ctx<'_, '_>, before: &User, now: &User) {
    if now.keeps_channels_of(before) {
        return;
    }
    let forbidden = |kind: Kind, name: &[u8], session: &Session| {
        *session.user.lock() == now.name() && !now.may_listen(name, kind == Kind::Pattern)
    };
    let found = ctx.server.events.pubsub.listeners_where(forbidden);
    for session in found {
        close(ctx, &session);
    }
}

/// Called after a connection has subscribed: false if its user lost the right meanwhile, after the client that changed the
/// user had checked for listeners.
pub(in crate::commands) fn may_still_listen(
    ctx: &mut Ctx<'_, '_>,
    kind: Kind,
    name: &[u8],
) -> bool {
    let client = &mut *ctx.client;
    client.identity.is_current(&ctx.server.auth)
        || (client.renew_rights(ctx.server)
            && client.identity.user().may_listen(name, kind == Kind::Pattern))
}

/// AUTH and HELLO: if the password is correct, the connection acts as this user from now on. Otherwise returns false and
/// records the failure in ACL LOG.
pub(in crate::commands) fn act_as(ctx: &mut Ctx<'_, '_>, user: &[u8], password: &[u8]) -> bool {
    let Some(identity) = ctx.server.auth.authenticate(user, password) else {
        note_failure(ctx, user);
        return false;
    };
    take(ctx, identity);
    true
}

fn take(ctx: &mut Ctx<'_, '_>, identity: Identity) {
    ctx.client.act_as(identity);
    // A deletion of the user from now on finds this connection; an earlier one is detected here.
    ctx.client.renew_rights(ctx.server);
}

fn note_failure(ctx: &Ctx<'_, '_>, user: &[u8]) {
    let client = &*ctx.client;
    // Commands that MULTI has queued run in EXEC.
    let in_exec = client.session.queued.load(Ordering::Relaxed) != 0;
    client.session.note_command(if in_exec { "exec" } else { ctx.spec.name });
    let context = if in_exec { Context::Multi } else { Context::TopLevel };
    let denial = Denial {
        reason: Reason::Auth,
        context,
        object: ctx.args.get(0).to_vec(),
        user: user.to_vec(),
        client: client.session.line(),
    };
    ctx.server.auth.denials.note(denial, now_ms());
}

/// The users among these whose connections a new set of users closes: all but the default one.
pub(super) fn without_default(mut users: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    users.retain(|name| name != DEFAULT_USER);
    users
}
