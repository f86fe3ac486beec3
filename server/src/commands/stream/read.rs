//! XREAD and XREADGROUP.

use super::held::{each, hold_parts, look, store};
use super::id::parse_strict;
use super::range::Entries;
use super::trim::damaged;
use super::{group_at, no_key_or_group, wall_ms};
use crate::blocking::{Member, Read, Wants};
use crate::commands::pop::wait;
use crate::dispatch::{CommandError, CommandResult, Ctx, PIECE_BYTES, Purpose};
use crate::events::Event;
use crate::keyspace::collection::Streams;
use crate::keyspace::collection::stream::{LOWEST, StreamView, id_after};
use crate::keyspace::paged::{Parts, PendingAsked, PendingSpan, Streamed, Structure};
use crate::keyspace::stream_read::{
    answer_entries, answer_stream_name, answer_streams, behind, deliver, deliver_again,
    entries_after, pending_behind,
};
use crate::number::parse_i64;
use crate::resp::Reply;
use sexton_persistence::rdb::StreamId;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Maximum number of entries for a client that has waited and gave no COUNT.
const COUNT_AFTER_WAIT: u64 = 1000;

/// What a request asks for.
#[derive(Default)]
struct Options {
    /// It waits: until when.
    block: Option<Option<Instant>>,
    /// Maximum number of entries per stream; 0 for all.
    count: u64,
    member: Option<Member>,
    keys: Range<usize>,
}

/// From where a stream is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    After(StreamId),
    /// What the group has not read.
    New,
    /// Like `New`, but the group has read everything.
    Nothing,
}

/// XREAD [COUNT count] [BLOCK ms] STREAMS key [key ...] id [id ...].
pub(super) fn xread(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let options = parse(ctx, false)?;
    run(ctx, options)
}

/// XREADGROUP GROUP group consumer [COUNT count] [BLOCK ms] [NOACK] STREAMS key [key ...] id [id ...]. Logged by outcome.
pub(super) fn xreadgroup(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let options = parse(ctx, true)?;
    run(ctx, options)
}

/// When a wait of `text` milliseconds times out; never for 0.
fn deadline(text: &[u8]) -> Result<Option<Instant>, CommandError> {
    let ms = parse_i64(text)
        .ok_or(CommandError::text("ERR timeout is not an integer or out of range"))?;
    let ms = u64::try_from(ms).map_err(|_| CommandError::text("ERR timeout is negative"))?;
    Ok(if ms == 0 { None } else { Instant::now().checked_add(Duration::from_millis(ms)) })
}

