//! Commands on several sorted sets: ZUNION, ZINTER, ZDIFF, and those that store or count the result. Plain sets are
//! accepted too: each of their members has the score 1.

use super::{head, pair};
use crate::commands::algebra;
use crate::dispatch::{CommandError, CommandResult, Ctx, Operands};
use crate::events::Event;
use crate::interop::c_numbers::parse_double;
use crate::keyspace::collection::{SortedSetEdit, order};
use crate::keyspace::operand::Members;
use crate::number::parse_i64;
use crate::value::ValueType;

/// What is made of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// What becomes of the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Answered,
    Stored,
    Counted,
}

/// How the scores of one member become one.
#[derive(Clone, Copy, Debug, Default)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

/// ZUNION numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM|MIN|MAX] [WITHSCORES].
pub(super) fn zunion(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, Operation::Union)
}

/// ZINTER numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM|MIN|MAX] [WITHSCORES].
pub(super) fn zinter(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, Operation::Intersection)
}

/// ZDIFF numkeys key [key ...] [WITHSCORES].
pub(super) fn zdiff(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    answer(ctx, Operation::Difference)
}

/// ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM|MIN|MAX].
pub(super) fn zunionstore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    put(ctx, Operation::Union, Event::sorted_set("zunionstore"))
}

/// ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight ...] [AGGREGATE SUM|MIN|MAX].
pub(super) fn zinterstore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    put(ctx, Operation::Intersection, Event::sorted_set("zinterstore"))
}

/// ZDIFFSTORE destination numkeys key [key ...].
pub(super) fn zdiffstore(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    put(ctx, Operation::Difference, Event::sorted_set("zdiffstore"))
}

/// ZINTERCARD numkeys key [key ...] [LIMIT limit].
pub(super) fn zintercard(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let request = Request::parse(ctx, Operation::Intersection, Outcome::Counted)?;
    let order = algebra::smallest_first(&request.operands);
    let count = algebra::intersection_len(request.operands, &order, request.limit)?;
    ctx.out.int(count as i64);
    Ok(())
}

fn answer(ctx: &mut Ctx<'_, '_>, operation: Operation) -> CommandResult {
    let request = Request::parse(ctx, operation, Outcome::Answered)?;
    let with_scores = request.with_scores;
    let outcome = request.outcome()?;
    let mut members: Vec<_> = outcome.iter().collect();
    members.sort_by(|one, other| order(*one, *other));
    head(members.len(), with_scores, ctx.out);
    members.into_iter().for_each(|member| pair(member, with_scores, ctx.out));
    Ok(())
}

fn put(ctx: &mut Ctx<'_, '_>, operation: Operation, event: Event) -> CommandResult {
    let set = ctx.made_of_keys(|ctx| {
        let request = Request::parse(ctx, operation, Outcome::Stored)?;
        let outcome = request.outcome()?;
        Ok(SortedSetEdit::of_distinct(outcome.iter().collect(), &ctx.thresholds()))
    })?;
    ctx.store(ctx.args.get(1), set, event)
}

/// A request, with its operands in the order of its keys.
struct Request<'c, 'a, 'e> {
    operation: Operation,
    operands: Operands<'c, 'a, 'e, 'a>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// At most so many members are counted.
    limit: usize,
}

impl<'c, 'a, 'e> Request<'c, 'a, 'e> {
    fn parse(
        ctx: &'c mut Ctx<'a, 'e>,
        operation: Operation,
        outcome: Outcome,
    ) -> Result<Self, CommandError> {
        let args = ctx.args;
        let first = if outcome == Outcome::Stored { 3 } else { 2 };
        let count = ctx.int_arg(first - 1)?;
        let count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or_else(|| {
            let name = ctx.spec.name;
            CommandError::from(format!("ERR at least 1 input key is needed for '{name}' command"))
        })?;
        if count > args.len() - first {
            return Err(CommandError::Syntax);
        }
        let keys = (first..first + count).map(|at| args.get(at));
        let operands = Operands::of(ctx, keys, &[ValueType::Set, ValueType::SortedSet])?;
        let mut request = Self {
            operation,
            operands,
            weights: vec![1.0; count],
            aggregate: Aggregate::default(),
            with_scores: false,
            limit: usize::MAX,
        };
        let has_weights = operation != Operation::Difference && outcome != Outcome::Counted;
        let mut at = first + count;
        while at < args.len() {
            let left = args.len() - at;
            match args.get(at).to_ascii_uppercase().as_slice() {
                b"WEIGHTS" if has_weights && left > count => {
                    let weights = (at + 1..=at + count).map(|at| parse_double(args.get(at)));
                    request.weights = weights
                        .collect::<Option<_>>()
                        .ok_or(CommandError::text("ERR weight value is not a float"))?;
                    at += count;
                }
                b"AGGREGATE" if has_weights && left > 1 => {
                    request.aggregate = match args.get(at + 1).to_ascii_uppercase().as_slice() {
                        b"SUM" => Aggregate::Sum,
                        b"MIN" => Aggregate::Min,
                        b"MAX" => Aggregate::Max,
                        _ => return Err(CommandError::Syntax),
                    };
                    at += 1;
                }
                b"WITHSCORES" if outcome == Outcome::Answered => request.with_scores = true,
                b"LIMIT" if outcome == Outcome::Counted && left > 1 => {
                    let limit = parse_i64(args.get(at + 1))
                        .and_then(|limit| usize::try_from(limit).ok())
                        .ok_or(CommandError::text("ERR LIMIT can't be negative"))?;
                    request.limit = if limit == 0 { usize::MAX } else { limit };
                    at += 1;
                }
                _ => return Err(CommandError::Syntax),
            }
            at += 1;
        }
        Ok(request)
    }

    /// The members of the result, each once, in no order.
    fn outcome(self) -> Result<Members, CommandError> {
        let Self { operation, operands, weights, aggregate, .. } = self;
        // The order in which Redis adds scores up: it can be seen in their last digits.
        let order = algebra::smallest_first(&operands);
        let first = order.first().copied();
        let weighted = |number: usize, score: f64| {
            let score = weights[number] * score;
            if score.is_nan() { 0.0 } else { score }
        };
        match operation {
            Operation::Union => algebra::union(operands, &order, weighted, |one, other| {
                aggregate.combined(one, other)
            }),
            Operation::Intersection => {
                algebra::intersection(operands, &order, |number, so_far, score| {
                    if Some(number) == first {
                        weighted(number, score)
                    } else {
                        aggregate.combined(so_far, score * weights[number])
                    }
                })
            }
            Operation::Difference => algebra::difference(operands),
        }
    }
}

impl Aggregate {
    /// Of two scores.
    fn combined(self, one: f64, other: f64) -> f64 {
        match self {
            // -inf and +inf cancel each other out.
            Self::Sum if (one + other).is_nan() => 0.0,
            Self::Sum => one + other,
            Self::Min => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Self::Max => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}
