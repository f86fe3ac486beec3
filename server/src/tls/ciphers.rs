//! Protocols and ciphers by their OpenSSL names, which configurations use.

use rustls::crypto::ring::cipher_suite;
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// Those of TLS 1.2, the strongest first.
const OF_TLS12: &[(&str, SupportedCipherSuite)] = &[
    ("ECDHE-ECDSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
];

/// Those of TLS 1.3.
const OF_TLS13: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_AES_128_GCM_SHA256", cipher_suite::TLS13_AES_128_GCM_SHA256),
];

/// `tls-protocols`: default 1.2 and 1.3.
pub(super) fn protocols(text: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut versions = Vec::new();
    for word in text.split_ascii_whitespace() {
        let version = match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => &TLS12,
            "tlsv1.3" => &TLS13,
            "tlsv1" | "tlsv1.1" => {
                return Err(format!(
                    "tls-protocols: {word} is broken and not built: TLSv1.2 and TLSv1.3 are"
                ));
            }
            _ => {
                return Err(format!(
                    "tls-protocols: {word} is not a protocol: TLSv1.2 and TLSv1.3 are"
                ));
            }
        };
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    if versions.is_empty() {
        versions = vec![&TLS13, &TLS12];
    }
    Ok(versions)
}

/// `tls-ciphers` (TLS 1.2) and `tls-ciphersuites` (TLS 1.3): by default all, in the configured order.
pub(super) fn suites(ciphers: &str, suites: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut chosen = choose("tls-ciphersuites", suites, OF_TLS13)?;
    chosen.extend(choose("tls-ciphers", ciphers, OF_TLS12)?);
    Ok(chosen)
}

/// Selects the named ones. As with OpenSSL, unknown names are skipped if at least one is known; DEFAULT, HIGH and ALL select
/// all; `!X` and `-X` remove those with X in their name.
fn choose(
    directive: &str,
    text: &str,
    all: &[(&'static str, SupportedCipherSuite)],
) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut chosen: Vec<&(&str, SupportedCipherSuite)> = Vec::new();
    let words: Vec<&str> = text.split([':', ',', ' ']).filter(|word| !word.is_empty()).collect();
    for word in &words {
        if let Some(not) = word.strip_prefix(['!', '-']) {
            chosen.retain(|(name, _)| {
                !name.split(['-', '_']).any(|part| part == not) && *name != not
            });
            continue;
        }
        let is_meant = |name: &str| name == *word || ["DEFAULT", "HIGH", "ALL"].contains(word);
        for suite in all.iter().filter(|(name, _)| is_meant(name)) {
            if !chosen.iter().any(|(name, _)| *name == suite.0) {
                chosen.push(suite);
            }
        }
    }
    if words.is_empty() {
        chosen = all.iter().collect();
    }
    if chosen.is_empty() {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        return Err(format!("{directive} names no cipher that there is: {}", names.join(", ")));
    }
    Ok(chosen.into_iter().map(|(_, suite)| *suite).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ciphers: &str, suite_names: &str) -> Result<usize, String> {
        suites(ciphers, suite_names).map(|suites| suites.len())
    }

    #[test]
    fn names_of_openssl_choose_ciphers() {
        assert_eq!(names("", ""), Ok(9));
        assert_eq!(names("DEFAULT:!MEDIUM", "TLS_AES_128_GCM_SHA256"), Ok(7));
        assert_eq!(names("HIGH:!RSA:-CHACHA20", ""), Ok(5));
        assert_eq!(
            names("AES128-SHA:ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_256_GCM_SHA384"),
            Ok(2)
        );
        let error = names("AES128-SHA", "").unwrap_err();
        assert!(error.starts_with("tls-ciphers names no cipher that there is: ECDHE-"), "{error}");
        assert!(names("", "TLS_AES_128_CCM_SHA256").is_err());
    }

    #[test]
    fn old_protocols_are_refused_by_name() {
        assert_eq!(protocols("").unwrap().len(), 2);
        assert_eq!(protocols("TLSv1.3 tlsv1.3").unwrap(), [&TLS13]);
        assert!(protocols("TLSv1.2 TLSv1.1").unwrap_err().contains("TLSv1.1 is broken"));
        assert!(protocols("SSLv3").is_err());
    }
}
