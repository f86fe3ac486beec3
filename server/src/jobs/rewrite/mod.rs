//! BGREWRITEAOF (N4): nothing of the log is rewritten. A snapshot is written beside it as its base, so that
//! any Redis 7 can load base and log; the segments behind the base stay until they have grown too far.

mod growth;
mod run;

pub(crate) use growth::look_at_growth;
pub use run::{run_rewriter, with_base};
