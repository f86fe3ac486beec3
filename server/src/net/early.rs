//! Answers clients before the store exists: while manifest and tables are being opened.
//!
//! No command can run, so a request is refused with the error of a loading server. A command that a loading server would
//! run (INFO, AUTH, HELLO...) waits, with everything behind it, for the worker that takes over the connection.

use super::listener::{Listener, Waiting, may_enter};
use crate::commands::table::table;
use crate::dispatch::{Args, Early, check_early};
use crate::resp::{Batch, Limits, Reply, Scanner};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// Duration of a start that clients do not notice: earlier requests wait this long. Redis serves its clients only between
/// pieces of a load, so a short load goes unnoticed there too.
pub(crate) const UNSEEN_START: Duration = Duration::from_millis(200);

/// Maximum number of unanswered bytes read from a client. Further bytes stay in its socket.
const UNREAD_MAX_BYTES: usize = 16 << 10;

/// The settings needed before the server exists.
#[derive(Clone, Copy, Debug)]
pub struct EarlyRules {
    /// `protected-mode`.
    pub protected_mode: bool,
    /// There is a `requirepass`.
    pub requires_password: bool,
    /// `maxclients`: more are not accepted, and wait in the backlog.
    pub clients_max: usize,
    /// No client is answered before this time.
    pub seen_from: Instant,
}

/// The listeners, each with a task that answers new connections.
#[derive(Debug)]
pub(super) struct Door {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<(Listener, Vec<Waiting>)>>,
}

impl Door {
    /// Opens it, in tasks of the current runtime.
    pub(super) fn open(listeners: Vec<Listener>, rules: EarlyRules) -> Self {
        let (stop, stopped) = watch::channel(false);
        let begin = |listener| tokio::spawn(accept(listener, rules, stopped.clone()));
        Self { tasks: listeners.into_iter().map(begin).collect(), stop }
    }

    /// Gives back the listeners, and the clients that are still there.
    pub(super) async fn close(self) -> (Vec<Listener>, Vec<Waiting>) {
        // Every task holds a receiver.
        let _ = self.stop.send(true);
        let (mut listeners, mut clients) = (Vec::new(), Vec::new());
        for task in self.tasks {
            if let Ok((listener, waiting)) = task.await {
                listeners.push(listener);
                clients.extend(waiting);
            }
        }
        (listeners, clients)
    }
}

async fn accept(
    listener: Listener,
    rules: EarlyRules,
    mut stopped: watch::Receiver<bool>,
) -> (Listener, Vec<Waiting>) {
    let (mut clients, mut waiting) = (JoinSet::new(), Vec::new());
    loop {
        let client = tokio::select! {
            _ = stopped.changed() => break,
            // It has left, or has seen the door close before us.
            Some(client) = clients.join_next() => {
                waiting.extend(client.ok().flatten());
                continue;
            }
            client = listener.accept(), if clients.len() < rules.clients_max => client,
        };
        let stopped = stopped.clone();
        match client {
            Ok(Waiting::Tcp { mut socket, addr, unread }) => {
                if may_enter(&mut socket, addr, rules.protected_mode, rules.requires_password) {
                    clients.spawn(async move {
                        let stream = TcpStream::from_std(socket).ok()?;
                        let (stream, unread) = answer(stream, unread, rules, stopped).await?;
                        Some(Waiting::Tcp { socket: stream.into_std().ok()?, addr, unread })
                    });
                }
            }
            Ok(Waiting::Unix { socket, unread }) => {
                clients.spawn(async move {
                    let stream = UnixStream::from_std(socket).ok()?;
                    let (stream, unread) = answer(stream, unread, rules, stopped).await?;
                    Some(Waiting::Unix { socket: stream.into_std().ok()?, unread })
                });
            }
            // Out of descriptors: the backlog waits.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    while let Some(client) = clients.join_next().await {
        waiting.extend(client.ok().flatten());
    }
    (listener, waiting)
}

/// Serves one client until the door closes, then returns it with its unanswered input. `None` if it has disconnected,
/// or does not read its replies.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    mut unread: Vec<u8>,
    rules: EarlyRules,
    mut stopped: watch::Receiver<bool>,
) -> Option<(S, Vec<u8>)> {
    let mut waits = false;
    loop {
        let room = UNREAD_MAX_BYTES.saturating_sub(unread.len());
        tokio::select! {
            _ = stopped.changed() => return Some((stream, unread)),
            read = read_up_to(&mut stream, &mut unread, room), if !waits && room > 0 => {
                read.ok().filter(|&count| count > 0)?;
            }
        }
        tokio::select! {
            _ = stopped.changed() => return Some((stream, unread)),
            () = tokio::time::sleep_until(rules.seen_from) => {}
        }
        let mut reply = Reply::new();
        let (used, then) = refuse(&unread, rules, &mut reply);
        unread.drain(..used);
        waits = matches!(then, Some(Early::Waits));
        tokio::select! {
            biased;
            written = stream.write_all(reply.bytes()) => written.ok()?,
            _ = stopped.changed() => return None,
        }
        if matches!(then, Some(Early::Close)) {
            return None;
        }
    }
}

async fn read_up_to<S: AsyncRead + Unpin>(
    stream: &mut S,
    into: &mut Vec<u8>,
    bytes: usize,
) -> std::io::Result<usize> {
    stream.take(bytes as u64).read_buf(into).await
}

/// Refuses the complete requests at the start of `bytes`, up to one that must wait or closes the connection. Returns the
/// number of processed bytes, and which of these cases it was.
fn refuse(bytes: &[u8], rules: EarlyRules, reply: &mut Reply) -> (usize, Option<Early>) {
    // A copy, since inline requests are unquoted in place.
    let mut buf = bytes.to_vec();
    let mut batch = Batch::default();
    // What cannot be read is for the worker to say: it closes the connection with it.
    let (used, error) = Scanner::default().scan(&mut buf, &mut batch, Limits::default());
    for request in &batch.requests {
        let args = Args::new(&buf, batch.args(request));
        match check_early(table(), args, rules.requires_password) {
            Early::Refused(error) => reply.error(&error.bytes()),
            then => return (request.start as usize, Some(then)),
        }
    }
    (used, error.map(|_| Early::Waits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8], requires_password: bool) -> (String, usize, bool) {
        let rules = EarlyRules {
            protected_mode: true,
            requires_password,
            clients_max: 1,
            seen_from: Instant::now(),
        };
        let mut reply = Reply::new();
        let (used, then) = refuse(bytes, rules, &mut reply);
        (String::from_utf8(reply.bytes().to_vec()).unwrap(), used, then.is_some())
    }

    #[test]
    fn requests_are_refused_up_to_one_that_a_loading_server_runs() {
        let loading = "-LOADING Redis is loading the dataset in memory\r\n";
        assert_eq!(refused(b"PING\r\nGET a\r\nGE", false), (loading.repeat(2), 13, false));
        assert_eq!(refused(b"PING\r\nINFO\r\nGET a\r\n", false), (loading.to_owned(), 6, true));
        assert_eq!(refused(b"*1\r\n:1\r\n", false), (String::new(), 0, true));
        let (reply, used, _) = refused(b"GET\r\nNOSUCH\r\n", false);
        assert!(reply.starts_with("-ERR wrong number of arguments for 'get' command\r\n"));
        assert!(reply.contains("-ERR unknown command 'NOSUCH'"));
        assert_eq!(used, 13);
        let no_auth = "-NOAUTH Authentication required.\r\n".to_owned();
        assert_eq!(refused(b"PING\r\nAUTH a\r\nPING\r\n", true), (no_auth, 6, true));
    }
}
