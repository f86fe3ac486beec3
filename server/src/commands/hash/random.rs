//! HRANDFIELD.

use crate::commands::chance::{self, below};
use crate::dispatch::{CommandResult, Ctx, Purpose};
use crate::keyspace::collection::Hashes;
use crate::keyspace::paged::Keyed;
use crate::random::random;

/// HRANDFIELD key [count [WITHVALUES]]: a negative count draws with repetitions.
pub(super) fn hrandfield(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let key = ctx.args.get(1);
    if ctx.args.len() == 2 {
        if let Some(paged) = ctx.paged::<Hashes>(Purpose::Read, key)? {
            let draws = random();
            ctx.read_pages(key, &paged, |hash: &Keyed, pages, out| {
                match hash.draw(pages, draws)? {
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
