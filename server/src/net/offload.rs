//! Requests of a connection that helper threads run: those that may block, and long replies, a run for each piece.

use super::connection::{Connection, Helped, Parked};
use super::handed_over::Offloaded;
use super::worker::WorkerState;
use crate::client_memory::load_max_bytes;
use crate::dispatch::client::Client;
use crate::dispatch::{Args, Executor, Outcome, error_of};
use crate::keyspace::{Pins, load_blocking};
use crate::resp::{Reply, pack};
use crate::server::Server;
use parking_lot::Mutex;
use sexton_engine::{EngineError, Seq};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

impl Connection {
    /// Has a helper thread run the request that was left for one, if there is one, whose arguments are in `buf`.
    pub(super) fn offload(&mut self, buf: &[u8]) {
        let Some(mut offloaded) = self.offloaded.take() else { return };
        let (bytes, ranges) = pack(Args::new(buf, &offloaded.ranges).from(0));
        offloaded.ranges = ranges;
        self.hand_over(offloaded, bytes);
    }

    /// The same where the helper thread gets the buffer with the arguments, which begin at `start` of it.
    pub(super) fn offload_with(&mut self, buf: Vec<u8>, start: usize) {
        let Some(mut offloaded) = self.offloaded.take() else { return };
        for (first, last) in &mut offloaded.ranges {
            *first += start as u32;
            *last += start as u32;
        }
        self.hand_over(offloaded, buf);
    }

    fn hand_over(&mut self, offloaded: Offloaded, bytes: Vec<u8>) {
        let Offloaded { client, ranges, now_ms, commands, last } = offloaded;
        self.help(client, move |executor, server, client, out| {
            let args = Args::new(&bytes, &ranges);
            let run = AssertUnwindSafe(|| run(executor, server, client, args, out, now_ms));
            // Whatever happens, the connection gets its client back, and a reply.
            catch_unwind(run).unwrap_or_else(|payload| {
                let name = String::from_utf8_lossy(args.get(0)).to_ascii_lowercase();
                out.truncate(0);
                out.error(&error_of(&name, payload).bytes());
                0
            })
        });
        self.account(commands, last);
    }

    /// Writes the next piece of a long reply, or has a helper thread do so where it may have to be read.
    pub(super) fn go_on(
        &mut self,
        worker: &mut WorkerState,
        mut client: Box<Client>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if !client.long_reply.is_held() {
            self.help(client, |executor, server, client, out| executor.go_on(server, client, out));
            return Poll::Pending;
        }
        worker.slice.passes(Instant::now());
        worker.reply.truncate(0);
        worker.reply.set_resp3(client.resp3);
        let required = worker.executor.go_on(&self.server, &mut client, &mut worker.reply);
        worker.slice.passes(Instant::now());
        self.has_run(worker, client, required, cx);
        Poll::Ready(())
    }

    /// The client is back from a run whose reply is that of the worker, and waits for this write. More of the reply may follow.
    pub(super) fn has_run(
        &mut self,
        worker: &mut WorkerState,
        client: Box<Client>,
        required: Seq,
        cx: &mut Context<'_>,
    ) {
        self.closing |= client.closing;
        self.parked = client.long_reply.is_open().then_some(Parked::Unsent);
        self.client = Some(client);
        self.put_out(worker, required, cx);
    }

    /// Has a helper thread do a job with the client, which returns with what the job has written. The job does not panic.
    fn help(
        &mut self,
        mut client: Box<Client>,
        job: impl FnOnce(&mut Executor, &Server, &mut Client, &mut Reply) -> Seq + Send + 'static,
    ) {
        let slot = Arc::new(Mutex::new(None));
        let (to, server) = (Arc::clone(&slot), Arc::clone(&self.server));
        let session = Arc::clone(&self.session);
        self.helpers.run(move |executor| {
            let mut out = Reply::new();
            out.set_resp3(client.resp3);
            let required = job(executor, &server, &mut client, &mut out);
            executor.tell_prefixes(&server, &client, &mut out);
            client.resp3 = out.is_resp3();
            let reply = std::mem::take(out.buf_mut());
            server.engine.kick_log();
            *to.lock() = Some(Helped { client, reply, required });
            session.wake_task();
        });
        self.parked = Some(Parked::Helper(slot));
    }
}

/// Runs a request to its end.
fn run(
    executor: &mut Executor,
    server: &Server,
    client: &mut Client,
    args: Args<'_>,
    out: &mut Reply,
    now_ms: u64,
) -> Seq {
    // What one round has loaded must still be there when the next one has.
    let mut pins = Pins::default();
    loop {
        match executor.execute(server, client, args, out, now_ms) {
            Outcome::Done(required) => return required,
            Outcome::Cold(keys) => {
                client.let_go(&mut pins);
                let max_bytes = pins.room_bytes(load_max_bytes(server), &keys);
                match load_blocking(server, keys, max_bytes) {
                    Ok(pin) => pins.push(pin),
                    Err(EngineError::LoadTooLarge { .. }) => client.load_refused = true,
                    Err(error) => {
                        out.error(format!("ERR storage: {error}").as_bytes());
                        return 0;
                    }
                }
            }
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}
