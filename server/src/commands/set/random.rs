//! SPOP and SRANDMEMBER.

use crate::commands::chance::{below, sample};
use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::{SetEdit, Sets};
use crate::keyspace::paged::{Draws, Keyed, Paged};
use crate::number::parse_i64;
use crate::random::random;

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
    if let Some(paged) = ctx.paged::<Sets>(Purpose::Write, key)?
        && count.unwrap_or(1) < paged.count()
    {
        return pop_of_pages(ctx, key, &paged, count);
    }
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

/// Takes fewer members out of a set in pages than it has.
fn pop_of_pages(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    paged: &Paged,
    count: Option<usize>,
) -> CommandResult {
    let draws = Draws { random: random(), wanted: count.unwrap_or(1) as u64, differ: true };
    ctx.hand_over_changes(draws.wanted);
    let popped = ctx.change_pages(key, paged, Event::set("spop"), |pages, set: &mut Keyed| {
        let mut taken = Vec::new();
        for nth in 0..draws.wanted {
            let drawn = set.draw(pages, &draws, nth);
            let drawn = drawn
                .map_err(|missed| set.missing_of_draws(pages, &draws, nth..draws.wanted, missed))?;
            if let Some((member, _)) = drawn {
                set.remove(pages, &member)?;
                taken.push(member);
            }
        }
        Ok((!taken.is_empty()).then_some(taken))
    });
    let taken = popped.map_or_else(Vec::new, |(taken, _)| taken);
    if !taken.is_empty() {
        let mut words: Vec<&[u8]> = vec![b"SREM", key];
        words.extend(taken.iter().map(Vec::as_slice));
        ctx.log(ctx.client.db, &words);
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
        if let Some(paged) = ctx.paged::<Sets>(Purpose::Read, key)? {
            let draws = Draws { random: random(), wanted: 1, differ: false };
            ctx.read_pages(key, &paged, |set: &Keyed, pages, out| {
                match set.draw(pages, &draws, 0)? {
                    Some((member, _)) => out.bulk(&member),
                    None => out.null(),
                }
                Ok(())
            });
            return Ok(());
        }
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
    if let Some(paged) = ctx.paged::<Sets>(Purpose::Read, key)?
        && let Some(draws) = Draws::of(count, paged.count(), random())
    {
        ctx.read_pages(key, &paged, |set: &Keyed, pages, out| {
            out.array(wanted);
            set.draw_all(pages, &draws, |member, _| {
                out.bulk(member);
                !out.is_cut()
            })
        });
        return Ok(());
    }
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
