//! Anything that yields versions in the order of the tree.

use crate::error::TableResult;
use crate::key::{Meta, Seq};

/// A forward cursor over versions: keys ascending, the versions of one key newest first.
///
/// A new source is not positioned: `valid` is false until the first `seek`. `key`, `seq`, `meta`
/// and `value` may be asked only while `valid`.
pub trait Source {
    /// True while it stands on a version.
    fn valid(&self) -> bool;
    /// The engine key.
    fn key(&self) -> &[u8];
    /// The sequence.
    fn seq(&self) -> Seq;
    /// Flags and expiry.
    fn meta(&self) -> Meta;
    /// The value. Of a source that gives up large blocks, only after [`Source::load_value`].
    fn value(&self) -> &[u8];
    /// Brings back the value, where it was given up to save memory.
    ///
    /// # Errors
    /// As for `next`.
    fn load_value(&mut self) -> TableResult<()> {
        Ok(())
    }
    /// Steps to the following version.
    ///
    /// # Errors
    /// A failed read or a damaged file; the source is not valid afterwards.
    fn next(&mut self) -> TableResult<()>;
    /// Steps to the newest version of the following key.
    ///
    /// # Errors
    /// As for `next`.
    fn next_key(&mut self) -> TableResult<()> {
        if !self.valid() {
            return Ok(());
        }
        let key = self.key().to_vec();
        self.next()?;
        while self.valid() && self.key() == key {
            self.next()?;
        }
        Ok(())
    }
    /// Goes to the newest version of the first key at or above `key`; the empty key is the start.
    ///
    /// # Errors
    /// As for `next`.
    fn seek(&mut self, key: &[u8]) -> TableResult<()>;
    /// As [`Source::seek`], where nothing at or below sequence `d` from `key` up to `to` is alive (N5):
    /// goes on at once as [`Source::pass_dead`] would.
    ///
    /// # Errors
    /// As for `next`.
    fn seek_over(&mut self, key: &[u8], to: &[u8], d: Seq) -> TableResult<()> {
        self.seek(key)?;
        if self.valid() && self.key() < to { self.pass_dead(to, d) } else { Ok(()) }
    }
    /// Nothing at or below sequence `d` between here and `to` is alive (N5): goes on as far towards
    /// `to` as it can tell, without reading, that there is nothing younger. May stay where it is.
    ///
    /// # Errors
    /// As for `next`.
    fn pass_dead(&mut self, to: &[u8], d: Seq) -> TableResult<()> {
        let _ = (to, d);
        Ok(())
    }
    /// True when the version is known, from a walk before, to be covered by a grave that a reader at `s`
    /// sees (N5). False says nothing.
    fn is_marked_dead(&self, s: Seq) -> bool {
        let _ = s;
        false
    }
    /// The version is covered by a grave at or below `s`: a hint to later walks.
    fn mark_dead(&self, s: Seq) {
        let _ = s;
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn key(&self) -> &[u8] {
        (**self).key()
    }
    fn seq(&self) -> Seq {
        (**self).seq()
    }
    fn meta(&self) -> Meta {
        (**self).meta()
    }
    fn value(&self) -> &[u8] {
        (**self).value()
    }
    fn load_value(&mut self) -> TableResult<()> {
        (**self).load_value()
    }
    fn next(&mut self) -> TableResult<()> {
        (**self).next()
    }
    fn seek(&mut self, key: &[u8]) -> TableResult<()> {
        (**self).seek(key)
    }
}

/// A source that can also walk back.
///
/// `next` and `prev` may be mixed while it is `valid`. Walked off either end it stays not valid until
/// the next seek.
pub trait BackSource: Source {
    /// Steps to the previous version in the tree's order: the next newer one of this key, or the oldest of the
    /// previous key.
    ///
    /// # Errors
    /// As for [`Source::next`].
    fn prev(&mut self) -> TableResult<()>;
    /// Moves to the last version of the last key below `key`; `None` means the end. The
    /// bound is therefore not included.
    ///
    /// # Errors
    /// As for [`Source::next`].
    fn seek_back(&mut self, key: Option<&[u8]>) -> TableResult<()>;
    /// As [`Source::pass_dead`], back to what is below `from`.
    ///
    /// # Errors
    /// As for [`Source::next`].
    fn pass_dead_back(&mut self, from: &[u8], d: Seq) -> TableResult<()> {
        let _ = (from, d);
        Ok(())
    }
}
