//! Execution of requests. Each request passes through these steps, one file each:
//!
//! 1. `gate`: decides what needs no keys: the request is refused, queued, postponed, or continues;
//! 2. `latch`: takes the latches it needs;
//! 3. `load`: loads its cold keys;
//! 4. `call`: runs the handler inside a given transaction;
//! 5. `commit`: assigns the transaction its position in the order of writes;
//! 6. `after`: updates statistics, slow log and monitors.
//!
//! `exec` takes a whole MULTI through these steps. While a client meets no obstacle, `short` performs the checks of steps
//! 1 and 6 once per batch, and `fast` skips more of them for a plain GET or SET, and for what MULTI queues.
//!
//! Nothing here blocks. A request that cannot run now (a cold key, a full log buffer, CLIENT PAUSE, a command that walks
//! the key space) is returned unchanged. The caller runs it again once the reason no longer applies.

mod access;
pub(crate) mod after;
mod ahead;
#[cfg(test)]
mod ahead_tests;
#[cfg(test)]
mod algebra_tests;
pub(crate) mod call;
mod class;
pub mod client;
mod commit;
mod context;
mod databases;
#[cfg(test)]
mod edited_tests;
mod entry;
mod error;
mod exec;
mod executor;
mod fast;
mod fast_counts;
mod gate;
mod guard;
#[cfg(test)]
mod hash_field_tests;
mod heavy;
mod kept_removal;
mod kept_search;
mod latch;
mod left_out;
pub(crate) mod load;
#[cfg(test)]
mod log_form_tests;
mod log_wait;
mod long_reply;
#[cfg(test)]
mod long_reply_tests;
mod look_ahead;
#[cfg(test)]
mod look_ahead_tests;
mod obstacles;
mod operands;
mod paged;
#[cfg(test)]
mod paged_geo_tests;
#[cfg(test)]
mod paged_sort_tests;
#[cfg(test)]
mod paged_stream_tests;
#[cfg(test)]
mod paged_string_tests;
#[cfg(test)]
mod paged_tests;
mod past;
mod pieces;
#[cfg(test)]
mod refusal_tests;
mod removal;
#[cfg(test)]
mod removal_tests;
mod replay;
mod replay_buf;
#[cfg(test)]
mod reply_tests;
pub(crate) mod rights;
#[cfg(test)]
mod rights_tests;
mod script;
mod search;
#[cfg(test)]
mod search_tests;
mod short;
mod snapshot_session;
#[cfg(test)]
mod snapshot_tests;
mod strings;
pub mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod together_tests;
mod unchanged;
#[cfg(test)]
mod work_tests;

pub use crate::resp::Args;
pub use access::Purpose;
pub(crate) use access::reply_string;
pub use ahead::ToStore;
pub use class::{Class, KeyRange};
pub use context::Ctx;
pub(crate) use context::REPLAY_MS;
pub(crate) use databases::{flush_mode_is_known, selected_db, swapped_dbs};
pub(crate) use entry::bring_in;
pub use error::{CommandError, CommandResult, OUT_OF_MEMORY};
pub use executor::{Executor, Outcome};
pub use fast::Way;
pub(crate) use gate::SAVE_FAILED;
pub use gate::too_long_key;
pub(crate) use gate::{Early, busy, check_early, is_busy};
pub(crate) use guard::error_of;
pub use kept_removal::RemovedBefore;
pub(crate) use latch::each_key;
#[cfg(test)]
pub(crate) use left_out::{Step, leaving_out};
pub use log_wait::LogWait;
pub(crate) use long_reply::{LongReply, PIECE_BYTES};
pub use operands::Operands;
pub use past::{Past, PastRecord};
pub use snapshot_session::SnapshotSession;
pub(crate) use snapshot_session::snapshot_error;
pub use strings::EditedAs;
pub use table::{
    Binding, CommandSpec, Flags, Handler, OnChannels, OnDatabases, Table, Tally, Traits,
};

use crate::resp::write_command;

/// Writes a request in RESP form for the log, if it did not arrive in this form.
pub fn logged_form(out: &mut Vec<u8>, args: Args<'_>) {
    out.clear();
    write_command(out, args.from(0));
}
