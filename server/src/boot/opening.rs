//! Opens the store and replays its log on a dedicated thread.

use super::options::engine_options;
use super::signals::Signals;
use crate::commands::table;
use crate::dispatch::Executor;
use crate::dispatch::client::Client;
use crate::process::Supervisor;
use crate::server::Server;
use crate::takeover::{self, Takeover};
use crate::{devices, log};
use parking_lot::Mutex;
use sexton_config::Options;
use sexton_engine::{Engine, SyncPolicy};
use sexton_persistence::device::PlacedStorage;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The parts that the server can start with while the store's log is replayed.
pub(super) struct Handle {
    pub(super) engine: Engine,
    pub(super) devices: Arc<PlacedStorage>,
    pub(super) store_id: String,
    /// Bytes to load: from an import, or else from the log, part of which may already be in the tables.
    pub(super) bytes: u64,
}

/// A store being opened by a dedicated thread, while this one serves signals and clients.
pub(super) struct Opening {
    job: tokio::task::JoinHandle<Result<Takeover, String>>,
    shared: Arc<OpeningShared>,
    /// The job's result, if it arrived before the store.
    ended: Option<Takeover>,
}

/// State shared with the thread that opens the store.
#[derive(Default)]
struct OpeningShared {
    /// Set to abort the opening.
    is_stopped: AtomicBool,
    /// The server to report progress to.
    server: OnceLock<Arc<Server>>,
    /// What it is doing.
    phase: Mutex<&'static str>,
}

/// Logs the progress of a long start every few seconds. Never returns.
async fn tell_progress(what: impl Fn() -> Option<String>, supervisor: &Supervisor) {
    loop {
        tokio::time::sleep(PROGRESS_EVERY).await;
        if let Some(what) = what() {
            log::notice(&what);
            supervisor.tell_progress(&what, 4 * PROGRESS_EVERY);
        }
    }
}

/// Time between two lines about the progress of a start.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

impl Opening {
    /// Begins; the channel brings the store as soon as there is something to show of it.
    pub(super) fn begin(options: Options) -> (Self, oneshot::Receiver<Handle>) {
        let (tell, handle) = oneshot::channel();
        let shared = Arc::new(OpeningShared::default());
        let job = {
            let shared = Arc::clone(&shared);
            tokio::task::spawn_blocking(move || open(&options, &shared, tell))
        };
        (Self { job, shared, ended: None }, handle)
    }

    /// The store, or the reason why it could not be opened; `None` if the server was told to stop.
    pub(super) async fn first(
        &mut self,
        handle: &mut oneshot::Receiver<Handle>,
        signals: &mut Signals,
        supervisor: &Supervisor,
    ) -> Result<Option<Handle>, String> {
        let shared = Arc::clone(&self.shared);
        tokio::select! {
            Ok(handle) = &mut *handle => return Ok(Some(handle)),
            outcome = &mut self.job => {
                // A small store is opened and replayed before the handle is first polled.
                let takeover = ended(outcome)?;
                self.ended = Some(takeover);
                return handle.try_recv().map(Some).map_err(|gone| gone.to_string());
            }
            () = tell_progress(|| Some(shared.phase.lock().to_owned()), supervisor) => {}
            _ = signals.next() => {}
        }
        self.give_up().await;
        Ok(None)
    }

    /// Waits for the replay; `None` when the server was told to stop.
    pub(super) async fn rest(
        mut self,
        server: &Arc<Server>,
        signals: &mut Signals,
        supervisor: &Supervisor,
    ) -> Result<Option<Takeover>, String> {
        let _ = self.shared.server.set(Arc::clone(server));
        let progress = || {
            let view = server.loading.view()?;
            let (loaded, total) = (view.loaded_bytes, view.total_bytes);
            Some(match total {
                // Persistent memory has no length that is read through.
                0 => "Bringing the newest writes back".to_owned(),
                _ => format!("Loading: {} % of {total} bytes", loaded * 100 / total),
            })
        };
        if let Some(takeover) = self.ended.take() {
            return Ok(Some(takeover));
        }
        tokio::select! {
            outcome = &mut self.job => return ended(outcome).map(Some),
            () = tell_progress(progress, supervisor) => {}
            _ = server.shutdown.wait() => {}
            _ = signals.next() => {}
        }
        self.give_up().await;
        Ok(None)
    }

