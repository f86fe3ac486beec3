//! The end of a transaction: its place in the order of writes, or nothing of it.

use super::CommandError;
use super::after::refuse;
use super::call::Called;
use super::client::Client;
use super::latch::Scope;
use crate::blocking::{STREAM_IS_GONE, Waiter, Wants};
use crate::clock::now_ms;
use crate::events::{Changes, Event};
use crate::keyspace::Kind;
use crate::keyspace::collection::stream::Excerpt;
use crate::keyspace::collection::{Edit, StreamEdit, StreamView, Streams};
use crate::keyspace::paged::{self, Failed, Paged, Parts, PendingAsked, Streamed, Structure, over};
use crate::keyspace::pop::take;
use crate::keyspace::stream_read::{
    answer_entries, answer_stream_name, answer_streams, behind, deliver, entries_after,
};
use crate::log;
use crate::resp::{Reply, write_command};
use crate::server::Server;
use crate::value::ValueType;
use sexton_engine::{EngineError, Found, Key, Seq, SyncPolicy, Tx};
use std::sync::Arc;

/// Tells watchers, commits, and tells those who cache; the reply waits for the sequence that it answers (N13). One that has written nothing may have read what
/// is not durable yet: with `appendfsync always` its reply waits for the last write of its keys.
pub(super) fn commit(
    server: &Server,
    mut tx: Tx<'_>,
    changes: &mut Changes,
    scope: Scope,
    hashes: &[u64],
) -> Seq {
    let engine = &server.engine;
    let served = match changes.take_ready() {
        ready if ready.is_empty() => Vec::new(),
        ready => serve(server, &mut tx, changes, ready),
    };
    changes.signal(&server.events);
    if tx.holds_all() {
        server.functions.keep();
    }
    let required = tx.commit().last_seq;
    changes.tell_caches(&server.events, server.post());
    for (waiter, reply) in served {
        waiter.answer(reply, required);
    }
    if required != 0 || engine.sync_policy() != SyncPolicy::Always {
        return required;
    }
    match scope {
        Scope::Keys => hashes.iter().map(|&hash| engine.last_write(hash)).max().unwrap_or(0),
        _ => engine.last_seq(),
    }
}

/// Takes out what others wait for of the keys that the transaction has written, the oldest first. Answers who has got what.
#[cold]
fn serve(
    server: &Server,
    tx: &mut Tx<'_>,
    changes: &mut Changes,
    ready: Vec<(usize, Vec<u8>)>,
) -> Vec<(Arc<Waiter>, Vec<u8>)> {
    let (engine, events) = (&server.engine, &server.events);
    let mut served = Vec::new();
    for (db, bytes) in ready {
        let key = Key { slot: engine.slot_of(db), bytes: &bytes, hash: engine.hash(&bytes) };
        for waiter in server.blocking.readers_of(db, &bytes) {
            serve_reader(server, tx, changes, (db, key), &waiter, &mut served);
        }
        loop {
            let (kind, popped_by) = match tx.find(key) {
                Found::Absent => break,
                // Its database is another one now. Who waits for it looks by itself.
                Found::Cold => (None, None),
                Found::Live(entry) if entry.meta().is_expired(now_ms()) => break,
                Found::Live(entry) => (ValueType::of(entry.meta().flags), Some(entry)),
            };
            let Some(waiter) = server.blocking.of(db, &bytes, |waiter| waiter.fits(kind)) else {
                break;
            };
            let (Wants::Pop(pop), Some(entry)) = (&waiter.wants, popped_by) else {
                waiter.wake();
                break;
            };
            let popped = match Paged::of_entry(entry) {
                Ok(None) => {
                    let Some(popped) = take(entry, *pop) else { break };
                    if !waiter.claim() {
                        continue;
                    }
                    popped
                }
                Err(_) => break,
                Ok(Some(_)) if !engine.takes_pages() => {
                    waiter.wake();
                    break;
                }
                Ok(Some(paged)) => {
                    // Claimed first: what is taken out of pages is gone from them.
                    if !waiter.claim() {
                        continue;
                    }
                    // Whoever has just written a list has its ends in memory; of a sorted set pages may be read here.
                    match paged::take(tx, key, &paged, *pop, true) {
                        Ok(popped) => popped,
                        Err(failed) => {
                            server.blocking.remove(&waiter);
                            let mut reply = Reply::new();
                            reply.error(format!("ERR storage: {failed}").as_bytes());
                            served.push((waiter, reply.bytes().to_vec()));
                            continue;
                        }
                    }
                }
            };
            // Nobody else's request has done it: with NOLOOP, too, the writer's own client is to hear of it.
            changes.modify(events, db, &bytes, Some(popped.event()));
            match popped.rest() {
                Some((meta, value)) => {
                    paged::put(tx, key, meta, value, server.settings.thresholds.inline_bytes());
                }
                None if !popped.takes_all() => {}
                None => {
                    tx.delete(key);
                    changes.modify(events, db, &bytes, Some(Event::generic("del")));
                }
            }
            let logged = popped.logged(&bytes);
            write_command(tx.log_form(db), logged.iter().map(Vec::as_slice));
            server.blocking.remove(&waiter);
            let mut reply = Reply::new();
            reply.set_resp3(waiter.resp3);
            popped.answer(&bytes, &mut reply);
            served.push((waiter, reply.bytes().to_vec()));
        }
    }
    // These changes are nothing that anybody else could have.
    let _ = changes.take_ready();
    served
}

