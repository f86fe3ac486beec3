//! Connections to other servers, which MIGRATE makes and which are kept for a while.

use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Connections that are kept at once, as in Redis.
const KEPT_MAX: usize = 64;

/// How long one is kept that nobody uses, as in Redis.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Interval of the checks whether the server stops while another one does not answer.
const LOOK: Duration = Duration::from_millis(100);

/// Longest line that another server may answer.
const LINE_MAX_BYTES: usize = 64 << 10;

/// Bytes that are sent at once, each piece within the patience of the request.
const PIECE_BYTES: usize = 64 << 10;

/// How long to wait for a sign of life, and what ends the wait early.
#[derive(Clone, Copy)]
pub struct Patience<'p> {
    /// For each piece that is sent and each line that is read.
    pub timeout: Duration,
    /// True when the server stops.
    pub is_over: &'p dyn Fn() -> bool,
}

impl Patience<'_> {
    /// Repeats what the system gives up after [`LOOK`], until it succeeds or the time is over.
    fn keep_trying<T>(&self, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let begun = Instant::now();
        loop {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {
                    if begun.elapsed() >= self.timeout || (self.is_over)() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                other => return other,
            }
        }
    }
}

/// Whether it was a matter of time.
#[must_use]
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreached {
    /// There is no such host.
    Unknown,
    /// Nobody answers.
    Silent,
    /// The host answers that nobody listens.
    Refused,
}

/// A port as C reads it: what is no number is 0, where nobody listens, and `None` is one that cannot be asked for.
fn port_of(text: &[u8]) -> Option<u16> {
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let number = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0_i64, |sum, byte| sum.saturating_mul(10).saturating_add(i64::from(byte - b'0')));
    let number = (if is_negative { -number } else { number }) as i32;
    u32::try_from(number).ok().map(|port| port as u16)
}

/// The system does not let go of a connection that is being made: a thread waits for it, where this one gives up.
fn connect_to(address: SocketAddr, patience: Patience<'_>) -> io::Result<TcpStream> {
    let (made, wait) = std::sync::mpsc::channel();
    let timeout = patience.timeout;
    std::thread::Builder::new().name("connect".to_owned()).spawn(move || {
        // Nobody waits any more where this fails.
        let _ = made.send(TcpStream::connect_timeout(&address, timeout));
    })?;
    let stream = patience.keep_trying(|| {
        wait.recv_timeout(LOOK.min(timeout))
            .unwrap_or_else(|_| Err(io::ErrorKind::WouldBlock.into()))
    })?;
    let slice = Some(LOOK.min(timeout));
    stream.set_nodelay(true)?;
    stream.set_read_timeout(slice)?;
    stream.set_write_timeout(slice)?;
    Ok(stream)
}

/// A connection to another server.
#[derive(Debug)]
pub struct Target {
    stream: TcpStream,
    /// Read and not used yet.
    ahead: Vec<u8>,
    /// The database that it has selected, where that is known.
    pub db: Option<i64>,
}

impl Target {
    /// Connects.
    ///
    /// # Errors
    /// There is no such host, it refuses, or it does not answer in time.
    pub fn connect(host: &[u8], port: &[u8], patience: Patience<'_>) -> Result<Self, Unreached> {
        let host = std::str::from_utf8(host).map_err(|_| Unreached::Unknown)?;
        let port = port_of(port).ok_or(Unreached::Unknown)?;
        let addresses = (host, port).to_socket_addrs();
        let addresses = addresses.map_err(|_| Unreached::Unknown)?;
        let mut failed = Unreached::Unknown;
        for address in addresses {
            match connect_to(address, patience) {
                Ok(stream) => return Ok(Self { stream, ahead: Vec::new(), db: None }),
                Err(error) if is_timeout(&error) => failed = Unreached::Silent,
                Err(_) => failed = Unreached::Refused,
            }
        }
        Err(failed)
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// The connection is broken, or takes nothing for as long as one is patient.
    pub fn send(&mut self, bytes: &[u8], patience: Patience<'_>) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            let piece = &left[..left.len().min(PIECE_BYTES)];
            let sent = patience.keep_trying(|| self.stream.write(piece))?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            left = &left[sent..];
        }
        Ok(())
    }

    /// The next line that it answers, without its end.
    ///
    /// # Errors
    /// The connection is broken, nothing comes for as long as one is patient, or the line does not end.
    pub fn line(&mut self, patience: Patience<'_>) -> io::Result<Vec<u8>> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.ahead[searched..].iter().position(|&byte| byte == b'\n') {
                let mut line: Vec<u8> = self.ahead.drain(..=searched + at).collect();
                line.truncate(line.trim_ascii_end().len());
                return Ok(line);
            }
            searched = self.ahead.len();
            if searched > LINE_MAX_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut piece = [0; 4096];
            let read = patience.keep_trying(|| self.stream.read(&mut piece))?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.ahead.extend_from_slice(&piece[..read]);
        }
    }
}

