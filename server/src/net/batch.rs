//! Runs the requests of one read in order, on the short path while they meet no obstacle.

use super::worker::WorkerState;
use crate::client_memory::RequestBounds;
use crate::dispatch::client::Client;
use crate::dispatch::{Args, CommandSpec, Executor, Outcome, Traits, Way, logged_form};
use crate::resp::Request;
use crate::server::Server;
use sexton_engine::{Engine, KEY_MAX_BYTES, Seq};
use std::ops::Range;
use std::time::Instant;

/// Replies of one turn after which they are sent before more is executed, in bytes.
pub(super) const TURN_REPLY_BYTES: usize = 256 * 1024;

/// Maximum number of plain requests that are timed together. With more, a slow one could be identified less precisely.
const TIMED_TOGETHER: usize = 64;

/// Requests that share an answer to whether writes are allowed. One batch may have more.
pub(super) const GRANTED: usize = 64;

/// Longer requests do not share a transaction with others: they may go to another device than those.
const JOINED_MAX_BYTES: u64 = 1024;

/// Larger keys and values take the long way, where their size is checked.
const LONG_WAY_BYTES: usize = 64 * 1024;

/// What is known about a request before it runs.
pub(super) struct Plan {
    pub(super) kind: Kind,
    pub(super) hash: u64,
    /// Bytes of key and value, as far as the request contains them.
    pub(super) content_bytes: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Get,
    Set,
    /// Another command of the short way.
    Short(&'static CommandSpec),
    /// Any other one, or none that there is.
    Other(Option<&'static CommandSpec>),
}

impl Kind {
    /// Name of a command of the short path.
    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Short(spec) => spec.name,
            _ => "set",
        }
    }

    /// True of a command of the short path whose first argument is a key.
    pub(super) fn begins_with_key(self) -> bool {
        match self {
            Self::Get | Self::Set => true,
            Self::Short(spec) => !spec.answers_alone(),
            Self::Other(_) => false,
        }
    }

    /// The row of a command of the short path.
    fn spec(self, executor: &Executor) -> Option<&'static CommandSpec> {
        match self {
            Self::Get => executor.plain_get(),
            Self::Set => executor.plain_set(),
            Self::Short(spec) => Some(spec),
            Self::Other(_) => None,
        }
    }

    /// The row of a command of the short path that is neither a plain GET nor a plain SET.
    fn short(self) -> Option<&'static CommandSpec> {
        match self {
            Self::Short(spec) => Some(spec),
            _ => None,
        }
    }

    /// True for requests that are timed together with others.
    fn is_timed_together(self) -> bool {
        match self {
            Self::Get | Self::Set => true,
            Self::Short(spec) => spec.is_timed_together(),
            Self::Other(_) => false,
        }
    }
}

/// Facts that requests of the short path need, determined when the first of them needs them and again after each other request.
#[derive(Default)]
struct Asked {
    may_write: Option<bool>,
    bounds: Option<RequestBounds>,
    /// Requests before this one each have a transaction of their own.
    apart_until: usize,
}

impl Asked {
    /// True when writes of this batch, which has `requests`, may take the short way. The batches before it in this turn of
    /// the worker may have left an answer, which holds for [`GRANTED`] requests: what begins to refuse or to slow writes
    /// meanwhile is noticed behind them, as within one batch.
    fn may_write(
        &mut self,
        executor: &Executor,
        server: &Server,
        (granted, requests): (&mut usize, usize),
    ) -> bool {
        *self.may_write.get_or_insert_with(|| {
            if *granted == 0 && executor.is_fast_write(server) {
                *granted = GRANTED;
            }
            let may = *granted != 0;
            *granted = granted.saturating_sub(requests);
            may
        })
    }

    fn bounds(&mut self, server: &Server, client: &Client) -> RequestBounds {
        *self.bounds.get_or_insert_with(|| RequestBounds::of(server, &client.session))
    }
}

/// One pass over the requests of a batch.
pub(super) struct BatchRun<'a> {
    pub(super) server: &'a Server,
    pub(super) worker: &'a mut WorkerState,
    pub(super) client: &'a mut Client,
    pub(super) buf: &'a [u8],
    pub(super) now_ms: u64,
    pub(super) required: &'a mut Seq,
    pub(super) commands: &'a mut u64,
    pub(super) last: &'a mut &'static str,
}

