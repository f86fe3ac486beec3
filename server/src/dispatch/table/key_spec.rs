//! Key specifications: how a request of a command names its keys, as Redis' metadata say it. They are read once, when the table is built.

use super::flags::key_rights;
use crate::auth::KeyRights;
use crate::number::parse_i64;
use crate::resp::Args;

/// The arguments do not determine the keys (`EVAL s abc`), or only the command itself knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyError;

/// One of the key specifications of a command.
#[derive(Debug)]
pub(in crate::dispatch) struct KeySpec {
    /// Redis' key flags, blank separated (`RW access update`).
    pub(super) flags: &'static str,
    /// What a user must be allowed to do with its keys: what `key_rights` says of the flags.
    pub(super) rights: KeyRights,
    /// `None`: it does not say where they are.
    place: Option<(Begin, Find)>,
}

/// Where its first key is.
#[derive(Debug)]
enum Begin {
    /// At this index; the command's name is 0.
    Index(i64),
    /// Behind this word, which is looked for from an index on (negative: from the end, searching backwards).
    Keyword(&'static str, i64),
}

/// Which arguments from there on are keys.
#[derive(Debug)]
enum Find {
    /// Up to the one `last` behind the first, or so far before the end (negative); of those behind the first only one in `limit`, if that is
    /// not 0.
    Range { last: i64, step: i64, limit: i64 },
    /// As many as the argument `at` behind it says, the first of them `first` behind it.
    Count { at: i64, first: i64, step: i64 },
}

impl KeySpec {
    /// The specification that a line of the metadata describes; `None` if it is one of arguments that are no keys.
    pub(super) fn parse(text: &'static str) -> Option<Self> {
        let mut parts = text.split(" ; ");
        let flags = parts.next().unwrap_or_default();
        if flags.split(' ').any(|flag| flag == "not_key") {
            return None;
        }
        let mut part = |label| parts.next().and_then(|part| part.strip_prefix(label));
        let place = part("begin ").and_then(Begin::parse).zip(part("find ").and_then(Find::parse));
        Some(Self { flags, rights: key_rights(flags), place })
    }

    /// The argument with the number of keys that follow it, if that alone determines the keys of a command with these specifications.
    pub(super) fn count_of(specs: &[Self]) -> Option<usize> {
        match specs {
            [
                Self {
                    place: Some((Begin::Index(index), Find::Count { at: 0, first: 1, step: 1 })),
                    ..
                },
            ] => usize::try_from(*index).ok(),
            _ => None,
        }
    }

    /// The use of each key of a command with these specifications, if there is one, and it does not depend on the arguments.
    pub(super) fn rights_of(specs: &[Self]) -> Option<KeyRights> {
        let [spec] = specs else { return None };
        let depends = spec.flags.split(' ').any(|flag| flag == "variable_flags");
        (!depends).then_some(spec.rights)
    }

    /// First and last key and their step; `None` if the keyword before the keys is missing or
    /// the request is too short, which the command itself reports.
    pub(super) fn follow(&self, args: Args<'_>) -> Result<Option<(usize, usize, usize)>, KeyError> {
        let (begin, find) = self.place.as_ref().ok_or(KeyError)?;
        let count = args.len() as i64;
        let mut first = match *begin {
            Begin::Index(index) => index,
            Begin::Keyword(keyword, start) => match find_keyword(args, keyword.as_bytes(), start) {
                Some(at) => at + 1,
                None => return Ok(None),
            },
        };
        let (last, step) = match *find {
            Find::Range { last, step, limit } => {
                let last = match (last, limit) {
                    (0.., _) => first + last,
                    (_, 0) => count + last,
                    (_, limit) => first + ((count - first) / limit + last),
                };
                (last, step)
            }
            Find::Count { at, first: behind, step } => {
                let at = usize::try_from(first + at).map_err(|_| KeyError)?;
                if at >= args.len() {
                    return Err(KeyError);
                }
                let keys = parse_i64(args.get(at)).filter(|keys| *keys >= 0).ok_or(KeyError)?;
                first += behind;
                (first.saturating_add((keys - 1).saturating_mul(step)), step)
            }
        };
        let is_there = first >= 1 && last < count && last >= first && step >= 1;
        Ok(is_there.then_some((first as usize, last as usize, step as usize)))
    }
}

fn number(word: Option<&str>) -> Option<i64> {
    word?.parse().ok()
}

impl Begin {
    fn parse(text: &'static str) -> Option<Self> {
        let mut words = text.split(' ');
        match words.next()? {
            "index" => Some(Self::Index(number(words.next())?)),
            "keyword" => Some(Self::Keyword(words.next()?, number(words.next())?)),
            _ => None,
        }
    }
}

impl Find {
    fn parse(text: &'static str) -> Option<Self> {
        let mut words = text.split(' ');
        let kind = words.next()?;
        let mut next = || number(words.next());
        let (one, other, third) = (next()?, next()?, next()?);
        match kind {
            "range" => Some(Self::Range { last: one, step: other, limit: third }),
            "keynum" => Some(Self::Count { at: one, first: other, step: third }),
            _ => None,
        }
    }
}

/// Position of `keyword`, from `start` on (negative: from the end, searching backwards).
fn find_keyword(args: Args<'_>, keyword: &[u8], start: i64) -> Option<i64> {
    let matches = |index: &i64| args.get(*index as usize).eq_ignore_ascii_case(keyword);
    let count = args.len() as i64;
    if start > 0 {
        (start..count - 1).find(matches)
    } else {
        (2..=(count + start).max(0)).rev().find(matches)
    }
}
