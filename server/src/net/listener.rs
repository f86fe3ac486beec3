//! Accepts connections: several TCP addresses and a unix socket, distributed over the workers.

use super::early::{Door, EarlyRules};
use super::worker::{Socket, Workers};
use crate::auth::{Context, Denial, Identity, Reason};
use crate::clock::now_ms;
use crate::log;
use crate::server::Server;
use crate::state::listening::{Address, BindError, ListenControl, Move};
use crate::tls::{Arrived, Gate};
use sexton_config::TlsOptions;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

const DENIED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled \
and no password is set for the default user. In this mode connections are only accepted from the \
loopback interface. If you want to connect from external computers to Redis you may adopt one of \
the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET \
protected-mode no' from the loopback interface by connecting to Redis from the same host the \
server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. \
Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the \
protected mode by editing the Redis configuration file, and setting the protected mode option to \
'no', and then restarting the server. 3) If you started the server manually just for testing, \
restart it with the '--protected-mode no' option. 4) Setup a an authentication password for the \
default user. NOTE: You only need to do one of the above things in order for the server to start \
accepting connections from the outside.\r\n";

const TOO_MANY: &str = "-ERR max number of clients reached\r\n";

/// Where to listen.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// `bind`: addresses; one with a leading `-` may be missing on this machine; `*` and `::*` mean
    /// all addresses.
    pub bind: Vec<String>,
    /// `port`; 0 for none.
    pub port: u16,
    /// `tls-*`
    pub tls: TlsOptions,
    /// `unixsocket`.
    pub unix_socket: Option<PathBuf>,
    /// `unixsocketperm`.
    pub unix_socket_mode: Option<u32>,
    /// `tcp-backlog`.
    pub backlog: i32,
}

/// Open listening sockets, and the clients that connected before the server existed.
#[derive(Debug)]
pub struct Listeners {
    listeners: Vec<Listener>,
    door: Option<Door>,
    /// Listeners with TLS: no client is answered there before the server exists.
    secured: Vec<Listener>,
    gate: Arc<Gate>,
    backlog: i32,
}

/// One listening socket.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(Address, TcpListener),
    Unix(PathBuf, UnixListener),
}

impl Listener {
    /// The next client.
    pub(super) async fn accept(&self) -> io::Result<Waiting> {
        let unread = Vec::new();
        Ok(match self {
            Self::Tcp(_, listener) => {
                let (stream, addr) = listener.accept().await?;
                Waiting::Tcp { socket: stream.into_std()?, addr, unread }
            }
            Self::Unix(_, listener) => {
                let (stream, _) = listener.accept().await?;
                Waiting::Unix { socket: stream.into_std()?, unread }
            }
        })
    }
}

/// A client that no worker serves yet, with its unanswered input.
#[derive(Debug)]
pub(super) enum Waiting {
    Tcp { socket: std::net::TcpStream, addr: SocketAddr, unread: Vec<u8> },
    Unix { socket: std::os::unix::net::UnixStream, unread: Vec<u8> },
}

/// The sockets of a running server, each with the task that accepts.
struct Accepting {
    server: Arc<Server>,
    workers: Arc<Workers>,
    tcp: Vec<(Address, JoinHandle<()>)>,
    gate: Arc<Gate>,
    backlog: i32,
}

impl Accepting {
    fn accept(&mut self, listener: Listener) {
        let (server, workers) = (Arc::clone(&self.server), Arc::clone(&self.workers));
        let listener = match listener {
            Listener::Tcp(address, listener) if address.is_secured => {
                let gate = Arc::clone(&self.gate);
                let task = tokio::spawn(greet_all(server, workers, gate, listener));
                self.tcp.push((address, task));
                return;
            }
            plain => plain,
        };
        let (address, path) = match &listener {
            Listener::Tcp(address, _) => (Some(address.clone()), PathBuf::new()),
            Listener::Unix(path, _) => (None, path.clone()),
        };
        let task = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok(client) => admit(&server, &workers, client, &path),
                    // Out of descriptors: the backlog waits.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        });
        self.tcp.extend(address.map(|address| (address, task)));
    }

