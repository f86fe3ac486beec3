//! The live configuration: what CONFIG GET shows, and what CONFIG SET does to the running server.
//!
//! INTERIM: directives are kept as text in a short table of those that have an effect; the typed
//! table of `sexton-config` takes its place behind the same functions.

use crate::glob;
use crate::number::parse_i64;
use crate::server::Server;
use parking_lot::Mutex;
use sexton_engine::SyncPolicy;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Directives with their defaults, as CONFIG GET writes them.
const DEFAULTS: &[(&str, &str)] = &[
    ("appendfsync", "everysec"),
    ("appendonly", "yes"),
    ("client-query-buffer-limit", "1073741824"),
    ("databases", "16"),
    ("dir", "."),
    ("hz", "10"),
    ("latency-monitor-threshold", "0"),
    ("latency-tracking", "yes"),
    ("maxclients", "10000"),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("port", "6379"),
    ("proto-max-bulk-len", "536870912"),
    ("protected-mode", "yes"),
    ("repl-backlog-size", "1048576"),
    ("requirepass", ""),
    ("save", ""),
    ("slowlog-log-slower-than", "10000"),
    ("slowlog-max-len", "128"),
    ("supervised", "no"),
    ("tcp-keepalive", "300"),
    ("timeout", "0"),
];

/// Directives that only the start of the server sets.
const IMMUTABLE: &[&str] = &["databases", "port", "supervised"];

/// The directives' values.
#[derive(Debug)]
pub struct Configuration {
    values: Mutex<BTreeMap<&'static str, Vec<u8>>>,
}

impl Default for Configuration {
    fn default() -> Self {
        let values = DEFAULTS.iter().map(|(name, text)| (*name, text.as_bytes().to_vec()));
        Self { values: Mutex::new(values.collect()) }
    }
}

/// The text of a failed CONFIG SET.
fn failed(name: &str, reason: &str) -> String {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
}

impl Configuration {
    /// All directives whose name matches a glob pattern (any case), with their text.
    #[must_use]
    pub fn get(&self, pattern: &[u8]) -> Vec<(String, Vec<u8>)> {
        let pattern = pattern.to_ascii_lowercase();
        let values = self.values.lock();
        let found = values.iter().filter(|(name, _)| glob::matches(&pattern, name.as_bytes()));
        found.map(|(name, text)| ((*name).to_owned(), text.clone())).collect()
    }

    /// The text of one directive; empty when it is not known.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        let values = self.values.lock();
        values.get(name).map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
    }

    /// Notes a value that the command line or the file gave; without effect on the server.
    pub fn note(&self, name: &str, text: &[u8]) {
        if let Some(value) = self.values.lock().get_mut(name) {
            *value = text.to_vec();
        }
    }

    /// Sets several directives, all or none: `apply` makes each effective, and is called with the
    /// old texts again when one fails.
    ///
    /// # Errors
    /// Redis' error text, prefix included.
    pub fn set(
        &self,
        pairs: &[(&[u8], &[u8])],
        apply: impl Fn(&str, &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let old = self.values.lock().clone();
        let mut wanted: Vec<(&'static str, &[u8])> = Vec::new();
        for (name, text) in pairs {
            let lower = name.to_ascii_lowercase();
            let Some((name, _)) = DEFAULTS.iter().find(|(known, _)| known.as_bytes() == lower)
            else {
                let name = String::from_utf8_lossy(name);
                return Err(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                ));
            };
            if IMMUTABLE.contains(name) {
                return Err(failed(name, "can't set immutable config"));
            }
            if wanted.iter().any(|(known, _)| known == name) {
                return Err(failed(name, "duplicate parameter"));
            }
            wanted.push((*name, *text));
        }
        for (nth, (name, text)) in wanted.iter().enumerate() {
            if let Err(reason) = apply(name, text) {
                for (name, _) in &wanted[..nth] {
                    // The old text was in force a moment ago.
                    let _ = apply(name, &old[name]);
                }
                return Err(failed(name, &reason));
            }
        }
        let mut values = self.values.lock();
        for (name, text) in wanted {
            values.insert(name, text.to_vec());
        }
        Ok(())
    }

    /// CONFIG REWRITE.
    ///
    /// # Errors
    /// Redis' text when there is no file.
    pub fn rewrite(&self) -> Result<(), String> {
        Err("ERR The server is running without a config file".to_owned())
    }
}

