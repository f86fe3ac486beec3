//! Running the commands of a Redis server's log.

use crate::commands::table;
use crate::dispatch::client::Client;
use crate::dispatch::{Args, Executor, too_long_key};
use crate::log;
use crate::resp::{Batch, Limits, Scanner};
use crate::server::Server;
use sexton_persistence::aof::RECORD_TAG;
use sexton_persistence::rdb::Input;
use std::path::Path;
use std::time::Duration;

/// Bytes read at once.
const STEP_BYTES: u64 = 1 << 20;

/// Longest command of a log: Redis' `client-query-buffer-limit`.
const COMMAND_MAX_BYTES: usize = 1 << 30;

/// What an operator can do about bytes that are no command, in Redis' words.
const BAD_FORMAT: &str = "Bad file format reading the append only file: make a backup of your AOF file, \
                          then use redis-check-aof --fix on it";

/// How long a command rests that must wait for the log or for a flush.
const PACE: Duration = Duration::from_millis(1);

/// Runs the commands of one log, which may be spread over several files.
pub(super) struct Replay<'s> {
    server: &'s Server,
    client: Client,
    executor: Executor,
    /// Commands since a MULTI whose EXEC has not been read yet.
    transaction: Option<Vec<u8>>,
}

impl<'s> Replay<'s> {
    pub(super) fn new(server: &'s Server) -> Self {
        let executor = Executor::new(table::table(), 0, true);
        Self { server, client: Client::default(), executor, transaction: None }
    }

    /// Runs the rest of `input`. An incomplete command or transaction at the end is cut off if `may_be_torn`, as with
    /// `aof-load-truncated yes`.
    ///
    /// # Errors
    /// The position and the error: bytes that are no command, a command that is unknown here or fails, or an
    /// incomplete end that is not allowed.
    pub(super) fn run(
        &mut self,
        input: &mut Input<'_>,
        path: &Path,
        may_be_torn: bool,
    ) -> Result<(), String> {
        let (mut buf, mut scanner, mut batch) = (Vec::new(), Scanner::default(), Batch::default());
        // Offset in the file of buf[0], and of what is complete.
        let mut base = input.offset();
        let mut complete = base;
        let limits = Limits { bulk_max_bytes: u64::from(u32::MAX), ..Limits::default() };
        while input.left() > 0 {
            let count = input.left().min(STEP_BYTES);
            buf.extend_from_slice(&input.take(count).map_err(|error| error.to_string())?);
            loop {
                batch.clear();
                let (used, error) = scanner.scan(&mut buf, &mut batch, limits);
                for request in &batch.requests {
                    let at = base + u64::from(request.start);
                    let args = Args::new(&buf, batch.args(request));
                    let bytes = &buf[request.start as usize..request.end as usize];
                    self.request(args, bytes).map_err(|text| format!("at byte {at}: {text}"))?;
                    if self.transaction.is_none() {
                        complete = base + u64::from(request.end);
                    }
                }
                base += used as u64;
                if let Some(error) = error {
                    return Err(format!("at byte {base}: {error}. {BAD_FORMAT}"));
                }
                buf.drain(..used);
                if used == 0 || buf.is_empty() {
                    break;
                }
            }
            if buf.len() > COMMAND_MAX_BYTES {
                return Err(format!("at byte {base}: a command of more than 1 GiB"));
            }
            self.server.loading.note_bytes(base);
        }
        let torn_bytes = input.offset() - complete;
        if torn_bytes == 0 {
            return Ok(());
        }
        if !may_be_torn {
            return Err(format!(
                "Unexpected end of file reading the append only file, at byte {complete}. You can: 1) Make a \
                 backup of your AOF file, then use redis-check-aof --fix on it. 2) Alternatively you can \
                 set the 'aof-load-truncated' configuration option to yes and restart the server."
            ));
        }
        self.transaction = None;
        log::warning(&format!(
            "{}: the last {torn_bytes} bytes are an unfinished command or transaction and are left \
             out",
            path.display()
        ));
        Ok(())
    }

