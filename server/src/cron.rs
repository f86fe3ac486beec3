//! What happens by the clock: expiry of keys nobody asks for, idle connections.

use crate::command::dispatch::{load_blocking, now_ms};
use crate::eviction;
use crate::notify::{NotifyClass, notify};
use crate::rdb::look_at_save_points;
use crate::resp::command_bytes;
use crate::rewrite::look_at_growth;
use crate::server::Server;
use sexton_engine::{Found, Key, Latched, OwnedKey, TxBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two cycles.
const TICK: Duration = Duration::from_millis(100);

/// Keys asked for at once.
const DUE_BATCH: usize = 64;

/// Longest stretch of expiring before others get the processor.
const SLICE: Duration = Duration::from_millis(1);

/// Runs the cycles until `stop` is set; made for a thread of its own, since it may wait for cold
/// keys.
pub fn run(server: &Arc<Server>, stop: &AtomicBool) {
    let mut buf = TxBuf::default();
    let mut ticks = 0_u64;
    let mut measured = Instant::now();
    while !stop.load(Ordering::Acquire) {
        // While there is more to do, cycles follow each other with short rests.
        eviction::make_room(server, &mut buf);
        let more = !server.loading.is_active() && expire_slice(server, &mut buf)
            || server.engine.over_bound();
        std::thread::sleep(if more { SLICE } else { TICK });
        if measured.elapsed() >= TICK {
            measured = Instant::now();
            server.engine.note_resident(crate::observe::rss_bytes().unwrap_or(0));
        }
        server.engine.kick_log();
        server.engine.set_access_now(server.eviction.access.fresh(now_ms()));
        server.observe.traffic.sample(Instant::now());
        ticks += 1;
        if ticks.is_multiple_of(10) {
            close_idle(server);
            close_over_output_limit(server);
            if !server.loading.is_active() {
                look_at_save_points(server);
                look_at_growth(server);
            }
            server.observe.note_peak(crate::observe::Memory::now().allocated_bytes);
        }
    }
}

/// Deletes due keys for about a millisecond; true when some are left.
fn expire_slice(server: &Server, buf: &mut TxBuf) -> bool {
    if !server.observe.active_expire() || server.sessions.is_paused() {
        return false;
    }
    let started = Instant::now();
    loop {
        let due = server.engine.due(now_ms(), DUE_BATCH);
        let full = due.len() == DUE_BATCH;
        for (db, key) in &due {
            if server.engine.must_wait() || server.engine.write_refusal().is_some() {
                return false;
            }
            expire(server, buf, *db, key);
        }
        if !full || started.elapsed() > SLICE {
            return full;
        }
    }
}

/// Deletes one key if it is still due (rule X3), logged as DEL.
fn expire(server: &Server, buf: &mut TxBuf, db: usize, bytes: &[u8]) {
    let engine = &server.engine;
    let hash = engine.hash(bytes);
    let mut _pin = None;
    loop {
        let mut tx = engine.begin(Latched::Hashes(&[hash]), buf);
        let key = Key { slot: engine.slot_of(db), bytes, hash };
        match tx.find(key) {
            Found::Live(entry) if entry.meta().is_expired(now_ms()) => {
                tx.delete(key);
                tx.log(db, &command_bytes(&[b"DEL", bytes]));
                if server.watches.is_used() {
                    server.watches.touch(db, bytes);
                }
                let commit = tx.commit();
                server.stats.count_expired(1);
                notify(server, NotifyClass::Expired, "expired", bytes, db);
                crate::notify::release(server, commit.last_seq);
                return;
            }
            Found::Live(_) | Found::Absent => return,
            Found::Cold => {
                let cold = OwnedKey { slot: key.slot, bytes: bytes.to_vec(), hash };
                drop(tx);
                // A key that cannot be read stays; the next reader hears of it.
                match load_blocking(server, vec![cold]) {
                    Ok(pin) => _pin = Some(pin),
                    Err(_) => return,
                }
            }
        }
    }
}

/// Closes connections that do not read their replies; a soft limit runs out without any event.
fn close_over_output_limit(server: &Server) {
    for session in server.sessions.all() {
        let unsent = session.output_bytes.load(Ordering::Relaxed);
        if unsent > 0 {
            crate::net::enforce_output_limit(server, &session, unsent as u64);
        }
    }
}

/// `timeout`: closes connections that have been idle for longer.
fn close_idle(server: &Server) {
    let timeout_s = server.settings.idle_timeout_s.load(Ordering::Relaxed);
    if timeout_s == 0 {
        return;
    }
    for session in server.sessions.all() {
        if session.idle_s() > timeout_s
            && !session.monitor.load(Ordering::Relaxed)
            && !session.is_subscriber()
        {
            session.kill();
        }
    }
}
