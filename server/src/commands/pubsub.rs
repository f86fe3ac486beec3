//! SUBSCRIBE, PUBLISH, PUBSUB and their relatives.

use super::acl::may_still_listen;
use super::introspect::help;
use crate::dispatch::{Binding, CommandResult, Ctx, OnChannels, Traits};
use crate::events::pubsub::Kind;

const LISTENS: Traits = Traits::WHILE_SUBSCRIBED.and(Traits::ANSWERS_PUSHES);

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::local("subscribe", |ctx| subscribe(ctx, Kind::Channel, b"subscribe"))
        .on_channels(OnChannels::Listens)
        .with(LISTENS)
        .with(Traits::GATHERS_NAMES),
    Binding::local("psubscribe", |ctx| subscribe(ctx, Kind::Pattern, b"psubscribe"))
        .on_channels(OnChannels::ListensToPatterns)
        .with(LISTENS)
        .with(Traits::GATHERS_NAMES),
    Binding::local("ssubscribe", |ctx| subscribe(ctx, Kind::Shard, b"ssubscribe"))
        .on_channels(OnChannels::Listens)
        .with(LISTENS)
        .with(Traits::GATHERS_NAMES),
    Binding::local("unsubscribe", |ctx| unsubscribe(ctx, Kind::Channel, b"unsubscribe"))
        .with(LISTENS),
    Binding::local("punsubscribe", |ctx| unsubscribe(ctx, Kind::Pattern, b"punsubscribe"))
        .with(LISTENS),
    Binding::local("sunsubscribe", |ctx| unsubscribe(ctx, Kind::Shard, b"sunsubscribe"))
        .with(LISTENS),
    Binding::local("publish", |ctx| publish(ctx, Kind::Channel))
        .on_channels(OnChannels::Publishes)
        .replicates_when(|_, _| true),
    Binding::local("spublish", |ctx| publish(ctx, Kind::Shard))
        .on_channels(OnChannels::Publishes)
        .replicates_when(|_, _| true),
    Binding::container("pubsub"),
    Binding::local("pubsub|channels", |ctx| names(ctx, Kind::Channel)),
    Binding::local("pubsub|shardchannels", |ctx| names(ctx, Kind::Shard)),
    Binding::local("pubsub|numsub", |ctx| counts(ctx, Kind::Channel)),
    Binding::local("pubsub|shardnumsub", |ctx| counts(ctx, Kind::Shard)),
    Binding::local("pubsub|numpat", numpat),
    Binding::local("pubsub|help", help),
];

/// One confirmation: a push under RESP3. `None`: an UNSUBSCRIBE of nothing.
fn confirm(ctx: &mut Ctx<'_, '_>, kind: Kind, word: &[u8], name: Option<&[u8]>) {
    ctx.out.push(3);
    ctx.out.bulk(word);
    match name {
        Some(name) => ctx.out.bulk(name),
        None => ctx.out.null(),
    }
    ctx.out.int(ctx.client.subscriptions.count_with(kind) as i64);
}

/// SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE: one confirmation per name, also for existing subscriptions.
fn subscribe(ctx: &mut Ctx<'_, '_>, kind: Kind, word: &[u8]) -> CommandResult {
    for name in ctx.args.from(1) {
        let client = &mut *ctx.client;
        client.subscriptions.add(&ctx.server.events.pubsub, kind, name, &client.session);
        if !may_still_listen(ctx, kind, name) {
            ctx.client.closing = true;
        }
        confirm(ctx, kind, word, Some(name));
    }
    Ok(())
}

/// UNSUBSCRIBE, PUNSUBSCRIBE, SUNSUBSCRIBE: from the given names, or from all. Messages sent to them before
/// are delivered before the confirmation: afterwards the client might read them as the reply to something else.
fn unsubscribe(ctx: &mut Ctx<'_, '_>, kind: Kind, word: &[u8]) -> CommandResult {
    let names: Vec<Vec<u8>> = match ctx.args.len() {
        1 => ctx.client.subscriptions.names(kind),
        _ => ctx.args.from(1).map(<[u8]>::to_vec).collect(),
    };
    for name in &names {
        let client = &mut *ctx.client;
        client.subscriptions.remove(&ctx.server.events.pubsub, kind, name, &client.session);
        let parcel = client.session.outbox.take();
        client.hold_reply(parcel.marks.last().map_or(0, |&(_, required)| required));
        ctx.out.raw(&parcel.bytes);
        confirm(ctx, kind, word, Some(name));
    }
    if names.is_empty() {
        confirm(ctx, kind, word, None);
    }
    Ok(())
}

/// PUBLISH channel message, SPUBLISH shardchannel message.
fn publish(ctx: &mut Ctx<'_, '_>, kind: Kind) -> CommandResult {
    let (channel, message) = (ctx.args.get(1), ctx.args.get(2));
    let receivers = ctx.server.events.pubsub.publish(kind, channel, message, 0);
    ctx.out.int(receivers as i64);
    Ok(())
}

/// PUBSUB CHANNELS [pattern], PUBSUB SHARDCHANNELS [pattern].
fn names(ctx: &mut Ctx<'_, '_>, kind: Kind) -> CommandResult {
    if ctx.args.len() > 3 {
        return Err(ctx.spec.subcommand_error(ctx.args.get(1)));
    }
    let pattern = (ctx.args.len() == 3).then(|| ctx.args.get(2));
    let names = ctx.server.events.pubsub.names_like(kind, pattern);
    ctx.out.array(names.len());
    names.iter().for_each(|name| ctx.out.bulk(name));
    Ok(())
}

/// PUBSUB NUMSUB [channel ...], PUBSUB SHARDNUMSUB [shardchannel ...].
fn counts(ctx: &mut Ctx<'_, '_>, kind: Kind) -> CommandResult {
    ctx.out.array(2 * (ctx.args.len() - 2));
    for name in ctx.args.from(2) {
        ctx.out.bulk(name);
        ctx.out.int(ctx.server.events.pubsub.listeners_of(kind, name) as i64);
    }
    Ok(())
}

/// PUBSUB NUMPAT.
fn numpat(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.int(ctx.server.events.pubsub.names(Kind::Pattern) as i64);
    Ok(())
}
