//! Worker threads: each has its own runtime and serves the connections assigned to it.

use super::connection::Connection;
use super::helper::HelperPool;
use super::stream::Stream;
use super::time_slice;
use crate::auth::Identity;
use crate::commands::table;
use crate::dispatch::Executor;
use crate::dispatch::client::Client;
use crate::resp::{Batch, Reply};
use crate::scripting::STACK_BYTES;
use crate::server::Server;
use crate::session::Session;
use crate::tls::{Secured, TlsStream};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Notify, mpsc};

/// Bytes of the read buffer that all connections of a worker share.
pub(super) const READ_BUFFER_BYTES: usize = 64 * 1024;

/// Number of batches after which a turn ends although there is more to do; otherwise it ends when there is not, or when a
/// connection has used its slice.
const TURN_BATCHES: usize = 64;

/// State shared by all connections of a worker, so that an idle connection costs little.
pub(super) struct WorkerState {
    pub(super) executor: Executor,
    pub(super) read_buffer: Vec<u8>,
    pub(super) batch: Batch,
    pub(super) plan: Vec<super::batch::Plan>,
    pub(super) reply: Reply,
    pub(super) log_form: Vec<u8>,
    /// Connections that keep replies back until the log is durable.
    holding: Vec<Waker>,
    /// So often they have all been woken, plus one.
    holding_round: u64,
    pub(super) durable: Arc<DurableSignal>,
    /// Connections whose replies are sent when the turn ends.
    pub(super) sending: Vec<Arc<Mutex<Connection>>>,
    /// Batches of requests that were run in this turn.
    pub(super) turn_batches: usize,
    /// What the connection that is being served may use of the thread.
    pub(super) slice: Slice,
    /// Requests that may still rely on the last answer to whether writes are allowed. Batches of one request share it.
    pub(super) granted: usize,
}

impl WorkerState {
    pub(super) fn new(number: usize, durable: Arc<DurableSignal>) -> Self {
        Self {
            executor: Executor::of_worker(table::table(), number),
            read_buffer: Vec::with_capacity(READ_BUFFER_BYTES),
            batch: Batch::default(),
            plan: Vec::new(),
            reply: Reply::new(),
            log_form: Vec::new(),
            holding: Vec::new(),
            holding_round: 1,
            durable,
            sending: Vec::new(),
            turn_batches: 0,
            slice: Slice::default(),
            granted: 0,
        }
    }
}

/// Time that a connection may use of its worker before others get theirs. Whoever sends without waiting for replies always
/// has requests left.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) length: Duration,
    begun: Option<Instant>,
    pub(super) is_over: bool,
}

impl Default for Slice {
    fn default() -> Self {
        Self { length: Duration::from_micros(500), begun: None, is_over: false }
    }
}

impl Slice {
    /// A connection begins to be served.
    pub(super) fn begin(&mut self) {
        (self.begun, self.is_over) = (None, false);
    }

    /// Requests of the connection have run until `now`, or are about to.
    #[inline]
    pub(super) fn passes(&mut self, now: Instant) {
        let begun = *self.begun.get_or_insert(now);
        self.is_over = now.saturating_duration_since(begun) >= self.length;
    }
}

impl WorkerState {
    /// Notifies clients that track by prefix of the changes that this turn's requests have made.
    pub(super) fn tell_prefixes(&mut self, server: &Server, client: &Client) {
        self.executor.tell_prefixes(server, client, &mut self.reply);
    }

    /// Forgets what the batches of a turn share.
    pub(super) fn begin_turn(&mut self) {
        (self.turn_batches, self.granted) = (0, 0);
    }

    /// Wakes the connection when the durable sequence advances. `round`: when it last asked, 0 for never; it is listed
    /// once, however often it asks.
    pub(super) fn wake_when_durable(&mut self, round: &mut u64, cx: &Context<'_>) {
        if *round != self.holding_round {
            *round = self.holding_round;
            self.holding.push(cx.waker().clone());
        }
    }
}

thread_local! {
    pub(super) static WORKER: RefCell<Option<Box<WorkerState>>> = const { RefCell::new(None) };
}

/// Notifies one worker that the durable sequence has advanced.
#[derive(Debug, Default)]
pub(super) struct DurableSignal {
    /// True while some connection of the worker waits: otherwise it is left asleep.
    pub(super) wanted: AtomicBool,
    notify: Notify,
}

/// A connection on its way to a worker, with what it has sent already.
type Dealt = (Socket, Arc<Session>, Vec<u8>);

/// What a worker makes a [`Stream`] of.
pub(super) enum Socket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
    /// After its handshake, with the user whom the client's certificate names.
    Tls(std::net::TcpStream, Secured, Option<Identity>),
}

/// The running workers.
#[derive(Debug)]
pub struct Workers {
    senders: Vec<mpsc::UnboundedSender<Dealt>>,
    next: AtomicUsize,
}

