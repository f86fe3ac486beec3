//! The chain of the log behind the mark (N8).

use super::{CheckOptions, CheckReport};
use crate::store::EngineError;
use sexton_persistence::aof::{LogError, LogLocation, recover};

/// Reads the log as a start would; with `truncate_log` cuts it where it can no longer be read.
pub(super) fn check(options: &CheckOptions, report: &mut CheckReport) -> Result<(), EngineError> {
    let location = LogLocation {
        dir: options.dir.join(&options.log_dir_name),
        file_name: options.log_file_name.clone(),
    };
    let mark = report.mark;
    report.logged_seq = mark;
    let mut recovery = match recover(&options.storage, &location, mark, mark) {
        Ok(recovery) => recovery,
        Err(error) => {
            report.found(&location.dir, error.to_string());
            return Ok(());
        }
    };
    if options.truncate_log {
        recovery.accept_loss();
    }
    loop {
        match recovery.next_group() {
            Ok(Some(group)) => {
                report.groups += 1;
                report.logged_seq = group.first_seq + group.count.saturating_sub(1);
                if let Err(what) = whole_commands(group.commands) {
                    let text = format!("group at byte {}: {what}", group.offset);
                    let file = group.file.to_path_buf();
                    report.found(file, text);
                }
            }
            Ok(None) => break,
            Err(error) => {
                let hint = match error {
                    LogError::Damaged { .. } | LogError::SequenceGap { .. } => {
                        "; --truncate-log cuts the log there and loses what follows"
                    }
                    _ => "",
                };
                report.found(&location.dir, format!("{error}{hint}"));
                return Ok(());
            }
        }
    }
    let lost = recovery.lost_bytes();
    if !options.truncate_log {
        if lost > 0 {
            report.notes.push(format!(
                "the log ends with {lost} bytes that were never known to be durable: the next start \
                 cuts them off"
            ));
        }
        return Ok(());
    }
    let tail = recovery.finish_and_empty()?;
    match tail {
        Some(cut) => report.notes.push(format!(
            "{} was cut at byte {}, {} bytes are lost; the last sequence is {}",
            cut.file.display(),
            cut.offset,
            cut.lost_bytes,
            report.logged_seq
        )),
        None => report.notes.push("there was nothing to cut off the log".into()),
    }
    Ok(())
}

/// RESP arrays of bulk strings, one after the other, to the end.
fn whole_commands(mut rest: &[u8]) -> Result<(), String> {
    let length = rest.len();
    let line = |rest: &mut &[u8], sign: u8| -> Option<usize> {
        let end = rest.iter().position(|byte| *byte == b'\r')?;
        let (line, behind) = rest.split_at(end);
        *rest = behind.strip_prefix(b"\r\n")?;
        std::str::from_utf8(line.strip_prefix(&[sign])?).ok()?.parse().ok()
    };
    while !rest.is_empty() {
        let at = length - rest.len();
        let whole = (|| {
            for _ in 0..line(&mut rest, b'*')? {
                let len = line(&mut rest, b'$')?;
                rest = rest.get(len..)?.strip_prefix(b"\r\n")?;
            }
            Some(())
        })();
        whole.ok_or_else(|| format!("no command at byte {at} of the group's commands"))?;
    }
    Ok(())
}
