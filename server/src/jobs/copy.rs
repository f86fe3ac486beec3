//! Full copies for clients (SYNC, PSYNC): `redis-cli --rdb`, and a redis-server that becomes a replica once.
//!
//! A copy has the content of a BGSAVE file, streamed from a snapshot without a file in between. Each copy has its own
//! thread, which is ahead of its client by at most one window: a slow client costs no memory, and one that reads
//! nothing for `repl-timeout` is disconnected. Later changes are not sent: there is no stream of changes.

use crate::clock::now_ms;
use crate::jobs::rdb::{Image, Parts, SaveError, writer_options};
use crate::log;
use crate::observe::random_id;
use crate::server::Server;
use crate::session::Session;
use crate::state::copies::Order;
use sexton_engine::Seq;
use sexton_persistence::rdb::Writer;
use std::cell::Cell;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a copy that may be pending for its client; twice as much while the connection takes over the pending part.
const WINDOW_BYTES: usize = 512 << 10;

/// Bytes that are handed on at once.
const PIECE_BYTES: usize = 64 << 10;

/// Interval of the checks whether the client has read.
const LOOK: Duration = Duration::from_millis(1);

/// Interval of the checks whether the server stops.
const IDLE: Duration = Duration::from_millis(100);

/// Interval of the keep-alives for a client that waits for the length of its copy.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Starts the thread of each copy that is asked for, until `stop` is set.
pub fn run_copier(server: &Arc<Server>, stop: &Arc<AtomicBool>) {
    while !stop.load(Ordering::Acquire) {
        let Some(order) = server.copies.take(IDLE) else { continue };
        let session = Arc::clone(&order.session);
        let (of, stop) = (Arc::clone(server), Arc::clone(stop));
        let thread = std::thread::Builder::new().name("copy".to_owned()).spawn(move || {
            serve(&of, &order, &stop);
            of.copies.open.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = thread {
            log::warning(&format!("Cannot start the thread of a copy: {error}"));
            server.copies.open.fetch_sub(1, Ordering::Relaxed);
            session.kill();
        }
    }
}

/// Sends one copy, and ends the connection.
fn serve(server: &Server, order: &Order, stop: &AtomicBool) {
    let session = &order.session;
    let name = if session.addr.is_empty() { "?" } else { &session.addr };
    log::notice(&format!("Replica {name} asks for synchronization: a full copy is sent"));
    let begun = Instant::now();
    match send(server, order, stop) {
        Ok(bytes) => {
            let took_ms = begun.elapsed().as_millis();
            log::notice(&format!("Copy for {name} sent: {bytes} bytes in {took_ms} ms"));
        }
        Err(error) => {
            log::warning(&format!("Copy for {name} ended early: {error}"));
            session.kill();
        }
    }
}

/// Writes the copy and waits until the client has it. Gives its length in bytes.
fn send(server: &Server, order: &Order, stop: &AtomicBool) -> Result<u64, SaveError> {
    let parts = Parts { functions: !order.leaves_out_functions, keys: !order.leaves_out_keys };
    let image = Image::of(server, &order.snapshot).without_due(now_ms()).only(parts);
    let config = server.config.options();
    let path = Path::new("a client");
    let failed = |error| SaveError::Io { operation: "send", path: path.to_path_buf(), error };
    let mut client = ToClient {
        server,
        session: &order.session,
        stop,
        required: order.snapshot.seq(),
        bytes: 0,
    };
    client.write_all(&order.greeting).map_err(failed)?;
    let mark = random_id();
    let has_field_times = if order.ends_with_mark {
        write!(client, "$EOF:{mark}\r\n").map_err(failed)?;
        // The version is in the first bytes, and sent bytes cannot be rewritten. So this walks over the keys beforehand:
        // during a walk that writes, the version would be found too late, and keeping the output until then would take the
        // memory of the whole file.
        image.needs_field_times()?
    } else {
        let told = Cell::new(Instant::now());
        let counted = Cell::new(Ok(()));
        // It detects expiring fields while it counts. All versions have the same length.
        let mut counter = Writer::new(Count::default(), writer_options(&config, true));
        image.write(&mut counter, path, |_| {
            if told.get().elapsed() >= KEEP_ALIVE {
                told.set(Instant::now());
                counted.set(client.keep_alive());
            }
            counted.replace(Ok(())).map_err(failed)
        })?;
        let length = counter.finish().map_err(failed)?.0;
        write!(client, "${length}\r\n").map_err(failed)?;
        image.has_met_field_times()
    };
    let mut writer = Writer::new(client, writer_options(&config, has_field_times));
    image.write(&mut writer, path, |_| Ok(()))?;
    let client = writer.finish().map_err(failed)?;
    let bytes = client.bytes;
    client.end(if order.ends_with_mark { mark.as_bytes() } else { b"" }).map_err(failed)?;
    Ok(bytes)
}

/// Counts what is written.
#[derive(Default)]
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The way of a copy into its connection.
struct ToClient<'a> {
    server: &'a Server,
    session: &'a Session,
    stop: &'a AtomicBool,
    /// Nothing leaves before this is durable (N13).
    required: Seq,
    bytes: u64,
}

impl ToClient<'_> {
    /// Bytes that may wait: as `client-output-buffer-limit replica` allows.
    fn window_bytes(&self) -> usize {
        let hard = self.server.copies.output_limit.closing_bytes();
        usize::try_from(hard / 2).map_or(WINDOW_BYTES, |half| half.clamp(1, WINDOW_BYTES))
    }

    fn is_gone(&self) -> bool {
        self.session.is_killed() || self.server.sessions.get(self.session.id).is_none()
    }

    /// Waits until `is_over` returns true. Fails if the client has disconnected, or has read nothing for `repl-timeout`.
    fn wait(&self, is_over: impl Fn() -> bool) -> io::Result<()> {
        let sent = || self.session.output_total_bytes.load(Ordering::Relaxed);
        let (mut seen, mut since) = (sent(), Instant::now());
        while !is_over() {
            if self.is_gone() {
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client has left"));
            }
            if self.stop.load(Ordering::Acquire) {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "the server stops"));
            }
            let patience_s = self.server.copies.patience_s.load(Ordering::Relaxed);
            if sent() != seen {
                (seen, since) = (sent(), Instant::now());
            } else if since.elapsed() > Duration::from_secs(patience_s) {
                let text = format!("the client has read nothing for {patience_s} s (repl-timeout)");
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn waiting_bytes(&self) -> usize {
        self.session.outbox.bytes() + self.session.output_bytes.load(Ordering::Relaxed)
    }

    fn put(&self, piece: &[u8]) -> io::Result<()> {
        let window = self.window_bytes();
        // A look costs a lock, so most pieces do without.
        if self.waiting_bytes() + piece.len() > window || self.is_gone() {
            self.wait(|| self.waiting_bytes() < window.saturating_sub(piece.len()).max(1))?;
        }
        // It was made to fit.
        let _ = self.session.outbox.push(piece, self.required, usize::MAX);
        self.session.wake_task();
        Ok(())
    }

    /// Sends a keep-alive to the client.
    fn keep_alive(&self) -> io::Result<()> {
        self.put(b"\n")
    }

    /// The last bytes; then the connection ends.
    fn end(&self, last: &[u8]) -> io::Result<()> {
        self.session.outbox.push_last(last);
        self.session.wake_task();
        self.wait(|| self.is_gone())
    }
}

impl Write for ToClient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES).min(self.window_bytes())];
        if !piece.is_empty() {
            self.put(piece)?;
            self.bytes += piece.len() as u64;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
