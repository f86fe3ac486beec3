//! XACK, XCLAIM, XAUTOCLAIM: pending entries are acknowledged or reassigned to another consumer.

use super::held::{Held, each, hold, nothing, store};
use super::id::{parse_start, parse_strict};
use super::{group_at, no_key_or_group, wall_ms};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::StreamView;
use crate::keyspace::collection::stream::{Group, LOWEST, Pending, Span, id_text};
use crate::keyspace::paged::{PendingAsked, PendingSpan};
use crate::keyspace::stream_read::{Logged, answer_entry, logged_claim, logged_position, words};
use crate::number::parse_i64;
use crate::resp::Reply;
use sexton_persistence::rdb::StreamId;
use std::collections::BTreeMap;

/// Pending entries that XAUTOCLAIM examines per entry that it may claim.
const LOOKS: u64 = 10;
const COUNT_MAX: i64 = i64::MAX / 16;
/// Default number of entries that XAUTOCLAIM claims.
const COUNT: u64 = 100;

/// XACK key group id [id ...]. One operation, or none; logged verbatim.
pub(super) fn xack(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, name) = (ctx.args.get(1), ctx.args.get(2));
    let known: Vec<_> = ctx.args.from(3).map_while(|id| parse_strict(id, 0).ok()).collect();
    let asked = (name, PendingAsked::Ids(&known));
    let found = hold(ctx, (Purpose::Read, key), asked, &nothing)?.and_then(|held| {
        let groups = held.view().groups();
        let at = group_at(&groups, name)?;
        Some((held, groups, at))
    });
    let Some((mut held, mut groups, at)) = found else {
        ctx.out.int(0);
        return Ok(());
    };
    if known.len() < ctx.args.len() - 3 {
        parse_strict(ctx.args.get(3 + known.len()), 0)?;
    }
    let acknowledged = groups[at].acknowledge(&known).len();
    if acknowledged > 0 {
        let request: Logged = ctx.args.from(0).map(<[u8]>::to_vec).collect();
        store(ctx, key, (&mut held, &groups), None, &[request])?;
    }
    ctx.out.int(acknowledged as i64);
    Ok(())
}

/// How entries are claimed.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// Not those that were delivered a shorter time ago.
    idle_min_ms: i64,
    now_ms: u64,
    delivered_ms: u64,
    /// Their new delivery count; `None`: one more than before.
    deliveries: Option<u64>,
    /// The answer has IDs alone, and no delivery is counted.
    ids_only: bool,
    /// Entries that are not pending are claimed, too.
    force: bool,
}

/// Entries that are being claimed for one consumer.
struct Claims<'a> {
    stream: StreamView<'a>,
    group: &'a mut Group,
    name: &'a [u8],
    consumer: Option<usize>,
    is_new_consumer: bool,
    terms: Terms,
    /// By the number of deliveries.
    claimed: BTreeMap<u64, Vec<StreamId>>,
    /// Pending ones that the stream does not have any more.
    gone: Vec<StreamId>,
    answered: usize,
    reply: Reply,
}

impl<'a> Claims<'a> {
    fn new(
        stream: StreamView<'a>,
        group: &'a mut Group,
        name: &'a [u8],
        terms: Terms,
        resp3: bool,
    ) -> Self {
        let mut reply = Reply::new();
        reply.set_resp3(resp3);
        Self {
            stream,
            group,
            name,
            consumer: None,
            is_new_consumer: false,
            terms,
            claimed: BTreeMap::new(),
            gone: Vec::new(),
            answered: 0,
            reply,
        }
    }

    /// Claims an entry if the terms allow it.
    fn claim(&mut self, id: StreamId) {
        let terms = self.terms;
        let found = self.group.find_pending(id);
        let Some(entry) = self.stream.entry(id) else {
            if found.is_ok() {
                self.gone.push(id);
            }
            return;
        };
        if found.is_err() && !terms.force {
            return;
        }
        if let Ok(at) = found
            && terms.idle_min_ms > 0
        {
            let idle_ms = terms.now_ms as i64 - self.group.pending[at].delivered_ms as i64;
            if idle_ms < terms.idle_min_ms {
                return;
            }
        }
        let consumer = match self.consumer {
            Some(consumer) => consumer,
            None => {
                let (consumer, is_new) = self.group.consumer_or_new(self.name, terms.now_ms);
                self.group.consumers[consumer].seen_ms = terms.now_ms;
                self.is_new_consumer = is_new;
                *self.consumer.insert(consumer)
            }
        };
        // One that is not pending has been delivered once.
        let old = found.map_or(1, |at| self.group.pending[at].deliveries);
        let deliveries = terms.deliveries.unwrap_or(old.wrapping_add(u64::from(!terms.ids_only)));
        let delivered_ms = terms.delivered_ms;
        let new = Pending { id, delivered_ms, deliveries, consumer };
        match found {
            Ok(at) => self.group.pending[at] = new,
            Err(at) => self.group.pending.insert(at, new),
        }
        self.claimed.entry(deliveries).or_default().push(id);
        self.answered += 1;
        if terms.ids_only {
            self.reply.bulk(id_text(id).as_bytes());
        } else {
            answer_entry(&entry, &mut self.reply);
        }
    }

