//! The request scanner: finds complete requests in a read buffer without copying them.
//!
//! It never examines a byte twice: a request that has arrived only in part is continued where the
//! last call stopped. It does not recurse, and its memory grows with the arguments that have arrived,
//! not with what a header announces. Limits and error texts are those of Redis 7.0.15.

use super::inline::split_inline;
use super::request::{Batch, Limits, ProtocolError, Request};
use memchr::{memchr, memchr2};

/// Longest inline request, and longest `*` or `$` line, in bytes (`PROTO_INLINE_MAX_SIZE`).
const LINE_MAX_BYTES: usize = 64 * 1024;

/// What an unauthenticated client may send: arguments of one request.
const UNAUTHENTICATED_ARGS_MAX: i64 = 10;

/// What an unauthenticated client may send: bytes of one argument.
const UNAUTHENTICATED_BULK_MAX_BYTES: i64 = 16_384;

/// An argument from which on Redis keeps what is in front of it elsewhere.
const LONG_ARGUMENT_BYTES: usize = 32 << 10;

/// The scanner's memory of one connection.
#[derive(Debug, Default)]
pub struct Scanner {
    /// Offset of the next byte to examine, from the start of the unfinished request.
    at: usize,
    /// Arguments still missing; 0 outside an array.
    missing: u32,
    /// Length of the argument whose header was read.
    bulk_len: Option<usize>,
    /// Arguments found so far, from the start of the unfinished request.
    found: Vec<(u32, u32)>,
    /// The request is passed over; `bulk_len` is what is left of its argument, with the line end.
    passing: bool,
}

enum Step {
    Done(usize),
    /// The request is too large. It is passed over from here on.
    TooLarge(usize),
    Nothing(usize),
    Incomplete,
}

impl Scanner {
    /// Forgets the unfinished request: the next call starts at its first byte again.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// How many bytes the unfinished request needs beyond what it had, as far as that is known: the
    /// rest of the argument that is arriving.
    #[must_use]
    pub fn wanted_bytes(&self, available: usize) -> usize {
        let bulk_len = self.bulk_len.filter(|_| !self.passing);
        bulk_len.map_or(0, |len| (self.at + len + 2).saturating_sub(available))
    }

    /// Bytes of the unfinished request in front of the argument that is arriving, where that is a long one: what Redis
    /// takes out of its query buffer.
    #[must_use]
    pub fn parsed_bytes(&self) -> usize {
        let is_long = self.bulk_len.is_some_and(|len| len >= LONG_ARGUMENT_BYTES);
        if is_long && !self.passing { self.at } else { 0 }
    }

