//! One connection: read, execute everything that has arrived, write once.
//!
//! A connection's whole life is one poll function without an await in between, so that it can borrow the
//! worker's buffers while a batch runs. An idle connection owns no buffer.

use super::batch::{BatchRun, Kind};
use super::handed_over::{OWN_BUFFER_BYTES, Offloaded};
use super::helper::HelperPool;
use super::output::Output;
use super::room::{READ_STEP_BYTES, room_to_make};
use super::stream::Stream;
use super::worker::{READ_BUFFER_BYTES, WorkerState};
use crate::auth::Identity;
use crate::blocking::Waiter;
use crate::client_eviction::{TASK_BYTES, evict_clients};
use crate::client_memory::{load_max_bytes, reply_max_bytes, request_max_bytes};
use crate::clock::now_ms;
use crate::dispatch::client::Client;
use crate::dispatch::{Args, LogWait, OUT_OF_MEMORY, Outcome, PIECE_BYTES};
use crate::keyspace::Pins;
use crate::resp::{Limits, ProtocolError, Scanner};
use crate::server::Server;
use crate::session::Session;
use parking_lot::Mutex;
use sexton_engine::{EngineError, LoadPin, OwnedKey, Seq, Want};
use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// Number of requests behind one that waits for a device whose keys are loaded along with it.
const LOAD_AHEAD_REQUESTS: usize = 128;

/// Time after which a waiting request's client, if it sends nothing more, is assumed to have left.
const SOON: Duration = Duration::from_secs(1);

/// Turns before other connections get theirs.
const TURNS: usize = 16;

/// Maximum pending input of an unauthenticated client, in bytes.
const UNAUTHENTICATED_INPUT_BYTES: usize = 1 << 20;

/// The reason why a connection is suspended.
pub(super) enum Parked {
    /// Cold keys are being read.
    Load(Arc<Mutex<Option<Result<LoadPin, EngineError>>>>),
    /// A moment must pass.
    Timer(Pin<Box<Sleep>>),
    /// WAITAOF, or CLIENT PAUSE: ended by another client, by a timeout, or by a disconnect.
    Blocked(Blocked),
    /// A helper thread runs the request.
    Helper(Arc<Mutex<Option<Helped>>>),
    /// The next piece of a long reply follows when most of what precedes it is sent.
    Unsent,
}

/// A request that waits for an event that may never happen.
pub(super) struct Blocked {
    /// When it is run again in any case; `None`: not by time.
    timer: Option<Pin<Box<Sleep>>>,
    /// It is run again when this has ended; `None`: when CLIENT PAUSE has.
    wait: Option<LogWait>,
    /// It waits for a key to have something.
    waiter: Option<Arc<Waiter>>,
}

/// What a helper thread gives back.
pub(super) struct Helped {
    pub(super) client: Box<Client>,
    pub(super) reply: Vec<u8>,
    pub(super) required: Seq,
}

pub(super) struct Connection {
    pub(super) server: Arc<Server>,
    pub(super) helpers: Arc<HelperPool>,
    pub(super) stream: Stream,
    pub(super) session: Arc<Session>,
    /// Absent while a helper thread has it.
    pub(super) client: Option<Box<Client>>,
    scanner: Scanner,
    /// Bytes that could not be executed yet, from `input_start` on.
    input: Vec<u8>,
    input_start: usize,
    /// True if `input` may contain a complete request.
    input_ready: bool,
    /// Replies that are not sent yet.
    pub(super) output: Output,
    /// (position in `output`, sequence): from there on nothing leaves before it is durable (N13).
    pub(super) held: VecDeque<(u64, Seq)>,
    /// The round in which it last asked to be woken by the durable sequence.
    pub(super) holding_round: u64,
    pub(super) parked: Option<Parked>,
    /// A request that a helper thread is to run.
    pub(super) offloaded: Option<Offloaded>,
    /// Keep what was loaded for the first request of the input, until it has run.
    pins: Pins,
    /// Keys of later requests are loaded along with those of the first: not if they were too large together.
    loads_ahead: bool,
    pub(super) closing: bool,
    started: bool,
    /// `output` is sent at the end of the worker's turn.
    pub(super) deferred: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(client) = &mut self.client {
            client.unwatch(&self.server);
            client.end_runs(&self.server);
            if let Some(waiter) = client.waiter.take() {
                waiter.give_up();
                self.server.blocking.remove(&waiter);
            }
            client.subscriptions.clear(&self.server.events.pubsub, &self.session);
            client.stop_tracking(&self.server);
        }
        if self.session.monitor.load(Ordering::Relaxed) {
            self.server.observe.monitors.stop(self.session.id);
        }
        self.server.sessions.close(self.session.id);
        self.server.client_memory.note(&self.session, 0);
    }
}