impl<'a> BatchRun<'a> {
    /// Executes the requests in order. `Some((index, why))` if the one at `index` did not run; no
    /// reason means that the replies should be sent first, or that the connection has used its [`Slice`](super::worker::Slice).
    pub(super) fn run(&mut self) -> Option<(usize, Option<Outcome>)> {
        self.plan();
        let requests = self.worker.batch.requests.len();
        if !self.worker.executor.make_room(self.server, requests) {
            self.worker.granted = 0;
        }
        self.tell_before();
        let mut way = self.worker.executor.way(self.server, self.client);
        if way == Way::Short {
            self.look_ahead();
        }
        let mut asked = Asked::default();
        let mut together = self.times_together();
        // When the plain requests that are not in the statistics yet have begun.
        let mut begun = Instant::now();
        self.worker.slice.passes(begun);
        // These requests.
        let mut plain = 0..0;
        let mut stop = None;
        let mut index = 0;
        while index < self.worker.batch.requests.len() {
            if self.worker.reply.whole_len() > TURN_REPLY_BYTES
                || (self.worker.slice.is_over && index > 0)
            {
                stop = Some((index, None));
                break;
            }
            let request = self.worker.batch.requests[index];
            let kind = self.worker.plan[index].kind;
            if !kind.is_timed_together() {
                begun = self.record_stats(plain, begun);
                plain = 0..0;
            }
            if way == Way::Queue && self.queue(kind, &mut asked, index, &request) {
                *self.commands += 1;
                *self.last = kind.name();
                index += 1;
                continue;
            }
            let most = together - plain.len();
            if way == Way::Short
                && let ran @ 1.. = self.run_plain(kind, &mut asked, index, (&request, most))
            {
                *self.commands += ran as u64;
                if plain.is_empty() {
                    plain.start = index;
                }
                index += ran;
                plain.end = index;
                *self.last = self.worker.plan[index - 1].kind.name();
                if plain.len() >= together || !kind.is_timed_together() {
                    begun = self.record_stats(plain, begun);
                    plain = 0..0;
                }
                if self.client.closing {
                    break;
                }
                continue;
            }
            self.record_stats(plain, begun);
            plain = 0..0;
            let worker = &mut *self.worker;
            let args = Args::new(self.buf, worker.batch.args(&request));
            let outcome = worker.executor.execute(
                self.server,
                self.client,
                args,
                &mut worker.reply,
                self.now_ms,
            );
            let Outcome::Done(required) = outcome else {
                stop = Some((index, Some(outcome)));
                break;
            };
            *self.required = required.max(*self.required);
            *self.commands += 1;
            let spec = match kind {
                Kind::Short(spec) => Some(spec),
                Kind::Other(spec) => spec,
                Kind::Get | Kind::Set => worker.executor.table().find(args.get(0)),
            };
            *self.last = spec.map_or("NULL", |spec| spec.name);
            index += 1;
            if self.client.closing {
                break;
            }
            way = self.worker.executor.way(self.server, self.client);
            asked = Asked::default();
            self.worker.granted = 0;
            together = self.times_together();
            begun = Instant::now();
            self.worker.slice.passes(begun);
        }
        self.record_stats(plain, begun);
        stop
    }

    /// Keeps the tracking table within its limit. Invalidations for this client, also for evicted keys, are sent before its
    /// replies, as in Redis.
    fn tell_before(&mut self) {
        self.server.events.tracking.keep_limit(self.server.post());
        let (session, reply) = (&self.client.session, &mut self.worker.reply);
        if session.tracking.is_on() && session.outbox.bytes() != 0 && reply.is_empty() {
            let parcel = session.outbox.take();
            let required = parcel.marks.last().map_or(0, |&(_, required)| required);
            *self.required = required.max(*self.required);
            reply.raw(&parcel.bytes);
        }
    }

    /// Number of plain requests that are timed together. Reading the clock costs a third of a plain GET, so it is read per
    /// request only if the slow log or latency monitor is set to such short times.
    fn times_together(&self) -> usize {
        let observe = &self.server.observe;
        let together = observe.slowlog.times_together() && observe.latency.threshold_ms() == 0;
        if together { TIMED_TOGETHER } else { 1 }
    }

    /// The plain requests at these indexes ran since `begun`; returns until when.
    fn record_stats(&mut self, plain: Range<usize>, begun: Instant) -> Instant {
        if plain.is_empty() {
            return begun;
        }
        let now = Instant::now();
        self.worker.slice.passes(now);
        let time_us = now.saturating_duration_since(begun).as_micros() as u64;
        let worker = &mut *self.worker;
        let first = Args::new(self.buf, worker.batch.args(&worker.batch.requests[plain.start]));
        worker.executor.record_stats(self.server, self.client, first, time_us);
        now
    }

