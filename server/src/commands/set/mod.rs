//! Set commands.
//!
//! Every command performs at most one engine operation per key. Its log form, executed on the same state, repeats these
//! operations.

mod algebra;
mod change;
mod random;
mod read;

use crate::dispatch::table::{Binding, Elements};

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("sadd", change::sadd).looks_up(Elements::ALL),
    Binding::keyed("srem", change::srem).looks_up(Elements::ALL),
    Binding::keyed("smove", change::smove),
    Binding::keyed("spop", random::spop),
    Binding::keyed("srandmember", random::srandmember),
    Binding::keyed("sismember", read::sismember).looks_up(Elements::ONE),
    Binding::keyed("smismember", read::smismember).looks_up(Elements::ALL),
    Binding::keyed("scard", read::scard),
    Binding::keyed("smembers", read::smembers),
    Binding::keyed("sscan", read::sscan),
    Binding::keyed("sinter", algebra::sinter),
    Binding::keyed("sinterstore", algebra::sinterstore),
    Binding::keyed("sintercard", algebra::sintercard),
    Binding::keyed("sunion", algebra::sunion),
    Binding::keyed("sunionstore", algebra::sunionstore),
    Binding::keyed("sdiff", algebra::sdiff),
    Binding::keyed("sdiffstore", algebra::sdiffstore),
];
