//! Streams as commands see them, whether stored in one record or in pages.

use super::find;
use crate::dispatch::{CommandError, CommandResult, Ctx, OUT_OF_MEMORY, Purpose};
use crate::events::Event;
use crate::keyspace::collection::stream::{Excerpt, Group, HIGHEST, LOWEST, Span};
use crate::keyspace::collection::{Edit, StreamEdit, StreamView, Streams};
use crate::keyspace::paged::{Paged, Parts, PendingAsked, Streamed};
use crate::keyspace::stream_read::Logged;
use crate::resp::Reply;
use sexton_persistence::rdb::StreamId;

/// No entries.
pub(super) fn nothing(_: StreamView<'_>) -> Vec<Span> {
    Vec::new()
}

/// The first entry and the last one.
pub(super) fn ends(most: usize) -> [Span; 2] {
    let span = |most, is_back| Span { start: LOWEST, end: HIGHEST, most, is_back };
    [span(most, false), span(1, true)]
}

/// The entries with these IDs.
pub(super) fn each(ids: impl Iterator<Item = StreamId>) -> Vec<Span> {
    ids.map(|id| Span { start: id, end: id, most: 1, is_back: false }).collect()
}

fn excerpt(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    paged: &Paged,
    parts: Parts<'_>,
    asks: &dyn Fn(StreamView<'_>) -> Vec<Span>,
) -> Excerpt {
    ctx.read_pages(key, paged, |stream: &Streamed, pages, _| stream.excerpt(pages, parts, asks))
}

/// Passes a stream with these parts to `look`, with the entries that `asks` names after seeing the rest of it.
pub(super) fn look<R>(
    ctx: &mut Ctx<'_, '_>,
    (purpose, key): (Purpose, &[u8]),
    parts: Parts<'_>,
    asks: &dyn Fn(StreamView<'_>) -> Vec<Span>,
    look: impl FnOnce(Option<StreamView<'_>>, &mut Reply) -> R,
) -> Result<R, CommandError> {
    let Some(paged) = ctx.paged::<Streams>(purpose, key)? else {
        return ctx.lookup::<Streams, _>(purpose, key, look);
    };
    let excerpt = excerpt(ctx, key, &paged, parts, asks);
    Ok(look(Some(excerpt.view()), ctx.out))
}

/// A stream of which groups are to be changed.
pub(super) enum Held {
    /// Stored in one record; and its expiry time, 0 for never.
    Whole(StreamEdit, u64),
    /// Stored in pages, of which this is the part that the command needs.
    Paged(Box<Pages>),
}

/// A stream in pages of which groups are to be changed.
pub(super) struct Pages {
    /// The content of its root.
    root: Paged,
    excerpt: Excerpt,
    /// The groups have been written.
    is_written: bool,
}

impl Held {
    /// A new one.
    pub(super) fn new() -> Self {
        Self::Whole(StreamEdit::default(), 0)
    }

    /// It is read so.
    pub(super) fn view(&self) -> StreamView<'_> {
        match self {
            Self::Whole(edit, _) => edit.view(),
            Self::Paged(pages) => pages.excerpt.view(),
        }
    }

    /// Writes it with these groups: one operation. Log it.
    pub(super) fn write(
        &mut self,
        ctx: &mut Ctx<'_, '_>,
        key: &[u8],
        groups: &[Group],
        event: Option<Event>,
    ) -> CommandResult {
        match self {
            Self::Whole(edit, expire_at_ms) => {
                edit.set_groups(groups);
                ctx.check_size(edit)?;
                let (db, meta) = (ctx.client.db, StreamEdit::expiring_at(*expire_at_ms));
                ctx.put(db, key, meta, edit.bytes(), event);
            }
            Self::Paged(held) => {
                let Pages { root, excerpt, is_written } = &mut **held;
                let bytes = groups.iter().map(Group::record_bytes).sum::<usize>();
                if bytes as u64 > ctx.memory_max_bytes().min(sexton_engine::VALUE_MAX_BYTES) {
                    return Err(CommandError::text(OUT_OF_MEMORY));
                }
                let mut new = root.clone();
                ctx.change_pages(key, root, event, |pages, stream: &mut Streamed| {
                    // Each command of the log is an operation; the first one does what is to be done.
                    if !*is_written {
                        stream.change_groups(pages, excerpt.groups(), groups)?;
                    }
                    new.becomes(stream);
                    Ok(Some(()))
                });
                (*root, *is_written) = (new, true);
            }
        }
        Ok(())
    }
}

/// A stream to change a group of, with the requested pending entries, and the entries that `asks` names.
pub(super) fn hold(
    ctx: &mut Ctx<'_, '_>,
    (purpose, key): (Purpose, &[u8]),
    (group, pending): (&[u8], PendingAsked<'_>),
    asks: &dyn Fn(StreamView<'_>) -> Vec<Span>,
) -> Result<Option<Held>, CommandError> {
    hold_parts(ctx, (purpose, key), Parts::group(group, pending), asks)
}

/// Like [`hold`], but for any `parts` of the stream.
pub(super) fn hold_parts(
    ctx: &mut Ctx<'_, '_>,
    (purpose, key): (Purpose, &[u8]),
    parts: Parts<'_>,
    asks: &dyn Fn(StreamView<'_>) -> Vec<Span>,
) -> Result<Option<Held>, CommandError> {
    if let Some(root) = ctx.paged::<Streams>(purpose, key)? {
        let excerpt = excerpt(ctx, key, &root, parts, asks);
        return Ok(Some(Held::Paged(Box::new(Pages { root, excerpt, is_written: false }))));
    }
    let found = find(ctx, (purpose, key), 0)?;
    Ok(found.map(|(edit, expire_at_ms)| Held::Whole(edit, expire_at_ms)))
}

/// Writes a stream with changed groups, once for each logged command.
pub(super) fn store(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    (held, groups): (&mut Held, &[Group]),
    mut event: Option<Event>,
    logged: &[Logged],
) -> CommandResult {
    let db = ctx.client.db;
    for command in logged {
        held.write(ctx, key, groups, event.take())?;
        ctx.changes.keep_value(key);
        ctx.log(db, &command.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    Ok(())
}