    /// First pass over all requests: finds the plain ones, and prefetches their keys' cache lines.
    fn plan(&mut self) {
        let engine = &self.server.engine;
        let worker = &mut *self.worker;
        let several = worker.batch.requests.len() > 1;
        worker.plan.clear();
        // A batch mostly has the same command again and again.
        let mut known: Option<(&[u8], &'static CommandSpec)> = None;
        for request in &worker.batch.requests {
            let args = Args::new(self.buf, worker.batch.args(request));
            let name = args.get(0);
            let mut find = |name| match known {
                Some((before, spec)) if before == name => Some(spec),
                _ => {
                    let spec = worker.executor.table().find(name)?;
                    known = Some((name, spec));
                    Some(spec)
                }
            };
            // The position of its first key in most commands.
            let mut key_at = 1;
            let kind = match (name, args.len()) {
                ([b'G' | b'g', b'E' | b'e', b'T' | b't'], 2) => Kind::Get,
                ([b'S' | b's', b'E' | b'e', b'T' | b't'], 3) => Kind::Set,
                (name, len) => match find(name) {
                    Some(spec) if spec.is_short() && spec.accepts(len) => Kind::Short(spec),
                    Some(spec) => {
                        key_at = spec.key_count.map_or(1, |at| at + 1);
                        Kind::Other(Some(spec))
                    }
                    None => Kind::Other(None),
                },
            };
            let mut hash = 0;
            let is_other = matches!(kind, Kind::Other(_));
            if kind.begins_with_key() || (is_other && several && args.len() > key_at) {
                hash = engine.hash(args.get(key_at));
                if several {
                    engine.prefetch_bucket(hash);
                }
            }
            let content_bytes = match kind {
                Kind::Set => args.get(1).len() + args.get(2).len(),
                _ => Engine::SHORT_ENTRY_BYTES,
            };
            worker.plan.push(Plan { kind, hash, content_bytes });
        }
        if several {
            let mut before = 0;
            for plan in &worker.plan {
                if std::mem::replace(&mut before, plan.hash) == plan.hash || plan.hash == 0 {
                    continue;
                }
                engine.prefetch_entry(plan.hash, plan.content_bytes);
                if matches!(plan.kind, Kind::Short(spec) if spec.traits.has(Traits::DELETES)) {
                    engine.prefetch_removal(plan.hash);
                }
            }
        }
    }

    /// Asks for what the requests of the short path need beyond their keys' entries.
    fn look_ahead(&mut self) {
        let WorkerState { executor, batch, plan, .. } = &mut *self.worker;
        let requests = plan.iter().zip(&batch.requests).filter_map(|(plan, request)| {
            let Kind::Short(spec) = plan.kind else { return None };
            Some((spec, Args::new(self.buf, batch.args(request)), plan.hash))
        });
        executor.look_ahead(self.server, self.client.db, requests);
    }

    /// False if the user has no right to the request, or it writes and writes need the long path, which says why.
    #[inline]
    fn is_permitted(&mut self, kind: Kind, asked: &mut Asked, request: &Request) -> bool {
        let worker = &mut *self.worker;
        if self.client.identity.is_restricted() {
            let args = Args::new(self.buf, worker.batch.args(request));
            let spec = kind.spec(&worker.executor);
            if spec.is_none_or(|spec| self.client.check_rights(spec, args).is_err()) {
                return false;
            }
        }
        let writes = match kind {
            Kind::Set => true,
            Kind::Short(spec) => spec.asks_like_a_write(),
            Kind::Get | Kind::Other(_) => false,
        };
        let permit = (&mut worker.granted, worker.batch.requests.len());
        !writes || asked.may_write(&worker.executor, self.server, permit)
    }

    /// Queues a request for EXEC; false if it must take the long path.
    fn queue(&mut self, kind: Kind, asked: &mut Asked, index: usize, request: &Request) -> bool {
        let bounds = asked.bounds(self.server, self.client);
        if u64::from(request.end - request.start) > bounds.unasked_max_bytes
            || !self.is_permitted(kind, asked, request)
        {
            return false;
        }
        let worker = &mut *self.worker;
        let Some(spec) = kind.spec(&worker.executor) else { return false };
        let ranges = worker.batch.args(request);
        let hash = kind.begins_with_key().then_some(worker.plan[index].hash);
        let args = Args::new(self.buf, ranges).logged_as(as_logged(self.buf, request, ranges));
        let request = (spec, args.hashed(hash));
        let max_bytes = bounds.unasked_max_bytes;
        Executor::fast_queue(self.client, request, max_bytes, &mut worker.reply)
    }

    /// How many requests from this one on, `most` at most, may run in one transaction: they are short, on one key, and their user may
    /// make them.
    #[inline]
    fn joined(&mut self, asked: &mut Asked, index: usize, most: usize) -> usize {
        let hash = self.worker.plan[index].hash;
        let end = (index + most).min(self.worker.plan.len());
        if index + 1 >= end || self.worker.plan[index + 1].hash != hash {
            return 1;
        }
        let max_bytes = asked.bounds(self.server, self.client).unasked_max_bytes;
        let max_bytes = max_bytes.min(JOINED_MAX_BYTES);
        let key = self.key_to_join(index, max_bytes).filter(|_| Executor::joins(self.client));
        if key.is_none() {
            return 1;
        }
        let mut next = index + 1;
        while next < end
            && self.worker.plan[next].hash == hash
            && self.key_to_join(next, max_bytes) == key
        {
            let (kind, request) = (self.worker.plan[next].kind, self.worker.batch.requests[next]);
            if !self.is_permitted(kind, asked, &request) {
                break;
            }
            next += 1;
        }
        next - index
    }

    /// The key of a request of at most so many bytes that may share a transaction with others on it.
    fn key_to_join(&self, at: usize, max_bytes: u64) -> Option<&'a [u8]> {
        let (plan, request) = (&self.worker.plan[at], &self.worker.batch.requests[at]);
        let joins = plan.kind.short().is_some_and(CommandSpec::shares_transaction)
            && u64::from(request.end - request.start) <= max_bytes;
        let (start, end) = *self.worker.batch.args(request).get(1).filter(|_| joins)?;
        self.buf.get(start as usize..end as usize)
    }