#[derive(Debug)]
struct Kept {
    host: Vec<u8>,
    port: Vec<u8>,
    target: Target,
    since: Instant,
}

/// The connections that are kept: those in use are not among them.
#[derive(Debug, Default)]
pub struct Targets {
    kept: Mutex<Vec<Kept>>,
}

impl Targets {
    /// A connection to this server, which is not kept any more.
    #[must_use]
    pub fn take(&self, host: &[u8], port: &[u8]) -> Option<Target> {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|one| one.host == host && one.port == port)?;
        Some(kept.swap_remove(at).target)
    }

    /// Keeps a connection for the next request; the oldest goes where there are too many.
    pub fn keep(&self, host: &[u8], port: &[u8], target: Target) {
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT_MAX
            && let Some((oldest, _)) = kept.iter().enumerate().min_by_key(|(_, one)| one.since)
        {
            kept.swap_remove(oldest);
        }
        let (host, port) = (host.to_vec(), port.to_vec());
        kept.push(Kept { host, port, target, since: Instant::now() });
    }

    /// Closes those that nobody has used for a while.
    pub fn close_idle(&self) {
        self.kept.lock().retain(|one| one.since.elapsed() < KEPT_FOR);
    }

    /// How many are kept.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const PATIENCE: Patience<'_> =
        Patience { timeout: Duration::from_secs(20), is_over: &|| false };

    /// A server that answers each connection with these bytes and closes it.
    fn server(answers: &'static [&'static [u8]]) -> Vec<u8> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for answer in answers {
                listener.accept().unwrap().0.write_all(answer).unwrap();
            }
        });
        port.to_string().into_bytes()
    }

    #[test]
    fn lines_come_one_by_one_and_then_the_end() {
        let port = server(&[b"+OK\r\n-ERR no\r\nhalf"]);
        let mut target = Target::connect(b"127.0.0.1", &port, PATIENCE).unwrap();
        assert_eq!(target.line(PATIENCE).unwrap(), b"+OK");
        assert_eq!(target.line(PATIENCE).unwrap(), b"-ERR no");
        assert_eq!(target.line(PATIENCE).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn one_who_is_silent_is_given_up_in_time_or_when_the_server_stops() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let short = Patience { timeout: Duration::from_millis(20), ..PATIENCE };
        let mut target = Target::connect(b"127.0.0.1", port.as_bytes(), short).unwrap();
        assert!(is_timeout(&target.line(short).unwrap_err()));
        let stops = Patience { is_over: &|| true, ..PATIENCE };
        assert!(is_timeout(&target.line(stops).unwrap_err()));
    }

    #[test]
    fn a_connection_is_kept_for_its_server_alone() {
        let port = server(&[b"", b""]);
        let connect = || Target::connect(b"127.0.0.1", &port, PATIENCE).unwrap();
        let targets = Targets::default();
        targets.keep(b"127.0.0.1", &port, connect());
        assert!(targets.take(b"localhost", &port).is_none());
        assert!(targets.take(b"127.0.0.1", &port).is_some());
        assert!(targets.take(b"127.0.0.1", &port).is_none());
        let mut kept = connect();
        kept.db = Some(7);
        targets.keep(b"127.0.0.1", &port, kept);
        targets.close_idle();
        assert_eq!(targets.count(), 1);
    }

    #[test]
    fn nobody_is_reached_for_different_reasons() {
        for (port, reason) in [
            (&b"x"[..], Unreached::Refused),
            (b"", Unreached::Refused),
            (b"65536", Unreached::Refused),
            (b"-1", Unreached::Unknown),
            (b"2147483648", Unreached::Unknown),
            (b"9223372036854775808", Unreached::Unknown),
        ] {
            let unreached = Target::connect(b"127.0.0.1", port, PATIENCE).map(|_| ());
            assert_eq!(unreached, Err(reason), "{}", port.escape_ascii());
        }
        let unknown = Target::connect(b"\xff", b"1", PATIENCE).map(|_| ());
        assert_eq!(unknown, Err(Unreached::Unknown));
        // Nobody takes the connections that are queued; more of them are not answered.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let port = address.port().to_string();
        let stops = Patience { is_over: &|| true, ..PATIENCE };
        let mut queued = Vec::new();
        let silent = loop {
            match Target::connect(b"127.0.0.1", port.as_bytes(), stops) {
                Ok(target) => queued.push(target),
                Err(unreached) => break unreached,
            }
        };
        assert_eq!(silent, Unreached::Silent);
    }
}
