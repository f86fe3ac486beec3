//! XTRIM and XDEL, and the trim that XADD can do.

use super::find;
use super::id::parse_strict;
use crate::dispatch::{Args, CommandError, CommandResult, Ctx, Purpose, REPLAY_MS, RemovedBefore};
use crate::events::Event;
use crate::keyspace::collection::stream::{Trim, TrimTo};
use crate::keyspace::collection::{Edit, Streams};
use crate::keyspace::paged::{Paged, Removed, Stop, Streamed, Structure};
use crate::number::parse_i64;
use sexton_engine::TxPages;
use sexton_engine::page::PageError;

/// The default limit of a rough trim, in nodes of `stream-node-max-entries` entries.
const NODES_OF_LIMIT: u64 = 100;
const LIMIT_WITHOUT_NODES: u64 = 10_000;
const LIMIT_MAX: u64 = 1_000_000;

/// Options of XADD and XTRIM as far as they have been read.
#[derive(Debug, Default)]
pub(super) struct TrimWords {
    to: Option<TrimTo>,
    is_rough: bool,
    limit: Option<u64>,
}

fn not_negative(text: &[u8], negative: &'static str) -> Result<u64, CommandError> {
    let number = parse_i64(text).ok_or(CommandError::NotInteger)?;
    u64::try_from(number).map_err(|_| CommandError::text(negative))
}

impl TrimWords {
    /// Takes the option at `at`; how many words it has: 0 for another option.
    pub(super) fn take(&mut self, args: Args<'_>, at: usize) -> Result<usize, CommandError> {
        let (word, more) = (args.get(at), args.len() - 1 - at);
        let by_count = word.eq_ignore_ascii_case(b"MAXLEN");
        if more > 0 && (by_count || word.eq_ignore_ascii_case(b"MINID")) {
            if self.to.is_some() {
                return Err(CommandError::text(
                    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
                ));
            }
            let sign = more >= 2 && matches!(args.get(at + 1), b"~" | b"=");
            self.is_rough = sign && args.get(at + 1) == b"~";
            let value = args.get(at + 1 + usize::from(sign));
            self.to = Some(if by_count {
                TrimTo::Entries(not_negative(value, "ERR The MAXLEN argument must be >= 0.")?)
            } else {
                TrimTo::From(parse_strict(value, 0)?)
            });
            return Ok(2 + usize::from(sign));
        }
        if more > 0 && word.eq_ignore_ascii_case(b"LIMIT") {
            let limit = not_negative(args.get(at + 1), "ERR The LIMIT argument must be >= 0.")?;
            self.limit = Some(limit);
            return Ok(2);
        }
        Ok(0)
    }

    /// The requested trim. Replay applies no limit: the logged trim was already limited.
    pub(super) fn finish(self, ctx: &Ctx<'_, '_>) -> Result<Option<Trim>, CommandError> {
        if self.limit.is_some_and(|limit| limit > 0) && self.to.is_none() {
            return Err(CommandError::text(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            ));
        }
        let limit = match self.limit {
            _ if ctx.now_ms == REPLAY_MS => 0,
            Some(_) if !self.is_rough && self.to.is_some() => {
                return Err(CommandError::text(
                    "ERR syntax error, LIMIT cannot be used without the special ~ option",
                ));
            }
            Some(limit) => limit,
            None if !self.is_rough => 0,
            None => match ctx.thresholds().stream_node_entries {
                0 => LIMIT_WITHOUT_NODES,
                entries => entries.saturating_mul(NODES_OF_LIMIT).min(LIMIT_MAX),
            },
        };
        Ok(self.to.map(|to| Trim { to, is_rough: self.is_rough, limit, nodes_max: u64::MAX }))
    }
}

/// Storage has failed a command.
pub(super) fn damaged(error: PageError) -> CommandError {
    format!("ERR storage: a stream: {error}").into()
}

