//! The `tls-*` directives in the form that handshakes need.

use super::certificate::not_after_s;
use super::ciphers::{protocols, suites};
use super::sessions::Sessions;
use crate::log;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use sexton_config::TlsOptions;
use sexton_config::choice::{TlsAuthClients, TlsUser};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of files read from `tls-ca-cert-dir`.
const CA_FILES_MAX: usize = 4096;

const NO_CERTIFICATE: &str = "No tls-cert-file configured!";
const NO_KEY: &str = "No tls-key-file configured!";
const NO_AUTHORITY: &str = "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, \
    tls-replication or tls-auth-clients are enabled!";

/// What all handshakes from now on have.
#[derive(Debug)]
pub(crate) struct TlsSettings {
    pub(super) config: Arc<ServerConfig>,
    /// What of a client's certificate names its user.
    pub(super) user: TlsUser,
    /// When the server's certificate expires, in seconds since the epoch.
    pub(crate) not_after_s: u64,
}

impl TlsSettings {
    /// Reads the files that the options name.
    pub(crate) fn of(options: &TlsOptions) -> Result<Self, String> {
        let certificate_file = options.cert_file.as_deref().ok_or(NO_CERTIFICATE)?;
        let key_file = options.key_file.as_deref().ok_or(NO_KEY)?;
        let mut provider = ring::default_provider();
        provider.cipher_suites = suites(&options.ciphers, &options.ciphersuites)?;
        let provider = Arc::new(provider);
        let versions = protocols(&options.protocols)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(|error| format!("tls-protocols and tls-ciphers: {error}"))?;
        let builder = if options.auth_clients == TlsAuthClients::No {
            builder.with_no_client_auth()
        } else {
            let roots = Arc::new(authorities(options)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            let verifier = match options.auth_clients {
                TlsAuthClients::Optional => verifier.allow_unauthenticated(),
                _ => verifier,
            };
            let verifier =
                verifier.build().map_err(|error| format!("tls-ca-cert-file: {error}"))?;
            builder.with_client_cert_verifier(verifier)
        };
        let chain = certificates(certificate_file)
            .map_err(|error| format!("Failed to load certificate: {error}"))?;
        let not_after_s = chain.first().map_or(0, |first| not_after_s(first));
        let key = private_key(key_file)
            .map_err(|error| format!("Failed to load private key: {error}"))?;
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            let (certificate, key) = (certificate_file.display(), key_file.display());
            let error = explained(&error);
            format!("Failed to load private key: {key} with certificate {certificate}: {error}")
        })?;
        config.ignore_client_order = options.prefer_server_ciphers;
        if options.session_caching && options.session_cache_timeout_s > 0 {
            let lifetime = Duration::from_secs(options.session_cache_timeout_s.into());
            config.session_storage = Arc::new(Sessions::new(options.session_cache_size, lifetime));
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self { config: Arc::new(config), user: options.auth_clients_user, not_after_s })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let named = |error: rustls::pki_types::pem::Error| format!("{}: {error}", path.display());
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(named)?
        .collect::<Result<_, _>>()
        .map_err(named)?;
    if found.is_empty() {
        return Err(format!("{}: there is no certificate in it", path.display()));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        let path = path.display();
        let is_encrypted = std::fs::read_to_string(path.to_string())
            .is_ok_and(|text| text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("ENCRYPTED\n"));
        if is_encrypted {
            format!(
                "{path}: keys with a passphrase are not read (tls-key-file-pass has no effect). Keep it without one, \
                 readable by the server alone: openssl pkey -in {path} -out KEY"
            )
        } else {
            format!("{path}: {error}")
        }
    })
}

/// Those whose word about clients counts.
fn authorities(options: &TlsOptions) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &options.ca_cert_file {
        let found = certificates(path).map_err(|error| {
            format!("Failed to configure CA certificate(s) file/directory: {error}")
        })?;
        for certificate in found {
            roots.add(certificate).map_err(|error| {
                format!(
                    "Failed to configure CA certificate(s) file/directory: {}: {error}",
                    path.display()
                )
            })?;
        }
    }
    if let Some(dir) = &options.ca_cert_dir {
        let entries = std::fs::read_dir(dir).map_err(|error| {
            format!(
                "Failed to configure CA certificate(s) file/directory: {}: {error}",
                dir.display()
            )
        })?;
        for entry in entries.take(CA_FILES_MAX).flatten() {
            let path = entry.path();
            // The directory also contains hash links, keys and notes.
            for certificate in certificates(&path).unwrap_or_default() {
                if let Err(error) = roots.add(certificate) {
                    log::warning(&format!(
                        "tls-ca-cert-dir: {} is passed over: {error}",
                        path.display()
                    ));
                }
            }
        }
    }
    if roots.is_empty() {
        return Err(NO_AUTHORITY.to_owned());
    }
    Ok(roots)
}

/// What is wrong with a certificate or a connection, with what to do about a certificate that openssl made without extensions.
pub(super) fn explained(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    if text.contains("UnsupportedCertVersion") {
        return "the certificate is of version 1, as openssl makes it without extensions: it needs one \
                (-extfile), as only version 3 is taken"
            .to_owned();
    }
    text
}
