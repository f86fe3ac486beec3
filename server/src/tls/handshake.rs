//! TLS handshakes. They run on a dedicated thread, so that neither connected clients nor those without TLS wait for them.
//! Their number and duration are limited.

use super::certificate::user_names;
use super::settings::{TlsSettings, explained};
use super::stream::{Now, Secured};
use crate::log;
use parking_lot::{Mutex, RwLock};
use rustls::{InvalidMessage, ServerConnection};
use sexton_config::TlsOptions;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of concurrent handshakes; further clients wait in the backlog.
const HANDSHAKES_MAX: usize = 256;

/// Time limit of a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Time between two lines about handshakes that failed.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// The way in for clients with TLS.
#[derive(Debug)]
pub(crate) struct Gate {
    settings: RwLock<Option<Arc<TlsSettings>>>,
    places: Arc<Semaphore>,
    runtime: Handle,
    failures: Mutex<Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    logged: Option<Instant>,
    /// Number of failures since then that were not logged.
    untold: u64,
}

/// A client that has completed its handshake, including the certificate if one was requested.
pub(crate) struct Arrived {
    pub(crate) socket: std::net::TcpStream,
    pub(crate) secured: Secured,
    /// It resumes an earlier session.
    pub(crate) is_resumed: bool,
    /// The users that its certificate names, the first one first.
    pub(crate) user_names: Vec<Vec<u8>>,
}

impl Gate {
    /// The gate, and its thread, which lives as long as the process.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime: Runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("tls".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(Self {
            settings: RwLock::default(),
            places: Arc::new(Semaphore::new(HANDSHAKES_MAX)),
            runtime: handle,
            failures: Mutex::default(),
        })
    }

    /// From now on handshakes use these options; existing connections are kept. Without `tls-port` no file is read.
    pub(crate) fn configure(&self, options: &TlsOptions) -> Result<(), String> {
        let settings = match options.port {
            0 => None,
            _ => Some(Arc::new(TlsSettings::of(options)?)),
        };
        *self.settings.write() = settings;
        Ok(())
    }

    /// When the server's certificate expires, in seconds since the epoch; 0 without one.
    pub(crate) fn not_after_s(&self) -> u64 {
        self.settings.read().as_ref().map_or(0, |settings| settings.not_after_s)
    }

    /// The number of current handshakes.
    pub(crate) fn in_progress(&self) -> usize {
        HANDSHAKES_MAX - self.places.available_permits()
    }

    /// A place for a handshake, as soon as there is one.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// Shakes hands with a client, on the gate's thread, and hands it on; `None` when it failed, which the log knows.
    pub(crate) fn greet(
        self: &Arc<Self>,
        (socket, addr): (std::net::TcpStream, SocketAddr),
        place: OwnedSemaphorePermit,
        then: impl FnOnce(Option<Arrived>) + Send + 'static,
    ) {
        let Some(settings) = self.settings.read().clone() else { return };
        let gate = Arc::clone(self);
        self.runtime.spawn(async move {
            let shaken = tokio::time::timeout(HANDSHAKE_TIME, shake(socket, &settings)).await;
            let late = |_| Err(format!("no handshake within {} s", HANDSHAKE_TIME.as_secs()));
            let arrived = shaken.unwrap_or_else(late).map(|(socket, session)| {
                let certificate = session.peer_certificates().and_then(|chain| chain.first());
                let names = certificate.map(|certificate| user_names(certificate, settings.user));
                let is_resumed = session.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
                let user_names = names.unwrap_or_default();
                Arrived { socket, secured: Secured(session), is_resumed, user_names }
            });
            drop(place);
            then(arrived.inspect_err(|reason| gate.note_failure(addr, reason)).ok());
        });
    }

    fn note_failure(&self, addr: SocketAddr, reason: &str) {
        let mut failures = self.failures.lock();
        if failures.logged.is_some_and(|logged| logged.elapsed() < LOG_EVERY) {
            failures.untold += 1;
            return;
        }
        failures.logged = Some(Instant::now());
        let more = match std::mem::take(&mut failures.untold) {
            0 => String::new(),
            untold => format!(" ({untold} more have failed since the last such line)"),
        };
        log::notice(&format!("Error accepting a client connection: {reason} (addr={addr}){more}"));
    }
}

async fn shake(
    socket: std::net::TcpStream,
    settings: &TlsSettings,
) -> Result<(std::net::TcpStream, Box<ServerConnection>), String> {
    let text = |error: io::Error| explained(&error);
    let socket = TcpStream::from_std(socket).map_err(text)?;
    let session = ServerConnection::new(Arc::clone(&settings.config));
    let mut session = Box::new(session.map_err(|error| error.to_string())?);
    loop {
        while session.wants_write() {
            match session.write_tls(&mut Now(&socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.writable().await.map_err(text)?;
                }
                Err(error) => return Err(text(error)),
            }
        }
        if !session.is_handshaking() {
            return Ok((socket.into_std().map_err(text)?, session));
        }
        match session.read_tls(&mut Now(&socket)) {
            Ok(0) => return Err("the client left during the handshake".to_owned()),
            Ok(_) => {
                if let Err(error) = session.process_new_packets() {
                    // The client receives the reason, as far as its socket accepts it; without TLS it would not understand, as in Redis.
                    if !is_no_tls(&error) {
                        let _ = session.write_tls(&mut Now(&socket));
                    }
                    return Err(why(&error));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.readable().await.map_err(text)?;
            }
            Err(error) => return Err(text(error)),
        }
    }
}

fn is_no_tls(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType))
}

/// The text of an error, for the log.
fn why(error: &rustls::Error) -> String {
    match error {
        error if is_no_tls(error) => "what the client sends is not TLS".to_owned(),
        rustls::Error::NoCertificatesPresented => {
            "the client has shown no certificate (tls-auth-clients)".to_owned()
        }
        error => error.to_string(),
    }
}