    /// Memory of the arguments' places.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.found.capacity() * size_of::<(u32, u32)>()
    }

    /// Appends the complete requests at the start of `buf` to the (empty) `batch` and returns how
    /// many bytes they take. The bytes after them are an unfinished request: the next call must
    /// get them again at the start of its buffer. Inline requests are unquoted in place.
    ///
    /// # Errors
    /// The requests before the error are in `batch`; nothing after it can be parsed.
    pub fn scan(
        &mut self,
        buf: &mut [u8],
        batch: &mut Batch,
        limits: Limits,
    ) -> (usize, Option<ProtocolError>) {
        debug_assert!(batch.requests.is_empty() && batch.ranges.is_empty());
        // O(1), however many arguments have arrived: nothing is copied between calls.
        std::mem::swap(&mut self.found, &mut batch.ranges);
        let mut start = 0;
        while start < buf.len() && batch.requests.len() < limits.requests_max {
            if self.passing {
                match self.pass_over(buf, &mut start) {
                    Ok(false) => return (start, None),
                    Ok(true) => return (start, Some(ProtocolError::TooLargeForMemory)),
                    Err(error) => {
                        self.reset();
                        return (start, Some(error));
                    }
                }
            }
            let array = buf[start] == b'*';
            let first = batch.ranges.len();
            // Only the first request of a call can be a continued one, and it starts at 0.
            let first = if start == 0 { 0 } else { first };
            let step = if array {
                self.array(buf, start, &mut batch.ranges, limits)
            } else {
                self.inline(buf, start, &mut batch.ranges)
            };
            match step {
                Ok(Step::Done(end)) => {
                    batch.requests.push(Request {
                        first: first as u32,
                        count: (batch.ranges.len() - first) as u32,
                        start: start as u32,
                        end: end as u32,
                        array,
                    });
                    start = end;
                    self.at = 0;
                }
                Ok(Step::Nothing(end)) => {
                    start = end;
                    self.at = 0;
                }
                Ok(Step::TooLarge(at)) => {
                    batch.ranges.truncate(first);
                    start = at;
                    self.at = 0;
                }
                Ok(Step::Incomplete) => {
                    self.keep(start, first, batch);
                    return (start, None);
                }
                Err(error) => {
                    batch.ranges.truncate(first);
                    self.reset();
                    return (start, Some(error));
                }
            }
        }
        (start, None)
    }

    /// Moves the arguments of the unfinished request out of the batch.
    fn keep(&mut self, start: usize, first: usize, batch: &mut Batch) {
        if first == 0 {
            std::mem::swap(&mut self.found, &mut batch.ranges);
        } else {
            self.found.extend(batch.ranges.drain(first..));
        }
        let offset = start as u32;
        if offset != 0 {
            for range in &mut self.found {
                *range = (range.0 - offset, range.1 - offset);
            }
        }
    }

    fn array(
        &mut self,
        buf: &[u8],
        start: usize,
        ranges: &mut Vec<(u32, u32)>,
        limits: Limits,
    ) -> Result<Step, ProtocolError> {
        // Kept back only where something is still to come.
        let mut at = start + self.at;
        let mut missing = std::mem::take(&mut self.missing);
        let mut bulk_len = self.bulk_len.take();
        if missing == 0 {
            let Some((number, next)) = header(buf, at, ProtocolError::TooBigMultibulkCount)? else {
                return Ok(Step::Incomplete);
            };
            let Some(count) = number.filter(|&n| n <= i64::from(i32::MAX)) else {
                return Err(ProtocolError::InvalidMultibulkLength);
            };
            if count > UNAUTHENTICATED_ARGS_MAX && !limits.authenticated {
                return Err(ProtocolError::UnauthenticatedMultibulkLength);
            }
            if count <= 0 {
                return Ok(Step::Nothing(next));
            }
            missing = count as u32;
            at = next;
        }
        while missing > 0 {
            let len = match bulk_len.take() {
                Some(len) => len,
                None => {
                    let found = match buf.get(at) {
                        Some(_) => header(buf, at, ProtocolError::TooBigBulkCount)?,
                        None => None,
                    };
                    let Some((number, next)) = found else {
                        (self.at, self.missing) = (at - start, missing);
                        return Ok(Step::Incomplete);
                    };
                    if buf[at] != b'$' {
                        return Err(ProtocolError::ExpectedBulk(buf[at]));
                    }
                    let Some(len) = number.filter(|&n| n >= 0 && n as u64 <= limits.bulk_max_bytes)
                    else {
                        return Err(ProtocolError::InvalidBulkLength);
                    };
                    if len > UNAUTHENTICATED_BULK_MAX_BYTES && !limits.authenticated {
                        return Err(ProtocolError::UnauthenticatedBulkLength);
                    }
                    at = next;
                    if (at - start) as u64 + len as u64 > limits.request_max_bytes {
                        (self.passing, self.missing) = (true, missing);
                        self.bulk_len = Some(len as usize + 2);
                        return Ok(Step::TooLarge(at));
                    }
                    len as usize
                }
            };
            if buf.len() - at < len + 2 {
                (self.at, self.missing, self.bulk_len) = (at - start, missing, Some(len));
                return Ok(Step::Incomplete);
            }
            ranges.push((at as u32, (at + len) as u32));
            at += len + 2;
            missing -= 1;
        }
        Ok(Step::Done(at))
    }

    /// Skips the arrived part of a request that is too large; true at its end. `start` moves past the bytes that are not
    /// needed again.
    fn pass_over(&mut self, buf: &[u8], start: &mut usize) -> Result<bool, ProtocolError> {
        loop {
            if let Some(left) = self.bulk_len {
                let step = left.min(buf.len() - *start);
                *start += step;
                self.bulk_len = Some(left - step).filter(|left| *left > 0);
                if self.bulk_len.is_some() {
                    return Ok(false);
                }
                self.missing -= 1;
                if self.missing == 0 {
                    self.passing = false;
                    return Ok(true);
                }
            }
            if *start >= buf.len() {
                return Ok(false);
            }
            let Some((number, next)) = header(buf, *start, ProtocolError::TooBigBulkCount)? else {
                return Ok(false);
            };
            if buf[*start] != b'$' {
                return Err(ProtocolError::ExpectedBulk(buf[*start]));
            }
            let len = number.and_then(|len| usize::try_from(len).ok());
            self.bulk_len = Some(len.ok_or(ProtocolError::InvalidBulkLength)? + 2);
            *start = next;
        }
    }

    fn inline(
        &mut self,
        buf: &mut [u8],
        start: usize,
        ranges: &mut Vec<(u32, u32)>,
    ) -> Result<Step, ProtocolError> {
        // Redis searches with strchr: a NUL ends the search, now and for ever.
        let from = start + self.at;
        let newline = match memchr2(b'\n', 0, &buf[from..]) {
            Some(at) if buf[from + at] == b'\n' => from + at,
            found => {
                if buf.len() - start > LINE_MAX_BYTES {
                    return Err(ProtocolError::TooBigInline);
                }
                self.at = found.map_or(buf.len(), |at| from + at) - start;
                return Ok(Step::Incomplete);
            }
        };
        let end = if newline > start && buf[newline - 1] == b'\r' { newline - 1 } else { newline };
        let first = ranges.len();
        split_inline(buf, start, end, ranges)?;
        let next = newline + 1;
        Ok(if ranges.len() == first { Step::Nothing(next) } else { Step::Done(next) })
    }
}