    /// The commands to log, once nothing more is claimed.
    fn finish(mut self, key: &[u8]) -> Claimed {
        let mut logged = Vec::new();
        if !self.gone.is_empty() {
            self.group.acknowledge(&self.gone);
            let mut command = words(&[b"XACK", key, &self.group.name]);
            command.extend(self.gone.iter().map(|&id| id_text(id).into_bytes()));
            logged.push(command);
        }
        for (&deliveries, ids) in &mut self.claimed {
            let how = (self.terms.delivered_ms, deliveries);
            logged.push(logged_claim(key, (self.group, self.name), ids, how));
        }
        Claimed {
            logged,
            gone: self.gone,
            answered: self.answered,
            reply: self.reply.bytes().to_vec(),
            is_new_consumer: self.is_new_consumer,
        }
    }
}

struct Claimed {
    logged: Vec<Logged>,
    gone: Vec<StreamId>,
    answered: usize,
    reply: Vec<u8>,
    is_new_consumer: bool,
}

impl Claimed {
    fn event(&self) -> Option<Event> {
        self.is_new_consumer.then(|| Event::stream("xgroup-createconsumer"))
    }
}

/// The stream with the requested pending entries of the request's group, and the entries that `asks` names; its groups, and
/// the index of that group.
fn find_group(
    ctx: &mut Ctx<'_, '_>,
    pending: PendingAsked<'_>,
    asks: &dyn Fn(StreamView<'_>) -> Vec<Span>,
) -> Result<(Held, Vec<Group>, usize), CommandError> {
    let (key, name) = (ctx.args.get(1), ctx.args.get(2));
    let held = hold(ctx, (Purpose::Read, key), (name, pending), asks)?
        .ok_or_else(|| no_key_or_group(key, name))?;
    let groups = held.view().groups();
    let at = group_at(&groups, name).ok_or_else(|| no_key_or_group(key, name))?;
    Ok((held, groups, at))
}

fn int_or(text: &[u8], error: &'static str) -> Result<i64, CommandError> {
    parse_i64(text).ok_or(CommandError::text(error))
}

/// XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME ms] [RETRYCOUNT count] [FORCE] [JUSTID]
/// [LASTID id]. Logged by outcome.
pub(super) fn xclaim(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (args, key) = (ctx.args, ctx.args.get(1));
    let now_ms = wall_ms(ctx);
    let ids: Vec<_> = args.from(5).map_while(|id| parse_strict(id, 0).ok()).collect();
    let pending = PendingAsked::Ids(&ids);
    let (mut held, mut groups, at) = find_group(ctx, pending, &|_| each(ids.iter().copied()))?;
    let idle_min_ms = int_or(args.get(4), "ERR Invalid min-idle-time argument for XCLAIM")?;
    let (mut delivered_ms, mut retries, mut last_id) = (-1, -1, LOWEST);
    let (mut force, mut ids_only) = (false, false);
    let mut word_at = 5 + ids.len();
    while word_at < args.len() {
        let word = args.get(word_at);
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        let next = (word_at + 1 < args.len()).then(|| args.get(word_at + 1));
        word_at += 2;
        match next {
            _ if is(b"FORCE") => {
                force = true;
                word_at -= 1;
            }
            _ if is(b"JUSTID") => {
                ids_only = true;
                word_at -= 1;
            }
            Some(ms) if is(b"IDLE") => {
                let idle_ms = int_or(ms, "ERR Invalid IDLE option argument for XCLAIM")?;
                delivered_ms = (now_ms as i64).wrapping_sub(idle_ms);
            }
            Some(ms) if is(b"TIME") => {
                delivered_ms = int_or(ms, "ERR Invalid TIME option argument for XCLAIM")?;
            }
            Some(count) if is(b"RETRYCOUNT") => {
                retries = int_or(count, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
            }
            Some(id) if is(b"LASTID") => last_id = parse_strict(id, 0)?,
            _ => {
                return Err(CommandError::quoting("ERR Unrecognized XCLAIM option '", word, "'"));
            }
        }
    }
    let delivered_ms = u64::try_from(delivered_ms).unwrap_or(now_ms).min(now_ms);
    let deliveries = u64::try_from(retries).ok();
    let terms = Terms { idle_min_ms, now_ms, delivered_ms, deliveries, ids_only, force };
    let group = &mut groups[at];
    let moves = last_id > group.last_id;
    group.last_id = group.last_id.max(last_id);
    let mut claims = Claims::new(held.view(), group, args.get(3), terms, ctx.out.is_resp3());
    ids.into_iter().for_each(|id| claims.claim(id));
    let mut claimed = claims.finish(key);
    // XACK alone does not move the group.
    if moves && claimed.answered == 0 {
        claimed.logged.push(logged_position(key, &groups[at]));
    }
    let event = claimed.event();
    store(ctx, key, (&mut held, &groups), event, &claimed.logged)?;
    ctx.out.array(claimed.answered);
    ctx.out.raw(&claimed.reply);
    Ok(())
}

/// XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]. Logged by outcome.
pub(super) fn xautoclaim(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (args, key) = (ctx.args, ctx.args.get(1));
    let now_ms = wall_ms(ctx);
    let idle_min_ms = int_or(args.get(4), "ERR Invalid min-idle-time argument for XAUTOCLAIM")?;
    let start = parse_start(args.get(5))?;
    let (mut count, mut ids_only, mut word_at) = (COUNT, false, 6);
    while word_at < args.len() {
        let word = args.get(word_at);
        if word.eq_ignore_ascii_case(b"COUNT") && word_at + 1 < args.len() {
            count = parse_i64(args.get(word_at + 1))
                .filter(|number| (1..=COUNT_MAX).contains(number))
                .ok_or(CommandError::text("ERR COUNT must be > 0"))? as u64;
            word_at += 2;
        } else if word.eq_ignore_ascii_case(b"JUSTID") {
            ids_only = true;
            word_at += 1;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    // The pending entries to examine, and the next one.
    let most = usize::try_from(count.saturating_mul(LOOKS)).unwrap_or(usize::MAX);
    let pending = |group: &Group| -> Vec<StreamId> {
        let first = group.find_pending(start).unwrap_or_else(|at| at);
        let pending = group.pending[first..].iter().take(most.saturating_add(1));
        pending.map(|pending| pending.id).collect()
    };
    let asks = |stream: StreamView<'_>| {
        let groups = stream.groups();
        let group = group_at(&groups, args.get(2)).map(|at| &groups[at]);
        each(group.map(pending).unwrap_or_default().into_iter())
    };
    let span = PendingSpan { start, most: most.saturating_add(1), ..PendingSpan::ALL };
    let (mut held, mut groups, at) = find_group(ctx, PendingAsked::Span(span), &asks)?;
    let group = &mut groups[at];
    let ids = pending(group);
    let terms = Terms {
        idle_min_ms,
        now_ms,
        delivered_ms: now_ms,
        deliveries: None,
        ids_only,
        force: false,
    };
    let mut claims = Claims::new(held.view(), group, args.get(3), terms, ctx.out.is_resp3());
    let mut looked = 0;
    for &id in &ids {
        let taken = (claims.answered + claims.gone.len()) as u64;
        if taken == count || looked as u64 == count.saturating_mul(LOOKS) {
            break;
        }
        looked += 1;
        claims.claim(id);
    }
    let next = ids.get(looked).copied().unwrap_or(LOWEST);
    let claimed = claims.finish(key);
    let event = claimed.event();
    store(ctx, key, (&mut held, &groups), event, &claimed.logged)?;
    ctx.out.array(3);
    ctx.out.bulk(id_text(next).as_bytes());
    ctx.out.array(claimed.answered);
    ctx.out.raw(&claimed.reply);
    ctx.out.array(claimed.gone.len());
    claimed.gone.iter().for_each(|&id| ctx.out.bulk(id_text(id).as_bytes()));
    Ok(())
}
