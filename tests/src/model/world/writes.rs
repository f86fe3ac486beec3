//! Writes: batches, read-modify-write, deletes, expiry; publication, the log and its failure.

use crate::model::keys::COLLECTION;

use super::{Effect, Grave, Key, LogRecord, OPEN, Rule, Seq, Version, Violation, World};

/// A command as the log carries it: its text, not its outcome (N1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The key gets a literal value.
    Put(Key, u64),
    /// The key's value plus one; an absent key counts as 0.
    Increment(Key),
    /// The second key gets the value of the first, if that exists.
    Copy(Key, Key),
    /// Deletes the key; the root of a collection with all its pages.
    Delete(Key),
    /// The element's count in the collection rises by one; what was not there is made.
    Add(u64),
    /// The element leaves the collection; the last one takes the collection along.
    Remove(u64),
    /// Deletes the whole database: it gets a new namespace id (N7).
    Flush,
}

impl Command {
    /// True when it is about the collection.
    fn is_of_collection(self) -> bool {
        matches!(self, Self::Add(_) | Self::Remove(_) | Self::Delete(COLLECTION))
    }

    /// The key whose state decides what the command does.
    fn reads(self) -> Option<Key> {
        match self {
            Self::Increment(key) | Self::Copy(key, _) | Self::Delete(key) => Some(key),
            Self::Put(..) | Self::Flush | Self::Add(_) | Self::Remove(_) => None,
        }
    }
}

impl World {
    /// Runs a batch: one log group. While the log is broken it is refused (N2).
    ///
    /// # Errors
    /// A command whose reads differ from the specification.
    pub fn write(&mut self, commands: &[Command]) -> Result<(), Violation> {
        if self.log_failed {
            return Ok(());
        }
        let batch = self.next_batch;
        self.next_batch += 1;
        let mut effects = Vec::new();
        for &command in commands {
            if command.is_of_collection() {
                self.check_collection_of_write(&effects)?;
            } else if let Some(key) = command.reads() {
                self.check_read_of_write(key, &effects)?;
                self.delete_expired(key, batch, &mut effects);
            }
            self.log_and_apply(command, batch, &mut effects);
        }
        self.spec.push_batch(&effects);
        Ok(())
    }

    /// The newest version of `key` expires by the clock; nothing is logged yet.
    pub fn expire(&mut self, key: Key) {
        if let Some((seq, _)) = self.spec.value_at(key, OPEN) {
            self.spec.expire(seq);
        }
    }

    fn check_read_of_write(&self, key: Key, before: &[(Seq, Effect)]) -> Result<(), Violation> {
        let mut spec = self.spec.clone();
        spec.push_batch(before);
        let at = self.read_for_write();
        let got = self.look_up(key, at).filter(|v| !self.spec.is_expired(v.put_seq));
        let expected = spec.value_at(key, OPEN);
        let got = got.map(|v| (v.put_seq, v.value));
        if got == expected {
            return Ok(());
        }
        Err(format!("a write reads {got:?} of key {key}, the specification says {expected:?}"))
    }

    /// X1: the latch makes the newest state stable, published or not.
    fn read_for_write(&self) -> Seq {
        if self.rules.on(Rule::X1ReadsNewest) { OPEN } else { self.visible }
    }

    /// X3: before a command reads an expired key, its delete is logged.
    fn delete_expired(&mut self, key: Key, batch: u64, effects: &mut Vec<(Seq, Effect)>) {
        if self.look_up(key, OPEN).is_some_and(|v| self.spec.is_expired(v.put_seq)) {
            self.log_and_apply(Command::Delete(key), batch, effects);
        }
    }

    fn log_and_apply(&mut self, command: Command, batch: u64, effects: &mut Vec<(Seq, Effect)>) {
        let seq = self.next_seq;
        if let Some(effect) = self.apply(seq, command) {
            self.next_seq += 1;
            effects.push((seq, effect));
            let segment = self.segment;
            self.log.push(LogRecord { seq, batch, command, segment, lost: false });
        }
    }

