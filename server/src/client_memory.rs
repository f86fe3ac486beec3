//! Memory of all connections, and the part of `maxmemory` that they may use.
//!
//! Incoming requests, queued commands, pending replies, watched and subscribed names: each is limited to a share
//! of the bound, so that clients, however many, cannot take the memory that data and store need.

use crate::server::Server;
use crate::session::Session;
use sexton_engine::KEY_MAX_BYTES;

/// Share of `maxmemory` (one part in this many) for one request, one queued transaction, or the names of one connection. While
/// a request is written, the store holds its data several times: in the request, the log's buffer, the memtable, the DRAM
/// table, and the block of a table.
const REQUEST_SHARE: u64 = 32;

/// All connections together: one part of this many.
const CLIENTS_SHARE: u64 = 8;

/// Like [`CLIENTS_SHARE`], but while eviction is on: keys are evicted to make room for connections, as in Redis.
const CLIENTS_SHARE_EVICTING: u64 = 4;

/// And at least so much then: what a few dozen ordinary requests in flight take.
const CLIENTS_MIN_EVICTING_BYTES: u64 = 16 << 20;

/// Share of the tracking table: one part of this many.
const TRACKING_SHARE: u64 = 64;

/// One reply: one part of this many.
const REPLY_SHARE: u64 = 8;

/// Share of one command's temporary memory: one part of this many.
const TRANSIENT_SHARE: u64 = 4;

/// Minimum for any bound: requests of a few hundred kilobytes are common.
const LEAST_BYTES: u64 = 256 << 10;

/// A share of the bound, or no limit where there is no bound.
fn share(server: &Server, parts: u64) -> u64 {
    match server.engine.memory_bound() {
        0 => u64::MAX,
        bound => (bound / parts).max(LEAST_BYTES),
    }
}

/// Maximum size of one request, of the value it creates, of the commands that MULTI queues, and of the names that a
/// connection watches and subscribes to.
#[must_use]
pub fn request_max_bytes(server: &Server) -> u64 {
    share(server, REQUEST_SHARE)
}

/// The memory limits of a batch's requests, according to the memory bound when the batch begins.
#[derive(Clone, Copy, Debug)]
pub struct RequestBounds {
    /// Maximum size of a request that needs no size check: no key and no value of it is too long.
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

/// Maximum size in bytes of one reply: memory does not allow more, or the connection is closed for it.
#[must_use]
pub fn written_max_bytes(server: &Server, session: &Session) -> u64 {
    reply_max_bytes(server).min(server.output_limit_of(session).closing_bytes())
}

/// Maximum size of the values that one request may load into memory from a device, unless it is a single value.
#[must_use]
pub fn load_max_bytes(server: &Server) -> u64 {
    share(server, REPLY_SHARE)
}

/// Most bytes that one command may take for a moment.
#[must_use]
pub fn transient_max_bytes(server: &Server) -> u64 {
    share(server, TRANSIENT_SHARE)
}

/// Maximum memory of all connections together, in addition to their idle size.
pub(crate) fn clients_max_bytes(server: &Server) -> u64 {
    if server.engine.evicts_keys() {
        share(server, CLIENTS_SHARE_EVICTING).max(CLIENTS_MIN_EVICTING_BYTES)
    } else {
        share(server, CLIENTS_SHARE)
    }
}
