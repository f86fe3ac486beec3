//! Sorted set commands.
//!
//! Every command performs at most one engine operation per key. Its log form, executed on the same state, repeats these
//! operations.

mod algebra;
mod bounds;
pub(super) mod change;
mod pop;
mod random;
mod range;
pub(super) mod read;

use crate::dispatch::table::{Binding, Elements};
use crate::keyspace::collection::score_text;
use crate::resp::Reply;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::keyed("zadd", change::zadd).looks_up(Elements::BEHIND_SCORES),
    Binding::keyed("zincrby", change::zincrby).looks_up(Elements::BEHIND_SCORES),
    Binding::keyed("zrem", change::zrem).looks_up(Elements::ALL),
    Binding::keyed("zremrangebyrank", change::zremrangebyrank),
    Binding::keyed("zremrangebyscore", change::zremrangebyscore),
    Binding::keyed("zremrangebylex", change::zremrangebylex),
    Binding::keyed("zcard", read::zcard),
    Binding::keyed("zscore", read::zscore).looks_up(Elements::ONE),
    Binding::keyed("zmscore", read::zmscore).looks_up(Elements::ALL),
    Binding::keyed("zrank", read::zrank).looks_up(Elements::ONE),
    Binding::keyed("zrevrank", read::zrevrank).looks_up(Elements::ONE),
    Binding::keyed("zcount", read::zcount),
    Binding::keyed("zlexcount", read::zlexcount),
    Binding::keyed("zscan", read::zscan),
    Binding::keyed("zrange", range::zrange),
    Binding::keyed("zrangestore", range::zrangestore),
    Binding::keyed("zrevrange", range::zrevrange),
    Binding::keyed("zrangebyscore", range::zrangebyscore),
    Binding::keyed("zrevrangebyscore", range::zrevrangebyscore),
    Binding::keyed("zrangebylex", range::zrangebylex),
    Binding::keyed("zrevrangebylex", range::zrevrangebylex),
    Binding::keyed("zrandmember", random::zrandmember),
    Binding::keyed("zpopmin", pop::zpopmin),
    Binding::keyed("zpopmax", pop::zpopmax),
    Binding::keyed("zunion", algebra::zunion),
    Binding::keyed("zunionstore", algebra::zunionstore),
    Binding::keyed("zinter", algebra::zinter),
    Binding::keyed("zinterstore", algebra::zinterstore),
    Binding::keyed("zintercard", algebra::zintercard),
    Binding::keyed("zdiff", algebra::zdiff),
    Binding::keyed("zdiffstore", algebra::zdiffstore),
];

/// Head of an array of members: with scores, they are pairs under RESP3.
fn head(members: usize, with_scores: bool, out: &mut Reply) {
    let is_flat = with_scores && !out.is_resp3();
    out.array(if is_flat { members.saturating_mul(2) } else { members });
}

/// A member of such an array.
fn pair((score, member): (f64, &[u8]), with_scores: bool, out: &mut Reply) {
    if with_scores && out.is_resp3() {
        out.array(2);
    }
    out.bulk(member);
    if with_scores {
        out.double(&score_text(score));
    }
}

/// The score as Redis stores it in a small sorted set, visible in ZSCAN: an integer with all of its digits.
fn listpack_score_text(score: f64) -> String {
    let half = i64::MAX as f64 / 2.0;
    if score.fract() == 0.0 && (-half..=half).contains(&score) {
        return (score as i64).to_string();
    }
    score_text(score)
}
