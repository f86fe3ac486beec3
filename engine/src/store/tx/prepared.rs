//! A large argument of a request, copied to where its commit needs it before any latch is held.

use super::Tx;
use super::pages::own_block;
use crate::page::PageId;
use crate::page::long_string::{BLOCK_HEAD_BYTES, WRITTEN_PAGE_BYTES as PAGE_BYTES};
use crate::shared_value::{self, Epoch, OwnBlock, SharedValue};
use crate::store::engine::Engine;
use sexton_persistence::aof::{LargeArgument, write_command, write_header};
use std::cell::{Cell, RefCell};

const _: () = assert!(BLOCK_HEAD_BYTES == shared_value::HEAD_BYTES);

/// An argument with copies of it: for the log, and for the pages of a string. What uses the argument itself, and no copy of it, gets these
/// without copying.
pub struct Prepared<'a> {
    argument: &'a [u8],
    /// For the log, if there is one.
    logged: Cell<Option<LargeArgument>>,
    /// Where it belongs in the transaction's log bytes, which lack it.
    gap: Cell<Option<usize>>,
    /// For the pages of a string, in order.
    blocks: RefCell<Vec<Option<SharedValue>>>,
}

impl Engine {
    /// Copies an argument for a request that is going to log it and, if `becomes_string`, to store it as a string in pages.
    #[must_use]
    pub fn prepare<'a>(&self, argument: &'a [u8], becomes_string: bool) -> Prepared<'a> {
        let is_logged = self.inner().write.commit.lock().log_on;
        let logged = is_logged.then(|| LargeArgument::new(argument));
        let pages = becomes_string && self.takes_pages();
        let pages = if pages { argument.chunks(PAGE_BYTES) } else { [].chunks(1) };
        // They are as good as of an earlier epoch: the first change makes another block (E3).
        let blocks = pages.map(|page| Some(SharedValue::new(page))).collect();
        Prepared {
            argument,
            logged: Cell::new(logged),
            gap: Cell::new(None),
            blocks: RefCell::new(blocks),
        }
    }
}

impl<'a> Prepared<'a> {
    /// The block with this part of the argument, if that is a page, once.
    #[cold]
    fn take_block(&self, part: &[u8]) -> Option<OwnBlock> {
        let at = part.as_ptr().addr().checked_sub(self.argument.as_ptr().addr())?;
        let mut blocks = self.blocks.borrow_mut();
        let block = blocks.get_mut(at / PAGE_BYTES)?;
        let is_page = at % PAGE_BYTES == 0;
        let block = block.take_if(|block| is_page && block.bytes().len() == part.len());
        block.map(OwnBlock::settled)
    }

    /// Blocks that no page has got.
    #[cfg(test)]
    pub(in crate::store) fn blocks_left(&self) -> usize {
        self.blocks.borrow().iter().flatten().count()
    }

    /// Bytes that the log bytes of the transaction lack.
    pub(super) fn gap_bytes(&self) -> usize {
        self.gap.get().map_or(0, |_| self.argument.len())
    }

    /// So many bytes came in front of the log bytes.
    pub(super) fn move_gap(&self, bytes: usize) {
        self.gap.set(self.gap.get().map(|at| at + bytes));
    }

    /// The argument for the log, what was copied for it, and where it belongs; `None` where the log bytes are whole.
    pub(super) fn take_logged(&self) -> Option<(usize, &'a [u8], Option<LargeArgument>)> {
        Some((self.gap.get()?, self.argument, self.logged.take()))
    }

    #[cold]
    fn write_command<'w>(&self, log: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'w [u8]>) {
        write_header(log, b'*', words.len() as i64);
        for word in words {
            write_header(log, b'$', word.len() as i64);
            if self.gap.get().is_none() && std::ptr::eq(word, self.argument) {
                self.gap.set(Some(log.len()));
            } else {
                log.extend_from_slice(word);
            }
            log.extend_from_slice(b"\r\n");
        }
    }
}

impl<'e> Tx<'e> {
    /// Takes an argument of its request with the copies of it.
    pub fn set_prepared(&mut self, prepared: &'e Prepared<'e>) {
        self.prepared = Some(prepared);
    }

    /// What [`Tx::set_prepared`] was given.
    #[cfg(test)]
    pub(in crate::store) fn prepared(&self) -> Option<&Prepared<'e>> {
        self.prepared
    }

    /// True if an argument of its request was copied before.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.prepared.is_some()
    }

    /// As [`Tx::log`], of the words of a command.
    #[inline]
    pub fn log_command<'w>(&mut self, db: usize, words: impl ExactSizeIterator<Item = &'w [u8]>) {
        self.log_form(db);
        match self.prepared {
            None => write_command(&mut self.buf.log, words),
            Some(prepared) => prepared.write_command(&mut self.buf.log, words),
        }
    }

    /// A block for a page with these bytes that nobody refers to.
    #[inline]
    pub(super) fn block_for(&mut self, page: PageId, payload: &[u8], epoch: Epoch) -> OwnBlock {
        let prepared = self.prepared.and_then(|prepared| prepared.take_block(payload));
        prepared.unwrap_or_else(|| own_block(page, payload, epoch))
    }
}
