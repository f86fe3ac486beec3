//! Where a running server listens, and how that is changed.

use crate::log;
use crate::tls::Gate;
use sexton_config::TlsOptions;
use socket2::{Domain, Protocol, SockAddr, Socket as RawSocket, Type};
use std::fmt;
use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// An address could not be listened on.
#[derive(Debug)]
pub struct BindError {
    /// The address as configured, with its port.
    pub address: String,
    /// The system's error.
    pub error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: bind: {}", self.address, self.error)
    }
}

impl std::error::Error for BindError {}

/// What one TCP socket listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// It may be missing on this machine.
    pub(crate) is_optional: bool,
    /// Clients there speak TLS.
    pub(crate) is_secured: bool,
}

impl Address {
    /// All of `bind`, at `port`.
    pub(crate) fn all(bind: &[String], port: u16, is_secured: bool) -> Vec<Self> {
        let names = bind.iter().filter(|_| port != 0);
        names.map(|name| Self::of(name, port, is_secured)).collect()
    }

    fn of(name: &str, port: u16, is_secured: bool) -> Self {
        let (name, is_optional) = match name.strip_prefix('-') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let host = match name {
            "*" => "0.0.0.0",
            "::*" => "::",
            other => other,
        };
        Self { host: host.to_owned(), port, is_optional, is_secured }
    }

    /// A socket that listens there; `None` where the address is missing and may be.
    pub(crate) fn listen(&self, backlog: i32) -> Result<Option<TcpListener>, BindError> {
        match bind_tcp(&self.host, self.port, backlog) {
            Ok(listener) => Ok(Some(listener)),
            Err(error) if self.is_optional && is_absent(&error) => Ok(None),
            Err(error) => {
                let address = format!("{}:{}", self.host, self.port);
                log::warning(&format!(
                    "Warning: Could not create server TCP listening socket {address}: bind: {error}"
                ));
                Err(BindError { address, error })
            }
        }
    }
}

/// Moves the TCP sockets of a running server (CONFIG SET port, bind), and configures TLS for new clients.
#[derive(Clone, Debug)]
pub struct ListenControl {
    pub(crate) moves: mpsc::UnboundedSender<Move>,
    pub(crate) gate: Arc<Gate>,
}

/// The new addresses to listen on, and the channel for the result.
#[derive(Debug)]
pub(crate) struct Move {
    pub(crate) wanted: Vec<Address>,
    pub(crate) done: std::sync::mpsc::SyncSender<Result<(), BindError>>,
}

impl ListenControl {
    /// Listens on these addresses and on no others. Waits for it: not for a task of the runtime that accepts.
    ///
    /// # Errors
    /// An address that cannot be bound and is not optional. The server listens where it did before then.
    pub fn listen_on(&self, bind: &[String], port: u16, tls_port: u16) -> Result<(), BindError> {
        let (done, outcome) = std::sync::mpsc::sync_channel(1);
        let mut wanted = Address::all(bind, port, false);
        wanted.extend(Address::all(bind, tls_port, true));
        let stopping = || {
            let error = io::Error::from(io::ErrorKind::NotConnected);
            BindError { address: "the server is stopping".to_owned(), error }
        };
        self.moves.send(Move { wanted, done }).map_err(|_| stopping())?;
        outcome.recv().unwrap_or_else(|_| Err(stopping()))
    }

    /// Reads certificates and keys again, which new connections meet; those that there are stay.
    ///
    /// # Errors
    /// What is wrong with them. All is as before then.
    pub fn configure_tls(&self, options: &TlsOptions) -> Result<(), String> {
        self.gate.configure(options)
    }

    /// The number of current handshakes, and when the server's certificate expires, in seconds since the epoch (0 without
    /// one).
    #[must_use]
    pub fn tls_state(&self) -> (usize, u64) {
        (self.gate.in_progress(), self.gate.not_after_s())
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
        || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

fn bind_tcp(host: &str, port: u16, backlog: i32) -> io::Result<TcpListener> {
    let addr = (host, port)
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
    let domain = if addr.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = RawSocket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(addr))?;
    socket.listen(backlog)?;
    TcpListener::from_std(socket.into())
}
