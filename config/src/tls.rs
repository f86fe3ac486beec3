//! The directives `tls-*` as typed options.

use crate::choice::{TlsAuthClients, TlsUser};
use std::path::PathBuf;

/// How clients are served with TLS.
#[derive(Debug, Clone, PartialEq)]
pub struct TlsOptions {
    /// `tls-port`: 0 for none.
    pub port: u16,
    /// `tls-cert-file`: the server's certificate, with those between it and an authority.
    pub cert_file: Option<PathBuf>,
    /// `tls-key-file`: its private key.
    pub key_file: Option<PathBuf>,
    /// `tls-ca-cert-file`: authorities that certificates of clients are from.
    pub ca_cert_file: Option<PathBuf>,
    /// `tls-ca-cert-dir`: a directory of files with such.
    pub ca_cert_dir: Option<PathBuf>,
    /// `tls-auth-clients`
    pub auth_clients: TlsAuthClients,
    /// `tls-auth-clients-user`
    pub auth_clients_user: TlsUser,
    /// `tls-protocols`, as it is written; empty for those of the server.
    pub protocols: String,
    /// `tls-ciphers`: those of TLS 1.2.
    pub ciphers: String,
    /// `tls-ciphersuites`: those of TLS 1.3.
    pub ciphersuites: String,
    /// `tls-prefer-server-ciphers`: whether the server's order counts.
    pub prefer_server_ciphers: bool,
    /// `tls-session-caching`: whether sessions are resumed.
    pub session_caching: bool,
    /// `tls-session-cache-size`: most sessions that may be; 0 for as many as memory should bear.
    pub session_cache_size: usize,
    /// `tls-session-cache-timeout`: seconds for which they may be.
    pub session_cache_timeout_s: u32,
}
