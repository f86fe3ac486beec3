//! Graves copied out of their shard, so that tables are asked for them without the latch.

use crate::cemetery::Grave;
use crate::key::Seq;
use crate::store::shard::Shard;

/// Keys and deletes of some graves of one shard. Used again for the next one.
#[derive(Debug, Default)]
pub(in crate::store) struct GraveKeys {
    keys: Vec<u8>,
    /// End of each key, and its d.
    ends: Vec<(usize, Seq)>,
}

impl GraveKeys {
    /// Copies those graves of `shard` that are `wanted`, in place of what is there.
    pub(in crate::store) fn copy_from(&mut self, shard: &Shard, wanted: impl Fn(&Grave) -> bool) {
        shard.walk_graves(|graves, from| {
            if from == 0 {
                self.keys.clear();
                self.ends.clear();
            }
            graves.visit_slice(from, |grave| {
                if wanted(grave) {
                    self.keys.extend_from_slice(&grave.key);
                    self.ends.push((self.keys.len(), grave.d));
                }
            })
        });
    }

    /// Key and d of each.
    pub(in crate::store) fn iter(&self) -> impl Iterator<Item = (&[u8], Seq)> {
        let mut from = 0;
        self.ends.iter().map(move |&(end, d)| {
            let key = &self.keys[from..end];
            from = end;
            (key, d)
        })
    }
}
