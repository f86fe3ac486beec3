//! Commands on several sorted sets: ZUNION, ZINTER, ZDIFF, and those that store or count the result. Plain sets are
//! accepted too: each of their members has the score 1.

use super::{head, pair, store};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::interop::c_numbers::parse_double;
use crate::keyspace::Kind;
use crate::keyspace::collection::{Edit, SetEdit, Sets, SortedSetEdit, SortedSets, order};
use crate::number::parse_i64;
use crate::value::ValueType;
use sexton_engine::Entry;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

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
    let sources: Vec<Members<'_>> = request.sources.iter().map(Source::members).collect();
    let most = if request.limit == 0 { usize::MAX } else { request.limit };
    ctx.out.int(intersection(&sources, &request, most).len() as i64);
    Ok(())
}

fn answer(ctx: &mut Ctx<'_, '_>, operation: Operation) -> CommandResult {
    let request = Request::parse(ctx, operation, Outcome::Answered)?;
    let sources: Vec<Members<'_>> = request.sources.iter().map(Source::members).collect();
    let mut members = request.outcome(&sources);
    members.sort_by(|one, other| order(*one, *other));
    head(members.len(), request.with_scores, ctx.out);
    members.into_iter().for_each(|member| pair(member, request.with_scores, ctx.out));
    Ok(())
}

fn put(ctx: &mut Ctx<'_, '_>, operation: Operation, event: Event) -> CommandResult {
    let request = Request::parse(ctx, operation, Outcome::Stored)?;
    let sources: Vec<Members<'_>> = request.sources.iter().map(Source::members).collect();
    let set = SortedSetEdit::of_distinct(request.outcome(&sources), &ctx.thresholds());
    store(ctx, ctx.args.get(1), &set, event)
}

/// What a key holds: a copy.
enum Source {
    Nothing,
    Set(SetEdit),
    SortedSet(SortedSetEdit),
}

type Members<'s> = Vec<(f64, Cow<'s, [u8]>)>;

impl Source {
    /// `None` for a type that takes no part.
    fn of(entry: Option<Entry<'_>>) -> Option<Self> {
        let Some(entry) = entry else { return Some(Self::Nothing) };
        match SortedSets::view(entry) {
            Some(set) => Some(Self::SortedSet(set.edit())),
            None => Sets::view(entry).map(|set| Self::Set(set.edit())),
        }
    }

    fn members(&self) -> Members<'_> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Set(set) => set.view().iter().map(|member| (1.0, member)).collect(),
            Self::SortedSet(set) => {
                set.view().iter().map(|(score, member)| (score, Cow::Borrowed(member))).collect()
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Set(set) => set.len(),
            Self::SortedSet(set) => set.len(),
        }
    }
}

/// A request, with its sources in the order in which they are worked on.
struct Request {
    operation: Operation,
    sources: Vec<Source>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

impl Request {
    fn parse(
        ctx: &mut Ctx<'_, '_>,
        operation: Operation,
        outcome: Outcome,
    ) -> Result<Self, CommandError> {
        let (args, db) = (ctx.args, ctx.client.db);
        let first = if outcome == Outcome::Stored { 3 } else { 2 };
        let count = ctx.int_arg(first - 1)?;
        let count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or_else(|| {
            let name = ctx.spec.name;
            CommandError::from(format!("ERR at least 1 input key is needed for '{name}' command"))
        })?;
        if count > args.len() - first {
            return Err(CommandError::Syntax);
        }
        let mut sources = Vec::with_capacity(count);
        for at in first..first + count {
            let key = args.get(at);
            let wanted = [ValueType::Set, ValueType::SortedSet];
            let source =
                ctx.inspect_whole(Purpose::Read, (db, key), &wanted, |entry, _| Source::of(entry));
            sources.push(source.ok_or(CommandError::WrongType)?);
        }
        let mut request = Self {
            operation,
            sources,
            weights: vec![1.0; count],
            aggregate: Aggregate::default(),
            with_scores: false,
            limit: 0,
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
                    request.limit = parse_i64(args.get(at + 1))
                        .and_then(|limit| usize::try_from(limit).ok())
                        .ok_or(CommandError::text("ERR LIMIT can't be negative"))?;
                    at += 1;
                }
                _ => return Err(CommandError::Syntax),
            }
            at += 1;
        }
        if operation != Operation::Difference {
            request.smallest_first();
        }
        Ok(request)
    }

    /// The order in which Redis adds scores up: it can be seen in their last digits.
    fn smallest_first(&mut self) {
        let sources = std::mem::take(&mut self.sources);
        let mut weighted: Vec<_> = sources.into_iter().zip(self.weights.drain(..)).collect();
        weighted.sort_by_key(|(source, _)| source.len());
        (self.sources, self.weights) = weighted.into_iter().unzip();
    }

    /// The members of the result, each once, in no order.
    fn outcome<'s>(&self, sources: &'s [Members<'_>]) -> Vec<(f64, &'s [u8])> {
        match self.operation {
            Operation::Union => union(sources, self),
            Operation::Intersection => intersection(sources, self, usize::MAX),
            Operation::Difference => difference(sources),
        }
    }

    fn first_score(&self, source: usize, score: f64) -> f64 {
        let score = self.weights[source] * score;
        if score.is_nan() { 0.0 } else { score }
    }

    fn combined(&self, one: f64, other: f64) -> f64 {
        match self.aggregate {
            // -inf and +inf cancel each other out.
            Aggregate::Sum if (one + other).is_nan() => 0.0,
            Aggregate::Sum => one + other,
            Aggregate::Min => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Aggregate::Max => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}

fn union<'s>(sources: &'s [Members<'_>], request: &Request) -> Vec<(f64, &'s [u8])> {
    let mut scores: HashMap<&[u8], f64> = HashMap::new();
    for (number, source) in sources.iter().enumerate() {
        for (score, member) in source {
            let score = request.first_score(number, *score);
            scores
                .entry(member)
                .and_modify(|old| *old = request.combined(*old, score))
                .or_insert(score);
        }
    }
    scores.into_iter().map(|(member, score)| (score, member)).collect()
}

/// Up to `most` members that are in all sources.
fn intersection<'s>(
    sources: &'s [Members<'_>],
    request: &Request,
    most: usize,
) -> Vec<(f64, &'s [u8])> {
    let Some((smallest, others)) = sources.split_first().filter(|(first, _)| !first.is_empty())
    else {
        return Vec::new();
    };
    let others: Vec<HashMap<&[u8], f64>> = others
        .iter()
        .map(|source| source.iter().map(|(score, member)| (member.as_ref(), *score)).collect())
        .collect();
    let score_of = |score: f64, member: &[u8]| {
        others.iter().enumerate().try_fold(request.first_score(0, score), |sum, (number, other)| {
            let score = other.get(member)? * request.weights[number + 1];
            Some(request.combined(sum, score))
        })
    };
    smallest
        .iter()
        .filter_map(|(score, member)| Some((score_of(*score, member)?, member.as_ref())))
        .take(most)
        .collect()
}

fn difference<'s>(sources: &'s [Members<'_>]) -> Vec<(f64, &'s [u8])> {
    let Some((first, others)) = sources.split_first() else { return Vec::new() };
    let others: HashSet<&[u8]> =
        others.iter().flatten().map(|(_, member)| member.as_ref()).collect();
    let stays = |member: &&(f64, Cow<'_, [u8]>)| !others.contains(member.1.as_ref());
    first.iter().filter(stays).map(|(score, member)| (*score, member.as_ref())).collect()
}
