//! SYNC, PSYNC, REPLCONF: a full copy of the data for a client that speaks the replica protocol.
//!
//! No stream of changes follows the copy. A replica that has received its copy is disconnected and asks to continue from
//! its offset. The server refuses: the replica keeps its data, its link is down, and the data is not sent again and again.

use crate::dispatch::{Binding, CommandError, CommandResult, Ctx, Traits, snapshot_error};
use crate::log;
use crate::state::copies::Order;
use sexton_config::syntax::split_words;
use sexton_engine::SnapshotOptions;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::local("sync", sync).with(Traits::NOT_IN_SNAPSHOT),
    Binding::local("psync", psync).with(Traits::NOT_IN_SNAPSHOT),
    Binding::local("replconf", replconf),
];

/// Room for the address of a replica (`NET_HOST_STR_LEN`).
const ADDRESS_BYTES: usize = 256;

const TOO_MANY: CommandError =
    CommandError::text("NOMASTERLINK too many full copies are being sent; try again later");

/// The error for a replica that has had its copy. redis-server treats an error with this code as temporary, keeps its
/// data, and retries.
const NO_STREAM: CommandError = CommandError::text(
    "NOMASTERLINK this server sends full copies, but no stream of changes: your data is as of the copy. REPLICAOF NO ONE \
     makes you a server of your own; REPLICAOF again after that fetches another copy",
);

/// SYNC: the copy alone.
fn sync(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    begin(ctx, Vec::new())
}

/// `PSYNC replicationid offset`: sends a line with our replication ID, then the copy. A client that presents this ID
/// has already had its copy.
fn psync(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.client.session.takes_copy.load(Ordering::Relaxed) {
        return Ok(());
    }
    ctx.int_arg(2)?;
    let id = ctx.server.replication_id();
    if ctx.args.get(1).eq_ignore_ascii_case(id.as_bytes()) {
        log::verbose(|| format!("Replica {} has had its copy", ctx.client.session.addr));
        return Err(NO_STREAM);
    }
    begin(ctx, format!("+FULLRESYNC {id} 0\r\n").into_bytes())
}

fn begin(ctx: &mut Ctx<'_, '_>, greeting: Vec<u8>) -> CommandResult {
    let session = &ctx.client.session;
    if session.takes_copy.load(Ordering::Relaxed) {
        // As in Redis it has one already.
        return Ok(());
    }
    let has_other_output = session.is_subscriber()
        || session.tracking.is_on()
        || session.monitor.load(Ordering::Relaxed)
        || !ctx.out.is_empty()
        || session.output_bytes.load(Ordering::Relaxed) != 0;
    if has_other_output {
        return Err(CommandError::text("ERR SYNC and PSYNC are invalid with pending output"));
    }
    let named = SnapshotOptions { name: format!("copy-{}", ctx.client.id), timeout_ms: 0 };
    let snapshot = ctx.server.engine.snapshot(named).map_err(snapshot_error)?;
    let wishes = &ctx.client.copy_wishes;
    let order = Order {
        session: Arc::clone(session),
        snapshot,
        leaves_out_keys: wishes.functions_only || wishes.nothing,
        leaves_out_functions: wishes.nothing,
        ends_with_mark: wishes.knows_mark,
        greeting,
    };
    if !ctx.server.copies.begin(order) {
        return Err(TOO_MANY);
    }
    session.takes_copy.store(true, Ordering::Relaxed);
    // Nothing may come between the bytes of the copy.
    ctx.client.reply_mode.turn_off();
    Ok(())
}

/// REPLCONF option value ...: properties that a replica announces, of which only `capa eof` and `rdb-filter-only` matter here.
fn replconf(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    if args.len().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    for at in (1..args.len()).step_by(2) {
        let value = args.get(at + 1);
        match args.get(at).to_ascii_lowercase().as_slice() {
            b"listening-port" => {
                ctx.int_arg(at + 1)?;
            }
            b"ip-address" if value.len() >= ADDRESS_BYTES => {
                let text = format!(
                    "ERR REPLCONF ip-address provided by replica instance is too long: {} bytes",
                    value.len()
                );
                return Err(text.into());
            }
            b"ip-address" => {}
            b"capa" => ctx.client.copy_wishes.knows_mark |= value.eq_ignore_ascii_case(b"eof"),
            // Of a replica at work: it wants no answer.
            b"ack" | b"getack" => return Ok(()),
            b"rdb-only" => {
                ctx.int_arg(at + 1)?;
            }
            b"rdb-filter-only" => {
                let words = split_words(value)
                    .map_err(|_| CommandError::text("ERR Missing rdb-filter-only values"))?;
                let wishes = &mut ctx.client.copy_wishes;
                (wishes.nothing, wishes.functions_only) = (true, false);
                for word in words {
                    if !word.eq_ignore_ascii_case(b"functions") {
                        return Err(CommandError::quoting(
                            "ERR Unsupported rdb-filter-only option: ",
                            &word,
                            "",
                        ));
                    }
                    (wishes.nothing, wishes.functions_only) = (false, true);
                }
            }
            _ => {
                return Err(CommandError::quoting(
                    "ERR Unrecognized REPLCONF option: ",
                    args.get(at),
                    "",
                ));
            }
        }
    }
    ctx.out.ok();
    Ok(())
}