/// Changes a paged stream: one operation, reported as `event`. Returns the numbers of removed and of remaining entries. An empty
/// stream is stored in one record again. `None`: the operation left it unchanged. The caller logs it.
pub(super) fn change(
    ctx: &mut Ctx<'_, '_>,
    (key, paged): (&[u8], &Paged),
    event: Event,
    mut operation: impl FnMut(&mut TxPages<'_, '_, '_>, &mut Streamed) -> Result<Option<Removed>, Stop>,
) -> Result<Option<(u64, u64)>, CommandError> {
    let mut all = None;
    let done = ctx.change_pages(key, paged, event, |pages, stream: &mut Streamed| {
        Ok(match operation(pages, stream)? {
            Some(Removed::All(count, edit)) => {
                all = Some((count, edit));
                None
            }
            Some(Removed::Some(count)) => Some(count),
            Some(Removed::Nothing) => Some(0),
            None => None,
        })
    });
    let Some((count, edit)) = all else { return Ok(done) };
    ctx.write_back(key, &*edit, paged.meta.expire_at_ms, event)?;
    Ok(Some((count, 0)))
}

/// Trims a paged stream: one operation, or none if nothing goes. Answers how many entries earlier runs and this one have removed, and how
/// many are left. `None` if more are to go in the next run; then this one is logged. `parts_only`: what can go at once stays.
pub(super) fn trim_pages(
    ctx: &mut Ctx<'_, '_>,
    (key, paged): (&[u8], &Paged),
    (trim, parts_only): (Trim, bool),
    before: RemovedBefore,
) -> Result<Option<(u64, u64)>, CommandError> {
    let (db, len, most) = (ctx.client.db, paged.count() as u64, ctx.removed_max(paged));
    let all = match trim.to {
        TrimTo::Entries(max) => len.saturating_sub(max),
        TrimTo::From(_) => len,
    };
    let rest = before.rest.map_or(all, |rest| rest[0]);
    let to = match trim.to {
        // What is added between two runs is not to go.
        TrimTo::Entries(max) => TrimTo::Entries(max.max(len.saturating_sub(rest))),
        from @ TrimTo::From(_) => from,
    };
    if before.elements > 0 && (rest == 0 || trim.limit == before.elements) {
        return Ok(Some((before.elements, len)));
    }
    let limit = trim.limit.saturating_sub(before.elements);
    let nodes_max = Streamed::open(paged).map_err(damaged)?.nodes_of(most);
    let trim = Trim { to, limit, nodes_max, ..trim };
    let (on_worker, mut is_part) = (ctx.client.may_hand_over, false);
    let done = change(ctx, (key, paged), Event::stream("xtrim"), |pages, stream| {
        let plan = stream.plan(pages, trim)?;
        is_part = plan.is_cut;
        let all_stay = if is_part { on_worker } else { parts_only };
        if all_stay {
            return Ok(None);
        }
        let removed = stream.trim(pages, &plan)?;
        Ok(Some(removed).filter(|removed| !removed.is_nothing()))
    })?;
    if is_part {
        ctx.hand_over_changes(u64::MAX);
    }
    let (removed, left) = done.unwrap_or((0, len));
    if is_part && left > 0 {
        let kept = left.to_string();
        ctx.log(db, &[b"XTRIM", key, b"MAXLEN", b"=", kept.as_bytes()]);
        ctx.removes_more(removed, [rest.saturating_sub(removed), 0]);
        return Ok(None);
    }
    Ok(Some((before.elements + removed, left)))
}

/// XTRIM key MAXLEN|MINID [=|~] threshold [LIMIT count]. One operation, or none if nothing is removed. A rough trim is logged
/// as an exact one to its result.
pub(super) fn xtrim(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, args, key) = (ctx.client.db, ctx.args, ctx.args.get(1));
    let (mut words, mut at) = (TrimWords::default(), 2);
    while at < args.len() {
        match words.take(args, at)? {
            0 => return Err(CommandError::Syntax),
            taken => at += taken,
        }
    }
    let trim = words.finish(ctx)?.ok_or(CommandError::text(
        "ERR syntax error, XTRIM must be called with a trimming strategy",
    ))?;
    let paged = ctx.paged::<Streams>(Purpose::Write, key)?;
    let Some(before) = ctx.removed_before_this(paged.as_ref()) else { return Ok(()) };
    let (removed, left) = if let Some(paged) = paged {
        match trim_pages(ctx, (key, &paged), (trim, false), before)? {
            Some(done) => done,
            None => return Ok(()),
        }
    } else {
        let Some((mut edit, expire_at_ms)) = find(ctx, (Purpose::Write, key), 0)? else {
            ctx.out.int(0);
            return Ok(());
        };
        let removed = edit.trim(trim);
        if removed > 0 {
            ctx.write_back(key, &edit, expire_at_ms, Event::stream("xtrim"))?;
        }
        (removed, edit.len() as u64)
    };
    if removed > before.elements {
        if trim.is_rough || before.elements > 0 {
            let left = left.to_string();
            ctx.log(db, &[b"XTRIM", key, b"MAXLEN", b"=", left.as_bytes()]);
        } else {
            ctx.log_request();
        }
    }
    ctx.out.int(removed as i64);
    Ok(())
}

/// XDEL key id [id ...]. One operation, or none if no entry exists; logged verbatim.
pub(super) fn xdel(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (key, event) = (ctx.args.get(1), Event::stream("xdel"));
    let ids = |ctx: &Ctx<'_, '_>| {
        ctx.args.from(2).map(|id| parse_strict(id, 0)).collect::<Result<Vec<_>, _>>()
    };
    let deleted = if let Some(paged) = ctx.paged::<Streams>(Purpose::Write, key)? {
        let ids = ids(ctx)?;
        let done = change(ctx, (key, &paged), event, |pages, stream| {
            Ok(Some(stream.delete(pages, &ids)?).filter(|removed| !removed.is_nothing()))
        })?;
        done.unwrap_or_default().0
    } else {
        let Some((mut edit, expire_at_ms)) = find(ctx, (Purpose::Write, key), 0)? else {
            ctx.out.int(0);
            return Ok(());
        };
        let deleted = ids(ctx)?.into_iter().filter(|&id| edit.delete(id)).count();
        if deleted > 0 {
            ctx.write_back(key, &edit, expire_at_ms, event)?;
        }
        deleted as u64
    };
    if deleted > 0 {
        ctx.log_request();
    }
    ctx.out.int(deleted as i64);
    Ok(())
}
