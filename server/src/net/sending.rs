//! Sending: what a connection sends, and when.
//!
//! Short replies of all connections are sent in a row at the end of the worker's turn. If they were sent one by one between
//! requests, each would wake a client that has nothing else to do yet, which on loopback costs the server as much as a SET.
//! In addition, one fence makes durable everything that these requests have written to persistent memory.

use super::batch::TURN_REPLY_BYTES;
use super::connection::{Connection, Parked};
use super::worker::WorkerState;
use sexton_engine::{Seq, SyncPolicy};
use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// Replies of a connection that may wait for the end of the turn, in bytes.
const DEFERRED_BYTES: usize = 16 << 10;

impl Connection {
    /// Notes what was written, or that nothing can be.
    fn has_written(&mut self, written: io::Result<usize>) -> Option<usize> {
        match written {
            Ok(count) => self.count_output(count),
            Err(_) => self.closing = true,
        }
        written.ok()
    }

    fn count_output(&self, count: usize) {
        self.session.output_total_bytes.fetch_add(count as u64, Ordering::Relaxed);
        let traffic = &self.server.observe.traffic;
        traffic.output_bytes.fetch_add(count as u64, Ordering::Relaxed);
        traffic.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// True if replies of `bytes` further bytes may be deferred to the end of the turn: nothing else would delay
    /// sending them.
    pub(super) fn may_defer(&self, bytes: usize) -> bool {
        let nothing_waits = self.output.is_empty() || self.deferred;
        let goes_on = !self.closing && self.parked.is_none();
        goes_on && nothing_waits && self.output.unsent() + bytes < DEFERRED_BYTES
    }

    /// Moves the replies from the worker's buffer to this connection's output, which is sent at the end of the turn, or
    /// at once if nothing prevents it.
    pub(super) fn put_out(
        &mut self,
        worker: &mut WorkerState,
        required: Seq,
        cx: &mut Context<'_>,
    ) {
        let engine = &self.server.engine;
        let is_empty = worker.reply.is_empty();
        let may_defer = !is_empty && self.may_defer(worker.reply.whole_len());
        // Else the fence of the turn is in time for these replies, too.
        if !may_defer || !engine.is_write_behind() {
            worker.executor.end_batch(&self.server);
        }
        if is_empty {
            return;
        }
        let hold = required != 0
            && engine.sync_policy() == SyncPolicy::Always
            && engine.durable() < required;
        let defer = may_defer && (!hold || engine.is_write_behind());
        // As in Redis, what has just been answered counts before anything of it is sent.
        let unsent = self.output.unsent() + worker.reply.whole_len();
        let limit = self.server.output_limit_of(&self.session);
        if limit.enforce(&self.session, unsent as u64) {
            worker.reply.truncate(0);
            return;
        }
        self.deferred = defer;
        let at_once = self.output.is_empty() && !hold && !defer;
        if hold {
            self.held.push_back((self.output.end(), required));
        }
        let mut sent = 0;
        let has_values = worker.reply.has_values();
        if at_once && !has_values {
            // Most replies are sent from where they are.
            let bytes = worker.reply.bytes();
            if let Poll::Ready(written) = self.stream.poll_write(cx, &[IoSlice::new(bytes)]) {
                sent = self.has_written(written).unwrap_or(bytes.len());
            }
        }
        self.output.extend_from(&mut worker.reply, sent);
        if at_once && has_values {
            let end = self.output.end();
            if let Poll::Ready(written) = self.output.poll_send(end, &mut self.stream, cx)
                && self.has_written(written).is_none()
            {
                self.output.clear();
            }
        }
        if self.output.is_empty() {
            self.session.above_soft_limit(false);
        }
        worker.reply.truncate(0);
        worker.reply.buf_mut().shrink_to(4 * TURN_REPLY_BYTES);
    }

    /// Appends the outbox to the connection's replies. If the connection does not read, the outbox stays where its size is
    /// monitored. While a helper runs a request, its reply may already exist.
    pub(super) fn empty_outbox(&mut self) {
        let unsent = self.output.unsent() as u64;
        let pause = self.server.settings.output_limit.pause_bytes();
        let helped = matches!(self.parked, Some(Parked::Helper(_) | Parked::Unsent));
        if self.session.outbox.bytes() == 0 || helped || unsent > pause {
            return;
        }
        let parcel = self.session.outbox.take();
        self.closing |= parcel.is_last;
        if self.server.engine.sync_policy() == SyncPolicy::Always {
            let start = self.output.end();
            let marks = parcel.marks.into_iter();
            self.held.extend(marks.map(|(at, required)| (start + at as u64, required)));
        }
        self.output.extend(&parcel.bytes);
    }

    /// Sends what may leave.
    pub(super) fn flush(
        &mut self,
        worker: &mut WorkerState,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        if std::mem::take(&mut self.deferred) {
            worker.executor.end_batch(&self.server);
        }
        if self.output.is_empty() {
            return Ok(());
        }
        if !self.held.is_empty() {
            // Registered first, checked second: an advance in between is not lost.
            worker.durable.wanted.store(true, Ordering::SeqCst);
        }
        let end = self.end_of_durable();
        if let Some(&(at, required)) = self.held.front() {
            if required <= self.server.engine.given_up_through() {
                // Whether the write survives is not known: no answer at all (N2).
                self.output.truncate(at);
                self.held.clear();
                self.closing = true;
            }
            worker.wake_when_durable(&mut self.holding_round, cx);
        }
        while self.output.has_before(end) {
            match self.output.poll_send(end, &mut self.stream, cx) {
                Poll::Ready(Ok(count)) => self.count_output(count),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        if self.output.is_empty() {
            self.session.above_soft_limit(false);
        }
        self.session.output_bytes.store(self.output.unsent(), Ordering::Relaxed);
        Ok(())
    }

    /// Sends deferred output at the end of the worker's batch. Output that is still not durable, or does not fit into
    /// the socket, is left to the connection's task.
    pub(super) fn send_deferred(&mut self) {
        if !std::mem::take(&mut self.deferred) {
            return;
        }
        let end = self.end_of_durable();
        // The task meets an error again.
        if self.output.has_before(end)
            && let Ok(count) = self.output.try_send(end, &mut self.stream)
        {
            self.count_output(count);
        }
        if self.output.is_empty() {
            self.session.above_soft_limit(false);
        } else {
            self.session.wake_task();
        }
        self.note_buffers();
        self.note_memory();
    }

    /// Releases durable replies; returns the position in `output` at which they end, which is as far as may be sent. In order:
    /// a reply may need less than one before it (N13).
    fn end_of_durable(&mut self) -> u64 {
        if !self.held.is_empty() {
            let durable = self.server.engine.durable();
            while self.held.front().is_some_and(|&(_, required)| required <= durable) {
                self.held.pop_front();
            }
        }
        self.held.front().map_or(self.output.end(), |&(at, _)| at)
    }
}
