//! Replies: RESP2 or RESP3 bytes appended to a connection's output buffer.

use sexton_persistence::aof::write_header;

/// Bytes of the longest header: its kind, a number, CR and LF.
const HEADER_MAX_BYTES: usize = 23;

/// Bytes that somebody else has, and that stay as they are for as long as this is there.
pub trait HeldBytes: std::ops::Deref<Target = [u8]> + std::fmt::Debug + Send {}

impl<T: std::ops::Deref<Target = [u8]> + std::fmt::Debug + Send> HeldBytes for T {}

/// Writes replies in the protocol version the client chose with HELLO.
#[derive(Debug, Default)]
pub struct Reply {
    buf: Vec<u8>,
    resp3: bool,
    /// Long parts that would end after this are omitted; 0 for no limit.
    end_max: usize,
    /// Some were.
    is_cut: bool,
    /// Values that are not in the buffer, each with its position in there.
    values: Vec<(usize, Box<dyn HeldBytes>)>,
}

impl Reply {
    /// An empty buffer for RESP2.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Switches between RESP2 (false) and RESP3 (true).
    pub fn set_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
    }

    /// True under RESP3.
    #[must_use]
    pub fn is_resp3(&self) -> bool {
        self.resp3
    }

    /// The bytes written so far, without [values that are held](Self::bulk_held).
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        debug_assert!(self.values.is_empty(), "values that nobody sends");
        &self.buf
    }

    /// The buffer itself, for the network layer.
    pub fn buf_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buf
    }

    /// Length in bytes, to `truncate` back to when a command fails half way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Length in bytes, with the values that are held.
    #[must_use]
    pub fn whole_len(&self) -> usize {
        self.buf.len() + self.values.iter().map(|(_, value)| value.len()).sum::<usize>()
    }

    /// True when there are values that are held.
    #[must_use]
    pub fn has_values(&self) -> bool {
        !self.values.is_empty()
    }

    /// The values that are held, each with the position in the bytes where it belongs.
    pub fn take_values(&mut self) -> Vec<(usize, Box<dyn HeldBytes>)> {
        std::mem::take(&mut self.values)
    }

    /// True when nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Truncates the buffer to `len`.
    pub fn truncate(&mut self, len: usize) {
        self.buf.truncate(len);
        while self.values.pop_if(|(at, _)| *at > len).is_some() {}
    }

    /// From here on no more than `bytes` are to be written, which memory allows; `u64::MAX` for no limit.
    pub fn limit(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes).ok();
        self.end_max = bytes.and_then(|bytes| self.buf.len().checked_add(bytes)).unwrap_or(0);
        self.is_cut = false;
    }

    /// True when what was written since [`Reply::limit`] is not whole.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether `bytes` further bytes fit; otherwise the reply is marked as cut.
    fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.end_max == 0 || self.buf.len() + bytes <= self.end_max;
        self.is_cut |= !fits;
        fits
    }

    /// Ready-made protocol bytes.
    pub fn raw(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            self.buf.extend_from_slice(bytes);
        }
    }

    fn header(&mut self, kind: u8, number: i64) {
        write_header(&mut self.buf, kind, number);
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.buf.extend_from_slice(b"+OK\r\n");
    }

    /// A simple string; must contain no CR or LF.
    pub fn simple(&mut self, text: &str) {
        self.buf.push(b'+');
        self.buf.extend_from_slice(text.as_bytes());
        self.buf.extend_from_slice(b"\r\n");
    }

    /// An error with its prefix (`ERR ...`, `WRONGTYPE ...`); CR and LF become blanks.
    pub fn error(&mut self, text: &[u8]) {
        self.buf.push(b'-');
        self.buf.extend(text.iter().map(|&b| if b == b'\r' || b == b'\n' { b' ' } else { b }));
        self.buf.extend_from_slice(b"\r\n");
    }

    /// An integer.
    pub fn int(&mut self, number: i64) {
        self.header(b':', number);
    }

    /// A bulk string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            // Once for all of it.
            self.buf.reserve(bytes.len() + HEADER_MAX_BYTES + 2);
            self.header(b'$', bytes.len() as i64);
            self.buf.extend_from_slice(bytes);
            self.buf.extend_from_slice(b"\r\n");
        }
    }

    /// A bulk string that is sent from where it is: only a connection may be written to, which knows of [values](Self::take_values).
    pub fn bulk_held(&mut self, value: Box<dyn HeldBytes>) {
        self.header(b'$', value.len() as i64);
        self.values.push((self.buf.len(), value));
        self.buf.extend_from_slice(b"\r\n");
    }

    /// Header of a bulk string of `len` bytes, whose [pieces](Self::bulk_piece) and [end](Self::bulk_end) follow.
    pub fn bulk_head(&mut self, len: u64) {
        self.header(b'$', len as i64);
    }

    /// A piece of a bulk string.
    pub fn bulk_piece(&mut self, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            self.buf.extend_from_slice(bytes);
        }
    }

    /// The end of a bulk string in pieces.
    pub fn bulk_end(&mut self) {
        self.buf.extend_from_slice(b"\r\n");
    }

    /// A missing value: `$-1` or `_`.
    pub fn null(&mut self) {
        self.buf.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// A missing array: `*-1` or `_`.
    pub fn null_array(&mut self) {
        self.buf.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// Header of an array of `len` elements, which follow.
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// Header of a map of `pairs`; a flat array under RESP2.
    pub fn map(&mut self, pairs: usize) {
        if self.resp3 {
            self.header(b'%', pairs as i64);
        } else {
            self.header(b'*', 2 * pairs as i64);
        }
    }

    /// Header of a set; an array under RESP2.
    pub fn set(&mut self, len: usize) {
        self.header(if self.resp3 { b'~' } else { b'*' }, len as i64);
    }

    /// Header of a push message; an array under RESP2.
    pub fn push(&mut self, len: usize) {
        self.header(if self.resp3 { b'>' } else { b'*' }, len as i64);
    }

    /// A boolean: `#t`/`#f` or 1/0.
    pub fn boolean(&mut self, value: bool) {
        if self.resp3 {
            self.buf.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" });
        } else {
            self.int(i64::from(value));
        }
    }

    /// A floating point number already formatted as Redis formats it.
    pub fn double(&mut self, text: &str) {
        if self.resp3 {
            self.buf.push(b',');
            self.buf.extend_from_slice(text.as_bytes());
            self.buf.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// A text with a three-letter format (`txt`, `mkd`); a bulk string under RESP2.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        if self.resp3 {
            self.header(b'=', text.len() as i64 + 4);
            self.buf.extend_from_slice(format.as_bytes());
            self.buf.push(b':');
            self.buf.extend_from_slice(text);
            self.buf.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text);
        }
    }
}
