//! What connections hold together, and how much of `maxmemory` they may have.
//!
//! Requests that arrive, queued commands, replies that wait, names that are watched or listened to: each is a
//! share of the bound, so that no client, and no number of them, takes what data and store need.

mod sum;

pub use sum::ClientMemory;

use crate::client::Client;
use crate::log;
use crate::server::Server;
use crate::session::Session;
use sexton_engine::KEY_MAX_BYTES;
use std::sync::atomic::Ordering;

/// The task of a connection and its socket, in bytes.
pub const TASK_BYTES: usize = 512;

/// What an idle connection holds, in bytes.
const IDLE_BYTES: usize = size_of::<Session>() + size_of::<Client>() + TASK_BYTES;

/// One request, one transaction that gathers, the names of one connection: one part of `maxmemory` of this many. The
/// store holds what a request brings several times over while it is written: in the request, the log's buffer, the
/// memtable, the DRAM table, and the block of a table.
const REQUEST_SHARE: u64 = 32;

/// All connections together: one part of this many.
const CLIENTS_SHARE: u64 = 8;

/// The same while keys are evicted, which make room for connections as they do in Redis.
const CLIENTS_SHARE_EVICTING: u64 = 4;

/// And at least so much then: what a few dozen ordinary requests in flight take.
const CLIENTS_MIN_EVICTING_BYTES: u64 = 16 << 20;

/// What is remembered of the caches of clients: one part of this many.
const TRACKING_SHARE: u64 = 64;

/// One reply: one part of this many.
const REPLY_SHARE: u64 = 8;

/// What one command needs for a moment: one part of this many.
const TRANSIENT_SHARE: u64 = 4;

/// However small the bound, so much is allowed: a request of a few hundred kilobytes is nothing unusual.
const LEAST_BYTES: u64 = 256 << 10;

/// A share of the bound, or no limit where there is no bound.
fn share(server: &Server, parts: u64) -> u64 {
    match server.engine.memory_bound() {
        0 => u64::MAX,
        bound => (bound / parts).max(LEAST_BYTES),
    }
}

/// Most bytes of one request, of the value it makes, of the commands that MULTI queues, and of the names that a
/// connection watches and listens to.
#[must_use]
pub fn request_max_bytes(server: &Server) -> u64 {
    share(server, REQUEST_SHARE)
}

/// What a request of a batch may take, as the memory bound has it when the batch begins.
#[derive(Clone, Copy, Debug)]
pub struct RequestBounds {
    /// Most bytes of a request whose size nobody has to ask about: no key and no value of it is too long.
    pub unasked_max_bytes: u64,
    /// Most bytes of its reply.
    pub reply_max_bytes: u64,
}

impl RequestBounds {
    /// Those of now.
    #[must_use]
    pub fn of(server: &Server, session: &Session) -> Self {
        Self {
            unasked_max_bytes: request_max_bytes(server).min(KEY_MAX_BYTES as u64),
            reply_max_bytes: written_max_bytes(server, session),
        }
    }
}

/// Most bytes of what is remembered of the caches of clients; 0 for no bound.
#[must_use]
pub fn tracking_max_bytes(server: &Server) -> u64 {
    match share(server, TRACKING_SHARE) {
        u64::MAX => 0,
        bytes => bytes,
    }
}

/// Most bytes of one reply.
#[must_use]
pub fn reply_max_bytes(server: &Server) -> u64 {
    share(server, REPLY_SHARE)
}

/// Bytes behind which nothing more is written of one reply: memory does not allow it, or the connection is closed for it.
#[must_use]
pub fn written_max_bytes(server: &Server, session: &Session) -> u64 {
    reply_max_bytes(server).min(server.output_limit_of(session).closing_bytes())
}

/// Most bytes of the values that one request may bring into memory from a device, unless it is a single value.
#[must_use]
pub fn load_max_bytes(server: &Server) -> u64 {
    share(server, REPLY_SHARE)
}

/// Most bytes that one command may take for a moment.
#[must_use]
pub fn transient_max_bytes(server: &Server) -> u64 {
    share(server, TRANSIENT_SHARE)
}

/// Most bytes of all connections together, beside what they have when they are idle.
fn clients_max_bytes(server: &Server) -> u64 {
    if server.engine.evicts_keys() {
        share(server, CLIENTS_SHARE_EVICTING).max(CLIENTS_MIN_EVICTING_BYTES)
    } else {
        share(server, CLIENTS_SHARE)
    }
}

