//! SPOP and SRANDMEMBER.

use crate::commands::chance::{below, sample};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{SetEdit, Sets};
use crate::number::parse_i64;

/// SPOP key [count]: one operation, logged as the SREM or DEL of what went.
pub(super) fn spop(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, key) = (ctx.client.db, ctx.args.get(1));
    let count = match ctx.args.len() {
        2 => None,
        3 => Some(
            parse_i64(ctx.args.get(2))
                .and_then(|count| usize::try_from(count).ok())
                .ok_or(CommandError::text("ERR value is out of range, must be positive"))?,
        ),
        _ => return Err(CommandError::Syntax),
    };
    let found = ctx.lookup::<Sets, _>(Purpose::Write, key, |set, _| {
        set.map(|set| {
            let wanted = count.unwrap_or(1);
            let taken: Vec<Vec<u8>> =
                sample(set.iter(), set.count(), wanted).map(|member| member.into_owned()).collect();
            (taken, set.count(), set.edit(), set.expire_at_ms())
        })
    })?;
    let Some((taken, before, mut set, expire_at_ms)) = found else {
        match count {
            None => ctx.out.null(),
            Some(_) => ctx.out.set(0),
        }
        return Ok(());
    };
    if !taken.is_empty() {
        if taken.len() == before {
            set = SetEdit::default();
        } else {
            set.remove_all(taken.iter().map(Vec::as_slice));
        }
        ctx.write_back(key, &set, expire_at_ms, Event::set("spop"))?;
        if taken.len() == before {
            ctx.log(db, &[b"DEL", key]);
        } else {
            let mut words: Vec<&[u8]> = vec![b"SREM", key];
            words.extend(taken.iter().map(Vec::as_slice));
            ctx.log(db, &words);
        }
    }
    if count.is_some() {
        ctx.out.set(taken.len());
    }
    taken.iter().for_each(|member| ctx.out.bulk(member));
    Ok(())
}

/// SRANDMEMBER key [count]: a negative count draws with repetitions.
pub(super) fn srandmember(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    if ctx.args.len() == 2 {
        return ctx.lookup::<Sets, _>(Purpose::Read, key, |set, out| {
            match set.and_then(|set| set.iter().nth(below(set.count()))) {
                Some(member) => out.bulk(&member),
                None => out.null(),
            }
        });
    }
    if ctx.args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let count = ctx.int_arg(2)?;
    if count == i64::MIN {
        return Err(CommandError::text(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    ctx.lookup::<Sets, _>(Purpose::Read, key, |set, out| {
        let Some(set) = set else {
            out.array(0);
            return;
        };
        if count >= 0 {
            out.array(wanted.min(set.count()));
            sample(set.iter(), set.count(), wanted).for_each(|member| out.bulk(&member));
            return;
        }
        out.array(wanted);
        let members: Vec<_> = set.iter().collect();
        for _ in 0..wanted {
            // What does not fit into memory is refused in the end, whatever would follow.
            let Some(member) = members.get(below(members.len().max(1))).filter(|_| !out.is_cut())
            else {
                return;
            };
            out.bulk(member);
        }
    })
}
