//! Reads new entries of a stream, for a command or for a blocked client.

use super::collection::StreamView;
use super::collection::stream::{EntryView, Group, HIGHEST, Pending, Span, id_after, id_text};
use crate::blocking::Member;
use crate::resp::Reply;
use sexton_persistence::rdb::StreamId;
use std::collections::BTreeMap;

/// A command of the log, word by word.
pub type Logged = Vec<Vec<u8>>;

/// What a read on behalf of a group leaves.
#[derive(Debug)]
pub struct Delivered {
    /// The stream's groups from now on.
    pub groups: Vec<Group>,
    /// The consumer is a new one.
    pub is_new_consumer: bool,
    /// The commands to log; each corresponds to one operation.
    pub logged: Vec<Logged>,
}

/// Answers an entry.
pub fn answer_entry(entry: &EntryView<'_>, out: &mut Reply) {
    out.array(2);
    out.bulk(id_text(entry.id).as_bytes());
    out.array(2 * entry.fields());
    for (field, value) in entry.pairs() {
        out.bulk(field);
        out.bulk(value);
    }
}

/// Answers entries.
pub fn answer_entries(entries: &[EntryView<'_>], out: &mut Reply) {
    out.array(entries.len());
    entries.iter().for_each(|entry| answer_entry(entry, out));
}

/// At most `count` entries after `after`; 0 for all.
#[must_use]
pub fn entries_after(view: StreamView<'_>, after: StreamId, count: u64) -> Vec<EntryView<'_>> {
    let Some(start) = id_after(after) else { return Vec::new() };
    let most = if count == 0 { usize::MAX } else { usize::try_from(count).unwrap_or(usize::MAX) };
    view.range(start, HIGHEST).take(most).collect()
}

/// At most `count` entries after an ID; 0 for all.
#[must_use]
pub fn behind(after: StreamId, count: u64) -> Vec<Span> {
    let most = if count == 0 { usize::MAX } else { usize::try_from(count).unwrap_or(usize::MAX) };
    let start = id_after(after);
    start.map(|start| Span { start, end: HIGHEST, most, is_back: false }).into_iter().collect()
}

/// Begins the answer of one of the streams that XREAD reads.
pub fn answer_stream_name(key: &[u8], out: &mut Reply) {
    if !out.is_resp3() {
        out.array(2);
    }
    out.bulk(key);
}

/// Begins the reply of XREAD for `count` streams.
pub fn answer_streams(count: usize, out: &mut Reply) {
    if out.is_resp3() { out.map(count) } else { out.array(count) }
}

/// The words of a command.
#[must_use]
pub fn words(words: &[&[u8]]) -> Logged {
    words.iter().map(|word| word.to_vec()).collect()
}

/// How the log sets what a group has read up to.
#[must_use]
pub fn logged_position(key: &[u8], group: &Group) -> Logged {
    let read = group.entries_read.map_or_else(|| "-1".to_owned(), |read| read.to_string());
    let id = id_text(group.last_id);
    words(&[b"XGROUP", b"SETID", key, &group.name, id.as_bytes(), b"ENTRIESREAD", read.as_bytes()])
}

/// The log form of a delivery to a consumer: all entries have one delivery time and count.
#[must_use]
pub fn logged_claim(
    key: &[u8],
    (group, consumer): (&Group, &[u8]),
    ids: &[StreamId],
    (delivered_ms, deliveries): (u64, u64),
) -> Logged {
    let mut logged = words(&[b"XCLAIM", key, &group.name, consumer, b"0"]);
    logged.extend(ids.iter().map(|&id| id_text(id).into_bytes()));
    let (time, count) = (delivered_ms.to_string(), deliveries.to_string());
    let options: [&[u8]; 8] = [
        b"TIME",
        time.as_bytes(),
        b"RETRYCOUNT",
        count.as_bytes(),
        b"FORCE",
        b"JUSTID",
        b"LASTID",
        &id_text(group.last_id).into_bytes(),
    ];
    logged.extend(options.map(<[u8]>::to_vec));
    logged
}

/// Delivers new entries, of which there is one at least, to a member of the group at `index` of `groups`, the stream's, and answers
/// them.
pub fn deliver(
    view: StreamView<'_>,
    mut groups: Vec<Group>,
    (key, index): (&[u8], usize),
    member: &Member,
    entries: &[EntryView<'_>],
    now_ms: u64,
    out: &mut Reply,
) -> Delivered {
    let group = &mut groups[index];
    let (consumer, is_new_consumer) = group.consumer_or_new(&member.consumer, now_ms);
    group.consumers[consumer].seen_ms = now_ms;
    answer_entries(entries, out);
    for entry in entries {
        match group.entries_read {
            Some(read) if !view.has_deleted_from(entry.id) => group.entries_read = Some(read + 1),
            _ if view.entries_added() > 0 => group.entries_read = view.entries_up_to(entry.id),
            _ => {}
        }
        group.last_id = entry.id;
        if member.acknowledges {
            continue;
        }
        let new = Pending { id: entry.id, delivered_ms: now_ms, deliveries: 1, consumer };
        match group.find_pending(entry.id) {
            Ok(at) => group.pending[at] = new,
            Err(at) => group.pending.insert(at, new),
        }
    }
    let mut logged = Vec::new();
    if !member.acknowledges {
        let ids: Vec<_> = entries.iter().map(|entry| entry.id).collect();
        logged.push(logged_claim(key, (group, &member.consumer), &ids, (now_ms, 1)));
    } else if is_new_consumer {
        logged.push(words(&[b"XGROUP", b"CREATECONSUMER", key, &group.name, &member.consumer]));
    }
    logged.push(logged_position(key, group));
    Delivered { groups, is_new_consumer, logged }
}

/// The entries pending for a consumer after `after`, at most `count` (0: all).
#[must_use]
pub fn pending_behind(
    group: &Group,
    consumer: &[u8],
    after: StreamId,
    count: u64,
) -> Vec<StreamId> {
    let Some(consumer) = group.find_consumer(consumer) else { return Vec::new() };
    let most = if count == 0 { usize::MAX } else { usize::try_from(count).unwrap_or(usize::MAX) };
    let first = group.find_pending(after).map_or_else(|at| at, |at| at + 1);
    let own = group.pending[first..].iter().filter(|pending| pending.consumer == consumer);
    own.take(most).map(|pending| pending.id).collect()
}

/// Answers the entries pending for a member of the group at `index` of `groups`, the stream's, after `after`, at most `count` (0:
/// all). Entries that still exist count as delivered once more.
pub fn deliver_again(
    view: StreamView<'_>,
    mut groups: Vec<Group>,
    (key, index): (&[u8], usize),
    member: &Member,
    (after, count): (StreamId, u64),
    now_ms: u64,
    out: &mut Reply,
) -> Delivered {
    let group = &mut groups[index];
    let (consumer, is_new_consumer) = group.consumer_or_new(&member.consumer, now_ms);
    group.consumers[consumer].seen_ms = now_ms;
    let most = if count == 0 { usize::MAX } else { usize::try_from(count).unwrap_or(usize::MAX) };
    let first = group.find_pending(after).map_or_else(|at| at, |at| at + 1);
    let own = group.pending[first..].iter_mut().filter(|pending| pending.consumer == consumer);
    let own: Vec<_> = own.take(most).collect();
    out.array(own.len());
    let mut again: BTreeMap<u64, Vec<StreamId>> = BTreeMap::new();
    for pending in own {
        if let Some(entry) = view.entry(pending.id) {
            answer_entry(&entry, out);
            pending.delivered_ms = now_ms;
            pending.deliveries = pending.deliveries.wrapping_add(1);
            again.entry(pending.deliveries).or_default().push(pending.id);
        } else {
            out.array(2);
            out.bulk(id_text(pending.id).as_bytes());
            out.null_array();
        }
    }
    let who = (&*group, member.consumer.as_slice());
    let mut logged: Vec<_> =
        again.iter().map(|(&times, ids)| logged_claim(key, who, ids, (now_ms, times))).collect();
    if is_new_consumer {
        logged.push(words(&[b"XGROUP", b"CREATECONSUMER", key, &group.name, &member.consumer]));
    }
    Delivered { groups, is_new_consumer, logged }
}