    /// Applies `command` to the newest state; `None` if there is nothing to do.
    pub(super) fn apply(&mut self, seq: Seq, command: Command) -> Option<Effect> {
        let namespace = self.namespace_at(OPEN);
        let found = command.reads().and_then(|key| self.look_up(key, OPEN));
        match command {
            Command::Add(element) => Some(self.add_element(seq, element)),
            Command::Remove(element) => self.remove_element(seq, element),
            Command::Delete(COLLECTION) => self.delete_collection(seq),
            Command::Put(key, value) => Some(self.put(seq, key, value)),
            Command::Increment(key) => Some(self.put(seq, key, found.map_or(0, |v| v.value) + 1)),
            Command::Copy(_, to) => found.map(|v| self.put(seq, to, v.value)),
            Command::Delete(key) => {
                let open = self.graves.iter_mut().find(|g| g.of(namespace, key) && g.e == OPEN);
                match (found, open) {
                    (None, None) => return None,
                    (None, Some(_)) if self.rules.on(Rule::X1NoBump) => return None,
                    (_, Some(grave)) => grave.d = seq,
                    (Some(_), None) => {
                        self.graves.push(Grave { namespace, key, d: seq, e: OPEN, buried_in: 0 });
                    }
                }
                self.files.iter().for_each(|file| file.count_dead(namespace, key));
                self.cache_write(namespace, key, None);
                Some(Effect::Delete(key))
            }
            Command::Flush => {
                self.dead.push((namespace, seq));
                self.namespaces.push((seq, seq));
                self.pages.forget_blocks();
                Some(Effect::Flush)
            }
        }
    }

    /// P1, P2: insert, then close the open grave.
    pub(super) fn put(&mut self, seq: Seq, key: Key, value: u64) -> Effect {
        let namespace = self.namespace_at(OPEN);
        let version = Version { namespace, key, seq, put_seq: seq, value };
        self.active.borrow_mut().push(version);
        self.cache_write(namespace, key, Some(version));
        if self.rules.on(Rule::P2PutKeepsGrave) {
            let open = |g: &&mut Grave| g.of(namespace, key) && g.e == OPEN && g.d < seq;
            self.graves.iter_mut().filter(open).for_each(|g| g.e = seq);
        } else {
            self.graves.retain(|g| !g.of(namespace, key));
        }
        Effect::Put(key, value)
    }

    /// Publishes some of what is not yet published, whole batches only.
    pub fn publish_some(&mut self, pick: u64) {
        let seq = self.visible + pick % (self.last_seq() - self.visible + 1);
        let to = if self.rules.on(Rule::BatchWhole) { self.batch_end(seq) } else { seq };
        self.visible = self.visible.max(to);
    }

    /// Publishes everything.
    pub fn publish_all(&mut self) {
        self.visible = self.last_seq();
    }

    /// The end of the last whole batch at or below `seq`.
    fn batch_end(&self, seq: Seq) -> Seq {
        let at = self.log.partition_point(|r| r.seq <= seq);
        let Some(next) = self.log.get(at) else { return seq };
        let whole = self.log[..at].iter().rev().find(|r| r.batch != next.batch);
        whole.map_or(0, |r| r.seq).min(seq)
    }

    /// Some of the log that is not synced is.
    pub fn sync_some(&mut self, pick: u64) {
        if !self.log_failed {
            let seq = self.durable + pick % (self.last_seq() - self.durable + 1);
            self.durable = self.durable.max(self.batch_end(seq));
        }
    }

    /// A write or sync of the log fails: data above a random position of the unsynced part never
    /// reaches the device (N2).
    pub fn fail_log(&mut self, pick: u64) {
        if self.log_failed {
            return;
        }
        self.log_failed = true;
        let reached = self.durable + pick % (self.last_seq() - self.durable + 1);
        for record in self.log.iter_mut().filter(|r| r.seq > reached) {
            record.lost = true;
        }
    }

    /// After a failure: once everything is in files, the log continues in a fresh segment; before that
    /// the memtable is frozen (N2).
    pub fn heal_log(&mut self) {
        if !self.log_failed {
            return;
        }
        if self.disk.mark < self.last_seq() && self.rules.on(Rule::N2FlushFirst) {
            self.freeze();
            return;
        }
        self.segment += u64::from(self.rules.on(Rule::N2FreshSegment));
        self.log_failed = false;
    }
}