    fn request(&mut self, args: Args<'_>, bytes: &[u8]) -> Result<(), String> {
        match bytes.first() {
            Some(b'*') => {}
            Some(b'#') if bytes.starts_with(RECORD_TAG) => {
                return Err(
                    "the record lies on another device (aof-route), which this server's own \
                            start puts together"
                        .into(),
                );
            }
            // A remark: #TS:... and the like.
            Some(b'#') => return Ok(()),
            _ => return Err(format!("not a command. {BAD_FORMAT}")),
        }
        let name = args.get(0);
        if table::table().find_own(name).is_none() {
            let name = name.escape_ascii();
            return Err(format!("Unknown command '{name}' reading the append only file"));
        }
        if name.eq_ignore_ascii_case(b"multi") {
            return match self.transaction.replace(Vec::new()) {
                Some(_) => Err("MULTI inside MULTI".into()),
                None => Ok(()),
            };
        }
        if name.eq_ignore_ascii_case(b"exec") {
            let commands = self.transaction.take().ok_or("EXEC without MULTI")?;
            self.wait_for_room()?;
            return self.executor.replay(self.server, &mut self.client, &commands);
        }
        if let Some(error) =
            table::table().lookup_own(args).ok().and_then(|spec| too_long_key(spec, args))
        {
            return Err(String::from_utf8_lossy(&error.bytes()).into_owned());
        }
        if let Some(commands) = &mut self.transaction {
            commands.extend_from_slice(bytes);
            return Ok(());
        }
        self.wait_for_room()?;
        self.executor.replay_request(self.server, &mut self.client, args)?;
        self.server.engine.kick_log();
        Ok(())
    }

    /// Waits as any writer would.
    fn wait_for_room(&mut self) -> Result<(), String> {
        self.executor.make_room(self.server, 1);
        while self.server.engine.must_wait() {
            std::thread::sleep(PACE);
        }
        if self.server.loading.is_aborted() {
            return Err("the load was called off".into());
        }
        self.server.engine.write_refusal().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::command_bytes;
    use sexton_engine::{Engine, ScanRange};

    fn server() -> Server {
        Server::new(Engine::in_memory(2).unwrap(), 2)
    }

    fn run(server: &Server, log: &[u8], may_be_torn: bool) -> Result<(), String> {
        Replay::new(server).run(&mut Input::new(log), Path::new("log"), may_be_torn)
    }

    fn keys(server: &Server, db: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let range = ScanRange { db, ..ScanRange::default() };
        let items = server.engine.scan(&range).unwrap();
        items.map(|item| item.map(|item| (item.key, item.value)).unwrap()).collect()
    }

    fn commands(all: &[&[&[u8]]]) -> Vec<u8> {
        all.iter().flat_map(|command| command_bytes(command)).collect()
    }

    #[test]
    fn commands_run_in_their_databases() {
        let server = server();
        let mut log = b"#TS:1700000000\r\n".to_vec();
        log.extend(commands(&[
            &[b"SET", b"a", b"1"],
            &[b"SELECT", b"1"],
            &[b"MULTI"],
            &[b"SET", b"b", b"2"],
            &[b"INCR", b"b"],
            &[b"EXEC"],
        ]));
        run(&server, &log, false).unwrap();
        assert_eq!(keys(&server, 0), [(b"a".to_vec(), b"1".to_vec())]);
        assert_eq!(keys(&server, 1), [(b"b".to_vec(), b"3".to_vec())]);
    }

    #[test]
    fn a_torn_end_is_cut_at_the_last_complete_transaction() {
        let log = commands(&[
            &[b"SET", b"a", b"1"],
            &[b"MULTI"],
            &[b"SET", b"b", b"2"],
            &[b"SET", b"c", b"3"],
            &[b"EXEC"],
        ]);
        let first = commands(&[&[b"SET", b"a", b"1"]]).len();
        for cut in first + 1..log.len() {
            let server = server();
            run(&server, &log[..cut], true).unwrap();
            assert_eq!(keys(&server, 0).len(), 1, "cut at {cut}");
            assert!(run(&server, &log[..cut], false).is_err());
        }
    }

    #[test]
    fn what_cannot_be_run_is_named_with_its_position() {
        let first = commands(&[&[b"SET", b"a", b"1"]]);
        let at = first.len();
        for (bad, reason) in [
            (
                commands(&[&[b"NOSUCH", b"x"]]),
                "Unknown command 'NOSUCH' reading the append only file",
            ),
            (b"SET b 1\r\n".to_vec(), "not a command"),
            (commands(&[&[b"EXEC"]]), "EXEC without MULTI"),
            (b"#SXL 00 0000000000001000\r\n".to_vec(), "lies on another device"),
            (b"*1\r\n:1\r\n".to_vec(), "expected '$'"),
        ] {
            let error = run(&server(), &[first.clone(), bad].concat(), true).unwrap_err();
            assert!(error.contains(&format!("at byte {at}: ")), "{error}");
            assert!(error.contains(reason), "{error}");
        }
    }
}
