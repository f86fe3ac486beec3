//! Invalidation messages: the keys that caching clients must forget.

use crate::resp::Reply;
use crate::session::output_limit::over_output_limit;
use crate::session::{OutputLimit, Session, Sessions, TrackingMode};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The channel for invalidation messages under RESP2.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// What must be forgotten.
#[derive(Clone, Copy, Debug)]
pub(super) enum News<'a> {
    /// These keys.
    Keys(&'a [&'a [u8]]),
    /// Everything.
    All,
}

/// How messages reach connections.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// All connections.
    pub sessions: &'a Sessions,
    /// `client-output-buffer-limit normal`.
    pub normal_limit: &'a OutputLimit,
    /// `client-output-buffer-limit pubsub`.
    pub listener_limit: &'a OutputLimit,
}

impl Post<'_> {
    /// Sends the invalidation to a tracking connection, or to its redirection target. `own`: the number of the connection whose
    /// request runs, and its reply, after which that connection is notified.
    ///
    /// The message does not wait for the log: dropping a value is always safe, and a client that reads the key again waits (N13).
    pub(super) fn tell(
        self,
        tracker: &Arc<Session>,
        news: News<'_>,
        own: Option<(u64, &mut Reply)>,
    ) {
        let mut message = Reply::new();
        let Some(redirect) = tracker.tracking.redirect() else {
            if is_resp3(tracker) {
                write_push(&mut message, news, true);
                self.hand_over(tracker, &message, own);
            }
            return;
        };
        let Some(receiver) = self.sessions.get(redirect) else {
            tracker.tracking.add(TrackingMode::BROKEN_REDIRECT);
            if is_resp3(tracker) {
                message.set_resp3(true);
                message.push(2);
                message.bulk(b"tracking-redir-broken");
                message.int(redirect as i64);
                self.hand_over(tracker, &message, own);
            }
            return;
        };
        if is_resp3(&receiver) {
            write_push(&mut message, news, is_resp3(tracker));
        } else if receiver.is_subscriber() {
            message.array(3);
            message.bulk(b"message");
            message.bulk(CHANNEL);
            write_value(&mut message, news, is_resp3(tracker));
        } else {
            // It could not distinguish this from a reply.
            return;
        }
        self.hand_over(&receiver, &message, own);
    }

    fn hand_over(self, to: &Session, message: &Reply, own: Option<(u64, &mut Reply)>) {
        if let Some((_, reply)) = own.filter(|(id, _)| *id == to.id) {
            reply.raw(message.bytes());
            return;
        }
        let limit = if to.is_subscriber() { self.listener_limit } else { self.normal_limit };
        let unsent = to.output_bytes.load(Ordering::Relaxed);
        let room = limit.listener_max_bytes().saturating_sub(unsent);
        if to.outbox.push(message.bytes(), 0, room) {
            to.wake_task();
        } else if !to.is_killed() {
            // It would go on with values that are no longer true.
            over_output_limit(to, unsent + to.outbox.bytes());
        }
    }
}

fn is_resp3(session: &Session) -> bool {
    session.protocol.load(Ordering::Relaxed) == 3
}

fn write_push(out: &mut Reply, news: News<'_>, tracker_has_resp3: bool) {
    out.set_resp3(true);
    out.push(2);
    out.bulk(b"invalidate");
    write_value(out, news, tracker_has_resp3);
}

/// Writes the keys. As in Redis, a null is written in the protocol of the tracking connection, whichever connection receives it.
fn write_value(out: &mut Reply, news: News<'_>, tracker_has_resp3: bool) {
    match news {
        News::Keys(keys) => {
            out.array(keys.len());
            keys.iter().for_each(|key| out.bulk(key));
        }
        News::All => out.raw(if tracker_has_resp3 { b"_\r\n" } else { b"$-1\r\n" }),
    }
}
