//! Channels, patterns and shard channels: their subscribers, and the delivery of messages.
//!
//! Messages are put into the listeners' outboxes while the registry is locked. So a connection that has left a
//! channel receives nothing from it afterwards, and all listeners of a channel see one order.

mod subscriptions;

pub use subscriptions::Subscriptions;

use crate::interop::glob;
use crate::resp::Reply;
use crate::session::{OutputLimit, Session};
use parking_lot::Mutex;
use sexton_engine::Seq;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What can be subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SUBSCRIBE: a channel by its name.
    Channel,
    /// PSUBSCRIBE: all channels whose names match.
    Pattern,
    /// SSUBSCRIBE: a shard channel.
    Shard,
}

/// All kinds, in the order of their numbers.
pub const KINDS: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];

impl Kind {
    /// The word in front of a message.
    fn message_word(self) -> &'static [u8] {
        match self {
            Self::Channel => b"message",
            Self::Pattern => b"pmessage",
            Self::Shard => b"smessage",
        }
    }
}

type Listeners = BTreeMap<Vec<u8>, Vec<Arc<Session>>>;

/// All subscriptions of all connections.
#[derive(Debug, Default)]
pub struct PubSub {
    /// Number of subscriptions of any kind, so that publishing without subscribers takes no lock.
    all: AtomicUsize,
    listeners: Mutex<[Listeners; 3]>,
    /// `client-output-buffer-limit pubsub`: what a listener may leave unread.
    pub output_limit: OutputLimit,
}

