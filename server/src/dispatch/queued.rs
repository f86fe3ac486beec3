//! What MULTI queues: commands with copies of their arguments, one behind the other in one buffer.

use super::{Args, CommandSpec};

/// A transaction that takes no more is kept for the next one of its connection.
const KEPT_BYTES: usize = 4 << 10;

/// Commands queued by MULTI.
#[derive(Debug, Default)]
pub struct Transaction {
    /// In order of arrival.
    commands: Vec<Command>,
    /// Their arguments, as positions in `bytes`.
    ranges: Vec<(u32, u32)>,
    bytes: Vec<u8>,
    /// The database that the last SELECT among them leads to.
    pub db: Option<usize>,
    /// A command could not be queued: EXEC answers EXECABORT.
    pub failed: bool,
}

/// Where a command is.
#[derive(Debug)]
struct Command {
    spec: &'static CommandSpec,
    /// Which of the ranges is that of its name.
    first: u32,
    /// Its log form in the bytes, if it arrived in this form.
    logged: Option<(u32, u32)>,
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
        let (first, begun) = (self.ranges.len() as u32, self.bytes.len() as u32);
        let mut logged = None;
        if let Some((form, ranges)) = args.log_form() {
            self.bytes.extend_from_slice(form);
            logged = Some((begun, self.bytes.len() as u32));
            self.ranges.extend(ranges.map(|(start, end)| (begun + start, begun + end)));
        } else {
            for arg in args.from(0) {
                let start = self.bytes.len() as u32;
                self.bytes.extend_from_slice(arg);
                self.ranges.push((start, self.bytes.len() as u32));
            }
        }
        self.commands.push(Command { spec, first, logged });
        let ranges_bytes = args.len() * size_of::<(u32, u32)>();
        self.bytes.len() - begun as usize + ranges_bytes + size_of::<Command>()
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
        self.commands.iter().enumerate().map(|(at, command)| {
            let next = self.commands.get(at + 1);
            let end = next.map_or(self.ranges.len(), |next| next.first as usize);
            let ranges = &self.ranges[command.first as usize..end];
            let args = Args::new(&self.bytes, ranges).logged_as(command.logged);
            Queued { spec: command.spec, args }
        })
    }

    /// Memory that the buffers take.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ranges.capacity() * size_of::<(u32, u32)>()
            + self.commands.capacity() * size_of::<Command>()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table::find;
    use crate::resp::{command_bytes, pack};

    #[test]
    fn commands_come_back_as_they_were_queued_in_whatever_form() {
        let mut transaction = Box::<Transaction>::default();
        let requests: [&[&[u8]]; 3] =
            [&[b"SET", b"k", b"a value"], &[b"get", b""], &[b"DEL", b"k", b"l"]];
        for round in 0..2 {
            let mut bytes = 0;
            for words in requests {
                let spec = find(&words[0].to_ascii_lowercase()).expect("a command");
                let (packed, ranges) = pack(words.iter().copied());
                bytes += transaction.push(spec, Args::new(&packed, &ranges));
                // In its log form, behind something else.
                let form = [b"+OK\r\n", &*command_bytes(words)].concat();
                let mut at = 5 + 4;
                let ranges = words.iter().map(|word| {
                    let start = at + 4;
                    at = start + word.len() + 2;
                    (start as u32, (at - 2) as u32)
                });
                let ranges: Vec<_> = ranges.collect();
                let args = Args::new(&form, &ranges).logged_as(Some((5, form.len() as u32)));
                bytes += transaction.push(spec, args);
            }
            assert_eq!(transaction.len(), 6);
            let all: Vec<_> = transaction.queued().collect();
            for (two, words) in all.chunks(2).zip(requests) {
                for queued in two {
                    assert!(queued.args.from(0).eq(words.iter().copied()), "{words:?}");
                    assert_eq!(queued.spec.name.as_bytes(), words[0].to_ascii_lowercase());
                }
                let forms = [two[0].args.as_logged(), two[1].args.as_logged()];
                assert_eq!(forms, [None, Some(&*command_bytes(words))]);
            }
            assert!(transaction.held_bytes() >= bytes);
            transaction.failed = true;
            transaction = transaction.emptied().expect("a small one is kept");
            assert!(transaction.is_empty() && !transaction.failed, "round {round}");
        }
        let (long, ranges) = pack([b"GET".as_slice(), &[b'k'; KEPT_BYTES]].into_iter());
        transaction.push(find(b"get").expect("a command"), Args::new(&long, &ranges));
        assert!(transaction.emptied().is_none(), "a large one is not");
    }
}
