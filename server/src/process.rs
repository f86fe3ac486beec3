//! The process as its environment sees it: daemonization, pid file, supervisor.
#![allow(unsafe_code)]

use crate::log;
use sexton_config::choice::Supervised;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};

/// The default PID file for a server in the background, as in Redis.
const PID_FILE_DEFAULT: &str = "/var/run/redis.pid";

/// Moves to the background: a child continues in its own session, with standard streams redirected to /dev/null. The
/// original process ends at once with status 0, as redis-server does. Only the calling thread survives, so there must
/// be no other yet.
///
/// # Errors
/// The system's error. Nothing has changed then.
pub fn daemonize() -> io::Result<()> {
    // SAFETY: only one thread runs, so the child inherits no lock that somebody else holds.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {}
        _ => std::process::exit(0),
    }
    // SAFETY: no pointers. It fails for leaders of a group only, which a fresh child is not.
    unsafe { libc::setsid() };
    if let Ok(null) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // SAFETY: both are open descriptors, and nobody reads or writes at this moment.
            unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&null), stream) };
        }
    }
    // jemalloc's own thread has stayed in the parent; without it unused memory would not go back.
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        log::warning(&format!("The allocator's thread could not be started again: {error}"));
    }
    Ok(())
}

/// The supervisor that starts the server, and is notified when it is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Supervisor {
    /// Nobody.
    Nobody,
    /// `UPSTART_JOB` is set: the process stops itself when it is ready, and is set going again.
    Upstart,
    /// `NOTIFY_SOCKET` names a socket that takes datagrams.
    Systemd(PathBuf),
}

impl Supervisor {
    /// Determined by `supervised` and the environment. `env` looks up a variable.
    pub fn find(supervised: Supervised, env: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let upstart = || env("UPSTART_JOB").map(|_| Self::Upstart);
        let systemd = || env("NOTIFY_SOCKET").map(Self::Systemd);
        let (found, missing) = match supervised {
            Supervised::No => return Self::Nobody,
            Supervised::Auto => return upstart().or_else(systemd).unwrap_or(Self::Nobody),
            Supervised::Upstart => {
                (upstart(), "upstart supervision requested, but UPSTART_JOB not found!")
            }
            Supervised::Systemd => (
                systemd(),
                "systemd supervision requested or auto-detected, but NOTIFY_SOCKET not found!",
            ),
        };
        found.unwrap_or_else(|| {
            log::warning(missing);
            Self::Nobody
        })
    }

    /// Whether there is a supervisor: `daemonize` is then ignored, as in Redis.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self != Self::Nobody
    }

    /// The server takes requests.
    pub fn tell_ready(&self) {
        match self {
            Self::Nobody => {}
            Self::Upstart => {
                log::notice("supervised by upstart, will stop to signal readiness");
                // SAFETY: no pointers; the signal has its default action.
                unsafe { libc::raise(libc::SIGSTOP) };
            }
            Self::Systemd(_) => self.tell("STATUS=Ready to accept connections\nREADY=1\n"),
        }
    }

    /// The server takes no more requests and writes what is left.
    pub fn tell_stopping(&self) {
        self.tell("STOPPING=1\n");
    }

    /// What the server is doing while it is not ready, for `systemctl status`; the start may take `more` longer.
    pub fn tell_progress(&self, what: &str, more: std::time::Duration) {
        self.tell(&format!("STATUS={what}\nEXTEND_TIMEOUT_USEC={}\n", more.as_micros()));
    }

    /// The server lives (`WatchdogSec`).
    pub fn tell_alive(&self) {
        self.tell("WATCHDOG=1\n");
    }

    fn tell(&self, message: &str) {
        let Self::Systemd(path) = self else { return };
        let send = || {
            let socket = UnixDatagram::unbound()?;
            let name = path.to_string_lossy();
            let address = match name.strip_prefix('@') {
                Some(name) => SocketAddr::from_abstract_name(name)?,
                None => SocketAddr::from_pathname(path)?,
            };
            socket.send_to_addr(message.as_bytes(), &address)
        };
        if let Err(error) = send() {
            log::warning(&format!("Cannot tell {}: {error}", path.display()));
        }
    }
}

