//! Connections are closed where all of them hold too much.

use crate::client_memory::clients_max_bytes;
use crate::dispatch::client::Client;
use crate::log;
use crate::server::Server;
use crate::session::Session;
use std::sync::atomic::Ordering;

/// The task of a connection and its socket, in bytes.
pub const TASK_BYTES: usize = 512;

/// Memory of an idle connection, in bytes.
const IDLE_BYTES: usize = size_of::<Session>() + size_of::<Client>() + TASK_BYTES;

/// Closes the largest connections while all of them together use as much as `maxmemory-clients` allows, or more than
/// their share of `maxmemory` in addition to their idle size.
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
    // Summed up again: a connection closed since the count must not be compensated by all others.
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