impl PubSub {
    /// True while any client listens to anything.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.all.load(Ordering::Relaxed) != 0
    }

    /// Adds a listener, which must not be one of this name yet.
    pub fn subscribe(&self, kind: Kind, name: &[u8], session: &Arc<Session>) {
        let mut listeners = self.listeners.lock();
        listeners[kind as usize].entry(name.to_vec()).or_default().push(Arc::clone(session));
        self.all.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a listener away; nothing of this name is put into its outbox from here on.
    pub fn unsubscribe(&self, kind: Kind, name: &[u8], session: &Session) {
        let mut listeners = self.listeners.lock();
        let Some(of_name) = listeners[kind as usize].get_mut(name) else { return };
        let before = of_name.len();
        of_name.retain(|other| other.id != session.id);
        self.all.fetch_sub(before - of_name.len(), Ordering::Relaxed);
        if of_name.is_empty() {
            listeners[kind as usize].remove(name);
        }
    }

    /// Number of names of a kind with subscribers.
    #[must_use]
    pub fn names(&self, kind: Kind) -> usize {
        self.listeners.lock()[kind as usize].len()
    }

    /// The names of a kind, those that match a pattern only if there is one.
    #[must_use]
    pub fn names_like(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let listeners = self.listeners.lock();
        let names = listeners[kind as usize].keys();
        names.filter(|name| pattern.is_none_or(|p| glob::matches(p, name))).cloned().collect()
    }

    /// Number of listeners of a name.
    #[must_use]
    pub fn listeners_of(&self, kind: Kind, name: &[u8]) -> usize {
        self.listeners.lock()[kind as usize].get(name).map_or(0, Vec::len)
    }

    /// The connections subscribed to a name for which `wanted` holds, once per such name.
    pub fn listeners_where(
        &self,
        wanted: impl Fn(Kind, &[u8], &Session) -> bool,
    ) -> Vec<Arc<Session>> {
        let listeners = self.listeners.lock();
        let mut found = Vec::new();
        for kind in KINDS {
            for (name, sessions) in &listeners[kind as usize] {
                found.extend(sessions.iter().filter(|s| wanted(kind, name, s)).cloned());
            }
        }
        found
    }

    /// Sends a message that is delivered when `required` is durable (N13; 0 for at once); returns the number of
    /// receiving connections, each counted once per matching subscription.
    pub fn publish(&self, kind: Kind, channel: &[u8], message: &[u8], required: Seq) -> usize {
        if !self.is_used() {
            return 0;
        }
        let listeners = self.listeners.lock();
        let mut receivers = 0;
        if let Some(sessions) = listeners[kind as usize].get(channel) {
            let parts = [kind.message_word(), channel, message];
            receivers += self.send(sessions, &parts, required);
        }
        if kind == Kind::Channel {
            for (pattern, sessions) in &listeners[Kind::Pattern as usize] {
                if glob::matches(pattern, channel) {
                    let parts = [Kind::Pattern.message_word(), pattern, channel, message];
                    receivers += self.send(sessions, &parts, required);
                }
            }
        }
        receivers
    }

    /// The current number of receivers of a message on this channel.
    pub fn receivers(&self, kind: Kind, channel: &[u8]) -> usize {
        if !self.is_used() {
            return 0;
        }
        let listeners = self.listeners.lock();
        let direct = listeners[kind as usize].get(channel).map_or(0, |sessions| sessions.len());
        let patterns = &listeners[Kind::Pattern as usize];
        let matching = patterns
            .iter()
            .filter(|(pattern, _)| kind == Kind::Channel && glob::matches(pattern, channel));
        direct + matching.map(|(_, sessions)| sessions.len()).sum::<usize>()
    }

    /// Puts one message into the outbox of each session, encoded once a protocol.
    fn send(&self, sessions: &[Arc<Session>], parts: &[&[u8]], required: Seq) -> usize {
        let mut encoded: [Option<Reply>; 2] = [None, None];
        for session in sessions {
            let resp3 = session.protocol.load(Ordering::Relaxed) == 3;
            let message = encoded[usize::from(resp3)].get_or_insert_with(|| {
                let mut out = Reply::new();
                out.set_resp3(resp3);
                out.push(parts.len());
                parts.iter().for_each(|part| out.bulk(part));
                out
            });
            let unsent = session.output_bytes.load(Ordering::Relaxed);
            let room = self.output_limit.listener_max_bytes().saturating_sub(unsent);
            if session.outbox.push(message.bytes(), required, room) {
                session.wake_task();
            } else if !session.is_killed() {
                crate::session::output_limit::over_output_limit(
                    session,
                    unsent + session.outbox.bytes(),
                );
            }
        }
        sessions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn messages_reach_channels_and_matching_patterns() {
        let pubsub = PubSub::default();
        let (a, b) = (Arc::new(Session::default()), Arc::new(Session::default()));
        b.protocol.store(3, Ordering::Relaxed);
        assert_eq!(pubsub.publish(Kind::Channel, b"news", b"x", 0), 0);
        pubsub.subscribe(Kind::Channel, b"news", &a);
        pubsub.subscribe(Kind::Pattern, b"n*", &b);
        pubsub.subscribe(Kind::Shard, b"news", &b);
        assert_eq!(pubsub.publish(Kind::Channel, b"news", b"hi", 9), 2);
        assert_eq!(pubsub.publish(Kind::Channel, b"other", b"hi", 0), 0);
        let parcel = a.outbox.take();
        assert_eq!(parcel.bytes, b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n");
        assert_eq!(parcel.marks, [(0, 9)]);
        let pattern = b">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n$2\r\nhi\r\n";
        assert_eq!(b.outbox.take().bytes, pattern);
        assert_eq!(pubsub.publish(Kind::Shard, b"news", b"s", 0), 1);
        assert_eq!(b.outbox.take().bytes, b">3\r\n$8\r\nsmessage\r\n$4\r\nnews\r\n$1\r\ns\r\n");
    }

    #[test]
    fn names_go_with_their_last_listener() {
        let pubsub = PubSub::default();
        let sessions: Vec<Arc<Session>> = (1..=2)
            .map(|id| Arc::new(Session::new(id, String::new(), String::new(), -1)))
            .collect();
        for session in &sessions {
            pubsub.subscribe(Kind::Channel, b"c", session);
        }
        assert_eq!(pubsub.listeners_of(Kind::Channel, b"c"), 2);
        pubsub.unsubscribe(Kind::Channel, b"c", &sessions[0]);
        pubsub.unsubscribe(Kind::Channel, b"c", &sessions[0]);
        assert_eq!(pubsub.names_like(Kind::Channel, Some(b"?")), [b"c".to_vec()]);
        assert!(pubsub.names_like(Kind::Channel, Some(b"??")).is_empty());
        pubsub.unsubscribe(Kind::Channel, b"c", &sessions[1]);
        assert!(!pubsub.is_used());
        assert_eq!(pubsub.names(Kind::Channel), 0);
    }

    #[test]
    fn a_listener_that_does_not_read_is_disconnected() {
        let pubsub = PubSub::default();
        let session = Arc::new(Session::default());
        let limits = b"normal 0 0 0 slave 0 0 0 pubsub 100000 0 0";
        pubsub.output_limit.set_from("pubsub", limits).unwrap();
        pubsub.subscribe(Kind::Channel, b"c", &session);
        for _ in 0..20 {
            pubsub.publish(Kind::Channel, b"c", &[b'x'; 10_000], 0);
        }
        assert!(session.is_killed());
        assert!(session.outbox.bytes() <= 100_000);
    }
}
