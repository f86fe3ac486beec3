//! XPENDING.

use super::held::{look, nothing};
use super::id::{parse_end, parse_start};
use super::{group_at, no_key_or_group, wall_ms};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::keyspace::collection::stream::{Group, id_text};
use crate::keyspace::paged::{Parts, PendingAsked, PendingSpan};
use crate::resp::Reply;

/// XPENDING key group [[IDLE min-idle-time] start end count [consumer]].
pub(super) fn xpending(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (args, key, name) = (ctx.args, ctx.args.get(1), ctx.args.get(2));
    let now_ms = wall_ms(ctx);
    let mut asked = None;
    match args.len() {
        3 => {}
        6..=9 => {
            let (mut at, mut idle_min_ms) = (3, 0);
            if args.get(3).eq_ignore_ascii_case(b"IDLE") {
                idle_min_ms = ctx.int_arg(4)?;
                if args.len() < 8 {
                    return Err(CommandError::Syntax);
                }
                at = 5;
            }
            let most = usize::try_from(ctx.int_arg(at + 2)?).unwrap_or(0);
            let (start, end) = (parse_start(args.get(at))?, parse_end(args.get(at + 1))?);
            let consumer = (at + 3 < args.len()).then(|| args.get(at + 3));
            asked = Some((start, end, most, idle_min_ms, consumer));
        }
        _ => return Err(CommandError::Syntax),
    }
    let pending = match asked {
        None => PendingAsked::Ends,
        Some((start, end, most, idle_min_ms, consumer)) => {
            let delivered_max_ms = match idle_min_ms {
                0 => i64::MAX,
                _ => (now_ms as i64).saturating_sub(idle_min_ms),
            };
            PendingAsked::Span(PendingSpan { start, end, most, consumer, delivered_max_ms })
        }
    };
    look(ctx, (Purpose::Read, key), Parts::group(name, pending), &nothing, |stream, out| {
        let groups = stream.map_or_else(Vec::new, |stream| stream.groups());
        let group = &groups[group_at(&groups, name).ok_or_else(|| no_key_or_group(key, name))?];
        let Some((start, end, most, idle_min_ms, consumer)) = asked else {
            summary(group, out);
            return Ok(());
        };
        let consumer = consumer.map(|name| group.find_consumer(name));
        let idle_ms = |delivered_ms: u64| now_ms as i64 - delivered_ms as i64;
        let found: Vec<_> = group
            .pending
            .iter()
            .filter(|pending| consumer.is_none_or(|at| at == Some(pending.consumer)))
            .filter(|pending| (start..=end).contains(&pending.id))
            .filter(|pending| idle_min_ms == 0 || idle_ms(pending.delivered_ms) >= idle_min_ms)
            .take(most)
            .collect();
        out.array(found.len());
        for pending in found {
            out.array(4);
            out.bulk(id_text(pending.id).as_bytes());
            out.bulk(&group.consumers[pending.consumer].name);
            out.int(idle_ms(pending.delivered_ms).max(0));
            out.int(pending.deliveries as i64);
        }
        Ok(())
    })?
}

/// The summary of pending entries: their number, the first and the last, and the number per consumer.
fn summary(group: &Group, out: &mut Reply) {
    out.array(4);
    out.int(group.totals.entries as i64);
    let Some((first, last)) = group.totals.ends else {
        out.null();
        out.null();
        out.null_array();
        return;
    };
    out.bulk(id_text(first).as_bytes());
    out.bulk(id_text(last).as_bytes());
    let shown = || group.consumers.iter().filter(|consumer| consumer.pending > 0);
    out.array(shown().count());
    for consumer in shown() {
        out.array(2);
        out.bulk(&consumer.name);
        out.bulk(consumer.pending.to_string().as_bytes());
    }
}
