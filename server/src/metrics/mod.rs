//! The server's HTTP endpoint: Prometheus text, health, readiness and a human-readable page.
//!
//! A dedicated thread answers, so that requests take no time from the workers. Each connection serves one request
//! and is limited to a few seconds.

mod names;
mod page;
mod readiness;
mod text;
mod writer;

use crate::log;
use crate::server::Server;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Maximum number of concurrent connections; further ones are closed.
const CONNECTIONS_MAX: usize = 32;

/// Time limit of a connection, from its first byte to its last.
const CONNECTION_TIME: Duration = Duration::from_secs(3);

/// Bytes of a request, and of what waits to be sent.
const BUFFER_BYTES: usize = 16 << 10;

/// Headers of a request.
const HEADERS_MAX: usize = 64;

/// The page uses its own script and style, and connects only to this server.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The thread that answers, and how it finds the server once there is one.
pub struct Metrics(Arc<OnceLock<Arc<Server>>>);

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("is_shown", &self.0.get().is_some()).finish()
    }
}

impl Metrics {
    /// Starts to serve these sockets: without a store, until [`show`](Self::show).
    ///
    /// # Errors
    /// The thread could not be created, or a socket cannot be used.
    pub fn start(sockets: Vec<TcpListener>) -> io::Result<Self> {
        let server = Arc::<OnceLock<Arc<Server>>>::default();
        if sockets.is_empty() {
            return Ok(Self(server));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listeners = {
            let _entered = runtime.enter();
            sockets
                .into_iter()
                .map(tokio::net::TcpListener::from_std)
                .collect::<io::Result<Vec<_>>>()?
        };
        let shown = Arc::clone(&server);
        std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
            for listener in listeners {
                runtime.spawn(accept(listener, Arc::clone(&places), Arc::clone(&shown)));
            }
            runtime.block_on(std::future::pending::<()>());
        })?;
        Ok(Self(server))
    }

    /// From now on the figures of the opened store are shown.
    pub fn show(&self, server: &Arc<Server>) {
        // Called once.
        let _ = self.0.set(Arc::clone(server));
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    places: Arc<Semaphore>,
    server: Arc<OnceLock<Arc<Server>>>,
) {
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            // Out of descriptors: the backlog waits.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            log::verbose(|| {
                format!("metrics-port: {from} is cut off, there are {CONNECTIONS_MAX} connections")
            });
            continue;
        };
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let answered = service_fn(move |request| {
                let response = answer(&request, server.get().map(|server| &**server));
                async move { Ok::<_, Infallible>(response) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .keep_alive(false)
                .max_buf_size(BUFFER_BYTES)
                .max_headers(HEADERS_MAX);
            let connection = http.serve_connection(TokioIo::new(stream), answered);
            // A client that is late or does not speak HTTP gets no error reply.
            let _ = tokio::time::timeout(CONNECTION_TIME, connection).await;
            drop(place);
        });
    }
}

fn answer(request: &Request<Incoming>, server: Option<&Server>) -> Response<Full<Bytes>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response =
            reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET and HEAD only\n".to_owned());
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match (request.uri().path(), server) {
        ("/health", _) => reply(StatusCode::OK, TEXT, "alive\n".to_owned()),
        ("/ready", server) => match readiness::obstacles(server) {
            obstacles if obstacles.is_empty() => reply(StatusCode::OK, TEXT, "ready\n".to_owned()),
            obstacles => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, obstacles.join("\n") + "\n"),
        },
        ("/", _) => {
            let mut response =
                reply(StatusCode::OK, "text/html; charset=utf-8", page::HTML.to_owned());
            let policy = HeaderValue::from_static(PAGE_POLICY);
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
            response
        }
        ("/metrics", server) => {
            let text = server.map_or_else(text::without_store, text::of);
            reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
        }
        ("/status.json", server) => reply(StatusCode::OK, "application/json", page::status(server)),
        _ => reply(
            StatusCode::NOT_FOUND,
            TEXT,
            "/, /metrics, /health, /ready, /status.json\n".to_owned(),
        ),
    }
}

fn reply(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
