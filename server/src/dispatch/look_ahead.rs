//! Pages of collections that the requests of a batch will look at, asked for before the first of them runs: the CPU's cache fetches
//! those of all requests at a time, where each request would wait for its own.

use super::{Args, CommandSpec};
use crate::keyspace::paged::{ByName, Paged};
use crate::server::Server;
use sexton_engine::{AskedPage, Key, Meta, PageOf, TxBuf};

/// Pages that are asked for at once: with what is asked of their blocks they fill a first-level cache.
const PAGES_MAX: usize = 64;

/// Keys without a collection in pages after which a batch is known to name none.
const TRIED: usize = 4;

/// Batches that are not looked at behind one that named none, or mostly pages that are in the cache: to ask for those takes a tenth of what
/// an HGET takes.
const LEFT_OUT: u32 = 15;

/// A thread's looks ahead: what it keeps from batch to batch.
#[derive(Debug, Default)]
pub(super) struct LooksAhead {
    asked: Vec<AskedPage>,
    lately: AskedLately,
    /// Batches that are still left out.
    left_out: u32,
}

/// Pages that were asked for lately, and so are in the cache: about as many as that has, by their hashes.
#[derive(Debug)]
struct AskedLately(Box<[u32; Self::PAGES]>);

impl AskedLately {
    const PAGES: usize = 4096;

    /// Notes a page with this hash; true if it is there already.
    fn note(&mut self, hash: u64) -> bool {
        let own = (hash >> 32) as u32;
        std::mem::replace(&mut self.0[hash as usize % Self::PAGES], own) == own
    }
}

impl Default for AskedLately {
    fn default() -> Self {
        Self(Box::new([0; Self::PAGES]))
    }
}

impl LooksAhead {
    /// Looks ahead to what these requests need, which are about to run in the database `db` on these buffers, each with the hash of its key.
    pub(super) fn look<'r>(
        &mut self,
        server: &Server,
        (db, tx_buf): (usize, &TxBuf),
        requests: impl Iterator<Item = (&'static CommandSpec, Args<'r>, u64)> + Clone,
    ) {
        let engine = &server.engine;
        if !engine.has_pages() {
            return;
        }
        let requests = requests.filter(|(spec, ..)| !spec.elements.is_none());
        let names = requests.clone().flat_map(|(spec, args, _)| spec.elements.of(args));
        if names.take(2).count() < 2 {
            return;
        }
        if self.left_out > 0 {
            self.left_out -= 1;
            return;
        }
        let slot = engine.slot_of(db);
        let mut look = engine.look_ahead(tx_buf);
        let asked = &mut self.asked;
        asked.clear();
        // Most keys are named by several requests in a row.
        let mut roots = [None; PAGES_MAX];
        let mut last = None;
        for (root, (_, args, hash)) in roots.iter_mut().zip(requests.clone()) {
            let bytes = args.get(1);
            if last.replace((hash, bytes)) != Some((hash, bytes)) {
                *root = Some(look.ask_root(Key { slot, bytes, hash }));
            }
        }
        let (mut paged, mut tried) = (None, 0);
        for (root, (spec, args, root_hash)) in roots.iter().zip(requests) {
            if let Some(root) = root {
                let value = root.and_then(|at| look.root(root_hash, at));
                paged = value.and_then(|(meta, value)| by_name(meta, value));
                tried += 1;
            }
            let Some((collection, by_name)) = &paged else {
                if tried == TRIED && asked.is_empty() {
                    break;
                }
                continue;
            };
            let names = spec.elements.of(args).take(PAGES_MAX.saturating_sub(asked.len()));
            asked.extend(names.filter_map(|name| {
                let (collection, page) = (*collection, by_name.page_of(name));
                look.ask_bucket(PageOf { slot, root_hash, collection, page })
            }));
        }
        let lately = asked.iter().filter(|asked| self.lately.note(asked.hash())).count();
        if lately * 4 >= asked.len() * 3 {
            self.left_out = LEFT_OUT;
        }
        asked.iter().for_each(AskedPage::ask_entry);
        asked.iter().for_each(|asked| look.ask_block(asked));
    }
}

/// The number of a collection with this root, if it has pages, and where its elements are.
fn by_name(meta: Meta, value: &[u8]) -> Option<(u64, ByName)> {
    let paged = Paged::of(meta, value).ok()??;
    Some((paged.descriptor.collection, paged.by_name()?))
}
