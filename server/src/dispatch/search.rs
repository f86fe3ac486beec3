//! How a command searches a list in pages.

use super::context::REPLAY_MS;
use super::kept_search::KeptSearch;
use super::{CommandError, Ctx, OUT_OF_MEMORY};
use crate::client_memory::{load_max_bytes, request_max_bytes};
use crate::keyspace::paged::{
    Failed, ListSearch, Paged, Sought, Step, Structure, Window, needs, over,
};
use sexton_engine::page::List;
use sexton_engine::{OwnedKey, Want};

impl Ctx<'_, '_> {
    /// The numbers of the elements that are sought in a list of the client's database, in the order in which they are met.
    ///
    /// A request that can run again goes through a list that is not in memory window by window. In a turn of it others do not
    /// wait for more than one window.
    ///
    /// # Errors
    /// `OOM`: between two runs the numbers of what it has found take more than a request may.
    pub fn search_list(
        &mut self,
        key: &[u8],
        paged: &Paged,
        sought: &Sought<'_>,
    ) -> Result<Vec<u64>, CommandError> {
        let (server, db, may_miss) = (self.server, self.client.db, self.client.may_miss);
        let mut kept = self.client.search.take();
        let is_resumed = kept.is_some();
        if let Some(old) = kept.take_if(|kept| !kept.is_valid(paged)) {
            old.unwatch(server);
            kept = Some(Box::new(KeptSearch::new(old.search.again(paged), db, key)));
            self.client.lets_go = true;
        }
        let mut kept = kept.unwrap_or_else(|| {
            Box::new(KeptSearch::new(ListSearch::new(paged, sought.from), db, key))
        });
        let search = &mut kept.search;
        let window = Window::of(load_max_bytes(server));
        let bound = server.engine.memory_bound();
        let cannot_be_in_memory = bound != 0 && paged.descriptor.totals.bytes > bound;
        let rests = may_miss && !search.holds_all() && (is_resumed || cannot_be_in_memory);
        let turn_pages = if rests { window.pages } else { usize::MAX };
        let before = search.progress();
        let (key_of, cid) = (self.key_in(db, key), paged.descriptor.collection);
        let tx = self.tx.as_deref_mut().expect("command class has a transaction");
        let stepped = over(tx, key_of, cid, !may_miss, |pages| {
            let list = <List as Structure>::open(paged)?;
            if search.holds_all() {
                needs(&list, &pages, 0..list.len())?;
            }
            search.go_on((&list, &pages), sought, (window, turn_pages))
        });
        if !search.holds_all() && search.progress() != before {
            self.client.lets_go = true;
        }
        let failed = match stepped {
            Ok(Step::Over) => {
                let indexes = kept.search.indexes();
                self.client.search = Some(kept).filter(|_| may_miss);
                return Ok(indexes);
            }
            Ok(Step::Rests(pages)) => {
                let root = OwnedKey { slot: key_of.slot, bytes: key.to_vec(), hash: key_of.hash };
                let wants = pages.into_iter().map(|page| Want::page_of(&root, cid, page.into()));
                Failed::Away(wants.collect())
            }
            Err(failed) => failed,
        };
        let is_too_much = kept.search.found_bytes() as u64 > request_max_bytes(server);
        self.client.search = Some(kept);
        if is_too_much && self.now_ms != REPLAY_MS {
            return Err(CommandError::text(OUT_OF_MEMORY));
        }
        self.stop(failed)
    }
}
