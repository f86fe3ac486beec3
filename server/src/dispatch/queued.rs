//! What MULTI queues: commands with copies of their arguments, one behind the other in one buffer.

use super::{Args, CommandSpec};

/// A transaction that takes no more is kept for the next one of its connection.
const KEPT_BYTES: usize = 4 << 10;

/// Commands queued by MULTI.
#[derive(Debug, Default)]
pub struct Transaction {
    /// In order of arrival: its row of the command table, and which of `ranges` is its first.
    commands: Vec<(&'static CommandSpec, u32)>,
    /// Their arguments, as positions in `bytes`.
    ranges: Vec<(u32, u32)>,
    bytes: Vec<u8>,
    /// The database that the last SELECT among them leads to.
    pub db: Option<usize>,
    /// A command could not be queued: EXEC answers EXECABORT.
    pub failed: bool,
}

/// One queued command.
#[derive(Clone, Copy)]
pub struct Queued<'q> {
    /// Its row of the command table.
    pub spec: &'static CommandSpec,
    /// Its arguments.
    pub args: Args<'q>,
}

impl Transaction {
    /// Copies a request behind the others; answers the bytes that it takes.
    pub fn push(&mut self, spec: &'static CommandSpec, args: Args<'_>) -> usize {
        self.commands.push((spec, self.ranges.len() as u32));
        let begun = self.bytes.len();
        for arg in args.from(0) {
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(arg);
            self.ranges.push((start, self.bytes.len() as u32));
        }
        let (command, range) = (size_of_val(&self.commands[0]), size_of_val(&self.ranges[0]));
        self.bytes.len() - begun + args.len() * range + command
    }

    /// Number of commands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// True without any command.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The commands, in order of arrival.
    pub fn queued(&self) -> impl Iterator<Item = Queued<'_>> + Clone {
        self.commands.iter().enumerate().map(|(at, &(spec, first))| {
            let next = self.commands.get(at + 1).map_or(self.ranges.len(), |next| next.1 as usize);
            Queued { spec, args: Args::new(&self.bytes, &self.ranges[first as usize..next]) }
        })
    }

    /// Memory that the buffers take.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ranges.capacity() * size_of::<(u32, u32)>()
            + self.commands.capacity() * size_of::<(&CommandSpec, u32)>()
    }

    /// An empty one in its buffers, unless they have become large.
    pub(super) fn emptied(mut self: Box<Self>) -> Option<Box<Self>> {
        (self.db, self.failed) = (None, false);
        self.commands.clear();
        self.ranges.clear();
        self.bytes.clear();
        (self.held_bytes() <= KEPT_BYTES).then_some(self)
    }
}
