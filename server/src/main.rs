//! `sexton-server`: reads the configuration, opens the store, serves.
#![deny(unsafe_code)]

use sexton::client::Client;
use sexton::command::dispatch::Executor;
use sexton::log;
use sexton::net::{Endpoints, Listeners, Workers};
use sexton::server::Server;
use sexton_config::Config;
use sexton_engine::{Engine, EngineOptions, SyncPolicy};
use sexton_persistence::device::DiskStorage;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let options = match Options::from_args(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::FAILURE;
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            log::warning(&text);
            ExitCode::FAILURE
        }
    }
}

/// Directives of the command line, until the configuration crate reads them.
struct Options(HashMap<String, Vec<String>>);

impl Options {
    fn from_args(args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = HashMap::new();
        let mut values: Option<&mut Vec<String>> = None;
        for arg in args {
            match arg.strip_prefix("--") {
                Some("version") => {
                    println!("Sexton server v={} bits=64", env!("CARGO_PKG_VERSION"));
                    return Ok(None);
                }
                Some("help") => {
                    println!("Usage: sexton-server [--directive value]...");
                    return Ok(None);
                }
                Some(name) => values = Some(options.entry(name.to_ascii_lowercase()).or_default()),
                None => match &mut values {
                    Some(values) => values.push(arg),
                    None => return Err(format!("'{arg}': configuration files are not read yet")),
                },
            }
        }
        Ok(Some(Self(options)))
    }

    /// The directives as lines of a configuration file.
    fn lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        for (name, words) in &self.0 {
            lines.extend_from_slice(name.as_bytes());
            for word in words {
                lines.push(b' ');
                lines.extend_from_slice(&sexton_config::syntax::quote(word.as_bytes()));
            }
            lines.push(b'\n');
        }
        lines
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|values| values.first()).map(String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().map_err(|_| format!("*** FATAL CONFIG ERROR: bad value for '{name}': {text}"))
    }
}

impl Options {
    /// A number of bytes with Redis' units (`1k` = 1000, `1kb` = 1024...).
    fn bytes(&self, name: &str, default: u64) -> Result<u64, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let lower = text.to_ascii_lowercase();
        let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &lower[digits.len()..] {
            "" | "b" => 1,
            "k" => 1000,
            "kb" => 1 << 10,
            "m" => 1_000_000,
            "mb" => 1 << 20,
            "g" => 1_000_000_000,
            "gb" => 1 << 30,
            _ => 0,
        };
        let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        bytes
            .filter(|_| unit != 0)
            .ok_or_else(|| format!("*** FATAL CONFIG ERROR: bad value for '{name}': {text}"))
    }
}

fn endpoints(options: &Options) -> Result<Endpoints, String> {
    let bind = match options.0.get("bind") {
        Some(names) => {
            names.iter().flat_map(|names| names.split_whitespace()).map(str::to_owned).collect()
        }
        None => vec!["*".to_owned(), "-::*".to_owned()],
    };
    let mode = options
        .text("unixsocketperm")
        .map(|text| u32::from_str_radix(text, 8))
        .transpose()
        .map_err(|_| "*** FATAL CONFIG ERROR: bad value for 'unixsocketperm'".to_owned())?;
    Ok(Endpoints {
        bind,
        port: options.number("port", 6379)?,
        unix_socket: options.text("unixsocket").filter(|path| !path.is_empty()).map(PathBuf::from),
        unix_socket_mode: mode,
        backlog: options.number("tcp-backlog", 511)?,
    })
}