fn parse(ctx: &Ctx<'_, '_>, by_group: bool) -> Result<Options, CommandError> {
    let args = ctx.args;
    let (mut options, mut acknowledges, mut at) = (Options::default(), false, 1);
    while at < args.len() {
        let more = args.len() - at - 1;
        let is = |name: &[u8], operands: usize| {
            args.get(at).eq_ignore_ascii_case(name) && more >= operands
        };
        if is(b"BLOCK", 1) {
            if ctx.client.script.is_inside {
                let what = " command is not allowed with BLOCK option from scripts";
                return Err(CommandError::quoting("ERR ", args.get(0), what));
            }
            options.block = Some(deadline(args.get(at + 1))?);
            at += 2;
        } else if is(b"COUNT", 1) {
            options.count = u64::try_from(ctx.int_arg(at + 1)?).unwrap_or(0);
            at += 2;
        } else if is(b"STREAMS", 1) {
            if !more.is_multiple_of(2) {
                // Redis calls it so in both commands.
                return Err(CommandError::text(
                    "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
                ));
            }
            options.keys = at + 1..at + 1 + more / 2;
            break;
        } else if is(b"GROUP", 2) {
            if !by_group {
                return Err(CommandError::text(
                    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
                ));
            }
            options.member = Some(Member {
                group: args.get(at + 1).to_vec(),
                consumer: args.get(at + 2).to_vec(),
                acknowledges: false,
            });
            at += 3;
        } else if is(b"NOACK", 0) {
            if !by_group {
                return Err(CommandError::text(
                    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
                ));
            }
            acknowledges = true;
            at += 1;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    if options.keys.is_empty() {
        return Err(CommandError::Syntax);
    }
    match &mut options.member {
        Some(member) => member.acknowledges = acknowledges,
        None if by_group => {
            return Err(CommandError::text("ERR Missing GROUP option for XREADGROUP"));
        }
        None => {}
    }
    Ok(options)
}

/// From where each stream is read.
fn places(ctx: &mut Ctx<'_, '_>, options: &Options) -> Result<Vec<From>, CommandError> {
    let (args, count) = (ctx.args, options.keys.len());
    let mut places = Vec::with_capacity(count);
    for at in options.keys.clone() {
        let (key, id) = (args.get(at), args.get(at + count));
        let member = options.member.as_ref();
        let (last_id, has_new) = place(ctx, key, member)?;
        places.push(match (id, member) {
            (b"$", Some(_)) => {
                return Err(CommandError::text(
                    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
                ));
            }
            (b"$", None) => From::After(last_id),
            (b">", Some(_)) => if has_new { From::New } else { From::Nothing },
            (b">", None) => {
                return Err(CommandError::text(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
                ));
            }
            (id, _) => From::After(parse_strict(id, 0)?),
        });
    }
    // A client that has waited, and is to look again, continues from its position when it began to wait.
    if let Some(Wants::Read(read)) = ctx.client.waiter.as_ref().map(|waiter| &waiter.wants)
        && read.member.is_none()
        && read.after.len() == count
    {
        places = read.after.iter().map(|&id| From::After(id)).collect();
    }
    Ok(places)
}

/// The last ID of a stream; for a group member, whether there are entries that the group has not read.
fn place(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    member: Option<&Member>,
) -> Result<(StreamId, bool), CommandError> {
    let position = match (ctx.paged::<Streams>(Purpose::Read, key)?, member) {
        (Some(paged), None) => {
            return Ok((Streamed::open(&paged).map_err(damaged)?.head.last_id, false));
        }
        (Some(paged), Some(member)) => {
            ctx.read_pages(key, &paged, |stream: &Streamed, pages, _| {
                stream.group_position(pages, &member.group)
            })
        }
        (None, None) => {
            return ctx.lookup::<Streams, _>(Purpose::Read, key, |stream, _| {
                (stream.map_or(LOWEST, |stream| stream.last_id()), false)
            });
        }
        (None, Some(member)) => ctx.lookup::<Streams, _>(Purpose::Read, key, |stream, _| {
            let stream = stream?;
            let last_id = stream.group_last_id(&member.group)?;
            Some((last_id, has_after(&stream, last_id)))
        })?,
    };
    let group = member.map_or(&[][..], |member| &member.group);
    position.ok_or_else(|| no_group_to_read(key, group))
}

fn no_group_to_read(key: &[u8], group: &[u8]) -> CommandError {
    let CommandError::Quoting(before, argument, _) = no_key_or_group(key, group) else {
        return CommandError::NoSuchKey;
    };
    CommandError::Quoting(before, argument, "' in XREADGROUP with GROUP option")
}

fn run(ctx: &mut Ctx<'_, '_>, options: Options) -> CommandResult {
    let places = places(ctx, &options)?;
    if let [From::After(after)] = places[..]
        && options.member.is_none()
        && options.count == 0
        && read_all(ctx, options.keys.start, after)?
    {
        return Ok(());
    }
    let mut body = Reply::new();
    body.set_resp3(ctx.out.is_resp3());
    let mut streams = 0;
    for (at, &from) in options.keys.clone().zip(&places) {
        let key = ctx.args.get(at);
        let is_read = match (&options.member, from) {
            (Some(_), From::Nothing) => false,
            (Some(member), from) => {
                read_as_member(ctx, key, (member, from), options.count, &mut body)?
            }
            (None, From::After(after)) => {
                let asks = |_: StreamView<'_>| behind(after, options.count);
                look(ctx, (Purpose::Write, key), Parts::NONE, &asks, |stream, _| {
                    let entries = stream.map(|stream| entries_after(stream, after, options.count));
                    let entries = entries.unwrap_or_default();
                    if entries.is_empty() {
                        return false;
                    }
                    answer_stream_name(key, &mut body);
                    answer_entries(&entries, &mut body);
                    true
                })?
            }
            (None, From::New | From::Nothing) => false,
        };
        streams += usize::from(is_read);
    }
    if streams > 0 {
        answer_streams(streams, ctx.out);
        ctx.out.raw(body.bytes());
        return Ok(());
    }
    ctx.out.null_array();
    if let Some(deadline) = options.block {
        let after = places.into_iter().map(|place| match place {
            From::After(id) => id,
            From::New | From::Nothing => LOWEST,
        });
        let count = if options.count == 0 { COUNT_AFTER_WAIT } else { options.count };
        let read = Read { after: after.collect(), count, member: options.member };
        wait(ctx, options.keys, Wants::Read(read), deadline);
    }
    Ok(())
}

/// Answers what a large stream has after an ID, which may be more than memory holds; false if that is nothing, or the stream is small.
fn read_all(ctx: &mut Ctx<'_, '_>, at: usize, after: StreamId) -> Result<bool, CommandError> {
    let (key, Some(start)) = (ctx.args.get(at), id_after(after)) else { return Ok(false) };
    let Some(paged) = ctx.paged::<Streams>(Purpose::Write, key)? else { return Ok(false) };
    if !ctx.client.long_reply.is_open() {
        let is_small = paged.descriptor.totals.bytes < PIECE_BYTES as u64;
        let last_id = Streamed::open(&paged).map_err(damaged)?.head.last_id;
        if is_small || last_id <= after {
            return Ok(false);
        }
        let last_id = ctx.read_pages(key, &paged, |stream: &Streamed, pages, _| {
            Ok(stream.last_valid_id(pages)?)
        });
        if last_id <= after {
            return Ok(false);
        }
    }
    ctx.answer_in_pieces(key, &paged, &Entries::read(key, start))?;
    Ok(true)
}

fn has_after(stream: &StreamView<'_>, after: StreamId) -> bool {
    stream.count() > 0 && after < stream.last_id() && stream.last_valid_id() > after
}

/// The entries pending for a consumer after an ID, at most `count` (0: all).
fn own_behind(consumer: &[u8], after: StreamId, count: u64) -> PendingAsked<'_> {
    let most = if count == 0 { usize::MAX } else { usize::try_from(count).unwrap_or(usize::MAX) };
    let span = |start| PendingSpan { start, most, consumer: Some(consumer), ..PendingSpan::ALL };
    id_after(after).map_or(PendingAsked::None, |start| PendingAsked::Span(span(start)))
}

/// Reads one stream on behalf of a group; false when there is nothing to be read.
fn read_as_member(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    (member, from): (&Member, From),
    count: u64,
    body: &mut Reply,
) -> Result<bool, CommandError> {
    let now_ms = wall_ms(ctx);
    let asks = |stream: StreamView<'_>| match from {
        From::Nothing => Vec::new(),
        From::New => {
            let last_id = stream.group_last_id(&member.group);
            last_id.map(|last_id| behind(last_id, count)).unwrap_or_default()
        }
        From::After(after) => {
            let groups = stream.groups();
            let group = group_at(&groups, &member.group).map(|at| &groups[at]);
            let own = group.map(|group| pending_behind(group, &member.consumer, after, count));
            each(own.into_iter().flatten())
        }
    };
    let pending = match from {
        From::After(after) => own_behind(&member.consumer, after, count),
        From::New | From::Nothing => PendingAsked::None,
    };
    let parts = Parts { first_id: true, ..Parts::group(&member.group, pending) };
    let Some(mut held) = hold_parts(ctx, (Purpose::Write, key), parts, &asks)? else {
        return Ok(false);
    };
    let delivered = {
        let stream = held.view();
        let groups = stream.groups();
        let Some(index) = group_at(&groups, &member.group) else { return Ok(false) };
        let place = (key, index);
        if let From::After(after) = from {
            answer_stream_name(key, body);
            deliver_again(stream, groups, place, member, (after, count), now_ms, body)
        } else {
            let entries = entries_after(stream, groups[index].last_id, count);
            if entries.is_empty() {
                return Ok(false);
            }
            answer_stream_name(key, body);
            deliver(stream, groups, place, member, &entries, now_ms, body)
        }
    };
    let event = delivered.is_new_consumer.then(|| Event::stream("xgroup-createconsumer"));
    store(ctx, key, (&mut held, &delivered.groups), event, &delivered.logged)?;
    Ok(true)
}
