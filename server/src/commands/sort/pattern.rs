//! BY and GET: the value of a key, or of a hash field, whose name depends on the element.

use crate::dispatch::{CommandError, Ctx, Purpose};
use crate::keyspace::collection::Hashes;
use crate::keyspace::paged::Keyed;
use crate::keyspace::{Kind, StringView};
use crate::resp::Reply;
use crate::value::ValueType;
use sexton_engine::Entry;

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

    /// Shows `look` what the pattern names for `element`: a string, a hash's value, or nothing.
    ///
    /// # Errors
    /// The snapshot that the request reads has ended.
    pub(super) fn look_up<R>(
        &self,
        ctx: &mut Ctx<'_, '_>,
        element: &[u8],
        look: impl FnOnce(Option<&[u8]>, &mut Reply) -> R,
    ) -> Result<R, CommandError> {
        let (before, behind, field) = match *self {
            Self::Element => return Ok(look(Some(element), ctx.out)),
            Self::Nothing => return Ok(look(None, ctx.out)),
            Self::Key { before, behind, field } => (before, behind, field),
        };
        let key = [before, element, behind].concat();
        let past = match field {
            Some(field) => ctx.past_field(&key, field),
            None => {
                let value = ctx.past_value(&key, &[ValueType::String]);
                value.map(|found| found.map(|found| found.map(|found| found.value)))
            }
        };
        match past {
            Some(Err(CommandError::WrongType)) => return Ok(look(None, ctx.out)),
            Some(value) => return Ok(look(value?.as_deref(), ctx.out)),
            None => {}
        }
        // Of a hash in pages only the page of the field is read.
        if let Some(field) = field
            && let Ok(Some(paged)) = ctx.paged::<Hashes>(Purpose::Read, &key)
        {
            let value = ctx.read_pages(&key, &paged, |hash: &Keyed, pages, _| {
                Ok(hash.get(pages, field)?.map(<[u8]>::to_vec))
            });
            return Ok(look(value.as_deref(), ctx.out));
        }
        let wanted = [if field.is_some() { ValueType::Hash } else { ValueType::String }];
        let db = ctx.client.db;
        Ok(ctx.inspect_whole(Purpose::Read, (db, &key), &wanted, |entry, out| {
            see(entry, field, |value| look(value, out))
        }))
    }
}

/// Shows `look` the value of a field, or a string.
fn see<R>(
    entry: Option<Entry<'_>>,
    field: Option<&[u8]>,
    look: impl FnOnce(Option<&[u8]>) -> R,
) -> R {
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
