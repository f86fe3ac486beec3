//! What a table says of its entries' due times.

use super::due_alarm::DueAlarm;
use super::entry::EntryRef;
use super::table::Table;
use std::sync::Arc;

impl Table {
    /// Writers of due times ring this alarm.
    pub(crate) fn set_due_alarm(&mut self, alarm: Arc<DueAlarm>) {
        self.dues.set_alarm(alarm);
    }

    /// The first due time; `None` without any.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        self.dues.next_ms()
    }

    /// Hint: about `count` entries that are due will be asked for.
    pub(crate) fn prefetch_due(&self, count: usize) {
        self.dues.prefetch(count);
    }

    /// The next entry whose time has come, each once; it stays. `None`: no more are due at `now_ms`.
    pub fn pop_due(&mut self, now_ms: u64) -> Option<EntryRef<'_>> {
        self.dues.pop_due(now_ms).map(EntryRef::new)
    }

    /// Shows entries with an expiry from places that `random` chooses, `looks` of them at most, until `f` answers
    /// that it wants no more. What has due elements alone is none of them.
    pub fn sample_expiring(
        &self,
        random: u64,
        looks: usize,
        mut f: impl FnMut(&EntryRef<'_>) -> bool,
    ) {
        self.dues.sample(random, looks, |entry| !entry.has_expiry() || f(&EntryRef::new(entry)));
    }

    /// Bytes of the due times; no part of [`Table::bytes`].
    #[must_use]
    pub fn due_bytes(&self) -> usize {
        self.dues.bytes()
    }
}
