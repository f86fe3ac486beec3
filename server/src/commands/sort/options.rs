//! What a request to sort asks for.

use super::pattern::{Pattern, before_nul};
use crate::dispatch::{Args, CommandError};
use crate::number::parse_i64;
use std::ops::Range;

const BY_DENIED: CommandError =
    CommandError::text("ERR BY option of SORT denied due to insufficient ACL permissions.");
const GET_DENIED: CommandError =
    CommandError::text("ERR GET option of SORT denied due to insufficient ACL permissions.");

/// The options of SORT.
#[derive(Debug, Default)]
pub(super) struct Options<'a> {
    /// DESC.
    pub(super) descending: bool,
    /// ALPHA.
    pub(super) by_text: bool,
    /// The last BY with a star.
    pub(super) by: Option<Pattern<'a>>,
    /// A BY without a star: the elements stay in the order that they have.
    pub(super) unsorted: bool,
    /// The patterns of GET.
    get: Vec<Pattern<'a>>,
    /// The destination of STORE.
    pub(super) store: Option<&'a [u8]>,
    limit: Option<(i64, i64)>,
}

impl<'a> Options<'a> {
    /// What the result has of each element: what these patterns name.
    pub(super) fn wanted(&self) -> &[Pattern<'a>] {
        if self.get.is_empty() { &[Pattern::Element] } else { &self.get }
    }

    /// `reads_all_keys`: the user may read whatever key a pattern leads to.
    pub(super) fn parse(
        args: Args<'a>,
        read_only: bool,
        reads_all_keys: bool,
    ) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut at = 2;
        while at < args.len() {
            let behind = args.len() - at - 1;
            match args.get(at).to_ascii_uppercase().as_slice() {
                b"ASC" => options.descending = false,
                b"DESC" => options.descending = true,
                b"ALPHA" => options.by_text = true,
                b"LIMIT" if behind >= 2 => {
                    let number = |at| parse_i64(args.get(at)).ok_or(CommandError::NotInteger);
                    options.limit = Some((number(at + 1)?, number(at + 2)?));
                    at += 2;
                }
                b"STORE" if behind >= 1 && !read_only => {
                    options.store = Some(args.get(at + 1));
                    at += 1;
                }
                b"BY" if behind >= 1 => {
                    options.set_by(args.get(at + 1));
                    if options.by.is_some() && !reads_all_keys {
                        return Err(BY_DENIED);
                    }
                    at += 1;
                }
                b"GET" if behind >= 1 && !reads_all_keys => return Err(GET_DENIED),
                b"GET" if behind >= 1 => {
                    options.get.push(Pattern::parse(args.get(at + 1)));
                    at += 1;
                }
                _ => return Err(CommandError::Syntax),
            }
            at += 1;
        }
        Ok(options)
    }

    fn set_by(&mut self, pattern: &'a [u8]) {
        if before_nul(pattern).contains(&b'*') {
            self.by = Some(Pattern::parse(pattern));
        } else {
            self.unsorted = true;
        }
    }

    /// ALPHA instead of any BY.
    pub(super) fn sort_as_texts(&mut self) {
        (self.unsorted, self.by_text, self.by) = (false, true, None);
    }

    /// Which of `count` sorted elements are asked for.
    pub(super) fn window(&self, count: usize) -> Range<usize> {
        let (start, most) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(start).unwrap_or(0).min(count);
        let left = count - start;
        // A negative number of elements means all.
        start..start + usize::try_from(most).map_or(left, |most| most.min(left))
    }

    /// Where these are among `count` elements that stay as they are, or are reversed.
    pub(super) fn places(&self, count: usize, is_reversed: bool) -> Range<usize> {
        let window = self.window(count);
        if is_reversed { count - window.end..count - window.start } else { window }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_stays_within_the_elements() {
        for (limit, expected) in [
            ((0, -1), 0..10),
            ((3, 4), 3..7),
            ((8, 4), 8..10),
            ((10, 1), 10..10),
            ((i64::MAX, i64::MAX), 10..10),
            ((i64::MIN, 2), 0..2),
            ((2, i64::MIN), 2..10),
            ((2, 0), 2..2),
        ] {
            let options = Options { limit: Some(limit), ..Options::default() };
            assert_eq!(options.window(10), expected, "{limit:?}");
        }
    }
}
