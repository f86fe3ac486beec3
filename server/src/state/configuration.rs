//! The directives' values, as CONFIG GET shows them and CONFIG SET changes them.

use crate::log;
use parking_lot::{Mutex, ReentrantMutex, ReentrantMutexGuard};
use sexton_config::{Config, Options, SetBy, SetError};
use std::collections::HashSet;

/// The directives' values, shared by all threads.
#[derive(Debug, Default)]
pub struct Configuration {
    inner: Mutex<Config>,
    /// Held during a whole change, so that changes of several clients are serialized. Taken before
    /// any latch of the store: a change may wait for writers, which hold latches.
    changes: ReentrantMutex<()>,
    /// Directives without effect that the log has named: each once, however often it is set.
    named: Mutex<HashSet<&'static str>>,
}

/// Keeps other clients from changing the configuration.
pub type ConfigurationHold<'a> = ReentrantMutexGuard<'a, ()>;

impl Configuration {
    /// Takes the configuration that the server was started with.
    pub fn replace(&self, config: Config) {
        *self.inner.lock() = config;
    }

    /// CONFIG GET: names and texts of all directives that match a pattern.
    #[must_use]
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.inner.lock().get(patterns)
    }

    /// The text of one directive; empty when it is not known.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        let text = self.inner.lock().text(name).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// All directives as typed options.
    #[must_use]
    pub fn options(&self) -> Options {
        self.inner.lock().options().clone()
    }

    /// Keeps the changes of others out. For a transaction with CONFIG SET, before it takes latches.
    pub fn hold(&self) -> ConfigurationHold<'_> {
        self.changes.lock()
    }

    /// Sets several directives, all or none, also in the eyes of other clients: they see the old
    /// texts until everything is in force. `apply` makes each change effective, given the
    /// configuration that is to be, and is called with the old one again when a change fails.
    ///
    /// # Errors
    /// Redis' reasons.
    pub fn set(
        &self,
        pairs: &[(&[u8], &[u8])],
        by: SetBy,
        apply: impl Fn(&Config, &str) -> Result<(), String>,
    ) -> Result<(), SetError> {
        let _changes = self.changes.lock();
        let old = self.inner.lock().clone();
        let mut new = old.clone();
        let done = new.set_many(pairs, by)?;
        for (nth, name) in done.changed.iter().enumerate() {
            if let Err(reason) = apply(&new, name) {
                for name in &done.changed[..nth] {
                    // The old text was in force a moment ago.
                    let _ = apply(&old, name);
                }
                return Err(SetError::apply(name, reason));
            }
        }
        *self.inner.lock() = new;
        self.name_without_effect(&done.without_effect);
        Ok(())
    }

    /// Logs which of these directives, each with its reason, have no effect.
    pub fn name_without_effect(&self, directives: &[(&'static str, &'static str)]) {
        for (name, reason) in directives {
            if self.named.lock().insert(name) {
                log::warning(&format!("Directive '{name}' has no effect: {reason}"));
            }
        }
    }

    /// CONFIG REWRITE; `users` are lines that take the place of the file's.
    ///
    /// # Errors
    /// Redis' text when there is no file or it cannot be written.
    pub fn rewrite(&self, users: &[Vec<u8>]) -> Result<(), String> {
        let config = self.inner.lock().clone();
        config.rewrite(Some(users)).map_err(|error| error.to_string())
    }

    /// Path of the configuration file; empty when there is none.
    #[must_use]
    pub fn file(&self) -> String {
        self.inner.lock().path().map(|path| path.display().to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn all_pairs_are_set_or_none() {
        let configuration = Configuration::default();
        let set = |pairs: &[(&[u8], &[u8])]| {
            configuration.set(pairs, SetBy::default(), |config, name| {
                match config.text(name).as_deref() {
                    Some(b"13") => Err("argument is unlucky".to_owned()),
                    _ => Ok(()),
                }
            })
        };
        set(&[(b"TIMEOUT", b"5"), (b"maxclients", b"7")]).unwrap();
        assert_eq!(configuration.text("timeout"), "5");
        let error = set(&[(b"timeout", b"6"), (b"maxclients", b"13")]).unwrap_err();
        assert!(error.to_string().ends_with("'maxclients') - argument is unlucky"), "{error}");
        assert_eq!(configuration.text("timeout"), "5");
        assert_eq!(configuration.text("maxclients"), "7");
    }

    /// Each change sets both directives to one number, and applies them with a gap in between; a change
    /// that took turns with another would leave, or show, two different ones.
    #[test]
    fn changes_of_several_clients_follow_each_other() {
        let configuration = Configuration::default();
        let applied = [AtomicU64::new(0), AtomicU64::new(0)];
        std::thread::scope(|scope| {
            for client in 1..=4_u64 {
                let (configuration, applied) = (&configuration, &applied);
                scope.spawn(move || {
                    for round in 0..200 {
                        let number = (client * 1000 + round).to_string();
                        let pairs = [
                            (&b"timeout"[..], number.as_bytes()),
                            (b"tcp-keepalive", number.as_bytes()),
                        ];
                        let apply = |config: &Config, name: &str| {
                            let text = String::from_utf8(config.text(name).unwrap()).unwrap();
                            let at = usize::from(name == "timeout");
                            applied[at].store(text.parse().unwrap(), Ordering::SeqCst);
                            std::thread::yield_now();
                            Ok(())
                        };
                        configuration.set(&pairs, SetBy::default(), apply).unwrap();
                        let _hold = configuration.hold();
                        let shown = |name| configuration.text(name).parse::<u64>().unwrap();
                        assert_eq!(shown("timeout"), shown("tcp-keepalive"));
                        let [keepalive, timeout] = applied;
                        assert_eq!(timeout.load(Ordering::SeqCst), shown("timeout"));
                        assert_eq!(keepalive.load(Ordering::SeqCst), shown("timeout"));
                    }
                });
            }
        });
    }
}
