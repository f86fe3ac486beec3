//! TLS: settings, handshakes on a dedicated thread, and the stream that a worker serves afterwards.

mod certificate;
mod ciphers;
mod handshake;
mod sessions;
mod settings;
mod stream;

pub(crate) use handshake::{Arrived, Gate};
pub(crate) use stream::{Secured, TlsStream};
