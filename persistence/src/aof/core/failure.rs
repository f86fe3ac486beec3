//! What a failure of the log means, and how it ends (N2).

use super::{LogCore, State};
use crate::aof::{HEADER_BYTES, LogError, SegmentHeader};
use std::sync::atomic::Ordering;

impl LogCore {
    pub(in crate::aof) fn failure(&self) -> Option<String> {
        // Writers ask that before each batch, and almost always there is none.
        if !self.has_failed.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().failure.clone()
    }

    pub(super) fn check_failure(state: &State) -> Result<(), LogError> {
        match &state.failure {
            Some(reason) => Err(LogError::Failed { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// The first failure is final for the segment (N2): nothing more becomes durable until
    /// [`resume`](Self::resume).
    pub(super) fn fail(&self, error: &LogError) {
        let reason = error.to_string();
        {
            let mut state = self.state.lock();
            if state.failure.is_some() {
                return;
            }
            state.failure = Some(reason.clone());
            self.has_failed.store(true, Ordering::Release);
        }
        self.progress.notify_all();
        let callbacks = self.failure_callbacks.read().clone();
        callbacks.iter().for_each(|callback| callback(&reason));
    }

    pub(in crate::aof) fn resume(&self, mark: u64) -> Result<(), LogError> {
        let mut guard = self.writer.lock();
        let writer = &mut *guard;
        let turn = self.sync_turn.lock();
        if self.failure().is_none() {
            return Ok(());
        }
        // What gathered in memory before the freeze is in the tables too: it must not follow in the
        // fresh segment, which starts behind the mark.
        if let Some(sealed) = self.source.take(std::mem::take(&mut writer.spare)) {
            writer.held.extend(sealed.groups);
        }
        // What the failed segment lacks is in the tables only.
        self.segments.give_up_base()?;
        let mut segment = self.segments.next()?;
        let header = SegmentHeader {
            epoch: self.epoch,
            number: segment.number,
            previous_seq: writer.logged_seq.min(mark),
            after_seq: mark,
            synced_seq: mark,
            filled_bytes: segment.file.len()?,
        };
        segment.file.write_all_at(&header.encode(), 0)?;
        segment.file.sync_data()?;
        segment.end = HEADER_BYTES as u64;
        // A write that failed may have arrived all the same, behind what counts as the end: when the
        // file is recycled, that must be overwritten too (N4).
        let failed_bytes = writer.segment.file.len().unwrap_or(self.options.segment_bytes);
        writer.segment.end = writer.segment.end.max(failed_bytes);
        self.note_start(&writer.segment, &header);
        self.active_bytes.store(segment.end, Ordering::Relaxed);
        writer.segment = segment;
        writer.logged_seq = header.previous_seq;
        while let Some(group) = writer.held.pop_front_if(|group| group.last_seq() <= mark) {
            // Its content is in the tables by now.
            self.gauge.drained(group.command_bytes());
        }
        if let Some(group) = writer.held.front_mut() {
            group.forget_cut_at(mark);
        }
        {
            let mut state = self.state.lock();
            // Files of before the failure are never synced again: the kernel may report success
            // for data it has thrown away.
            state.unsynced.forget(!writer.held.is_empty());
            state.failure = None;
            self.has_failed.store(false, Ordering::Release);
            self.written.store(mark, Ordering::Release);
            self.durable.fetch_max(mark, Ordering::AcqRel);
        }
        drop(turn);
        drop(guard);
        self.announce();
        Ok(())
    }
}
