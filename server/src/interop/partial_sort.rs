//! How Redis sorts where a part may be asked for: all of it by C's `qsort`, which leaves equal items as they were, and a part by its `pqsort`, a
//! quicksort that is done as soon as the wanted places hold what belongs there. Which of several equal items come to them is a matter of its swaps.

use std::cmp::Ordering;
use std::ops::Range;

/// Fewer items are sorted by insertion.
const FEW: usize = 7;

/// The pivot of more items is the median of three medians.
const MANY: usize = 40;

/// So many comparisons for each item and binary digit of their number are more than any order takes that was not made to take long.
const PATIENCE: usize = 16;

/// Sorts as far as the places `wanted` need it. All are sorted stably; and so is an order that was made to take long.
pub fn sort_part<T>(items: &mut [T], wanted: &Range<usize>, compare: impl Fn(&T, &T) -> Ordering) {
    if *wanted == (0..items.len()) {
        return items.sort_by(compare);
    }
    let digits = (usize::BITS - items.len().leading_zeros()) as usize;
    let mut left = items.len().saturating_mul(digits).saturating_mul(PATIENCE);
    let mut parts: Vec<Range<usize>> = std::iter::once(0..items.len()).collect();
    while let Some(part) = parts.pop() {
        let own = &mut items[part.clone()];
        if own.len() < FEW {
            insert_each(own, &compare);
            continue;
        }
        // Each pass compares each item once or twice.
        let Some(rest) = left.checked_sub(own.len()) else { return items.sort_by(compare) };
        left = rest;
        let [lower, higher] = partition(own, &compare);
        let within = |range: Range<usize>| part.start + range.start..part.start + range.end;
        let is_wanted = |part: &Range<usize>| {
            part.len() > 1 && wanted.start < part.end && part.start < wanted.end
        };
        parts.extend([within(higher), within(lower)].into_iter().filter(is_wanted));
    }
}

fn insert_each<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && compare(&items[at - 1], &items[at]).is_gt() {
            items.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// Puts what is less than a pivot to the front and what is greater to the back; answers where these are.
fn partition<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) -> [Range<usize>; 2] {
    let len = items.len();
    let median = |a: usize, b: usize, c: usize| {
        let less = |one: usize, other: usize| compare(&items[one], &items[other]).is_lt();
        if less(a, b) {
            if less(b, c) {
                b
            } else if less(a, c) {
                c
            } else {
                a
            }
        } else if compare(&items[b], &items[c]).is_gt() {
            b
        } else if less(a, c) {
            a
        } else {
            c
        }
    };
    let mut pivot = len / 2;
    if len > FEW {
        let (mut first, mut last) = (0, len - 1);
        if len > MANY {
            let step = len / 8;
            first = median(0, step, 2 * step);
            pivot = median(pivot - step, pivot, pivot + step);
            last = median(last - 2 * step, last - step, last);
        }
        pivot = median(first, pivot, last);
    }
    items.swap(0, pivot);
    // What equals the pivot is gathered at both ends: before `equal`, and from `behind` on.
    let (mut equal, mut low, mut high, mut behind) = (1, 1, len, len);
    loop {
        while low < high {
            match compare(&items[low], &items[0]) {
                Ordering::Greater => break,
                Ordering::Equal => {
                    items.swap(equal, low);
                    equal += 1;
                }
                Ordering::Less => {}
            }
            low += 1;
        }
        while low < high {
            match compare(&items[high - 1], &items[0]) {
                Ordering::Less => break,
                Ordering::Equal => {
                    items.swap(high - 1, behind - 1);
                    behind -= 1;
                }
                Ordering::Greater => {}
            }
            high -= 1;
        }
        if low >= high {
            break;
        }
        items.swap(low, high - 1);
        low += 1;
        high -= 1;
    }
    let (lower, higher) = items.split_at_mut(low);
    swap_ends(lower, equal.min(low - equal));
    swap_ends(higher, (behind - high).min(len - behind));
    [0..low - equal, len - (behind - high)..len]
}

/// The first so many items, of no more than half, change places with the last.
fn swap_ends<T>(items: &mut [T], count: usize) {
    let (front, back) = items.split_at_mut(items.len() - count);
    front[..count].swap_with_slice(back);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn equal_items_come_as_in_redis() {
        // GEOSEARCH of nine members in one place with COUNT 2 answers the last one and the first.
        let mut items: Vec<usize> = (0..9).collect();
        sort_part(&mut items, &(0..2), |_, _| Ordering::Equal);
        assert_eq!(items[..4], [8, 1, 2, 3]);
    }

    #[test]
    fn what_is_wanted_is_in_its_place() {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for round in 0..2000 {
            let (len, values) = (random(300), 1 + random(60));
            let before: Vec<(usize, usize)> = (0..len).map(|at| (random(values), at)).collect();
            let start = random(len + 1);
            let wanted = start..start + random(len + 1 - start);
            let (mut items, mut sorted) = (before.clone(), before.clone());
            sort_part(&mut items, &wanted, |one, other| one.0.cmp(&other.0));
            sorted.sort_unstable();
            let keys =
                |items: &[(usize, usize)]| items.iter().map(|item| item.0).collect::<Vec<_>>();
            let range = wanted.clone();
            assert_eq!(
                keys(&items[range.clone()]),
                keys(&sorted[range]),
                "round {round}: {wanted:?}"
            );
            items.sort_unstable();
            assert_eq!(items, sorted, "round {round}: all are there");
        }
    }

    /// An order that is made up during the sort such that each pivot is among the least (McIlroy, "A Killer Adversary for Quicksort").
    #[test]
    fn an_order_that_is_made_to_take_long_does_not() {
        struct Adversary {
            values: Vec<usize>,
            solid: usize,
            candidate: usize,
            compared: usize,
        }
        const LEN: usize = 20_000;
        let adversary = Adversary { values: vec![LEN; LEN], solid: 0, candidate: 0, compared: 0 };
        let adversary = RefCell::new(adversary);
        let mut items: Vec<usize> = (0..LEN).collect();
        sort_part(&mut items, &(0..LEN - 1), |&one, &other| {
            let own = &mut *adversary.borrow_mut();
            own.compared += 1;
            if own.values[one] == LEN && own.values[other] == LEN {
                let frozen = if one == own.candidate { one } else { other };
                own.values[frozen] = own.solid;
                own.solid += 1;
            }
            if own.values[one] == LEN {
                own.candidate = one;
            } else if own.values[other] == LEN {
                own.candidate = other;
            }
            own.values[one].cmp(&own.values[other])
        });
        let own = adversary.into_inner();
        assert!(items.is_sorted_by_key(|item| own.values[*item]));
        assert!(own.compared < 500 * LEN, "{} comparisons of {LEN} items", own.compared);
    }
}