    /// Closes all that is not wanted, then opens what is missing; all as before when that fails.
    async fn listen_on(&mut self, wanted: &[Address]) -> Result<(), BindError> {
        let (kept, closed): (Vec<_>, Vec<_>) = std::mem::take(&mut self.tcp)
            .into_iter()
            .partition(|(address, _)| wanted.contains(address));
        self.tcp = kept;
        let mut before = Vec::new();
        for (address, task) in closed {
            task.abort();
            // The socket is closed with the task, and only then the address is free.
            let _ = task.await;
            before.push(address);
        }
        let is_open = |open: &[(Address, JoinHandle<()>)], address: &Address| {
            open.iter().any(|(known, _)| known == address)
        };
        let mut opened = Vec::new();
        for address in wanted {
            if is_open(&self.tcp, address) {
                continue;
            }
            match address.listen(self.backlog) {
                Ok(listener) => opened.extend(listener.map(|listener| (address.clone(), listener))),
                Err(error) => {
                    drop(opened);
                    for address in before {
                        // It was bound a moment ago; if another process has taken it, the log says so.
                        if let Ok(Some(listener)) = address.listen(self.backlog) {
                            self.accept(Listener::Tcp(address, listener));
                        }
                    }
                    return Err(error);
                }
            }
        }
        for (address, listener) in opened {
            self.accept(Listener::Tcp(address, listener));
        }
        Ok(())
    }
}

impl Listeners {
    /// Binds everything. Must run inside a runtime.
    ///
    /// # Errors
    /// The first address that cannot be bound and is not optional.
    pub fn bind(endpoints: &Endpoints) -> Result<Self, BindError> {
        let (mut listeners, mut secured) = (Vec::new(), Vec::new());
        for address in Address::all(&endpoints.bind, endpoints.port, false) {
            let listener = address.listen(endpoints.backlog)?;
            listeners.extend(listener.map(|listener| Listener::Tcp(address, listener)));
        }
        for address in Address::all(&endpoints.bind, endpoints.tls.port, true) {
            let listener = address.listen(endpoints.backlog)?;
            secured.extend(listener.map(|listener| Listener::Tcp(address, listener)));
        }
        let named = |error| BindError { address: "the thread of TLS".to_owned(), error };
        let gate = Arc::new(Gate::start().map_err(named)?);
        gate.configure(&endpoints.tls).map_err(|text| {
            log::warning(&text);
            named(io::Error::other("Failed to configure TLS. Check logs for more info."))
        })?;
        if let Some(path) = &endpoints.unix_socket {
            let listener = bind_unix(path, endpoints)
                .map_err(|error| BindError { address: path.display().to_string(), error })?;
            listeners.push(Listener::Unix(path.clone(), listener));
        }
        Ok(Self { listeners, door: None, secured, gate, backlog: endpoints.backlog })
    }

    /// From now on, and until [`serve`](Self::serve), new connections are told that the server is loading.
    pub fn answer_early(&mut self, rules: EarlyRules) {
        self.door = Some(Door::open(std::mem::take(&mut self.listeners), rules));
    }

