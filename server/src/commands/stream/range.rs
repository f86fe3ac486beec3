//! XLEN, XRANGE, XREVRANGE.

use super::held::look;
use super::id::{parse_end, parse_start};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::keyspace::collection::Streams;
use crate::keyspace::collection::stream::{EntryView, HIGHEST, Span};
use crate::keyspace::paged::{InPieces, Parts, Stop, Streamed, Structure};
use crate::keyspace::stream_read::{
    answer_entries, answer_entry, answer_stream_name, answer_streams,
};
use crate::resp::Reply;
use sexton_engine::page::Pages;
use sexton_persistence::rdb::StreamId;
use std::ops::Range;

/// The lowest ID that an entry can have.
const FIRST: StreamId = StreamId { ms: 0, seq: 1 };

/// XLEN key.
pub(super) fn xlen(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    if let Some(paged) = ctx.paged::<Streams>(Purpose::Read, key)? {
        ctx.out.int(paged.count() as i64);
        return Ok(());
    }
    ctx.lookup::<Streams, _>(Purpose::Read, key, |stream, out| {
        out.int(stream.map_or(0, |stream| stream.count() as i64));
    })
}

/// XRANGE key start end [COUNT count].
pub(super) fn xrange(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    range(ctx, false)
}

/// XREVRANGE key end start [COUNT count].
pub(super) fn xrevrange(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    range(ctx, true)
}

fn range(ctx: &mut Ctx<'_, '_>, back: bool) -> CommandResult {
    let (args, key) = (ctx.args, ctx.args.get(1));
    let (start_at, end_at) = if back { (3, 2) } else { (2, 3) };
    let (start, end) = (parse_start(args.get(start_at))?, parse_end(args.get(end_at))?);
    let (mut most, mut at) = (None, 4);
    while at < args.len() {
        if at + 1 == args.len() || !args.get(at).eq_ignore_ascii_case(b"COUNT") {
            return Err(CommandError::Syntax);
        }
        let count = ctx.int_arg(at + 1)?;
        most = Some(usize::try_from(count).unwrap_or(0));
        at += 2;
    }
    if most.is_none()
        && let Some(paged) = ctx.paged::<Streams>(Purpose::Read, key)?
    {
        let entries = Entries { start, end, is_back: back, read_by: None };
        return ctx.answer_in_pieces(key, &paged, &entries);
    }
    let span = Span { start, end, most: most.unwrap_or(usize::MAX), is_back: back };
    look(ctx, (Purpose::Read, key), Parts::NONE, &|_| vec![span], |stream, out| {
        match (stream, most) {
            (None, _) => out.array(0),
            (Some(_), Some(0)) => out.null_array(),
            (Some(stream), most) => {
                let most = most.unwrap_or(usize::MAX);
                let entries: Vec<_> = if back {
                    stream.range_back(start, end).take(most).collect()
                } else {
                    stream.range(start, end).take(most).collect()
                };
                answer_entries(&entries, out);
            }
        }
    })
}

/// All entries from one ID to another. A position is a page.
pub(super) struct Entries<'k> {
    start: StreamId,
    end: StreamId,
    is_back: bool,
    /// They are what XREAD answers of the stream of this name.
    read_by: Option<&'k [u8]>,
}

impl<'k> Entries<'k> {
    /// What XREAD answers of a stream from `start` on.
    pub(super) fn read(key: &'k [u8], start: StreamId) -> Self {
        Self { start, end: HIGHEST, is_back: false, read_by: Some(key) }
    }

    fn has(&self, entry: &EntryView<'_>) -> bool {
        (self.start..=self.end).contains(&entry.id)
    }

    fn is_whole(&self) -> bool {
        // No entry has the lowest ID.
        self.start <= FIRST && self.end == HIGHEST
    }
}

impl InPieces<Streamed> for Entries<'_> {
    fn uncounted<P: Pages>(&self, stream: &Streamed, pages: &P) -> Result<Range<u64>, Stop> {
        if self.is_whole() {
            return Ok(0..0);
        }
        stream.positions_of(pages, (self.start, self.end))
    }

    fn count<P: Pages>(&self, stream: &Streamed, pages: &P, part: Range<u64>) -> Result<u64, Stop> {
        stream.needs(pages, part.clone())?;
        let mut count = 0;
        for position in part {
            count += stream.entries_at(pages, position)?.filter(|entry| self.has(entry)).count();
        }
        Ok(count as u64)
    }

    fn begin<P: Pages>(
        &self,
        stream: &Streamed,
        pages: &P,
        counted: u64,
        out: &mut Reply,
    ) -> Result<Range<u64>, Stop> {
        let count = if self.is_whole() { stream.len() } else { counted };
        match self.read_by {
            Some(_) if count == 0 => {
                out.null_array();
                return Ok(0..0);
            }
            Some(key) => {
                answer_streams(1, out);
                answer_stream_name(key, out);
            }
            None => {}
        }
        out.array(count as usize);
        stream.positions_of(pages, (self.start, self.end))
    }

    fn write<P: Pages>(
        &self,
        stream: &Streamed,
        pages: &P,
        part: Range<u64>,
        out: &mut Reply,
    ) -> Result<(), Stop> {
        stream.needs(pages, part.clone())?;
        for step in 0..part.end - part.start {
            let position = if self.is_back { part.end - 1 - step } else { part.start + step };
            let entries = stream.entries_at(pages, position)?.filter(|entry| self.has(entry));
            if self.is_back {
                let entries: Vec<_> = entries.collect();
                entries.iter().rev().for_each(|entry| answer_entry(entry, out));
            } else {
                entries.for_each(|entry| answer_entry(&entry, out));
            }
        }
        Ok(())
    }

    fn positions(&self, stream: &Streamed) -> u64 {
        stream.pages()
    }

    fn is_descending(&self) -> bool {
        self.is_back
    }
}