    /// Lets the thread undo what it can; a tree that is being read or moved does not delay the stop.
    async fn give_up(&mut self) {
        log::warning("Received shutdown signal during loading, exiting now.");
        self.shared.is_stopped.store(true, Ordering::Release);
        let _ = tokio::time::timeout(GIVE_UP_AFTER, &mut self.job).await;
    }
}

/// Time for an opening that is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(2);

/// What became of the opening.
fn ended(
    outcome: Result<Result<Takeover, String>, tokio::task::JoinError>,
) -> Result<Takeover, String> {
    outcome.unwrap_or_else(|panic| Err(panic.to_string()))
}

/// Inspects the data directory, opens its store and replays the log.
fn open(
    options: &Options,
    shared: &OpeningShared,
    tell: oneshot::Sender<Handle>,
) -> Result<Takeover, String> {
    let doing = |phase| *shared.phase.lock() = phase;
    doing("Looking for an import that did not end");
    takeover::undo_unfinished(options)?;
    doing("Looking at the devices");
    let devices = devices::open(options)?;
    doing("Looking at the data directory");
    let takeover = Takeover::prepare(options)?;
    doing("Carrying files to their devices");
    let opened = devices::place_entries(options).and_then(|()| {
        doing("Opening the tables, and carrying those whose level has another device");
        open_store(options, &devices, shared, |engine| {
            let (engine, devices) = (engine.clone(), Arc::clone(&devices));
            let store_id = takeover.store_id().to_owned();
            let bytes = takeover.bytes().unwrap_or_else(|| takeover::log_bytes(options));
            // Otherwise the waiter was told to stop.
            let _ = tell.send(Handle { engine, devices, store_id, bytes });
        })
    });
    match opened {
        Ok(()) => Ok(takeover),
        Err(error) => {
            takeover.undo();
            Err(error)
        }
    }
}

/// Opens the store in the working directory, shows it, and replays its log.
fn open_store(
    options: &Options,
    devices: &Arc<PlacedStorage>,
    shared: &OpeningShared,
    show: impl FnOnce(&Engine),
) -> Result<(), String> {
    let engine_options = engine_options(options, devices)?;
    let started = Instant::now();
    let databases = options.databases;
    let mut replay: Option<(Server, Client, Executor)> = None;
    let failed = |error| format!("Cannot open the store: {error}");
    let opening = Engine::begin_open(engine_options).map_err(failed)?;
    show(opening.engine());
    let (engine, report) = opening
        .finish(&mut |engine, group| {
            if shared.is_stopped.load(Ordering::Relaxed) {
                return Err("the server was told to stop".to_owned());
            }
            if let Some(server) = shared.server.get() {
                let (read, all) = group.progress;
                server.loading.note_progress(read, all);
            }
            let (server, client, executor) = match &mut replay {
                Some(replay) => replay,
                None => {
                    let server = Server::new(engine.clone(), databases);
                    server.functions.read(engine)?;
                    let executor = Executor::new(table::table(), 0, false);
                    replay.insert((server, Client::default(), executor))
                }
            };
            executor.replay(server, client, group.commands)
        })
        .map_err(failed)?;
    if let Some((file, bytes)) = &report.torn {
        log::warning(&format!("{file}: cut {bytes} bytes of a group that was written in part"));
    }
    if report.carried_tables > 0 {
        let tables = report.carried_tables;
        log::notice(&format!("Carried {tables} tables to the devices of their levels"));
    }
    match engine.wbl_stats() {
        // There is no log, and the data is loaded from elsewhere.
        None if engine.sync_policy() == SyncPolicy::Off => {}
        None => log::notice(&format!(
            "DB loaded from append only file: {:.3} seconds",
            started.elapsed().as_secs_f64()
        )),
        Some(wbl) => log::notice(&format!(
            "DB loaded: {} operations found in persistent memory ({}), {:.3} seconds, {:.3} in all",
            wbl.recovery.records,
            wbl.pool.kind,
            wbl.recovery_time.as_secs_f64(),
            started.elapsed().as_secs_f64()
        )),
    }
    if !engine.deadline_is_reachable() {
        log::warning(
            "delete-persist-seconds cannot be met on this amount of data: every table would have to be \
             rewritten within it (see delete_persist_reachable in INFO flsm)",
        );
    }
    Ok(())
}
