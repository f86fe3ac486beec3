//! Another collection with the same pages, for another key.

use super::Tx;
use super::held_page::{Held, HeldPage};
use super::pages::own_block;
use crate::key::{Key, Meta};
use crate::page::PageId;
use crate::store::engine::EngineError;
use crate::store::page_key::PageKey;

impl Tx<'_> {
    /// Gives `to` the collection with this descriptor, whose pages are those of the collection `from`, which lives: one operation. The two
    /// share the blocks that change no more (E1), of others there is a copy. `Ok(false)`, and nothing is written, where one of `pages` is
    /// not in memory.
    ///
    /// # Errors
    /// As [`crate::Engine::new_collection`]; nothing is written then.
    pub fn copy_pages(
        &mut self,
        (from, from_cid): (Key<'_>, u64),
        (to, to_cid): (Key<'_>, u64),
        (meta, descriptor): (Meta, &[u8]),
        pages: impl Iterator<Item = PageId>,
    ) -> Result<bool, EngineError> {
        self.engine.check_takes_pages()?;
        let mut held = Vec::with_capacity(pages.size_hint().0);
        for page in pages {
            let Some(content) = self.hold_page(from, from_cid, page.into()) else {
                return Ok(false);
            };
            held.push((page, content));
        }
        self.put_pages((to, to_cid), (meta, descriptor), held)?;
        Ok(true)
    }

    /// Gives `to` the collection with this descriptor and these pages: one operation. Pages that are blocks are not copied.
    ///
    /// # Errors
    /// As [`crate::Engine::new_collection`]; nothing is written then.
    pub fn put_pages(
        &mut self,
        (to, to_cid): (Key<'_>, u64),
        (meta, descriptor): (Meta, &[u8]),
        pages: impl IntoIterator<Item = (PageId, HeldPage)>,
    ) -> Result<(), EngineError> {
        self.engine.check_takes_pages()?;
        self.buf.journal.edits.seal();
        let (epoch, edits_before) = (self.engine.epoch(), self.buf.journal.edits.len());
        self.part_pages((to, to_cid), descriptor);
        for (page, content) in pages {
            let block = match content.0 {
                Held::Block(block) => block,
                Held::Copy(content) => own_block(page, &content, epoch).into_shared(),
            };
            self.put_page(to, &PageKey::new(to.slot, to_cid, page.into()), block);
        }
        self.put_descriptor((to, to_cid), meta, descriptor, edits_before);
        Ok(())
    }
}
