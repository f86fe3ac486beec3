//! Running logged commands again.

use super::Args;
use super::REPLAY_MS;
use super::client::Client;
use super::replay_buf::{KEEP_BYTES, ReplayBuf};
use super::{Executor, Outcome};
use crate::keyspace::{Pins, load_blocking};
use crate::resp::{Batch, Limits, Scanner};
use crate::server::Server;

impl Executor {
    /// Replays the commands of one log group (N1) and returns the number of operations they
    /// performed. Nothing expires, nothing is checked or logged; cold keys are loaded synchronously.
    ///
    /// # Errors
    /// A text that names the damaged or failed command: the start must be refused.
    pub fn replay(
        &mut self,
        server: &Server,
        client: &mut Client,
        group: &[u8],
    ) -> Result<(), String> {
        self.replaying = true;
        self.may_block = true;
        let mut buf = std::mem::take(&mut self.replay);
        buf.group.extend_from_slice(group);
        let result = self.replay_group(server, client, &mut buf.group, &mut buf.batch);
        // A command of the group has put its reply there.
        let reply = std::mem::take(&mut self.replay.reply);
        self.replay = ReplayBuf { reply, ..buf.emptied() };
        result
    }

    fn replay_group(
        &mut self,
        server: &Server,
        client: &mut Client,
        mut rest: &mut [u8],
        batch: &mut Batch,
    ) -> Result<(), String> {
        loop {
            batch.clear();
            let limits =
                Limits { bulk_max_bytes: sexton_engine::VALUE_MAX_BYTES, ..Limits::default() };
            let (used, error) = Scanner::default().scan(rest, batch, limits);
            if let Some(error) = error {
                return Err(error.to_string());
            }
            for request in &batch.requests {
                let args = Args::new(rest, batch.args(request));
                let name = args.get(0);
                if !name.eq_ignore_ascii_case(b"multi") && !name.eq_ignore_ascii_case(b"exec") {
                    self.replay_request(server, client, args)?;
                }
            }
            rest = &mut rest[used..];
            if rest.is_empty() {
                return Ok(());
            }
            if batch.requests.is_empty() {
                return Err("a group ends inside a command".to_owned());
            }
        }
    }

    /// Replays one logged command, as [`Executor::replay`] does.
    ///
    /// # Errors
    /// A text that names the command and its error.
    pub fn replay_request(
        &mut self,
        server: &Server,
        client: &mut Client,
        args: Args<'_>,
    ) -> Result<(), String> {
        self.replaying = true;
        self.may_block = true;
        let mut out = std::mem::take(&mut self.replay.reply);
        out.truncate(0);
        // What one round has loaded must still be there when the next one has.
        let mut pins = Pins::default();
        while let Outcome::Cold(keys) = self.execute(server, client, args, &mut out, REPLAY_MS) {
            client.let_go(&mut pins);
            let pin = load_blocking(server, keys, u64::MAX);
            pins.push(pin.map_err(|error| error.to_string())?);
        }
        if let Some(text) = out.bytes().strip_prefix(b"-") {
            let name = String::from_utf8_lossy(args.get(0)).to_ascii_lowercase();
            let text = String::from_utf8_lossy(text).trim_end().to_owned();
            return Err(format!("logged command '{name}' answered: {text}"));
        }
        if out.len() <= KEEP_BYTES {
            self.replay.reply = out;
        }
        Ok(())
    }
}