/// Gives somebody who waits for what is new in a stream what there is, or says that there will be nothing.
fn serve_reader(
    server: &Server,
    tx: &mut Tx<'_>,
    changes: &mut Changes,
    (db, key): (usize, Key<'_>),
    waiter: &Arc<Waiter>,
    served: &mut Vec<(Arc<Waiter>, Vec<u8>)>,
) {
    let Wants::Read(read) = &waiter.wants else { return };
    let mut reply = Reply::new();
    reply.set_resp3(waiter.resp3);
    let mut delivered = None;
    let place = waiter.keys.iter().position(|other| other == key.bytes).unwrap_or_default();
    let after = read.after.get(place).copied().unwrap_or_default();
    let paged = match tx.find(key) {
        Found::Live(entry) if entry.meta().is_expired(now_ms()) => return,
        Found::Live(entry) => Paged::of_entry(entry),
        Found::Absent => Ok(None),
        Found::Cold => {
            waiter.wake();
            return;
        }
    };
    let paged = paged.map(|paged| paged.filter(|of| of.value_type() == Some(ValueType::Stream)));
    if matches!(paged, Ok(Some(_))) && !server.engine.takes_pages() {
        waiter.wake();
        return;
    }
    let asks = |stream: StreamView<'_>| {
        let group = read.member.as_ref().map(|member| stream.group_last_id(&member.group));
        let after = group.unwrap_or(Some(after));
        after.map(|after| behind(after, read.count)).unwrap_or_default()
    };
    // Whoever has just written it has its end in memory; other pages may be read here.
    let parts = match &read.member {
        Some(member) => Parts { first_id: true, ..Parts::group(&member.group, PendingAsked::None) },
        None => Parts::NONE,
    };
    let excerpt = match &paged {
        Ok(Some(paged)) => over(tx, key, paged.descriptor.collection, true, |pages| {
            Streamed::open(paged)?.excerpt(&pages, parts, asks).map(Some)
        }),
        Ok(None) => Ok(None),
        Err(error) => Err(Failed::Storage(EngineError::Storage(error.to_string()))),
    };
    let stream = match (&excerpt, tx.find(key)) {
        (Ok(Some(excerpt)), _) => Some(excerpt.view()),
        (Ok(None), Found::Live(entry)) => Streams::view(entry),
        (Ok(None), _) => None,
        (Err(failed), _) => {
            if waiter.claim() {
                reply.error(format!("ERR storage: {failed}").as_bytes());
                server.blocking.remove(waiter);
                served.push((Arc::clone(waiter), reply.bytes().to_vec()));
            }
            return;
        }
    };
    match (&read.member, stream) {
        (None, None) => return,
        (Some(_), None) => reply.error(STREAM_IS_GONE),
        (None, Some(stream)) => {
            let entries = entries_after(stream, after, read.count);
            if entries.is_empty() {
                return;
            }
            answer_streams(1, &mut reply);
            answer_stream_name(key.bytes, &mut reply);
            answer_entries(&entries, &mut reply);
        }
        (Some(member), Some(stream)) => {
            let groups = stream.groups();
            match groups.iter().position(|group| group.name == member.group) {
                None => reply.error(
                    b"NOGROUP the consumer group this client was blocked on no longer exists",
                ),
                Some(index) => {
                    let entries = entries_after(stream, groups[index].last_id, read.count);
                    if entries.is_empty() {
                        return;
                    }
                    answer_streams(1, &mut reply);
                    answer_stream_name(key.bytes, &mut reply);
                    let at = (key.bytes, index);
                    let done = deliver(stream, groups, at, member, &entries, now_ms(), &mut reply);
                    let whole = excerpt.as_ref().is_ok_and(Option::is_none);
                    let edit = whole.then(|| {
                        let mut edit = stream.edit(0);
                        edit.set_groups(&done.groups);
                        edit
                    });
                    delivered = Some((done, edit, stream.expire_at_ms()));
                }
            }
        }
    }
    if !waiter.claim() {
        return;
    }
    if let Some((done, edit, expire_at_ms)) = delivered {
        let new = done.is_new_consumer.then(|| Event::stream("xgroup-createconsumer"));
        changes.write(&server.events, db, key.bytes, new);
        let before = excerpt.iter().flatten().next().map(Excerpt::groups);
        let (mut root, mut before) = (paged.ok().flatten(), before);
        for logged in &done.logged {
            if let Some(edit) = &edit {
                tx.put(key, StreamEdit::expiring_at(expire_at_ms), edit.bytes());
            } else if let Some(root) = &mut root {
                let mut new = root.clone();
                let written = paged::change(tx, key, root, true, |pages, stream: &mut Streamed| {
                    // Each command of the log is an operation; the first one does what is to be done.
                    if let Some(before) = before {
                        stream.change_groups(pages, before, &done.groups)?;
                    }
                    new.becomes(stream);
                    Ok(Some(()))
                });
                (*root, before) = (new, None);
                if let Err(failed) = written {
                    // Nothing was written of this command, so the log does not hear of it.
                    reply = Reply::new();
                    reply.error(format!("ERR storage: {failed}").as_bytes());
                    break;
                }
            }
            write_command(tx.log_form(db), logged.iter().map(Vec::as_slice));
        }
    }
    server.blocking.remove(waiter);
    served.push((Arc::clone(waiter), reply.bytes().to_vec()));
}