/// Interval of systemd watchdog notifications, if requested: half of `WATCHDOG_USEC`, unless that is meant for
/// another process. `env` looks up a variable.
#[must_use]
pub fn watchdog_every(env: impl Fn(&str) -> Option<String>) -> Option<std::time::Duration> {
    let is_ours = env("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
    let us: u64 = env("WATCHDOG_USEC")?.parse().ok()?;
    (is_ours && us > 0).then(|| std::time::Duration::from_micros(us.div_ceil(2)))
}

/// The PID file; removed when this is dropped.
#[derive(Debug)]
pub struct PidFile(Option<PathBuf>);

impl PidFile {
    /// Writes it to `pidfile`; for a server in the background also without this directive.
    #[must_use]
    pub fn write(pid_file: Option<&Path>, in_background: bool) -> Self {
        let default = in_background.then_some(Path::new(PID_FILE_DEFAULT));
        let Some(path) = pid_file.or(default) else { return Self(None) };
        if let Err(error) = std::fs::write(path, format!("{}\n", std::process::id())) {
            log::warning(&format!("Failed to write PID file {}: {error}", path.display()));
            return Self(None);
        }
        // It is removed from wherever the process works then.
        Self(Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // It may have been removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supervisors_are_found_by_directive_and_environment() {
        let nothing = |_: &str| None;
        let upstart = |name: &str| (name == "UPSTART_JOB").then(|| PathBuf::from("sexton"));
        let systemd = |name: &str| (name == "NOTIFY_SOCKET").then(|| PathBuf::from("/run/notify"));
        let notify = Supervisor::Systemd(PathBuf::from("/run/notify"));
        assert_eq!(Supervisor::find(Supervised::No, systemd), Supervisor::Nobody);
        assert_eq!(Supervisor::find(Supervised::Auto, nothing), Supervisor::Nobody);
        assert_eq!(Supervisor::find(Supervised::Auto, upstart), Supervisor::Upstart);
        assert_eq!(Supervisor::find(Supervised::Auto, systemd), notify);
        assert_eq!(Supervisor::find(Supervised::Systemd, systemd), notify);
        assert_eq!(Supervisor::find(Supervised::Systemd, upstart), Supervisor::Nobody);
        assert_eq!(Supervisor::find(Supervised::Upstart, upstart), Supervisor::Upstart);
    }

    #[test]
    fn the_watchdog_is_fed_twice_as_often_as_it_wants() {
        let ours = std::process::id().to_string();
        let env = |usec: &'static str, pid: Option<String>| {
            watchdog_every(move |name| match name {
                "WATCHDOG_USEC" => Some(usec.to_owned()).filter(|usec| !usec.is_empty()),
                _ => pid.clone(),
            })
        };
        let second = std::time::Duration::from_secs(1);
        assert_eq!(env("2000000", None), Some(second));
        assert_eq!(env("2000000", Some(ours)), Some(second));
        assert_eq!(env("2000000", Some("0".into())), None, "another process");
        for nothing in ["", "0", "x"] {
            assert_eq!(env(nothing, None), None);
        }
    }

    #[test]
    fn systemd_hears_of_readiness_on_named_and_abstract_sockets() {
        let name = format!("sexton-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let sockets = [
            (path.clone(), SocketAddr::from_pathname(&path).unwrap()),
            (format!("@{name}").into(), SocketAddr::from_abstract_name(&name).unwrap()),
        ];
        for (path, address) in sockets {
            let hears = UnixDatagram::bind_addr(&address).unwrap();
            Supervisor::Systemd(path).tell_ready();
            let mut message = [0; 128];
            let bytes = hears.recv(&mut message).unwrap();
            assert!(message[..bytes].ends_with(b"\nREADY=1\n"));
        }
        std::fs::remove_file(path).unwrap();
    }
}