impl Workers {
    /// Starts `count` worker threads (at least one).
    ///
    /// # Errors
    /// A thread or its runtime could not be created.
    pub fn start(server: &Arc<Server>, count: usize) -> io::Result<Self> {
        let helpers = Arc::new(HelperPool::start()?);
        let mut senders = Vec::new();
        let mut signals = Vec::new();
        for number in 0..count.max(1) {
            let (sender, receiver) = mpsc::unbounded_channel();
            let signal = Arc::new(DurableSignal::default());
            let at_end = Arc::clone(server);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .on_thread_park(move || end_turn(&at_end))
                .build()?;
            let (server, helpers) = (Arc::clone(server), Arc::clone(&helpers));
            signals.push(Arc::clone(&signal));
            senders.push(sender);
            let thread = std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .stack_size(STACK_BYTES);
            thread.spawn(move || {
                time_slice::ask_for_short();
                WORKER.set(Some(Box::new(WorkerState::new(number, Arc::clone(&signal)))));
                runtime.block_on(async move {
                    tokio::spawn(wake_holding(signal));
                    serve(server, helpers, receiver).await;
                });
            })?;
        }
        server.engine.on_durable(move |_| {
            for signal in &signals {
                if signal.wanted.swap(false, Ordering::AcqRel) {
                    signal.notify.notify_one();
                }
            }
        });
        Ok(Self { senders, next: AtomicUsize::new(0) })
    }

    /// Deals a connection to the next worker.
    pub(super) fn deal(&self, socket: Socket, session: Arc<Session>, unread: Vec<u8>) {
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.senders.len();
        // A worker that ended because of a panic takes its connections with it.
        let _ = self.senders[next].send((socket, session, unread));
    }
}

/// Accepts connections until the sender is dropped.
async fn serve(
    server: Arc<Server>,
    helpers: Arc<HelperPool>,
    mut receiver: mpsc::UnboundedReceiver<Dealt>,
) {
    while let Some((socket, session, unread)) = receiver.recv().await {
        let (stream, user) = match socket {
            Socket::Tcp(socket) => (TcpStream::from_std(socket).map(Stream::Tcp), None),
            Socket::Unix(socket) => (UnixStream::from_std(socket).map(Stream::Unix), None),
            Socket::Tls(socket, secured, user) => {
                let stream = TcpStream::from_std(socket)
                    .map(|socket| Stream::Tls(Box::new(TlsStream::new(socket, secured))));
                (stream, user)
            }
        };
        match stream {
            Ok(stream) => {
                let mut connection =
                    Connection::new(Arc::clone(&server), Arc::clone(&helpers), stream, session);
                connection.begin_with(unread);
                if let Some(user) = user {
                    connection.act_as(user);
                }
                let (connection, server) = (Arc::new(Mutex::new(connection)), Arc::clone(&server));
                tokio::spawn(std::future::poll_fn(move |cx| {
                    poll_connection(&connection, &server, cx)
                }));
            }
            Err(_) => server.sessions.close(session.id),
        }
    }
}

/// Ends a turn: makes the deferred writes durable, and sends the deferred replies, in one go.
fn end_turn(server: &Server) {
    let mut sending = WORKER.with_borrow_mut(|worker| {
        let Some(worker) = worker else { return Vec::new() };
        worker.begin_turn();
        worker.executor.end_batch(server);
        std::mem::take(&mut worker.sending)
    });
    sending.iter().for_each(|connection| connection.lock().send_deferred());
    // Here, since a connection may end with it.
    sending.clear();
    WORKER.with_borrow_mut(|worker| {
        if let Some(worker) = worker {
            worker.sending = sending;
        }
    });
}

/// Serves a connection as far as possible, and ends the worker's turn when that has lasted.
fn poll_connection(
    connection: &Arc<Mutex<Connection>>,
    server: &Server,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let (polled, turn_is_over) = WORKER.with_borrow_mut(|worker| {
        let Some(worker) = worker else { return (Poll::Ready(()), false) };
        let mut served = connection.lock();
        let polled = served.poll(worker, cx);
        if served.deferred {
            worker.sending.push(Arc::clone(connection));
        }
        (polled, worker.turn_batches >= TURN_BATCHES || worker.slice.is_over)
    });
    if turn_is_over {
        end_turn(server);
    }
    polled
}

/// Wakes the connections that wait for the log, all at once and on their own thread.
async fn wake_holding(signal: Arc<DurableSignal>) {
    loop {
        signal.notify.notified().await;
        let wakers = WORKER.with_borrow_mut(|worker| {
            let Some(worker) = worker else { return Vec::new() };
            worker.holding_round += 1;
            std::mem::take(&mut worker.holding)
        });
        wakers.into_iter().for_each(Waker::wake);
    }
}