/// Why a request that writes nothing cannot be told of writes up to `required`: they are not durable, and nobody knows
/// whether they will be (N2). An error, where the reply would be held for ever and its connection closed.
pub(super) fn untellable(server: &Server, required: Seq) -> Option<CommandError> {
    let engine = &server.engine;
    if required == 0 || engine.given_up_through() < required || engine.durable() >= required {
        return None;
    }
    let reason = engine.write_refusal().unwrap_or_else(|| "the log has failed".to_owned());
    Some(
        format!(
            "MISCONF The answer depends on writes that may be lost. Errors writing to the AOF file: {reason}"
        )
        .into(),
    )
}

/// What follows a commit: listeners hear of the changes, and a reply (from `mark` on) that wrote nothing and would tell of
/// writes that may be lost becomes an error. `required`: the sequence that the reply waits for by its own account. Answers
/// what the call is now, and the sequence that the reply waits for with what [`Client::hold_reply`] was told.
pub(super) fn publish(
    server: &Server,
    client: &mut Client,
    changes: &mut Changes,
    (out, mark): (&mut Reply, usize),
    has_written: bool,
    (called, required): (Called, Seq),
) -> (Called, Seq) {
    let required = required.max(client.take_hold());
    tell(server, changes, required);
    match untellable(server, required) {
        Some(error) if !has_written => (refuse(server, client, out, &error, mark), 0),
        _ => (called, required),
    }
}

/// What a transaction that depends on writes up to `required` has changed and looked at becomes known.
pub(super) fn tell(server: &Server, changes: &mut Changes, required: Seq) {
    let (hits, misses) = changes.take_lookups();
    server.stats.count_lookups(hits, misses);
    changes.publish(&server.events, required);
}

/// Takes back what a transaction has written. Where a part of it has its place in the order of writes already, that
/// cannot be done: the process ends, and the next start finds the state without any of it.
pub(super) fn take_back(server: &Server, tx: Tx<'_>, changes: &mut Changes, name: &str) {
    if tx.is_part_committed() {
        log::warning(&format!(
            "A transaction failed in '{name}' behind an operation on a whole database and cannot be taken back: the \
             process ends, and the next start leaves it out"
        ));
        std::process::abort();
    }
    if tx.holds_all() {
        server.functions.take_back();
    }
    drop(tx);
    changes.forget();
}
