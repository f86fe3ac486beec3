//! The life cycle of a server, from its settings to its shutdown: data directory, listeners, store, threads, signals.

mod import;
mod opening;
mod options;
mod signals;
mod users;

pub use users::take_lines;

use crate::metrics::Metrics;
use crate::net::{self, EarlyRules, Listeners, UNSEEN_START, Workers};
use crate::process::{self, PidFile, Supervisor};
use crate::server::Server;
use crate::{crash, log, takeover};
use import::{Loaded, load};
use opening::{Handle, Opening};
use options::{addresses, endpoints};
use sexton_config::choice::{LogLevel, PersistenceMode};
use sexton_config::machine::{MachineMemory, MemoryOf};
use sexton_config::{Config, Options};
use signals::{Signals, until_stopped};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the server until it is told to stop.
///
/// # Errors
/// A text that explains why the server could not start or shut down properly.
pub fn run(config: Config) -> Result<(), String> {
    let (supervisor, in_background) = prepare(&config)?;
    let auth = users::load(&config)?;
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
    // Before anything is read: an occupied port is detected at once, and early clients wait for a reply.
    let mut listeners = Listeners::bind(&endpoints(&options)).map_err(|error| {
        format!("Failed listening on port {}, aborting. {error}", listened(&options))
    })?;
    let metrics = start_metrics(&options)?;
    let pid_file = PidFile::write(options.pidfile.as_deref(), in_background);
    let has_data = takeover::finds_data(&options);
    let seen_from = tokio::time::Instant::now() + UNSEEN_START;
    if has_data {
        listeners.answer_early(EarlyRules {
            protected_mode: options.protected_mode,
            requires_password: auth.is_required(),
            clients_max: clients_max as usize,
            seen_from,
        });
    }
    let (mut opening, mut handle) = Opening::begin(options.clone());
    let Some(Handle { engine, devices, store_id, bytes }) =
        runtime.block_on(opening.first(&mut handle, &mut signals, &supervisor))?
    else {
        // A store that is being opened is left as by a kill, which it is made for.
        drop(pid_file);
        std::process::exit(0);
    };
    let server = Arc::new(Server { auth, ..Server::new(engine, options.databases) });
    // Set here and nowhere else.
    let _ = server.store_id.set(store_id);
    let _ = server.devices.set(devices);
    server.loading.begin(bytes);
    crate::configuration::start(&server, config)?;
    crate::configuration::lower_clients_max(&server, clients_max);
    metrics.show(&server);
    signals.serve(&server);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = Workers::start(&server, options.effective_worker_threads(cores))
        .map_err(|error| format!("Cannot start the worker threads: {error}"))?;
    log::notice("Server initialized");
    let serve = async {
        let control = listeners.serve(Arc::clone(&server), Arc::new(workers)).await;
        // Set here and nowhere else.
        let _ = server.listening.set(control);
    };
    let rest = opening.rest(&server, &mut signals, &supervisor);
    let takeover = runtime.block_on(async {
        let mut rest = std::pin::pin!(rest);
        // As with redis-server, clients of a server with little or no data never receive LOADING.
        let takeover = tokio::select! {
            takeover = &mut rest => Some(takeover),
            () = tokio::time::sleep_until(seen_from), if has_data => None,
        };
        serve.await;
        match takeover {
            Some(takeover) => takeover,
            None => rest.await,
        }
    });
    let Some(takeover) = takeover? else {
        drop(pid_file);
        std::process::exit(0);
    };
    server.functions.read(&server.engine)?;
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
            .spawn(move || crate::jobs::cron::run(&server, &stop))
            .map_err(|error| format!("Cannot start the cron thread: {error}"))?
    };
    let saver = {
        let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
        std::thread::Builder::new()
            .name("bgsave".to_owned())
            .spawn(move || crate::jobs::rdb::run_saver(&server, &stop))
            .map_err(|error| format!("Cannot start the thread of background saves: {error}"))?
    };
    let rewriter = {
        let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
        std::thread::Builder::new()
            .name("bgrewriteaof".to_owned())
            .spawn(move || crate::jobs::rewrite::run_rewriter(&server, &stop))
            .map_err(|error| format!("Cannot start the thread of log bases: {error}"))?
    };
    let copier = {
        let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
        std::thread::Builder::new()
            .name("copier".to_owned())
            .spawn(move || crate::jobs::copy::run_copier(&server, &stop))
            .map_err(|error| format!("Cannot start the thread of copies: {error}"))?
    };
    let loaded = runtime.block_on(load(&server, takeover, options, &mut signals));
    let (undo, ended) = match loaded {
        Loaded::Ready => {
            log::notice("Ready to accept connections");
            supervisor.tell_ready();
            if let Some(every) = process::watchdog_every(|name| std::env::var(name).ok()) {
                let supervisor = supervisor.clone();
                runtime.spawn(async move {
                    loop {
                        supervisor.tell_alive();
                        tokio::time::sleep(every).await;
                    }
                });
            }
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
    // The threads only sleep, delete, and save data that is no longer needed: a panic in them has no effect now.
    let _ = (cron.join(), saver.join(), rewriter.join(), copier.join());
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

/// The ports that clients connect to.
fn listened(options: &Options) -> String {
    match (options.port, options.tls.port) {
        (port, 0) => port.to_string(),
        (0, tls) => format!("{tls} (TLS)"),
        (port, tls) => format!("{port}, {tls} (TLS)"),
    }
}

/// Answers on `metrics-port`, where there is one.
fn start_metrics(options: &Options) -> Result<Metrics, String> {
    let port = options.metrics_port;
    let sockets = net::bind_all(&addresses(&options.metrics_bind), port)
        .map_err(|error| format!("Failed listening on metrics-port {port}, aborting. {error}"))?;
    Metrics::start(sockets).map_err(|error| format!("Cannot start the thread of metrics: {error}"))
}

/// Sets up the log file and level, the data directory and daemonization, before anything else is logged or done.
/// Returns the supervisor, and whether the process now runs in the background.
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

/// Logs the bound that `maxmemory auto` means.
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

/// Raises the limit of open files to the number that `maxclients` needs, and lowers `maxclients` to the number the
/// system allows, as Redis does.
fn raise_descriptor_limit(clients_max: u64) -> Result<u64, String> {
    let possible = crate::descriptors::clients_possible(clients_max)
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
