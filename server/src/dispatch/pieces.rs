//! How a handler answers in pieces ([`LongReply`]), and how the pieces behind the first are written.

use super::call::run_guarded;
use super::client::Client;
use super::executor::Executor;
use super::long_reply::LongReply;
use super::snapshot_session::snapshot_error;
use super::{Args, CommandError, CommandResult, Ctx};
use crate::keyspace::paged::{Extent, InPieces, Paged, Structure};
use crate::resp::Reply;
use crate::server::Server;
use sexton_engine::Seq;
use std::ops::Range;

/// A longer reply is written in pieces. Shorter ones take a worker a few milliseconds.
const WHOLE_MAX_BYTES: u64 = 1 << 20;

impl Ctx<'_, '_> {
    /// Answers elements of a collection in pages: at once, or in pieces if that would be long.
    ///
    /// # Errors
    /// The snapshot of a long reply has ended.
    pub fn answer_in_pieces<S: Structure>(
        &mut self,
        key: &[u8],
        paged: &Paged,
        answer: &impl InPieces<S>,
    ) -> CommandResult {
        if let LongReply::Open(open) = &mut self.client.long_reply {
            let is_last = open.write_piece(answer, self.out).map_err(snapshot_error)?;
            if is_last {
                self.client.long_reply = LongReply::None;
            }
            return Ok(());
        }
        let in_pieces = self.client.may_miss && !self.client.reply_mode.is_muted();
        let may_be_long = in_pieces || self.client.may_hand_over;
        let is_long = self.read_pages(key, paged, |structure: &S, pages, out| {
            let whole = Extent::of(paged, answer.positions(structure));
            let is_long = |positions: &Range<u64>| {
                may_be_long && whole.bytes_of(positions.end - positions.start) > WHOLE_MAX_BYTES
            };
            let uncounted = answer.uncounted(structure, pages)?;
            if is_long(&uncounted) {
                return Ok(true);
            }
            let counted = answer.count(structure, pages, uncounted)?;
            let all = answer.begin(structure, pages, counted, out)?;
            if is_long(&all) {
                return Ok(true);
            }
            answer.write(structure, pages, all, out)?;
            Ok(false)
        });
        if is_long {
            if !in_pieces {
                // It is written as a whole, but not by a worker.
                self.hand_over_above(u64::MAX);
            }
            self.client.long_reply = LongReply::Wanted;
        }
        Ok(())
    }
}

impl Executor {
    /// Writes the next piece of a client's long reply; returns the write that it waits for. Where the piece cannot be had, the
    /// connection is to be closed: what was sent cannot be taken back. May block.
    pub fn go_on(&mut self, server: &Server, client: &mut Client, out: &mut Reply) -> Seq {
        let LongReply::Open(open) = &mut client.long_reply else { return 0 };
        let (now_ms, required) = (open.now_ms, open.required);
        let (bytes, ranges) = std::mem::take(&mut open.request);
        let (table, mark, changes) = (self.table, out.len(), &mut self.changes);
        let args = Args::new(&bytes, &ranges);
        // It was found for the first piece.
        let Some(spec) = table.find(args.get(0)) else {
            (client.long_reply, client.closing) = (LongReply::None, true);
            return 0;
        };
        let mut ctx = Ctx { server, client, table, args, spec, out, tx: None, changes, now_ms };
        let failed = run_guarded(&mut ctx).and_then(|result| result).err();
        if let LongReply::Open(open) = &mut client.long_reply {
            open.request = (bytes, ranges);
        }
        if let Some(error) = failed {
            self.fail(server, client, (out, mark), &error);
        }
        required
    }

    fn fail(
        &self,
        server: &Server,
        client: &mut Client,
        (out, mark): (&mut Reply, usize),
        error: &CommandError,
    ) {
        let error = error.bytes();
        server.observe.traffic.count_error(&error);
        crate::log::warning(&format!(
            "A long reply to client {} could not be finished, its connection is closed: {}",
            client.id,
            String::from_utf8_lossy(&error)
        ));
        out.truncate(mark);
        client.long_reply = LongReply::None;
        client.closing = true;
    }
}
