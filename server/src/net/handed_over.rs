//! A request on its way to a helper thread.

use crate::dispatch::client::Client;

/// A request is handed over with the buffer that it came in, if that has so much of it: a copy would keep the worker busy.
pub(super) const OWN_BUFFER_BYTES: usize = 64 << 10;

/// A request for a helper thread.
pub(super) struct Offloaded {
    pub(super) client: Box<Client>,
    /// Where its arguments are in the buffer of the connection.
    pub(super) ranges: Vec<(u32, u32)>,
    /// When it came.
    pub(super) now_ms: u64,
    /// Requests that were done with it, it included, and the last of them before it; they are not accounted for yet.
    pub(super) commands: u64,
    pub(super) last: &'static str,
}
