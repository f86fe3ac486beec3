//! The directives' values, as CONFIG GET shows them and CONFIG SET changes them.

use crate::log;
use parking_lot::{Mutex, ReentrantMutex, ReentrantMutexGuard};
use sexton_config::{Config, Options, SetBy, SetError};
use std::collections::HashSet;

/// The directives' values, shared by all threads.
#[derive(Debug, Default)]
pub struct Configuration {
    inner: Mutex<Config>,
    /// Held over a whole change, so that changes of several clients follow each other. Taken before
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

    /// Says in the log which of these directives, each with its reason, do nothing.
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
