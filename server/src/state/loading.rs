//! How far a load has come, and how the last one ended.

use crate::clock::now_ms;
use crate::log;
use crate::observe::now_s;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Time between two lines about the progress, in seconds.
const TELL_EVERY_S: u64 = 5;

/// Until this time the speed says nothing: the first reads wait for the device, and the log's end is unknown.
const UNKNOWN_MS: u64 = 1000;

/// The load of a server.
#[derive(Debug, Default)]
pub struct Loading {
    active: AtomicBool,
    aborted: AtomicBool,
    started_ms: AtomicU64,
    total_bytes: AtomicU64,
    loaded_bytes: AtomicU64,
    rdb_used_mem_bytes: AtomicU64,
    told_s: AtomicU64,
    keys_loaded: AtomicU64,
    keys_expired: AtomicU64,
}

/// The figures of INFO persistence while a load runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadingView {
    /// When it began, in seconds since the epoch.
    pub started_s: u64,
    /// Bytes to read.
    pub total_bytes: u64,
    /// Bytes read.
    pub loaded_bytes: u64,
    /// Memory that the server which wrote the file used then.
    pub rdb_used_mem_bytes: u64,
    /// Seconds it will still take, at the speed so far; 1 when not known, as in Redis.
    pub eta_s: u64,
}

impl Loading {
    /// A load of `total_bytes` begins: most commands are refused.
    pub fn begin(&self, total_bytes: u64) {
        self.started_ms.store(now_ms(), Ordering::Relaxed);
        self.told_s.store(now_s(), Ordering::Relaxed);
        self.rdb_used_mem_bytes.store(0, Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        for figure in [&self.loaded_bytes, &self.keys_loaded, &self.keys_expired] {
            figure.store(0, Ordering::Relaxed);
        }
        self.active.store(true, Ordering::Release);
    }

    /// Records that `loaded_bytes` of `total_bytes` have been read, for progress reports.
    pub fn note_progress(&self, loaded_bytes: u64, total_bytes: u64) {
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.loaded_bytes.store(loaded_bytes, Ordering::Relaxed);
    }

    /// It has ended.
    pub fn end(&self) {
        self.active.store(false, Ordering::Release);
    }

    /// The server must stop: the load ends with an error soon.
    pub fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
    }

    /// True if the load was aborted.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Relaxed)
    }

    /// True while data is loaded.
    #[must_use]
    #[inline]
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }

    /// Records the number of bytes read; progress is logged now and then.
    pub fn note_bytes(&self, loaded_bytes: u64) {
        self.loaded_bytes.store(loaded_bytes, Ordering::Relaxed);
        let now = now_s();
        if now >= self.told_s.load(Ordering::Relaxed) + TELL_EVERY_S {
            self.told_s.store(now, Ordering::Relaxed);
            if let Some(view) = self.view() {
                let (total, eta_s) = (view.total_bytes, view.eta_s);
                let percent = loaded_bytes * 100 / total.max(1);
                log::notice(&format!(
                    "Loading: {percent} % of {total} bytes, about {eta_s} seconds left"
                ));
            }
        }
    }

    pub(crate) fn note_used_mem(&self, bytes: u64) {
        self.rdb_used_mem_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn note_keys(&self, loaded: u64, expired: u64) {
        self.keys_loaded.store(loaded, Ordering::Relaxed);
        self.keys_expired.store(expired, Ordering::Relaxed);
    }

    /// Keys that the last load added, and keys it left out because they had expired.
    #[must_use]
    pub fn last_keys(&self) -> (u64, u64) {
        (self.keys_loaded.load(Ordering::Relaxed), self.keys_expired.load(Ordering::Relaxed))
    }

    /// The load that runs.
    #[must_use]
    pub fn view(&self) -> Option<LoadingView> {
        if !self.is_active() {
            return None;
        }
        let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let (total_bytes, loaded_bytes) = (load(&self.total_bytes), load(&self.loaded_bytes));
        let started_ms = load(&self.started_ms);
        let elapsed_ms = now_ms().saturating_sub(started_ms);
        let left = total_bytes.saturating_sub(loaded_bytes);
        // Clients wait for as long before they ask again, ioredis up to ten seconds.
        let eta_s = match loaded_bytes {
            loaded if loaded == 0 || elapsed_ms < UNKNOWN_MS => 1,
            loaded => {
                (u128::from(elapsed_ms) * u128::from(left) / u128::from(loaded) / 1000) as u64
            }
        };
        let rdb_used_mem_bytes = load(&self.rdb_used_mem_bytes);
        let started_s = started_ms / 1000;
        Some(LoadingView { started_s, total_bytes, loaded_bytes, rdb_used_mem_bytes, eta_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_for_each_byte_as_what_came() {
        let loading = Loading::default();
        assert_eq!(loading.view(), None);
        loading.begin(1000);
        assert_eq!(loading.view().unwrap().eta_s, 1);
        loading.note_bytes(1);
        assert_eq!(loading.view().unwrap().eta_s, 1, "not 999 times what a moment took");
        loading.started_ms.fetch_sub(60_000, Ordering::Relaxed);
        loading.note_bytes(250);
        let eta_s = loading.view().unwrap().eta_s;
        assert!((180..=186).contains(&eta_s), "{eta_s}");
        loading.end();
        assert_eq!(loading.view(), None);
    }
}