    /// Runs requests on the short path, `most` at most; answers how many. 0: this one must take the long one.
    fn run_plain(
        &mut self,
        kind: Kind,
        asked: &mut Asked,
        index: usize,
        (request, most): (&Request, usize),
    ) -> usize {
        if !self.is_permitted(kind, asked, request) {
            return 0;
        }
        let joined = if index < asked.apart_until { 1 } else { self.joined(asked, index, most) };
        let worker = &mut *self.worker;
        let args = Args::new(self.buf, worker.batch.args(request));
        let hash = worker.plan[index].hash;
        let (server, out) = (self.server, &mut worker.reply);
        let required = match kind {
            Kind::Get => {
                worker.executor.fast_get(server, self.client, args.get(1), hash, out, self.now_ms)
            }
            Kind::Set => {
                let logged = match as_logged(self.buf, request, worker.batch.args(request)) {
                    Some((start, end)) => &self.buf[start as usize..end as usize],
                    None => {
                        logged_form(&mut worker.log_form, args);
                        &worker.log_form
                    }
                };
                let (key, value) = (args.get(1), args.get(2));
                if value.len() > LONG_WAY_BYTES || key.len() > LONG_WAY_BYTES.min(KEY_MAX_BYTES) {
                    return 0;
                }
                let now_ms = self.now_ms;
                let client = &mut *self.client;
                let executor = &mut worker.executor;
                executor.fast_set(server, client, key, hash, value, logged, out, now_ms)
            }
            Kind::Short(spec) => {
                let bounds = asked.bounds(server, self.client);
                if u64::from(request.end - request.start) > bounds.unasked_max_bytes {
                    return 0;
                }
                let times = (self.now_ms, bounds.reply_max_bytes);
                let (batch, plan, buf) = (&worker.batch, &worker.plan, self.buf);
                let request = |at: usize| {
                    let (plan, request) = (&plan[at], &batch.requests[at]);
                    let range = as_logged(buf, request, batch.args(request));
                    let args = Args::new(buf, batch.args(request)).logged_as(range);
                    (plan.kind.short().unwrap_or(spec), args.hashed(plan.hash))
                };
                if joined > 1 {
                    let requests = (index..index + joined).map(request);
                    let ran =
                        worker.executor.run_together(server, self.client, requests, out, times);
                    if let Some((ran, required)) = ran {
                        *self.required = required.max(*self.required);
                        return ran;
                    }
                    // One of them has met what it will meet again by itself.
                    asked.apart_until = index + joined;
                }
                worker.executor.run_short(server, self.client, request(index), out, times)
            }
            Kind::Other(_) => None,
        };
        match required {
            Some(required) => {
                *self.required = required.max(*self.required);
                1
            }
            None => 0,
        }
    }
}

/// The position of a request whose bytes are already its log form.
fn as_logged(buf: &[u8], request: &Request, args: &[(u32, u32)]) -> Option<(u32, u32)> {
    let is_canonical = request.array
        && args.iter().all(|&(_, end)| buf.get(end as usize..end as usize + 2) == Some(b"\r\n"));
    is_canonical.then_some((request.start, request.end))
}
