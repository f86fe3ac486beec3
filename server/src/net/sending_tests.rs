//! Tests of deferred replies when only a part of the writes they depend on is durable.

use super::connection::Connection;
use super::helper::HelperPool;
use super::stream::Stream;
use super::worker::{DurableSignal, WorkerState};
use crate::server::Server;
use crate::session::Session;
use sexton_engine::{Engine, EngineOptions, Key, Latched, Meta, Seq, TxBuf};
use sexton_persistence::device::sim::SimStorage;
use sexton_persistence::pmem::{PmemOptions, SimPmem};
use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tokio::runtime::Runtime;

#[derive(Default)]
struct Task {
    is_woken: AtomicBool,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Relaxed);
    }
}

/// A connection over simulated persistent memory. Nothing runs concurrently with the test: the durable sequence advances only
/// when the test ends a writer's batch.
struct Bench {
    server: Arc<Server>,
    worker: WorkerState,
    connection: Connection,
    task: Arc<Task>,
    client: UnixStream,
    /// The connection's socket is registered with it.
    _runtime: Runtime,
}

impl Bench {
    fn new() -> Self {
        let pool = PmemOptions {
            slot_bytes: 4096,
            file_bytes: 64 << 10,
            initial_bytes: 0,
            ..PmemOptions::new(SimPmem::default().medium(), "data/pmem".into())
        };
        let options = EngineOptions {
            write_behind: true,
            pool: Some(pool),
            background: false,
            ..EngineOptions::new(Arc::new(SimStorage::new()), "data".into())
        };
        let (engine, _) = Engine::open_bytes(options).expect("a store on simulated media opens");
        let server = Arc::new(Server::new(engine, 16));
        let (socket, client) = UnixStream::pair().expect("a pair of sockets");
        socket.set_nonblocking(true).expect("does not block");
        client.set_nonblocking(true).expect("does not block");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let stream = runtime.block_on(async {
            let stream = tokio::net::UnixStream::from_std(socket).expect("registered");
            // Until the runtime has heard that of the socket, it tries no write.
            stream.writable().await.expect("takes bytes");
            stream
        });
        let helpers = Arc::new(HelperPool::start().expect("threads"));
        let session = Arc::new(Session::default());
        let task = Arc::new(Task::default());
        session.set_task(Waker::from(Arc::clone(&task)));
        Self {
            connection: Connection::new(
                Arc::clone(&server),
                helpers,
                Stream::Unix(stream),
                session,
            ),
            server,
            worker: WorkerState::new(0, Arc::new(DurableSignal::default())),
            task,
            client,
            _runtime: runtime,
        }
    }

    /// A write that is durable when the writer's batch ends.
    fn write(&self, writer: &mut TxBuf, key: &[u8]) -> Seq {
        let engine = &self.server.engine;
        let key = Key { slot: engine.slot_of(0), bytes: key, hash: engine.hash(key) };
        let mut tx = engine.begin(Latched::Hashes(&[key.hash]), writer);
        tx.put(key, Meta::default(), b"value");
        tx.commit().last_seq
    }

    /// Answers a request; the reply needs `required`.
    fn answer(&mut self, reply: &str, required: Seq) {
        self.worker.reply.raw(reply.as_bytes());
        let mut cx = Context::from_waker(Waker::noop());
        self.connection.put_out(&mut self.worker, required, &mut cx);
        assert!(self.connection.deferred, "{reply} waits for the end of the turn");
    }

    /// The end of the turn; true when something is left to the connection's task.
    fn end_turn(&mut self) -> bool {
        self.worker.executor.end_batch(&self.server);
        self.connection.send_deferred();
        self.task.is_woken.swap(false, Ordering::Relaxed)
    }

    /// What the connection's task does when it is woken.
    fn flush(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        self.connection.flush(&mut self.worker, &mut cx).expect("sent");
    }

