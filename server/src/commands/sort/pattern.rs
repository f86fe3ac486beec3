//! BY and GET: the value of a key, or of a hash field, whose name depends on the element.

use crate::dispatch::{CommandError, CommandResult, Ctx, PastRecord, Purpose};
use crate::keyspace::collection::Hashes;
use crate::keyspace::paged::Keyed;
use crate::keyspace::texts::Texts;
use crate::keyspace::{Kind, StringView};
use crate::resp::Reply;
use crate::value::ValueType;
use sexton_engine::Entry;
use std::vec::IntoIter;

/// So many keys are looked up in a snapshot at once, in the order of their names: their values are held meanwhile.
const LOOKED_UP_AT_ONCE: usize = 1024;

/// The target of a pattern for an element. Redis reads patterns as C strings: only the part before a NUL counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern<'p> {
    /// `#`: the element itself.
    Element,
    /// There is no star: nothing.
    Nothing,
    /// The star is replaced by the element.
    Key {
        before: &'p [u8],
        behind: &'p [u8],
        /// The part after `->`: the key holds a hash.
        field: Option<&'p [u8]>,
    },
}

/// The text as C sees it.
pub(super) fn before_nul(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

impl<'p> Pattern<'p> {
    pub(super) fn parse(text: &'p [u8]) -> Self {
        let seen = before_nul(text);
        if seen == b"#" {
            return Self::Element;
        }
        let Some(star) = seen.iter().position(|&byte| byte == b'*') else { return Self::Nothing };
        let (before, behind) = (&text[..star], &text[star + 1..]);
        let arrow = seen[star + 1..].windows(2).position(|two| two == b"->");
        match arrow.filter(|arrow| star + 1 + arrow + 2 < seen.len()) {
            Some(arrow) => {
                Self::Key { before, behind: &behind[..arrow], field: Some(&behind[arrow + 2..]) }
            }
            None => Self::Key { before, behind, field: None },
        }
    }

    /// The records of the keys that it names for elements, in the snapshot that the request reads. `None`: it reads none, or names no key.
    fn past_records<'e>(
        &self,
        ctx: &Ctx<'_, '_>,
        elements: impl Iterator<Item = &'e [u8]>,
    ) -> Result<Option<IntoIter<PastRecord>>, CommandError> {
        let Self::Key { before, behind, field } = *self else { return Ok(None) };
        let keys: Vec<Vec<u8>> =
            elements.map(|element| [before, element, behind].concat()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let records = ctx.past_records(&keys, &[Self::wanted(field)]).transpose()?;
        Ok(records.map(Vec::into_iter))
    }

    fn wanted(field: Option<&[u8]>) -> ValueType {
        if field.is_some() { ValueType::Hash } else { ValueType::String }
    }

    /// Shows `look` what the pattern names for `element`: a string, a hash's value, or nothing. The key has this `record`, if the request
    /// reads a snapshot.
    fn look_up(
        &self,
        ctx: &mut Ctx<'_, '_>,
        element: &[u8],
        record: Option<PastRecord>,
        look: impl FnOnce(Option<&[u8]>, &mut Reply),
    ) -> CommandResult {
        let (before, behind, field) = match *self {
            Self::Element => {
                look(Some(element), ctx.out);
                return Ok(());
            }
            Self::Nothing => {
                look(None, ctx.out);
                return Ok(());
            }
            Self::Key { before, behind, field } => (before, behind, field),
        };
        let key = [before, element, behind].concat();
        if let Some(record) = record {
            let value = match field {
                Some(field) => ctx.past_field(&key, field, record),
                None => ctx.past_string(&key, record),
            };
            match value {
                Err(CommandError::WrongType) => look(None, ctx.out),
                value => look(value?.as_deref(), ctx.out),
            }
            return Ok(());
        }
        // Of a hash in pages only the page of the field is read.
        if let Some(field) = field
            && let Ok(Some(paged)) = ctx.paged::<Hashes>(Purpose::Read, &key)
        {
            let value = ctx.read_pages(&key, &paged, |hash: &Keyed, pages, _| {
                Ok(hash.get(pages, field)?.map(<[u8]>::to_vec))
            });
            look(value.as_deref(), ctx.out);
            return Ok(());
        }
        let db = ctx.client.db;
        ctx.inspect_whole(Purpose::Read, (db, &key), &[Self::wanted(field)], |entry, out| {
            see(entry, field, |value| look(value, out));
        });
        Ok(())
    }
}

/// Shows `look` what each of the patterns names for each of the elements with these numbers.
///
/// # Errors
/// The snapshot that the request reads has ended.
pub(super) fn look_up_all(
    ctx: &mut Ctx<'_, '_>,
    patterns: &[Pattern<'_>],
    (elements, mut numbers): (&Texts, impl Iterator<Item = usize>),
    mut look: impl FnMut(Option<&[u8]>, &mut Reply),
) -> CommandResult {
    loop {
        let batch: Vec<usize> = numbers.by_ref().take(LOOKED_UP_AT_ONCE).collect();
        if batch.is_empty() {
            return Ok(());
        }
        let texts = || batch.iter().map(|&number| elements.get(number));
        let records = patterns.iter().map(|pattern| pattern.past_records(ctx, texts()));
        let mut records = records.collect::<Result<Vec<_>, _>>()?;
        for element in texts() {
            for (pattern, records) in std::iter::zip(patterns, &mut records) {
                let record = records.as_mut().and_then(Iterator::next);
                pattern.look_up(ctx, element, record, &mut look)?;
            }
        }
    }
}

/// Shows `look` the value of a field, or a string.
fn see(entry: Option<Entry<'_>>, field: Option<&[u8]>, look: impl FnOnce(Option<&[u8]>)) {
    let Some(entry) = entry else { return look(None) };
    match field {
        Some(field) => look(Hashes::view(entry).and_then(|hash| hash.get(field))),
        None => look(StringView::of(entry).as_ref().map(|string| string.bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key<'p>(before: &'p [u8], behind: &'p [u8], field: Option<&'p [u8]>) -> Pattern<'p> {
        Pattern::Key { before, behind, field }
    }

    #[test]
    fn patterns_are_read_as_redis_reads_them() {
        for (text, pattern) in [
            (b"#".as_slice(), Pattern::Element),
            (b"#\0*", Pattern::Element),
            (b"constant", Pattern::Nothing),
            (b"a\0*", Pattern::Nothing),
            (b"w_*", key(b"w_", b"", None)),
            (b"*_*", key(b"", b"_*", None)),
            (b"h*->f", key(b"h", b"", Some(b"f"))),
            (b"h*x->f->g", key(b"h", b"x", Some(b"f->g"))),
            (b"h->x*->f", key(b"h->x", b"", Some(b"f"))),
            (b"h*->", key(b"h", b"->", None)),
            (b"h*->f\0g", key(b"h", b"", Some(b"f\0g"))),
            (b"h*->\0g", key(b"h", b"->\0g", None)),
            (b"h*\0->g", key(b"h", b"\0->g", None)),
        ] {
            assert_eq!(Pattern::parse(text), pattern, "{}", String::from_utf8_lossy(text));
        }
    }
}