    /// Accepts for ever, in tasks of the current runtime. What it answers moves the TCP sockets.
    pub async fn serve(mut self, server: Arc<Server>, workers: Arc<Workers>) -> ListenControl {
        let early = match self.door {
            None => Vec::new(),
            Some(door) => {
                let (listeners, clients) = door.close().await;
                self.listeners = listeners;
                clients
            }
        };
        let mut paths = self.listeners.iter().filter_map(|listener| match listener {
            Listener::Unix(path, _) => Some(path.clone()),
            Listener::Tcp(..) => None,
        });
        let path = paths.next_back().unwrap_or_default();
        for client in early {
            admit(&server, &workers, client, &path);
        }
        let (control, mut moves) = mpsc::unbounded_channel::<Move>();
        let gate = Arc::clone(&self.gate);
        let mut accepting =
            Accepting { server, workers, tcp: Vec::new(), gate: self.gate, backlog: self.backlog };
        for listener in self.listeners.into_iter().chain(self.secured) {
            accepting.accept(listener);
        }
        tokio::spawn(async move {
            while let Some(Move { wanted, done }) = moves.recv().await {
                let outcome = accepting.listen_on(&wanted).await;
                // The requester may have disconnected.
                let _ = done.send(outcome);
            }
        });
        ListenControl { moves: control, gate }
    }
}

/// Listens on all of these addresses, for clients of other protocols. Must run inside a runtime.
///
/// # Errors
/// The first address that cannot be bound and is not optional.
pub fn bind_all(bind: &[String], port: u16) -> Result<Vec<std::net::TcpListener>, BindError> {
    let mut sockets = Vec::new();
    for address in Address::all(bind, port, false) {
        if let Some(listener) = address.listen(BACKLOG)? {
            let socket =
                listener.into_std().map_err(|error| BindError { address: address.host, error })?;
            sockets.push(socket);
        }
    }
    Ok(sockets)
}

/// Backlog of [`bind_all`]'s sockets.
const BACKLOG: i32 = 64;

fn bind_unix(path: &PathBuf, endpoints: &Endpoints) -> io::Result<UnixListener> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    // Left over from an earlier run. Anything else at the path is a foreign file: binding then fails.
    if path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket()) {
        // If it cannot be removed, binding says so.
        let _ = std::fs::remove_file(path);
    }
    let listener = UnixListener::bind(path)?;
    if let Some(mode) = endpoints.unix_socket_mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(listener)
}

/// Sends the reason and closes the connection if `maxclients` is reached.
fn has_room(server: &Server, socket: &mut impl Write) -> bool {
    let max = server.settings.clients_max.load(Ordering::Relaxed) as usize;
    let room = server.sessions.len() < max;
    let traffic = &server.observe.traffic;
    let counter = if room { &traffic.connections } else { &traffic.rejected_connections };
    counter.fetch_add(1, Ordering::Relaxed);
    if !room {
        // The client may have disconnected already.
        let _ = socket.write_all(TOO_MANY.as_bytes());
    }
    room
}

/// Whether a client may connect from its address; sends the reason if not.
pub(super) fn may_enter(
    socket: &mut impl Write,
    addr: SocketAddr,
    protected_mode: bool,
    requires_password: bool,
) -> bool {
    let may = !protected_mode || requires_password || addr.ip().to_canonical().is_loopback();
    if !may {
        // The client may have disconnected already.
        let _ = socket.write_all(DENIED.as_bytes());
    }
    may
}

