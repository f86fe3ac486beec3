//! State shared by all workers.

use crate::auth::Auth;
use crate::blocking::Waiters;
use crate::digest::{hex, sha1};
use crate::disk_bound::DiskBound;
use crate::events::Events;
use crate::events::tracking::Post;
use crate::observe::{Holders, Observe, used_bytes};
use crate::oom_score::OomScore;
use crate::scripting::{Functions, RunningScripts, ScriptCache};
use crate::session::{CursorTable, OutputLimit, Session, Sessions};
use crate::shutdown::Shutdown;
use crate::state::backup::Backup;
use crate::state::client_memory::ClientMemory;
use crate::state::configuration::Configuration;
use crate::state::copies::Copies;
use crate::state::eviction::Eviction;
use crate::state::listening::ListenControl;
use crate::state::loading::Loading;
use crate::state::rewriting::Rewriting;
use crate::state::saving::Saving;
use crate::state::targets::Targets;
use crate::value::thresholds::SharedThresholds;
use parking_lot::Mutex;
use sexton_engine::Engine;
use sexton_persistence::device::{DiskStorage, PlacedStorage, Storage};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The server: engine, statistics, configuration.
pub struct Server {
    /// The store.
    pub engine: Engine,
    /// Number of logical databases.
    pub databases: usize,
    /// Counters of INFO.
    pub stats: Counters,
    /// Users and passwords.
    pub auth: Auth,
    /// All connections.
    pub sessions: Sessions,
    /// The memory of the connections.
    pub client_memory: ClientMemory,
    /// What the server remembers for its operators.
    pub observe: Observe,
    /// `oom-score-adj`.
    pub oom_score: OomScore,
    /// `disk-max-bytes`.
    pub disk_bound: DiskBound,
    /// Saves: SAVE, BGSAVE and save points.
    pub saving: Saving,
    /// The backup that is being made, or was.
    pub backup: Backup,
    /// Copies of the data that are being sent.
    pub copies: Copies,
    /// Connections to other servers.
    pub targets: Targets,
    /// The locations of the files; set by `boot`.
    pub devices: OnceLock<Arc<PlacedStorage>>,
    /// Bases of the log (BGREWRITEAOF).
    pub rewriting: Rewriting,
    /// The load at the start.
    pub loading: Loading,
    /// Where it listens; set by `boot`.
    pub listening: OnceLock<ListenControl>,
    /// The request to stop.
    pub shutdown: Shutdown,
    /// Open SCAN cursors.
    pub cursors: Mutex<CursorTable>,
    /// The scripts that are known, and the memory of interpreters.
    pub scripts: ScriptCache,
    /// The function libraries.
    pub functions: Functions,
    /// The scripts that take long.
    pub running_scripts: RunningScripts,
    /// Notifications of changes and messages.
    pub events: Events,
    /// Clients that wait for keys to have something.
    pub blocking: Waiters,
    /// Settings that are read for every batch or connection.
    pub settings: Settings,
    /// `maxmemory-policy`.
    pub eviction: Eviction,
    /// The directives behind CONFIG.
    pub config: Configuration,
    /// Set once at the start of a process that has a data directory.
    pub store_id: OnceLock<String>,
}

impl Server {
    /// A server over an open store, with Redis' default settings.
    #[must_use]
    pub fn new(engine: Engine, databases: usize) -> Self {
        let events = Events::default();
        let server = Self {
            engine,
            databases,
            client_memory: ClientMemory::default(),
            stats: Counters::default(),
            auth: Auth::default(),
            sessions: Sessions::default(),
            observe: Observe::new(),
            oom_score: OomScore::default(),
            disk_bound: DiskBound::default(),
            saving: Saving::default(),
            backup: Backup::default(),
            copies: Copies::default(),
            targets: Targets::default(),
            devices: OnceLock::new(),
            rewriting: Rewriting::default(),
            loading: Loading::default(),
            listening: OnceLock::new(),
            shutdown: Shutdown::default(),
            cursors: Mutex::default(),
            scripts: ScriptCache::default(),
            functions: Functions::default(),
            running_scripts: RunningScripts::default(),
            blocking: Waiters::new(Arc::clone(&events.awaited)),
            events,
            settings: Settings::default(),
            eviction: Eviction::default(),
            config: Configuration::default(),
            store_id: OnceLock::new(),
        };
        let holders = server.holders();
        let base = holders.held.saturating_sub(holders.store.sum());
        server.observe.note_startup(base, holders.used);
        server
    }

    /// True while keys are evicted, and data in memory and clients take more than `maxmemory` leaves them.
    #[must_use]
    pub fn over_bound(&self) -> bool {
        self.engine.over_bound(self.client_memory.bytes())
    }

    /// Breakdown of the process's memory by owner.
    #[must_use]
    pub fn holders(&self) -> Holders {
        Holders::now(&self.engine, &self.observe, self.client_memory.bytes() as u64)
    }

    /// `used_memory`: see [`used_bytes`].
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        used_bytes(&self.engine, self.client_memory.bytes() as u64)
    }

    /// What files are written and read through.
    #[must_use]
    pub fn storage(&self) -> Arc<dyn Storage> {
        match self.devices.get() {
            Some(devices) => Arc::<PlacedStorage>::clone(devices),
            None => DiskStorage::shared(),
        }
    }
}

