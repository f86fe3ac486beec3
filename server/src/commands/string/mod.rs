//! String commands.
//!
//! Every command that changes a key performs exactly one engine operation per key it writes. Its log form,
//! executed on the same state, repeats these operations; where that is not obvious, the function explains it.

mod counter;
pub(super) mod expiry_options;
mod lcs;
mod range;
mod set;
mod several;

pub(super) use range::Bounds;

use crate::dispatch::Traits;
use crate::dispatch::table::Binding;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("get", range::get),
    Binding::keyed("set", set::set).blind_when(|args| args.len() == 3).with(Traits::STORES_STRINGS),
    Binding::keyed("setnx", set::setnx).with(Traits::STORES_STRINGS),
    Binding::blind("setex", set::setex).with(Traits::STORES_STRINGS),
    Binding::blind("psetex", set::psetex).with(Traits::STORES_STRINGS),
    Binding::keyed("getset", set::getset).with(Traits::STORES_STRINGS),
    Binding::keyed("getdel", set::getdel).with(Traits::DELETES),
    Binding::keyed("getex", set::getex),
    Binding::keyed("incr", counter::incr),
    Binding::keyed("decr", counter::decr),
    Binding::keyed("incrby", counter::incrby),
    Binding::keyed("decrby", counter::decrby),
    Binding::keyed("incrbyfloat", counter::incrbyfloat),
    Binding::keyed("lcs", lcs::lcs),
    Binding::keyed("append", range::append),
    Binding::keyed("strlen", range::strlen),
    Binding::keyed("getrange", range::getrange),
    Binding::keyed("substr", range::getrange),
    Binding::keyed("setrange", range::setrange),
    Binding::keyed("mget", several::mget),
    Binding::blind("mset", several::mset).with(Traits::STORES_STRINGS),
    Binding::keyed("msetnx", several::msetnx).with(Traits::STORES_STRINGS),
];
