//! BGREWRITEAOF (N4): the log itself is not rewritten. A snapshot is written beside it as its base, so that any Redis 7
//! can load base and log. The segments after the base are kept until they have grown too large.

mod growth;
mod run;

pub(crate) use growth::look_at_growth;
pub use run::{run_rewriter, with_base};