/// Accepts clients with TLS for ever.
async fn greet_all(
    server: Arc<Server>,
    workers: Arc<Workers>,
    gate: Arc<Gate>,
    listener: TcpListener,
) {
    loop {
        let Some(place) = gate.place().await else { return };
        let accepted = listener.accept().await;
        let Some((socket, addr)) =
            accepted.ok().and_then(|(stream, addr)| Some((stream.into_std().ok()?, addr)))
        else {
            // Out of descriptors: the backlog waits.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Without a handshake there is nothing that it would understand.
        if !has_room(&server, &mut io::sink()) {
            continue;
        }
        let (to, workers) = (Arc::clone(&server), Arc::clone(&workers));
        gate.greet((socket, addr), place, move |arrived| match arrived {
            Some(arrived) => admit_secured(&to, &workers, arrived, addr),
            None => {
                to.observe.tls.failed.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

/// Hands a client to a worker after its handshake.
fn admit_secured(server: &Server, workers: &Workers, arrived: Arrived, addr: SocketAddr) {
    let Arrived { mut socket, mut secured, is_resumed, user_names } = arrived;
    let figures = &server.observe.tls;
    figures.handshakes.fetch_add(1, Ordering::Relaxed);
    figures.resumed.fetch_add(u64::from(is_resumed), Ordering::Relaxed);
    let user = certified_user(server, &user_names, addr);
    let protected_mode = server.settings.protected_mode.load(Ordering::Relaxed);
    let mut refusal = Vec::new();
    // Others may have come in during the handshake.
    if server.sessions.len() >= server.settings.clients_max.load(Ordering::Relaxed) as usize {
        refusal.extend_from_slice(TOO_MANY.as_bytes());
        server.observe.traffic.rejected_connections.fetch_add(1, Ordering::Relaxed);
    }
    if !refusal.is_empty()
        || !may_enter(&mut refusal, addr, protected_mode, server.auth.is_required())
    {
        // The client may have disconnected already.
        let _ = secured.say(&mut socket, &refusal);
        return;
    }
    improve(server, &socket);
    let local = socket.local_addr().map_or_else(|_| String::new(), |addr| addr.to_string());
    let fd = socket.as_raw_fd();
    let session = server.sessions.open(addr.to_string(), local, fd);
    log::verbose(|| format!("Accepted {} with TLS", session.addr));
    workers.deal(Socket::Tls(socket, secured, user), session, Vec::new());
}

/// The user named by the client's certificate, as in Valkey: the first one that exists and may connect. If
/// there is none, the client is the default user, and the refusal is recorded.
fn certified_user(server: &Server, names: &[Vec<u8>], addr: SocketAddr) -> Option<Identity> {
    let found = names.iter().find_map(|name| server.auth.certified(name));
    if found.is_none()
        && let Some(name) = names.first()
    {
        let denial = Denial {
            reason: Reason::Certificate,
            context: Context::TopLevel,
            object: Vec::new(),
            user: name.clone(),
            client: format!("addr={addr}"),
        };
        server.auth.denials.note(denial, now_ms());
    }
    found
}

/// Sets options that are improvements only: a socket without them still works.
fn improve(server: &Server, socket: &std::net::TcpStream) {
    let _ = socket.set_nodelay(true);
    let keepalive_s = server.settings.keepalive_s.load(Ordering::Relaxed);
    if keepalive_s != 0 {
        let interval = Duration::from_secs((keepalive_s / 3).max(1));
        let keepalive =
            TcpKeepalive::new().with_time(Duration::from_secs(keepalive_s)).with_interval(interval);
        let _ = SockRef::from(socket).set_tcp_keepalive(&keepalive.with_retries(3));
    }
}

/// Hands a client to a worker, if there is room for it. `path`: that of the unix socket.
fn admit(server: &Server, workers: &Workers, client: Waiting, path: &Path) {
    match client {
        Waiting::Tcp { mut socket, addr, unread } => {
            let protected_mode = server.settings.protected_mode.load(Ordering::Relaxed);
            if !has_room(server, &mut socket)
                || !may_enter(&mut socket, addr, protected_mode, server.auth.is_required())
            {
                return;
            }
            improve(server, &socket);
            let local = socket.local_addr().map_or_else(|_| String::new(), |addr| addr.to_string());
            let fd = socket.as_raw_fd();
            let session = server.sessions.open(addr.to_string(), local, fd);
            log::verbose(|| format!("Accepted {}", session.addr));
            workers.deal(Socket::Tcp(socket), session, unread);
        }
        Waiting::Unix { mut socket, unread } => {
            if !has_room(server, &mut socket) {
                return;
            }
            let name = format!("{}:0", path.display());
            let fd = socket.as_raw_fd();
            let session = server.sessions.open(name.clone(), name, fd);
            workers.deal(Socket::Unix(socket), session, unread);
        }
    }
}
