//! A connected TLS socket.
//!
//! It is used like a plain socket: bytes reported as written have been handed to the kernel. So no encrypted bytes are
//! pending outside the output that limits and closing look at.

use rustls::ServerConnection;
use std::cell::RefCell;
use std::future::Future;
use std::io::{self, BufRead, Read, Write};
use std::task::{Context, Poll, ready};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Encrypted bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Plain bytes that are encrypted before they are sent: four records.
const WRITE_BYTES: usize = 64 << 10;

/// Approximate size of a connection's state besides its buffers.
const STATE_BYTES: usize = 12 << 10;

thread_local! {
    /// A buffer for encrypted input, shared by the connections of a worker: idle ones have none.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The TLS state after a handshake, with decrypted but unread input.
#[derive(Debug)]
pub(crate) struct Secured(pub(super) Box<ServerConnection>);

impl Secured {
    /// Sends a text before the connection is closed, as far as the socket accepts it.
    pub(crate) fn say(&mut self, socket: &mut impl Write, text: &[u8]) -> io::Result<()> {
        self.0.writer().write_all(text)?;
        self.0.send_close_notify();
        while self.0.wants_write() {
            self.0.write_tls(socket)?;
        }
        Ok(())
    }
}

/// A socket registered with a runtime, and the state of TLS on it.
#[derive(Debug)]
pub(crate) struct TlsStream {
    socket: TcpStream,
    session: Box<ServerConnection>,
    /// Encrypted input that there was no room for.
    input: Vec<u8>,
    /// Plain bytes that are encrypted and not yet sent: the next write begins with them.
    encrypted: usize,
}

/// A socket with the interface of a blocking reader and writer that returns `WouldBlock`.
pub(super) struct Now<'s>(pub(super) &'s TcpStream);

impl Read for Now<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buf)
    }
}

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsStream {
    pub(crate) fn new(socket: TcpStream, secured: Secured) -> Self {
        Self { socket, session: secured.0, input: Vec::new(), encrypted: 0 }
    }

    /// The socket below.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Memory that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        STATE_BYTES + self.input.capacity()
    }

    /// Decrypts into the spare capacity of `buf`; 0 is the end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let mut input = std::mem::take(&mut self.input);
        if input.capacity() == 0 {
            input = SPARE.with_borrow_mut(std::mem::take);
        }
        let mut used = 0;
        let read = self.read_through(cx, (&mut input, &mut used), buf);
        input.drain(..used);
        if input.is_empty() {
            SPARE.with_borrow_mut(|spare| *spare = input);
        } else {
            self.input = input;
        }
        if self.session.wants_write() {
            // Replies of the TLS protocol itself. Bytes that the socket does not accept are sent with the next reply.
            let _ = self.send_encrypted();
        }
        read
    }

    fn read_through(
        &mut self,
        cx: &mut Context<'_>,
        (input, used): (&mut Vec<u8>, &mut usize),
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let before = buf.len();
        loop {
            let is_over = self.take_plain(buf)?;
            let has_room = buf.len() < buf.capacity();
            if is_over || (buf.len() > before && (*used == input.len() || !has_room)) {
                return Poll::Ready(Ok(buf.len() - before));
            }
            if *used == input.len() {
                *used = 0;
                input.clear();
                input.reserve(READ_BYTES);
                let mut reading = std::pin::pin!(self.socket.read_buf(input));
                match ready!(reading.as_mut().poll(cx)) {
                    // An end without a word is one, too: what came before it was whole.
                    Ok(0) => return Poll::Ready(Ok(0)),
                    Ok(_) => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            let mut rest = &input[*used..];
            self.session.read_tls(&mut rest)?;
            *used = input.len() - rest.len();
            self.session.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// Moves what is decrypted as far as there is room. True at the end of the stream.
    fn take_plain(&mut self, buf: &mut Vec<u8>) -> io::Result<bool> {
        while buf.len() < buf.capacity() {
            let mut reader = self.session.reader();
            let count = match reader.fill_buf() {
                Ok([]) => return Ok(true),
                Ok(chunk) => {
                    let count = chunk.len().min(buf.capacity() - buf.len());
                    buf.extend_from_slice(&chunk[..count]);
                    count
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // The end without a word.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(true),
                Err(error) => return Err(error),
            };
            reader.consume(count);
        }
        Ok(false)
    }

    /// Writes once; `Pending` means that the socket is full. The next write must then begin with these bytes.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.socket.poll_write_ready(cx))?;
                }
                written => return Poll::Ready(written),
            }
        }
    }

    /// Like [`Self::poll_write`], but does not register for a wake-up.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        debug_assert!(bytes.len() >= self.encrypted, "what is encrypted is written first");
        loop {
            if self.encrypted == 0 {
                let plain = &bytes[..bytes.len().min(WRITE_BYTES)];
                self.encrypted = self.session.writer().write(plain)?;
            }
            self.send_encrypted()?;
            if self.encrypted != 0 || bytes.is_empty() {
                return Ok(std::mem::take(&mut self.encrypted));
            }
            // Answers of the protocol had taken all the room, which is there now.
        }
    }

    fn send_encrypted(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            if self.session.write_tls(&mut Now(&self.socket))? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        self.session.send_close_notify();
        // The client may have disconnected, or may not read.
        let _ = self.send_encrypted();
    }
}
