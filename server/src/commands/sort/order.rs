//! The order of elements: by numbers or texts, either their own or those that a pattern names.

use super::options::Options;
use super::pattern::{Pattern, before_nul, look_up_all};
use crate::dispatch::{CommandError, Ctx};
use crate::interop::c_numbers::parse_prefix;
use crate::interop::partial_sort::sort_part;
use crate::keyspace::texts::Texts;
use std::cmp::Ordering;

const NO_NUMBER: CommandError =
    CommandError::text("ERR One or more scores can't be converted into double");

/// The numbers of the elements, those that are asked for in their order and place. Equal texts stay as they were, unless a part of what a
/// pattern orders is asked for.
pub(super) fn sorted(
    ctx: &mut Ctx<'_, '_>,
    options: &Options<'_>,
    elements: &Texts,
) -> Result<Vec<usize>, CommandError> {
    // As in Redis, what is stored is ordered byte by byte, and what is sent as C strings.
    let compare = if options.store.is_some() { compare_bytes } else { compare_c_strings };
    let mut order: Vec<usize> = (0..elements.len()).collect();
    let all = 0..order.len();
    let wanted = if options.by.is_some() { options.window(order.len()) } else { all };
    let mut sort = |ascending: &dyn Fn(usize, usize) -> Ordering| {
        sort_part(&mut order, &wanted, |&one, &other| {
            let order = ascending(one, other);
            if options.descending { order.reverse() } else { order }
        });
    };
    match (&options.by, options.by_text) {
        (None, true) => sort(&|one, other| compare(elements.get(one), elements.get(other))),
        (Some(pattern), true) => {
            let (texts, places) = weights_as_texts(ctx, pattern, elements)?;
            let weight = |number: usize| places[number].map(|place| texts.get(place));
            sort(&|one, other| match (weight(one), weight(other)) {
                (Some(one), Some(other)) => compare(one, other),
                (one, other) => one.is_some().cmp(&other.is_some()),
            });
        }
        (by, false) => {
            let weights = weights_as_numbers(ctx, by.as_ref(), elements)?;
            sort(&|one, other| {
                weights[one]
                    .partial_cmp(&weights[other])
                    .unwrap_or(Ordering::Equal)
                    .then_with(|| elements.get(one).cmp(elements.get(other)))
            });
        }
    }
    Ok(order)
}

fn compare_bytes(one: &[u8], other: &[u8]) -> Ordering {
    one.cmp(other)
}

fn compare_c_strings(one: &[u8], other: &[u8]) -> Ordering {
    before_nul(one).cmp(before_nul(other))
}

/// The texts that exist, and for each element which of them is its.
fn weights_as_texts(
    ctx: &mut Ctx<'_, '_>,
    pattern: &Pattern<'_>,
    elements: &Texts,
) -> Result<(Texts, Vec<Option<usize>>), CommandError> {
    let (mut texts, mut places) = (Texts::default(), Vec::with_capacity(elements.len()));
    let numbers = 0..elements.len();
    look_up_all(ctx, std::slice::from_ref(pattern), (elements, numbers), |weight, _| {
        places.push(weight.map(|weight| {
            texts.push(weight);
            texts.len() - 1
        }));
    })?;
    Ok((texts, places))
}

/// An element whose key does not exist weighs 0.
fn weights_as_numbers(
    ctx: &mut Ctx<'_, '_>,
    pattern: Option<&Pattern<'_>>,
    elements: &Texts,
) -> Result<Vec<f64>, CommandError> {
    let weight = |text: Option<&[u8]>| text.map_or(Some(0.0), parse_weight);
    // All of them are read even if one is no number: expired keys are deleted, as in Redis.
    let (mut weights, numbers) = (Vec::with_capacity(elements.len()), 0..elements.len());
    let pattern = pattern.unwrap_or(&Pattern::Element);
    look_up_all(ctx, std::slice::from_ref(pattern), (elements, numbers), |text, _| {
        weights.push(weight(text));
    })?;
    weights.into_iter().collect::<Option<_>>().ok_or(NO_NUMBER)
}

/// Parses a whole C string, which may be empty, as `strtod` does; neither NaN nor too large or too small.
fn parse_weight(text: &[u8]) -> Option<f64> {
    let text = before_nul(text);
    if text.is_empty() {
        return Some(0.0);
    }
    let (number, used) = parse_prefix(text)?;
    let is_whole = used == text.len() && !number.is_nan();
    (is_whole && !(is_out_of_range(text, number))).then_some(number)
}

/// Whether `strtod` reports ERANGE.
fn is_out_of_range(text: &[u8], number: f64) -> bool {
    if number.is_infinite() {
        return text.iter().any(u8::is_ascii_digit);
    }
    let digits = text.split(|byte| matches!(byte, b'e' | b'E' | b'p' | b'P')).next();
    number.abs() < f64::MIN_POSITIVE
        && digits.is_some_and(|digits| digits.iter().any(|digit| matches!(digit, b'1'..=b'9')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_as_redis_reads_them() {
        for (text, weight) in [
            (b"1.5".as_slice(), Some(1.5)),
            (b"", Some(0.0)),
            (b" 3", Some(3.0)),
            (b"3 ", None),
            (b" ", None),
            (b"0x10", Some(16.0)),
            (b"-inf", Some(f64::NEG_INFINITY)),
            (b"nan", None),
            (b"1e400", None),
            (b"1e-400", None),
            (b"1e-320", None),
            (b"0e-400", Some(0.0)),
            (b"3\0x", Some(3.0)),
            (b"\0x", Some(0.0)),
            (b"x", None),
        ] {
            assert_eq!(parse_weight(text), weight, "{}", String::from_utf8_lossy(text));
        }
    }
}
