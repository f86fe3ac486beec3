//! The scanner's results: requests as positions in a buffer, and the errors of malformed bytes.

use std::fmt;

/// Limits that depend on configuration and on the client.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `proto-max-bulk-len`, in bytes.
    pub bulk_max_bytes: u64,
    /// Most bytes of a whole request: a longer one is passed over and answered with an error.
    pub request_max_bytes: u64,
    /// True once the client may send requests of any size.
    pub authenticated: bool,
    /// Requests found in one call.
    pub requests_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bulk_max_bytes: 512 << 20,
            request_max_bytes: u64::MAX,
            authenticated: true,
            requests_max: 1024,
        }
    }
}

/// The bytes are not a request; the connection is closed after this error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// `*` line without a valid number.
    InvalidMultibulkLength,
    /// Too many arguments before authentication.
    UnauthenticatedMultibulkLength,
    /// `*` line that does not end.
    TooBigMultibulkCount,
    /// Another type where an argument was due.
    ExpectedBulk(u8),
    /// `$` line without a valid number.
    InvalidBulkLength,
    /// Too long an argument before authentication.
    UnauthenticatedBulkLength,
    /// `$` line that does not end.
    TooBigBulkCount,
    /// Inline request that does not end.
    TooBigInline,
    /// Quotes of an inline request do not match.
    UnbalancedQuotes,
    /// The request is longer than memory allows. Its bytes have been passed over, and the next request can be read.
    TooLargeForMemory,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Self::InvalidMultibulkLength => f.write_str("invalid multibulk length"),
            Self::UnauthenticatedMultibulkLength => f.write_str("unauthenticated multibulk length"),
            Self::TooBigMultibulkCount => f.write_str("too big mbulk count string"),
            Self::ExpectedBulk(got) => write!(f, "expected '$', got '{}'", char::from(*got)),
            Self::InvalidBulkLength => f.write_str("invalid bulk length"),
            Self::UnauthenticatedBulkLength => f.write_str("unauthenticated bulk length"),
            Self::TooBigBulkCount => f.write_str("too big bulk count string"),
            Self::TooBigInline => f.write_str("too big inline request"),
            Self::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
            Self::TooLargeForMemory => f.write_str("request is too large for the memory bound"),
        }
    }
}

/// One complete request of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Index of its first argument in the batch's ranges.
    pub first: u32,
    /// Number of arguments, at least 1.
    pub count: u32,
    /// Where it starts in the buffer.
    pub start: u32,
    /// Where the next one starts.
    pub end: u32,
    /// True for an array, false for an inline request.
    pub array: bool,
}

/// Complete requests, as positions in the buffer they were found in. Reused from call to call.
#[derive(Debug, Default)]
pub struct Batch {
    /// (start, end) of every argument.
    pub ranges: Vec<(u32, u32)>,
    /// The requests in order.
    pub requests: Vec<Request>,
}

impl Batch {
    /// Forgets all requests and keeps the memory, unless it is unusually much.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.requests.clear();
        self.ranges.shrink_to(64 * 1024);
    }

    /// The argument positions of a request.
    #[must_use]
    pub fn args(&self, request: &Request) -> &[(u32, u32)] {
        let first = request.first as usize;
        &self.ranges[first..first + request.count as usize]
    }
}
