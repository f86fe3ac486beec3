//! What a Redis server has appended to our log (`FORMAT.md`, "What another server appends").

use std::sync::Arc;

use super::annotation::{ALIGNMENT_BYTES, ANNOTATION_MIN_BYTES, Annotation, GROUP_TAG};
use super::window::Window;
use super::{Commands, FILLER, LogError, LogLocation, recover};
use crate::device::{Storage, StorageResult};

/// Commands that are looked at for the answer.
const LOOK_BYTES: u64 = 1 << 20;
/// Above every sequence: a log that is read behind it yields nothing.
const BEHIND_ALL: u64 = u64::MAX / 2;

/// Whether a Redis server has written to the log of `location`, or has put another log in its place.
///
/// # Errors
///
/// A failing device, or a log that cannot be read for another reason.
pub fn has_foreign_writes(
    storage: &Arc<dyn Storage>,
    location: &LogLocation,
) -> Result<bool, LogError> {
    let read = || -> Result<(), LogError> {
        let mut recovery = recover(storage, location, BEHIND_ALL, 0)?;
        while recovery.next_group()?.is_some() {}
        Ok(())
    };
    match read() {
        Ok(()) => Ok(false),
        Err(LogError::Foreign { .. } | LogError::ForeignWrites { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Where in a segment, behind the last group at `from`, another server's commands begin. The file was
/// `filled_bytes` long before its groups were written.
pub(super) fn begin_of_foreign(
    window: &mut Window,
    from: u64,
    filled_bytes: u64,
) -> StorageResult<Option<u64>> {
    let mut at = from;
    while at < window.file_bytes() && *window.get(at, ALIGNMENT_BYTES as u64)? == FILLER {
        at += ALIGNMENT_BYTES as u64;
    }
    if at > from && at < filled_bytes {
        // A server appends behind all filler, or where it has cut: this is a group of ours that has lost its
        // annotation, and what looks like commands may be a piece of a value.
        return Ok(None);
    }
    let last = window.file_bytes().saturating_sub(ALIGNMENT_BYTES as u64).max(at);
    if *window.get(last, ALIGNMENT_BYTES as u64)? == FILLER {
        // Nothing was appended to a prepared segment: what is torn in it is ours.
        return Ok(None);
    }
    let line = window.get(at, ANNOTATION_MIN_BYTES as u64)?;
    let group = Annotation::parse(line).and_then(|annotation| annotation.group_bytes());
    match group {
        Some(bytes) => behind_torn_group(window, at, bytes),
        None => Ok(is_appended(window, at)?.then_some(at)),
    }
}

/// Commands up to the end of the file.
fn is_appended(window: &mut Window, at: u64) -> StorageResult<bool> {
    let end = window.file_bytes();
    let bytes = window.get(at, LOOK_BYTES)?;
    if !(bytes.starts_with(b"*") || bytes.starts_with(b"#TS:")) {
        return Ok(false);
    }
    let is_all = at + bytes.len() as u64 == end;
    let mut commands = Commands::new(bytes);
    let whole = commands.by_ref().count();
    let rest = &bytes[commands.offset()..];
    // What is not whole is the torn last command, or one longer than the look.
    let goes_on = rest.starts_with(b"*") || rest.starts_with(b"#");
    Ok(rest.is_empty() || (goes_on && (whole > 0 || !is_all)))
}

/// A Redis that met our torn group has cut it behind its last whole command and gone on from there. It
/// begins with a SELECT of its own, where the group of ours has had its first one already: in front of where
/// the group should end. One behind that is of the next group of ours, which may have lost its annotation to
/// the filler of a recycled segment.
fn behind_torn_group(window: &mut Window, at: u64, group_bytes: u64) -> StorageResult<Option<u64>> {
    let end = window.file_bytes();
    let bytes = window.get(at, LOOK_BYTES)?;
    let mut commands = Commands::new(bytes);
    let mut selects = 0;
    let mut begin = None;
    while let Some(command) = commands.next() {
        let is_ours = command.starts_with(GROUP_TAG) || command == FILLER;
        if is_ours && commands.offset() > command.len() {
            return Ok(None);
        }
        if is_select(command) {
            selects += 1;
            let offset = (commands.offset() - command.len()) as u64;
            if selects > 1 && offset < group_bytes {
                begin = begin.or(Some(at + offset));
            }
        }
    }
    let is_cut_off = at + (bytes.len() as u64) < end;
    let is_whole = is_cut_off || commands.offset() == bytes.len();
    Ok(begin.filter(|_| is_whole && at + group_bytes != end))
}

fn is_select(command: &[u8]) -> bool {
    command
        .strip_prefix(b"*2\r\n$6\r\n")
        .is_some_and(|rest| rest.get(..6).is_some_and(|name| name.eq_ignore_ascii_case(b"SELECT")))
}
