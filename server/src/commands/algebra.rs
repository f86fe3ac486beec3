//! Intersection, union and difference of sets and sorted sets, for SINTER and ZINTER and all of their kind.

use crate::dispatch::{CommandError, Operands};
use crate::keyspace::operand::{Index, Members};

/// Where all other operands of a difference have so few members together, these are collected, and the first is gone through once.
const COLLECTED_MAX: usize = 4096;

/// The numbers of the operands, the smallest one first.
pub(super) fn smallest_first(operands: &Operands<'_, '_, '_, '_>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..operands.count()).collect();
    order.sort_by_key(|&number| operands.len(number));
    order
}

/// The members that are in all operands, in the order of the first of `order`. The score of each is what `combined` makes, in this order, of
/// the score so far (0 at the first), and its score in the operand with a number.
pub(super) fn intersection(
    operands: Operands<'_, '_, '_, '_>,
    order: &[usize],
    combined: impl Fn(usize, f64, f64) -> f64,
) -> Result<Members, CommandError> {
    let mut outcome = Members::default();
    each_common(operands, order, combined, |operands, part, left, scores| {
        left.iter().for_each(|&number| outcome.push(scores[number], part.name(number)));
        operands.check_size(&outcome)?;
        Ok(true)
    })?;
    Ok(outcome)
}

/// The number of members that are in all operands, or `limit`.
pub(super) fn intersection_len(
    operands: Operands<'_, '_, '_, '_>,
    order: &[usize],
    limit: usize,
) -> Result<usize, CommandError> {
    let mut count = 0;
    each_common(
        operands,
        order,
        |_, _, score| score,
        |_, _, left, _| {
            count += left.len();
            Ok(count < limit)
        },
    )?;
    Ok(count.min(limit))
}

/// Shows the members that are in all operands, part by part, until that fails or answers false: a part of the first operand of `order`,
/// the numbers of those in it, and the scores of all in it.
fn each_common(
    mut operands: Operands<'_, '_, '_, '_>,
    order: &[usize],
    combined: impl Fn(usize, f64, f64) -> f64,
    mut show: impl FnMut(
        &Operands<'_, '_, '_, '_>,
        &Members,
        &[usize],
        &[f64],
    ) -> Result<bool, CommandError>,
) -> Result<(), CommandError> {
    if order.iter().any(|&number| operands.len(number) == 0) {
        return Ok(());
    }
    let Some((&smallest, others)) = order.split_first() else { return Ok(()) };
    operands.each_part(smallest, |operands, part| {
        let mut left: Vec<usize> = (0..part.len()).collect();
        let mut scores: Vec<f64> =
            part.iter().map(|(score, _)| combined(smallest, 0.0, score)).collect();
        for &other in others {
            let mut found = operands.scores(other, part, &left)?.into_iter();
            left.retain(|&number| {
                let Some(score) = found.next().flatten() else { return false };
                scores[number] = combined(other, scores[number], score);
                true
            });
        }
        show(operands, part, &left, &scores)
    })
}

/// All members of the operands, each once, in the order in which they are met. The score of each is what `first` makes of that in the
/// first operand that has it, and `combined` of that and its score in each other one.
pub(super) fn union(
    mut operands: Operands<'_, '_, '_, '_>,
    order: &[usize],
    first: impl Fn(usize, f64) -> f64,
    combined: impl Fn(f64, f64) -> f64,
) -> Result<Members, CommandError> {
    let (mut outcome, mut index) = (Members::default(), Index::default());
    for &operand in order {
        operands.each_part(operand, |operands, part| {
            for (score, member) in part.iter() {
                let score = first(operand, score);
                if let Some(number) = index.find_or_push(&mut outcome, (score, member)) {
                    let before = outcome.get(number).0;
                    outcome.set_score(number, combined(before, score));
                }
            }
            operands.check_size(&outcome)?;
            Ok(true)
        })?;
    }
    Ok(outcome)
}

/// The members of the first operand that are in no other one, in its order, with their scores.
pub(super) fn difference(mut operands: Operands<'_, '_, '_, '_>) -> Result<Members, CommandError> {
    let mut outcome = Members::default();
    let mut others = 1..operands.count();
    if operands.count() == 0 || operands.len(0) == 0 {
        return Ok(outcome);
    }
    let in_others: usize = others.clone().map(|number| operands.len(number)).sum();
    let (mut removed, mut index) = (Members::default(), Index::default());
    if in_others <= COLLECTED_MAX {
        for number in std::mem::take(&mut others) {
            operands.each_part(number, |_, part| {
                for scored in part.iter() {
                    index.find_or_push(&mut removed, scored);
                }
                Ok(true)
            })?;
        }
    }
    operands.each_part(0, |operands, part| {
        let mut left: Vec<usize> = (0..part.len()).collect();
        left.retain(|&number| index.find(&removed, part.name(number)).is_none());
        for other in others.clone() {
            let mut found = operands.scores(other, part, &left)?.into_iter();
            left.retain(|_| found.next().flatten().is_none());
        }
        left.iter().for_each(|&number| {
            let (score, member) = part.get(number);
            outcome.push(score, member);
        });
        operands.check_size(&outcome)?;
        Ok(true)
    })?;
    Ok(outcome)
}