impl Connection {
    pub(super) fn new(
        server: Arc<Server>,
        helpers: Arc<HelperPool>,
        stream: Stream,
        session: Arc<Session>,
    ) -> Self {
        let client = Some(Box::new(Client::new(&server, Arc::clone(&session))));
        Self {
            server,
            helpers,
            stream,
            session,
            client,
            scanner: Scanner::default(),
            input: Vec::new(),
            input_start: 0,
            input_ready: false,
            output: Output::default(),
            held: VecDeque::new(),
            holding_round: 0,
            parked: None,
            offloaded: None,
            pins: Pins::default(),
            loads_ahead: true,
            closing: false,
            started: false,
            deferred: false,
        }
    }

    /// Its certificate has shown that it is this user.
    pub(super) fn act_as(&mut self, identity: Identity) {
        if let Some(client) = &mut self.client {
            client.act_as(identity);
        }
    }

    /// Sets the input that the client sent before the connection was created.
    pub(super) fn begin_with(&mut self, unread: Vec<u8>) {
        self.count_input(unread.len());
        self.input_ready = !unread.is_empty();
        self.input = unread;
    }

    /// Makes as much progress as possible; ready when the connection has ended.
    pub(super) fn poll(&mut self, worker: &mut WorkerState, cx: &mut Context<'_>) -> Poll<()> {
        if !self.started {
            self.started = true;
            self.session.set_task(cx.waker().clone());
        }
        let polled = self.turns(worker, cx);
        if polled.is_ready() && self.deferred {
            // It is over whether or not this succeeds.
            let _ = self.flush(worker, cx);
        }
        self.note_buffers();
        // Output sent at the end of the worker's turn is not counted: no key is evicted for it.
        if !self.deferred {
            self.note_memory();
        }
        polled
    }

    /// Publishes the fill level and the size of the buffers.
    pub(super) fn note_buffers(&self) {
        let session = &self.session;
        let parsed = self.scanner.parsed_bytes().min(self.input.len() - self.input_start);
        session.parsed_bytes.store(parsed, Ordering::Relaxed);
        let query = self.input.len() - self.input_start - parsed;
        session.query_bytes.store(query, Ordering::Relaxed);
        let free = self.input.capacity() - self.input.len() + self.input_start;
        session.query_free_bytes.store(free, Ordering::Relaxed);
        session.output_bytes.store(self.output.unsent(), Ordering::Relaxed);
        session.output_buffer_bytes.store(self.output.held_bytes(), Ordering::Relaxed);
    }

    /// Publishes the connection's memory; all connections together must stay within their share of the memory bound.
    pub(super) fn note_memory(&mut self) {
        let Some(client) = &self.client else { return };
        let beside =
            client.held_bytes() + self.scanner.held_bytes() + self.stream.held_bytes() + TASK_BYTES;
        self.session.beside_bytes.store(beside, Ordering::Relaxed);
        let bytes = self.session.memory_bytes();
        if bytes == self.session.noted_bytes.load(Ordering::Relaxed) {
            return;
        }
        let server = &self.server;
        server.client_memory.note(&self.session, bytes);
        evict_clients(server);
        if self.session.is_killed() {
            self.input = Vec::new();
            self.input_start = 0;
            self.input_ready = false;
        }
    }