    /// Output that the client has received since the last call.
    fn received(&mut self) -> String {
        let mut bytes = [0; 100];
        match self.client.read(&mut bytes) {
            Ok(count) => String::from_utf8_lossy(&bytes[..count]).into_owned(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => String::new(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_deferred_reply_waits_for_one_before_it_that_needs_more() {
    let mut bench = Bench::new();
    // Other threads write, this connection reads what they wrote, the later write first.
    let (mut one, mut other) = (TxBuf::fencing_by_batch(), TxBuf::fencing_by_batch());
    let earlier = bench.write(&mut one, b"earlier");
    let later = bench.write(&mut other, b"later");
    bench.answer("+later\r\n", later);
    bench.answer("+earlier\r\n", earlier);
    bench.server.engine.end_batch(&mut one);
    assert_eq!(bench.server.engine.durable(), earlier);
    let is_left = bench.end_turn();
    assert_eq!(bench.received(), "", "the last reply may leave, the one before it may not");
    assert!(is_left);
    bench.flush();
    assert_eq!(bench.received(), "", "nor may it later, as long as nothing moves");
    bench.server.engine.end_batch(&mut other);
    assert_eq!(bench.server.engine.durable(), later);
    bench.flush();
    assert_eq!(bench.received(), "+later\r\n+earlier\r\n");
}

#[test]
fn deferred_replies_leave_up_to_the_first_that_is_not_durable() {
    let mut bench = Bench::new();
    let (mut one, mut other) = (TxBuf::fencing_by_batch(), TxBuf::fencing_by_batch());
    let earlier = bench.write(&mut one, b"earlier");
    let later = bench.write(&mut other, b"later");
    bench.answer("+earlier\r\n", earlier);
    bench.answer("+later\r\n", later);
    bench.answer("+PONG\r\n", 0);
    bench.server.engine.end_batch(&mut one);
    let is_left = bench.end_turn();
    assert_eq!(bench.received(), "+earlier\r\n");
    assert!(is_left);
    bench.server.engine.end_batch(&mut other);
    bench.flush();
    assert_eq!(bench.received(), "+later\r\n+PONG\r\n");
}

#[test]
fn deferred_replies_that_are_durable_leave_with_the_turn() {
    let mut bench = Bench::new();
    let mut writer = TxBuf::fencing_by_batch();
    let written = bench.write(&mut writer, b"key");
    bench.answer("+OK\r\n", written);
    bench.answer("+PONG\r\n", 0);
    bench.server.engine.end_batch(&mut writer);
    bench.connection.note_buffers();
    let unsent = |bench: &Bench| bench.connection.session.output_bytes.load(Ordering::Relaxed);
    assert_eq!(unsent(&bench), 12);
    let is_left = bench.end_turn();
    assert_eq!(bench.received(), "+OK\r\n+PONG\r\n");
    assert!(!is_left, "nothing is left to do");
    assert_eq!(unsent(&bench), 0, "CLIENT LIST of others shows that they have left");
}

#[test]
fn a_connection_that_has_used_its_slice_lets_others_go_first() {
    let mut bench = Bench::new();
    bench.connection.begin_with(b"PING a\r\nPING b\r\nSET k 1\r\nGET k\r\n".to_vec());
    let task = Arc::clone(&bench.task);
    let waker = Waker::from(Arc::clone(&task));
    let turn = |bench: &mut Bench, length: Duration| {
        bench.worker.slice.length = length;
        let polled = bench.connection.poll(&mut bench.worker, &mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        let goes_on = task.is_woken.swap(false, Ordering::Relaxed);
        bench.end_turn();
        (bench.received(), goes_on)
    };
    assert_eq!(turn(&mut bench, Duration::ZERO), ("$1\r\na\r\n".to_owned(), true));
    assert!(bench.worker.slice.is_over, "the worker sends what all have answered");
    assert_eq!(turn(&mut bench, Duration::ZERO), ("$1\r\nb\r\n".to_owned(), true));
    assert_eq!(turn(&mut bench, Duration::MAX).0, "+OK\r\n$1\r\n1\r\n");
    assert!(!bench.worker.slice.is_over);
}
