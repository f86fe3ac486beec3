//! HSCAN, SSCAN and ZSCAN: pages of the elements of one collection.
//!
//! A compact collection is one page, as in Redis. In any other collection, a page has the elements whose hashes are between
//! its cursor and the next. An element's hash depends only on its name and survives a restart. So an element that exists
//! throughout a full walk is in exactly one of its pages, whatever is added or removed meanwhile.

use super::{Options, parse_cursor};
use crate::dispatch::{CommandResult, Ctx, Purpose};
use crate::interop::glob;
use crate::keyspace::Kind;
use crate::keyspace::collection::{Encoding, score_text};
use crate::keyspace::paged::{Keyed, Paged, Ranked, Stop, Structure};
use crate::resp::Reply;
use crate::value::ValueType;
use sexton_engine::TxPages;
use std::hash::{DefaultHasher, Hasher};

/// Upper bound of hashes: every client's number type can represent a cursor of 52 bits.
const HASHES: u64 = 1 << 52;

/// Set in cursors of paged collections.
const OF_PAGES: u64 = HASHES;

fn hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name);
    hasher.finish() % HASHES
}

/// What one request asks for.
pub(in crate::commands) struct Page<'a> {
    cursor: u64,
    options: Options<'a>,
}

/// Answers `COMMAND key cursor [MATCH pattern] [COUNT count]`. A missing key has no elements; otherwise
/// `answer` must call [`Page::answer`].
pub(in crate::commands) fn scan<K: Kind>(
    ctx: &mut Ctx<'_, '_>,
    answer: impl FnOnce(K::View<'_>, &Page<'_>, &mut Reply),
) -> CommandResult {
    let args = ctx.args;
    let cursor = parse_cursor(args.get(2))?;
    if let Some(paged) = ctx.paged::<K>(Purpose::Read, args.get(1))? {
        let options = Options::of_elements(args)?;
        match K::TYPE {
            ValueType::SortedSet => {
                scan_pages(ctx, (&paged, cursor, &options), 2, |set: &Ranked, pages, at, found| {
                    set.scan(pages, at, |name, score| found.add(name, score_text(score).as_bytes()))
                        .map_err(|missed| set.missing_of_scan(pages, (at, found.left()), missed))
                })
            }
            kind => scan_pages(
                ctx,
                (&paged, cursor, &options),
                if kind == ValueType::Hash { 2 } else { 1 },
                |keyed: &Keyed, pages, at, found| {
                    keyed
                        .scan(pages, at, |name, value| found.add(name, value))
                        .map_err(|missed| keyed.missing_of_scan(pages, (at, found.left()), missed))
                },
            ),
        }
        return Ok(());
    }
    // One that pages have given: the collection has become small since, and is walked from its start.
    let cursor = if cursor >= HASHES { 0 } else { cursor };
    ctx.lookup::<K, _>(Purpose::Read, args.get(1), |view, out| {
        match view {
            Some(view) => {
                let options = Options::of_elements(args)?;
                answer(view, &Page { cursor, options }, out);
            }
            None => head(out, 0, 0),
        }
        Ok(())
    })?
}

/// What some pages have.
struct Found<'o> {
    options: &'o Options<'o>,
    elements: Vec<(Vec<u8>, Vec<u8>)>,
    seen: usize,
}

impl Found<'_> {
    fn add(&mut self, name: &[u8], value: &[u8]) {
        self.seen += 1;
        if self.options.pattern.is_none_or(|pattern| glob::matches(pattern, name)) {
            self.elements.push((name.to_vec(), value.to_vec()));
        }
    }

    /// How many more are asked for.
    fn left(&self) -> u64 {
        self.options.count.saturating_sub(self.seen) as u64
    }
}