/// Reads the number after the type byte at `at` and finds the next line. The number is `None` if
/// it is not canonical; the outer option if the line has not arrived completely.
#[inline(always)]
fn header(
    buf: &[u8],
    at: usize,
    too_big: ProtocolError,
) -> Result<Option<(Option<i64>, usize)>, ProtocolError> {
    // One or two digits cover most headers.
    if let [_, digit @ b'0'..=b'9', b'\r', _, ..] = buf[at..] {
        return Ok(Some((Some(i64::from(digit - b'0')), at + 4)));
    }
    if let [_, tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', _, ..] = buf[at..] {
        return Ok(Some((Some(i64::from(tens - b'0') * 10 + i64::from(ones - b'0')), at + 5)));
    }
    long_header(buf, at, too_big)
}

/// Like [`header`], but for headers of any length.
#[inline(never)]
fn long_header(
    buf: &[u8],
    at: usize,
    too_big: ProtocolError,
) -> Result<Option<(Option<i64>, usize)>, ProtocolError> {
    let line = &buf[at..];
    let window = &line[..line.len().min(LINE_MAX_BYTES + 2)];
    let end = match memchr2(b'\r', 0, window) {
        Some(end) if line[end] == b'\r' => Some(end),
        Some(_) => None,
        // Beyond the window Redis still finds the end of the line when it is there already.
        None => memchr(b'\r', &line[window.len()..]).map(|end| end + window.len()),
    };
    let Some(end) = end else {
        return if line.len() > LINE_MAX_BYTES { Err(too_big) } else { Ok(None) };
    };
    if end + 2 > line.len() {
        return Ok(None);
    }
    let number = line.get(1..end).and_then(crate::number::parse_i64);
    Ok(Some((number, at + end + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests found when the stream arrives in pieces that end at `cuts`, and the error.
    fn scan_in_pieces(
        stream: &[u8],
        piece: impl Fn(usize) -> usize,
    ) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
        let mut scanner = Scanner::default();
        let mut batch = Batch::default();
        let mut buf = Vec::new();
        let mut requests = Vec::new();
        let mut at = 0;
        while at < stream.len() {
            let len = piece(at).clamp(1, stream.len() - at);
            buf.extend_from_slice(&stream[at..at + len]);
            at += len;
            loop {
                batch.clear();
                let (used, error) = scanner.scan(&mut buf, &mut batch, Limits::default());
                for request in &batch.requests {
                    let args = batch.args(request);
                    requests.push(
                        args.iter().map(|&(s, e)| buf[s as usize..e as usize].to_vec()).collect(),
                    );
                }
                if error.is_some() {
                    return (requests, error);
                }
                buf.drain(..used);
                if batch.requests.is_empty() {
                    break;
                }
            }
        }
        (requests, None)
    }

    fn whole(stream: &[u8]) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
        scan_in_pieces(stream, |_| usize::MAX)
    }

    fn words(list: &[&[&[u8]]]) -> Vec<Vec<Vec<u8>>> {
        list.iter().map(|args| args.iter().map(|arg| arg.to_vec()).collect()).collect()
    }

    #[test]
    fn any_split_gives_the_same_requests() {
        let mut stream = Vec::new();
        stream.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n\r\n*0\r\n*-1\r\nPING\n");
        stream.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$11\r\nkey\r\n*1\r\n$4\r\n$0\r\n\r\n");
        stream.extend_from_slice(b"SET \"a\\x41\\n b\" 'it\\'s'  x\"y z\"\r\n*1\r\n$4\r\nQUIT\r\n");
        let (expected, error) = whole(&stream);
        assert_eq!(error, None);
        assert_eq!(
            expected,
            words(&[
                &[b"GET", b"a"],
                &[b"PING"],
                &[b"SET", b"key\r\n*1\r\n$4", b""],
                &[b"SET", b"aA\n b", b"it's", b"xy z"],
                &[b"QUIT"],
            ])
        );
        for cut in 1..stream.len() {
            let split = scan_in_pieces(&stream, |at| if at < cut { cut - at } else { usize::MAX });
            assert_eq!(split, (expected.clone(), None), "cut at {cut}");
        }
        for size in 1..20 {
            assert_eq!(scan_in_pieces(&stream, |_| size), (expected.clone(), None), "size {size}");
        }
    }

    #[test]
    fn errors_are_those_of_redis() {
        let error = |stream: &[u8]| whole(stream).1.map(|error| error.to_string());
        let text = |text: &str| Some(format!("Protocol error: {text}"));
        assert_eq!(error(b"*abc\r\n"), text("invalid multibulk length"));
        assert_eq!(error(b"*+1\r\n"), text("invalid multibulk length"));
        assert_eq!(error(b"*2147483648\r\n"), text("invalid multibulk length"));
        assert_eq!(error(b"*2147483647\r\n$4\r\nPING\r\n"), None);
        assert_eq!(error(b"*1\r\n:5\r\n"), text("expected '$', got ':'"));
        assert_eq!(error(b"*1\r\n:5"), None);
        assert_eq!(error(b"*1\r\n$-1\r\n"), text("invalid bulk length"));
        assert_eq!(error(b"*1\r\n$536870913\r\n"), text("invalid bulk length"));
        assert_eq!(error(b"*1\r\n$536870912\r\n"), None);
        assert_eq!(error(&[b'*'; 70_000]), text("too big mbulk count string"));
        assert_eq!(
            error(&[b"*1\r\n".as_slice(), &[b'$'; 70_000]].concat()),
            text("too big bulk count string")
        );
        assert_eq!(error(&[b'A'; 70_000]), text("too big inline request"));
        assert_eq!(error(b"SET \"a b\r\n"), text("unbalanced quotes in request"));
        assert_eq!(error(b"SET \"a\"b\r\n"), text("unbalanced quotes in request"));
    }

    #[test]
    fn unauthenticated_clients_are_limited() {
        let scan = |stream: &[u8]| {
            let limits = Limits { authenticated: false, ..Limits::default() };
            let mut buf = stream.to_vec();
            Scanner::default().scan(&mut buf, &mut Batch::default(), limits).1
        };
        assert_eq!(scan(b"*11\r\n"), Some(ProtocolError::UnauthenticatedMultibulkLength));
        assert_eq!(scan(b"*10\r\n"), None);
        assert_eq!(scan(b"*1\r\n$16385\r\n"), Some(ProtocolError::UnauthenticatedBulkLength));
        assert_eq!(scan(b"*1\r\n$16384\r\n"), None);
    }

    #[test]
    fn what_stood_before_an_error_is_kept() {
        let (requests, error) = whole(b"PING\r\n*1\r\n$4\r\nECHO\r\n*1\r\n$x\r\n");
        assert_eq!(requests, words(&[&[b"PING"], &[b"ECHO"]]));
        assert_eq!(error, Some(ProtocolError::InvalidBulkLength));
    }

    #[test]
    fn a_nul_hides_the_rest_of_an_inline_request() {
        assert_eq!(whole(b"PI\0NG\r\nPING\r\n"), (Vec::new(), None));
    }

    #[test]
    fn a_million_arguments_in_small_pieces_take_linear_time() {
        let mut stream = b"*1000000\r\n".to_vec();
        stream.extend_from_slice(&b"$1\r\nk\r\n".repeat(1_000_000));
        let mut scanner = Scanner::default();
        let mut batch = Batch::default();
        let mut looked_at = 0;
        for end in (0..=stream.len()).step_by(16_384).skip(1).chain([stream.len()]) {
            batch.clear();
            let before = scanner.at;
            let (used, error) = scanner.scan(&mut stream[..end], &mut batch, Limits::default());
            assert_eq!(error, None);
            assert!(used == 0 || used == stream.len());
            looked_at += if used == 0 { scanner.at } else { used } - before;
        }
        assert_eq!(batch.requests[0].count, 1_000_000);
        assert_eq!(looked_at, stream.len());
    }

    /// Requests and errors in order; an error that ends the connection is the last.
    fn scan_within(
        stream: &[u8],
        max_bytes: u64,
        piece: usize,
    ) -> Vec<Result<Vec<u8>, ProtocolError>> {
        let limits = Limits { request_max_bytes: max_bytes, ..Limits::default() };
        let (mut scanner, mut batch, mut buf) = (Scanner::default(), Batch::default(), Vec::new());
        let mut found = Vec::new();
        for part in stream.chunks(piece) {
            buf.extend_from_slice(part);
            loop {
                batch.clear();
                let (used, error) = scanner.scan(&mut buf, &mut batch, limits);
                for request in &batch.requests {
                    let &(start, end) = batch.args(request).last().unwrap();
                    found.push(Ok(buf[start as usize..end as usize].to_vec()));
                }
                buf.drain(..used);
                assert!(
                    buf.len() as u64 <= max_bytes + piece as u64,
                    "{} bytes are kept",
                    buf.len()
                );
                let Some(error) = error else {
                    if batch.requests.is_empty() {
                        break;
                    }
                    continue;
                };
                found.push(Err(error));
                if error != ProtocolError::TooLargeForMemory {
                    return found;
                }
            }
        }
        found
    }

    #[test]
    fn a_request_too_large_for_memory_is_passed_over() {
        let long = "v".repeat(5000);
        let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000\r\n{long}\r\n");
        let mset = format!("*4\r\n$4\r\nMSET\r\n$5000\r\n{long}\r\n$2\r\nab\r\n$0\r\n\r\n");
        let get = "*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
        let stream = [get, &set, get, &mset, &set, get].concat();
        let (ok, error) = (Ok(b"a".to_vec()), Err(ProtocolError::TooLargeForMemory));
        let wanted = [&ok, &error, &ok, &error, &error, &ok].map(Clone::clone);
        for piece in [1, 7, 100, 4096, stream.len()] {
            assert_eq!(scan_within(stream.as_bytes(), 300, piece), wanted, "in pieces of {piece}");
        }
        let broken = set.replace("$5000", "*5000");
        let end = scan_within([get, &broken].concat().as_bytes(), 300, 64);
        assert_eq!(end, [ok, Err(ProtocolError::ExpectedBulk(b'*'))]);
    }
}
