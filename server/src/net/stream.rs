//! A connected socket of either kind.

use crate::tls::TlsStream;
use bytes::BufMut;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};

/// Bytes that are read at once, at most: copying them out of a socket takes about 50 us, and whoever sends a large request fills it again
/// meanwhile.
const READ_MAX_BYTES: usize = 256 << 10;

/// A socket registered with the runtime of the worker that owns it.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Reads into the spare capacity of `buf`, once, and not more than 256 KB. A shorter read tells the runtime
    /// that the socket is drained, so that no second read is needed to detect that.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        fn read<S: AsyncRead + Unpin>(
            stream: &mut S,
            cx: &mut Context<'_>,
            buf: &mut Vec<u8>,
        ) -> Poll<io::Result<usize>> {
            std::pin::pin!(stream.read_buf(&mut buf.limit(READ_MAX_BYTES))).as_mut().poll(cx)
        }
        match self {
            Self::Tcp(stream) => read(stream, cx, buf),
            Self::Unix(stream) => read(stream, cx, buf),
            Self::Tls(stream) => stream.poll_read(cx, buf),
        }
    }

    /// Whether the client has closed its side. The task is woken when it does, unless earlier requests are still in the
    /// socket: then it must ask again.
    pub(super) fn is_closed_by_peer(&self, cx: &mut Context<'_>) -> bool {
        // The first call registers the task, the second one distinguishes requests from the end.
        let tcp = |stream: &TcpStream, cx: &mut Context<'_>| {
            let is_ready = stream.poll_read_ready(cx).is_ready();
            (is_ready, std::pin::pin!(stream.ready(Interest::READABLE)).poll(cx))
        };
        let (is_ready, ready) = match self {
            Self::Tcp(stream) => tcp(stream, cx),
            Self::Tls(stream) => tcp(stream.socket(), cx),
            Self::Unix(stream) => {
                let is_ready = stream.poll_read_ready(cx).is_ready();
                (is_ready, std::pin::pin!(stream.ready(Interest::READABLE)).poll(cx))
            }
        };
        is_ready
            && match ready {
                Poll::Ready(Ok(ready)) => ready.is_read_closed(),
                Poll::Ready(Err(_)) => true,
                Poll::Pending => false,
            }
    }

    /// Writes these parts, once; `Pending` means that the socket is full. The next write must then begin with these bytes.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        fn write<S: AsyncWrite + Unpin>(
            stream: &mut S,
            cx: &mut Context<'_>,
            parts: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            match parts {
                [bytes] => Pin::new(stream).poll_write(cx, bytes),
                _ => Pin::new(stream).poll_write_vectored(cx, parts),
            }
        }
        match self {
            Self::Tcp(stream) => write(stream, cx, parts),
            Self::Unix(stream) => write(stream, cx, parts),
            Self::Tls(stream) => stream.poll_write(cx, parts.first().map_or(&[], |part| part)),
        }
    }

    /// Writes once, without asking to be woken when the socket is full.
    pub(super) fn try_write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match (self, parts) {
            (Self::Tcp(stream), [bytes]) => stream.try_write(bytes),
            (Self::Unix(stream), [bytes]) => stream.try_write(bytes),
            (Self::Tcp(stream), _) => stream.try_write_vectored(parts),
            (Self::Unix(stream), _) => stream.try_write_vectored(parts),
            (Self::Tls(stream), _) => stream.try_write(parts.first().map_or(&[], |part| part)),
        }
    }

    /// User-space memory of the stream.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Tcp(_) | Self::Unix(_) => 0,
            Self::Tls(stream) => stream.held_bytes(),
        }
    }
}
