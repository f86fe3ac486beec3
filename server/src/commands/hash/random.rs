//! HRANDFIELD.

use crate::commands::chance::{self, below};
use crate::dispatch::{CommandResult, Ctx, Purpose};
use crate::keyspace::collection::Hashes;
use crate::keyspace::paged::{Draws, Keyed};
use crate::random::random;

/// HRANDFIELD key [count [WITHVALUES]]: a negative count draws with repetitions.
pub(super) fn hrandfield(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    if ctx.args.len() == 2 {
        if let Some(paged) = ctx.paged::<Hashes>(Purpose::Read, key)? {
            let draws = Draws { random: random(), wanted: 1, differ: false };
            ctx.read_pages(key, &paged, |hash: &Keyed, pages, out| {
                match hash.draw(pages, &draws, 0)? {
                    Some((field, _)) => out.bulk(&field),
                    None => out.null(),
                }
                Ok(())
            });
            return Ok(());
        }
        return ctx.lookup::<Hashes, _>(Purpose::Read, key, |hash, out| {
            match hash.and_then(|hash| hash.iter().nth(below(hash.count()))) {
                Some((field, _)) => out.bulk(field),
                None => out.null(),
            }
        });
    }
    let asked = chance::pair_options(ctx.args, b"WITHVALUES")?;
    if let Some(paged) = ctx.paged::<Hashes>(Purpose::Read, key)?
        && let Some(draws) = Draws::of(asked.0, paged.count(), random())
    {
        ctx.read_pages(key, &paged, |hash: &Keyed, pages, out| {
            chance::begin_pairs(paged.count(), asked, out);
            hash.draw_all(pages, &draws, |field, value| {
                chance::pair(field, asked.1, |out| out.bulk(value), out);
                !out.is_cut()
            })
        });
        return Ok(());
    }
    ctx.lookup::<Hashes, _>(Purpose::Read, key, |hash, out| match hash {
        Some(hash) => chance::answer_pairs(
            (hash.iter(), hash.count()),
            asked,
            |(field, _)| field,
            |(_, value), out| out.bulk(value),
            out,
        ),
        None => out.array(0),
    })
}