    fn turns(&mut self, worker: &mut WorkerState, cx: &mut Context<'_>) -> Poll<()> {
        worker.slice.begin();
        for turn in 0..TURNS {
            if worker.slice.is_over {
                break;
            }
            self.empty_outbox();
            let waits = turn > 0 && self.deferred && self.may_defer(0);
            if !waits && self.flush(worker, cx).is_err() {
                return Poll::Ready(());
            }
            if self.parked.is_some() {
                if self.poll_parked(worker, cx).is_ready() {
                    if self.client.as_ref().is_some_and(|client| client.search.is_some()) {
                        // Whatever it needs is in memory: others come in between.
                        break;
                    }
                    continue;
                }
                let helped = matches!(self.parked, Some(Parked::Helper(_)));
                return if self.has_left(cx) || (self.session.is_killed() && !helped) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                };
            }
            if self.session.is_killed() {
                return Poll::Ready(());
            }
            let unsent = self.output.unsent();
            if self.closing {
                return if unsent == 0 { Poll::Ready(()) } else { Poll::Pending };
            }
            let settings = &self.server.settings;
            let limit = self.server.output_limit_of(&self.session);
            if unsent > 0 && limit.enforce(&self.session, unsent as u64) {
                return Poll::Ready(());
            }
            let held_max = settings.held_max_bytes.load(Ordering::Relaxed) as usize;
            let pause = settings.output_limit.pause_bytes().min(reply_max_bytes(&self.server));
            if unsent as u64 > pause || (!self.held.is_empty() && unsent > held_max) {
                return Poll::Pending;
            }
            if !self.input_ready {
                match self.read(worker, cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(0)) => self.closing = true,
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                }
            } else {
                self.run_own_input(worker, cx);
            }
        }
        // All others that are ready, and those whose requests have arrived meanwhile, are served before it goes on.
        let _ = pin!(tokio::task::yield_now()).poll(cx);
        Poll::Pending
    }

    /// Reads once and runs the requests: from the worker's buffer, unless some input is left over.
    fn read(
        &mut self,
        worker: &mut WorkerState,
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<usize>> {
        if self.input.len() > self.input_start {
            self.compact_input();
            let wanted = self.scanner.wanted_bytes(self.input.len());
            let room = room_to_make(self.input.len(), self.input.capacity(), wanted);
            if self.input.try_reserve_exact(room).is_err() {
                // Where the system promises no more memory than it has, the buffer doubles.
                self.input.reserve_exact(room.min(self.input.len().max(READ_STEP_BYTES)));
            }
            let read = self.stream.poll_read(cx, &mut self.input);
            if let Poll::Ready(Ok(count @ 1..)) = read {
                self.count_input(count);
                self.check_input_limit();
                // A large request counts while it arrives: its memory is released once it has run.
                self.note_buffers();
                self.note_memory();
                // While an argument is known to be incomplete there is nothing to look for.
                if count < wanted {
                    worker.slice.passes(Instant::now());
                } else if !self.closing && !self.session.is_killed() {
                    self.run_own_input(worker, cx);
                }
            }
            return read;
        }
        self.input = Vec::new();
        self.input_start = 0;
        let mut buffer = std::mem::take(&mut worker.read_buffer);
        // A panic may have taken it away; reading into no room looks like the end of the stream.
        buffer.reserve(READ_BUFFER_BYTES);
        let read = self.stream.poll_read(cx, &mut buffer);
        if let Poll::Ready(Ok(count @ 1..)) = read {
            self.count_input(count);
            let used = self.process(worker, &mut buffer, cx);
            self.offload(&buffer);
            self.input.extend_from_slice(&buffer[used..]);
        }
        buffer.clear();
        worker.read_buffer = buffer;
        read
    }

    fn count_input(&self, count: usize) {
        self.session.input_total_bytes.fetch_add(count as u64, Ordering::Relaxed);
        self.server.observe.traffic.input_bytes.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn check_input_limit(&mut self) {
        let limit = self.server.settings.query_buffer_max_bytes.load(Ordering::Relaxed) as usize;
        // Positions in the buffer are 32 bits wide, whatever the limit.
        let limit = limit.min(u32::MAX as usize - READ_STEP_BYTES);
        let is_known =
            self.client.as_ref().is_some_and(|client| !client.must_authenticate(&self.server));
        let limit = if is_known { limit } else { limit.min(UNAUTHENTICATED_INPUT_BYTES) };
        if self.input.len() > limit {
            self.input = Vec::new();
            self.input_start = 0;
            self.output.clear();
            self.held.clear();
            self.closing = true;
        }
    }

    fn compact_input(&mut self) {
        if self.input_start != 0 {
            self.input.drain(..self.input_start);
            self.input_start = 0;
        }
    }

    fn run_own_input(&mut self, worker: &mut WorkerState, cx: &mut Context<'_>) {
        let mut input = std::mem::take(&mut self.input);
        let start = self.input_start;
        self.input_start += self.process(worker, &mut input[start..], cx);
        if self.input_start - start >= OWN_BUFFER_BYTES && self.offloaded.is_some() {
            let rest = input.split_off(self.input_start);
            self.offload_with(input, start);
            (input, self.input_start) = (rest, 0);
        } else {
            self.offload(&input[start..]);
        }
        self.input = input;
        if self.input_start == self.input.len() {
            self.input = Vec::new();
            self.input_start = 0;
            self.input_ready = false;
        } else if self.input_start > self.input.len() / 2 {
            self.compact_input();
        }
    }

    /// Executes the complete requests at the start of `buf` and returns how many bytes are done.
    fn process(&mut self, worker: &mut WorkerState, buf: &mut [u8], cx: &mut Context<'_>) -> usize {
        let Some(mut client) = self.client.take() else { return 0 };
        worker.turn_batches += 1;
        // Until the batch has run, its input is accounted to the connection.
        self.session.query_bytes.store(buf.len(), Ordering::Relaxed);
        let now_ms = now_ms();
        let mut used = 0;
        let mut commands = 0;
        let mut required = 0;
        let mut last: &'static str = "";
        worker.reply.truncate(0);
        worker.reply.set_resp3(client.resp3);
        self.input_ready = false;
        loop {
            worker.batch.clear();
            let settings = &self.server.settings;
            let limits = Limits {
                bulk_max_bytes: settings.bulk_max_bytes.load(Ordering::Relaxed),
                authenticated: !client.must_authenticate(&self.server),
                request_max_bytes: request_max_bytes(&self.server),
                // AUTH changes the limits for the requests after it.
                requests_max: if client.must_authenticate(&self.server) { 1 } else { 1024 },
            };
            let (scanned, error) = self.scanner.scan(&mut buf[used..], &mut worker.batch, limits);
            if worker.batch.requests.is_empty() && error.is_none() {
                used += scanned;
                break;
            }
            let mut run = BatchRun {
                server: &self.server,
                worker,
                client: &mut client,
                buf: &buf[used..],
                now_ms,
                required: &mut required,
                commands: &mut commands,
                last: &mut last,
            };
            let stop = run.run();
            // Requests have run, so the pinned keys were loaded for other requests than the current first one.
            let let_go = commands != 0 && self.pins.clear();
            if let Some((at, outcome)) = stop {
                used += worker.batch.requests[at].start as usize;
                self.scanner.reset();
                self.input_ready = true;
                // Found while others' keys were pinned, which it may need as well: repeated without them, it names all keys
                // that it needs. Otherwise two requests would evict each other's keys for ever.
                if let_go && matches!(outcome, Some(Outcome::Cold(_))) {
                    break;
                }
                if let Some(mut outcome) = outcome {
                    if let Outcome::Cold(keys) = &mut outcome
                        && self.loads_ahead
                    {
                        self.load_ahead(
                            worker,
                            &client,
                            &buf[used - worker.batch.requests[at].start as usize..],
                            at,
                            keys,
                        );
                    }
                    let request = worker.batch.requests[at];
                    let base = used - request.start as usize;
                    if matches!(outcome, Outcome::Offload) {
                        used = base + request.end as usize;
                        commands += 1;
                        worker.tell_prefixes(&self.server, &client);
                        self.put_out(worker, required, cx);
                        client.resp3 = worker.reply.is_resp3();
                        let ranges = worker.batch.args(&request).iter();
                        let ranges = ranges.map(|&(a, b)| (a + base as u32, b + base as u32));
                        let ranges = ranges.collect();
                        let offloaded = Offloaded { client, ranges, now_ms, commands, last };
                        self.offloaded = Some(offloaded);
                        return used;
                    }
                    client.let_go(&mut self.pins);
                    self.park(outcome);
                }
                break;
            }
            used += scanned;
            match error {
                None => {}
                // It was passed over, and what follows can be read.
                Some(ProtocolError::TooLargeForMemory) => {
                    client.fail_transaction();
                    self.server.observe.traffic.count_error(OUT_OF_MEMORY.as_bytes());
                    worker.reply.error(OUT_OF_MEMORY.as_bytes());
                }
                Some(error) => {
                    worker.reply.error(format!("ERR {error}").as_bytes());
                    self.closing = true;
                }
            }
            if client.closing || self.closing {
                used = buf.len();
                self.closing = true;
                break;
            }
        }
        worker.tell_prefixes(&self.server, &client);
        client.resp3 = worker.reply.is_resp3();
        self.client = Some(client);
        self.put_out(worker, required, cx);
        self.account(commands, last);
        used
    }

    /// While a request waits for the device, loads the keys of the plain GETs behind it along with its own.
    fn load_ahead(
        &self,
        worker: &WorkerState,
        client: &Client,
        buf: &[u8],
        at: usize,
        wanted: &mut Vec<Want>,
    ) {
        let engine = &self.server.engine;
        let slot = engine.slot_of(client.db);
        let behind = worker.batch.requests.iter().zip(&worker.plan).skip(at + 1);
        for (request, plan) in behind.take(LOAD_AHEAD_REQUESTS) {
            if plan.kind.begins_with_key() && !matches!(plan.kind, Kind::Set) {
                let bytes = Args::new(buf, worker.batch.args(request)).get(1).to_vec();
                wanted.push(Want::key(OwnedKey { slot, bytes, hash: plan.hash }));
            }
        }
    }

    pub(super) fn account(&self, commands: u64, last: &'static str) {
        if commands != 0 {
            self.session.note_goes_on();
            if self.parked.is_some() {
                // The requests after those that have run wait from now on.
                self.session.note_parked();
            }
            self.session.commands_total.fetch_add(commands, Ordering::Relaxed);
            let traffic = &self.server.observe.traffic;
            traffic.commands.fetch_add(commands, Ordering::Relaxed);
            traffic.reads.fetch_add(1, Ordering::Relaxed);
            self.server.engine.kick_log();
            if !last.is_empty() {
                self.session.touch(last);
            }
        }
    }

    fn park(&mut self, outcome: Outcome) {
        self.session.note_parked();
        let moment = |length: Duration| Parked::Timer(Box::pin(tokio::time::sleep(length)));
        self.parked = match outcome {
            Outcome::Done(_) | Outcome::Offload => None,
            Outcome::Paced => Some(moment(Duration::from_millis(1))),
            Outcome::Paused(until) => Some(self.block(Some(until), None, None)),
            Outcome::Waits(wait) => Some(self.block(wait.deadline(), Some(wait), None)),
            Outcome::Blocks(waiter) => Some(self.block(waiter.deadline, None, Some(waiter))),
            Outcome::Cold(keys) => {
                let slot = Arc::new(Mutex::new(None));
                let (to, session) = (Arc::clone(&slot), Arc::clone(&self.session));
                let max_bytes = self.pins.room_bytes(load_max_bytes(&self.server), &keys);
                self.server.engine.load_wanted(keys, max_bytes, move |result| {
                    *to.lock() = Some(result);
                    session.wake_task();
                });
                Some(Parked::Load(slot))
            }
        };
    }

    fn block(
        &self,
        until: Option<Instant>,
        wait: Option<LogWait>,
        waiter: Option<Arc<Waiter>>,
    ) -> Parked {
        self.session.blocked.store(true, Ordering::Relaxed);
        let timer = until.map(|until| Box::pin(tokio::time::sleep_until(until.into())));
        Parked::Blocked(Blocked { timer, wait, waiter })
    }

    /// A request has waited for what `event` names: so far, if it may have to wait again.
    fn note_waited(&self, event: &'static str) {
        let latency = &self.server.observe.latency;
        if latency.threshold_ms() > 0
            && let Some(parked) = self.session.parked_for()
        {
            latency.record(event, now_ms() / 1000, parked.as_millis() as u64);
        }
    }

    /// True if the client has disconnected while a request of it waits. A client that only shut down its sending side cannot
    /// be distinguished from that: it gets its replies if they come soon.
    fn has_left(&self, cx: &mut Context<'_>) -> bool {
        let waits = !matches!(self.parked, Some(Parked::Helper(_) | Parked::Unsent) | None);
        waits
            && self.session.parked_for().is_some_and(|parked| parked >= SOON)
            && self.stream.is_closed_by_peer(cx)
    }

    fn poll_parked(&mut self, worker: &mut WorkerState, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.parked {
            None => return Poll::Ready(()),
            Some(Parked::Blocked(Blocked { timer, wait, waiter })) => {
                let server = &self.server;
                let for_log = wait.filter(|wait| wait.is_for_log(server));
                if for_log.is_some() {
                    // Registered first, checked second: an advance in between is not lost.
                    worker.durable.wanted.store(true, Ordering::SeqCst);
                    worker.wake_when_durable(&mut self.holding_round, cx);
                }
                let is_over = match (wait, waiter) {
                    (Some(wait), _) => wait.is_over(server, Instant::now()),
                    (None, Some(waiter)) => waiter.is_called(),
                    (None, None) => !server.sessions.is_paused(),
                };
                let is_due = timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready());
                if !is_over && !is_due {
                    return Poll::Pending;
                }
                self.session.blocked.store(false, Ordering::Relaxed);
            }
            Some(Parked::Timer(sleep)) => {
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.note_waited("write-stall");
            }
            Some(Parked::Load(slot)) => {
                let Some(result) = slot.lock().take() else { return Poll::Pending };
                self.note_waited("cold-read");
                match result {
                    Ok(pin) => {
                        self.loads_ahead = true;
                        self.pins.push(pin);
                    }
                    // The keys of the request alone may be few enough.
                    Err(EngineError::LoadTooLarge { .. }) if self.loads_ahead => {
                        self.loads_ahead = false;
                    }
                    Err(EngineError::LoadTooLarge { .. }) => {
                        self.loads_ahead = true;
                        if let Some(client) = &mut self.client {
                            client.load_refused = true;
                        }
                    }
                    Err(error) => {
                        // The request that needed the key cannot be answered: nothing was changed.
                        worker.reply.truncate(0);
                        worker.reply.error(format!("ERR storage: {error}").as_bytes());
                        self.put_out(worker, 0, cx);
                        self.closing = true;
                    }
                }
            }
            Some(Parked::Helper(slot)) => {
                let Some(helped) = slot.lock().take() else { return Poll::Pending };
                worker.reply.truncate(0);
                worker.reply.raw(&helped.reply);
                self.has_run(worker, helped.client, helped.required, cx);
                return Poll::Ready(());
            }
            Some(Parked::Unsent) => {
                let closes = self.closing;
                if !closes && self.output.unsent() > PIECE_BYTES {
                    return Poll::Pending;
                }
                if let Some(client) = self.client.take_if(|_| !closes) {
                    return self.go_on(worker, client, cx);
                }
            }
        }
        self.parked = None;
        Poll::Ready(())
    }
}