/// Settings as the hot path reads them; CONFIG SET stores into them.
#[derive(Debug)]
pub struct Settings {
    /// `proto-max-bulk-len`, in bytes.
    pub bulk_max_bytes: AtomicU64,
    /// Sizes up to which collections have their compact encodings.
    pub thresholds: SharedThresholds,
    /// `client-query-buffer-limit`, in bytes.
    pub query_buffer_max_bytes: AtomicU64,
    /// `client-output-buffer-limit normal`.
    pub output_limit: OutputLimit,
    /// `maxclients`.
    pub clients_max: AtomicU64,
    /// `timeout`, in seconds; 0 for none.
    pub idle_timeout_s: AtomicU64,
    /// `tcp-keepalive`, in seconds; 0 turns it off.
    pub keepalive_s: AtomicU64,
    /// `protected-mode`.
    pub protected_mode: AtomicBool,
    /// Commands that need memory are refused: `maxmemory` is reached and nothing can be evicted.
    pub out_of_memory: AtomicBool,
    /// `latency-tracking`.
    pub latency_tracking: AtomicBool,
    /// `snapshot-max-age`, in seconds; 0 for none.
    pub snapshot_max_age_s: AtomicU64,
    /// Bytes of replies that wait for the log (N13) at which a connection is no longer read.
    pub held_max_bytes: AtomicU64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bulk_max_bytes: AtomicU64::new(512 << 20),
            thresholds: SharedThresholds::default(),
            query_buffer_max_bytes: AtomicU64::new(1 << 30),
            output_limit: OutputLimit::default(),
            clients_max: AtomicU64::new(10_000),
            idle_timeout_s: AtomicU64::new(0),
            keepalive_s: AtomicU64::new(300),
            protected_mode: AtomicBool::new(true),
            out_of_memory: AtomicBool::new(false),
            latency_tracking: AtomicBool::new(true),
            snapshot_max_age_s: AtomicU64::new(3600),
            held_max_bytes: AtomicU64::new(1 << 20),
        }
    }
}

impl Server {
    /// The limits of unread output of the session.
    pub(crate) fn output_limit_of(&self, session: &Session) -> &OutputLimit {
        if session.takes_copy.load(Ordering::Relaxed) {
            &self.copies.output_limit
        } else if session.is_subscriber() {
            &self.events.pubsub.output_limit
        } else {
            &self.settings.output_limit
        }
    }

    /// How messages reach connections whose clients cache.
    pub(crate) fn post(&self) -> Post<'_> {
        Post {
            sessions: &self.sessions,
            normal_limit: &self.settings.output_limit,
            listener_limit: &self.events.pubsub.output_limit,
        }
    }

    /// The effective text of a directive, as CONFIG GET shows it.
    #[must_use]
    pub fn setting(&self, name: &str) -> String {
        self.config.text(name)
    }

    /// Names this store in the files it saves, so that it knows them again.
    #[must_use]
    pub fn store_id(&self) -> String {
        self.store_id.get().cloned().unwrap_or_default()
    }

    /// The ID of this store's history for replicas. It survives restarts, so a replica that has had its copy is recognized.
    #[must_use]
    pub fn replication_id(&self) -> String {
        match self.store_id.get() {
            Some(id) if !id.is_empty() => hex(&sha1(format!("history of {id}").as_bytes())),
            _ => self.observe.replication_id.clone(),
        }
    }

    /// Path of the configuration file; empty when there is none.
    #[must_use]
    pub fn config_file(&self) -> String {
        self.config.file()
    }
}

/// Counters of INFO stats.
#[derive(Debug, Default)]
pub struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    expired_keys: AtomicU64,
    expired_fields: AtomicU64,
    evicted_keys: AtomicU64,
    evicted_clients: AtomicU64,
    /// Of the collections that the engine has seen go, those before CONFIG RESETSTAT.
    freed_before: AtomicU64,
}

impl Counters {
    /// So many look-ups for reading found a key, and so many did not.
    #[inline]
    pub fn count_lookups(&self, hits: u64, misses: u64) {
        for (counter, count) in [(&self.hits, hits), (&self.misses, misses)] {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Keys were deleted because they had expired.
    pub fn count_expired(&self, keys: u64) {
        self.expired_keys.fetch_add(keys, Ordering::Relaxed);
    }

    /// Fields of hashes were removed because they had expired.
    pub fn count_expired_fields(&self, fields: u64) {
        self.expired_fields.fetch_add(fields, Ordering::Relaxed);
    }

    /// Keys were deleted to make room.
    pub fn count_evicted(&self, keys: u64) {
        self.evicted_keys.fetch_add(keys, Ordering::Relaxed);
    }

    /// A client was closed to make room.
    pub fn count_evicted_client(&self) {
        self.evicted_clients.fetch_add(1, Ordering::Relaxed);
    }

    /// Clients closed to make room.
    #[must_use]
    pub fn evicted_clients(&self) -> u64 {
        self.evicted_clients.load(Ordering::Relaxed)
    }

    /// Look-ups that found a key.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Look-ups that found none.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Keys deleted because they had expired.
    #[must_use]
    pub fn expired_keys(&self) -> u64 {
        self.expired_keys.load(Ordering::Relaxed)
    }

    /// Fields removed because they had expired.
    #[must_use]
    pub fn expired_fields(&self) -> u64 {
        self.expired_fields.load(Ordering::Relaxed)
    }

    /// Keys deleted to make room.
    #[must_use]
    pub fn evicted_keys(&self) -> u64 {
        self.evicted_keys.load(Ordering::Relaxed)
    }

    /// Collections whose memory was freed in the background, where the engine says `gone` of all of them.
    #[must_use]
    pub fn freed(&self, gone: u64) -> u64 {
        gone.saturating_sub(self.freed_before.load(Ordering::Relaxed))
    }

    /// CONFIG RESETSTAT, when `gone` collections have gone.
    pub fn reset(&self, gone: u64) {
        self.freed_before.store(gone, Ordering::Relaxed);
        let evicted = [&self.evicted_keys, &self.evicted_clients];
        let expired = [&self.expired_keys, &self.expired_fields];
        for counter in [&self.hits, &self.misses].into_iter().chain(expired).chain(evicted) {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
