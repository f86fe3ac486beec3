//! `sexton-server`: reads the configuration, opens the store, serves.
#![deny(unsafe_code)]

use parking_lot::Mutex;
use sexton::client::Client;
use sexton::crash;
use sexton::devices;
use sexton::dispatch::Executor;
use sexton::log;
use sexton::net::{Endpoints, Listeners, Workers};
use sexton::process::{self, PidFile, Supervisor};
use sexton::server::Server;
use sexton::takeover::{self, Takeover};
use sexton_config::choice::{
    AppendFsync, Compression, Deletes, EvictionPolicy, LogLevel, Memtable, PersistenceMode,
};
use sexton_config::machine::{MachineMemory, MemoryOf};
use sexton_config::{Config, Invocation, Options};
use sexton_engine::{DeleteMode, Engine, EngineOptions, EventSink, MemtableKind, SyncPolicy};
use sexton_persistence::device::PlacedStorage;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

mod allocator;

fn main() -> ExitCode {
    let arguments = match Invocation::parse(std::env::args_os().skip(1)) {
        Invocation::Version => {
            println!("Sexton server v={} malloc=jemalloc bits=64", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Invocation::Help => {
            eprint!("{USAGE}");
            return ExitCode::FAILURE;
        }
        Invocation::Serve(arguments) => arguments,
    };
    let config = match Config::load(&arguments) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let kept = [
        (config.users(), "ACL users are not built yet"),
        (config.renamed_commands(), "rename-command is not built yet"),
    ];
    for (lines, reason) in kept {
        // Better no start than a command or a user that somebody believes to be locked.
        if let Some(line) = lines.first() {
            eprintln!("{}", line.refuse(reason));
            return ExitCode::FAILURE;
        }
    }
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            log::warning(&text);
            if log::is_file() {
                // Whoever starts the server by hand looks here, not into the file.
                eprintln!("{text}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Printed for `--help`, with exit code 1 as redis-server does.
const USAGE: &str = "\
Usage: sexton-server [/path/to/sexton.conf] [options] [-]
       sexton-server - (read config from stdin)
       sexton-server -v or --version
       sexton-server -h or --help

Examples:
       sexton-server (run the server with default conf)
       echo 'maxmemory 128mb' | sexton-server -
       sexton-server /etc/sexton/6379.conf
       sexton-server --port 7777
       sexton-server /etc/sexton.conf --loglevel verbose -
";

fn endpoints(options: &Options) -> Endpoints {
    let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
    Endpoints {
        bind: options.bind.iter().map(text).collect(),
        port: options.port,
        unix_socket: options.unixsocket.clone(),
        unix_socket_mode: (options.unixsocketperm != 0).then_some(options.unixsocketperm),
        backlog: i32::try_from(options.tcp_backlog).unwrap_or(i32::MAX),
    }
}

/// Log file and level, the data directory, the background: what must stand before anything else is said or
/// done. Answers who supervises, and whether the process is in the background now.
fn prepare(config: &Config) -> Result<(Supervisor, bool), String> {
    let options = config.options();
    let level = match options.loglevel {
        LogLevel::Debug => log::Level::Debug,
        LogLevel::Verbose => log::Level::Verbose,
        LogLevel::Notice => log::Level::Notice,
        LogLevel::Warning => log::Level::Warning,
    };
    log::set_level(level);
    log::set_file(&options.logfile).map_err(|error| format!("Can't open the log file: {error}"))?;
    crash::log_panics();
    crash::report_crashes(options.crash_log_enabled);
    let dir = options.dir.display();
    std::fs::create_dir_all(&options.dir)
        .map_err(|error| format!("Can't create the directory '{dir}': {error}"))?;
    std::env::set_current_dir(&options.dir)
        .map_err(|error| format!("Can't chdir to '{dir}': {error}"))?;
    let supervisor =
        Supervisor::find(options.supervised, |name| std::env::var_os(name).map(PathBuf::from));
    let in_background = options.daemonize && !supervisor.is_any();
    if in_background {
        process::daemonize().map_err(|error| format!("Can't go to the background: {error}"))?;
    }
    log::notice(&format!(
        "Sexton {} is starting, PID: {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id()
    ));
    if config.options().maxmemory_is_auto {
        tell_auto_bound(config.options().maxmemory_bytes);
    }
    Ok((supervisor, in_background))
}

/// Says what `maxmemory auto` stands for.
fn tell_auto_bound(bound_bytes: u64) {
    let memory = MachineMemory::now();
    let of = match memory.of {
        MemoryOf::Machine => "the memory of the machine",
        MemoryOf::ControlGroup => "the memory limit of the control group",
    };
    log::notice(&match bound_bytes {
        0 => "maxmemory auto: no bound, since the memory of the machine cannot be told".to_owned(),
        bound => format!("maxmemory auto: {bound} bytes, 0.8 of {of} of {} bytes", memory.bytes),
    });
}

fn run(config: Config) -> Result<(), String> {
    let (supervisor, in_background) = prepare(&config)?;
    let mut options = config.options().clone();
    if options.persistence_mode == PersistenceMode::Wbl {
        // The store is durable, as with a log (N3).
        options.appendonly = true;
    }
    let clients_max = raise_descriptor_limit(options.maxclients as u64)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("Cannot make the event loop: {error}"))?;
    let _entered = runtime.enter();
    let mut signals = Signals::listen()?;
    // Before anything is read: a port that is taken is known at once, and who comes early waits for an answer.
    let listeners = Listeners::bind(&endpoints(&options))
        .map_err(|error| format!("Failed listening on port {}, aborting. {error}", options.port))?;
    let pid_file = PidFile::write(options.pidfile.as_deref(), in_background);
    let (mut opening, mut handle) = Opening::begin(options.clone());
    let Some(Handle { engine, devices, store_id }) =
        runtime.block_on(opening.first(&mut handle, &mut signals, &supervisor))?
    else {
        // A store that is being opened is left as by a kill, which it is made for.
        drop(pid_file);
        std::process::exit(0);
    };
    let server = Arc::new(Server::new(engine, options.databases));
    // Set here and nowhere else.
    let _ = server.store_id.set(store_id);
    let _ = server.devices.set(devices);
    server.loading.begin(0);
    sexton::configuration::start(&server, config)?;
    sexton::configuration::lower_clients_max(&server, clients_max);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = Workers::start(&server, options.effective_worker_threads(cores))
        .map_err(|error| format!("Cannot start the worker threads: {error}"))?;
    log::notice("Server initialized");
    let _ = server.listening.set(listeners.serve(Arc::clone(&server), Arc::new(workers)));
    let Some(takeover) = runtime.block_on(opening.rest(&server, &mut signals, &supervisor))? else {
        drop(pid_file);
        std::process::exit(0);
    };
    server.saving.note_loaded(server.engine.last_seq());
    match takeover.bytes() {
        Some(bytes) => server.loading.begin(bytes),
        None => server.loading.end(),
    }
    let stop = Arc::new(AtomicBool::new(false));
    let cron = {
        let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
        std::thread::Builder::new()
            .name("cron".to_owned())
            .spawn(move || sexton::jobs::cron::run(&server, &stop))
            .map_err(|error| format!("Cannot start the cron thread: {error}"))?
    };
    let saver = {
        let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
        std::thread::Builder::new()
            .name("bgsave".to_owned())
            .spawn(move || sexton::jobs::rdb::run_saver(&server, &stop))
            .map_err(|error| format!("Cannot start the thread of background saves: {error}"))?
    };
    let rewriter = {
        let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
        std::thread::Builder::new()
            .name("bgrewriteaof".to_owned())
            .spawn(move || sexton::jobs::rewrite::run_rewriter(&server, &stop))
            .map_err(|error| format!("Cannot start the thread of log bases: {error}"))?
    };
    let loaded = runtime.block_on(load(&server, takeover, options, &mut signals));
    let (undo, ended) = match loaded {
        Loaded::Ready => {
            log::notice("Ready to accept connections");
            supervisor.tell_ready();
            (None, runtime.block_on(until_stopped(&server, &mut signals)))
        }
        Loaded::Stopped(takeover) => (takeover, Ok(())),
        Loaded::Failed(takeover, error) => (takeover, Err(error)),
    };
    supervisor.tell_stopping();
    // A second signal does not wait for the store.
    runtime.spawn(async move {
        signals.next().await;
        std::process::exit(1);
    });
    stop.store(true, Ordering::Release);
    server.rewriting.stop();
    let engine = server.engine.clone();
    let closed =
        runtime.block_on(async move { tokio::task::spawn_blocking(move || engine.close()).await });
    // The threads only sleep, delete, and save what is gone: a panic of them changes nothing now.
    let _ = (cron.join(), saver.join(), rewriter.join());
    if let Some(takeover) = undo {
        takeover.undo();
    }
    ended?;
    match closed {
        Ok(Ok(())) => {
            log::warning("Redis is now ready to exit, bye bye...");
            Ok(())
        }
        Ok(Err(error)) => Err(format!("Closing the store failed: {error}")),
        Err(error) => Err(format!("Closing the store failed: {error}")),
    }
}

/// What the server can begin with while the store's log is replayed.
struct Handle {
    engine: Engine,
    devices: Arc<PlacedStorage>,
    store_id: String,
}

/// The store on its way: opened by a thread of its own, while this one listens to signals and clients.
struct Opening {
    job: tokio::task::JoinHandle<Result<Takeover, String>>,
    shared: Arc<OpeningShared>,
    /// What the job has answered, where that was seen before the store.
    ended: Option<Takeover>,
}

/// What the thread that opens the store hears.
#[derive(Default)]
struct OpeningShared {
    /// It is to give up.
    is_stopped: AtomicBool,
    /// Whom to tell how far it is.
    server: OnceLock<Arc<Server>>,
    /// What it is doing.
    phase: Mutex<&'static str>,
}

/// A start that takes long says every few seconds what it is doing. Does not end.
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
    fn begin(options: Options) -> (Self, oneshot::Receiver<Handle>) {
        let (tell, handle) = oneshot::channel();
        let shared = Arc::new(OpeningShared::default());
        let job = {
            let shared = Arc::clone(&shared);
            tokio::task::spawn_blocking(move || open(&options, &shared, tell))
        };
        (Self { job, shared, ended: None }, handle)
    }

    /// The store, or why there is none; `None` when the server was told to stop.
    async fn first(
        &mut self,
        handle: &mut oneshot::Receiver<Handle>,
        signals: &mut Signals,
        supervisor: &Supervisor,
    ) -> Result<Option<Handle>, String> {
        let shared = Arc::clone(&self.shared);
        tokio::select! {
            Ok(handle) = &mut *handle => return Ok(Some(handle)),
            outcome = &mut self.job => {
                // A small store is open and replayed before anybody has looked at the handle.
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
    async fn rest(
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

    /// Lets the thread put back what it can; a tree that is being read or carried does not hold up the stop.
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

/// Looks at the data directory, opens the store in it and replays its log.
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
            // Who waits for it has been told to stop otherwise.
            let _ = tell.send(Handle { engine, devices, store_id });
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
    let storage: Arc<PlacedStorage> = Arc::clone(devices);
    let mut engine_options = EngineOptions::new(storage, PathBuf::from("."));
    engine_options.databases = options.databases;
    engine_options.level_places = devices::level_places(options);
    engine_options.sync_policy = match (options.appendonly, options.appendfsync) {
        (false, _) => SyncPolicy::Off,
        (true, AppendFsync::Always) => SyncPolicy::Always,
        (true, AppendFsync::No) => SyncPolicy::No,
        (true, AppendFsync::EverySecond) => SyncPolicy::EverySec,
    };
    engine_options.write_behind = options.persistence_mode == PersistenceMode::Wbl;
    engine_options.pool = devices::pool_options(options, devices)?;
    engine_options.log_dir_name = options.appenddirname.display().to_string();
    engine_options.log_file_name = options.appendfilename.display().to_string();
    engine_options.memory_bound_bytes = options.maxmemory_bytes;
    engine_options.evicts_keys = options.maxmemory_policy != EvictionPolicy::NoEviction;
    engine_options.memtable_bytes = options.effective_memtable_bytes();
    let disk = devices::disk_of_level_0(options);
    let machine_bytes = MachineMemory::now().bytes;
    engine_options.max_write_buffer_number =
        options.effective_write_buffers(disk.is_some(), machine_bytes);
    engine_options.unflushed_values_bytes = options.unflushed_values_bytes(machine_bytes);
    engine_options.on_disk = disk.is_some();
    engine_options.yields_to_log = disk.is_some() && disk == options.aof_device.as_deref();
    engine_options.block_cache_bytes = options.block_cache_bytes as usize;
    let compression = |setting| match setting {
        Compression::None => sexton_engine::Compression::None,
        Compression::Lz4 => sexton_engine::Compression::Lz4,
        Compression::Zstd => sexton_engine::Compression::Zstd,
    };
    engine_options.compression = compression(options.compression);
    engine_options.compression_upper = compression(options.compression_upper);
    engine_options.compression_bottom = compression(options.compression_bottom);
    engine_options.log_segment_bytes = options.effective_aof_segment_bytes();
    engine_options.log_load_truncated = options.aof_load_truncated;
    engine_options.log_routes = devices::log_routes(options);
    engine_options.log_archive_dir.clone_from(&options.aof_archive_dir);
    engine_options.filter_bits_per_key = options.filter_bits_per_key as u8;
    engine_options.deletes = match options.deletes {
        Deletes::Cemetery => DeleteMode::Cemetery,
        Deletes::Tombstones => DeleteMode::Tombstones,
    };
    engine_options.memtable = match options.memtable {
        Memtable::Hash => MemtableKind::Hash,
        Memtable::SkipList => MemtableKind::SkipList,
    };
    engine_options.direct_io = options.tree_direct_io;
    engine_options.compaction_threads = options.compaction_threads;
    engine_options.compaction_bytes_per_s = options.compaction_rate_limit_bytes;
    engine_options.cemetery_max_bytes = options.cemetery_max_memory_bytes;
    engine_options.delete_persist_ms = 1000 * u64::from(options.delete_persist_seconds);
    engine_options.snapshots_max = options.snapshots_max;
    engine_options.cold_read_threads = options.cold_read_threads;
    engine_options.events = EventSink::new(|event| log::warning(&event.to_string()));
    engine_options.log_buffer_bytes = options.aof_buffer_limit_bytes as usize;
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
            let (server, client, executor) = replay.get_or_insert_with(|| {
                let server = Server::new(engine.clone(), databases);
                (
                    server,
                    Client::default(),
                    Executor::new(sexton::commands::table::table(), 0, false),
                )
            });
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
        // There is no log, and what is loaded comes from elsewhere.
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

/// How the load at the start ended.
enum Loaded {
    /// There was nothing to load, or it is loaded.
    Ready,
    /// The server was told to stop while it loaded.
    Stopped(Option<Takeover>),
    /// It could not be loaded.
    Failed(Option<Takeover>, String),
}

/// Loads what the data directory has for a store without data, while clients hear LOADING.
async fn load(
    server: &Arc<Server>,
    takeover: Takeover,
    options: Options,
    signals: &mut Signals,
) -> Loaded {
    if takeover.bytes().is_none() {
        return Loaded::Ready;
    }
    let takeover = Arc::new(takeover);
    let job = {
        let (server, takeover) = (Arc::clone(server), Arc::clone(&takeover));
        tokio::task::spawn_blocking(move || takeover.load(&server))
    };
    let abort = async {
        tokio::select! {
            _ = server.shutdown.wait() => {}
            _ = signals.next() => {}
        }
        server.loading.abort();
        std::future::pending::<()>().await;
    };
    let result = tokio::select! {
        result = job => result.unwrap_or_else(|panic| Err(panic.to_string())),
        () = abort => Ok(()),
    };
    let stopped = server.loading.is_aborted();
    // The job has ended and let go of it.
    let takeover = Arc::into_inner(takeover);
    match (result, takeover) {
        (Ok(()), Some(takeover)) => match takeover.finish(&options) {
            Ok(()) => {
                server.loading.end();
                Loaded::Ready
            }
            Err(error) => Loaded::Failed(None, error),
        },
        (_, takeover) if stopped => Loaded::Stopped(takeover),
        (Err(error), takeover) => {
            let text = format!("Fatal error loading the DB, nothing of it is kept. {error}");
            Loaded::Failed(takeover, text)
        }
        (Ok(()), None) => Loaded::Ready,
    }
}

/// Resolves when the server must stop: SHUTDOWN, or a signal and, where it asks for one, a last save.
async fn until_stopped(server: &Arc<Server>, signals: &mut Signals) -> Result<(), String> {
    loop {
        let directive = tokio::select! {
            _ = server.shutdown.wait() => return Ok(()),
            directive = signals.next() => directive,
        };
        let flags = server.setting(directive);
        let has = |flag: &str| flags.split(' ').any(|word| word == flag);
        let wanted = (has("save") || has("nosave")).then_some(has("save"));
        let save = {
            let server = Arc::clone(server);
            move || sexton::jobs::rdb::save_before_exit(&server, wanted).is_ok()
        };
        // A second signal does not wait for it.
        let saved = tokio::select! {
            saved = tokio::task::spawn_blocking(save) => saved.unwrap_or(false),
            _ = signals.next() => std::process::exit(1),
        };
        if saved || has("force") {
            return Ok(());
        }
    }
}

/// The signals of an operator. One that comes while nobody waits is heard by who waits next.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// From now on they do what [`next`](Self::next) says, and end nothing by themselves. Rust's runtime ignores
    /// SIGPIPE.
    fn listen() -> Result<Self, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("Cannot handle signals: {error}"));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Resolves at SIGTERM or SIGINT, with the directive that says what it does. SIGHUP opens the log file anew.
    async fn next(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {
                    log::warning("Received SIGTERM scheduling shutdown...");
                    return "shutdown-on-sigterm";
                }
                _ = self.interrupt.recv() => {
                    log::warning("Received SIGINT scheduling shutdown...");
                    return "shutdown-on-sigint";
                }
                _ = self.hangup.recv() => log::reopen(),
            }
        }
    }
}

/// Raises the limit of open files to what `maxclients` needs, and lowers `maxclients` to what the
/// system allows, as Redis does.
fn raise_descriptor_limit(clients_max: u64) -> Result<u64, String> {
    let possible = sexton::net::clients_possible(clients_max)
        .map_err(|error| format!("Unable to obtain the current NOFILE limit: {error}"))?;
    if possible == 0 {
        return Err("Your current 'ulimit -n' is not enough for the server to start.".to_owned());
    }
    if possible < clients_max {
        log::warning(&format!(
            "The limit of open files is too low. maxclients has been reduced to {possible} to \
             compensate for low ulimit."
        ));
    }
    Ok(possible)
}