fn run(options: &Options) -> Result<(), String> {
    if let Some(dir) = options.text("dir") {
        std::env::set_current_dir(dir)
            .map_err(|error| format!("Can't chdir to '{dir}': {error}"))?;
    }
    if let Some(level) = options.text("loglevel").and_then(log::Level::named) {
        log::set_level(level);
    }
    if let Some(path) = options.text("logfile").filter(|path| !path.is_empty()) {
        log::set_file(Path::new(path)).map_err(|error| format!("{path}: {error}"))?;
    }
    if options.text("daemonize") == Some("yes") {
        return Err("daemonize yes is not supported: let a service manager run the server".into());
    }
    log::notice(&format!(
        "Sexton {} is starting, PID: {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id()
    ));
    let databases = options.number("databases", 16)?;
    let server = Arc::new(Server::new(open_store(options, databases)?, databases));
    match Config::from_text(&options.lines()) {
        Ok(config) => server.config.replace(config),
        Err(error) => log::warning(&format!("CONFIG shows defaults: {error}")),
    }
    if let Some(password) = options.text("requirepass") {
        server.auth.set_password(password.as_bytes());
    }
    let settings = &server.settings;
    settings.protected_mode.store(options.text("protected-mode") != Some("no"), Ordering::Relaxed);
    let clients_max = options.number("maxclients", 10_000)?;
    let clients_max = raise_descriptor_limit(clients_max)?;
    settings.clients_max.store(clients_max, Ordering::Relaxed);
    settings.idle_timeout_s.store(options.number("timeout", 0)?, Ordering::Relaxed);
    settings.keepalive_s.store(options.number("tcp-keepalive", 300)?, Ordering::Relaxed);

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("Cannot make the event loop: {error}"))?;
    let endpoints = endpoints(options)?;
    let _entered = runtime.enter();
    let listeners = Listeners::bind(&endpoints).map_err(|error| {
        log::warning(&format!("Warning: Could not create server TCP listening socket {error}"));
        "Failed listening on port, aborting.".replace("port", &format!("port {}", endpoints.port))
    })?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.number("worker-threads", cores.saturating_sub(1).max(1))?;
    let workers = Workers::start(&server, threads)
        .map_err(|error| format!("Cannot start the worker threads: {error}"))?;
    let pid_file = options.text("pidfile").filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(path) = &pid_file
        && let Err(error) = std::fs::write(path, format!("{}\n", std::process::id()))
    {
        log::warning(&format!("Failed to write PID file {}: {error}", path.display()));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let cron = {
        let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
        std::thread::Builder::new()
            .name("cron".to_owned())
            .spawn(move || sexton::cron::run(&server, &stop))
            .map_err(|error| format!("Cannot start the cron thread: {error}"))?
    };
    log::notice("Server initialized");
    log::notice("Ready to accept connections");
    runtime.block_on(async {
        tokio::select! {
            () = listeners.serve(Arc::clone(&server), Arc::new(workers)) => Ok(()),
            _ = server.shutdown.wait() => Ok(()),
            result = wait_for_signal() => result,
        }
    })?;
    // A second signal does not wait for the store.
    runtime.spawn(async {
        if wait_for_signal().await.is_ok() {
            std::process::exit(1);
        }
    });
    stop.store(true, Ordering::Release);
    let engine = server.engine.clone();
    let closed =
        runtime.block_on(async move { tokio::task::spawn_blocking(move || engine.close()).await });
    // The thread only sleeps and deletes: a panic of it changes nothing now.
    let _ = cron.join();
    if let Some(path) = &pid_file {
        let _ = std::fs::remove_file(path);
    }
    match closed {
        Ok(Ok(())) => {
            log::warning("Redis is now ready to exit, bye bye...");
            Ok(())
        }
        Ok(Err(error)) => Err(format!("Closing the store failed: {error}")),
        Err(error) => Err(format!("Closing the store failed: {error}")),
    }
}

/// Opens the store in the working directory and replays its log.
fn open_store(options: &Options, databases: usize) -> Result<Engine, String> {
    let sync_policy = match (options.text("appendonly"), options.text("appendfsync")) {
        (Some("no"), _) => SyncPolicy::Off,
        (_, Some("always")) => SyncPolicy::Always,
        (_, Some("no")) => SyncPolicy::No,
        _ => SyncPolicy::EverySec,
    };
    let started = Instant::now();
    let mut engine_options = EngineOptions::new(Arc::new(DiskStorage), PathBuf::from("."));
    engine_options.databases = databases;
    engine_options.sync_policy = sync_policy;
    engine_options.memory_bound_bytes = options.bytes("maxmemory", 0)?;
    let mut replay: Option<(Server, Client, Executor)> = None;
    let (engine, report) = Engine::open(engine_options, &mut |engine, group| {
        let (server, client, executor) = replay.get_or_insert_with(|| {
            let server = Server::new(engine.clone(), databases);
            (server, Client::default(), Executor::default())
        });
        executor.replay(server, client, group.commands)
    })
    .map_err(|error| format!("Cannot open the store: {error}"))?;
    if let Some((file, bytes)) = &report.torn {
        log::warning(&format!("{file}: cut {bytes} bytes of a command that was written in part"));
    }
    log::notice(&format!(
        "DB loaded from append only file: {:.3} seconds",
        started.elapsed().as_secs_f64()
    ));
    Ok(engine)
}

/// Resolves at SIGTERM or SIGINT. SIGHUP is ignored, as is SIGPIPE by Rust's runtime.
async fn wait_for_signal() -> Result<(), String> {
    let listen = |kind| signal(kind).map_err(|error| format!("Cannot handle signals: {error}"));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut hangup = listen(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = terminate.recv() => {
                log::warning("Received SIGTERM scheduling shutdown...");
                return Ok(());
            }
            _ = interrupt.recv() => {
                log::warning("Received SIGINT scheduling shutdown...");
                return Ok(());
            }
            _ = hangup.recv() => {}
        }
    }
}

/// Descriptors the server keeps for itself.
const RESERVED_DESCRIPTORS: u64 = 128;

/// Raises the limit of open files to what `maxclients` needs, and lowers `maxclients` to what the
/// system allows, as Redis does.
fn raise_descriptor_limit(clients_max: u64) -> Result<u64, String> {
    let allowed = sexton::net::raise_descriptor_limit(clients_max + RESERVED_DESCRIPTORS)
        .map_err(|error| format!("Unable to obtain the current NOFILE limit: {error}"))?;
    if allowed >= clients_max + RESERVED_DESCRIPTORS {
        return Ok(clients_max);
    }
    if allowed <= RESERVED_DESCRIPTORS {
        return Err(format!(
            "Your current 'ulimit -n' of {allowed} is not enough for the server to start."
        ));
    }
    let lowered = allowed - RESERVED_DESCRIPTORS;
    log::warning(&format!(
        "Current maximum open files is {allowed}. maxclients has been reduced to {lowered} to \
         compensate for low ulimit."
    ));
    Ok(lowered)
}
