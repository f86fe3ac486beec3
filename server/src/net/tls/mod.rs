//! TLS: settings, handshakes on a thread of their own, and the stream that a worker serves afterwards.

mod certificate;
mod ciphers;
mod handshake;
mod sessions;
mod settings;
mod stream;

pub(super) use handshake::{Arrived, Gate};
pub(super) use stream::{Secured, TlsStream};