/// Answers the elements of some pages. If the collection was paged only after the cursor was returned, the cursor is no position
/// in the pages: they are walked from their start. `walk` adds the elements at a cursor, and returns the next cursor.
fn scan_pages<S: Structure>(
    ctx: &mut Ctx<'_, '_>,
    (paged, cursor, options): (&Paged, u64, &Options<'_>),
    parts: usize,
    walk: impl Fn(&S, &TxPages<'_, '_, '_>, u64, &mut Found<'_>) -> Result<u64, Stop>,
) {
    let from = if cursor & OF_PAGES == 0 { 0 } else { cursor & !OF_PAGES };
    let key = ctx.args.get(1);
    ctx.read_pages(key, paged, |structure: &S, pages, out| {
        let (mut found, mut next) = (Found { options, elements: Vec::new(), seen: 0 }, from);
        loop {
            next = walk(structure, pages, next, &mut found)?;
            if next == 0 || found.seen >= options.count {
                break;
            }
        }
        let elements = found.elements;
        head(out, if next == 0 { 0 } else { next | OF_PAGES }, parts * elements.len());
        for (name, value) in &elements {
            out.bulk(name);
            if parts == 2 {
                out.bulk(value);
            }
        }
        Ok(())
    });
}

fn head(out: &mut Reply, next: u64, parts: usize) {
    out.array(2);
    out.bulk(itoa::Buffer::new().format(next).as_bytes());
    out.array(parts);
}

impl Page<'_> {
    /// Writes a page of a collection with `count` elements. `name` returns an element's name, `write` writes its `PARTS` parts
    /// of the reply.
    pub(in crate::commands) fn answer<const PARTS: usize, T>(
        &self,
        (count, encoding): (usize, Encoding),
        elements: impl Iterator<Item = T>,
        name: impl Fn(&T) -> &[u8],
        write: impl Fn(T, &mut Reply),
        out: &mut Reply,
    ) {
        let (until, next) = self.end(count, encoding);
        let is_whole = next == 0 && self.is_first(encoding);
        let found: Vec<T> = elements
            .filter(|element| {
                let name = name(element);
                (is_whole || (self.cursor..until).contains(&hash(name)))
                    && self.options.pattern.is_none_or(|pattern| glob::matches(pattern, name))
            })
            .collect();
        head(out, next, PARTS * found.len());
        found.into_iter().for_each(|element| write(element, out));
    }

    fn is_first(&self, encoding: Encoding) -> bool {
        self.cursor == 0 || is_compact(encoding)
    }

    /// The hash at which the page ends, and the next cursor.
    fn end(&self, count: usize, encoding: Encoding) -> (u64, u64) {
        if is_compact(encoding) {
            return (HASHES, 0);
        }
        let width = (HASHES / (count as u64).max(1)).max(1);
        let until = width
            .checked_mul(self.options.count as u64)
            .and_then(|width| width.checked_add(self.cursor))
            .filter(|until| *until < HASHES);
        until.map_or((HASHES, 0), |until| (until, until))
    }
}

/// True for what Redis walks in one page.
fn is_compact(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::Listpack | Encoding::Intset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(cursor: u64, count: usize) -> Page<'static> {
        Page { cursor, options: Options { count, pattern: None, type_name: None } }
    }

    fn walk(mut names: Vec<String>, change: impl Fn(&mut Vec<String>)) -> Vec<(u64, Vec<u8>)> {
        let (mut cursor, mut pages) = (0, Vec::new());
        loop {
            let page = page(cursor, 10);
            let mut out = Reply::new();
            let size = (names.len(), Encoding::Hashtable);
            let write = |name: &String, out: &mut Reply| out.bulk(name.as_bytes());
            page.answer::<1, _>(size, names.iter(), |name| name.as_bytes(), write, &mut out);
            cursor = page.end(names.len(), Encoding::Hashtable).1;
            pages.push((cursor, out.bytes().to_vec()));
            if cursor == 0 {
                return pages;
            }
            change(&mut names);
        }
    }

    #[test]
    fn an_element_that_stays_is_in_exactly_one_page_whatever_comes_and_goes() {
        let names: Vec<String> = (0..1000).map(|number| format!("name {number}")).collect();
        let grow = |names: &mut Vec<String>| names.push(format!("more {}", names.len()));
        let shrink = |names: &mut Vec<String>| names.truncate((names.len() - 9).max(300));
        for (change, stay) in [
            (&grow as &dyn Fn(&mut Vec<String>), 1000),
            (&shrink as &dyn Fn(&mut Vec<String>), 300),
        ] {
            let pages = walk(names.clone(), change);
            assert!(pages.len() > 30, "pages have about ten elements");
            let replies: Vec<String> = pages
                .iter()
                .map(|(_, reply)| String::from_utf8_lossy(reply).into_owned())
                .collect();
            for name in &names[..stay] {
                let line = format!("\r\n{name}\r\n");
                assert_eq!(replies.iter().filter(|reply| reply.contains(&line)).count(), 1);
            }
        }
    }

    #[test]
    fn a_compact_collection_is_one_page_and_no_cursor_or_count_overflows() {
        assert_eq!(page(7, 1).end(100, Encoding::Listpack), (HASHES, 0));
        assert_eq!(page(u64::MAX, usize::MAX).end(1000, Encoding::Hashtable), (HASHES, 0));
        assert_eq!(page(5, 1).end(usize::MAX, Encoding::Skiplist), (6, 6));
    }
}
