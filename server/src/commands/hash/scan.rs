//! HSCAN.

use crate::commands::scan::elements;
use crate::dispatch::{CommandResult, Ctx};
use crate::keyspace::collection::Hashes;
use crate::resp::Reply;

/// HSCAN key cursor [MATCH pattern] [COUNT count].
pub(super) fn hscan(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    elements::scan::<Hashes>(ctx, |hash, page, out| {
        let size = (hash.count(), hash.encoding());
        let write = |(field, value): (&[u8], &[u8]), out: &mut Reply| {
            out.bulk(field);
            out.bulk(value);
        };
        page.answer::<2, _>(size, hash.iter(), |pair| pair.0, write, out);
    })
}