/// Makes a directive effective in the running server: the one place where CONFIG SET acts.
///
/// # Errors
/// Why the value cannot be used, as Redis says it.
pub fn apply(server: &Server, name: &str, text: &[u8]) -> Result<(), String> {
    let settings = &server.settings;
    let int = |min: i64, max: i64| {
        let number = parse_i64(text).ok_or("argument couldn't be parsed into an integer")?;
        if (min..=max).contains(&number) {
            Ok(number)
        } else {
            Err(format!("argument must be between {min} and {max} inclusive"))
        }
    };
    let yes_no = || match text.to_ascii_lowercase().as_slice() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".to_owned()),
    };
    let unsigned = |min: i64, max: i64| int(min, max).map(|number| number as u64);
    const INT_MAX: i64 = i32::MAX as i64;
    match name {
        // Shown by CONFIG GET, and looked at by nothing that runs yet.
        "save" => {}
        "requirepass" => server.auth.set_password(text),
        "slowlog-log-slower-than" => server.observe.slowlog.set_threshold_us(int(-1, i64::MAX)?),
        "slowlog-max-len" => {
            server.observe.slowlog.set_len_max(unsigned(0, i64::MAX)? as usize);
        }
        "latency-monitor-threshold" => {
            server.observe.latency.set_threshold_ms(unsigned(0, i64::MAX)?);
        }
        "latency-tracking" => settings.latency_tracking.store(yes_no()?, Ordering::Relaxed),
        "appendonly" => {
            let on = yes_no()?;
            let policy =
                if on { policy_of(&server.setting("appendfsync")) } else { SyncPolicy::Off };
            set_policy(server, policy)?;
        }
        "appendfsync" => {
            if !matches!(text, b"always" | b"everysec" | b"no") {
                return Err(
                    "argument(s) must be one of the following: everysec, always, no".to_owned()
                );
            }
            if server.engine.sync_policy() != SyncPolicy::Off {
                set_policy(server, policy_of(&String::from_utf8_lossy(text)))?;
            }
        }
        "protected-mode" => settings.protected_mode.store(yes_no()?, Ordering::Relaxed),
        "maxclients" => settings.clients_max.store(unsigned(1, INT_MAX)?, Ordering::Relaxed),
        "timeout" => settings.idle_timeout_s.store(unsigned(0, INT_MAX)?, Ordering::Relaxed),
        "tcp-keepalive" => settings.keepalive_s.store(unsigned(0, INT_MAX)?, Ordering::Relaxed),
        "client-query-buffer-limit" => {
            let bytes = unsigned(1 << 20, i64::MAX)?;
            settings.query_buffer_max_bytes.store(bytes, Ordering::Relaxed);
        }
        "proto-max-bulk-len" => {
            settings.bulk_max_bytes.store(unsigned(1 << 20, i64::MAX)?, Ordering::Relaxed);
        }
        _ => return Err("this version cannot change it while it runs".to_owned()),
    }
    Ok(())
}

/// The policy that `appendfsync` names.
fn policy_of(text: &str) -> SyncPolicy {
    match text {
        "always" => SyncPolicy::Always,
        "no" => SyncPolicy::No,
        _ => SyncPolicy::EverySec,
    }
}

fn set_policy(server: &Server, policy: SyncPolicy) -> Result<(), String> {
    server.engine.set_sync_policy(policy).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(configuration: &Configuration, pairs: &[(&str, &str)]) -> Result<(), String> {
        let pairs: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(name, text)| (name.as_bytes(), text.as_bytes())).collect();
        configuration.set(&pairs, |_, text| match text {
            b"bad" => Err("argument is bad".to_owned()),
            _ => Ok(()),
        })
    }

    #[test]
    fn all_pairs_are_set_or_none() {
        let configuration = Configuration::default();
        set(&configuration, &[("TIMEOUT", "5"), ("maxclients", "7")]).unwrap();
        assert_eq!(configuration.text("timeout"), "5");
        let error = set(&configuration, &[("timeout", "6"), ("maxclients", "bad")]).unwrap_err();
        assert_eq!(
            error,
            "ERR CONFIG SET failed (possibly related to argument 'maxclients') - argument is bad"
        );
        assert_eq!(configuration.text("timeout"), "5");
    }

    #[test]
    fn names_are_checked_first() {
        let configuration = Configuration::default();
        assert_eq!(
            set(&configuration, &[("nope", "1")]).unwrap_err(),
            "ERR Unknown option or number of arguments for CONFIG SET - 'nope'"
        );
        assert!(set(&configuration, &[("port", "1")]).unwrap_err().ends_with("immutable config"));
        assert!(
            set(&configuration, &[("timeout", "1"), ("timeout", "2")])
                .unwrap_err()
                .ends_with("duplicate parameter")
        );
    }

    #[test]
    fn patterns_find_directives() {
        let configuration = Configuration::default();
        let names: Vec<String> =
            configuration.get(b"SLOWLOG*").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["slowlog-log-slower-than", "slowlog-max-len"]);
        assert!(configuration.get(b"nope").is_empty());
    }
}
