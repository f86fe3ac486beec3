//! The fields of a hash, for commands that do not care where it lies.

use super::{Keyed, Stop};
use crate::keyspace::collection::HashFields;
use sexton_engine::page::Pages;

/// The fields of a hash, found by their names and changed, wherever they lie.
pub trait FieldSet<'n> {
    /// The value of a field, and when it expires; 0 for never.
    ///
    /// # Errors
    /// What is not in memory.
    fn get(&self, name: &[u8]) -> Result<Option<(&[u8], u64)>, Stop>;

    /// Sets value and due time of a field.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn set(&mut self, name: &'n [u8], value: &'n [u8], due_ms: u64) -> Result<(), Stop>;

    /// Sets the due time of a field that is there.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn set_due(&mut self, name: &[u8], due_ms: u64) -> Result<(), Stop>;

    /// Removes a field; false when it is not there.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn remove(&mut self, name: &[u8]) -> Result<bool, Stop>;
}

impl<'v, 'n: 'v> FieldSet<'n> for HashFields<'v> {
    fn get(&self, name: &[u8]) -> Result<Option<(&[u8], u64)>, Stop> {
        Ok(self.get(name).map(|field| (field.value, field.due_ms)))
    }

    fn set(&mut self, name: &'n [u8], value: &'n [u8], due_ms: u64) -> Result<(), Stop> {
        self.set(name, value, due_ms);
        Ok(())
    }

    fn set_due(&mut self, name: &[u8], due_ms: u64) -> Result<(), Stop> {
        self.set_due(name, due_ms);
        Ok(())
    }

    fn remove(&mut self, name: &[u8]) -> Result<bool, Stop> {
        Ok(self.remove(name))
    }
}

/// The fields of a hash in pages that is being changed.
pub struct PagedFields<'p, P> {
    /// The hash.
    pub hash: &'p mut Keyed,
    /// Its pages.
    pub pages: &'p mut P,
}

impl<'n, P: Pages> FieldSet<'n> for PagedFields<'_, P> {
    fn get(&self, name: &[u8]) -> Result<Option<(&[u8], u64)>, Stop> {
        Ok(self.hash.get_due(self.pages, name)?)
    }

    fn set(&mut self, name: &'n [u8], value: &'n [u8], due_ms: u64) -> Result<(), Stop> {
        self.hash.put_due(self.pages, name, value, Some(due_ms))?;
        Ok(())
    }

    fn set_due(&mut self, name: &[u8], due_ms: u64) -> Result<(), Stop> {
        self.hash.set_due(self.pages, name, due_ms)?;
        Ok(())
    }

    fn remove(&mut self, name: &[u8]) -> Result<bool, Stop> {
        Ok(self.hash.remove(self.pages, name)?)
    }
}
