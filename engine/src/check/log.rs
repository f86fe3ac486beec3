//! The chain of the log behind the mark (N8), and cutting it: where it cannot be read, or at a time.

use super::{CheckOptions, CheckReport};
use crate::error::EngineError;
use sexton_persistence::aof::{
    Commands, LogError, LogLocation, Recovery, TailCut, gather, recover,
};

/// Reads the log as a start would; cuts it where the options say.
pub(super) fn check(options: &CheckOptions, report: &mut CheckReport) -> Result<(), EngineError> {
    let location = LogLocation {
        dir: options.dir.join(&options.log_dir_name),
        file_name: options.log_file_name.clone(),
    };
    let mark = report.mark;
    report.logged_seq = mark;
    if !options.log_sources.is_empty() {
        match gather(&*options.storage, &options.log_sources, &location, mark) {
            Ok(gathered) => report.notes.push(format!(
                "{} log segments, {} bytes, were copied to {}",
                gathered.segments,
                gathered.bytes,
                location.dir.display()
            )),
            Err(error) => {
                report.found(&location.dir, error.to_string());
                return Ok(());
            }
        }
    }
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
    if let Some(time_s) = options.truncate_to_s {
        recovery.end_after(time_s);
    }
    if let Err(error) = read(&mut recovery, report) {
        let hint = match error {
            LogError::Damaged { .. } | LogError::SequenceGap { .. } => {
                "; --truncate-log cuts the log there and loses what follows"
            }
            _ => "",
        };
        report.found(&location.dir, format!("{error}{hint}"));
        return Ok(());
    }
    match options.truncate_to_s {
        Some(time_s) => cut_at_time(recovery, time_s, &location, report),
        None if options.truncate_log => {
            let cut = recovery.finish_and_empty()?;
            let text = "there was nothing to cut off the log".to_owned();
            report.notes.push(cut.map_or(text, |cut| told(&cut, report.logged_seq)));
            Ok(())
        }
        None => {
            let lost = recovery.lost_bytes();
            if lost > 0 {
                report.notes.push(format!(
                    "the log ends with {lost} bytes that were never known to be durable: the next start \
                     cuts them off"
                ));
            }
            Ok(())
        }
    }
}

/// Every group behind the mark: whole commands, no hole.
fn read(recovery: &mut Recovery, report: &mut CheckReport) -> Result<(), LogError> {
    while let Some(group) = recovery.next_group()? {
        report.groups += 1;
        let expected = report.logged_seq + 1;
        report.logged_seq = group.first_seq + group.count.saturating_sub(1);
        if let Some(time_s) = group.time_s {
            report.logged_s = Some((report.logged_s.map_or(time_s, |times| times.0), time_s));
        }
        let (file, at) = (group.file.to_path_buf(), group.offset);
        if group.first_seq != expected {
            report.found(
                &*file,
                format!(
                    "group at byte {at} begins with sequence {}, expected {expected}: what is between was \
                     never logged, a later checkpoint has it",
                    group.first_seq
                ),
            );
        }
        let mut commands = Commands::new(group.commands);
        if !commands.reaches_end() {
            let byte = commands.offset();
            let text =
                format!("group at byte {at}: no command at byte {byte} of the group's commands");
            report.found(file, text);
        }
    }
    Ok(())
}

/// Point-in-time recovery: the log ends with the last write of `time_s`.
fn cut_at_time(
    recovery: Recovery,
    time_s: u64,
    location: &LogLocation,
    report: &mut CheckReport,
) -> Result<(), EngineError> {
    if !report.findings.is_empty() {
        report.notes.push("the log was not cut: first what is wrong must be mended".into());
        return Ok(());
    }
    let Some(later_s) = recovery.ended_before_s() else {
        match report.logged_s {
            Some((_, last_s)) => report
                .notes
                .push(format!("nothing was cut off: the last write of the log is of {last_s}")),
            None => report.found(
                &location.dir,
                "it cannot be cut at a time: no write in it has one (aof-timestamp-enabled no)",
            ),
        }
        return Ok(());
    };
    if report.logged_s.is_none() {
        // The tables may hold later writes already, and nothing can take those back.
        report.found(
            &location.dir,
            format!(
                "the log behind the tables begins at {later_s}, after {time_s}: restore an earlier \
                 checkpoint and the log behind that"
            ),
        );
        return Ok(());
    }
    let cut = recovery.finish_and_empty()?;
    let text = format!("the first write that was cut off is of {later_s}");
    report.notes.extend(cut.map(|cut| told(&cut, report.logged_seq)).into_iter().chain([text]));
    Ok(())
}

fn told(cut: &TailCut, last_seq: u64) -> String {
    format!(
        "{} was cut at byte {}, {} bytes are lost; the last sequence is {last_seq}",
        cut.file.display(),
        cut.offset,
        cut.lost_bytes
    )
}
