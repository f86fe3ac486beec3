//! Tests of the log as a whole, on simulated storage and without threads.

mod archive;
mod base;
mod crashes;
mod damage;
mod failures;
mod foreign;
mod mapped;
mod recycling;
mod routes;
mod threads;
mod times;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::core::LogCore;
use super::{LogBuffer, LogError, LogLocation, LogOptions, LogTail, SyncPolicy, recover};
use crate::device::Storage;
use crate::device::sim::SimStorage;

fn location() -> LogLocation {
    LogLocation {
        dir: PathBuf::from("/data/appendonlydir"),
        file_name: "appendonly.aof".to_owned(),
    }
}

fn options(policy: SyncPolicy) -> LogOptions {
    LogOptions { policy, segment_bytes: 8 << 10, ..LogOptions::new(location()) }
}

fn storage() -> SimStorage {
    let storage = SimStorage::new();
    storage.create_dir_all(Path::new("/data")).expect("mkdir");
    storage
}

/// One commit as the model remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Commit {
    first_seq: u64,
    count: u32,
    db: u32,
    bytes: Vec<u8>,
}

impl Commit {
    /// A transaction of `count` commands that name their sequences.
    fn new(first_seq: u64, count: u32, db: u32, value_bytes: usize) -> Self {
        let mut bytes = Vec::new();
        for seq in first_seq..first_seq + u64::from(count) {
            let key = seq.to_string();
            let value = "v".repeat(value_bytes);
            bytes.extend_from_slice(
                format!(
                    "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${value_bytes}\r\n{value}\r\n",
                    key.len()
                )
                .as_bytes(),
            );
        }
        Self { first_seq, count, db, bytes }
    }

    fn last_seq(&self) -> u64 {
        self.first_seq + u64::from(self.count) - 1
    }
}

/// A log without threads together with its buffer.
struct Rig {
    core: LogCore,
    buffer: Arc<Mutex<LogBuffer>>,
}

impl Rig {
    fn open(storage: &SimStorage, options: LogOptions, tail: &LogTail, after_seq: u64) -> Self {
        Self::open_on(Arc::new(storage.clone()), options, tail, after_seq)
    }

    fn open_on(
        shared: Arc<dyn Storage>,
        options: LogOptions,
        tail: &LogTail,
        after_seq: u64,
    ) -> Self {
        let mut buffer = LogBuffer::new(after_seq);
        buffer.set_routes(options.routes.iter().map(|route| route.least_bytes).collect());
        let buffer = Arc::new(Mutex::new(buffer));
        let gauge = buffer.lock().gauge();
        let core = LogCore::open(shared, options, tail, after_seq, buffer.clone(), gauge)
            .expect("the log opens");
        Self { core, buffer }
    }

    /// Overwrites all that was retired.
    fn clean_spares(&self) -> Result<(), LogError> {
        while self.core.segments.clean_spare()? {}
        Ok(())
    }

    fn append(&self, commit: &Commit) {
        let (head, tail) = commit.bytes.split_at(commit.bytes.len() / 2);
        let _ = self.buffer.lock().append(commit.first_seq, commit.count, commit.db, &[head, tail]);
    }

    fn cut(&self) -> u64 {
        let mut buffer = self.buffer.lock();
        let mark = buffer.last_seq();
        buffer.cut(mark);
        mark
    }
}

/// Sequence, database, and bytes of a command.
type Command = (u64, u32, Vec<u8>);

/// Recovers the log: all commands above the mark, and the tail.
fn read_all(
    storage: &SimStorage,
    mark: u64,
    hint: u64,
) -> Result<(Vec<Command>, LogTail), LogError> {
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut recovery = recover(&shared, &location(), mark, hint)?;
    let mut commands = Vec::new();
    while let Some(group) = recovery.next_group()? {
        let mut seq = group.first_seq;
        let mut db = None;
        for command in split_commands(group.commands) {
            if let Some(number) = selected(command) {
                db = Some(number);
            } else {
                commands.push((seq, db.expect("a group begins with SELECT"), command.to_vec()));
                seq += 1;
            }
        }
        assert_eq!(seq, group.first_seq + group.count, "the count of the annotation");
    }
    Ok((commands, recovery.finish()?))
}

/// What `read_all` should answer for these commits.
fn commands_of(commits: &[Commit]) -> Vec<Command> {
    let mut commands = Vec::new();
    for commit in commits {
        let seqs = commit.first_seq..;
        for (seq, command) in seqs.zip(split_commands(&commit.bytes)) {
            commands.push((seq, commit.db, command.to_vec()));
        }
    }
    commands
}

fn selected(command: &[u8]) -> Option<u32> {
    let rest = command.strip_prefix(b"*2\r\n$6\r\nSELECT\r\n$")?;
    let text = std::str::from_utf8(rest).ok()?;
    text.split("\r\n").nth(1)?.parse().ok()
}

/// Splits RESP arrays of bulk strings.
fn split_commands(mut bytes: &[u8]) -> Vec<&[u8]> {
    fn number(bytes: &[u8], at: &mut usize) -> usize {
        let end = bytes[*at..].iter().position(|byte| *byte == b'\r').expect("a line") + *at;
        let text = std::str::from_utf8(&bytes[*at + 1..end]).expect("digits");
        *at = end + 2;
        text.parse().expect("a number")
    }
    let mut commands = Vec::new();
    while !bytes.is_empty() {
        let mut at = 0;
        for _ in 0..number(bytes, &mut at) {
            at += number(bytes, &mut at) + 2;
        }
        let (command, rest) = bytes.split_at(at);
        commands.push(command);
        bytes = rest;
    }
    commands
}