/// Closes the connections that hold most while all of them together hold as much as `maxmemory-clients` says, or more than
/// their share of `maxmemory` beside what each has when it is idle.
pub fn evict_clients(server: &Server) {
    let memory = &server.client_memory;
    let held = memory.bytes() as u64;
    let (asked, share) =
        (memory.asked_max_bytes(server.engine.memory_bound()), clients_max_bytes(server));
    if held < asked && held <= share {
        return;
    }
    let idle = (server.sessions.len() * IDLE_BYTES) as u64;
    let max = share.saturating_add(idle).min(asked - 1);
    if held <= max {
        return;
    }
    let mut all = server.sessions.all();
    // Summed up anew: a connection that has closed since it was counted must not be paid for by all others.
    let mut left: u64 = all.iter().map(|other| noted_bytes(other)).sum();
    all.retain(|other| {
        !other.no_evict.load(Ordering::Relaxed) && !other.takes_copy.load(Ordering::Relaxed)
    });
    all.sort_by_key(|other| std::cmp::Reverse(noted_bytes(other)));
    for other in all {
        if left <= max {
            break;
        }
        left = left.saturating_sub(noted_bytes(&other));
        if !other.is_killed() {
            log::notice(&format!("Evicting client: {}", other.line()));
            server.stats.count_evicted_client();
            other.kill();
        }
    }
    if left > max {
        log::warning(&format!(
            "Over client maxmemory after evicting all evictable clients: {left} bytes are left, {max} are allowed"
        ));
    }
}

fn noted_bytes(session: &Session) -> u64 {
    session.noted_bytes.load(Ordering::Relaxed) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use sexton_engine::Engine;

    #[test]
    fn those_who_hold_most_are_closed_until_the_rest_fits() {
        let server = Server::new(Engine::in_memory(16).expect("a store in memory opens"), 16);
        let open = |bytes| {
            let session = server.sessions.open(String::new(), String::new(), -1);
            server.client_memory.note(&session, bytes);
            session
        };
        let sessions = [300, 100, 500, 400].map(|kib| open(kib << 10));
        let evicts = |session: &Session| {
            evict_clients(&server);
            session.is_killed()
        };
        assert!(!evicts(&sessions[0]), "there is no bound");
        // An eighth is a megabyte.
        server.engine.set_memory_bound(8 << 20);
        assert!(!evicts(&sessions[1]));
        assert_eq!(
            sessions.each_ref().map(|session| session.is_killed()),
            [false, false, true, false]
        );
        server.client_memory.note(&sessions[2], 0);
        sessions[3].no_evict.store(true, Ordering::Relaxed);
        server.client_memory.note(&sessions[3], 900 << 10);
        assert!(evicts(&sessions[0]));
        assert!(!sessions[3].is_killed(), "CLIENT NO-EVICT");
        for session in &sessions {
            server.client_memory.note(session, 0);
        }
        assert_eq!(server.client_memory.bytes(), 0);
    }

    #[test]
    fn nobody_pays_for_a_connection_that_is_just_closing() {
        let server = Server::new(Engine::in_memory(16).expect("a store in memory opens"), 16);
        server.engine.set_memory_bound(64 << 20);
        let sessions = [30 << 20, 1 << 20].map(|bytes| {
            let session = server.sessions.open(String::new(), String::new(), -1);
            server.client_memory.note(&session, bytes);
            session
        });
        // In the middle of its end: not listed any more, and still counted.
        server.sessions.close(sessions[0].id);
        evict_clients(&server);
        assert!(!sessions[1].is_killed());
    }

    #[test]
    fn the_largest_go_for_maxmemory_clients_and_what_an_idle_one_has_counts() {
        let server = Server::new(Engine::in_memory(16).expect("a store in memory opens"), 16);
        let sessions = [200, 400, 300].map(|kib| {
            let session = server.sessions.open(String::new(), String::new(), -1);
            server.client_memory.note(&session, kib << 10);
            session
        });
        server.client_memory.set_max(501 << 10);
        evict_clients(&server);
        assert_eq!(sessions.each_ref().map(|session| session.is_killed()), [false, true, false]);
        assert_eq!(server.stats.evicted_clients(), 1);
    }
}
